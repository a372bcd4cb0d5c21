//! `PetraCluster`, the one object that people write: its spec in their language, and the status they read.
//!
//! Owns shape, defaults, documentation and the rules that the API server enforces. Must not know what is built from it.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats every struct inside a function"
)]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

mod auth;
mod network_policy;
mod node;
mod region;
mod router;
mod routing;
mod scaling;
mod status;
mod tls;
mod units;

pub use auth::{Auth, AuthMethod};
pub use network_policy::NetworkPolicy;
pub use node::{Durability, DurabilityMode, Node, Storage, VolumePolicy};
pub use region::{Region, Remote, Scheduling};
pub use router::{Router, RouterMode};
pub use routing::{
    DeletePolicy, Deletes, HashFunction, HashSpec, PoolFailover, ReadPolicy, Reads, Routing,
    Timeouts, WritePolicy, Writes,
};
pub use scaling::{Scaling, ScalingMode};
pub use status::{PetraClusterStatus, RegionStatus, RouterStatus, ScalingPhase, ScalingStatus};
pub use tls::{
    CertManager, ClientCertificates, IssuerRef, NodeTls, PlainConnections, RouterTls, Tls,
};
pub use units::{ByteSize, Period, UnitError};

/// Nodes that one region may have: what Ch3 and a `ConfigMap` of one mebibyte hold with room to spare.
pub const MAX_REPLICAS: i32 = 100;

/// A memcached that remembers: nodes that keep their items on disk, in one or more regions, behind mcrouter.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "petracache.io",
    version = "v1alpha1",
    kind = "PetraCluster",
    plural = "petraclusters",
    namespaced,
    status = "PetraClusterStatus",
    shortname = "petra",
    category = "all",
    doc = "A memcached that remembers: nodes that keep their items on disk, in one or more regions, behind mcrouter.",
    derive = "PartialEq",
    cel,
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether every node and router is up and every router runs the current configuration."
    ),
    printcolumn(
        name = "Nodes",
        type_ = "string",
        json_path = ".status.nodes",
        description = "Ready nodes of all regions that are built here, of how many."
    ),
    printcolumn(
        name = "Regions",
        type_ = "string",
        json_path = ".status.regionNames",
        description = "Regions in failover order."
    ),
    printcolumn(
        name = "Router",
        type_ = "string",
        json_path = ".status.router.applied",
        description = "Routers that run the current configuration, of how many."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,29}[a-z0-9])?$')")
        .message("metadata.name must be at most 31 lower case letters, digits and dashes and start with a letter, because it starts the names of Services and pods: choose a shorter or simpler name")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.regions) || self.regions[0].name == oldSelf.regions[0].name")
        .message("the first region is the primary and cannot be renamed or moved: its nodes hold the data under its name; keep it first, or create a second PetraCluster and move the clients"),
    validation = Rule::new("has(self.tls) == has(oldSelf.tls)")
        .message("tls cannot be turned on or off for nodes that run, because routers and nodes would not understand each other while they restart: put spec.tls back as it was, or create a second PetraCluster and move the clients"),
    validation = Rule::new("!has(self.auth) || self.router.mode == 'none'")
        .message("auth needs router.mode none, because mcrouter cannot log in and would be refused by every node: set router.mode to none for clients that connect to nodes themselves, or remove auth and set tls, whose tls.nodes.clientCertificates lets routers in and nobody else")
)]
pub struct PetraClusterSpec {
    /// Nodes per region, unless the region says otherwise. `kubectl scale` and a HorizontalPodAutoscaler change it.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
    /// Regions in failover order; the first is the primary. Each has its own nodes and its own routers.
    #[schemars(length(max = 16))]
    #[x_kube(
        validation = Rule::new("size(self) >= 1")
            .message("a cluster needs at least one region: add one to spec.regions, for instance {name: main}"),
        validation = Rule::new("self.all(a, self.exists_one(b, b.name == a.name))")
            .message("region names must be unique: rename one of the regions that share a name")
    )]
    pub regions: Vec<Region>,
    /// What a node is: its image, its memory, its disk, and what it promises about writes.
    #[serde(default)]
    pub node: Node,
    /// Which node is asked for what.
    #[serde(default)]
    pub routing: Routing,
    /// mcrouter, which applications talk to.
    #[serde(default)]
    pub router: Router,
    /// How a region gets more or fewer nodes.
    #[serde(default)]
    pub scaling: Scaling,
    /// Who may connect to nodes and routers.
    #[serde(default)]
    pub network_policy: NetworkPolicy,
    /// Encryption, and certificates by which nodes know their routers; everything is plain when missing. It is decided when the
    /// cluster is made: it can be changed, but neither added nor removed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Users and passwords, for clients that connect to nodes themselves (router.mode none); nobody needs to log in when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Stops the operator from changing anything of this cluster while true; status is still kept. For repairs by hand.
    #[serde(default)]
    pub paused: bool,
}

fn default_replicas() -> i32 {
    3
}

#[cfg(test)]
mod tests;
