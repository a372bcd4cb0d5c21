//! What the pods of nodes and routers have in common: they run as nobody, on a read-only root, without a token.
//!
//! This satisfies the Pod Security Standard `restricted`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, PodAffinityTerm, PodAntiAffinity, PodSecurityContext,
    PodSpec, SeccompProfile, SecurityContext, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::crd::Scheduling;

/// User and group of both images.
const NOBODY: i64 = 65532;

/// A pod of one container, placed by `scheduling`; by default away from pods with the same `selector`.
pub(super) fn pod(
    container: Container,
    scheduling: &Scheduling,
    selector: &BTreeMap<String, String>,
) -> PodSpec {
    let affinity = scheduling
        .affinity
        .clone()
        .unwrap_or_else(|| apart(selector));
    PodSpec {
        containers: vec![Container {
            security_context: Some(container_security()),
            ..container
        }],
        security_context: Some(pod_security()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        affinity: Some(affinity),
        node_selector: Some(scheduling.node_selector.clone())
            .filter(|selector| !selector.is_empty()),
        tolerations: Some(scheduling.tolerations.clone())
            .filter(|tolerations| !tolerations.is_empty()),
        topology_spread_constraints: Some(if scheduling.topology_spread_constraints.is_empty() {
            vec![over_zones(selector)]
        } else {
            scheduling.topology_spread_constraints.clone()
        }),
        ..PodSpec::default()
    }
}

/// Different machines where there are some: a preference, so that a single machine will do.
fn apart(selector: &BTreeMap<String, String>) -> Affinity {
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![
                WeightedPodAffinityTerm {
                    weight: 100,
                    pod_affinity_term: PodAffinityTerm {
                        topology_key: "kubernetes.io/hostname".to_owned(),
                        label_selector: Some(LabelSelector {
                            match_labels: Some(selector.clone()),
                            ..LabelSelector::default()
                        }),
                        ..PodAffinityTerm::default()
                    },
                },
            ]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

/// Different zones as evenly as can be: a preference too, as some clusters have but one.
fn over_zones(selector: &BTreeMap<String, String>) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "topology.kubernetes.io/zone".to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some(selector.clone()),
            ..LabelSelector::default()
        }),
        ..TopologySpreadConstraint::default()
    }
}

fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(NOBODY),
        run_as_group: Some(NOBODY),
        fs_group: Some(NOBODY),
        // Volumes of many files are not walked on every start.
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}

fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: None,
        }),
        ..SecurityContext::default()
    }
}
