//! What belongs to the operator is put back, what belongs to others is left alone.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DeleteParams, Patch, PatchParams};
use petra_e2e::{eventually, with_temp_ns};
use serde_json::json;

use crate::specs;

#[tokio::test]
async fn what_is_deleted_or_edited_by_hand_is_put_back() {
    with_temp_ns("drift", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
        let config = fixture.config_text("shop", "main").await.unwrap();
        let delete = DeleteParams::default();

        fixture
            .api::<Service>()
            .delete("shop-main", &delete)
            .await
            .unwrap();
        fixture
            .api::<ConfigMap>()
            .delete("shop-main-mcrouter", &delete)
            .await
            .unwrap();
        fixture
            .api::<StatefulSet>()
            .delete("shop-main", &delete)
            .await
            .unwrap();
        eventually("Service, ConfigMap and StatefulSet are back", || async {
            fixture.api::<Service>().get("shop-main").await?;
            let set = fixture.api::<StatefulSet>().get("shop-main").await?;
            ensure!(
                set.metadata.deletion_timestamp.is_none(),
                "the StatefulSet is still going"
            );
            ensure!(
                fixture.config_text("shop", "main").await? == config,
                "another configuration"
            );
            anyhow::Ok(())
        })
        .await;
        fixture.ready("shop").await;

        let edit = json!({"data": {"mcrouter.json": "{}"}});
        let by_hand = PatchParams::default();
        fixture
            .api::<ConfigMap>()
            .patch("shop-main-mcrouter", &by_hand, &Patch::Merge(&edit))
            .await
            .unwrap();
        let edit = json!({"spec": {"publishNotReadyAddresses": false}});
        fixture
            .api::<Service>()
            .patch("shop-main", &by_hand, &Patch::Merge(&edit))
            .await
            .unwrap();
        eventually("hand edits are undone", || async {
            ensure!(
                fixture.config_text("shop", "main").await? == config,
                "the edit is still there"
            );
            let spec = fixture
                .api::<Service>()
                .get("shop-main")
                .await?
                .spec
                .unwrap_or_default();
            ensure!(
                spec.publish_not_ready_addresses == Some(true),
                "publishNotReadyAddresses is off"
            );
            anyhow::Ok(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn annotations_and_labels_of_others_stay() {
    with_temp_ns("others", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
        let theirs = json!({"metadata": {"annotations": {"example.com/owner": "somebody"}}});
        let services = fixture.api::<Service>();
        services
            .patch("shop-main", &PatchParams::default(), &Patch::Merge(&theirs))
            .await
            .unwrap();

        // A change of the spec makes the operator apply everything again.
        fixture
            .patch("shop", json!({"spec": {"replicas": 2}}))
            .await
            .unwrap();
        fixture.ready("shop").await;
        let annotations = services
            .get("shop-main")
            .await
            .unwrap()
            .metadata
            .annotations
            .unwrap_or_default();
        assert_eq!(
            annotations.get("example.com/owner").map(String::as_str),
            Some("somebody")
        );
    })
    .await;
}
