//! No client. How many nodes a region has and which of them its routers use, while it grows or shrinks.
//!
//! ```text
//!  3 to 5          pods  routers use                 until
//!  Provisioning    5     3                           the new nodes are ready
//!  Clearing        5     3                           the new nodes have dropped everything
//!  Warming         5     5, and 3 where 5 misses     the window is over
//!  Switching       5     5                           every router runs it
//!  Purging         5     5                           every node has dropped what is not its own of 5
//!
//!  5 to 3          pods  routers use                 until
//!  Clearing        5     5                           the nodes that stay have dropped what is not their own of 5
//!  Warming         5     3, and 5 where 3 misses     the window is over
//!  Switching       5     3                           every router runs it
//!  Draining        5     3                           the slowest answer has come
//!  Shrinking       3     3                           the last pods are gone
//!  Purging         3     3                           every node has dropped what is not its own of 3
//! ```
//!
//! Each step is decided from what there is: the live configuration, the pods, what nodes were told, and when the status says
//! that the step began. So an operator that dies goes on where it was, and so does one that was told something else half-way.
//!
//! - Pods come before the configuration names them and go after no router does. A pod that is merely unready takes
//!   nothing back: readiness is asked for on the way forward only.
//! - While both layouts are used the old one stays complete, because writes go to both. Who changes the target then goes back
//!   to the old one, and starts from there.
//! - A node gets no key of which it may have an old value. Before routers use a layout, each node to which it gives more has
//!   dropped what was another's in the layout before, and it did so when every router had used that one alone for as long as a
//!   request may be on its way. That is what Clearing is for; Purging only gives space back, and does it before it matters.
//!   Both are told with the moment at which the step began, so that no purge of an earlier time is taken for this one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use crate::crd::ScalingPhase::{
    self, Clearing, Draining, Provisioning, Purging, Shrinking, Switching, Warming,
};

/// How fast regions grow and shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// How long both layouts are used; not at all when missing.
    pub window: Option<Duration>,
    /// How long a request may be on its way after the last router has left a layout.
    pub drain: Duration,
}

/// The nodes that a configuration uses: always the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Used {
    /// Servers that keys are hashed to.
    pub servers: i32,
    /// Servers that keys were hashed to before, asked for what the others miss.
    pub warm: Option<i32>,
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
        let used = live
            .used
            .unwrap_or_else(|| live.without_configuration(desired, past));
        match used.warm {
            Some(old) if used.servers == desired => warm(desired, old, pace, live, past),
            Some(old) => step(live, Used::only(old), used.servers, old, Switching),
            None if used.servers == desired => finish(desired, pace, live, past),
            None => start(desired, used.servers, pace, live, past),
        }
    }
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

/// From `servers` nodes towards `desired`.
fn start(desired: i32, servers: i32, pace: Pace, live: &Live, past: Option<Past>) -> Layout {
    let waiting = |phase| step(live, Used::only(servers), servers, desired, phase);
    let begun = past.filter(|past| (past.step.from, past.step.to) == (servers, desired));
    let clearing = begun.filter(|past| past.step.phase == Clearing);
    let new_are_ready = (servers..desired).all(|node| live.ready.contains(&node));
    if !new_are_ready || live.pods.is_none_or(|pods| pods < desired) {
        return waiting(Provisioning);
    }
    // Routers that use something else might still write to the nodes that are cleared.
    if clearing.is_none() && !live.routers_follow {
        return waiting(Provisioning);
    }
    // What was written last may not be seen yet.
    let is_past = begun.is_some_and(|past| matches!(past.step.phase, Warming | Switching));
    if !is_past {
        let telling =
            clearing.map(|past| Telling::new(gaining(servers, desired), servers, Some(past.since)));
        let age = clearing.map_or(Duration::ZERO, |past| past.age);
        let cleared = telling.is_some_and(|telling| telling.is_confirmed(live));
        if !cleared || !live.routers_follow {
            return Layout {
                telling: telling.filter(|_| age >= pace.drain),
                ..waiting(Clearing)
            };
        }
    }
    // Nobody knows a region that is new: there is nothing to warm it from.
    if pace.window.is_none() || servers == 0 {
        return step(live, Used::only(desired), servers, desired, Switching);
    }
    step(
        live,
        Used::both(desired, servers),
        servers,
        desired,
        Warming,
    )
}

/// The nodes that have keys in a pool of `new` that were others' in a pool of `old`: Ch3 gives keys to those that come, or
/// spreads those of the nodes that go over all that stay.
fn gaining(old: i32, new: i32) -> Range<i32> {
    if new > old { old..new } else { 0..new }
}

/// Both layouts are used. The new nodes must be there when it ends, or what they were given would be missed.
fn warm(desired: i32, old: i32, pace: Pace, live: &Live, past: Option<Past>) -> Layout {
    let warming = Step {
        from: old,
        to: desired,
        phase: Warming,
    };
    let switching = Step {
        phase: Switching,
        ..warming
    };
    if past.is_some_and(|past| past.step == switching) {
        // What was written last is not seen yet: a watch may be cut for a while.
        return step(live, Used::only(desired), old, desired, Switching);
    }
    let age = past
        .filter(|past| past.step == warming)
        .map_or(Duration::ZERO, |past| past.age);
    let new_are_ready = (old..desired).all(|node| live.ready.contains(&node));
    if age >= pace.window.unwrap_or_default() && live.routers_follow && new_are_ready {
        step(live, Used::only(desired), old, desired, Switching)
    } else {
        step(live, Used::both(desired, old), old, desired, Warming)
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

impl Used {
    fn only(servers: i32) -> Self {
        Self {
            servers,
            warm: None,
        }
    }

    fn both(servers: i32, warm: i32) -> Self {
        Self {
            servers,
            warm: Some(warm),
        }
    }

    /// Nodes that must exist.
    pub fn most(self) -> i32 {
        self.servers.max(self.warm.unwrap_or(0))
    }
}

impl Live {
    /// What to use where somebody deleted the configuration, or where there was none yet.
    fn without_configuration(&self, desired: i32, past: Option<Past>) -> Used {
        match (past.map(|past| past.step), self.pods) {
            (Some(step), _) => match step.phase {
                Provisioning | Clearing => Used::only(step.from),
                Warming => Used::both(step.to, step.from),
                Switching | Draining | Shrinking | Purging => Used::only(step.to),
            },
            (None, Some(pods)) => Used::only(desired.min(pods)),
            (None, None) if self.serving => Used::only(0),
            (None, None) => Used::only(desired),
        }
    }
}

#[cfg(test)]
mod tests;
