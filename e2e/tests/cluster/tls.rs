//! Everything is encrypted, nobody is served without a certificate, and a new one needs no restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use petra_e2e::authority::{Authority, Certificate};
use petra_e2e::fixture::pod_is_ready;
use petra_e2e::memcached::Connection;
use petra_e2e::{Fixture, eventually, with_temp_ns};
use petra_operator::names::{Component, MEMCACHED_PORT, MEMCACHED_TLS_PORT};
use rustls::ClientConfig;
use serde_json::json;

use crate::{secrets, specs};

/// Name by which tests know the routers.
const ROUTER: &str = "shop-main-router";

fn spec() -> String {
    // A handshake may take its time on a busy machine.
    let patient = "  routing: {timeouts: {connect: 2s, server: 2s}}\n";
    specs::one_region("shop", 2) + patient + "  tls: {secretName: shop-tls}\n"
}

fn issue(authority: &Authority, fixture: &Fixture) -> Certificate {
    let nodes = format!("*.shop-main.{}.svc.cluster.local", fixture.namespace());
    authority.issue(&[&nodes, ROUTER]).unwrap()
}

async fn node(
    fixture: &Fixture,
    ordinal: usize,
    config: Arc<ClientConfig>,
) -> anyhow::Result<Connection> {
    let pod = format!("shop-main-{ordinal}");
    let name = format!("{pod}.shop-main.{}.svc.cluster.local", fixture.namespace());
    Connection::open_tls(&fixture.address(&pod, MEMCACHED_PORT).await?, &name, config).await
}

async fn router(fixture: &Fixture, config: Arc<ClientConfig>) -> anyhow::Result<Connection> {
    let routers = fixture.pods("shop", "main", Component::Router).await?;
    let stays = |pod: &&Pod| pod_is_ready(pod) && pod.metadata.deletion_timestamp.is_none();
    let pod = routers.iter().find(stays).context("no router is ready")?;
    let address = fixture.address(&pod.name_any(), MEMCACHED_TLS_PORT).await?;
    Connection::open_tls(&address, ROUTER, config).await
}

/// Whether somebody who speaks like this is answered by a node.
async fn is_served(fixture: &Fixture, config: Arc<ClientConfig>) -> bool {
    match node(fixture, 0, config).await {
        Ok(mut connection) => connection.get("k").await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn applications_are_served_over_tls_and_nodes_serve_nobody_without_a_certificate() {
    with_temp_ns("tls", |fixture| async move {
        let (ours, theirs) = (
            Authority::new("ours").unwrap(),
            Authority::new("theirs").unwrap(),
        );
        let certificate = issue(&ours, &fixture);
        secrets::put_tls(&fixture, "shop-tls", &certificate, &ours.pem()).await;
        fixture.apply(&spec()).await.unwrap();
        // Which is to say that the operator asks routers over TLS.
        fixture.ready("shop").await;

        let anonymous = ours.client(None).unwrap();
        let mut client = router(&fixture, Arc::clone(&anonymous)).await.unwrap();
        assert_eq!(client.set("k", "v").await.unwrap(), "STORED");
        assert_eq!(client.get("k").await.unwrap().as_deref(), Some("v"));
        assert!(
            fixture.router("shop", "main").await.is_err(),
            "routers have a plain port"
        );

        let known = ours.client(Some(&certificate)).unwrap();
        assert!(is_served(&fixture, known).await);
        assert!(
            !is_served(&fixture, anonymous).await,
            "without a certificate"
        );
        let other = ours.client(Some(&issue(&theirs, &fixture))).unwrap();
        assert!(
            !is_served(&fixture, other).await,
            "with another authority's"
        );
        let mut plain = fixture.connect("shop-main-0").await.unwrap();
        assert!(plain.get("k").await.is_err(), "without TLS");
    })
    .await;
}

#[tokio::test]
async fn certificates_and_their_authority_are_replaced_without_a_restart_or_an_error() {
    with_temp_ns("tls-rotation", |fixture| async move {
        let (old, new) = (
            Authority::new("old").unwrap(),
            Authority::new("new").unwrap(),
        );
        let first = issue(&old, &fixture);
        secrets::put_tls(&fixture, "shop-tls", &first, &old.pem()).await;
        fixture.apply(&spec()).await.unwrap();
        fixture.ready("shop").await;
        let before = secrets::lives(&fixture).await;

        let stop = Arc::new(AtomicBool::new(false));
        let load = tokio::spawn(load(
            fixture.clone(),
            old.client(None).unwrap(),
            stop.clone(),
        ));

        // As cert-manager renews.
        let second = issue(&old, &fixture);
        secrets::put_tls(&fixture, "shop-tls", &second, &old.pem()).await;
        let client = old.client(Some(&second)).unwrap();
        all_show(&fixture, "renewed", &second, client).await;
        // As people replace an authority: both are trusted, then the new one signs, then the old one goes.
        let both = old.pem() + &new.pem();
        secrets::put_tls(&fixture, "shop-tls", &second, &both).await;
        let third = issue(&new, &fixture);
        all_show(
            &fixture,
            "trusted",
            &second,
            old.client(Some(&third)).unwrap(),
        )
        .await;
        secrets::put_tls(&fixture, "shop-tls", &third, &both).await;
        all_show(
            &fixture,
            "signed",
            &third,
            new.client(Some(&third)).unwrap(),
        )
        .await;
        stop.store(true, Ordering::Relaxed);
        let operations = load.await.unwrap();
        assert!(operations > 0, "nothing was asked meanwhile");
        secrets::put_tls(&fixture, "shop-tls", &third, &new.pem()).await;
        secrets::deliver(&fixture, "alone").await;
        let late = new.client(Some(&second)).unwrap();
        eventually("the old authority is trusted no more", || async {
            ensure!(!is_served(&fixture, Arc::clone(&late)).await);
            anyhow::Ok(())
        })
        .await;

        assert_eq!(
            secrets::lives(&fixture).await,
            before,
            "something restarted"
        );
        fixture.ready("shop").await;
    })
    .await;
}

#[tokio::test]
async fn a_secret_of_another_name_restarts_one_node_at_a_time_and_costs_no_errors() {
    with_temp_ns("tls-secret", |fixture| async move {
        let authority = Authority::new("ours").unwrap();
        for secret in ["shop-tls", "shop-other"] {
            let certificate = issue(&authority, &fixture);
            secrets::put_tls(&fixture, secret, &certificate, &authority.pem()).await;
        }
        fixture.apply(&spec()).await.unwrap();
        fixture.ready("shop").await;
        let before = secrets::lives(&fixture).await;
        let other = json!({"spec": {"tls": {"secretName": "shop-other"}}});
        fixture.patch("shop", other).await.unwrap();
        eventually("every node and router is another one", || async {
            // A failed operation ends the test: `get` and the answer of `set` are errors then.
            let anonymous = authority.client(None).unwrap();
            let mut router = router(&fixture, anonymous).await.unwrap();
            for number in 0..20 {
                let key = format!("key-{number}");
                assert_eq!(router.set(&key, "value").await.unwrap(), "STORED");
                router.get(&key).await.unwrap();
            }
            let nodes = fixture.pods("shop", "main", Component::Node).await?;
            let ready = nodes.iter().filter(|pod| pod_is_ready(pod)).count();
            assert!(ready >= 1, "no node is ready");
            let now = secrets::lives(&fixture).await;
            ensure!(now.len() == 3 && now.iter().all(|life| !before.contains(life)));
            anyhow::Ok(())
        })
        .await;
        fixture.ready("shop").await;
    })
    .await;
}

/// Waits until both nodes and the router show `certificate` to a client that speaks like this, and answer it.
async fn all_show(
    fixture: &Fixture,
    turn: &str,
    certificate: &Certificate,
    config: Arc<ClientConfig>,
) {
    secrets::deliver(fixture, turn).await;
    let shown = Some(certificate.der().unwrap());
    eventually(turn, || async {
        for ordinal in 0..2 {
            let mut node = node(fixture, ordinal, Arc::clone(&config)).await?;
            ensure!(node.certificate() == shown.as_ref(), "node {ordinal}");
            node.get("k").await?;
        }
        let mut router = router(fixture, Arc::clone(&config)).await?;
        ensure!(router.certificate() == shown.as_ref(), "the router");
        router.get("k").await?;
        anyhow::Ok(())
    })
    .await;
}

/// Writes and reads through the router until it is told to stop; an error ends the test. How many there were.
async fn load(fixture: Fixture, config: Arc<ClientConfig>, stop: Arc<AtomicBool>) -> usize {
    let mut client = router(&fixture, config).await.unwrap();
    let mut operations = 0;
    while !stop.load(Ordering::Relaxed) {
        let key = format!("key-{}", operations % 50);
        assert_eq!(client.set(&key, "value").await.unwrap(), "STORED");
        assert_eq!(client.get(&key).await.unwrap().as_deref(), Some("value"));
        operations += 1;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    operations
}
