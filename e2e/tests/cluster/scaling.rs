//! Nodes are added and removed, step by step, and clients of the router miss nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::ensure;
use k8s_openapi::api::apps::v1::StatefulSet;
use petra_e2e::fixture::{is_ready, phase};
use petra_e2e::{Fixture, eventually, with_temp_ns};
use petra_operator::crd::{PetraCluster, PetraClusterStatus, ScalingPhase};
use petra_routing::Config;
use serde_json::json;

use crate::specs;

const KEYS: usize = 200;

#[tokio::test]
async fn kubectl_scale_and_an_edit_add_and_remove_nodes_and_the_router_follows() {
    with_temp_ns("scaling", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;

        let scaled = fixture
            .kubectl(&["scale", "petra", "shop", "--replicas=3"])
            .unwrap();
        assert!(
            scaled.status.success(),
            "{}",
            String::from_utf8_lossy(&scaled.stderr)
        );
        settled(&fixture, 3).await;
        fixture.write("shop", "main", 60).await;
        let config = fixture.config_text("shop", "main").await.unwrap();
        assert!(
            (0..60).any(|n| Fixture::owner(&config, &format!("key-{n}")).unwrap() == "shop-main-2")
        );

        fixture
            .patch("shop", json!({"spec": {"replicas": 1}}))
            .await
            .unwrap();
        settled(&fixture, 1).await;
        fixture.write("shop", "main", 60).await;
        fixture.serves_all("shop", "main", 60).await;
    })
    .await;
}

/// Grow and shrink while a client reads every key, again and again.
#[tokio::test]
async fn the_hit_ratio_stays_while_a_region_grows_and_shrinks() {
    with_temp_ns("warming", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 3)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", KEYS).await;
        // Long enough for the client to come by every key, however busy the machine.
        fixture
            .patch("shop", json!({"spec": {"scaling": {"window": "15s"}}}))
            .await
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (rounds, misses) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let client = tokio::spawn({
            let (fixture, stop) = (fixture.clone(), Arc::clone(&stop));
            let (rounds, misses) = (Arc::clone(&rounds), Arc::clone(&misses));
            async move {
                while !stop.load(Ordering::Relaxed) {
                    let hits = fixture.hits("shop", "main", KEYS).await.unwrap();
                    misses.fetch_add(KEYS - hits, Ordering::Relaxed);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        for nodes in [4, 3] {
            let replicas = json!({"spec": {"replicas": nodes}});
            fixture.patch("shop", replicas).await.unwrap();
            settled(&fixture, nodes).await;
        }
        stop.store(true, Ordering::Relaxed);
        client.await.unwrap();
        let (rounds, misses) = (
            rounds.load(Ordering::Relaxed),
            misses.load(Ordering::Relaxed),
        );
        println!("{misses} of {} reads missed", rounds * KEYS);
        assert!(rounds > 2, "the client read all keys only {rounds} times");
        // A node that does not answer in time, on a busy machine, is asked in vain: the next node does not have its keys.
        let reads = rounds * KEYS;
        assert!(misses * 1000 <= reads, "{misses} of {reads} reads");
    })
    .await;
}

/// Out, in, out and in again. Each time all keys get another value: what nodes, and volumes of nodes that were away, have of
/// the time before is never read.
#[tokio::test]
async fn nodes_that_get_keys_again_serve_nothing_of_what_they_held_before() {
    with_temp_ns("again", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;
        for (round, nodes) in [2, 3, 2, 3, 2].into_iter().enumerate() {
            let replicas = json!({"spec": {"replicas": nodes}});
            fixture.patch("shop", replicas).await.unwrap();
            let before = format!("round-{}", round.saturating_sub(1));
            while !is_settled(&fixture, nodes).await {
                // An old value ends the test. Nothing is missed either, but that is another one's business.
                fixture
                    .hits_of("shop", "main", &before, KEYS)
                    .await
                    .unwrap();
            }
            fixture
                .hits_of("shop", "main", &before, KEYS)
                .await
                .unwrap();
            for ordinal in 0..nodes {
                let place = fixture
                    .place(&format!("shop-main-{ordinal}"))
                    .await
                    .unwrap();
                let place = place.expect("a node that was told its place");
                assert_eq!((place.index, place.size), (ordinal, nodes), "round {round}");
            }
            let value = format!("round-{round}");
            fixture.write_values("shop", "main", &value, KEYS).await;
        }
    })
    .await;
}

/// Whether the status says that the change of size to `nodes` nodes is over, and every node knows its place.
async fn is_settled(fixture: &Fixture, nodes: u32) -> bool {
    let cluster = fixture.api::<PetraCluster>().get("shop").await.unwrap();
    let regions = |status: &PetraClusterStatus| i64::from(status.regions[0].nodes);
    let status = cluster.status.as_ref();
    let told = match fixture.place("shop-main-0").await {
        Ok(Some(place)) => place.size == nodes,
        Ok(None) => false,
        Err(error) => panic!("{error:#}"),
    };
    let is_there = status
        .is_some_and(|status| status.scaling.is_empty() && regions(status) == i64::from(nodes));
    is_ready(Some(&cluster)) && is_there && told
}

/// 3 to 6 and, while that is warming, to 4: what was written meanwhile is not lost, and nothing old comes back.
#[tokio::test]
async fn a_change_of_mind_while_warming_loses_no_write() {
    with_temp_ns("reversal", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 3)).await.unwrap();
        fixture.ready("shop").await;
        let scale = |nodes: i32, window: &str| {
            let patch = json!({"spec": {"replicas": nodes, "scaling": {"window": window}}});
            fixture.patch("shop", patch)
        };
        scale(6, "1h").await.unwrap();
        let warming =
            |cluster: Option<&PetraCluster>| phase(cluster) == Some(ScalingPhase::Warming);
        fixture.wait("the region is warming", "shop", warming).await;
        fixture.wait_for_config("shop", "main").await;
        fixture.write("shop", "main", KEYS).await;

        scale(4, "15s").await.unwrap();
        // Whoever reads within the window takes every key along.
        fixture
            .wait(
                "the region is warming again",
                "shop",
                |cluster: Option<&PetraCluster>| {
                    phase(cluster) == Some(ScalingPhase::Warming)
                        && cluster.is_some_and(|cluster| {
                            cluster
                                .status
                                .as_ref()
                                .is_some_and(|status| status.scaling[0].to == 4)
                        })
                },
            )
            .await;
        fixture.wait_for_config("shop", "main").await;
        fixture.serves_all("shop", "main", KEYS).await;
        settled(&fixture, 4).await;
        fixture.serves_all("shop", "main", KEYS).await;
    })
    .await;
}

/// Waits until spec, StatefulSet, configuration and routers agree on `nodes` nodes. On the way, the configuration never
/// names more servers than the StatefulSet has.
async fn settled(fixture: &Fixture, nodes: i32) {
    eventually("configuration and StatefulSet agree", || async {
        let config = Config::from_json(&fixture.config_text("shop", "main").await?)?;
        let set = fixture.api::<StatefulSet>().get("shop-main").await?;
        let replicas = set.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        let servers = config.servers().len();
        ensure!(replicas == nodes, "the StatefulSet has {replicas} nodes");
        ensure!(
            servers == usize::try_from(nodes)?,
            "the configuration has {servers} servers"
        );
        anyhow::Ok(())
    })
    .await;
    let settled = move |cluster: Option<&PetraCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        is_ready(cluster)
            && status
                .is_some_and(|status| status.regions[0].nodes == nodes && status.scaling.is_empty())
    };
    fixture
        .wait("the status shows the new size", "shop", settled)
        .await;
}
