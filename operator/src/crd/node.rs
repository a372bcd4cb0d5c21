//! A node: image, resources, disk, and what it promises about writes.

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ByteSize, Period};

/// What a node is. The same for all nodes, because a key may move to any of them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Image of the node; the operator's own default when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When the image is pulled: Always, IfNotPresent or Never; Kubernetes' default when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Processor and memory of a node. The memory limit sizes its memory tier and its caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// The disk that a node remembers on.
    #[serde(default)]
    pub storage: Storage,
    /// What may be lost when a node is killed.
    #[serde(default)]
    pub durability: Durability,
    /// The largest item, key and value together; memcached's default is 1Mi.
    #[serde(default = "default_max_item_size")]
    pub max_item_size: ByteSize,
    /// What a node may take of its volume, as a share (90%) or as a size (9Gi). Past it the oldest items that are not used
    /// make room.
    #[serde(default = "default_disk_quota")]
    #[schemars(regex(pattern = r"^(([1-9][0-9]?|100)%|[0-9]+(Ki|Mi|Gi|Ti)?)$"))]
    pub disk_quota: String,
    /// How a node comes back.
    #[serde(default)]
    pub rejoin: Rejoin,
}

/// How a node comes back after it was away.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Rejoin {
    /// A node that was away for longer starts empty, because it has missed what was written elsewhere meanwhile.
    #[serde(default = "default_keep_for")]
    pub keep_for: Period,
}

impl Default for Rejoin {
    fn default() -> Self {
        Self {
            keep_for: default_keep_for(),
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self {
            image: None,
            image_pull_policy: None,
            resources: None,
            storage: Storage::default(),
            durability: Durability::default(),
            max_item_size: default_max_item_size(),
            disk_quota: default_disk_quota(),
            rejoin: Rejoin::default(),
        }
    }
}

/// A node's volume.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    cel,
    validation = Rule::new("quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0")
        .message("storage.size can only grow, because a volume cannot be shrunk: write the old size or a larger one"),
    validation = Rule::new("has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)")
        .message("storage.storageClassName cannot change, because existing volumes stay what they are: write the old class back, or create a second PetraCluster and move the clients")
)]
pub struct Storage {
    /// Size of a node's volume. It can only grow, which takes a class that allows it and restarts nothing.
    #[serde(default = "default_size")]
    pub size: ByteSize,
    /// Class of the volume; the Kubernetes cluster's default class when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// What becomes of the volumes when the region or the cluster is deleted.
    #[serde(default)]
    pub when_deleted: VolumePolicy,
    /// What becomes of a node's volume when the region gets fewer nodes.
    #[serde(default)]
    pub when_scaled: VolumePolicy,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            size: default_size(),
            storage_class_name: None,
            when_deleted: VolumePolicy::default(),
            when_scaled: VolumePolicy::default(),
        }
    }
}

/// Whether volumes outlive their nodes.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumePolicy {
    /// The volumes stay, and are used again by nodes of the same name.
    #[default]
    Retain,
    /// The volumes are deleted.
    Delete,
}

/// What may be lost when a node is killed. A clean shutdown loses nothing in any mode but none.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Durability {
    /// none: everything since the last flush; interval: at most the interval; always: nothing when the process is
    /// killed; fsync: nothing when the machine is.
    #[serde(default)]
    pub mode: DurabilityMode,
    /// How often writes reach the log in mode interval.
    #[serde(default = "default_interval")]
    pub interval: Period,
}

impl Default for Durability {
    fn default() -> Self {
        Self {
            mode: DurabilityMode::default(),
            interval: default_interval(),
        }
    }
}

/// When an acknowledged write is safe.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum DurabilityMode {
    /// When memory is flushed.
    None,
    /// After at most `interval`.
    #[default]
    Interval,
    /// At once, against the end of the process.
    Always,
    /// At once, against the end of the machine.
    Fsync,
}

impl DurabilityMode {
    /// The node's own word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Interval => "interval",
            Self::Always => "always",
            Self::Fsync => "fsync",
        }
    }
}

fn default_max_item_size() -> ByteSize {
    "1Mi".into()
}

fn default_disk_quota() -> String {
    "90%".to_owned()
}

fn default_keep_for() -> Period {
    "5m".into()
}

fn default_size() -> ByteSize {
    "10Gi".into()
}

fn default_interval() -> Period {
    "1s".into()
}
