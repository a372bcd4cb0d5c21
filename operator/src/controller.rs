//! The reconcile driver: five steps for one cluster, and what is remembered between two of them.
//!
//! ```text
//! dereference ─► validate ─► plan: layout, build ─► apply ─► nudge routers, place nodes ─► status
//!   caches        pure          pure                client      client         TCP         pure, then one patch
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

use crate::crd::{PetraCluster, PetraClusterStatus};
use crate::metrics::Metrics;
use crate::names::MANAGER;
use crate::object::{Kind, Wanted, is_older};

use apply::{Applier, ApplyError, Owner};
use build::config_map::config_hash;
use build::{RegionObjects, Workload};
use dereference::{Observed, Stores};
use events::Events;
use places::Places;
use plan::Plan;
use routers::{RouterPod, Routers};
use status::{Outcome, View};
use validate::Settings;
use volumes::Growth;

pub mod apply;
pub mod build;
pub mod certificates;
pub mod dereference;
pub mod events;
pub mod layout;
pub mod places;
pub mod plan;
pub mod roll;
pub mod routers;
pub mod run;
pub mod status;
pub mod validate;
pub mod volumes;

/// Something is under way that no watch announces: what routers run, and how the kubelet gets on.
const SOON: Duration = Duration::from_secs(1);

/// A watch announces what comes next; this is in case it missed something while it is awaited.
const LATER: Duration = Duration::from_secs(15);

/// Nothing is awaited. Routers are asked again, and whatever a watch may have missed is seen. Nothing is written.
const SETTLED: Duration = Duration::from_secs(300);

/// Why a reconciliation failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// An object could not be written.
    #[error(transparent)]
    Apply(#[from] apply::ApplyError),
    /// Somebody else wrote what was looked at. It is looked at again; the status says nothing of it.
    #[error("the cluster or an object of it has changed since it was looked at")]
    Overtaken,
    /// An object has no form as JSON.
    #[error("an object cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The status could not be written.
    #[error("the status of {cluster} cannot be written: {source}")]
    Status {
        /// Name of the cluster.
        cluster: String,
        /// The API server's answer.
        source: kube::Error,
    },
}

/// Everything that reconciliations share.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// What the operator was started with.
    pub settings: Settings,
    /// Caches of what there is.
    pub stores: Stores,
    /// Writes, and remembers.
    pub applier: Applier,
    /// Asks, and nudges.
    pub routers: Routers,
    /// Tells nodes where they stand.
    pub places: Places,
    /// Tells people.
    pub events: Events,
    /// Counts.
    pub metrics: Metrics,
    written_status: Mutex<HashMap<ObjectRef<PetraCluster>, Written>>,
}

/// A status as it was written last, which the watch may not show yet.
struct Written {
    uid: Option<String>,
    resource_version: Option<String>,
    status: PetraClusterStatus,
}

impl Context {
    /// A context that remembers nothing.
    pub fn new(client: Client, settings: Settings, stores: Stores, metrics: Metrics) -> Self {
        Self {
            applier: Applier::new(client.clone()),
            events: Events::new(client.clone()),
            routers: Routers::default(),
            places: Places::default(),
            written_status: Mutex::default(),
            client,
            settings,
            stores,
            metrics,
        }
    }
}

/// Brings `cluster` one step closer to what its spec says.
///
/// # Errors
///
/// A write that failed; the status says so too where it could be written.
pub async fn reconcile(
    cluster: Arc<PetraCluster>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    if cluster.meta().deletion_timestamp.is_some() {
        // Owner references do the rest.
        return Ok(Action::await_change());
    }
    let started = Instant::now();
    context.metrics.begin_reconcile();
    let result = match reconcile_steps(&cluster, &context).await {
        Err(ReconcileError::Overtaken) => {
            tracing::debug!(
                cluster = cluster.name_any(),
                "looked at again, as it has changed"
            );
            Ok(Action::requeue(SOON))
        }
        result => result,
    };
    context
        .metrics
        .count_reconcile(started.elapsed(), result.is_err());
    result
}

async fn reconcile_steps(
    cluster: &PetraCluster,
    context: &Context,
) -> Result<Action, ReconcileError> {
    let mut clock = StepClock::new(&context.metrics);
    let mut observed =
        dereference::dereference(cluster, &context.stores, &context.routers, &context.places).await;
    clock.ended("look");
    let previous = latest_status(cluster, context);
    let now = Timestamp::now();
    let planned = validate::validate(cluster, &context.settings)
        .and_then(|validated| Plan::new(validated, &observed, previous.as_ref(), now));
    clock.ended("plan");
    let plan = match planned {
        Ok(plan) => plan,
        Err(error) => {
            write_status(cluster, context, &Outcome::Invalid(&error)).await?;
            return Ok(Action::requeue(SETTLED));
        }
    };
    certificates::look(&context.client, &plan.cluster, &mut observed).await;
    if !plan.cluster.paused {
        observed.growing = volumes::grow(&context.client, &plan, &observed).await;
    }
    let view = View {
        cluster: &plan.cluster,
        layouts: &plan.layouts,
        regions: &plan.regions,
        observed: &observed,
    };
    if plan.cluster.paused {
        write_status(cluster, context, &Outcome::Paused(view)).await?;
        return Ok(Action::requeue(SETTLED));
    }
    let applied = apply_plan(cluster, &plan, context, &observed).await;
    clock.ended("apply");
    match applied {
        Ok(busy) => {
            let status = write_status(cluster, context, &Outcome::Applied(view)).await?;
            clock.ended("status");
            Ok(Action::requeue(next_look(&plan, &observed, &status, busy)))
        }
        Err(ReconcileError::Overtaken | ReconcileError::Apply(ApplyError::Overtaken { .. })) => {
            Err(ReconcileError::Overtaken)
        }
        Err(error) => {
            write_status(cluster, context, &Outcome::Failed(view, error.to_string())).await?;
            Err(error)
        }
    }
}

/// Tells the metrics how long each step took.
struct StepClock<'a> {
    metrics: &'a Metrics,
    since: Instant,
}

impl<'a> StepClock<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        Self {
            metrics,
            since: Instant::now(),
        }
    }

    fn ended(&mut self, step: &str) {
        let now = Instant::now();
        self.metrics.count_step(step, now - self.since);
        self.since = now;
    }
}

/// Every object of `regions`, in the order in which they are applied.
///
/// # Errors
///
/// None in practice, see [`Wanted::new`].
pub fn wanted(regions: &[RegionObjects]) -> serde_json::Result<Vec<Wanted>> {
    let mut wanted = Vec::new();
    for region in regions {
        if let Some(certificate) = &region.certificate {
            wanted.push(Wanted::new(Kind::Certificate, certificate)?);
        }
        wanted.push(Wanted::new(Kind::ConfigMap, &region.config_map)?);
        wanted.push(Wanted::new(Kind::Service, &region.service)?);
        wanted.push(Wanted::new(
            Kind::PodDisruptionBudget,
            &region.disruption_budget,
        )?);
        if let Some(policy) = &region.network_policy {
            wanted.push(Wanted::new(Kind::NetworkPolicy, policy)?);
        }
        wanted.push(Wanted::new(Kind::StatefulSet, &region.stateful_set)?);
        let Some(router) = &region.router else {
            continue;
        };
        wanted.push(Wanted::new(Kind::Service, &router.service)?);
        if let Some(budget) = &router.disruption_budget {
            wanted.push(Wanted::new(Kind::PodDisruptionBudget, budget)?);
        }
        if let Some(policy) = &router.network_policy {
            wanted.push(Wanted::new(Kind::NetworkPolicy, policy)?);
        }
        wanted.push(match &router.workload {
            Workload::Deployment(deployment) => Wanted::new(Kind::Deployment, deployment.as_ref())?,
            Workload::DaemonSet(daemon_set) => Wanted::new(Kind::DaemonSet, daemon_set.as_ref())?,
        });
    }
    // Of all regions first the nodes, then the configurations that name them.
    wanted.sort_by_key(|wanted| wanted.key.kind);
    Ok(wanted)
}

/// Writes what differs, then makes routers look. Whether there is more to do than was done.
async fn apply_plan(
    cluster: &PetraCluster,
    plan: &Plan,
    context: &Context,
    observed: &Observed,
) -> Result<bool, ReconcileError> {
    let Some(reference) = &plan.cluster.owner else {
        return Ok(false);
    };
    let owner = Owner {
        namespace: &plan.cluster.namespace,
        reference,
        may_remove_nodes: status::routers_follow(&plan.regions, observed),
    };
    let is_on_its_way = plan.layouts.values().any(|layout| layout.step.is_some());
    if is_on_its_way || !plan.untold.is_empty() {
        ensure_current(cluster, context).await?;
    }
    let applied = context
        .applier
        .apply(owner, &wanted(&plan.regions)?, observed)
        .await?;
    tend_routers(cluster, plan, context, observed).await;
    context
        .places
        .tell_all(&plan.cluster.namespace, &plan.untold);
    Ok(!applied.kept.is_empty() || !applied.written.is_empty())
}

/// Whether `cluster` is still what was looked at: steps of a change of size follow from spec and status, and what a node is told
/// cannot be taken back.
async fn ensure_current(cluster: &PetraCluster, context: &Context) -> Result<(), ReconcileError> {
    let name = cluster.name_any();
    let namespace = cluster.namespace().unwrap_or_default();
    let api: Api<PetraCluster> = Api::namespaced(context.client.clone(), &namespace);
    let there = api.get_metadata(&name).await;
    let there = there.map_err(|source| ReconcileError::Status {
        cluster: name,
        source,
    })?;
    let newest = newest_version(cluster, context);
    (there.resource_version() == newest)
        .then_some(())
        .ok_or(ReconcileError::Overtaken)
}

/// Makes routers that are behind look, and replaces those that do not. One that cannot be helped now is only late: that is
/// logged and seen in the status, and stops nothing.
async fn tend_routers(cluster: &PetraCluster, plan: &Plan, context: &Context, observed: &Observed) {
    let namespace = &plan.cluster.namespace;
    let now = Instant::now();
    for region in &plan.regions {
        let hash = config_hash(status::config_text(region));
        let routers: Vec<&RouterPod> = observed
            .routers
            .iter()
            .filter(|router| router.region == region.region)
            .collect();
        for router in &routers {
            let Some(value) = context.routers.nudge(router, &hash, now) else {
                continue;
            };
            let patched =
                routers::announce(context.client.clone(), namespace, &router.name, &value).await;
            if let Err(error) = patched {
                tracing::warn!(pod = router.name, %error, "the new configuration cannot be announced to a router");
            }
        }
        let Some(router) = context.routers.overdue(&routers, &hash, now) else {
            continue;
        };
        match routers::replace(context.client.clone(), namespace, router).await {
            Ok(()) => context.events.router_replaced(cluster, &router.name).await,
            Err(error) => {
                tracing::warn!(pod = router.name, %error, "a router that stays stale cannot be replaced");
            }
        }
    }
}

fn next_look(
    plan: &Plan,
    observed: &Observed,
    status: &PetraClusterStatus,
    busy: bool,
) -> Duration {
    let stale = plan.regions.iter().any(|region| {
        let hash = config_hash(status::config_text(region));
        let mut routers = observed
            .routers
            .iter()
            .filter(|router| router.region == region.region);
        routers.any(|router| router.may_lag_behind(&hash))
    });
    let grows = |growth: &Growth| matches!(growth, Growth::UnderWay(_));
    let growing = observed.growing.values().any(grows);
    let placing = !plan.untold.is_empty();
    let scaling = plan.layouts.values().any(|layout| layout.step.is_some());
    if busy || stale || growing || plan.waits_for_routers || placing && scaling {
        SOON
    } else if let Some(due) = plan.due {
        due.clamp(SOON, LATER)
    } else if status::is_true(status, status::condition::READY) && !placing {
        SETTLED
    } else {
        LATER
    }
}

/// Writes the status if it differs from the one that is there, and tells people what changed.
async fn write_status(
    cluster: &PetraCluster,
    context: &Context,
    outcome: &Outcome<'_>,
) -> Result<PetraClusterStatus, ReconcileError> {
    let previous = latest_status(cluster, context);
    let status = status::status(cluster, previous.as_ref(), outcome, Timestamp::now());
    if previous.as_ref() == Some(&status) {
        return Ok(status);
    }
    let name = cluster.name_any();
    let api: Api<PetraCluster> = Api::namespaced(
        context.client.clone(),
        &cluster.namespace().unwrap_or_default(),
    );
    let patch = json!({
        "apiVersion": PetraCluster::api_version(&()),
        "kind": PetraCluster::kind(&()),
        "metadata": {"resourceVersion": newest_version(cluster, context)},
        "status": status,
    });
    let parameters = PatchParams::apply(MANAGER).force();
    let written = api
        .patch_status(&name, &parameters, &Patch::Apply(&patch))
        .await;
    match written {
        Ok(written) => {
            let entry = Written {
                uid: written.uid(),
                resource_version: written.resource_version(),
                status: status.clone(),
            };
            let mut memory = context
                .written_status
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            memory.insert(ObjectRef::from(cluster), entry);
        }
        Err(kube::Error::Api(answer)) if answer.code == 409 => {
            return Err(ReconcileError::Overtaken);
        }
        // Deleted meanwhile.
        Err(kube::Error::Api(answer)) if answer.code == 404 => return Ok(status),
        Err(source) => {
            return Err(ReconcileError::Status {
                cluster: name,
                source,
            });
        }
    }
    context
        .events
        .publish(cluster, previous.as_ref(), &status)
        .await;
    Ok(status)
}

/// The status that is there: what the watch shows, unless what was written last is newer.
fn latest_status(cluster: &PetraCluster, context: &Context) -> Option<PetraClusterStatus> {
    let written = |written: &Written| Some(written.status.clone());
    latest(cluster, context, written).unwrap_or_else(|| cluster.status.clone())
}

/// The version of what the watch shows, unless what was written last is newer.
fn newest_version(cluster: &PetraCluster, context: &Context) -> Option<String> {
    let written = |written: &Written| written.resource_version.clone();
    latest(cluster, context, written).unwrap_or_else(|| cluster.resource_version())
}

/// `of` what was written last, if that is newer than what the watch shows.
fn latest<T>(cluster: &PetraCluster, context: &Context, of: impl Fn(&Written) -> T) -> Option<T> {
    let memory = context
        .written_status
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let seen = cluster.resource_version();
    let written = memory.get(&ObjectRef::from(cluster)).filter(|written| {
        written.uid == cluster.uid()
            && is_older(seen.as_deref(), written.resource_version.as_deref())
    });
    written.map(of)
}
