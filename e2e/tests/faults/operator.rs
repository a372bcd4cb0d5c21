//! The operator is killed, or runs twice.

use std::collections::BTreeSet;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use petra_e2e::fixture::{is_ready, phase};
use petra_e2e::{Fixture, eventually, with_temp_ns};
use petra_operator::crd::{PetraCluster, ScalingPhase};
use petra_routing::Config;
use serde_json::json;

use crate::specs;

const NAMESPACE: &str = "petracache-system";
const KEYS: usize = 60;

/// Up and down again, and in each phase of both the leader is killed: the end is the same.
#[tokio::test]
async fn an_operator_that_is_killed_in_any_phase_of_a_scale_is_followed_by_one_that_goes_on() {
    with_temp_ns("killed", |fixture| async move {
        let spec = specs::one_region("shop", 2).replacen("window: 1s", "window: 3s", 1);
        fixture.apply(&spec).await.unwrap();
        fixture.ready("shop").await;
        let mut killed_in = BTreeSet::new();
        for target in ScalingPhase::ALL {
            for nodes in [3, 2] {
                let replicas = json!({"spec": {"replicas": nodes}});
                fixture.patch("shop", replicas).await.unwrap();
                if reaches(&fixture, target, nodes).await {
                    kill_leader(&fixture).await;
                    killed_in.insert((target, nodes));
                }
                settled(&fixture, nodes).await;
                fixture.write("shop", "main", KEYS).await;
                fixture.serves_all("shop", "main", KEYS).await;
            }
        }
        println!("killed in {killed_in:?}");
        for expected in [
            (ScalingPhase::Provisioning, 3),
            (ScalingPhase::Warming, 3),
            (ScalingPhase::Warming, 2),
        ] {
            assert!(killed_in.contains(&expected), "{expected:?} never came by");
        }
    })
    .await;
}

/// Two operators run, one of them writes; when it goes in peace the other takes over.
#[tokio::test]
async fn of_two_operators_one_leads_and_hands_over_when_it_ends() {
    with_temp_ns("two-operators", |fixture| async move {
        let first = leader(&fixture).await.unwrap();
        let operators = operator_pods(&fixture).await.unwrap();
        assert!(operators.len() >= 2, "{} operators run", operators.len());
        let api: Api<Pod> = fixture.api_in(NAMESPACE);
        api.delete(&first, &DeleteParams::default()).await.unwrap();
        let second = eventually("another one leads", || async {
            let holder = leader(&fixture).await?;
            ensure!(holder != first, "{holder} still leads");
            anyhow::Ok(holder)
        })
        .await;
        assert_ne!(first, second);
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
    })
    .await;
}

/// Whether the cluster comes to `target` on its way to `nodes` nodes; not every phase is part of every way.
async fn reaches(fixture: &Fixture, target: ScalingPhase, nodes: i32) -> bool {
    let there_or_over = move |cluster: Option<&PetraCluster>| {
        phase(cluster) == Some(target) || is_settled(cluster, nodes)
    };
    let cluster = fixture
        .wait("the phase comes, or the end", "shop", there_or_over)
        .await;
    phase(cluster.as_ref()) == Some(target)
}

fn is_settled(cluster: Option<&PetraCluster>, nodes: i32) -> bool {
    let status = cluster.and_then(|cluster| cluster.status.as_ref());
    is_ready(cluster)
        && status
            .is_some_and(|status| status.scaling.is_empty() && status.regions[0].nodes == nodes)
}

async fn settled(fixture: &Fixture, nodes: i32) {
    let settled = move |cluster: Option<&PetraCluster>| is_settled(cluster, nodes);
    fixture
        .wait("the change of size ends", "shop", settled)
        .await;
    let config = Config::from_json(&fixture.config_text("shop", "main").await.unwrap()).unwrap();
    assert_eq!(config.servers().len(), usize::try_from(nodes).unwrap());
    let set = fixture.api::<StatefulSet>().get("shop-main").await.unwrap();
    assert_eq!(set.spec.unwrap().replicas, Some(nodes));
}

/// Ends the leader without a chance to hand over.
async fn kill_leader(fixture: &Fixture) {
    let leader = leader(fixture).await.unwrap();
    let at_once = DeleteParams::default().grace_period(0);
    let api: Api<Pod> = fixture.api_in(NAMESPACE);
    // It may be gone by itself.
    let _ = api.delete(&leader, &at_once).await;
}

async fn leader(fixture: &Fixture) -> anyhow::Result<String> {
    let leases: Api<Lease> = fixture.api_in(NAMESPACE);
    let lease = leases.get("petracache").await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    holder.ok_or_else(|| anyhow::anyhow!("nobody leads"))
}

async fn operator_pods(fixture: &Fixture) -> anyhow::Result<Vec<String>> {
    let parameters = ListParams::default().labels("app.kubernetes.io/name=petra-operator");
    let pods: Api<Pod> = fixture.api_in(NAMESPACE);
    Ok(pods
        .list(&parameters)
        .await?
        .items
        .iter()
        .map(ResourceExt::name_any)
        .collect())
}
