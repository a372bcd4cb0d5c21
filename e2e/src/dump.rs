//! What to look at when a test failed: every object, event and log of its namespace, as files in one folder.

use std::path::Path;

use anyhow::Context;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, Service};
use kube::api::{ListParams, LogParams};
use kube::{Api, Client, Resource, ResourceExt};
use petra_operator::crd::PetraCluster;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes what is in `namespace` below `folder`, one file per kind and one per container log.
///
/// # Errors
///
/// The first object that cannot be read or file that cannot be written.
pub async fn namespace(client: &Client, namespace: &str, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    kind::<PetraCluster>(client, namespace, folder).await?;
    kind::<StatefulSet>(client, namespace, folder).await?;
    kind::<Deployment>(client, namespace, folder).await?;
    kind::<Service>(client, namespace, folder).await?;
    kind::<ConfigMap>(client, namespace, folder).await?;
    kind::<PersistentVolumeClaim>(client, namespace, folder).await?;
    kind::<Event>(client, namespace, folder).await?;
    for pod in kind::<Pod>(client, namespace, folder).await? {
        logs(client, namespace, &pod, folder).await?;
    }
    Ok(())
}

async fn kind<K>(client: &Client, namespace: &str, folder: &Path) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let items = api
        .list(&ListParams::default())
        .await
        .with_context(|| format!("listing {}", K::plural(&())))?
        .items;
    let path = folder.join(format!("{}.json", K::plural(&())));
    std::fs::write(&path, serde_json::to_vec_pretty(&items)?)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(items)
}

async fn logs(client: &Client, namespace: &str, pod: &Pod, folder: &Path) -> anyhow::Result<()> {
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    for previous in [false, true] {
        let parameters = LogParams {
            previous,
            ..LogParams::default()
        };
        // A container that never ran has no log; the pod's status, written above, says why.
        if let Ok(log) = api.logs(&pod.name_any(), &parameters).await {
            let suffix = if previous { ".previous.log" } else { ".log" };
            std::fs::write(folder.join(pod.name_any() + suffix), log)?;
        }
    }
    Ok(())
}
