//! The scale subresource under the autoscaler of Kubernetes, with what metrics-server measures.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use petra_e2e::fixture::is_ready;
use petra_e2e::{Fixture, with_temp_ns};
use petra_operator::crd::PetraCluster;
use serde_json::json;

const KEYS: usize = 200;

/// 3 nodes, which is the default and the autoscaler's least, and one more because a client keeps them busy.
#[tokio::test]
async fn an_autoscaler_adds_a_node_under_load_and_applying_the_file_again_leaves_it() {
    with_temp_ns("autoscaling", |fixture| async move {
        let example = include_str!("../../../operator/examples/autoscaled.yaml");
        let (cluster, autoscaler) = example.split_once("\n---\n").unwrap();
        fixture.apply(cluster).await.unwrap();
        let soon = json!({"spec": {"scaling": {"window": "1s"}}});
        fixture.patch("shop", soon).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", KEYS).await;
        let autoscaler = serde_saphyr::from_str(autoscaler).unwrap();
        fixture.create(&autoscaler).await.unwrap();

        tokio::select! {
            () = read(&fixture) => {}
            _ = fixture.wait("an added node, and Ready", "shop", has_four) => {}
        }
        let autoscalers = fixture.api::<HorizontalPodAutoscaler>();
        let status = autoscalers.get("shop").await.unwrap().status.unwrap();
        assert!(status.last_scale_time.is_some(), "{status:?}");
        fixture.serves_all("shop", "main", KEYS).await;

        let applied = fixture.apply(cluster).await.unwrap();
        assert_eq!(applied.spec.replicas, 4);
    })
    .await;
}

fn has_four(cluster: Option<&PetraCluster>) -> bool {
    let status = cluster.and_then(|cluster| cluster.status.as_ref());
    is_ready(cluster)
        && status.is_some_and(|status| status.scaling.is_empty() && status.regions[0].nodes == 4)
}

/// Reads every key, again and again. What a read meets in the middle of a change of size is for other tests.
async fn read(fixture: &Fixture) {
    loop {
        if let Err(error) = fixture.hits("shop", "main", KEYS).await {
            println!("{error:#}");
        }
    }
}
