//! Routers that do not follow.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use petra_e2e::{eventually, with_temp_ns};
use petra_operator::names::Component;
use serde_json::json;

use crate::specs;

/// A pod that is a router by its labels, is ready, and answers nobody: as one whose process hangs.
#[tokio::test]
async fn a_router_that_stays_silent_is_replaced_and_the_others_are_left_alone() {
    with_temp_ns("silent-router", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
        let routers = fixture
            .pods("shop", "main", Component::Router)
            .await
            .unwrap();
        let silent = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "silent", "labels": fixture.names("shop", "main").labels(Component::Router)},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "silent",
                    "image": "docker.io/petracache/tools:dev",
                    "imagePullPolicy": "Never",
                    "command": ["sleep", "1000"],
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        });
        let pods = fixture.api::<Pod>();
        fixture.create(&silent).await.unwrap();
        eventually("the silent router is gone", || async {
            let there = pods.get_opt("silent").await?;
            ensure!(there.is_none(), "it is still there");
            anyhow::Ok(())
        })
        .await;
        let events = fixture.api::<Event>();
        eventually("people are told", || async {
            let told = |event: &Event| event.reason.as_deref() == Some("RouterReplaced");
            let events = events.list(&ListParams::default()).await?;
            ensure!(events.items.iter().any(told), "nobody was told");
            anyhow::Ok(())
        })
        .await;
        let names = |pods: &[Pod]| -> Vec<_> {
            pods.iter().map(|pod| pod.metadata.name.clone()).collect()
        };
        let now = fixture
            .pods("shop", "main", Component::Router)
            .await
            .unwrap();
        assert_eq!(names(&now), names(&routers));
        fixture.ready("shop").await;
    })
    .await;
}
