//! No client. Conditions: what is told about a cluster, with a reason and a sentence.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Outcome, View, config_text, node_set, routers, routers_follow, size_of};
use crate::controller::build::config_map::config_hash;
use crate::controller::layout::Step;
use crate::controller::roll::{self, Wait};
use crate::controller::routers::RouterPod;
use crate::controller::validate::{InvalidSpec, ValidatedRegion};
use crate::controller::volumes::Growth;
use crate::crd::{PetraClusterStatus, RouterMode, ScalingPhase};

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
    /// A region gets more or fewer nodes.
    pub const SCALING: &str = "Scaling";
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

/// Whether condition `type_` is true.
pub fn is_true(status: &PetraClusterStatus, type_: &str) -> bool {
    find(&status.conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// Condition `type_`.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// A condition without its times.
pub(super) struct Verdict {
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

    pub(super) fn condition(
        self,
        generation: Option<i64>,
        old: &[Condition],
        now: Timestamp,
    ) -> Condition {
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

/// The verdicts that follow from `outcome`, in the order in which they are listed.
pub(super) fn verdicts(outcome: &Outcome<'_>, old: &[Condition], now: Timestamp) -> Vec<Verdict> {
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
    let scaling = find(old, condition::SCALING).is_some_and(|old| old.status == "True");
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
        Verdict::new(condition::SCALING, scaling, "SpecInvalid", kept),
        Verdict::new(condition::SPEC_VALID, false, "Invalid", message),
    ]
}

/// `Ready`, `Progressing`, `Degraded`, `RouterConfigApplied` and `Scaling`, in this order.
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
        None => match volumes_growing(view) {
            Some(message) => Verdict::new(condition::PROGRESSING, true, "VolumesGrow", message),
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
        None => match volumes_stuck(view) {
            Some(why) => Verdict::new(condition::DEGRADED, true, "VolumesCannotGrow", why),
            None => Verdict::new(
                condition::DEGRADED,
                false,
                "AsExpected",
                "everything that should work does",
            ),
        },
    };
    vec![
        ready_verdict,
        progressing,
        degraded,
        routers,
        scaling_verdict(view),
    ]
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
        if let Some(step) = layout.step {
            waits.push(scaling_sentence(view, region, step));
        } else if set.outdated > 0 {
            waits.push(format!(
                "region {name} is restarted with a new pod template: {} of {} nodes still have \
                 the old one{}",
                set.outdated,
                set.pods,
                roll_waits(view, region)
            ));
        }
    }
    waits
}

/// What the next node of a roll waits for; empty when it waits for nothing.
fn roll_waits(view: &View<'_>, region: &ValidatedRegion) -> String {
    let roll = roll::next(&region.names.node_set(), view.observed);
    match roll.and_then(|roll| roll.waits) {
        None | Some(Wait::Controller) => String::new(),
        Some(Wait::Node(node)) => {
            format!(
                "; the next one waits until {} is ready",
                region.names.pod(node)
            )
        }
        Some(Wait::HoldsDown { router, node }) => format!(
            "; the next one waits until router {router} no longer holds {} for down",
            region.names.pod(node)
        ),
        Some(Wait::Silent(router)) => {
            format!("; the next one waits until router {router} answers, or is replaced")
        }
    }
}

/// Whether a region gets more or fewer nodes, and what the first that does waits for.
fn scaling_verdict(view: &View<'_>) -> Verdict {
    let first = view.cluster.built().find_map(|region| {
        let step = view.layouts.get(&region.names.region)?.step?;
        Some((region, step))
    });
    let type_ = condition::SCALING;
    match first {
        Some((region, step)) => Verdict::new(
            type_,
            true,
            step.phase.as_str(),
            scaling_sentence(view, region, step),
        ),
        None => Verdict::new(
            type_,
            false,
            "Settled",
            "every region has as many nodes as the spec wants",
        ),
    }
}

/// Where a change of size stands. Nothing in it changes while the step lasts but what somebody may have to act on.
fn scaling_sentence(view: &View<'_>, region: &ValidatedRegion, step: Step) -> String {
    let Step { from, to, phase } = step;
    let name = &region.names.region;
    let doing = match phase {
        ScalingPhase::Provisioning => {
            let ready = view.observed.ready_nodes(&region.names.node_set());
            let missing: Vec<String> = (from..to)
                .filter(|node| !ready.contains(node))
                .map(|node| region.names.pod(node))
                .collect();
            if missing.is_empty() {
                format!("every router is waited for that does not use {from} nodes alone yet")
            } else {
                format!(
                    "routers follow when these pods are ready: {}",
                    missing.join(", ")
                )
            }
        }
        ScalingPhase::Mirroring => format!(
            "every router is waited for that does not write to the layout of {to} as well yet"
        ),
        ScalingPhase::Clearing | ScalingPhase::Purging => placing_sentence(view, region, phase),
        ScalingPhase::Warming => {
            format!("what {to} nodes miss is copied from the layout of {from}")
        }
        ScalingPhase::Returning | ScalingPhase::Turning => {
            format!("every router is waited for that does not read the layout of {to} alone yet")
        }
        ScalingPhase::Switching => {
            format!("every router is waited for that does not use {to} nodes alone yet")
        }
        ScalingPhase::Draining => "the last answers of nodes that go are waited for".to_owned(),
        ScalingPhase::Shrinking => "the last pods go".to_owned(),
    };
    format!("region {name} goes from {from} to {to} nodes: {doing}")
}

/// What nodes are told to drop, and who has not confirmed it.
fn placing_sentence(view: &View<'_>, region: &ValidatedRegion, phase: ScalingPhase) -> String {
    let what = if phase == ScalingPhase::Clearing {
        "nodes that get more keys drop what others have had of them"
    } else {
        "nodes drop what is no longer theirs"
    };
    let layout = view.layouts.get(&region.names.region);
    let Some(telling) = layout.and_then(|layout| layout.telling) else {
        return format!("{what}, when the last requests to the layout before have arrived");
    };
    let nodes = view.observed.nodes.get(&region.names.node_set());
    let has_confirmed = |ordinal: &i32| {
        let place = nodes.and_then(|nodes| nodes.get(ordinal)?.place.as_ref());
        place.is_some_and(|place| place.epoch == telling.told.epoch)
    };
    let missing: Vec<String> = telling
        .nodes()
        .filter(|ordinal| !has_confirmed(ordinal))
        .map(|ordinal| region.names.pod(ordinal))
        .collect();
    format!("{what}; not yet: {}", missing.join(", "))
}

/// Volumes that are smaller than the spec wants and grow.
fn volumes_growing(view: &View<'_>) -> Option<String> {
    volumes(view, |growth| match growth {
        Growth::UnderWay(wait) => Some(wait),
        Growth::Refused(_) => None,
    })
}

/// Volumes that are smaller than the spec wants and stay so, as when their class does not let them grow.
fn volumes_stuck(view: &View<'_>) -> Option<String> {
    volumes(view, |growth| match growth {
        Growth::UnderWay(_) => None,
        Growth::Refused(why) => Some(why),
    })
}

/// A sentence about the first region of which `say` says something.
fn volumes(view: &View<'_>, say: impl Fn(&Growth) -> Option<&String>) -> Option<String> {
    view.cluster.built().find_map(|region| {
        let growth = view.observed.growing.get(&region.names.node_set())?;
        Some(format!(
            "volumes of region {} shall have {}: {}",
            region.names.region,
            view.cluster.node.storage_size,
            say(growth)?
        ))
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
            let set = region.names.node_set();
            let why = match view.observed.trouble(&set, 0..servers) {
                Some(trouble) => trouble.to_owned(),
                None => format!("look at the pods of StatefulSet {set}"),
            };
            missing.push(format!(
                "region {name} has {ready} of {servers} nodes ready: {why}"
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
            let lags = move |router: &&RouterPod| {
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
