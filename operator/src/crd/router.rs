//! Routers: the mcrouters that applications connect to.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Resources;

/// The routers of each region, reachable as the Service `CLUSTER-REGION-router`, port 11211.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Router {
    /// How routers run.
    #[serde(default)]
    pub mode: RouterMode,
    /// Routers per region in mode `deployment`.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
    /// Image with `mcrouter` as its entrypoint or on its PATH. The operator's `--router-image` when missing. A change
    /// restarts the routers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 500))]
    pub image: Option<String>,
    /// When the image is pulled. As Kubernetes decides when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<PullPolicy>,
    /// CPU and memory of a router. A change restarts the routers.
    #[serde(default = "default_resources")]
    pub resources: Resources,
    /// More options for mcrouter, after the operator's own, such as `--timeouts-until-tko=5`. A change restarts the routers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(min = 1, max = 300)))]
    pub extra_args: Vec<String>,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            mode: RouterMode::default(),
            replicas: default_replicas(),
            image: None,
            image_pull_policy: None,
            resources: default_resources(),
            extra_args: Vec::new(),
        }
    }
}

fn default_replicas() -> i32 {
    2
}

fn default_resources() -> Resources {
    Resources::new(
        &[("cpu", "100m"), ("memory", "64Mi")],
        &[("memory", "256Mi")],
    )
}

/// How routers run.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RouterMode {
    /// As a Deployment of `replicas` routers per region.
    #[default]
    Deployment,
    /// As a DaemonSet: one on every machine of the region. A client is sent to the router on its own machine.
    DaemonSet,
    /// Not at all: only the ConfigMap `CLUSTER-REGION-mcrouter` is made, for sidecars that mount it.
    None,
}

/// When an image is pulled.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullPolicy {
    /// At every start of a container.
    Always,
    /// When the machine does not have it.
    IfNotPresent,
    /// Never: the machine must have it.
    Never,
}

impl PullPolicy {
    /// Its name in a container's spec.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}
