//! What people and programs read back from a `PetraCluster`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator saw and did last.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PetraClusterStatus {
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Nodes of the first region that follows spec.replicas: what `kubectl scale` and autoscalers compare with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Label selector of the pods that `replicas` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Ready nodes of all regions that are built here, of how many: `4/5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Names of the regions in failover order, with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region_names: Option<String>,
    /// Ready, Progressing, Degraded, RouterConfigApplied, Scaling, SpecValid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The regions, in failover order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionStatus>,
    /// The routers of all regions that are built here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterStatus>,
    /// The regions whose number of nodes is changing, and how far that is. An operator that is restarted goes on from here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<ScalingStatus>,
}

/// A region as it is.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RegionStatus {
    /// Name of the region.
    pub name: String,
    /// Nodes that it has.
    pub nodes: i32,
    /// Nodes that are ready; missing for a region that is built elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
    /// `host:port` of the nodes that routers use, in the order that keys are hashed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
}

/// The routers as they are.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RouterStatus {
    /// MD5 of the configuration of each region that is built here, in their order, with commas between them: what a
    /// router answers to `get __mcrouter__.config_md5_digest`.
    pub config_hash: String,
    /// Routers that run it, of how many: `2/2`.
    pub applied: String,
}

/// A region on its way from one number of nodes to another.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingStatus {
    /// Name of the region.
    pub region: String,
    /// Nodes that routers used before.
    pub from: i32,
    /// Nodes that routers use afterwards.
    pub to: i32,
    /// The step that is under way.
    pub phase: ScalingPhase,
    /// When this step began.
    pub started_at: Time,
}

/// A step of a change of size, in their order. One that is not needed is left out.
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub enum ScalingPhase {
    /// New nodes are started; routers use the old layout.
    Provisioning,
    /// Routers use the old layout, and turn to writing to the new one too.
    Mirroring,
    /// Nodes that will get more keys drop what they had of them; routers use the old layout, and write to the new one too.
    Clearing,
    /// Routers use the new layout, look up in the old one what it misses, and write to both.
    Warming,
    /// The target changed: routers turn back to the old layout, and write to the other one too.
    Returning,
    /// Routers turn to reading the new layout alone, and still write to the old one too.
    Turning,
    /// Routers turn to the new layout alone.
    Switching,
    /// No router uses the last nodes any more; what they were asked before is answered.
    Draining,
    /// The last nodes are removed.
    Shrinking,
    /// Every node drops what the new layout has given to others.
    Purging,
}

impl ScalingPhase {
    /// All of them, in their order.
    pub const ALL: [Self; 10] = [
        Self::Provisioning,
        Self::Mirroring,
        Self::Clearing,
        Self::Warming,
        Self::Returning,
        Self::Turning,
        Self::Switching,
        Self::Draining,
        Self::Shrinking,
        Self::Purging,
    ];

    /// Its name, as in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioning => "Provisioning",
            Self::Mirroring => "Mirroring",
            Self::Clearing => "Clearing",
            Self::Warming => "Warming",
            Self::Returning => "Returning",
            Self::Turning => "Turning",
            Self::Switching => "Switching",
            Self::Draining => "Draining",
            Self::Shrinking => "Shrinking",
            Self::Purging => "Purging",
        }
    }
}
