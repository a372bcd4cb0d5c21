//! Nodes are added and removed, and the router follows.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::StatefulSet;
use petra_e2e::fixture::is_ready;
use petra_e2e::{Fixture, eventually, with_temp_ns};
use petra_operator::crd::PetraCluster;
use petra_routing::Config;
use serde_json::json;

use crate::specs;

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

/// Waits until spec, StatefulSet, configuration and routers agree on `nodes` nodes. On the way, the configuration never
/// names more servers than the StatefulSet has.
async fn settled(fixture: &Fixture, nodes: i32) {
    eventually("configuration and StatefulSet agree", || async {
        let set = fixture.api::<StatefulSet>().get("shop-main").await?;
        let replicas = set.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        let config = Config::from_json(&fixture.config_text("shop", "main").await?)?;
        let servers = config.servers().len();
        assert!(
            servers <= usize::try_from(replicas.max(nodes))?,
            "{servers} servers of {replicas} nodes"
        );
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
        is_ready(cluster) && status.is_some_and(|status| status.regions[0].nodes == nodes)
    };
    fixture
        .wait("the status shows the new size", "shop", settled)
        .await;
}
