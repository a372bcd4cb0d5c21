//! Volumes grow while nodes run, where their class lets them.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use petra_e2e::fixture::{condition, is_ready};
use petra_e2e::{Fixture, with_temp_ns};
use petra_operator::crd::PetraCluster;
use petra_operator::names::Component;
use serde_json::json;

use crate::specs;

#[tokio::test]
async fn volumes_grow_without_a_restart_and_new_nodes_get_the_new_size() {
    with_temp_ns("grow", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", 40).await;
        let before = pods(&fixture).await;
        let larger = json!({"spec": {"node": {"storage": {"size": "512Mi"}}}});
        fixture.patch("shop", larger).await.unwrap();
        let grown = |set: Option<&StatefulSet>| {
            let text = serde_json::to_value(set).unwrap_or_default();
            let size = "/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
            text.pointer(size) == Some(&json!("512Mi"))
        };
        fixture
            .wait("the StatefulSet makes larger volumes", "shop-main", grown)
            .await;
        fixture
            .wait("nothing is being changed", "shop", is_settled)
            .await;
        for ordinal in 0..2 {
            assert_eq!(capacity(&fixture, ordinal).await, "512Mi");
        }
        assert_eq!(pods(&fixture).await, before);
        fixture.serves_all("shop", "main", 40).await;

        let more = json!({"spec": {"replicas": 3}});
        fixture.patch("shop", more).await.unwrap();
        fixture
            .wait("nothing is being changed", "shop", is_settled)
            .await;
        assert_eq!(capacity(&fixture, 2).await, "512Mi");
    })
    .await;
}

#[tokio::test]
async fn volumes_whose_class_does_not_let_them_grow_stay_and_the_status_says_why() {
    with_temp_ns("no-growth", |fixture| async move {
        let class = "storage: {storageClassName: lab-fixed, ";
        let spec = specs::one_region("shop", 1).replacen("storage: {", class, 1);
        fixture.apply(&spec).await.unwrap();
        fixture.ready("shop").await;
        let larger = json!({"spec": {"node": {"storage": {"size": "512Mi"}}}});
        fixture.patch("shop", larger).await.unwrap();
        let says_why = |cluster: Option<&PetraCluster>| {
            cluster.is_some_and(|cluster| {
                let (degraded, message) = condition(cluster, "Degraded");
                degraded == "True" && message.contains("must support resize")
            })
        };
        fixture.wait("the status says why", "shop", says_why).await;
        assert_eq!(capacity(&fixture, 0).await, "256Mi");
        fixture.ready("shop").await;
    })
    .await;
}

fn is_settled(cluster: Option<&PetraCluster>) -> bool {
    is_ready(cluster)
        && cluster.is_some_and(|cluster| condition(cluster, "Progressing").0 == "False")
}

/// Identity and restarts of every node.
async fn pods(fixture: &Fixture) -> Vec<(Option<String>, i32)> {
    let mut pods = fixture.pods("shop", "main", Component::Node).await.unwrap();
    pods.sort_by_key(ResourceExt::name_any);
    let restarts = |pod: &Pod| {
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        containers.map_or(0, |all| all.iter().map(|one| one.restart_count).sum())
    };
    pods.iter().map(|pod| (pod.uid(), restarts(pod))).collect()
}

async fn capacity(fixture: &Fixture, ordinal: i32) -> String {
    let claims = fixture.api::<PersistentVolumeClaim>();
    let claim = claims.get(&format!("data-shop-main-{ordinal}")).await;
    let capacity = claim.unwrap().status.unwrap().capacity.unwrap();
    capacity["storage"].0.clone()
}
