//! What people do beside the usual: routers on every machine or beside the application, a pause, an autoscaler.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use petra_e2e::fixture::condition;
use petra_e2e::{eventually, with_temp_ns};
use petra_operator::crd::PetraCluster;
use petra_operator::names::Component;
use serde_json::{Value, json};

use crate::specs;

#[tokio::test]
async fn routers_of_a_deployment_become_a_daemon_set_and_keys_are_served() {
    with_temp_ns("daemon-set", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", 20).await;
        let everywhere = json!({"spec": {"router": {"mode": "daemonset"}}});
        fixture.patch("shop", everywhere).await.unwrap();
        eventually("a DaemonSet has taken over", || async {
            let old = fixture
                .api::<Deployment>()
                .get_opt("shop-main-router")
                .await?;
            ensure!(old.is_none(), "the Deployment is still there");
            fixture.api::<DaemonSet>().get("shop-main-router").await?;
            anyhow::Ok(())
        })
        .await;
        fixture.ready("shop").await;
        fixture.serves_all("shop", "main", 20).await;
    })
    .await;
}

#[tokio::test]
async fn the_documented_sidecar_serves_the_application_beside_it() {
    with_temp_ns("sidecar", |fixture| async move {
        let example = include_str!("../../../operator/examples/sidecar.yaml");
        let (cluster, application) = example.split_once("\n---\n").unwrap();
        fixture.apply(cluster).await.unwrap();
        fixture.ready("shop").await;
        let application: Value = serde_saphyr::from_str(application).unwrap();
        let template = &application["spec"]["template"];
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app"}});
        pod["spec"] = template["spec"].clone();
        let images = [
            ("/spec/initContainers/0", "mcrouter-stand-in"),
            ("/spec/containers/0", "tools"),
        ];
        for (container, image) in images {
            let container = pod.pointer_mut(container).unwrap();
            container["image"] = format!("docker.io/petracache/{image}:dev").into();
            container["imagePullPolicy"] = "Never".into();
        }
        pod["spec"]["containers"][0]["command"] = json!(["sleep", "1000"]);
        pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
        fixture.create(&pod).await.unwrap();
        eventually("the sidecar serves", || async {
            let mut router = fixture.connect("app").await?;
            ensure!(router.set("key", "value").await? == "STORED");
            ensure!(router.get("key").await?.as_deref() == Some("value"));
            anyhow::Ok(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_paused_cluster_is_left_alone_until_it_goes_on() {
    with_temp_ns("paused", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
        let paused = json!({"spec": {"paused": true, "replicas": 2}});
        fixture.patch("shop", paused).await.unwrap();
        let seen = |cluster: Option<&PetraCluster>| {
            cluster.is_some_and(|cluster| {
                condition(cluster, "Progressing")
                    .1
                    .contains("spec.paused is true")
            })
        };
        fixture
            .wait("the status says that it is paused", "shop", seen)
            .await;
        let sets = fixture.api::<StatefulSet>();
        let replicas = sets
            .get("shop-main")
            .await
            .unwrap()
            .spec
            .and_then(|spec| spec.replicas);
        assert_eq!(replicas, Some(1));

        let goes_on = json!({"spec": {"paused": false}});
        fixture.patch("shop", goes_on).await.unwrap();
        fixture.ready("shop").await;
        let nodes = fixture.pods("shop", "main", Component::Node).await.unwrap();
        assert_eq!(nodes.len(), 2);
    })
    .await;
}

/// What a HorizontalPodAutoscaler needs: the pods that it measures are those whose number it changes.
#[tokio::test]
async fn the_scale_subresource_selects_the_nodes_that_it_counts() {
    with_temp_ns("scale-subresource", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;
        let scale = fixture
            .api::<PetraCluster>()
            .get_scale("shop")
            .await
            .unwrap();
        let status = scale.status.unwrap();
        let selected = ListParams::default().labels(&status.selector.unwrap());
        let pods = fixture.api::<Pod>().list(&selected).await.unwrap();
        let mut names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
        names.sort();
        assert_eq!(names, ["shop-main-0", "shop-main-1"]);
        assert_eq!(
            (status.replicas, scale.spec.unwrap().replicas),
            (2, Some(2))
        );
        let scaled = fixture
            .kubectl(&["scale", "petra", "shop", "--replicas=1"])
            .unwrap();
        assert!(scaled.status.success(), "{scaled:?}");
        let fewer = |set: Option<&StatefulSet>| {
            let spec = set.and_then(|set| set.spec.as_ref());
            spec.and_then(|spec| spec.replicas) == Some(1)
        };
        fixture.wait("a node goes", "shop-main", fewer).await;
    })
    .await;
}
