//! Two regions: a write reaches both, and a region that is lost is read from the other.

use anyhow::ensure;
use petra_e2e::{eventually, with_temp_ns};
use serde_json::json;

use crate::specs;

#[tokio::test]
async fn a_write_reaches_every_region_and_a_lost_primary_is_read_from_the_next() {
    with_temp_ns("regions", |fixture| async move {
        let spec = specs::one_region("shop", 1).replacen(
            "[{name: main}]",
            "[{name: main}, {name: spare}]",
            1,
        );
        fixture.apply(&spec).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", 20).await;
        eventually("the second region has every key", || async {
            let mut node = fixture.connect("shop-spare-0").await?;
            for number in 0..20 {
                let value = node.get(&format!("key-{number}")).await?;
                ensure!(
                    value == Some(format!("value-{number}")),
                    "key-{number} is {value:?}"
                );
            }
            anyhow::Ok(())
        })
        .await;

        fixture
            .patch("shop", json!({"spec": {"paused": true}}))
            .await
            .unwrap();
        let scaled = fixture
            .kubectl(&["scale", "statefulset", "shop-main", "--replicas=0"])
            .unwrap();
        assert!(
            scaled.status.success(),
            "{}",
            String::from_utf8_lossy(&scaled.stderr)
        );
        let gone = |pod: Option<&k8s_openapi::api::core::v1::Pod>| pod.is_none();
        fixture
            .wait("the primary's node is gone", "shop-main-0", gone)
            .await;
        eventually("every key is read from the second region", || async {
            let hits = fixture.hits("shop", "main", 20).await?;
            ensure!(hits == 20, "{hits} of 20 keys");
            anyhow::Ok(())
        })
        .await;
    })
    .await;
}
