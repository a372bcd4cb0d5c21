//! What cert-manager is asked for, with its own CustomResourceDefinition. The test plays cert-manager: it writes the Secret.

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use petra_e2e::authority::Authority;
use petra_e2e::fixture::condition;
use petra_e2e::memcached::Connection;
use petra_e2e::{Fixture, eventually, with_temp_ns};
use petra_operator::crd::PetraCluster;
use petra_operator::names::{Component, MEMCACHED_TLS_PORT};
use petra_operator::object::Kind;
use serde_json::json;

use crate::{secrets, specs};

/// Makes the API server know Certificates, or not know them.
fn kind_of_certificates(fixture: &Fixture, known: bool) {
    let folder = std::env::var("PETRA_E2E_CERT_MANAGER")
        .expect("PETRA_E2E_CERT_MANAGER: what e2e/lab/cert-manager.sh prints");
    let file = format!("{folder}/cert-manager.io_certificates.yaml");
    let arguments: &[&str] = if known {
        &["apply", "--server-side", "-f", &file]
    } else {
        &["delete", "--ignore-not-found", "--wait", "-f", &file]
    };
    let done = fixture.kubectl(arguments).unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn certificates(fixture: &Fixture) -> Api<DynamicObject> {
    fixture.dynamic(&Kind::Certificate.api_resource())
}

#[tokio::test]
async fn cert_manager_is_asked_for_a_certificate_and_missed_when_it_is_not_there() {
    with_temp_ns("cert-manager", |fixture| async move {
        kind_of_certificates(&fixture, false);
        let tls = "  tls: {certManager: {issuerRef: {name: cache-ca}}}\n";
        fixture
            .apply(&(specs::one_region("shop", 1) + tls))
            .await
            .unwrap();
        let misses_it = |cluster: Option<&PetraCluster>| {
            cluster.is_some_and(|cluster| {
                let (ready, message) = condition(cluster, "Ready");
                ready == "False" && message.contains("install cert-manager")
            })
        };
        fixture
            .wait("the status says what is missing", "shop", misses_it)
            .await;

        kind_of_certificates(&fixture, true);
        let wanted = eventually("cert-manager is asked", || async {
            certificates(&fixture).get("shop-main-tls").await
        })
        .await;
        let unanswered = |cluster: Option<&PetraCluster>| {
            cluster
                .is_some_and(|cluster| condition(cluster, "Ready").1.contains("has not looked at"))
        };
        fixture
            .wait("the status says who is waited for", "shop", unanswered)
            .await;
        let spec = &wanted.data["spec"];
        assert_eq!(spec["issuerRef"]["name"], "cache-ca");
        assert_eq!(
            spec["usages"],
            json!(["digital signature", "server auth", "client auth"])
        );
        let names: Vec<&str> = spec["dnsNames"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|name| name.as_str())
            .collect();
        let authority = Authority::new("cache-ca").unwrap();
        let certificate = authority.issue(&names).unwrap();
        let secret = spec["secretName"].as_str().unwrap();
        secrets::put_tls(&fixture, secret, &certificate, &authority.pem()).await;
        fixture.ready("shop").await;
        router_serves(&fixture, &authority).await;

        // Read at every look, and never written again.
        let now = certificates(&fixture).get("shop-main-tls").await.unwrap();
        assert_eq!(now.resource_version(), wanted.resource_version());
        let before = secrets::lives(&fixture).await;
        let by_hand =
            json!({"spec": {"tls": {"certManager": null, "secretName": "shop-main-tls"}}});
        fixture.patch("shop", by_hand).await.unwrap();
        eventually("cert-manager is asked no more", || async {
            let left = certificates(&fixture).get_opt("shop-main-tls").await?;
            ensure!(left.is_none(), "the Certificate is still there");
            anyhow::Ok(())
        })
        .await;
        fixture.ready("shop").await;
        assert_eq!(
            secrets::lives(&fixture).await,
            before,
            "the Secret is the same"
        );
        kind_of_certificates(&fixture, false);
    })
    .await;
}

/// By a name that applications use.
async fn router_serves(fixture: &Fixture, authority: &Authority) {
    let name = format!("shop-main-router.{}.svc.cluster.local", fixture.namespace());
    let anonymous = authority.client(None).unwrap();
    eventually("the router serves over TLS", || async {
        let routers = fixture.pods("shop", "main", Component::Router).await?;
        let router: &Pod = routers.first().context("no router")?;
        let address = fixture
            .address(&router.name_any(), MEMCACHED_TLS_PORT)
            .await?;
        let mut client = Connection::open_tls(&address, &name, anonymous.clone()).await?;
        ensure!(client.set("k", "v").await? == "STORED");
        anyhow::Ok(())
    })
    .await;
}
