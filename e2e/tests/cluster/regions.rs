//! Two regions: a write reaches both, and a region that is lost is read from the other.

use anyhow::ensure;
use petra_e2e::{eventually, with_temp_ns};

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

        fixture.take_nodes_away("shop", "main", 0).await.unwrap();
        fixture.serves_all("shop", "main", 20).await;
    })
    .await;
}
