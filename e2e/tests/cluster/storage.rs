//! Volumes that do not come, and a StatefulSet that goes without its pods.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, PropagationPolicy};
use petra_e2e::fixture::condition;
use petra_e2e::{eventually, with_temp_ns};
use petra_operator::crd::PetraCluster;
use petra_operator::names::Component;
use serde_json::json;

use crate::specs;

#[tokio::test]
async fn a_stateful_set_that_is_deleted_without_its_pods_is_made_again_and_no_pod_restarts() {
    with_temp_ns("orphans", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", 40).await;
        let config = fixture.config_text("shop", "main").await.unwrap();
        let uids = || async {
            let mut pods = fixture.pods("shop", "main", Component::Node).await?;
            pods.sort_by_key(ResourceExt::name_any);
            anyhow::Ok(pods.iter().map(Pod::uid).collect::<Vec<_>>())
        };
        let before = uids().await.unwrap();
        let sets = fixture.api::<StatefulSet>();
        let old = sets.get("shop-main").await.unwrap().uid();
        let orphan = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        sets.delete("shop-main", &orphan).await.unwrap();
        eventually("there is another StatefulSet", || async {
            ensure!(
                sets.get("shop-main").await?.uid() != old,
                "it is the old one"
            );
            anyhow::Ok(())
        })
        .await;
        fixture.ready("shop").await;
        assert_eq!(uids().await.unwrap(), before);
        assert_eq!(fixture.config_text("shop", "main").await.unwrap(), config);
        fixture.serves_all("shop", "main", 40).await;
    })
    .await;
}

/// The new nodes of a scale get no volume: routers never hear of them, the status says which are waited for, and who
/// gives up has lost nothing.
#[tokio::test]
async fn a_scale_whose_volumes_never_come_waits_says_so_and_can_be_taken_back() {
    with_temp_ns("no-volume", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", 40).await;
        let config = fixture.config_text("shop", "main").await.unwrap();
        // Claims that are there already are used: these ask for a class that nobody serves.
        for ordinal in [1, 2] {
            let claim = json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": format!("data-shop-main-{ordinal}")},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "nobody",
                    "resources": {"requests": {"storage": "256Mi"}},
                },
            });
            fixture.create(&claim).await.unwrap();
        }
        fixture
            .patch("shop", json!({"spec": {"replicas": 3}}))
            .await
            .unwrap();
        let waits = |cluster: Option<&PetraCluster>| {
            cluster.is_some_and(|cluster| {
                let (status, message) = condition(cluster, "Scaling");
                status == "True" && message.contains("shop-main-1, shop-main-2")
            })
        };
        fixture
            .wait(
                "the status names the pods that are waited for",
                "shop",
                waits,
            )
            .await;
        assert_eq!(fixture.config_text("shop", "main").await.unwrap(), config);
        fixture.serves_all("shop", "main", 40).await;

        fixture
            .patch("shop", json!({"spec": {"replicas": 1}}))
            .await
            .unwrap();
        fixture.ready("shop").await;
        let gone = |pod: Option<&Pod>| pod.is_none();
        fixture.wait("the pod is gone", "shop-main-1", gone).await;
        assert_eq!(fixture.config_text("shop", "main").await.unwrap(), config);
        fixture.serves_all("shop", "main", 40).await;
    })
    .await;
}
