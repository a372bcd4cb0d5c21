//! No client. A validated cluster and its layouts become objects; nothing here can fail.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use petra_routing::Config;

use super::layout::Layout;
use super::validate::{Certificates, ValidatedCluster, ValidatedRegion};
use crate::crd::RouterMode;
use crate::names::Component;

pub mod certificate;
pub mod config_map;
pub mod network_policy;
pub mod pdb;
pub mod pod;
pub mod router;
pub mod routes;
pub mod security;
pub mod service;
pub mod statefulset;

/// Everything that one region is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionObjects {
    /// Name of the region.
    pub region: String,
    /// What cert-manager is asked for, if it is.
    pub certificate: Option<DynamicObject>,
    /// The routers' configuration, as this region sees the cluster.
    pub config: Config,
    /// The same as a `ConfigMap`.
    pub config_map: ConfigMap,
    /// Stable names for the nodes.
    pub service: Service,
    /// Keeps an eviction from taking two nodes at once.
    pub disruption_budget: PodDisruptionBudget,
    /// Who may connect to the nodes, unless anybody may.
    pub network_policy: Option<NetworkPolicy>,
    /// The nodes.
    pub stateful_set: StatefulSet,
    /// The routers, unless they are none of ours.
    pub router: Option<RouterObjects>,
}

/// The routers of one region.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterObjects {
    /// Where applications connect.
    pub service: Service,
    /// Keeps an eviction from taking two routers at once; not for a `DaemonSet`, which evictions skip.
    pub disruption_budget: Option<PodDisruptionBudget>,
    /// Who may connect to them, unless anybody may.
    pub network_policy: Option<NetworkPolicy>,
    /// What runs them.
    pub workload: Workload,
}

/// What runs routers.
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// A few, anywhere.
    Deployment(Box<Deployment>),
    /// One on every machine.
    DaemonSet(Box<DaemonSet>),
}

/// The size of each region that is built here, by its name.
pub type Layouts = BTreeMap<String, Layout>;

/// Builds every region that is built here.
pub fn build(cluster: &ValidatedCluster, layouts: &Layouts) -> Vec<RegionObjects> {
    cluster
        .built()
        .map(|region| build_region(cluster, region, layouts))
        .collect()
}

fn build_region(
    cluster: &ValidatedCluster,
    region: &ValidatedRegion,
    layouts: &Layouts,
) -> RegionObjects {
    let config = routes::config(cluster, region, layouts);
    let router = (cluster.router.mode != RouterMode::None).then(|| RouterObjects {
        service: service::router(cluster, region),
        disruption_budget: (cluster.router.mode == RouterMode::Deployment)
            .then(|| pdb::disruption_budget(cluster, region, Component::Router)),
        network_policy: cluster
            .network
            .enabled
            .then(|| network_policy::routers(cluster, region)),
        workload: router::workload(cluster, region),
    });
    let issuer = match cluster.tls.as_ref().map(|tls| &tls.certificates) {
        Some(Certificates::Issuer(issuer)) => Some(issuer),
        Some(Certificates::Secret(_)) | None => None,
    };
    RegionObjects {
        region: region.names.region.clone(),
        certificate: issuer.map(|issuer| certificate::certificate(cluster, region, issuer)),
        config_map: config_map::config_map(cluster, region, &config),
        config,
        service: service::headless(cluster, region),
        disruption_budget: pdb::disruption_budget(cluster, region, Component::Node),
        network_policy: cluster
            .network
            .enabled
            .then(|| network_policy::nodes(cluster, region)),
        stateful_set: statefulset::stateful_set(cluster, region, layout_of(region, layouts)),
        router,
    }
}

/// The layout of `region`: that which was decided, or as wanted where nothing is decided here.
fn layout_of(region: &ValidatedRegion, layouts: &Layouts) -> Layout {
    layouts
        .get(&region.names.region)
        .copied()
        .unwrap_or_else(|| Layout::settled(region.replicas))
}

/// Metadata that every object has: its name, the labels, the owner.
fn metadata(
    cluster: &ValidatedCluster,
    region: &ValidatedRegion,
    component: Component,
    name: String,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(region.names.namespace.clone()),
        labels: Some(region.names.labels(component)),
        owner_references: cluster.owner.clone().map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}
