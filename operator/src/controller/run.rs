//! Client required. Watches, and the loop that reconciles whatever they announce.
//!
//! Children are announced by every change of their resource version, so that a deletion or a hand edit is seen at
//! once; the cluster itself only by its generation, so that its own status is no news.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, TryFutureExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::Api;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use kube::runtime::{WatchStreamExt, predicates, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::dereference::Stores;
use super::validate::Settings;
use super::{Context, ReconcileError, reconcile};
use crate::crd::PetraCluster;
use crate::metrics::Metrics;
use crate::names::{
    COMPONENT_LABEL, CONFIG_HASH_ANNOTATION, INSTANCE_LABEL, OURS, REGION_LABEL, REVISION_LABEL,
};

/// A reconciliation that failed is tried again after this long; a change tries it at once.
const RETRY: Duration = Duration::from_secs(5);

/// Changes that come together (the pods of a `StatefulSet`) are one reconciliation.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Clusters that are reconciled at the same time.
const CONCURRENCY: u16 = 8;

/// Objects that are read at once when caches are filled: answers of ten thousand of them are larger than the caches.
const PAGE: u32 = 50;
/// Longest pause before a watch that was cut is begun anew.
const LAST_RETRY_OF_WATCH: Duration = Duration::from_secs(3);

/// How watches are begun anew: as by default, but never later than after [`LAST_RETRY_OF_WATCH`]. A restarted API server
/// refuses the old version first, so that twice the default of 30 s would be a minute without news; a dozen watches are no
/// burden.
#[derive(Default)]
pub struct Impatient(DefaultBackoff);

impl Iterator for Impatient {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|pause| pause.min(LAST_RETRY_OF_WATCH))
    }
}

impl Backoff for Impatient {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Each watch has a pause of its own. The controller would pause all of them whenever one fails, for longer each time: when all
/// are cut at once, nothing would be seen for minutes.
struct NoPause;

impl Iterator for NoPause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

impl Backoff for NoPause {
    fn reset(&mut self) {}
}

/// What to work on, and when.
pub struct Watched {
    /// What the operator was started with.
    pub settings: Settings,
    /// The one namespace to watch; all of them when missing.
    pub namespace: Option<String>,
    /// Whether this operator is the one that reconciles. It watches all the same, so that it can go on at once.
    pub leads: watch::Receiver<bool>,
}

/// Reconciles until `shutdown` is ready; what has begun is finished. `ready` turns true when all caches are filled.
pub async fn run(
    client: Client,
    watched: Watched,
    metrics: Metrics,
    ready: watch::Sender<bool>,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let Watched {
        settings,
        namespace,
        leads,
    } = watched;
    let namespace = namespace.as_deref();
    let ours = watcher::Config::default().labels(OURS).page_size(PAGE);
    let (clusters, cluster_writer) = reflector::store();
    let cluster_stream = watcher(
        api::<PetraCluster>(&client, namespace),
        watcher::Config::default().page_size(PAGE),
    )
    .backoff(Impatient::default())
    .modify(|cluster| cluster.managed_fields_mut().clear())
    .reflect(cluster_writer)
    .applied_objects()
    .predicate_filter(predicates::generation, Default::default());
    metrics.look_at(clusters.clone());
    let controller = Controller::for_stream(cluster_stream, clusters.clone())
        .trigger_backoff(NoPause)
        .with_config(
            Config::default()
                .debounce(DEBOUNCE)
                .concurrency(CONCURRENCY),
        );

    let (config_maps, stream) = children(&client, namespace, ours.clone());
    let controller = controller.owns_stream(stream);
    let (services, stream) = children(&client, namespace, ours.clone());
    let controller = controller.owns_stream(stream);
    let (network_policies, stream) = children(&client, namespace, ours.clone());
    let controller = controller.owns_stream(stream);
    let (disruption_budgets, stream) = children(&client, namespace, ours.clone());
    let controller = controller.owns_stream(stream);
    let (stateful_sets, stream) = children(&client, namespace, ours.clone());
    let controller = controller.owns_stream(stream);
    let (deployments, stream) = children(&client, namespace, ours.clone());
    let controller = controller.owns_stream(stream);
    let (daemon_sets, stream) = children(&client, namespace, ours.clone());
    let controller = controller.owns_stream(stream);
    let (pods, stream) = pods(&client, namespace, ours);
    let controller = controller.watches_stream(stream, cluster_of_pod);

    let stores = Stores {
        stateful_sets,
        deployments,
        daemon_sets,
        services,
        config_maps,
        network_policies,
        disruption_budgets,
        pods,
    };
    let filled = filled(&stores).shared();
    let is_filled = filled.clone();
    tokio::spawn(async move {
        is_filled.await;
        tracing::info!("caches are filled");
        ready.send_replace(true);
        // The receiver is the server of /ready, which lives as long as the process.
        ready.closed().await;
    });
    let context = Arc::new(Context::new(client, settings, stores, metrics));
    let stopping = shutdown.boxed().shared();
    let stopped = stopping.clone();
    let reconcile_filled = move |cluster: Arc<PetraCluster>, context: Arc<Context>| {
        let filled = filled.clone();
        let (mut leads, stopped) = (leads.clone(), stopped.clone());
        let clusters = clusters.clone();
        async move {
            // Without this, what is only not seen yet would look deleted.
            filled.await;
            tokio::select! {
                // An error means that the election is over, as when this one ends.
                leads = leads.wait_for(|leads| *leads) => if leads.is_err() { return Ok(Action::await_change()) },
                () = stopped => return Ok(Action::await_change()),
            }
            // It may have waited for long.
            match clusters.get(&ObjectRef::from_obj(cluster.as_ref())) {
                Some(newest) => reconcile(newest, context).await,
                None => Ok(Action::await_change()),
            }
        }
    };
    controller
        .graceful_shutdown_on(stopping)
        .run(reconcile_filled, retry, context)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(%error, "a reconciliation ended");
            }
        })
        .await;
}

fn retry(cluster: Arc<PetraCluster>, error: &ReconcileError, _: Arc<Context>) -> Action {
    tracing::warn!(
        cluster = cluster.name_any(),
        namespace = cluster.namespace(),
        %error,
        "a reconciliation failed and is tried again"
    );
    Action::requeue(RETRY)
}

/// A cache of all objects of a kind with the operator's label, and the changes to them.
fn children<K>(
    client: &Client,
    namespace: Option<&str>,
    config: watcher::Config,
) -> (
    Store<K>,
    impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (store, writer): (Store<K>, Writer<K>) = reflector::store();
    let stream = watcher(api::<K>(client, namespace), config)
        .backoff(Impatient::default())
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .touched_objects()
        .predicate_filter(predicates::resource_version, Default::default());
    (store, stream)
}

/// A cache of all pods with the operator's label, and the changes to them. What a pod was told to be fills most of it and
/// is looked at by nobody.
fn pods(
    client: &Client,
    namespace: Option<&str>,
    config: watcher::Config,
) -> (
    Store<Pod>,
    impl Stream<Item = Result<Pod, watcher::Error>> + Send + 'static,
) {
    let (store, writer) = reflector::store();
    let stream = watcher(api::<Pod>(client, namespace), config)
        .backoff(Impatient::default())
        .modify(forget_most)
        .reflect(writer)
        .touched_objects()
        .predicate_filter(predicates::resource_version, Default::default());
    (store, stream)
}

/// The labels of pods that are looked at.
const LABELS_OF_PODS: [&str; 4] = [
    INSTANCE_LABEL,
    COMPONENT_LABEL,
    REGION_LABEL,
    REVISION_LABEL,
];

fn forget_most(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    pod.metadata.owner_references = None;
    pod.labels_mut()
        .retain(|label, _| LABELS_OF_PODS.contains(&&**label));
    pod.annotations_mut()
        .retain(|annotation, _| annotation == CONFIG_HASH_ANNOTATION);
    pod.spec = None;
    let status = pod.status.take().unwrap_or_default();
    pod.status = Some(PodStatus {
        conditions: status.conditions,
        container_statuses: status.container_statuses,
        pod_ip: status.pod_ip,
        ..PodStatus::default()
    });
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

fn cluster_of_pod(pod: Pod) -> Option<ObjectRef<PetraCluster>> {
    let name = pod.labels().get(INSTANCE_LABEL)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

/// Ready when every cache has seen everything once.
fn filled(stores: &Stores) -> BoxFuture<'static, ()> {
    let stores = stores.clone();
    async move {
        let all = futures::try_join!(
            stores.stateful_sets.wait_until_ready().map_err(drop),
            stores.deployments.wait_until_ready().map_err(drop),
            stores.daemon_sets.wait_until_ready().map_err(drop),
            stores.services.wait_until_ready().map_err(drop),
            stores.config_maps.wait_until_ready().map_err(drop),
            stores.network_policies.wait_until_ready().map_err(drop),
            stores.disruption_budgets.wait_until_ready().map_err(drop),
            stores.pods.wait_until_ready().map_err(drop),
        );
        if all.is_err() {
            tracing::error!("a cache was closed before it was filled");
        }
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_never_left_alone_for_long() {
        let mut pauses = Impatient::default();
        assert!(
            pauses
                .next()
                .is_some_and(|first| first < LAST_RETRY_OF_WATCH)
        );
        assert!(pauses.take(100).all(|pause| pause <= LAST_RETRY_OF_WATCH));
    }
}
