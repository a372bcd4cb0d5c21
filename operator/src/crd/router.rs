//! The routers of a region: how they are run.

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// mcrouter, which applications talk to, once per region.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Router {
    /// deployment: a few routers behind a Service. daemonset: one on every machine, behind a Service that prefers the
    /// router of the client's machine. none: the operator keeps the configuration in a ConfigMap and runs no router.
    #[serde(default)]
    pub mode: RouterMode,
    /// Routers per region in mode deployment.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
    /// Image with mcrouter; the operator's own default when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When the image is pulled: Always, IfNotPresent or Never; Kubernetes' default when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Processor and memory of a router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Further command line arguments of mcrouter. They come last, so that they win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub extra_args: Vec<String>,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            mode: RouterMode::default(),
            replicas: default_replicas(),
            image: None,
            image_pull_policy: None,
            resources: None,
            extra_args: Vec::new(),
        }
    }
}

/// What runs the routers.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RouterMode {
    /// A Deployment.
    #[default]
    Deployment,
    /// A DaemonSet.
    Daemonset,
    /// Nothing of ours.
    None,
}

fn default_replicas() -> i32 {
    2
}
