//! Deleting a `PetraCluster` leaves nothing but the volumes that its policy keeps.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::core::NamespaceResourceScope;
use petra_e2e::{Fixture, eventually, with_temp_ns};
use petra_operator::crd::PetraCluster;

use crate::specs;

#[tokio::test]
async fn only_volumes_that_the_policy_keeps_are_left() {
    with_temp_ns("deletion", |fixture| async move {
        fixture.apply(&specs::one_region("kept", 1)).await.unwrap();
        let gone = specs::one_region("gone", 1).replacen(
            "size: 256Mi",
            "size: 256Mi, whenDeleted: Delete",
            1,
        );
        fixture.apply(&gone).await.unwrap();
        fixture.ready("kept").await;
        fixture.ready("gone").await;

        for name in ["kept", "gone"] {
            fixture
                .api::<PetraCluster>()
                .delete(name, &DeleteParams::default())
                .await
                .unwrap();
        }
        eventually("everything but one volume is gone", || async {
            let mut left = ours::<StatefulSet>(&fixture).await?;
            left.extend(ours::<Deployment>(&fixture).await?);
            left.extend(ours::<Service>(&fixture).await?);
            left.extend(ours::<ConfigMap>(&fixture).await?);
            left.extend(ours::<NetworkPolicy>(&fixture).await?);
            left.extend(ours::<PodDisruptionBudget>(&fixture).await?);
            left.extend(ours::<Pod>(&fixture).await?);
            ensure!(left.is_empty(), "left: {left:?}");
            let volumes = all::<PersistentVolumeClaim>(&fixture.api()).await?;
            ensure!(volumes == ["data-kept-main-0"], "volumes: {volumes:?}");
            anyhow::Ok(())
        })
        .await;
    })
    .await;
}

/// Names of what is left of one kind, without what Kubernetes puts into every namespace.
async fn ours<K>(fixture: &Fixture) -> anyhow::Result<Vec<String>>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let names = all::<K>(&fixture.api()).await?;
    Ok(names
        .into_iter()
        .filter(|name| name != "kube-root-ca.crt")
        .collect())
}

async fn all<K>(api: &Api<K>) -> anyhow::Result<Vec<String>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let items = api.list(&ListParams::default()).await?.items;
    Ok(items
        .into_iter()
        .filter_map(|item| item.meta().name.clone())
        .collect())
}
