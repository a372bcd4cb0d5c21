//! No client. A changed pod template reaches one node after the other, and the next one only when routers use the last again.
//!
//! A `StatefulSet` restarts its pods from number `partition` on, the last first. Who writes a template that differs writes a
//! partition that is past the last pod with it (see [`super::apply`]), so that nothing happens yet. From then on it is lowered by
//! one whenever every pod from there on has the new template and is ready, and no router holds a ready node for down. When
//! no pod has the old template any more the partition goes, and the `StatefulSet` is what is rendered for a settled cluster.
//!
//! - While no operator runs, the node that is being restarted comes back, and no other one goes.
//! - A node that does not come back stops the roll. A template that is put right begins again with the last node, and so
//!   with the one that is stuck. Nodes that are down for another reason stop nothing: they may need the new template.
//! - A router that is ready and does not answer is waited for until it is replaced, see [`super::routers`]. Where the operator
//!   runs no routers, nodes alone are waited for.

use super::dereference::{NodePod, Observed};

/// What a `StatefulSet` says of its templates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Revisions {
    /// The newest; missing while the `StatefulSet` has not taken note of its spec.
    pub newest: Option<String>,
    /// The first pod that may have it.
    pub partition: i32,
}

/// A roll that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roll {
    /// The first pod that may have the new template now.
    pub partition: i32,
    /// Why it is not an earlier one.
    pub waits: Option<Wait>,
}

/// What a roll waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// The `StatefulSet` has not taken note of the new template.
    Controller,
    /// This node is not back with the new template.
    Node(i32),
    /// A router holds a node that is ready for down.
    HoldsDown {
        /// Name of the router's pod.
        router: String,
        /// The node.
        node: i32,
    },
    /// A router does not answer.
    Silent(String),
}

/// How the roll of node set `set` goes on, if one is under way.
pub fn next(set: &str, observed: &Observed) -> Option<Roll> {
    let revisions = observed
        .revisions
        .get(set)
        .filter(|revisions| revisions.partition > 0)?;
    let pods = observed.node_sets.get(set)?.pods;
    let partition = revisions.partition.min(pods);
    let waiting = |wait| {
        Some(Roll {
            partition,
            waits: Some(wait),
        })
    };
    let Some(newest) = &revisions.newest else {
        return waiting(Wait::Controller);
    };
    let nodes = observed.nodes.get(set);
    let node = |ordinal: i32| nodes?.get(&ordinal);
    let is_new = |node: &NodePod| node.revision.as_ref() == Some(newest);
    if (0..pods).all(|ordinal| node(ordinal).is_some_and(is_new)) {
        return None;
    }
    let is_back = |ordinal: &i32| node(*ordinal).is_some_and(|node| node.ready && is_new(node));
    if let Some(away) = (partition..pods).find(|ordinal| !is_back(ordinal)) {
        return waiting(Wait::Node(away));
    }
    let ready = observed.ready_nodes(set);
    let trouble = observed.routers.iter().find_map(|router| {
        if router.ready && !router.terminating && router.running.is_none() {
            return Some(Wait::Silent(router.name.clone()));
        }
        let held = |node: &&i32| router.holds_down(&format!("{set}-{node}"));
        ready.iter().find(held).map(|node| Wait::HoldsDown {
            router: router.name.clone(),
            node: *node,
        })
    });
    match trouble {
        Some(trouble) => waiting(trouble),
        None => Some(Roll {
            partition: partition - 1,
            waits: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::dereference::NodeSet;
    use crate::controller::routers::RouterPod;

    const SET: &str = "c-r";

    /// Three nodes, of which those in `new` have the new template, under a partition; one router that is fine.
    fn observed(partition: i32, new: &[i32]) -> Observed {
        let node = |ordinal| NodePod {
            ready: true,
            revision: Some(if new.contains(&ordinal) { "new" } else { "old" }.to_owned()),
            ..NodePod::default()
        };
        let set = NodeSet {
            pods: 3,
            ready: 3,
            outdated: 0,
        };
        let revisions = Revisions {
            newest: Some("new".to_owned()),
            partition,
        };
        let nodes = (0..3).map(|ordinal| (ordinal, node(ordinal))).collect();
        Observed {
            node_sets: [(SET.to_owned(), set)].into(),
            nodes: [(SET.to_owned(), nodes)].into(),
            revisions: [(SET.to_owned(), revisions)].into(),
            routers: vec![RouterPod {
                name: "router".to_owned(),
                ready: true,
                running: Some("x".to_owned()),
                ..RouterPod::default()
            }],
            ..Observed::default()
        }
    }

    fn node(observed: &mut Observed, ordinal: i32) -> &mut NodePod {
        let nodes = observed.nodes.get_mut(SET).unwrap();
        nodes.get_mut(&ordinal).unwrap()
    }

    fn steps(partition: i32) -> Option<Roll> {
        Some(Roll {
            partition,
            waits: None,
        })
    }

    fn waits(partition: i32, wait: Wait) -> Option<Roll> {
        Some(Roll {
            partition,
            waits: Some(wait),
        })
    }

    #[test]
    fn nodes_get_the_new_template_one_after_the_other_the_last_first() {
        assert_eq!(next(SET, &observed(3, &[])), steps(2));
        assert_eq!(next(SET, &observed(2, &[])), waits(2, Wait::Node(2)));
        assert_eq!(next(SET, &observed(2, &[2])), steps(1));
        assert_eq!(next(SET, &observed(1, &[1, 2])), steps(0));
        assert_eq!(next(SET, &observed(1, &[0, 1, 2])), None);
        assert_eq!(next(SET, &observed(0, &[])), None, "nobody guards it");
        assert_eq!(next("another", &observed(3, &[])), None);
    }

    #[test]
    fn a_region_that_shrinks_meanwhile_rolls_what_is_left() {
        let mut two = observed(3, &[]);
        two.node_sets.get_mut(SET).unwrap().pods = 2;
        assert_eq!(next(SET, &two), steps(1));
    }

    #[test]
    fn the_next_node_waits_for_the_last_to_be_ready_and_for_nobody_else() {
        let mut observed = observed(2, &[2]);
        node(&mut observed, 0).ready = false;
        assert_eq!(next(SET, &observed), steps(1));
        node(&mut observed, 2).ready = false;
        assert_eq!(next(SET, &observed), waits(2, Wait::Node(2)));
    }

    #[test]
    fn a_template_that_is_put_right_begins_with_the_node_that_is_stuck() {
        let mut observed = observed(3, &[]);
        node(&mut observed, 2).ready = false;
        assert_eq!(next(SET, &observed), steps(2));
        let revisions = observed.revisions.get_mut(SET).unwrap();
        revisions.newest = None;
        assert_eq!(next(SET, &observed), waits(3, Wait::Controller));
    }

    #[test]
    fn the_next_node_waits_for_every_router_to_use_those_that_are_ready() {
        let mut observed = observed(2, &[2]);
        let held = "c-r-2.c-r.ns.svc.cluster.local.:11211".to_owned();
        observed.routers[0].held_down = [held].into();
        let wait = Wait::HoldsDown {
            router: "router".to_owned(),
            node: 2,
        };
        assert_eq!(next(SET, &observed), waits(2, wait));
        observed.routers[0].held_down = ["c-r-20.c-r.ns.svc.:11211".to_owned()].into();
        assert_eq!(next(SET, &observed), steps(1));
    }

    #[test]
    fn a_router_that_does_not_answer_is_waited_for_unless_clients_are_not_sent_to_it() {
        let mut observed = observed(2, &[2]);
        observed.routers[0].running = None;
        let wait = Wait::Silent("router".to_owned());
        assert_eq!(next(SET, &observed), waits(2, wait));
        observed.routers[0].ready = false;
        assert_eq!(next(SET, &observed), steps(1));
    }
}
