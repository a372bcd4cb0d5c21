//! Nodes: the servers that keep the items.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PullPolicy, Resources};

/// What every node is made of.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Image of the node. The operator's `--node-image` when missing. A change restarts the nodes one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 500))]
    pub image: Option<String>,
    /// When the image is pulled. As Kubernetes decides when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<PullPolicy>,
    /// CPU and memory of a node. The memory limit sizes what a node keeps in memory. A change restarts the nodes one by one.
    #[serde(default = "default_resources")]
    pub resources: Resources,
    /// The volume of each node.
    #[serde(default)]
    pub storage: Storage,
    /// How much a node may forget when it is killed.
    #[serde(default)]
    pub durability: Durability,
    /// Largest item, such as `1Mi`. Larger ones are answered `SERVER_ERROR object too large for cache`. Between 1Ki and 1Gi.
    #[serde(default = "default_max_item_size")]
    #[schemars(length(min = 1, max = 12))]
    #[x_kube(
        validation = Rule::new("self.matches('^[1-9][0-9]{0,9}(k|M|G|Ki|Mi|Gi)?$')")
            .message("write a size such as 512Ki or 1Mi"),
        validation = Rule::new("!isQuantity(self) || (quantity(self).compareTo(quantity('1Ki')) >= 0 && quantity(self).compareTo(quantity('1Gi')) <= 0)")
            .message("the largest item must be between 1Ki and 1Gi")
    )]
    pub max_item_size: String,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            image: None,
            image_pull_policy: None,
            resources: default_resources(),
            storage: Storage::default(),
            durability: Durability::default(),
            max_item_size: default_max_item_size(),
        }
    }
}

fn default_resources() -> Resources {
    Resources::new(
        &[("cpu", "100m"), ("memory", "512Mi")],
        &[("memory", "512Mi")],
    )
}

fn default_max_item_size() -> String {
    "1Mi".into()
}

/// The volume of a node.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)")
    .message("the storage class of existing volumes cannot change: put the old one back, or move to a new PetraCluster"))]
pub struct Storage {
    /// Size of a node's volume, such as `20Gi`. It can only grow.
    #[serde(default = "default_size")]
    #[schemars(length(min = 1, max = 12))]
    #[x_kube(
        validation = Rule::new("self.matches('^[1-9][0-9]{0,9}(k|M|G|T|Ki|Mi|Gi|Ti)?$')")
            .message("write a size such as 20Gi"),
        validation = Rule::new("!isQuantity(self) || !isQuantity(oldSelf) || quantity(self).compareTo(quantity(oldSelf)) >= 0")
            .message("a volume cannot shrink: put the old size back or choose a larger one")
    )]
    pub size: String,
    /// Storage class of the volume. The Kubernetes cluster's default class when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// What becomes of the volumes when the PetraCluster or their region is deleted.
    #[serde(default)]
    pub when_deleted: Retention,
    /// What becomes of a volume when its node is removed by scaling down. A volume that is kept serves its old items
    /// again when the node comes back.
    #[serde(default)]
    pub when_scaled: Retention,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            size: default_size(),
            storage_class_name: None,
            when_deleted: Retention::default(),
            when_scaled: Retention::default(),
        }
    }
}

fn default_size() -> String {
    "10Gi".into()
}

/// Whether a volume outlives its node.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Retention {
    /// The volume is kept, and used again if the node comes back.
    #[default]
    Retain,
    /// The volume is deleted.
    Delete,
}

/// How much a node may forget when it is killed. An orderly shutdown forgets nothing.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Durability {
    /// When a write is safe from a killed process (`fsync`: from a lost machine, too).
    #[serde(default)]
    pub mode: DurabilityMode,
    /// How often writes are flushed in mode `interval`, such as `1s`.
    #[serde(default = "default_interval")]
    #[schemars(length(min = 1, max = 10))]
    #[x_kube(validation = Rule::new("self.matches('^[1-9][0-9]{0,5}(ms|s|m|h)$')")
        .message("write a duration such as 500ms, 1s or 5m"))]
    pub interval: String,
}

impl Default for Durability {
    fn default() -> Self {
        Self {
            mode: DurabilityMode::default(),
            interval: default_interval(),
        }
    }
}

fn default_interval() -> String {
    "1s".into()
}

/// When a write is safe.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DurabilityMode {
    /// At shutdown, and whenever memory is full. The fastest.
    None,
    /// Within `interval`.
    #[default]
    Interval,
    /// Before it is acknowledged.
    Always,
    /// On disk before it is acknowledged. The slowest.
    Fsync,
}

impl DurabilityMode {
    /// Its name on the node's command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Interval => "interval",
            Self::Always => "always",
            Self::Fsync => "fsync",
        }
    }
}
