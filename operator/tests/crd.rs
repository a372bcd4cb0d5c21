//! The custom resource as it is installed: the generated file is current, and small enough for every way to apply it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use kube::CustomResourceExt;
use petra_operator::crd::PetraCluster;

/// `kubectl apply` without `--server-side` keeps a copy in an annotation, which holds 256 KiB.
const MAX_BYTES: usize = 256 * 1024;

fn generated() -> String {
    serde_saphyr::to_string(&PetraCluster::crd()).unwrap()
}

#[test]
fn the_generated_file_is_current() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crds/petraclusters.petracache.io.yaml");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, generated()).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        file == generated(),
        "crds/petraclusters.petracache.io.yaml is out of date: write it with `petra-operator crd`, or run this test with UPDATE_GOLDEN=1"
    );
}

#[test]
fn the_definition_can_be_applied_from_the_client_side_too() {
    let bytes = serde_json::to_vec(&PetraCluster::crd()).unwrap().len();
    assert!(bytes < MAX_BYTES, "{bytes} bytes");
}

#[test]
fn every_field_that_is_ours_is_documented() {
    let crd = serde_json::to_value(PetraCluster::crd()).unwrap();
    let fields = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let mut missing = Vec::new();
    for part in ["spec", "status"] {
        undocumented(part, &fields[part], &mut missing);
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// Fields of Kubernetes' own types: theirs to document.
const EMBEDDED: [&str; 4] = [
    "resources",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
];

fn undocumented(path: &str, schema: &serde_json::Value, missing: &mut Vec<String>) {
    if schema["description"].as_str().is_none_or(str::is_empty) {
        missing.push(path.to_owned());
    }
    let fields = schema["properties"]
        .as_object()
        .or_else(|| schema["items"]["properties"].as_object());
    for (name, field) in fields
        .into_iter()
        .flatten()
        .filter(|(name, _)| !EMBEDDED.contains(&name.as_str()))
    {
        undocumented(&format!("{path}.{name}"), field, missing);
    }
}
