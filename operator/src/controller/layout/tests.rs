//! Each step from each state, as a table. That whole sequences end well is `plan`'s property test.

mod neighbours;

use super::*;

const WINDOW: Duration = Duration::from_secs(600);
const DRAIN: Duration = Duration::from_secs(1);
const WARM: Pace = Pace {
    window: Some(WINDOW),
    drain: DRAIN,
};
const IMMEDIATE: Pace = Pace {
    window: Some(Duration::ZERO),
    drain: DRAIN,
};
const TOO_LARGE: Pace = Pace {
    window: None,
    drain: DRAIN,
};

/// `pods` pods of which the first `ready` are ready.
fn live(used: Used, pods: i32, ready: i32, routers_follow: bool) -> Live {
    Live {
        used: Some(used),
        pods: Some(pods),
        existing: pods,
        ready: (0..ready).collect(),
        told: BTreeMap::new(),
        routers_follow,
        serving: true,
    }
}

/// When every step of these tests began.
const SINCE: i64 = 7;

fn past(from: i32, to: i32, phase: ScalingPhase, age: Duration) -> Option<Past> {
    Some(Past {
        step: Step { from, to, phase },
        since: SINCE,
        age,
    })
}

/// The nodes that have confirmed in this step that they are in a pool of `size`.
fn told(nodes: Range<i32>, size: i32) -> BTreeMap<i32, Told> {
    let epoch = Some(SINCE);
    nodes.map(|node| (node, Told { size, epoch })).collect()
}

fn layout(pods: i32, used: Used, from: i32, to: i32, phase: ScalingPhase) -> Layout {
    Layout {
        pods,
        used,
        step: Some(Step { from, to, phase }),
        telling: None,
    }
}

impl Layout {
    fn telling(self, nodes: Range<i32>, size: i32) -> Self {
        Self {
            telling: Some(Telling::new(nodes, size, Some(SINCE))),
            ..self
        }
    }

    /// The end, where whoever was not told yet is told.
    fn end(nodes: i32) -> Self {
        Self {
            telling: Some(Telling::new(0..nodes, nodes, None)),
            ..Self::settled(nodes)
        }
    }
}

#[test]
fn a_region_grows_step_by_step() {
    let three = Used::only(3);
    let next = Used::next(3, 5);
    let both = Used::warm(5, 3);
    let last = Used::last(5, 3);
    let five = Used::only(5);
    let old = Duration::from_secs(60);
    let table = [
        (
            "pods come first",
            live(three, 3, 3, true),
            None,
            layout(5, three, 3, 5, Provisioning),
        ),
        (
            "every new pod is waited for",
            live(three, 5, 4, true),
            None,
            layout(5, three, 3, 5, Provisioning),
        ),
        (
            "and every router that runs something else",
            live(three, 5, 5, false),
            None,
            layout(5, three, 3, 5, Provisioning),
        ),
        (
            "then they write to the new layout too",
            live(three, 5, 5, true),
            past(3, 5, Provisioning, old),
            layout(5, next, 3, 5, Mirroring),
        ),
        (
            "also while that is not seen yet",
            live(three, 5, 5, true),
            past(3, 5, Mirroring, old),
            layout(5, next, 3, 5, Mirroring),
        ),
        (
            "until all do",
            live(next, 5, 5, false),
            past(3, 5, Mirroring, old),
            layout(5, next, 3, 5, Mirroring),
        ),
        (
            "which is waited for again when nobody wrote down that they do",
            live(next, 5, 5, true),
            past(3, 5, Provisioning, old),
            layout(5, next, 3, 5, Mirroring),
        ),
        (
            "then they do",
            live(next, 5, 4, true),
            past(3, 5, Mirroring, old),
            layout(5, next, 3, 5, Clearing),
        ),
        (
            "the last answers are waited for",
            live(next, 5, 5, true),
            past(3, 5, Clearing, DRAIN / 2),
            layout(5, next, 3, 5, Clearing),
        ),
        (
            "the new nodes are told that they own nothing yet",
            live(next, 5, 5, true),
            past(3, 5, Clearing, DRAIN),
            layout(5, next, 3, 5, Clearing).telling(3..5, 3),
        ),
        (
            "a router that is away for a moment does not begin that anew",
            live(next, 5, 5, false),
            past(3, 5, Clearing, DRAIN),
            layout(5, next, 3, 5, Clearing).telling(3..5, 3),
        ),
        (
            "each of them must confirm",
            Live {
                told: told(3..4, 3),
                ..live(next, 5, 5, true)
            },
            past(3, 5, Clearing, DRAIN),
            layout(5, next, 3, 5, Clearing).telling(3..5, 3),
        ),
        (
            "what was confirmed at another time does not count",
            Live {
                told: told(3..5, 3),
                ..live(next, 5, 5, true)
            },
            past(3, 5, Clearing, DRAIN).map(|past| Past { since: 8, ..past }),
            Layout {
                telling: Some(Telling::new(3..5, 3, Some(8))),
                ..layout(5, next, 3, 5, Clearing)
            },
        ),
        (
            "then both layouts are read",
            Live {
                told: told(3..5, 3),
                ..live(next, 5, 5, true)
            },
            past(3, 5, Clearing, DRAIN),
            layout(5, both, 3, 5, Warming),
        ),
        (
            "also when that is not seen yet",
            live(next, 5, 5, true),
            past(3, 5, Warming, Duration::ZERO),
            layout(5, both, 3, 5, Warming),
        ),
        (
            "for the window",
            live(both, 5, 5, true),
            past(3, 5, Warming, WINDOW - old),
            layout(5, both, 3, 5, Warming),
        ),
        (
            "which begins anew when nobody wrote down when it began",
            live(both, 5, 5, true),
            past(3, 5, Provisioning, WINDOW),
            layout(5, both, 3, 5, Warming),
        ),
        (
            "and longer while a new node is away",
            live(both, 5, 4, true),
            past(3, 5, Warming, WINDOW),
            layout(5, both, 3, 5, Warming),
        ),
        (
            "or a router still uses the old layout alone",
            live(both, 5, 5, false),
            past(3, 5, Warming, WINDOW),
            layout(5, both, 3, 5, Warming),
        ),
        (
            "then the new one alone, and the old one is still written to",
            live(both, 5, 5, true),
            past(3, 5, Warming, WINDOW),
            layout(5, last, 3, 5, Turning),
        ),
        (
            "also while that is not seen yet",
            live(both, 5, 5, true),
            past(3, 5, Turning, old),
            layout(5, last, 3, 5, Turning),
        ),
        (
            "for as long as a request may be on its way",
            live(last, 5, 5, true),
            past(3, 5, Turning, DRAIN / 2),
            layout(5, last, 3, 5, Turning),
        ),
        (
            "and a router may still ask the old one",
            live(last, 5, 5, false),
            past(3, 5, Turning, old),
            layout(5, last, 3, 5, Turning),
        ),
        (
            "then it is no longer written to",
            live(last, 5, 4, true),
            past(3, 5, Turning, old),
            layout(5, five, 3, 5, Switching),
        ),
        (
            "also while that is not seen yet",
            live(last, 5, 5, true),
            past(3, 5, Switching, old),
            layout(5, five, 3, 5, Switching),
        ),
        (
            "until every router does",
            live(five, 5, 5, false),
            past(3, 5, Switching, old),
            layout(5, five, 3, 5, Switching),
        ),
        (
            "then the last requests to the old one are waited for",
            live(five, 5, 5, true),
            past(3, 5, Switching, old),
            layout(5, five, 3, 5, Purging),
        ),
        (
            "and every node is told what is its own",
            live(five, 5, 5, true),
            past(3, 5, Purging, DRAIN),
            layout(5, five, 3, 5, Purging).telling(0..5, 5),
        ),
        (
            "also one that is down, when it is back",
            Live {
                told: told(1..5, 5),
                ..live(five, 5, 5, true)
            },
            past(3, 5, Purging, WINDOW),
            layout(5, five, 3, 5, Purging).telling(0..5, 5),
        ),
        (
            "and that is the end",
            Live {
                told: told(0..5, 5),
                ..live(five, 5, 5, true)
            },
            past(3, 5, Purging, old),
            Layout::end(5),
        ),
    ];
    for (case, live, past, expected) in table {
        assert_eq!(Layout::next(5, WARM, &live, past), expected, "{case}");
    }
}

#[test]
fn a_region_shrinks_step_by_step() {
    let five = Used::only(5);
    let next = Used::next(5, 3);
    let both = Used::warm(3, 5);
    let last = Used::last(3, 5);
    let three = Used::only(3);
    let table = [
        (
            "the nodes that stay get what others own",
            live(five, 5, 5, true),
            None,
            layout(5, next, 5, 3, Mirroring),
        ),
        (
            "and drop what they may have of it",
            live(next, 5, 5, true),
            past(5, 3, Clearing, DRAIN),
            layout(5, next, 5, 3, Clearing).telling(0..3, 5),
        ),
        (
            "then the old layout is still asked",
            Live {
                told: told(0..3, 5),
                ..live(next, 5, 5, true)
            },
            past(5, 3, Clearing, DRAIN),
            layout(5, both, 5, 3, Warming),
        ),
        (
            "a node that stays may be down",
            live(both, 5, 2, true),
            past(5, 3, Warming, WINDOW),
            layout(5, last, 5, 3, Turning),
        ),
        (
            "then it is no longer written to",
            live(last, 5, 2, true),
            past(5, 3, Turning, DRAIN),
            layout(5, three, 5, 3, Switching),
        ),
        (
            "pods wait for every router",
            live(three, 5, 5, false),
            past(5, 3, Switching, WINDOW),
            layout(5, three, 5, 3, Switching),
        ),
        (
            "then for the last answers",
            live(three, 5, 5, true),
            past(5, 3, Switching, WINDOW),
            layout(5, three, 5, 3, Draining),
        ),
        (
            "a router that falls back stops that",
            live(three, 5, 5, false),
            past(5, 3, Draining, DRAIN),
            layout(5, three, 5, 3, Switching),
        ),
        (
            "then they go",
            live(three, 5, 5, true),
            past(5, 3, Draining, DRAIN),
            layout(3, three, 5, 3, Shrinking),
        ),
        (
            "until the last is gone",
            Live {
                existing: 4,
                ..live(three, 3, 4, true)
            },
            past(5, 3, Shrinking, DRAIN),
            layout(3, three, 5, 3, Shrinking),
        ),
        (
            "what is no longer theirs leaves the others",
            live(three, 3, 3, true),
            past(5, 3, Shrinking, DRAIN),
            layout(3, three, 5, 3, Purging),
        ),
        (
            "and that is the end",
            Live {
                told: told(0..3, 3),
                ..live(three, 3, 3, true)
            },
            past(5, 3, Purging, DRAIN),
            Layout::end(3),
        ),
    ];
    for (case, live, past, expected) in table {
        assert_eq!(Layout::next(3, WARM, &live, past), expected, "{case}");
    }
}

#[test]
fn who_changes_the_target_half_way_goes_back_to_the_layout_that_is_complete() {
    let three = Used::only(3);
    let both = Used::warm(6, 3);
    let back = Used::next(3, 6);
    let minute = Duration::from_secs(60);
    let table = [
        (
            "more pods than wanted stay until the end",
            live(three, 6, 4, true),
            past(3, 6, Provisioning, minute),
            layout(6, Used::next(3, 4), 3, 4, Mirroring),
        ),
        (
            "what is only written to is given up",
            live(back, 6, 6, true),
            past(3, 6, Mirroring, minute),
            layout(6, back, 6, 3, Returning),
        ),
        (
            "warming ends without a switch",
            live(both, 6, 6, true),
            past(3, 6, Warming, minute),
            layout(6, back, 6, 3, Returning),
        ),
        (
            "also while that is not seen yet",
            live(both, 6, 6, true),
            past(6, 3, Returning, minute),
            layout(6, back, 6, 3, Returning),
        ),
        (
            "every router is waited for",
            live(back, 6, 6, false),
            past(6, 3, Returning, minute),
            layout(6, back, 6, 3, Returning),
        ),
        (
            "and its last answers",
            live(back, 6, 6, true),
            past(6, 3, Returning, DRAIN / 2),
            layout(6, back, 6, 3, Returning),
        ),
        (
            "then the old layout is alone",
            live(back, 6, 6, true),
            past(6, 3, Returning, DRAIN),
            layout(6, three, 6, 3, Switching),
        ),
        (
            "every router is waited for again",
            live(three, 6, 6, false),
            past(6, 3, Switching, minute),
            layout(6, three, 3, 4, Provisioning),
        ),
        (
            "and it begins again",
            live(three, 6, 6, true),
            past(3, 4, Provisioning, minute),
            layout(6, Used::next(3, 4), 3, 4, Mirroring),
        ),
        (
            "with nodes that have to forget, which they do",
            Live {
                told: told(3..4, 3),
                ..live(Used::next(3, 4), 6, 6, true)
            },
            past(3, 4, Clearing, minute),
            layout(6, Used::warm(4, 3), 3, 4, Warming),
        ),
        (
            "there is no way back when the old layout is no longer read",
            live(Used::last(6, 3), 6, 6, true),
            past(3, 6, Turning, minute),
            layout(6, Used::only(6), 3, 6, Switching),
        ),
        (
            "and ends with the pods that are too many",
            live(Used::only(4), 6, 6, true),
            past(3, 4, Draining, minute),
            layout(4, Used::only(4), 3, 4, Shrinking),
        ),
    ];
    for (case, live, past, expected) in table {
        assert_eq!(Layout::next(4, WARM, &live, past), expected, "{case}");
    }
}

#[test]
fn immediate_takes_every_step_and_waits_in_none_for_longer_than_a_request_may_take() {
    let both = live(Used::warm(5, 3), 5, 5, true);
    let last = layout(5, Used::last(5, 3), 3, 5, Turning);
    let warming = layout(5, Used::warm(5, 3), 3, 5, Warming);
    let after = |age| Layout::next(5, IMMEDIATE, &both, past(3, 5, Warming, age));
    assert_eq!(after(DRAIN), last);
    assert_eq!(after(DRAIN / 2), warming);
}

#[test]
fn where_two_layouts_are_too_large_there_is_only_ever_one() {
    let three = Used::only(3);
    let clearing = past(3, 5, Clearing, DRAIN);
    let cleared = |used| Live {
        told: told(3..5, 3),
        ..live(used, 5, 5, true)
    };
    let next = |live, past| Layout::next(5, TOO_LARGE, &live, past);
    let switched = layout(5, Used::only(5), 3, 5, Switching);
    assert_eq!(
        next(live(three, 5, 5, true), None),
        layout(5, three, 3, 5, Clearing)
    );
    assert_eq!(
        next(live(three, 5, 5, true), clearing),
        layout(5, three, 3, 5, Clearing).telling(3..5, 3)
    );
    assert_eq!(next(cleared(three), clearing), switched);
    // They have become too large.
    assert_eq!(next(cleared(Used::next(3, 5)), clearing), switched);
    let warming = past(3, 5, Warming, Duration::ZERO);
    assert_eq!(next(live(Used::warm(5, 3), 5, 5, true), warming), switched);
    // They no longer are: what was cleared before routers wrote to both is cleared again.
    assert_eq!(
        Layout::next(5, WARM, &cleared(three), clearing),
        layout(5, Used::next(3, 5), 3, 5, Mirroring)
    );
}

#[test]
fn a_region_that_is_as_wanted_is_left_alone() {
    let three = Used::only(3);
    let nobody = Live {
        pods: Some(3),
        existing: 0,
        ..live(three, 3, 0, false)
    };
    let table = [
        ("nothing exists yet", Live::default()),
        ("an unready pod changes nothing", live(three, 3, 0, true)),
        (
            "routers that are away change nothing",
            live(three, 3, 3, false),
        ),
        (
            "pods that were scaled away by hand come back",
            live(three, 1, 1, true),
        ),
        ("no pod at all", nobody),
    ];
    for (case, live) in table {
        let expected = if live.routers_follow {
            Layout::end(3)
        } else {
            Layout::settled(3)
        };
        assert_eq!(Layout::next(3, WARM, &live, None), expected, "{case}");
    }
}

#[test]
fn a_region_that_is_new_is_used_when_all_its_nodes_are_there() {
    let new = Live {
        serving: true,
        ..Live::default()
    };
    let none = Used::only(0);
    assert_eq!(
        Layout::next(2, WARM, &new, None),
        layout(2, none, 0, 2, Provisioning)
    );
    assert_eq!(
        Layout::next(2, WARM, &live(none, 2, 1, true), None),
        layout(2, none, 0, 2, Provisioning)
    );
    let back = live(none, 2, 2, true);
    let clearing = past(0, 2, Clearing, DRAIN);
    assert_eq!(
        Layout::next(2, WARM, &back, clearing),
        layout(2, none, 0, 2, Clearing).telling(0..2, 0),
        "it may have been there before"
    );
    let cleared = Live {
        told: told(0..2, 0),
        ..back
    };
    assert_eq!(
        Layout::next(2, WARM, &cleared, clearing),
        layout(2, Used::only(2), 0, 2, Switching)
    );
}

#[test]
fn a_configuration_that_was_deleted_comes_back_as_the_step_had_it() {
    let without = |pods| Live {
        used: None,
        ..live(Used::default(), pods, pods, false)
    };
    let age = Duration::from_secs(1);
    let table = [
        (3, 3, None, Layout::settled(3)),
        (5, 3, None, layout(5, Used::only(3), 3, 5, Provisioning)),
        (
            5,
            5,
            past(3, 5, Provisioning, age),
            layout(5, Used::only(3), 3, 5, Provisioning),
        ),
        (
            5,
            5,
            past(3, 5, Clearing, DRAIN),
            layout(5, Used::next(3, 5), 3, 5, Clearing).telling(3..5, 3),
        ),
        (
            5,
            5,
            past(3, 5, Warming, age),
            layout(5, Used::warm(5, 3), 3, 5, Warming),
        ),
        (
            3,
            5,
            past(5, 3, Draining, age),
            layout(5, Used::only(3), 5, 3, Switching),
        ),
    ];
    for (desired, pods, past, expected) in table {
        assert_eq!(
            Layout::next(desired, WARM, &without(pods), past),
            expected,
            "{desired} of {pods}, {past:?}"
        );
    }
}
