//! A node's pod is lost: its data and the configuration stay.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use petra_e2e::{Fixture, with_temp_ns};

use crate::specs;

#[tokio::test]
async fn a_deleted_pod_comes_back_with_its_data_and_the_configuration_did_not_change() {
    with_temp_ns("restart", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", 60).await;
        let config = fixture.config_text("shop", "main").await.unwrap();

        lose(&fixture, "shop-main-0", DeleteParams::default()).await;
        fixture.serves_all("shop", "main", 60).await;
        assert_eq!(fixture.config_text("shop", "main").await.unwrap(), config);
        // The restarted pod itself has the keys that are its own, none was refilled from elsewhere.
        let mut node = fixture.connect("shop-main-0").await.unwrap();
        for number in 0..60 {
            let key = format!("key-{number}");
            if Fixture::owner(&config, &key).unwrap() == "shop-main-0" {
                assert_eq!(
                    node.get(&key).await.unwrap(),
                    Some(format!("value-{number}")),
                    "{key}"
                );
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_is_killed_without_warning_comes_back_with_what_was_written_before() {
    with_temp_ns("kill", |fixture| async move {
        let spec = specs::one_region("shop", 1).replacen(
            "storage: {size",
            "durability: {mode: always}\n    storage: {size",
            1,
        );
        fixture.apply(&spec).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", 20).await;

        lose(
            &fixture,
            "shop-main-0",
            DeleteParams::default().grace_period(0),
        )
        .await;
        fixture.serves_all("shop", "main", 20).await;
    })
    .await;
}

/// Deletes a pod and waits until another one of its name is ready.
async fn lose(fixture: &Fixture, name: &str, parameters: DeleteParams) {
    let pods = fixture.api::<Pod>();
    let uid = pods.get(name).await.expect("the pod").metadata.uid;
    pods.delete(name, &parameters)
        .await
        .expect("deleting the pod");
    let is_back = move |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        let ready = conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one.type_ == "Ready" && one.status == "True")
        });
        ready && pod.is_some_and(|pod| pod.metadata.uid != uid)
    };
    fixture
        .wait("the pod is back and ready", name, is_back)
        .await;
}
