//! Disruption budgets: at most one node, and at most one router, of a region is evicted at a time.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::metadata;
use crate::controller::validate::{ValidatedCluster, ValidatedRegion};
use crate::names::Component;

/// The budget of a region's nodes or routers.
pub(super) fn disruption_budget(
    cluster: &ValidatedCluster,
    region: &ValidatedRegion,
    component: Component,
) -> PodDisruptionBudget {
    let name = match component {
        Component::Node => region.names.node_set(),
        Component::Router => region.names.router(),
    };
    PodDisruptionBudget {
        metadata: metadata(cluster, region, component, name),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector {
                match_labels: Some(region.names.selector(component)),
                ..LabelSelector::default()
            }),
            // A pod that is broken anyway must not keep a machine from being drained.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}
