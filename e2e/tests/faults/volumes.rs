//! A node's volume is lost.

use anyhow::ensure;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::DeleteParams;
use petra_e2e::{Fixture, eventually, with_temp_ns};

use crate::specs;

const KEYS: usize = 60;

/// The claim and the pod are deleted, as one does when a disk is gone: both are made again, and the node begins with nothing.
#[tokio::test]
async fn a_lost_volume_is_replaced_and_the_node_joins_again_empty() {
    with_temp_ns("lost-volume", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", KEYS).await;
        let config = fixture.config_text("shop", "main").await.unwrap();
        let lost = |key: &String| Fixture::owner(&config, key).unwrap() == "shop-main-1";
        let keys: Vec<String> = (0..KEYS).map(|n| format!("key-{n}")).filter(lost).collect();

        let claims = fixture.api::<PersistentVolumeClaim>();
        let old = claims.get("data-shop-main-1").await.unwrap().metadata.uid;
        let now = DeleteParams::default();
        claims.delete("data-shop-main-1", &now).await.unwrap();
        fixture
            .api::<Pod>()
            .delete("shop-main-1", &now)
            .await
            .unwrap();
        eventually("there is another volume", || async {
            let new = claims.get("data-shop-main-1").await?.metadata.uid;
            ensure!(new != old, "it is the old one");
            anyhow::Ok(())
        })
        .await;
        eventually("the new node knows its place", || async {
            let place = fixture.place("shop-main-1").await?;
            ensure!(place.is_some(), "nobody has told it");
            anyhow::Ok(())
        })
        .await;
        fixture.ready("shop").await;

        let mut node = fixture.connect("shop-main-1").await.unwrap();
        for key in &keys {
            assert_eq!(node.get(key).await.unwrap(), None, "{key}");
        }
        assert_eq!(fixture.config_text("shop", "main").await.unwrap(), config);
        fixture.write("shop", "main", KEYS).await;
        fixture.serves_all("shop", "main", KEYS).await;
    })
    .await;
}
