//! No client. The status of a cluster, derived from what was built, what was applied and what was seen.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::build::config_map::config_hash;
use super::build::{Layouts, RegionObjects, routes};
use super::dereference::{NodeSet, Observed};
use super::layout::Phase;
use super::validate::{InvalidSpec, Place, ValidatedCluster};
use crate::crd::{
    ByteSize, PetraCluster, PetraClusterStatus, RegionStatus, RouterMode, RouterStatus,
};
use crate::names::{CONFIG_KEY, Component};

/// How far a reconciliation came.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The spec cannot be built; nothing was touched.
    Invalid(&'a InvalidSpec),
    /// The spec was built, and not applied because the cluster is paused.
    Paused(View<'a>),
    /// Everything was applied.
    Applied(View<'a>),
    /// A write failed.
    Failed(View<'a>, String),
}

/// What was wanted and what was seen.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The checked spec.
    pub cluster: &'a ValidatedCluster,
    /// What was decided about sizes.
    pub layouts: &'a Layouts,
    /// What was built.
    pub regions: &'a [RegionObjects],
    /// What was seen before.
    pub observed: &'a Observed,
}

/// Condition types, and the order in which they are listed.
pub mod condition {
    /// Every node and router is up, and every router runs the current configuration.
    pub const READY: &str = "Ready";
    /// Something changes that was asked for.
    pub const PROGRESSING: &str = "Progressing";
    /// Something that should work does not.
    pub const DEGRADED: &str = "Degraded";
    /// Every router runs the current configuration.
    pub const ROUTER_CONFIG_APPLIED: &str = "RouterConfigApplied";
    /// The spec can be built.
    pub const SPEC_VALID: &str = "SpecValid";
}

/// The reason of `Ready` and `Progressing` while something changes that was asked for.
const CHANGING: &str = "Changing";

/// The reason of `RouterConfigApplied` while a router runs another configuration.
const STALE: &str = "RoutersStale";

/// A router reads a new configuration within seconds; later than this, something is wrong with it.
const STALE_GRACE: SignedDuration = SignedDuration::from_secs(30);

/// The reason of `Ready` until it was true for the first time.
const CREATING: &str = "Creating";

/// The status that follows from `outcome`; times are kept where nothing changed since `previous`.
pub fn status(
    cluster: &PetraCluster,
    previous: Option<&PetraClusterStatus>,
    outcome: &Outcome<'_>,
    now: Timestamp,
) -> PetraClusterStatus {
    let mut status = match outcome {
        Outcome::Invalid(_) => previous.cloned().unwrap_or_default(),
        Outcome::Paused(view) | Outcome::Applied(view) | Outcome::Failed(view, _) => {
            observed_part(cluster, view)
        }
    };
    status.observed_generation = cluster.metadata.generation;
    let old = previous.map_or(&[][..], |previous| &previous.conditions);
    let verdicts = verdicts(outcome, old, now);
    status.conditions = verdicts
        .into_iter()
        .map(|verdict| verdict.condition(cluster.metadata.generation, old, now))
        .collect();
    status
}

/// Whether condition `type_` is true.
pub fn is_true(status: &PetraClusterStatus, type_: &str) -> bool {
    find(&status.conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// Condition `type_`.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether every router of every region that is built here runs what is in `regions`. Where the operator runs no
/// routers it is enough that the configuration is there.
pub fn routers_follow(regions: &[RegionObjects], observed: &Observed) -> bool {
    regions.iter().all(|region| {
        let text = config_text(region);
        let live = observed.configs.get(
            region
                .config_map
                .metadata
                .name
                .as_deref()
                .unwrap_or_default(),
        );
        let hash = config_hash(text);
        live.is_some_and(|live| live == text)
            && observed
                .routers
                .iter()
                .filter(|router| router.region == region.region)
                .all(|router| !router.may_lag_behind(&hash))
    })
}

/// The text of a region's configuration.
pub fn config_text(region: &RegionObjects) -> &str {
    let data = region.config_map.data.as_ref();
    data.and_then(|data| data.get(CONFIG_KEY))
        .map_or("", String::as_str)
}

fn observed_part(cluster: &PetraCluster, view: &View<'_>) -> PetraClusterStatus {
    let regions = region_statuses(view);
    let (ready, nodes) = view.regions.iter().fold((0, 0), |(ready, nodes), region| {
        let set = node_set(view, &region.region);
        (
            ready + set.ready.min(set.pods),
            nodes + size_of(view, &region.region).0,
        )
    });
    // Autoscalers multiply this by what they measure on the selected pods: so one region, not the sum of all.
    let followed = view.cluster.built().find(|region| {
        let named = cluster
            .spec
            .regions
            .iter()
            .find(|spec| spec.name == region.names.region);
        named.is_some_and(|spec| spec.replicas.is_none())
    });
    let counted = followed.or_else(|| view.cluster.built().next());
    let names = cluster
        .spec
        .regions
        .iter()
        .map(|region| region.name.as_str())
        .collect::<Vec<_>>();
    PetraClusterStatus {
        observed_generation: None,
        replicas: counted.map(|region| node_set(view, &region.names.region).pods),
        selector: counted.map(|region| {
            let labels = region.names.selector(Component::Node);
            labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
                .join(",")
        }),
        nodes: Some(format!("{ready}/{nodes}")),
        region_names: Some(names.join(",")),
        conditions: Vec::new(),
        regions,
        router: router_status(view),
    }
}

fn region_statuses(view: &View<'_>) -> Vec<RegionStatus> {
    let config = view.regions.first().map(|region| &region.config);
    let of_region = |region: &super::validate::ValidatedRegion| {
        let name = region.names.region.clone();
        let set = node_set(view, &name);
        let built = matches!(region.place, Place::Here(_));
        RegionStatus {
            servers: config
                .map(|config| routes::servers(config, &name))
                .unwrap_or_default(),
            nodes: if built { set.pods } else { region.replicas },
            ready: built.then_some(set.ready),
            name,
        }
    };
    view.cluster.regions.iter().map(of_region).collect()
}

fn router_status(view: &View<'_>) -> Option<RouterStatus> {
    let hashes: Vec<String> = view
        .regions
        .iter()
        .map(|region| config_hash(config_text(region)))
        .collect();
    let (serving, wanted) = routers(view);
    Some(RouterStatus {
        config_hash: hashes.join(","),
        applied: if view.cluster.router.mode == RouterMode::None {
            "none".to_owned()
        } else {
            format!("{serving}/{wanted}")
        },
    })
}

/// Routers that serve the current configuration, and routers that there should be.
fn routers(view: &View<'_>) -> (i32, i32) {
    let mut total = (0, 0);
    for region in view.regions {
        let hash = config_hash(config_text(region));
        let serving = view
            .observed
            .routers
            .iter()
            .filter(|router| router.region == region.region && router.serves(&hash))
            .count();
        let wanted = match view.cluster.router.mode {
            RouterMode::Deployment => view.cluster.router.replicas,
            RouterMode::Daemonset => {
                let name = format!("{}-{}-router", view.cluster.name, region.region);
                view.observed
                    .daemon_set_sizes
                    .get(&name)
                    .copied()
                    .unwrap_or(1)
            }
            RouterMode::None => 0,
        };
        // While routers are replaced there are more of them than wanted for a moment.
        let serving = i32::try_from(serving).unwrap_or(i32::MAX).min(wanted);
        total = (total.0 + serving, total.1 + wanted);
    }
    total
}

fn node_set(view: &View<'_>, region: &str) -> NodeSet {
    let name = format!("{}-{region}", view.cluster.name);
    view.observed
        .node_sets
        .get(&name)
        .copied()
        .unwrap_or_default()
}

/// Pods and servers that `region` shall have now.
fn size_of(view: &View<'_>, region: &str) -> (i32, i32) {
    view.layouts
        .get(region)
        .map_or((0, 0), |layout| (layout.pods, layout.servers))
}

/// A condition without its times.
struct Verdict {
    type_: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

impl Verdict {
    fn new(
        type_: &'static str,
        status: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            status,
            reason,
            message: message.into(),
        }
    }

    fn condition(self, generation: Option<i64>, old: &[Condition], now: Timestamp) -> Condition {
        let status = if self.status { "True" } else { "False" };
        let since = find(old, self.type_).filter(|old| old.status == status);
        Condition {
            type_: self.type_.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            observed_generation: generation,
            last_transition_time: since.map_or(Time(now), |old| old.last_transition_time.clone()),
        }
    }
}

fn verdicts(outcome: &Outcome<'_>, old: &[Condition], now: Timestamp) -> Vec<Verdict> {
    let valid = Verdict::new(
        condition::SPEC_VALID,
        true,
        "Valid",
        "the spec can be built",
    );
    match outcome {
        Outcome::Invalid(error) => invalid(error, old),
        Outcome::Failed(view, error) => {
            let mut verdicts = judge(view, old, now);
            verdicts[0] = Verdict::new(condition::READY, false, "ApplyFailed", error.clone());
            verdicts[2] = Verdict::new(condition::DEGRADED, true, "ApplyFailed", error.clone());
            verdicts.push(valid);
            verdicts
        }
        Outcome::Applied(view) => {
            let mut verdicts = judge(view, old, now);
            verdicts.push(valid);
            verdicts
        }
        Outcome::Paused(view) => {
            let mut verdicts = judge(view, old, now);
            let message = "spec.paused is true: nothing is changed until it is false again";
            verdicts[1] = Verdict::new(condition::PROGRESSING, false, "Paused", message);
            verdicts.push(valid);
            verdicts
        }
    }
}

/// Nothing was touched: what was said about the parts stays, under the new verdict about the spec.
fn invalid(error: &InvalidSpec, old: &[Condition]) -> Vec<Verdict> {
    let message = error.to_string();
    let kept = "unknown until the spec is valid";
    let degraded = find(old, condition::DEGRADED).is_some_and(|old| old.status == "True");
    let applied =
        find(old, condition::ROUTER_CONFIG_APPLIED).is_some_and(|old| old.status == "True");
    vec![
        Verdict::new(condition::READY, false, "SpecInvalid", message.clone()),
        Verdict::new(
            condition::PROGRESSING,
            false,
            "SpecInvalid",
            "nothing is changed until the spec is valid",
        ),
        Verdict::new(condition::DEGRADED, degraded, "SpecInvalid", kept),
        Verdict::new(
            condition::ROUTER_CONFIG_APPLIED,
            applied,
            "SpecInvalid",
            kept,
        ),
        Verdict::new(condition::SPEC_VALID, false, "Invalid", message),
    ]
}

/// `Ready`, `Progressing`, `Degraded` and `RouterConfigApplied`, in this order.
fn judge(view: &View<'_>, old: &[Condition], now: Timestamp) -> Vec<Verdict> {
    let was_ready = find(old, condition::READY).is_some_and(|ready| ready.reason != CREATING);
    let mut waits = waits(view);
    let missing = missing_nodes(view);
    let routers = router_verdict(view);
    let catching_up = routers.reason == STALE && !stale_for_long(old, now);
    if catching_up {
        waits.push(routers.message.clone());
    }
    let settled = waits.is_empty();
    let ready = settled && missing.is_empty() && routers.status;
    let first_wait = waits.first().cloned();
    let first_trouble = missing
        .first()
        .cloned()
        .or_else(|| (!routers.status && !catching_up).then(|| routers.message.clone()));
    let trouble = first_trouble
        .clone()
        .or_else(|| first_wait.clone())
        .unwrap_or_default();
    let ready_verdict = if ready {
        Verdict::new(
            condition::READY,
            true,
            "Ready",
            "every node and router is up and follows the spec",
        )
    } else if !was_ready {
        Verdict::new(condition::READY, false, CREATING, trouble)
    } else if !missing.is_empty() {
        Verdict::new(condition::READY, false, "NodesNotReady", trouble)
    } else if !routers.status && !catching_up {
        Verdict::new(condition::READY, false, routers.reason, trouble)
    } else {
        Verdict::new(condition::READY, false, CHANGING, trouble)
    };
    let progressing = match first_wait {
        Some(wait) => Verdict::new(condition::PROGRESSING, true, CHANGING, wait),
        None if !ready && !was_ready => Verdict::new(
            condition::PROGRESSING,
            true,
            CREATING,
            first_trouble.clone().unwrap_or_default(),
        ),
        None => match volumes_behind(view) {
            Some(message) => Verdict::new(condition::PROGRESSING, true, "VolumesToGrow", message),
            None => Verdict::new(
                condition::PROGRESSING,
                false,
                "Settled",
                "nothing is being changed",
            ),
        },
    };
    let degraded = match first_trouble.filter(|_| was_ready) {
        Some(trouble) if !missing.is_empty() => {
            Verdict::new(condition::DEGRADED, true, "NodesNotReady", trouble)
        }
        Some(trouble) => Verdict::new(condition::DEGRADED, true, routers.reason, trouble),
        None => Verdict::new(
            condition::DEGRADED,
            false,
            "AsExpected",
            "everything that should work does",
        ),
    };
    vec![ready_verdict, progressing, degraded, routers]
}

/// Whether routers have been behind for longer than a new configuration takes to reach them.
fn stale_for_long(old: &[Condition], now: Timestamp) -> bool {
    find(old, condition::ROUTER_CONFIG_APPLIED)
        .filter(|old| old.status == "False")
        .is_some_and(|old| now.duration_since(old.last_transition_time.0) > STALE_GRACE)
}

/// What is waited for because of a change, one sentence each.
fn waits(view: &View<'_>) -> Vec<String> {
    let mut waits = Vec::new();
    for region in view.cluster.built() {
        let name = &region.names.region;
        let Some(layout) = view.layouts.get(name) else {
            continue;
        };
        let set = node_set(view, name);
        match layout.phase {
            Phase::Growing => waits.push(format!(
                "region {name} grows from {} to {} nodes: {} of {} are ready, routers follow \
                 when all are",
                layout.servers, layout.pods, set.ready, layout.pods
            )),
            Phase::Shrinking => waits.push(format!(
                "region {name} shrinks from {} to {} nodes: pods go when every router has \
                 stopped using them",
                layout.pods, layout.servers
            )),
            Phase::Settled if set.outdated > 0 => waits.push(format!(
                "region {name} is restarted with a new pod template: {} of {} nodes still have \
                 the old one",
                set.outdated, set.pods
            )),
            Phase::Settled => {}
        }
    }
    waits
}

/// Volumes that are smaller than the spec wants. Kubernetes lets nobody change the size in a
/// `StatefulSet`, and the operator may not touch volumes: that takes somebody who may.
fn volumes_behind(view: &View<'_>) -> Option<String> {
    let wanted = view.cluster.node.storage_size.parse().ok()?;
    view.cluster.built().find_map(|region| {
        let set = region.names.node_set();
        let size = view.observed.volume_sizes.get(&set)?;
        let smaller = ByteSize(size.clone())
            .parse()
            .is_ok_and(|size| size < wanted);
        smaller.then(|| {
            format!(
                "volumes of region {} are made with {size}, the spec wants {}: set \
                 spec.resources.requests.storage of the claims data-{set}-*, then run `kubectl \
                 delete statefulset {set} --cascade=orphan`, which stops no node and lets the \
                 operator make it anew",
                region.names.region, view.cluster.node.storage_size
            )
        })
    })
}

/// Nodes that routers use and that are not ready, one sentence per region.
fn missing_nodes(view: &View<'_>) -> Vec<String> {
    let mut missing = Vec::new();
    for region in view.cluster.built() {
        let name = &region.names.region;
        let (_, servers) = size_of(view, name);
        let ready = node_set(view, name).ready;
        if ready < servers {
            missing.push(format!(
                "region {name} has {ready} of {servers} nodes ready: look at the pods of StatefulSet {}",
                region.names.node_set()
            ));
        }
    }
    missing
}

fn router_verdict(view: &View<'_>) -> Verdict {
    let type_ = condition::ROUTER_CONFIG_APPLIED;
    if view.cluster.router.mode == RouterMode::None {
        let message = "the operator runs no routers: each region's ConfigMap has the configuration";
        return Verdict::new(type_, true, "NoRouters", message);
    }
    let (serving, wanted) = routers(view);
    if serving == wanted && routers_follow(view.regions, view.observed) {
        return Verdict::new(
            type_,
            true,
            "Applied",
            format!("all {wanted} routers run the current configuration"),
        );
    }
    let lagging: Vec<&str> = view
        .regions
        .iter()
        .flat_map(|region| {
            let hash = config_hash(config_text(region));
            let lags = move |router: &&super::routers::RouterPod| {
                router.region == region.region && router.may_lag_behind(&hash)
            };
            view.observed.routers.iter().filter(lags)
        })
        .map(|router| router.name.as_str())
        .collect();
    if lagging.is_empty() {
        let message = format!("{serving} of {wanted} routers are ready: look at the router pods");
        return Verdict::new(type_, false, "RoutersNotReady", message);
    }
    let message = format!(
        "{serving} of {wanted} routers run the current configuration; not yet: {}",
        lagging.join(", ")
    );
    Verdict::new(type_, false, STALE, message)
}

#[cfg(test)]
mod tests;
