//! The API server goes, loses connections, or is made to refuse writes by somebody else, in the middle of a change of size.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use petra_e2e::fixture::{condition, phase};
use petra_e2e::{Fixture, eventually, with_temp_ns};
use petra_operator::crd::{PetraCluster, ScalingPhase};
use petra_operator::names::Component;
use serde_json::json;

use crate::lab::{lab, region};
use crate::operator::settled;
use crate::specs;
use crate::steady::Steps;

const KEYS: usize = 60;

#[derive(Debug, Clone, Copy)]
enum Trouble {
    ApiServerRestarts,
    ConnectionsAreCut,
    WebhookTimesOut,
}

#[tokio::test]
async fn cut_connections_and_a_webhook_that_times_out_delay_a_scale_and_change_nothing_else() {
    let troubles = [Trouble::ConnectionsAreCut, Trouble::WebhookTimesOut];
    delay_a_scale("api-server", &troubles).await;
}

#[tokio::test]
async fn an_api_server_that_restarts_delays_a_scale_and_changes_nothing_else() {
    delay_a_scale("api-restart", &[Trouble::ApiServerRestarts]).await;
}

/// The nodes go on serving, the change is finished when it can be, and nothing is done twice or taken back on the way.
async fn delay_a_scale(name: &str, troubles: &[Trouble]) {
    with_temp_ns(name, |fixture| async move {
        let spec = specs::one_region("shop", 2).replacen("window: 1s", "window: 4s", 1);
        fixture.apply(&spec).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", KEYS).await;
        let before = uids(&fixture).await;
        for (trouble, (from, to)) in troubles.iter().zip([(2, 3), (3, 2)]) {
            println!("{trouble:?} on the way from {from} to {to} nodes");
            let steps = Steps::watch(&fixture);
            let replicas = json!({"spec": {"replicas": to}});
            fixture.patch("shop", replicas).await.unwrap();
            let warming =
                |cluster: Option<&PetraCluster>| phase(cluster) == Some(ScalingPhase::Warming);
            fixture.wait("the region is warming", "shop", warming).await;
            befall(&fixture, *trouble).await;
            settled(&fixture, to).await;
            // What nobody asked for within the window may be missed, but is no other value.
            fixture.hits("shop", "main", KEYS).await.unwrap();
            fixture.write("shop", "main", KEYS).await;
            fixture.serves_all("shop", "main", KEYS).await;
            steps.went_straight(from, to);
        }
        assert_eq!(
            uids(&fixture).await[..2],
            before,
            "nodes that stay were not restarted"
        );
    })
    .await;
}

async fn befall(fixture: &Fixture, trouble: Trouble) {
    match trouble {
        Trouble::ApiServerRestarts => {
            lab(&["sh", &region(), "pkill", "-9", "-x", "kube-apiserver"]);
            let clusters = fixture.api::<PetraCluster>();
            eventually("the API server is back", || clusters.get("shop")).await;
        }
        Trouble::ConnectionsAreCut => {
            lab(&[
                "sh",
                &region(),
                "ss",
                "--kill",
                "state",
                "established",
                "sport",
                "=",
                ":6443",
            ]);
        }
        Trouble::WebhookTimesOut => webhook_times_out(fixture).await,
    }
}

/// Somebody else's webhook wants to be asked about every change in the namespace, and never answers.
async fn webhook_times_out(fixture: &Fixture) {
    let name = fixture.namespace();
    let webhook = json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": "nobody.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 1,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
            "rules": [{"apiGroups": ["", "apps"], "apiVersions": ["v1"],
                "resources": ["configmaps", "statefulsets"], "operations": ["CREATE", "UPDATE"]}],
            // An address of the lab that nobody has.
            "clientConfig": {"url": "https://198.19.255.254/"},
        }],
    });
    let webhooks: Api<ValidatingWebhookConfiguration> = fixture.all();
    let webhook = serde_json::from_value(webhook).unwrap();
    webhooks
        .create(&PostParams::default(), &webhook)
        .await
        .unwrap();
    let says_why = |cluster: Option<&PetraCluster>| {
        cluster.is_some_and(|cluster| condition(cluster, "Ready").1.contains("nobody.example.com"))
    };
    fixture
        .wait("the status says who refuses", "shop", says_why)
        .await;
    fixture.serves_all("shop", "main", KEYS).await;
    webhooks
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
}

/// Of the nodes, in the order of their numbers.
async fn uids(fixture: &Fixture) -> Vec<Option<String>> {
    let mut pods = fixture.pods("shop", "main", Component::Node).await.unwrap();
    pods.sort_by_key(kube::ResourceExt::name_any);
    pods.into_iter().map(|pod| pod.metadata.uid).collect()
}
