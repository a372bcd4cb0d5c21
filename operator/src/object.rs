//! Kinds of objects that the operator makes, and their identity and digest.
//!
//! Must not know what the objects are for.

use std::fmt;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::{ApiResource, GroupVersionKind};
use md5::{Digest, Md5};
use serde::Serialize;
use serde_json::Value;

/// Kinds in the order in which they are applied: what others refer to comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// cert-manager's: what nodes and routers show.
    Certificate,
    /// Names of nodes, address of routers.
    Service,
    /// Limits of evictions.
    PodDisruptionBudget,
    /// Who may connect.
    NetworkPolicy,
    /// Nodes.
    StatefulSet,
    /// Configuration of routers, which names nodes.
    ConfigMap,
    /// Routers.
    Deployment,
    /// Routers.
    DaemonSet,
}

impl Kind {
    /// How the API server knows the kind.
    pub fn api_resource(self) -> ApiResource {
        match self {
            Self::Certificate => ApiResource::from_gvk(&GroupVersionKind::gvk(
                "cert-manager.io",
                "v1",
                "Certificate",
            )),
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::Service => ApiResource::erase::<Service>(&()),
            Self::PodDisruptionBudget => ApiResource::erase::<PodDisruptionBudget>(&()),
            Self::NetworkPolicy => ApiResource::erase::<NetworkPolicy>(&()),
            Self::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::DaemonSet => ApiResource::erase::<DaemonSet>(&()),
        }
    }

    /// Its name, as in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "Certificate",
            Self::ConfigMap => "ConfigMap",
            Self::Service => "Service",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::StatefulSet => "StatefulSet",
            Self::Deployment => "Deployment",
            Self::DaemonSet => "DaemonSet",
        }
    }
}

/// Which object of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

/// An object as it shall be.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Which one.
    pub key: ObjectKey,
    /// What is applied.
    pub body: Value,
}

impl Wanted {
    /// The object as it is sent.
    ///
    /// # Errors
    ///
    /// None in practice: the types of the Kubernetes API are all representable as JSON.
    pub fn new<K: Resource + Serialize>(kind: Kind, object: &K) -> serde_json::Result<Self> {
        let name = object.meta().name.clone().unwrap_or_default();
        Ok(Self {
            key: ObjectKey { kind, name },
            body: serde_json::to_value(object)?,
        })
    }
}

/// Digest of an object's content.
pub type ContentDigest = [u8; 16];

/// Digest of everything in `object` that somebody decided: not of its status, nor of what the API server and the
/// controllers of Kubernetes write down for themselves.
pub fn content_digest(object: &Value) -> ContentDigest {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.retain(|key, _| {
                !key.starts_with("deployment.kubernetes.io/")
                    && !key.starts_with("deprecated.daemonset.")
            });
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    Md5::digest(object.to_string().as_bytes()).into()
}

/// Whether everything that `wanted` says is so in `live`, which may say more: the API server fills in defaults, and others
/// add what is theirs. A quantity that the API server writes differently counts as a difference.
pub fn is_within(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            let holds = |(name, value)| live.get(name).is_some_and(|live| is_within(value, live));
            wanted.iter().all(holds)
        }
        (Value::Array(wanted), Value::Array(live)) => {
            let holds = |(wanted, live)| is_within(wanted, live);
            wanted.len() == live.len() && wanted.iter().zip(live).all(holds)
        }
        (wanted, live) => wanted == live,
    }
}

/// Whether resource version `seen` is older than `written`: what is seen is from before our own write.
pub fn is_older(seen: Option<&str>, written: Option<&str>) -> bool {
    let number = |version: Option<&str>| version.and_then(|version| version.parse::<u64>().ok());
    matches!((number(seen), number(written)), (Some(seen), Some(written)) if seen < written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_digest_is_blind_for_status_and_bookkeeping_only() {
        let object = json!({"metadata": {"name": "a", "resourceVersion": "1", "generation": 1,
            "annotations": {"deployment.kubernetes.io/revision": "1"}}, "spec": {"x": 1}, "status": {"ready": 0}});
        let later = json!({"metadata": {"name": "a", "resourceVersion": "9"}, "spec": {"x": 1}});
        assert_eq!(content_digest(&object), content_digest(&later));
        for (pointer, value) in [("/spec/x", json!(2)), ("/metadata/name", json!("b"))] {
            let mut changed = later.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_ne!(
                content_digest(&changed),
                content_digest(&later),
                "{pointer}"
            );
        }
    }

    #[test]
    fn what_is_there_may_say_more_but_nothing_else() {
        let wanted = json!({"spec": {"replicas": 3, "ports": [{"port": 1}]}});
        let table = [
            (
                json!({"spec": {"replicas": 3, "ports": [{"port": 1, "protocol": "TCP"}]}, "status": {}}),
                true,
            ),
            (
                json!({"spec": {"replicas": 2, "ports": [{"port": 1}]}}),
                false,
            ),
            (json!({"spec": {"ports": [{"port": 1}]}}), false),
            (
                json!({"spec": {"replicas": 3, "ports": [{"port": 1}, {"port": 2}]}}),
                false,
            ),
            (json!({"spec": {"replicas": 3, "ports": []}}), false),
        ];
        for (live, within) in table {
            assert_eq!(is_within(&wanted, &live), within, "{live}");
        }
    }

    #[test]
    fn versions_that_are_no_numbers_are_never_older() {
        assert!(is_older(Some("9"), Some("10")));
        assert!(!is_older(Some("10"), Some("10")));
        assert!(!is_older(Some("x"), Some("10")));
        assert!(!is_older(None, Some("10")));
    }
}
