//! No client. What shall be next, decided from the spec, from what there is, and from the step that was under way.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use petra_routing::Place;
use petra_routing::place::HashFunction;

use super::build::config_map::config_hash;
use super::build::{self, Layouts, RegionObjects, routes};
use super::dereference::{NodePod, Observed};
use super::layout::{Layout, Live, Pace, Past, Step, Told, Used};
use super::roll::{self, Wait};
use super::status::config_text;
use super::validate::{InvalidSpec, ValidatedCluster, ValidatedRegion};
use crate::crd::{PetraClusterStatus, ScalingPhase};

/// The most that a `ConfigMap` holds, less room for its other fields.
const MAX_CONFIG_BYTES: usize = 1_000_000;

/// What shall be next.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The checked spec.
    pub cluster: ValidatedCluster,
    /// The size of each region that is built here.
    pub layouts: Layouts,
    /// What each of them is made of.
    pub regions: Vec<RegionObjects>,
    /// Nodes that shall be told their place now.
    pub untold: Vec<Untold>,
    /// Whether a roll waits for routers, which no watch announces.
    pub waits_for_routers: bool,
    /// When time alone makes a difference.
    pub due: Option<Duration>,
}

/// A node that shall be told its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Untold {
    /// Its pod.
    pub pod: String,
    /// Identity of this very pod.
    pub uid: String,
    /// Where it answers.
    pub address: String,
    /// What it is told.
    pub place: Place,
}

impl Plan {
    /// The next step of every region. `previous` is the status that was written last.
    ///
    /// # Errors
    ///
    /// The routers' configuration is larger than a `ConfigMap`.
    pub fn new(
        cluster: ValidatedCluster,
        observed: &Observed,
        previous: Option<&PetraClusterStatus>,
        now: Timestamp,
    ) -> Result<Self, InvalidSpec> {
        let mut pace = cluster.scaling;
        let mut layouts = layouts(&cluster, pace, observed, previous, now);
        let mut regions = build::build(&cluster, &layouts);
        if largest_config(&regions) > MAX_CONFIG_BYTES {
            // Two layouts need more room than one, and a cluster that fits must not become too large by being scaled.
            pace.window = None;
            layouts = self::layouts(&cluster, pace, observed, previous, now);
            regions = build::build(&cluster, &layouts);
        }
        let bytes = largest_config(&regions);
        if bytes > MAX_CONFIG_BYTES {
            return Err(InvalidSpec::ConfigTooLarge {
                bytes,
                limit: MAX_CONFIG_BYTES,
            });
        }
        for region in &mut regions {
            let set = region.stateful_set.metadata.name.clone();
            if let Some(size) = observed.volume_sizes.get(&set.unwrap_or_default()) {
                build::statefulset::keep_volume_size(&mut region.stateful_set, size);
            }
        }
        let mut waits_for_routers = false;
        for region in cluster.built() {
            let set = region.names.node_set();
            let Some(roll) = roll::next(&set, observed) else {
                continue;
            };
            waits_for_routers |=
                matches!(roll.waits, Some(Wait::HoldsDown { .. } | Wait::Silent(_)));
            for objects in regions
                .iter_mut()
                .filter(|objects| objects.region == region.names.region)
            {
                build::statefulset::roll_from(&mut objects.stateful_set, roll.partition);
            }
        }
        let untold = untold(&cluster, &layouts, observed);
        let due = due(&layouts, pace, previous, now);
        Ok(Self {
            cluster,
            layouts,
            regions,
            untold,
            waits_for_routers,
            due,
        })
    }
}

/// The nodes that can be told something that they have not confirmed.
fn untold(cluster: &ValidatedCluster, layouts: &Layouts, observed: &Observed) -> Vec<Untold> {
    let of_region = |region: &ValidatedRegion| -> Vec<Untold> {
        let layout = layouts.get(&region.names.region);
        let Some(telling) = layout.and_then(|layout| layout.telling) else {
            return Vec::new();
        };
        let nodes = observed.nodes.get(&region.names.node_set());
        let of_node = |ordinal| {
            let node = nodes?.get(&ordinal).filter(|node| node.ready)?;
            let place = place(cluster, ordinal, telling.told)?;
            let is_news = !node
                .place
                .as_ref()
                .is_some_and(|told| place.is_said_by(told));
            is_news.then(|| Untold {
                pod: region.names.pod(ordinal),
                uid: node.uid.clone(),
                address: node.address.clone().unwrap_or_default(),
                place,
            })
        };
        telling.nodes().filter_map(of_node).collect()
    };
    cluster.built().flat_map(of_region).collect()
}

fn largest_config(regions: &[RegionObjects]) -> usize {
    regions
        .iter()
        .map(|region| config_text(region).len())
        .max()
        .unwrap_or(0)
}

/// The next step of every region that is built here.
fn layouts(
    cluster: &ValidatedCluster,
    pace: Pace,
    observed: &Observed,
    previous: Option<&PetraClusterStatus>,
    now: Timestamp,
) -> Layouts {
    let routers_follow = live_config_is_everywhere(cluster, observed);
    let serving = cluster
        .built()
        .any(|region| live_used(region, region, observed).is_some());
    let next = |region: &ValidatedRegion| {
        let name = region.names.region.clone();
        let set = region.names.node_set();
        let live = Live {
            used: live_used(region, region, observed),
            pods: observed.node_sets.get(&set).map(|set| set.pods),
            existing: observed.existing_nodes(&set),
            ready: observed.ready_nodes(&set),
            told: told(cluster, region, observed),
            // Every region's routers use this region's nodes.
            routers_follow: routers_follow && all_configs_agree(cluster, observed, region),
            serving,
        };
        let past = past(previous, &name, now);
        (name, Layout::next(region.replicas, pace, &live, past))
    };
    cluster.built().map(next).collect()
}

/// What the live configuration of `of` uses of `region`; none where there is no configuration that routes anything.
fn live_used(of: &ValidatedRegion, region: &ValidatedRegion, observed: &Observed) -> Option<Used> {
    let config = observed.config(&of.names.config_map())?;
    config
        .route
        .is_some()
        .then(|| routes::used(&config, &region.names.region))
}

fn live_config_is_everywhere(cluster: &ValidatedCluster, observed: &Observed) -> bool {
    cluster.built().all(|region| {
        let text = observed.configs.get(&region.names.config_map());
        let hash = text.map(|text| config_hash(text)).unwrap_or_default();
        let mut routers = observed
            .routers
            .iter()
            .filter(|router| router.region == region.names.region);
        text.is_some() && routers.all(|router| !router.may_lag_behind(&hash))
    })
}

/// What the nodes of `region` were told, as far as it is about the hash that routers use.
fn told(
    cluster: &ValidatedCluster,
    region: &ValidatedRegion,
    observed: &Observed,
) -> BTreeMap<i32, Told> {
    let nodes = observed.nodes.get(&region.names.node_set());
    let told = |(ordinal, node): (&i32, &NodePod)| {
        let place = node.place.as_ref()?;
        let told = Told {
            size: i32::try_from(place.size).ok()?,
            epoch: place.epoch,
        };
        let is_current = self::place(cluster, *ordinal, told).as_ref() == Some(place);
        is_current.then_some((*ordinal, told))
    };
    nodes.into_iter().flatten().filter_map(told).collect()
}

/// The place of node `ordinal` as it is said to the node itself.
fn place(cluster: &ValidatedCluster, ordinal: i32, told: Told) -> Option<Place> {
    Some(Place {
        index: u32::try_from(ordinal).ok()?,
        size: u32::try_from(told.size).ok()?,
        hash: HashFunction::Ch3,
        salt: cluster.routing.salt.clone(),
        epoch: told.epoch,
    })
}

/// Whether every live configuration uses the same of `region`.
fn all_configs_agree(
    cluster: &ValidatedCluster,
    observed: &Observed,
    region: &ValidatedRegion,
) -> bool {
    let own = live_used(region, region, observed);
    cluster
        .built()
        .all(|of| live_used(of, region, observed) == own)
}

/// The step of `region` that `status` tells of.
pub fn past(status: Option<&PetraClusterStatus>, region: &str, now: Timestamp) -> Option<Past> {
    let scaling = &status?.scaling;
    let scaling = scaling.iter().find(|scaling| scaling.region == region)?;
    let age = now.duration_since(scaling.started_at.0);
    Some(Past {
        step: Step {
            from: scaling.from,
            to: scaling.to,
            phase: scaling.phase,
        },
        since: scaling.started_at.0.as_second(),
        // A clock that was put back makes it look as if the step had only begun.
        age: Duration::try_from(age).unwrap_or_default(),
    })
}

/// How long it takes until the first of the steps that take their time is over.
fn due(
    layouts: &Layouts,
    pace: Pace,
    previous: Option<&PetraClusterStatus>,
    now: Timestamp,
) -> Option<Duration> {
    let left = |(region, layout): (&String, &Layout)| {
        let step = layout.step?;
        let whole = match step.phase {
            ScalingPhase::Warming => pace.window.unwrap_or_default().max(pace.drain),
            ScalingPhase::Draining | ScalingPhase::Returning | ScalingPhase::Turning => pace.drain,
            // When it is over, nodes are told, and what is left is to wait for those that are away.
            ScalingPhase::Clearing | ScalingPhase::Purging if layout.telling.is_none() => {
                pace.drain
            }
            _ => return None,
        };
        let age = past(previous, region, now)
            .filter(|past| past.step == step)
            .map_or(Duration::ZERO, |past| past.age);
        Some(whole.saturating_sub(age))
    };
    layouts.iter().filter_map(left).min()
}

#[cfg(test)]
mod tests;
