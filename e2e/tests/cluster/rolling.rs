//! A change of the pod template rolls one node at a time, and stops at one that does not come back.

use std::collections::BTreeSet;
use std::sync::Mutex;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::StatefulSet;
use petra_e2e::fixture::{condition, is_ready, pod_is_ready};
use petra_e2e::{Fixture, eventually, with_temp_ns};
use petra_operator::crd::PetraCluster;
use petra_operator::names::Component;
use serde_json::json;

use crate::specs;

#[tokio::test]
async fn a_roll_restarts_one_node_at_a_time_and_costs_no_errors() {
    with_temp_ns("rolling", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 3)).await.unwrap();
        fixture.ready("shop").await;
        let before = uids(&fixture).await.unwrap();
        let requests = json!({"spec": {"node": {"resources": {"requests": {"cpu": "11m"}}}}});
        fixture.patch("shop", requests).await.unwrap();
        eventually("every node is another one", || async {
            // A failed operation ends the test: `get` and the answer of `set` are errors then.
            let mut router = fixture.router("shop", "main").await.unwrap();
            for number in 0..20 {
                let key = format!("key-{number}");
                assert_eq!(router.set(&key, "value").await.unwrap(), "STORED");
                router.get(&key).await.unwrap();
            }
            let ready = ready_nodes(&fixture).await?;
            assert!(ready >= 2, "{ready} of 3 nodes are ready");
            let now = uids(&fixture).await?;
            ensure!(now.len() == 3 && now.iter().all(|uid| !before.contains(uid)));
            anyhow::Ok(())
        })
        .await;
        fixture.ready("shop").await;
    })
    .await;
}

#[tokio::test]
async fn a_roll_that_is_stuck_stops_says_why_and_goes_on_with_a_spec_that_is_put_right() {
    with_temp_ns("stuck-roll", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 3)).await.unwrap();
        fixture.ready("shop").await;
        let broken = json!({"spec": {"node": {"image": "docker.io/petracache/node:none", "imagePullPolicy": "Never"}}});
        fixture.patch("shop", broken).await.unwrap();
        let says_why = |cluster: Option<&PetraCluster>| {
            cluster.is_some_and(|cluster| {
                let (degraded, message) = condition(cluster, "Degraded");
                degraded == "True" && message.contains("ErrImageNeverPull")
            })
        };
        fixture.wait("the status says why", "shop", says_why).await;
        assert_eq!(ready_nodes(&fixture).await.unwrap(), 2);

        let right = json!({"spec": {"node": {"image": null, "imagePullPolicy": null}}});
        fixture.patch("shop", right).await.unwrap();
        fixture.wait("the cluster is Ready again", "shop", is_ready).await;
        assert_eq!(ready_nodes(&fixture).await.unwrap(), 3);
    })
    .await;
}

/// Routers that ask a node again only after a long time hold each node for down long after it is ready: the roll waits for
/// them, and their clients notice nothing.
#[tokio::test]
async fn a_roll_waits_until_no_router_holds_a_node_for_down_and_says_so() {
    with_temp_ns("roll-waits", |fixture| async move {
        let spec = specs::one_region("shop", 3);
        fixture.apply(&spec).await.unwrap();
        let patient = json!({"spec": {"router": {"extraArgs":
            ["--probe-timeout-initial=12000", "--probe-timeout-max=12000"]}}});
        fixture.patch("shop", patient).await.unwrap();
        fixture.ready("shop").await;
        let before = uids(&fixture).await.unwrap();
        let requests = json!({"spec": {"node": {"resources": {"requests": {"cpu": "11m"}}}}});
        fixture.patch("shop", requests).await.unwrap();
        let waited_for = Mutex::new(BTreeSet::new());
        eventually("every node is another one", || async {
            let mut router = fixture.router("shop", "main").await.unwrap();
            for number in 0..20 {
                let key = format!("key-{number}");
                assert_eq!(router.set(&key, "value").await.unwrap(), "STORED");
                router.get(&key).await.unwrap();
            }
            let cluster = fixture.api::<PetraCluster>().get("shop").await?;
            let (_, message) = condition(&cluster, "Progressing");
            let now = uids(&fixture).await?;
            let left = now.iter().filter(|uid| before.contains(uid)).count();
            if message.contains("holds shop-main-") {
                waited_for.lock().unwrap().insert(left);
            }
            ensure!(
                now.len() == 3 && left == 0,
                "{left} nodes are left: {message}"
            );
            anyhow::Ok(())
        })
        .await;
        // After the first node and after the second, with the others untouched.
        assert!(
            waited_for.lock().unwrap().is_superset(&[1, 2].into()),
            "{waited_for:?}"
        );
        fixture.ready("shop").await;
        let set = fixture.api::<StatefulSet>().get("shop-main").await.unwrap();
        let strategy = set
            .spec
            .and_then(|spec| spec.update_strategy)
            .unwrap_or_default();
        let partition = strategy
            .rolling_update
            .and_then(|rolling| rolling.partition);
        assert_eq!(partition.unwrap_or(0), 0, "nothing is left of the roll");
    })
    .await;
}

async fn uids(fixture: &Fixture) -> anyhow::Result<Vec<Option<String>>> {
    let pods = fixture.pods("shop", "main", Component::Node).await?;
    Ok(pods.into_iter().map(|pod| pod.metadata.uid).collect())
}

async fn ready_nodes(fixture: &Fixture) -> anyhow::Result<usize> {
    let pods = fixture.pods("shop", "main", Component::Node).await?;
    Ok(pods.iter().filter(|pod| pod_is_ready(pod)).count())
}
