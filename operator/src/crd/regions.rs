//! Regions: which pools of nodes there are, and where.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// One pool of nodes, and where it is.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Region {
    /// Name of the region, unique in the cluster. It is part of the names of the region's objects, and of its servers'
    /// names in the router configuration.
    #[schemars(length(min = 1, max = 40))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("use lower case letters, digits and '-', and begin and end with a letter or digit, as in europe-west"))]
    pub name: String,
    /// Nodes of this region, instead of `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: Option<i32>,
    /// Where the region's pods may run. Nodes and routers of the region alike.
    #[serde(default, skip_serializing_if = "Scheduling::is_empty")]
    pub scheduling: Scheduling,
    /// How routers elsewhere reach the region's nodes, when the region is built in another Kubernetes cluster. An
    /// operator that runs with `--region` builds the region of that name and uses all others by this address, so
    /// that the same PetraCluster can be applied everywhere. One without `--region` builds the regions that have no `remote`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
}

/// Where pods may run, in the words of a pod's spec.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Labels that a machine must have, such as `topology.kubernetes.io/region: europe-west1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Affinity of the pods to machines and to other pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How the region's nodes are spread. When empty, over machines and zones as far as possible. A constraint without
    /// `labelSelector` counts the nodes of the region.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
}

impl Scheduling {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The nodes of a region that another Kubernetes cluster builds.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remote {
    /// Host and port of a node, with `{ordinal}` where its number goes, as in
    /// `sessions-ankara-{ordinal}.sessions-ankara.cache.svc.ankara.example.com.:11211`. End the host with a dot, so
    /// that it is looked up as it is.
    #[schemars(length(min = 1, max = 300))]
    #[x_kube(
        validation = Rule::new("self.contains('{ordinal}')")
            .message("write {ordinal} where the node's number goes: routers need the name of every node, not one name for all"),
        validation = Rule::new("self.matches('^[-.a-zA-Z0-9]*([{]ordinal[}][-.a-zA-Z0-9]*)+:[1-9][0-9]{0,4}$')")
            .message("write HOST:PORT with {ordinal} in the host, such as cache-{ordinal}.cache.ankara.example.com.:11211")
    )]
    pub address: String,
}
