//! A region: a name, how many nodes it has, and where they run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// A set of nodes that holds every key once.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(cel)]
pub struct Region {
    /// Name of the region, unique in the cluster; part of the names of its Services and pods.
    #[schemars(length(max = 63))]
    #[x_kube(
        validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$')")
            .message("a region's name must be at most 20 lower case letters, digits and dashes, with no dash at either end, because it is part of the names of Services and pods: choose a shorter or simpler name"),
        validation = Rule::new("!self.endsWith('-router')")
            .message("a region's name must not end with -router, which ends the names of the routers' objects: choose another name")
    )]
    pub name: String,
    /// Nodes of this region; spec.replicas when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: Option<i32>,
    /// Where the pods of this region's nodes and routers may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// For a region that lives in another Kubernetes cluster: how to reach its nodes. Not needed for the region that
    /// the operator builds (`--region`), and ignored there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
}

/// Where pods may run, in Kubernetes' own terms.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Labels that a machine must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of machines that are put up with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Attraction to and repulsion from machines and other pods. When missing, the nodes of a region prefer different machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How evenly pods are spread over zones or machines. When missing, pods prefer to be spread over zones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
}

/// How nodes in another Kubernetes cluster are reached.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(cel)]
pub struct Remote {
    /// `host:port` of a node, with `{ordinal}` in place of its number, which counts from 0. Write the host as an absolute
    /// name with a dot at its end, for instance
    /// `sessions-ankara-{ordinal}.sessions-ankara.cache.svc.ankara.example.com.:11211`.
    #[schemars(length(max = 300))]
    #[x_kube(
        validation = Rule::new("self.contains('{ordinal}')")
            .message("remote.address must contain {ordinal}, which stands for the number of a node: write for instance cache-{ordinal}.ankara.example.com.:11211"),
        validation = Rule::new("self.matches('^[a-z0-9.{}-]+:[1-9][0-9]{0,4}$')")
            .message("remote.address must be host:port: write for instance cache-{ordinal}.ankara.example.com.:11211")
    )]
    pub address: String,
}
