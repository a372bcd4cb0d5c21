//! No client. How many nodes a region has and how many its routers use while it grows or shrinks.
//!
//! ```text
//! grow   3 to 5:  pods 3 ─► 5 ──────── all 5 ready ─► servers 3 ─► 5
//! shrink 5 to 3:  servers 5 ─► 3 ── every router runs it ─► pods 5 ─► 3
//! ```
//!
//! So the configuration never names a server that does not exist, and a pod that is merely unready never changes it:
//! readiness is looked at only on the way up, and what went up does not come down by it.

use serde::Serialize;

/// What a region looks like now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Live {
    /// Servers in the region's pool of the live configuration; none without a configuration.
    pub servers: Option<i32>,
    /// Pods that the live `StatefulSet` was told to have; none without one.
    pub pods: Option<i32>,
    /// Pods that it reports ready, if its report is about what it was told last.
    pub ready: i32,
    /// Whether every router of every region that is built here runs the live configuration.
    pub routers_follow: bool,
}

/// What a region shall look like next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Pods of the `StatefulSet`.
    pub pods: i32,
    /// Servers in the routers' pool: the first of them.
    pub servers: i32,
    /// What is waited for, if this is not the end.
    pub phase: Phase,
}

/// Where a change of size stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// As many pods and servers as wanted.
    Settled,
    /// New pods are waited for.
    Growing,
    /// Routers that still use the last pods are waited for.
    Shrinking,
}

impl Layout {
    /// A region that nobody uses yet, and one that is built elsewhere: as wanted, at once.
    pub fn settled(desired: i32) -> Self {
        Self {
            pods: desired,
            servers: desired,
            phase: Phase::Settled,
        }
    }

    /// The next step of `live` towards `desired` nodes.
    pub fn next(desired: i32, live: Live) -> Self {
        let servers = match live.servers {
            // A configuration that was deleted is put back with servers that exist.
            None => desired.min(live.pods.unwrap_or(desired)),
            Some(servers) if desired > servers && !live.has_ready(desired) => servers,
            Some(_) => desired,
        };
        let unused = live.pods.is_some_and(|pods| pods > desired);
        let released = live.servers == Some(servers) && live.routers_follow;
        let pods = match live.pods {
            Some(pods) if unused && !released => pods,
            _ => desired,
        };
        let phase = if servers < desired {
            Phase::Growing
        } else if pods > desired {
            Phase::Shrinking
        } else {
            Phase::Settled
        };
        Self {
            pods,
            servers,
            phase,
        }
    }
}

impl Live {
    fn has_ready(self, desired: i32) -> bool {
        self.pods
            .is_some_and(|pods| pods >= desired && self.ready >= pods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(servers: i32, pods: i32, ready: i32, routers_follow: bool) -> Live {
        Live {
            servers: Some(servers),
            pods: Some(pods),
            ready,
            routers_follow,
        }
    }

    #[test]
    fn each_step_of_a_change_of_size() {
        use Phase::{Growing, Settled, Shrinking};
        let nothing = Live::default();
        let table = [
            ("a new region starts as wanted", 3, nothing, (3, 3, Settled)),
            ("pods grow first", 5, live(3, 3, 3, true), (5, 3, Growing)),
            (
                "servers wait for every new pod",
                5,
                live(3, 5, 4, true),
                (5, 3, Growing),
            ),
            (
                "servers follow ready pods",
                5,
                live(3, 5, 5, true),
                (5, 5, Settled),
            ),
            (
                "servers shrink first",
                3,
                live(5, 5, 5, true),
                (5, 3, Shrinking),
            ),
            (
                "pods wait for every router",
                3,
                live(3, 5, 5, false),
                (5, 3, Shrinking),
            ),
            (
                "pods follow the routers",
                3,
                live(3, 5, 5, true),
                (3, 3, Settled),
            ),
            (
                "an unready pod changes nothing",
                3,
                live(3, 3, 0, true),
                (3, 3, Settled),
            ),
            (
                "routers that are away change nothing",
                3,
                live(3, 3, 3, false),
                (3, 3, Settled),
            ),
            (
                "growing and then shrinking below the start",
                2,
                live(3, 5, 3, true),
                (5, 2, Shrinking),
            ),
            (
                "shrinking and then growing again",
                4,
                live(3, 5, 5, false),
                (5, 4, Shrinking),
            ),
            (
                "pods that were scaled away by hand come back",
                3,
                live(3, 1, 1, true),
                (3, 3, Settled),
            ),
        ];
        for (case, desired, live, (pods, servers, phase)) in table {
            assert_eq!(
                Layout::next(desired, live),
                Layout {
                    pods,
                    servers,
                    phase
                },
                "{case}"
            );
        }
    }

    #[test]
    fn a_deleted_configuration_comes_back_without_servers_that_do_not_exist() {
        let live = Live {
            servers: None,
            pods: Some(3),
            ready: 3,
            routers_follow: false,
        };
        assert_eq!(
            Layout::next(5, live),
            Layout {
                pods: 5,
                servers: 3,
                phase: Phase::Growing
            }
        );
        assert_eq!(Layout::next(2, live).servers, 2);
    }

    /// Plays the controller against a cluster whose pods and routers lag behind, from every size to every size.
    #[test]
    fn every_change_of_size_ends_and_never_names_a_missing_server() {
        for from in 1..=6 {
            for to in 1..=6 {
                let mut now = live(from, from, from, true);
                let mut steps = 0;
                loop {
                    let next = Layout::next(to, now);
                    let existing = now.pods.unwrap_or(0).max(next.pods);
                    assert!(
                        next.servers <= existing && next.servers <= next.pods,
                        "{from} to {to}: {next:?}"
                    );
                    if next == Layout::settled(to)
                        && now.pods == Some(to)
                        && now.servers == Some(to)
                    {
                        break;
                    }
                    let config_changed = now.servers != Some(next.servers);
                    now = Live {
                        servers: Some(next.servers),
                        pods: Some(next.pods),
                        ready: now.ready + (next.pods - now.ready).signum(),
                        routers_follow: !config_changed,
                    };
                    steps += 1;
                    assert!(steps < 30, "{from} to {to} does not end: {now:?}");
                }
            }
        }
    }
}
