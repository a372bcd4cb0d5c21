//! Who may connect to nodes and routers.

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Who may connect to nodes and routers, where the Kubernetes cluster's network enforces NetworkPolicies.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// Whether nodes take requests from routers of this cluster only, and routers from `clients` only. Routers that the operator
    /// does not run (router.mode none, regions in other Kubernetes clusters) cannot be told from others: with them every
    /// pod may ask nodes.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Who may ask routers; every pod when missing. Whoever may can also stop a router: mcrouter obeys `shutdown` from any client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub clients: Vec<NetworkPolicyPeer>,
    /// Who may read the metrics of nodes; every pod when missing. Whoever may can also make a node drop its items, by telling it
    /// another place in the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub monitoring: Vec<NetworkPolicyPeer>,
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            clients: Vec::new(),
            monitoring: Vec::new(),
        }
    }
}

fn yes() -> bool {
    true
}
