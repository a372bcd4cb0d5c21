//! Secrets that tests write, and pods that see them at once.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Resource, ResourceExt};
use petra_e2e::Fixture;
use petra_e2e::authority::Certificate;
use petra_operator::names::Component;
use serde_json::json;

/// Writes the Secret `name` with these keys and no others.
pub(crate) async fn put(fixture: &Fixture, name: &str, keys: &[(&str, &str)]) {
    let data: BTreeMap<String, ByteString> = keys
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
        .collect();
    let secret = json!({
        "apiVersion": Secret::api_version(&()), "kind": Secret::kind(&()),
        "metadata": {"name": name}, "data": data,
    });
    fixture
        .api::<Secret>()
        .patch(
            name,
            &PatchParams::apply("petra-e2e"),
            &Patch::Apply(&secret),
        )
        .await
        .unwrap();
}

/// Writes a Secret as cert-manager does: a certificate, and the authorities that its peers' come from.
pub(crate) async fn put_tls(
    fixture: &Fixture,
    name: &str,
    certificate: &Certificate,
    authorities: &str,
) {
    let keys = [
        ("tls.crt", certificate.certificate.as_str()),
        ("tls.key", &certificate.key),
        ("ca.crt", authorities),
    ];
    put(fixture, name, &keys).await;
}

/// Has the kubelet look at every pod of region main of cluster `shop`, as it does by itself about once a minute.
pub(crate) async fn deliver(fixture: &Fixture, turn: &str) {
    for component in [Component::Node, Component::Router] {
        for pod in fixture.pods("shop", "main", component).await.unwrap() {
            let patch = json!({"metadata": {"annotations": {"petracache.io/test": turn}}});
            fixture
                .api::<Pod>()
                .patch(
                    &pod.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(&patch),
                )
                .await
                .unwrap();
        }
    }
}

/// Which very pods there are, and how often their containers began anew.
pub(crate) async fn lives(fixture: &Fixture) -> Vec<(Option<String>, i32)> {
    let mut lives = Vec::new();
    for component in [Component::Node, Component::Router] {
        for pod in fixture.pods("shop", "main", component).await.unwrap() {
            let containers = pod.status.and_then(|status| status.container_statuses);
            let restarts = containers
                .iter()
                .flatten()
                .map(|container| container.restart_count);
            lives.push((pod.metadata.uid, restarts.sum()));
        }
    }
    lives.sort();
    lives
}
