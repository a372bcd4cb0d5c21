//! No client. How many nodes a region has and which of them its routers use, while it grows or shrinks.
//!
//! ```text
//!  3 to 5          pods  routers use                            until
//!  Provisioning    5     3                                      the new nodes are ready
//!  Mirroring       5     3, and write to 5 as well              every router runs it
//!  Clearing        5     3, and write to 5 as well              the new nodes have dropped what they had before
//!  Warming         5     5, and 3 where 5 misses; write to both the window is over
//!  Turning         5     5, and write to 3 as well              every router runs it
//!  Switching       5     5                                      every router runs it
//!  Purging         5     5                                      every node has dropped what is not its own of 5
//!
//!  5 to 3          pods  routers use                            until
//!  Mirroring       5     5, and write to 3 as well              every router runs it
//!  Clearing        5     5, and write to 3 as well              the nodes that stay have dropped what is not their own of 5
//!  Warming         5     3, and 5 where 3 misses; write to both the window is over
//!  Turning         5     3, and write to 5 as well              every router runs it
//!  Switching       5     3                                      every router runs it
//!  Draining        5     3                                      the slowest answer has come
//!  Shrinking       3     3                                      the last pods are gone
//!  Purging         3     3                                      every node has dropped what is not its own of 3
//! ```
//!
//! Why routers that are one step apart agree is said, pair by pair, in [`used`].
//!
//! Each step is decided from what there is: the live configuration, the pods, what nodes were told, and when the status says
//! that the step began. So an operator that dies goes on where it was, and so does one that was told something else half-way.
//!
//! - Pods come before the configuration names them and go after no router does. A pod that is merely unready takes
//!   nothing back: readiness is asked for on the way forward only.
//! - A configuration changes only when every router runs it, and has for as long as a request may be on its way: no two are
//!   live at once that are not neighbours.
//! - Until the window is over the old layout stays complete, because writes go to both. Who changes the target then goes back to
//!   it (Returning: it alone is read, both are written to), and starts from there; later, the change is ended first.
//! - A node gets no key of which it may have an old value. Before routers read a layout, each node to which it gives more has
//!   dropped what was another's in the layout before, and it did so when every router had written to both for as long as a
//!   request may be on its way: what a router writes to both, one that does not yet may overwrite in the old one alone. That
//!   is what Clearing is for; Purging only gives space back, and does it before it matters. Both are told with the moment at
//!   which the step began, so that no purge of an earlier time is taken for this one.
//! - A region that is new has no old layout, and a configuration that would be too large with two is never made: routers then
//!   turn from the old to the new one in one step, and may not agree meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use crate::crd::ScalingPhase::{
    self, Clearing, Draining, Mirroring, Provisioning, Purging, Returning, Shrinking, Switching,
    Turning, Warming,
};

pub mod used;

pub use used::{Beside, Used};

/// How fast regions grow and shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// How long what the new layout misses is looked up in the old one. When missing, no two layouts are ever used at once.
    pub window: Option<Duration>,
    /// How long a request may be on its way after the last router has left a configuration.
    pub drain: Duration,
}

/// What a region looks like now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Live {
    /// What the live configuration uses; none without a configuration.
    pub used: Option<Used>,
    /// Pods that the live `StatefulSet` was told to have; none without one.
    pub pods: Option<i32>,
    /// Pods that there still are.
    pub existing: i32,
    /// Numbers of the pods that are ready.
    pub ready: BTreeSet<i32>,
    /// What nodes were told, and have confirmed.
    pub told: BTreeMap<i32, Told>,
    /// Whether every router of every region that is built here runs the live configuration.
    pub routers_follow: bool,
    /// Whether clients are served already: then a region that is new waits for its nodes.
    pub serving: bool,
}

/// What a node was told about its place in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Nodes of the pool.
    pub size: i32,
    /// When the step began in which it was told, in Unix seconds; missing when that does not matter.
    pub epoch: Option<i64>,
}

/// Nodes that shall be told their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Telling {
    /// The first of them.
    pub first: i32,
    /// The one after the last.
    pub end: i32,
    /// What.
    pub told: Told,
}

impl Telling {
    fn new(nodes: Range<i32>, size: i32, epoch: Option<i64>) -> Self {
        Self {
            first: nodes.start,
            end: nodes.end,
            told: Told { size, epoch },
        }
    }

    /// The nodes.
    pub fn nodes(self) -> Range<i32> {
        self.first..self.end
    }

    fn is_confirmed(self, live: &Live) -> bool {
        self.nodes()
            .all(|node| live.told.get(&node) == Some(&self.told))
    }
}

/// A step of a change of size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Nodes that routers used before.
    pub from: i32,
    /// Nodes that they use afterwards.
    pub to: i32,
    /// Which step.
    pub phase: ScalingPhase,
}

impl Step {
    /// What routers use in this step.
    fn used(self, pace: Pace) -> Used {
        let Self { from, to, phase } = self;
        match phase {
            Clearing if !has_two_layouts(from, pace) => Used::only(from),
            Provisioning => Used::only(from),
            Mirroring | Clearing => Used::next(from, to),
            Warming => Used::warm(to, from),
            Turning => Used::last(to, from),
            Returning => Used::next(to, from),
            Switching | Draining | Shrinking | Purging => Used::only(to),
        }
    }

    /// Whether routers were told to use what this step needs after they were told `seen`.
    fn is_after(self, seen: Used, pace: Pace) -> bool {
        // It began when its configuration had been seen.
        if self.phase == Clearing {
            return false;
        }
        let used = self.used(pace);
        let is_after = |way: &[Used]| {
            let at = |used| way.iter().position(|step| *step == used);
            at(seen).is_some_and(|seen| at(used).is_some_and(|used| seen < used))
        };
        is_after(&Used::way(self.from, self.to)) || is_after(&Used::way_back(self.from, self.to))
    }
}

/// The step that was under way when the status was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    /// Which step.
    pub step: Step,
    /// When it began, in Unix seconds.
    pub since: i64,
    /// How long ago that is.
    pub age: Duration,
}

/// What a region shall look like next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Pods of the `StatefulSet`.
    pub pods: i32,
    /// What the configuration uses of them.
    pub used: Used,
    /// What is waited for, if this is not the end.
    pub step: Option<Step>,
    /// Who is told what, if this is a moment at which somebody may be.
    pub telling: Option<Telling>,
}

impl Layout {
    /// A region that nobody uses yet, and one that is built elsewhere: as wanted, at once.
    pub fn settled(desired: i32) -> Self {
        Self {
            pods: desired,
            used: Used::only(desired),
            step: None,
            telling: None,
        }
    }

    /// The next step of `live` towards `desired` nodes.
    pub fn next(desired: i32, pace: Pace, live: &Live, past: Option<Past>) -> Self {
        let seen = live
            .used
            .unwrap_or_else(|| live.without_configuration(desired, pace, past));
        // What was written last may not be seen yet: a watch may be cut for a while.
        if let Some(past) = past.filter(|past| past.step.is_after(seen, pace)) {
            let Step { from, to, phase } = past.step;
            return step(live, past.step.used(pace), from, to, phase);
        }
        let servers = seen.servers;
        match seen.beside {
            None if servers == desired => finish(desired, pace, live, past),
            None => start(desired, servers, pace, live, past),
            Some(Beside::Next(new)) if new == desired => prepare(servers, new, pace, live, past),
            Some(Beside::Next(new)) => give_up(servers, new, pace, live, past),
            Some(Beside::Warm(old)) if servers == desired => warm(desired, old, pace, live, past),
            Some(Beside::Warm(old)) => {
                step(live, Used::next(old, servers), servers, old, Returning)
            }
            Some(Beside::Last(old)) => turn(servers, old, pace, live, past),
        }
    }
}

/// How long ago `step` began, if it is the one that is under way.
fn age_of(step: Step, past: Option<Past>) -> Option<Duration> {
    past.filter(|past| past.step == step).map(|past| past.age)
}

/// Whether both layouts are used on the way. Nobody knows a region that is new: it has no layout to come from.
fn has_two_layouts(from: i32, pace: Pace) -> bool {
    pace.window.is_some() && from > 0
}

/// A step that takes no pod away.
fn step(live: &Live, used: Used, from: i32, to: i32, phase: ScalingPhase) -> Layout {
    let needed = from.max(to).max(used.most());
    Layout {
        pods: live.pods.map_or(needed, |pods| pods.max(needed)),
        used,
        step: Some(Step { from, to, phase }),
        telling: None,
    }
}

/// From `servers` nodes, which routers use alone, towards `desired`.
fn start(desired: i32, servers: i32, pace: Pace, live: &Live, past: Option<Past>) -> Layout {
    let waiting = |phase| step(live, Used::only(servers), servers, desired, phase);
    let new_are_ready = (servers..desired).all(|node| live.ready.contains(&node));
    if !new_are_ready || live.pods.is_none_or(|pods| pods < desired) {
        return waiting(Provisioning);
    }
    let clearing = Step {
        from: servers,
        to: desired,
        phase: Clearing,
    };
    let two = has_two_layouts(servers, pace);
    // Routers that use something else might still write to the nodes that are cleared.
    if !live.routers_follow && (two || age_of(clearing, past).is_none()) {
        return waiting(Provisioning);
    }
    if two {
        return step(
            live,
            Used::next(servers, desired),
            servers,
            desired,
            Mirroring,
        );
    }
    let waiting = waiting(Clearing);
    clear(waiting, gaining(servers, desired), pace, live, past)
        .unwrap_or_else(|| step(live, Used::only(desired), servers, desired, Switching))
}

/// Every router writes to both layouts and reads that of `old` nodes, and those of `new` that gain keys are cleared.
fn prepare(old: i32, new: i32, pace: Pace, live: &Live, past: Option<Past>) -> Layout {
    let waiting = |phase| step(live, Used::next(old, new), old, new, phase);
    let under_way = past.filter(|past| (past.step.from, past.step.to) == (old, new));
    match under_way.map(|past| past.step.phase) {
        Some(Mirroring) if live.routers_follow => waiting(Clearing),
        Some(Clearing) => clear(waiting(Clearing), gaining(old, new), pace, live, past)
            .unwrap_or_else(|| match pace.window {
                Some(_) => step(live, Used::warm(new, old), old, new, Warming),
                None => step(live, Used::only(new), old, new, Switching),
            }),
        _ => waiting(Mirroring),
    }
}

/// `waiting`, in which `nodes` are told when the last requests have arrived; `None` when all have confirmed.
fn clear(
    waiting: Layout,
    nodes: Range<i32>,
    pace: Pace,
    live: &Live,
    past: Option<Past>,
) -> Option<Layout> {
    let past = past.filter(|past| waiting.step == Some(past.step));
    let telling = past.map(|past| Telling::new(nodes, waiting.used.servers, Some(past.since)));
    let age = past.map_or(Duration::ZERO, |past| past.age);
    let cleared = telling.is_some_and(|telling| telling.is_confirmed(live));
    let is_over = cleared && live.routers_follow;
    (!is_over).then_some(Layout {
        telling: telling.filter(|_| age >= pace.drain),
        ..waiting
    })
}

/// The target is another one now: from the layout of `new` nodes, that is written to as well, back to that of `old` alone.
fn give_up(old: i32, new: i32, pace: Pace, live: &Live, past: Option<Past>) -> Layout {
    let returning = Step {
        from: new,
        to: old,
        phase: Returning,
    };
    let is_over = age_of(returning, past).is_some_and(|age| age >= pace.drain);
    if is_over && live.routers_follow {
        step(live, Used::only(old), new, old, Switching)
    } else {
        step(live, Used::next(old, new), new, old, Returning)
    }
}

/// The nodes that have keys in a pool of `new` that were others' in a pool of `old`: Ch3 gives keys to those that come, or
/// spreads those of the nodes that go over all that stay.
fn gaining(old: i32, new: i32) -> Range<i32> {
    if new > old { old..new } else { 0..new }
}

/// Both layouts are read. The new nodes must be there when it ends, or what they were given would be missed.
fn warm(desired: i32, old: i32, pace: Pace, live: &Live, past: Option<Past>) -> Layout {
    let warming = Step {
        from: old,
        to: desired,
        phase: Warming,
    };
    let age = age_of(warming, past).unwrap_or_default();
    let new_are_ready = (old..desired).all(|node| live.ready.contains(&node));
    let window = pace.window.map(|window| window.max(pace.drain));
    if age < window.unwrap_or_default() || !live.routers_follow || !new_are_ready {
        return step(live, Used::warm(desired, old), old, desired, Warming);
    }
    match window {
        Some(_) => step(live, Used::last(desired, old), old, desired, Turning),
        None => step(live, Used::only(desired), old, desired, Switching),
    }
}

/// The layout of `new` nodes alone is read, that of `old` still written to. Whatever the target is now: what was counted
/// meanwhile is in the new one alone.
fn turn(new: i32, old: i32, pace: Pace, live: &Live, past: Option<Past>) -> Layout {
    let turning = Step {
        from: old,
        to: new,
        phase: Turning,
    };
    let is_over = age_of(turning, past).is_some_and(|age| age >= pace.drain);
    if is_over && live.routers_follow {
        step(live, Used::only(new), old, new, Switching)
    } else {
        step(live, Used::last(new, old), old, new, Turning)
    }
}

/// Routers were told to use `desired` nodes alone: what is left is to remove the others, and what they left behind.
fn finish(desired: i32, pace: Pace, live: &Live, past: Option<Past>) -> Layout {
    let used = Used::only(desired);
    let past = past.filter(|past| past.step.to == desired);
    let pods = live.pods.unwrap_or(desired);
    let from = past.map_or(pods.max(live.existing), |past| past.step.from);
    let follow = live.used == Some(used) && live.routers_follow;
    let drained = past.is_some_and(|past| past.step.phase == Draining && past.age >= pace.drain);
    let at = |pods, phase| Layout {
        pods,
        used,
        step: Some(Step {
            from,
            to: desired,
            phase,
        }),
        telling: None,
    };
    if pods > desired {
        return match (follow, drained) {
            (false, _) => at(pods, Switching),
            (true, false) => at(pods, Draining),
            (true, true) => at(desired, Shrinking),
        };
    }
    if live.existing > desired {
        return at(desired, Shrinking);
    }
    let purging = past.filter(|past| past.step.phase == Purging);
    let everybody = |epoch| Telling::new(0..desired, desired, epoch);
    match (past, purging) {
        (Some(_), Some(purging)) if !everybody(Some(purging.since)).is_confirmed(live) => Layout {
            telling: (follow && purging.age >= pace.drain).then(|| everybody(Some(purging.since))),
            ..at(desired, Purging)
        },
        (Some(_), None) if follow => at(desired, Purging),
        (Some(_), None) => at(desired, Switching),
        // Whoever has a new volume, say, is told too.
        (Some(_), Some(_)) | (None, _) => Layout {
            telling: follow.then(|| everybody(None)),
            ..Layout::settled(desired)
        },
    }
}

impl Live {
    /// What to use where somebody deleted the configuration, or where there was none yet.
    fn without_configuration(&self, desired: i32, pace: Pace, past: Option<Past>) -> Used {
        match (past.map(|past| past.step), self.pods) {
            (Some(step), _) => step.used(pace),
            (None, Some(pods)) => Used::only(desired.min(pods)),
            (None, None) if self.serving => Used::only(0),
            (None, None) => Used::only(desired),
        }
    }
}

#[cfg(test)]
mod tests;
