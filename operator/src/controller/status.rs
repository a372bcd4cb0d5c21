//! No client. The status of a cluster, derived from what was built, what was applied and what was seen.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::build::config_map::config_hash;
use super::build::{Layouts, RegionObjects, routes};
use super::dereference::{NodeSet, Observed};
use super::validate::{InvalidSpec, Place, ValidatedCluster};
use crate::crd::{
    PetraCluster, PetraClusterStatus, RegionStatus, RouterMode, RouterStatus, ScalingStatus,
};
use crate::names::{CONFIG_KEY, Component};
use conditions::verdicts;

pub mod conditions;

pub use conditions::{condition, find, is_true};

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
    let scaling = previous.map_or(&[][..], |previous| &previous.scaling);
    status.scaling = match outcome {
        Outcome::Applied(view) => steps(view, scaling, now),
        // No step was taken, or not all of it.
        Outcome::Invalid(_) | Outcome::Paused(_) | Outcome::Failed(..) => scaling.to_vec(),
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
        scaling: Vec::new(),
    }
}

/// The steps that are under way; one that already was keeps the time at which it began.
fn steps(view: &View<'_>, previous: &[ScalingStatus], now: Timestamp) -> Vec<ScalingStatus> {
    let of_region = |region: &super::validate::ValidatedRegion| {
        let name = &region.names.region;
        let step = view.layouts.get(name)?.step?;
        let new = ScalingStatus {
            region: name.clone(),
            from: step.from,
            to: step.to,
            phase: step.phase,
            started_at: Time(now),
        };
        let same = |old: &&ScalingStatus| {
            (&old.region, old.from, old.to, old.phase) == (&new.region, new.from, new.to, new.phase)
        };
        let started_at = previous.iter().find(same).map(|old| old.started_at.clone());
        Some(ScalingStatus {
            started_at: started_at.unwrap_or(Time(now)),
            ..new
        })
    };
    view.cluster.built().filter_map(of_region).collect()
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
        .map_or((0, 0), |layout| (layout.pods, layout.used.servers))
}

#[cfg(test)]
mod tests;
