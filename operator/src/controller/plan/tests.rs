//! Random specs, random edits, pods and routers that lag behind, an operator that dies anywhere: whatever happens, no
//! configuration that is live or that a router runs names a server that does not exist, or none at all, and no client reads
//! an old value.

use std::collections::{BTreeMap, BTreeSet};

use petra_routing::{Config, check};
use proptest::prelude::*;

use super::*;
use crate::controller::build::build;
use crate::controller::dereference::{NodePod, NodeSet};
use crate::controller::layout::Beside;
use crate::controller::routers::RouterPod;
use crate::controller::status::{self, Outcome, View};
use crate::controller::validate::{Settings, validate};
use crate::controller::wanted;
use crate::crd::{PetraCluster, ReadPolicy, Region, WritePolicy};
use crate::object::Kind;

const ROUTERS: usize = 2;
const KEYS: u8 = 12;

#[derive(Debug, Clone)]
enum Action {
    /// The operator runs, and dies after so many writes; the status is the last of them.
    Reconcile(usize),
    /// `spec.replicas`, or the replicas of a region.
    Scale(Option<usize>, i32),
    AddRegion(i32),
    RemoveRegion(usize),
    Window(&'static str),
    Immediate(bool),
    /// Reads of the router's own region, sets that wait for all, stand-ins within a region.
    Routing(bool, bool, bool),
    /// A pod takes its next step: it is made, gets ready, or goes if it should.
    Pod(usize),
    PodDown(usize),
    /// A router reads its configuration.
    Router(usize),
    /// Somebody deletes a `ConfigMap`.
    LoseConfig(usize),
    Wait(i64),
    /// A client sets a key, while all routers agree where it is.
    Write(u8),
    /// A client of one of the routers asks for a key.
    Read(usize, u8),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => (0_usize..40).prop_map(Action::Reconcile),
        3 => (proptest::option::of(0_usize..4), 1_i32..6).prop_map(|(of, to)| Action::Scale(of, to)),
        1 => (1_i32..4).prop_map(Action::AddRegion),
        1 => (1_usize..4).prop_map(Action::RemoveRegion),
        1 => prop_oneof![Just("1s"), Just("1m"), Just("1h")].prop_map(Action::Window),
        1 => any::<bool>().prop_map(Action::Immediate),
        1 => any::<[bool; 3]>().prop_map(|[local, sync, stand_ins]| Action::Routing(local, sync, stand_ins)),
        12 => any::<usize>().prop_map(Action::Pod),
        2 => any::<usize>().prop_map(Action::PodDown),
        8 => any::<usize>().prop_map(Action::Router),
        1 => any::<usize>().prop_map(Action::LoseConfig),
        4 => (0_i64..100).prop_map(Action::Wait),
        8 => (0..KEYS).prop_map(Action::Write),
        8 => (any::<usize>(), 0..KEYS).prop_map(|(router, key)| Action::Read(router, key)),
    ]
}

#[derive(Default)]
struct Volume {
    place: Option<Place>,
    items: BTreeMap<u8, u32>,
}

impl Volume {
    fn put(&mut self, place: &Place) {
        if !self
            .place
            .as_ref()
            .is_some_and(|told| place.is_said_by(told))
        {
            self.items.retain(|key, _| place.owns(&[*key]));
            self.place = Some(place.clone());
        }
    }
}

/// The node that has `key` in a pool of so many.
fn owner(key: u8, servers: i32) -> i32 {
    let servers = usize::try_from(servers).unwrap();
    i32::try_from(petra_routing::ch3::ch3(&[key], servers)).unwrap()
}

/// A Kubernetes of a few maps.
struct World {
    cluster: PetraCluster,
    configs: BTreeMap<String, String>,
    /// Pods that each set was told to have.
    sets: BTreeMap<String, i32>,
    /// Whether each pod is ready.
    pods: BTreeMap<String, BTreeMap<i32, bool>>,
    /// What the routers of each region run.
    routers: BTreeMap<String, [String; ROUTERS]>,
    /// What the operator remembers to have told each pod.
    told: BTreeMap<(String, i32), Place>,
    /// What is on the volume of each node, which outlives its pod.
    volumes: BTreeMap<(String, i32), Volume>,
    /// The last value of each key.
    written: BTreeMap<u8, u32>,
    now: Timestamp,
    regions_made: usize,
    /// The pods that each text names, once it was found to be without problems.
    named: std::cell::RefCell<BTreeMap<String, Vec<(String, i32)>>>,
}

impl World {
    fn new() -> Self {
        let spec = "{replicas: 3, regions: [{name: r0}], router: {replicas: 2}}";
        Self {
            cluster: PetraCluster::new("c", serde_saphyr::from_str(spec).unwrap()),
            configs: BTreeMap::new(),
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            routers: BTreeMap::new(),
            told: BTreeMap::new(),
            volumes: BTreeMap::new(),
            written: BTreeMap::new(),
            now: Timestamp::UNIX_EPOCH,
            regions_made: 1,
            named: Default::default(),
        }
    }

    fn act(&mut self, action: &Action) {
        let spec = &mut self.cluster.spec;
        match action {
            Action::Reconcile(writes) => {
                self.reconcile(*writes);
            }
            Action::Scale(None, replicas) => spec.replicas = *replicas,
            Action::Scale(Some(region), replicas) => {
                let index = region % spec.regions.len();
                spec.regions[index].replicas = Some(*replicas);
            }
            Action::AddRegion(replicas) if spec.regions.len() < 3 => {
                spec.regions.push(Region {
                    name: format!("r{}", self.regions_made % 4),
                    replicas: Some(*replicas),
                    ..Region::default()
                });
                self.regions_made += 1;
                let names: BTreeSet<_> = spec.regions.iter().map(|region| &region.name).collect();
                if names.len() < spec.regions.len() {
                    spec.regions.pop();
                }
            }
            Action::AddRegion(_) => {}
            Action::RemoveRegion(index) if *index < spec.regions.len() => {
                spec.regions.remove(*index);
            }
            Action::RemoveRegion(_) => {}
            Action::Window(window) => spec.scaling.window = (*window).into(),
            Action::Immediate(immediate) => {
                spec.scaling.mode = if *immediate {
                    crate::crd::ScalingMode::Immediate
                } else {
                    crate::crd::ScalingMode::Warm
                };
            }
            Action::Routing(local, sync, stand_ins) => {
                let routing = &mut spec.routing;
                routing.reads.policy = if *local {
                    ReadPolicy::Local
                } else {
                    ReadPolicy::Primary
                };
                routing.writes.policy = if *sync {
                    WritePolicy::AllSync
                } else {
                    WritePolicy::AllInitial
                };
                routing.pool_failover.enabled = *stand_ins;
            }
            Action::Pod(which) => self.step_pod(*which),
            Action::PodDown(which) => {
                let mut pods: Vec<&mut bool> = self
                    .pods
                    .values_mut()
                    .flat_map(BTreeMap::values_mut)
                    .collect();
                if !pods.is_empty() {
                    let index = which % pods.len();
                    *pods[index] = false;
                }
            }
            Action::Router(which) => self.step_router(*which),
            Action::LoseConfig(which) => {
                let name = self.configs.keys().nth(which % 4).cloned();
                self.configs.remove(&name.unwrap_or_default());
            }
            Action::Wait(seconds) => {
                self.now += Duration::from_secs(seconds.unsigned_abs());
            }
            Action::Write(key) => self.write(*key),
            Action::Read(router, key) => self.read(*router, *key),
        }
    }

    /// Pods of a set that is gone go too.
    fn step_pod(&mut self, which: usize) {
        let mut steps: Vec<(String, i32)> = Vec::new();
        for (set, told) in &self.sets {
            let pods = self.pods.entry(set.clone()).or_default();
            let wanted = 0..*told;
            steps.extend(
                wanted
                    .filter(|pod| pods.get(pod) != Some(&true))
                    .map(|pod| (set.clone(), pod)),
            );
        }
        for (set, pods) in &self.pods {
            let told = self.sets.get(set).copied().unwrap_or(0);
            steps.extend(
                pods.keys()
                    .filter(|pod| **pod >= told)
                    .map(|pod| (set.clone(), *pod)),
            );
        }
        if steps.is_empty() {
            return;
        }
        let (set, pod) = steps.swap_remove(which % steps.len());
        let told = self.sets.get(&set).copied().unwrap_or(0);
        let pods = self.pods.entry(set.clone()).or_default();
        if pod >= told {
            pods.remove(&pod);
            self.told.remove(&(set, pod));
        } else {
            let made = pods.contains_key(&pod);
            pods.insert(pod, made);
        }
    }

    /// What the text of a configuration uses of each region.
    fn used(text: &str) -> Vec<(String, Used)> {
        let config = Config::from_json(text).unwrap();
        let regions = config.pools.keys().filter(|pool| !pool.contains('.'));
        regions
            .map(|region| (format!("c-{region}"), routes::used(&config, region)))
            .collect()
    }

    /// While all routers agree. Those that do not are the business of `layout::tests::neighbours`.
    fn write(&mut self, key: u8) {
        let mut running = self.routers.values().flatten().map(|text| Self::used(text));
        let Some(used) = running
            .next()
            .filter(|first| running.all(|other| other == *first))
        else {
            return;
        };
        let agrees = |text: &String| Self::used(text) == used;
        if self.configs.len() < self.routers.len() || !self.configs.values().all(agrees) {
            return;
        }
        let value = self.written.get(&key).copied().unwrap_or(0) + 1;
        self.written.insert(key, value);
        for (set, used) in used {
            let beside = used.beside.map(Beside::servers);
            for servers in [Some(used.servers), beside].into_iter().flatten() {
                let node = (set.clone(), owner(key, servers));
                self.volumes
                    .entry(node)
                    .or_default()
                    .items
                    .insert(key, value);
            }
        }
    }

    fn read(&mut self, router: usize, key: u8) {
        let running: Vec<&String> = self.routers.values().flatten().collect();
        if running.is_empty() {
            return;
        }
        for (set, used) in Self::used(running[router % running.len()]) {
            let mut on = |servers| {
                let node = (set.clone(), owner(key, servers));
                let items = &mut self.volumes.entry(node).or_default().items;
                items.get(&key).copied()
            };
            let found = on(used.servers);
            let warm = match used.beside {
                Some(Beside::Warm(warm)) if found.is_none() => Some(warm),
                _ => None,
            };
            let copied = warm.and_then(&mut on);
            if let Some(value) = found.or(copied) {
                assert_eq!(
                    Some(&value),
                    self.written.get(&key),
                    "key {key} of {set} as {used:?}"
                );
            }
            if let Some(value) = copied {
                let node = (set, owner(key, used.servers));
                self.volumes
                    .entry(node)
                    .or_default()
                    .items
                    .insert(key, value);
            }
        }
    }

    /// Whether any did not.
    fn all_routers_follow(&mut self) -> bool {
        let mut changed = false;
        for (region, running) in &mut self.routers {
            let text = &self.configs[&format!("c-{region}-mcrouter")];
            changed |= running.iter().any(|running| running != text);
            running.fill(text.clone());
        }
        changed
    }

    fn step_router(&mut self, which: usize) {
        let regions: Vec<String> = self.routers.keys().cloned().collect();
        let Some(region) = regions.get(which % regions.len().max(1)) else {
            return;
        };
        if let Some(text) = self.configs.get(&format!("c-{region}-mcrouter")) {
            self.routers.get_mut(region).unwrap()[which / 7 % ROUTERS].clone_from(text);
        }
    }

    fn observe(&self) -> Observed {
        let mut observed = Observed {
            configs: self.configs.clone(),
            ..Observed::default()
        };
        for (set, told) in &self.sets {
            let pods = self.pods.get(set).cloned().unwrap_or_default();
            let ready = pods.values().filter(|ready| **ready).count();
            let node_set = NodeSet {
                pods: *told,
                ready: i32::try_from(ready).unwrap(),
                outdated: 0,
            };
            observed.node_sets.insert(set.clone(), node_set);
        }
        for (set, pods) in &self.pods {
            let nodes = pods.iter().map(|(pod, ready)| {
                (
                    *pod,
                    NodePod {
                        ready: *ready,
                        place: self.told.get(&(set.clone(), *pod)).cloned(),
                        ..NodePod::default()
                    },
                )
            });
            observed.nodes.insert(set.clone(), nodes.collect());
        }
        for (region, running) in &self.routers {
            observed
                .routers
                .extend(running.iter().map(|text| RouterPod {
                    region: region.clone(),
                    ready: true,
                    running: Some(config_hash(text)),
                    ..RouterPod::default()
                }));
        }
        observed
    }

    /// What the operator does, up to `writes` writes. Whether there was anything to write.
    fn reconcile(&mut self, mut writes: usize) -> bool {
        let settings = Settings {
            router_image: Some("r".to_owned()),
            ..Settings::default()
        };
        let observed = self.observe();
        let validated = validate(&self.cluster, &settings).unwrap();
        let previous = self.cluster.status.clone();
        let plan = Plan::new(validated, &observed, previous.as_ref(), self.now).unwrap();
        let before = (self.configs.clone(), self.sets.clone(), previous.clone());
        let mut write = || {
            let may = writes > 0;
            writes = writes.saturating_sub(1);
            may
        };
        for object in wanted(&plan.regions).unwrap() {
            if !write() {
                return true;
            }
            self.apply(object.key.kind, &object.key.name, &object.body);
        }
        if !write() {
            return true;
        }
        self.delete_orphans(&plan, &observed);
        for node in &plan.untold {
            if !write() {
                return true;
            }
            let (set, ordinal) = node.pod.rsplit_once('-').unwrap();
            let node_of = (set.to_owned(), ordinal.parse().unwrap());
            self.volumes
                .entry(node_of.clone())
                .or_default()
                .put(&node.place);
            self.told.insert(node_of, node.place.clone());
        }
        if !write() {
            return true;
        }
        let view = View {
            cluster: &plan.cluster,
            layouts: &plan.layouts,
            regions: &plan.regions,
            observed: &observed,
        };
        let status = status::status(
            &self.cluster,
            previous.as_ref(),
            &Outcome::Applied(view),
            self.now,
        );
        self.cluster.status = Some(status);
        !plan.untold.is_empty()
            || before
                != (
                    self.configs.clone(),
                    self.sets.clone(),
                    self.cluster.status.clone(),
                )
    }

    fn apply(&mut self, kind: Kind, name: &str, body: &serde_json::Value) {
        match kind {
            Kind::StatefulSet => {
                let told = body["spec"]["replicas"].as_i64().unwrap();
                self.sets
                    .insert(name.to_owned(), i32::try_from(told).unwrap());
            }
            Kind::ConfigMap => {
                let text = body["data"]["mcrouter.json"].as_str().unwrap();
                self.configs.insert(name.to_owned(), text.to_owned());
            }
            Kind::Deployment => {
                let region = name.trim_start_matches("c-").trim_end_matches("-router");
                let text = &self.configs[&format!("c-{region}-mcrouter")];
                self.routers
                    .entry(region.to_owned())
                    .or_insert_with(|| [text.clone(), text.clone()]);
            }
            _ => {}
        }
        self.check();
    }

    fn delete_orphans(&mut self, plan: &Plan, observed: &Observed) {
        let regions: BTreeSet<&str> = plan
            .regions
            .iter()
            .map(|region| region.region.as_str())
            .collect();
        self.routers
            .retain(|region, _| regions.contains(region.as_str()));
        let set = |name: &str| regions.contains(name.trim_start_matches("c-"));
        self.configs
            .retain(|name, _| set(name.trim_end_matches("-mcrouter")));
        if status::routers_follow(&plan.regions, observed) {
            self.sets.retain(|name, _| set(name));
        }
        self.check();
    }

    /// What must hold at every moment.
    fn check(&self) {
        let running = self.routers.values().flatten();
        let mut named = self.named.borrow_mut();
        for text in self.configs.values().chain(running) {
            let pods = named.entry(text.clone()).or_insert_with(|| pods_of(text));
            assert!(!pods.is_empty(), "no region is left in\n{text}");
            for (set, ordinal) in pods {
                let told = self.sets.get(set).is_some_and(|told| *ordinal < *told);
                let exists = self
                    .pods
                    .get(set)
                    .is_some_and(|pods| pods.contains_key(ordinal));
                assert!(
                    told || exists,
                    "{set}-{ordinal} does not exist: {:?} in\n{text}",
                    self.sets
                );
            }
        }
    }

    /// Lets everything happen that was begun. How it ends depends on the spec alone.
    fn settle(&mut self) {
        for _ in 0..60 {
            let mut changed = self.reconcile(usize::MAX);
            for which in 0..60 {
                self.step_pod(which);
            }
            changed |= self.all_routers_follow();
            self.check();
            self.now += Duration::from_secs(4000);
            if !changed && !self.reconcile(usize::MAX) {
                return;
            }
        }
        panic!("it does not settle: {:?}", self.cluster.status);
    }
}

/// The set and the number of each pod that a configuration names.
fn pods_of(text: &str) -> Vec<(String, i32)> {
    let config = Config::from_json(text).unwrap();
    assert_eq!(check(&config), Vec::<String>::new());
    let servers = config.servers();
    assert!(
        !servers.is_empty(),
        "a configuration without a server:\n{text}"
    );
    let pod = |server: &String| {
        let (set, ordinal) = server.split('.').next().unwrap().rsplit_once('-').unwrap();
        (set.to_owned(), ordinal.parse().unwrap())
    };
    servers.iter().map(pod).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_configuration_ever_names_a_missing_server_and_equal_specs_end_in_equal_bytes(
        actions in proptest::collection::vec(action(), 0..120)
    ) {
        let mut world = World::new();
        for action in &actions {
            world.act(action);
            world.check();
        }
        world.settle();
        prop_assert_eq!(&world.cluster.status.as_ref().unwrap().scaling, &Vec::new());

        let settings = Settings { router_image: Some("r".to_owned()), ..Settings::default() };
        let fresh = build(&validate(&world.cluster, &settings).unwrap(), &Layouts::new());
        let texts: BTreeMap<String, String> = fresh
            .iter()
            .map(|region| (format!("c-{}-mcrouter", region.region), config_text(region).to_owned()))
            .collect();
        prop_assert_eq!(&world.configs, &texts);
        let sizes: BTreeMap<String, i32> = fresh
            .iter()
            .map(|region| (format!("c-{}", region.region), region.stateful_set.spec.as_ref().unwrap().replicas.unwrap()))
            .collect();
        prop_assert_eq!(&world.sets, &sizes);
    }
}

#[test]
fn a_step_that_takes_its_time_says_when_it_is_over() {
    let mut world = World::new();
    world.settle();
    world.cluster.spec.replicas = 4;
    world.reconcile(usize::MAX);
    for which in 0..4 {
        world.step_pod(which);
    }
    // The pods are there; routers follow; a request may be on its way; the new node is told; it has confirmed.
    for seconds in [0, 0, 60, 0] {
        world.reconcile(usize::MAX);
        world.all_routers_follow();
        world.now += Duration::from_secs(seconds);
    }
    world.reconcile(usize::MAX);
    world.all_routers_follow();
    world.now += Duration::from_secs(60);
    let validated = validate(
        &world.cluster,
        &Settings {
            router_image: Some("r".to_owned()),
            ..Settings::default()
        },
    )
    .unwrap();
    let plan = Plan::new(
        validated,
        &world.observe(),
        world.cluster.status.as_ref(),
        world.now,
    )
    .unwrap();
    assert_eq!(
        plan.layouts["r0"].step.unwrap().phase,
        ScalingPhase::Warming
    );
    assert_eq!(plan.due, Some(Duration::from_secs(540)));
}
