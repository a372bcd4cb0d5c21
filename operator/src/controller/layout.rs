//! No client. How many nodes a region has and which of them its routers use, while it grows or shrinks.
//!
//! ```text
//!  3 to 5          pods  routers use                 until
//!  Provisioning    5     3                           the new nodes are ready
//!  Warming         5     5, and 3 where 5 misses     the window is over
//!  Switching       5     5                           every router runs it
//!
//!  5 to 3          pods  routers use                 until
//!  Warming         5     3, and 5 where 3 misses     the window is over
//!  Switching       5     3                           every router runs it
//!  Draining        5     3                           the slowest answer has come
//!  Shrinking       3     3                           the last pods are gone
//! ```
//!
//! Each step is decided from what there is: the live configuration, the pods, and when the status says that the step
//! began. So an operator that dies goes on where it was, and so does one that was told something else half-way.
//!
//! - Pods come before the configuration names them and go after no router does. A pod that is merely unready takes
//!   nothing back: readiness is asked for on the way forward only.
//! - While both layouts are used the old one stays complete, because writes go to both. Who changes the target then goes back
//!   to the old one, and starts from there.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use crate::crd::ScalingPhase::{self, Draining, Provisioning, Shrinking, Switching, Warming};

/// How fast regions grow and shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// How long both layouts are used; not at all when missing.
    pub window: Option<Duration>,
    /// How long a node that no router uses any more is kept.
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
    /// Whether every router of every region that is built here runs the live configuration.
    pub routers_follow: bool,
    /// Whether clients are served already: then a region that is new waits for its nodes.
    pub serving: bool,
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
    /// How long ago it began.
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
}

impl Layout {
    /// A region that nobody uses yet, and one that is built elsewhere: as wanted, at once.
    pub fn settled(desired: i32) -> Self {
        Self {
            pods: desired,
            used: Used::only(desired),
            step: None,
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
            None => start(desired, used.servers, pace, live),
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
    }
}

/// From `servers` nodes towards `desired`.
fn start(desired: i32, servers: i32, pace: Pace, live: &Live) -> Layout {
    let waiting = |phase| step(live, Used::only(servers), servers, desired, phase);
    let new_are_ready = (servers..desired).all(|node| live.ready.contains(&node));
    if !new_are_ready || live.pods.is_none_or(|pods| pods < desired) {
        return waiting(Provisioning);
    }
    // Nobody knows a region that is new: there is nothing to warm it from.
    if pace.window.is_none() || servers == 0 {
        return step(live, Used::only(desired), servers, desired, Switching);
    }
    // Routers that do not know yet what there is would not know what is warmed either.
    if !live.routers_follow {
        return waiting(Switching);
    }
    step(
        live,
        Used::both(desired, servers),
        servers,
        desired,
        Warming,
    )
}

/// Both layouts are used. The new nodes must be there when it ends, or what they were given would be missed.
fn warm(desired: i32, old: i32, pace: Pace, live: &Live, past: Option<Past>) -> Layout {
    let warming = Step {
        from: old,
        to: desired,
        phase: Warming,
    };
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

/// Routers were told to use `desired` nodes alone: what is left is to remove the others.
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
    };
    if pods > desired {
        match (follow, drained) {
            (false, _) => at(pods, Switching),
            (true, false) => at(pods, Draining),
            (true, true) => at(desired, Shrinking),
        }
    } else if live.existing > desired {
        at(desired, Shrinking)
    } else if past.is_some() && !follow {
        at(desired, Switching)
    } else {
        Layout::settled(desired)
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
                Provisioning => Used::only(step.from),
                Warming => Used::both(step.to, step.from),
                Switching | Draining | Shrinking => Used::only(step.to),
            },
            (None, Some(pods)) => Used::only(desired.min(pods)),
            (None, None) if self.serving => Used::only(0),
            (None, None) => Used::only(desired),
        }
    }
}

#[cfg(test)]
mod tests;
