//! How a region gets more or fewer nodes.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Period;

/// How a region gets more or fewer nodes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// warm: for the window, what the new layout misses is looked up in the old one and copied, so that clients see no drop
    /// of the hit ratio. immediate: the window is as short as can be, and what moves to another node is missed.
    #[serde(default)]
    pub mode: ScalingMode,
    /// How long both layouts are used in mode warm. What nobody read or wrote meanwhile and moves to another node is missed
    /// afterwards, so make it as long as the time in which your keys are read again.
    #[serde(default = "default_window")]
    pub window: Period,
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            mode: ScalingMode::default(),
            window: default_window(),
        }
    }
}

/// How routers get from one layout to the next.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum ScalingMode {
    /// Through a time in which they use both.
    #[default]
    Warm,
    /// At once.
    Immediate,
}

fn default_window() -> Period {
    "10m".into()
}
