//! Status: what the operator saw and did, as far as people and `kubectl` need to know.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// What the cluster is.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PetraClusterStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Nodes of the region that `selector` selects: what `spec.replicas` counts.
    #[serde(default)]
    pub replicas: i32,
    /// Selects the nodes of the first region that follows `spec.replicas`, for autoscalers, which compare their number
    /// with `spec.replicas`.
    #[serde(default)]
    pub selector: String,
    /// Nodes that are ready, of all that this Kubernetes cluster should have, as in `5/6`.
    #[serde(default)]
    pub nodes: String,
    /// What is true of the cluster now. `Ready`: every node serves and every router runs the current configuration.
    /// `Progressing`: a change is under way. `Degraded`: something that should serve does not. `RouterConfigApplied`: every router
    /// answered that it runs the current configuration. `SpecValid`: the spec can be built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The regions that routers know, in failover order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionStatus>,
    /// The routers of this Kubernetes cluster.
    #[serde(default)]
    pub router: RouterStatus,
}

/// One region.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegionStatus {
    /// Name of the region.
    pub name: String,
    /// Nodes that exist or are being made. Missing for a region of another Kubernetes cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i32>,
    /// Nodes that are ready. Missing for a region of another Kubernetes cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
    /// Servers that the router configuration names, in the order of their numbers.
    #[serde(default)]
    pub servers: Vec<String>,
}

/// The routers of this Kubernetes cluster.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouterStatus {
    /// MD5 of each region's configuration, as `REGION=MD5`, with commas between them. A router answers it to
    /// `get __mcrouter__.config_md5_digest`.
    #[serde(default)]
    pub config_hash: String,
    /// Routers that run the current configuration, of all that should, as in `2/2`.
    #[serde(default)]
    pub applied: String,
}
