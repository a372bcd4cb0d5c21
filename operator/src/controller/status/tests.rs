//! What people are told, state by state.

use k8s_openapi::jiff::Timestamp;
use petra_routing::Place;

use super::*;
use crate::controller::build::build;
use crate::controller::dereference::NodePod;
use crate::controller::layout::{Beside, Layout, Step, Telling, Told, Used};
use crate::controller::routers::RouterPod;
use crate::controller::validate::{Settings, validate};
use crate::controller::volumes::Growth;
use crate::crd::ScalingPhase;

const ONE_REGION: &str = "{replicas: 3, regions: [{name: r}]}";

/// A cluster `c` with one region `r`, three nodes and two routers, and everything that was seen of it.
struct World {
    cluster: PetraCluster,
    validated: ValidatedCluster,
    layouts: Layouts,
    regions: Vec<RegionObjects>,
    observed: Observed,
}

impl World {
    fn new(spec: &str) -> Self {
        let mut cluster = PetraCluster::new("c", serde_saphyr::from_str(spec).unwrap());
        cluster.metadata.generation = Some(7);
        let settings = Settings {
            router_image: Some("r".to_owned()),
            ..Settings::default()
        };
        let validated = validate(&cluster, &settings).unwrap();
        let layouts = Layouts::from([("r".to_owned(), Layout::settled(3))]);
        let regions = build(&validated, &layouts);
        let mut observed = Observed::default();
        for region in &regions {
            let name = region.config_map.metadata.name.clone().unwrap();
            observed
                .configs
                .insert(name, config_text(region).to_owned());
        }
        Self {
            cluster,
            validated,
            layouts,
            regions,
            observed,
        }
    }

    fn settled() -> Self {
        Self::new(ONE_REGION)
            .with_nodes(3, 3)
            .with_routers(&["current", "current"])
    }

    fn with_nodes(mut self, pods: i32, ready: i32) -> Self {
        self.observed.node_sets.insert(
            "c-r".to_owned(),
            NodeSet {
                pods,
                ready,
                outdated: 0,
            },
        );
        self
    }

    fn with_step(mut self, pods: i32, from: i32, to: i32, phase: ScalingPhase) -> Self {
        let (servers, beside) = match phase {
            ScalingPhase::Provisioning => (from, None),
            ScalingPhase::Clearing => (from, Some(Beside::Next(to))),
            ScalingPhase::Warming => (to, Some(Beside::Warm(from))),
            _ => (to, None),
        };
        self.layouts.insert(
            "r".to_owned(),
            Layout {
                pods,
                used: Used { servers, beside },
                step: Some(Step { from, to, phase }),
                telling: None,
            },
        );
        self
    }

    /// Ready routers that run the `current` configuration, an `old` one, or give no answer (`silent`).
    fn with_routers(mut self, answers: &[&str]) -> Self {
        let hash = config_hash(config_text(&self.regions[0]));
        let router = |(index, answer): (usize, &&str)| RouterPod {
            name: format!("router-{index}"),
            region: "r".to_owned(),
            ready: true,
            running: match *answer {
                "current" => Some(hash.clone()),
                "silent" => None,
                old => Some(old.to_owned()),
            },
            ..RouterPod::default()
        };
        self.observed.routers = answers.iter().enumerate().map(router).collect();
        self
    }

    fn view(&self) -> View<'_> {
        View {
            cluster: &self.validated,
            layouts: &self.layouts,
            regions: &self.regions,
            observed: &self.observed,
        }
    }

    fn status(&self, previous: Option<&PetraClusterStatus>) -> PetraClusterStatus {
        status(
            &self.cluster,
            previous,
            &Outcome::Applied(self.view()),
            Timestamp::UNIX_EPOCH,
        )
    }
}

/// `Ready Progressing Degraded RouterConfigApplied Scaling SpecValid`, T or F, and the reason of `Ready`.
fn summary(status: &PetraClusterStatus) -> (String, String) {
    let letters = status
        .conditions
        .iter()
        .map(|condition| &condition.status[..1])
        .collect();
    (
        letters,
        find(&status.conditions, condition::READY)
            .unwrap()
            .reason
            .clone(),
    )
}

#[test]
fn each_state_of_a_cluster_that_was_ready_before() {
    let before = World::settled().status(None);
    let table = [
        ("settled", World::settled(), "TFFTFT", "Ready"),
        (
            "a node is down",
            World::settled().with_nodes(3, 2),
            "FFTTFT",
            "NodesNotReady",
        ),
        (
            "a router is stale",
            World::settled().with_routers(&["current", "old"]),
            "FTFFFT",
            "Changing",
        ),
        (
            "a router does not answer",
            World::settled().with_routers(&["current", "silent"]),
            "FTFFFT",
            "Changing",
        ),
        (
            "a router is missing",
            World::settled().with_routers(&["current"]),
            "FFTFFT",
            "RoutersNotReady",
        ),
        (
            "growing",
            World::settled()
                .with_nodes(5, 4)
                .with_step(5, 3, 5, ScalingPhase::Provisioning),
            "FTFTTT",
            "Changing",
        ),
        (
            "shrinking",
            World::settled()
                .with_nodes(5, 5)
                .with_step(5, 5, 3, ScalingPhase::Draining),
            "FTFTTT",
            "Changing",
        ),
    ];
    for (case, world, letters, reason) in table {
        let status = world.status(Some(&before));
        assert_eq!(
            summary(&status),
            (letters.to_owned(), reason.to_owned()),
            "{case}: {status:#?}"
        );
    }
}

#[test]
fn a_cluster_that_starts_is_not_degraded() {
    let starting = World::new(ONE_REGION).with_nodes(3, 1).status(None);
    assert_eq!(
        summary(&starting),
        ("FTFFFT".to_owned(), "Creating".to_owned())
    );
    let later = World::new(ONE_REGION)
        .with_nodes(3, 3)
        .status(Some(&starting));
    assert_eq!(
        summary(&later),
        ("FTFFFT".to_owned(), "Creating".to_owned())
    );
    let ready = World::settled().status(Some(&later));
    assert_eq!(summary(&ready), ("TFFTFT".to_owned(), "Ready".to_owned()));
}

#[test]
fn a_router_that_stays_stale_is_trouble() {
    let world = World::settled().with_routers(&["current", "old"]);
    let first = world.status(Some(&World::settled().status(None)));
    let after = |seconds| {
        let now = Timestamp::from_second(seconds).unwrap();
        summary(&status(
            &world.cluster,
            Some(&first),
            &Outcome::Applied(world.view()),
            now,
        ))
    };
    assert_eq!(after(30), ("FTFFFT".to_owned(), "Changing".to_owned()));
    assert_eq!(after(31), ("FFTFFT".to_owned(), "RoutersStale".to_owned()));
}

#[test]
fn times_change_only_with_the_status_of_a_condition() {
    let first = World::settled().status(None);
    let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let world = World::settled().with_nodes(3, 2);
    let second = status(
        &world.cluster,
        Some(&first),
        &Outcome::Applied(world.view()),
        now,
    );
    let time = |status: &PetraClusterStatus, type_| {
        find(&status.conditions, type_)
            .unwrap()
            .last_transition_time
            .0
    };
    assert_eq!(time(&second, condition::READY), now);
    assert_eq!(time(&second, condition::SPEC_VALID), Timestamp::UNIX_EPOCH);
    let third = status(
        &world.cluster,
        Some(&second),
        &Outcome::Applied(world.view()),
        Timestamp::now(),
    );
    assert_eq!(second, third);
}

#[test]
fn numbers_are_those_that_people_and_autoscalers_read() {
    let status = World::settled().status(None);
    assert_eq!(status.observed_generation, Some(7));
    assert_eq!(status.replicas, Some(3));
    assert_eq!(status.nodes.as_deref(), Some("3/3"));
    assert_eq!(status.region_names.as_deref(), Some("r"));
    assert_eq!(status.router.as_ref().unwrap().applied, "2/2");
    let selector = status.selector.unwrap();
    assert!(
        selector.contains("app.kubernetes.io/component=node")
            && selector.contains("petracache.io/region=r")
    );
    assert_eq!(
        status.regions[0].servers[2],
        "c-r-2.c-r.default.svc.cluster.local.:11211"
    );
}

#[test]
fn an_autoscaler_sees_one_region_that_follows_spec_replicas() {
    let spec = "{replicas: 3, regions: [{name: fixed, replicas: 9}, {name: r}]}";
    let mut world = World::new(spec).with_nodes(3, 3);
    world.observed.node_sets.insert(
        "c-fixed".to_owned(),
        NodeSet {
            pods: 9,
            ready: 9,
            outdated: 0,
        },
    );
    let status = world.status(None);
    assert_eq!(status.replicas, Some(3));
    assert!(status.selector.unwrap().contains("petracache.io/region=r"));
}

#[test]
fn an_invalid_spec_says_why_and_keeps_what_was_known() {
    let before = World::settled().status(None);
    let world = World::settled();
    let outcome = Outcome::Invalid(&InvalidSpec::RouterImageMissing);
    let status = status(
        &world.cluster,
        Some(&before),
        &outcome,
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(
        summary(&status),
        ("FFFTFF".to_owned(), "SpecInvalid".to_owned())
    );
    assert!(
        find(&status.conditions, condition::SPEC_VALID)
            .unwrap()
            .message
            .contains("spec.router.image")
    );
    assert_eq!(status.regions, before.regions);
}

#[test]
fn a_paused_cluster_says_so() {
    let world = World::settled();
    let outcome = Outcome::Paused(world.view());
    let status = status(&world.cluster, None, &outcome, Timestamp::UNIX_EPOCH);
    assert_eq!(
        find(&status.conditions, condition::PROGRESSING)
            .unwrap()
            .reason,
        "Paused"
    );
}

#[test]
fn a_write_that_failed_is_ready_false_and_degraded_with_the_answer() {
    let world = World::settled();
    let outcome = Outcome::Failed(
        world.view(),
        "StatefulSet c-r cannot be applied: no".to_owned(),
    );
    let status = status(&world.cluster, None, &outcome, Timestamp::UNIX_EPOCH);
    assert_eq!(
        summary(&status),
        ("FFTTFT".to_owned(), "ApplyFailed".to_owned())
    );
    assert!(
        find(&status.conditions, condition::DEGRADED)
            .unwrap()
            .message
            .contains("c-r")
    );
}

#[test]
fn volumes_that_grow_or_cannot_are_told_of_without_making_the_cluster_unready() {
    let with = |growth: Growth| {
        let mut world = World::settled();
        world.observed.growing.insert("c-r".to_owned(), growth);
        world.status(None)
    };
    let growing = with(Growth::UnderWay("these claims grow: data-c-r-0".to_owned()));
    let stuck = with(Growth::Refused("the class forbids it".to_owned()));
    for (status, type_, reason, words) in [
        (growing, condition::PROGRESSING, "VolumesGrow", "data-c-r-0"),
        (stuck, condition::DEGRADED, "VolumesCannotGrow", "forbids"),
    ] {
        assert!(is_true(&status, condition::READY));
        assert!(is_true(&status, type_));
        let told = find(&status.conditions, type_).unwrap();
        assert_eq!(told.reason, reason);
        assert!(told.message.contains(words) && told.message.contains("10Gi"));
    }
}

#[test]
fn without_routers_of_ours_the_configuration_counts_as_applied() {
    let world =
        World::new("{replicas: 3, regions: [{name: r}], router: {mode: none}}").with_nodes(3, 3);
    let status = world.status(None);
    assert_eq!(summary(&status).0, "TFFTFT");
    assert_eq!(status.router.unwrap().applied, "none");
}

#[test]
fn routers_follow_when_the_live_configuration_is_the_wanted_one_and_none_lags() {
    let world = World::settled();
    assert!(routers_follow(&world.regions, &world.observed));
    let stale = World::settled().with_routers(&["old"]);
    assert!(!routers_follow(&stale.regions, &stale.observed));
    let mut other = World::settled();
    other
        .observed
        .configs
        .insert("c-r-mcrouter".to_owned(), "{}\n".to_owned());
    assert!(!routers_follow(&other.regions, &other.observed));
}

#[test]
fn nodes_that_have_not_confirmed_their_place_are_named() {
    let mut world = World::settled().with_step(5, 3, 5, ScalingPhase::Clearing);
    let message = |world: &World| {
        let outcome = Outcome::Applied(world.view());
        let status = status(&world.cluster, None, &outcome, Timestamp::UNIX_EPOCH);
        let scaling = find(&status.conditions, condition::SCALING).unwrap();
        scaling.message.clone()
    };
    assert!(message(&world).ends_with("when the last requests to the layout before have arrived"));
    let told = Told {
        size: 3,
        epoch: Some(7),
    };
    world.layouts.get_mut("r").unwrap().telling = Some(Telling {
        first: 3,
        end: 5,
        told,
    });
    let place = |epoch| Place {
        index: 3,
        size: 3,
        hash: Default::default(),
        salt: String::new(),
        epoch,
    };
    let nodes = [(3, Some(7)), (4, Some(6))].map(|(node, epoch)| {
        let place = Some(place(epoch));
        let pod = NodePod {
            place,
            ..NodePod::default()
        };
        (node, pod)
    });
    world.observed.nodes.insert("c-r".to_owned(), nodes.into());
    let message = message(&world);
    assert!(message.ends_with("not yet: c-r-4"), "{message}");
}

#[test]
fn a_step_keeps_the_time_at_which_it_began_and_the_next_one_has_its_own() {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let warming = || World::settled().with_step(5, 3, 5, ScalingPhase::Warming);
    let status_of = |world: &World, previous: Option<&PetraClusterStatus>, now| {
        status(
            &world.cluster,
            previous,
            &Outcome::Applied(world.view()),
            now,
        )
    };
    let first = status_of(&warming(), None, at(100));
    let step = &first.scaling[0];
    assert_eq!((step.from, step.to, step.started_at.0), (3, 5, at(100)));
    let later = status_of(&warming(), Some(&first), at(200));
    assert_eq!(later.scaling, first.scaling);
    let switching = World::settled().with_step(5, 3, 5, ScalingPhase::Switching);
    let next = status_of(&switching, Some(&later), at(300));
    assert_eq!(next.scaling[0].started_at.0, at(300));
    assert_eq!(
        status_of(&World::settled(), Some(&next), at(400)).scaling,
        []
    );
}

#[test]
fn a_step_that_was_not_taken_is_not_recorded() {
    let world = World::settled().with_step(5, 3, 5, ScalingPhase::Warming);
    for outcome in [
        Outcome::Paused(world.view()),
        Outcome::Failed(world.view(), "no".to_owned()),
    ] {
        let status = status(&world.cluster, None, &outcome, Timestamp::UNIX_EPOCH);
        assert_eq!(status.scaling, []);
    }
}
