//! `PetraCluster`, the custom resource: spec and status in the user's language, with defaults and CEL rules.
//!
//! The documentation of a field here is what `kubectl explain` prints. Values stay as the user wrote them; checked types
//! begin in `controller/validate.rs`. Nothing here knows the objects that a cluster becomes.

// The derive of `KubeSchema` repeats each struct inside a function, where `pub` has no effect.
#![allow(unreachable_pub)]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

mod node;
mod regions;
mod resources;
mod router;
mod routing;
mod status;
#[cfg(test)]
mod tests;

pub use node::{Durability, DurabilityMode, Node, Retention, Storage};
pub use regions::{Region, Remote, Scheduling};
pub use resources::{Amount, Resources};
pub use router::{PullPolicy, Router, RouterMode};
pub use routing::{
    DeletePolicy, Deletes, Hash, HashFunction, PoolFailover, ReadPolicy, Reads, Routing, Timeouts,
    WritePolicy, Writes,
};
pub use status::{PetraClusterStatus, RegionStatus, RouterStatus};

/// Most nodes of one region: what keeps a router's configuration well below the size of a ConfigMap.
pub const MAX_REPLICAS: i32 = 100;

/// What a PetraCluster should be: nodes in regions, and how routers use them.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[kube(
    group = "petracache.io",
    version = "v1alpha1",
    kind = "PetraCluster",
    plural = "petraclusters",
    shortname = "petra",
    category = "all",
    namespaced,
    status = "PetraClusterStatus",
    derive = "PartialEq",
    cel,
    doc = "A memcached that remembers: nodes that keep their items on volumes, in one or more regions, behind mcrouter.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether every node serves and every router runs the current configuration"
    ),
    printcolumn(
        name = "Nodes",
        type_ = "string",
        json_path = ".status.nodes",
        description = "Nodes that are ready, of all"
    ),
    printcolumn(
        name = "Regions",
        type_ = "string",
        json_path = ".status.regions[*].name",
        description = "Regions that routers use, in failover order"
    ),
    printcolumn(
        name = "Router",
        type_ = "string",
        json_path = ".status.router.applied",
        description = "Routers that run the current configuration, of all"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        description = "What is missing",
        priority = 1
    ),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message(
        "metadata.name begins the names of Services: use lower case letters, digits and '-', and begin with a letter"
    ),
    validation = Rule::new("self.spec.regions.all(region, size(self.metadata.name) + size(region.name) <= 51)")
        .message("metadata.name and the name of a region are together longer than 51 characters, which does not fit the names of pods: shorten one of them")
)]
#[serde(rename_all = "camelCase")]
pub struct PetraClusterSpec {
    /// Nodes of every region that does not say otherwise. This is what `kubectl scale` and autoscalers change.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
    /// Regions, in failover order. The first is the primary: writes go there first. Each region has a pool of nodes and,
    /// unless `router.mode` is `none`, routers of its own that see the cluster from there.
    #[schemars(length(min = 1, max = 8))]
    #[x_kube(
        validation = Rule::new("self.all(a, self.exists_one(b, b.name == a.name))")
            .message("two regions have the same name: every region needs a name of its own"),
        validation = Rule::new("self[0].name == oldSelf[0].name")
            .message("the first region is the primary and cannot change, because its nodes hold the data: put it back in the first place, or move to a new PetraCluster")
    )]
    pub regions: Vec<Region>,
    /// The nodes: image, memory, disk and durability. The same in every region.
    #[serde(default)]
    pub node: Node,
    /// Where routers send operations, and what they do when a server does not answer.
    #[serde(default)]
    pub routing: Routing,
    /// The routers, which applications connect to.
    #[serde(default)]
    pub router: Router,
    /// While true, the operator changes nothing but the status. Use it to change objects by hand, for example to
    /// recover; what was changed is put back when it is false again.
    #[serde(default)]
    pub paused: bool,
}

fn default_replicas() -> i32 {
    3
}

impl PetraCluster {
    /// How many nodes `region` should have.
    pub fn replicas_of(&self, region: &Region) -> i32 {
        region.replicas.unwrap_or(self.spec.replicas)
    }
}
