//! Everything that people apply is known to the oldest Kubernetes that we support: `k8s-openapi`'s types are of that version, and
//! a field that they do not have, or of another type, does not come through them unchanged. What the operator makes is made of
//! these types.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Defined by us, by cert-manager and by the Prometheus operator; `e2e/chart.sh validate` has an API server judge them.
const NOT_OF_KUBERNETES: [&str; 3] = [
    "petracache.io/v1alpha1",
    "cert-manager.io/v1",
    "monitoring.coreos.com/v1",
];

#[test]
fn the_oldest_kubernetes_knows_every_field_of_what_people_apply() {
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            if !object.is_null() && !NOT_OF_KUBERNETES.contains(&version) {
                assert_eq!(known_part(&object), Ok(object), "{}", file.display());
            }
        }
    }
}

#[test]
fn a_field_that_it_does_not_know_is_noticed() {
    let service = serde_json::json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"}, "spec": {"clusterIPPolicy": "None"}
    });
    assert_ne!(known_part(&service), Ok(service));
}

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["crds", "manifests", "charts/golden", "operator/examples"];
    let files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() > folders.len(), "{files:?}");
    files
}

/// `object` without what its type does not have.
fn known_part(object: &Value) -> Result<Value, String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let through = [
        part::<ClusterRole>,
        part::<ClusterRoleBinding>,
        part::<ConfigMap>,
        part::<CustomResourceDefinition>,
        part::<Deployment>,
        part::<HorizontalPodAutoscaler>,
        part::<Namespace>,
        part::<Pod>,
        part::<PodDisruptionBudget>,
        part::<Role>,
        part::<RoleBinding>,
        part::<Service>,
        part::<ServiceAccount>,
    ];
    through
        .iter()
        .find_map(|through| through(object))
        .unwrap_or_else(|| Err(format!("a {kind} that this test does not know")))
}

/// Nothing when `object` is of another kind or version than `K`.
fn part<K>(object: &Value) -> Option<Result<Value, String>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Serialize,
{
    let is_one = object["kind"] == *K::kind(&()) && object["apiVersion"] == *K::api_version(&());
    let through = || {
        let typed: K = serde_json::from_value(object.clone())?;
        serde_json::to_value(typed)
    };
    is_one.then(|| through().map_err(|error| error.to_string()))
}
