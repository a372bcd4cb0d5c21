//! Routers that are a step apart, and clients on both: whatever is acknowledged through one is what the other reads, or nothing.
//!
//! The configurations are the generated ones, evaluated as mcrouter does; nodes are maps, and forget what they are told to. The
//! operator sees what it wrote last or what was there before, and may die before it writes its status.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use petra_routing::ch3::ch3;
use petra_routing::{Destination, Operation, Outcome, Place, Reply, Request, Router, Servers};
use proptest::prelude::*;

use super::*;
use crate::controller::build::{Layouts, build};
use crate::controller::validate::{Settings, ValidatedCluster, validate};
use crate::crd::PetraCluster;

const ROUTERS: usize = 2;
const NODES: i32 = 5;
const KEYS: u8 = 10;
const PACE: Pace = Pace {
    window: Some(Duration::from_secs(5)),
    drain: DRAIN,
};

#[derive(Debug, Clone)]
enum Action {
    /// The operator takes a step.
    Operator {
        sees_last_write: bool,
        dies: bool,
    },
    /// A router reads its configuration.
    Router(usize),
    Scale(i32),
    Wait(i64),
    /// A client of one of the routers asks something of a key.
    Ask(usize, Operation, u8),
}

fn action() -> impl Strategy<Value = Action> {
    let operations = prop_oneof![
        6 => Just(Operation::Get),
        1 => Just(Operation::Gets),
        1 => Just(Operation::Gat),
        4 => Just(Operation::Set),
        2 => Just(Operation::Delete),
        2 => Just(Operation::Add),
        2 => Just(Operation::Replace),
        2 => Just(Operation::Append),
        2 => Just(Operation::Incr),
        1 => Just(Operation::Touch),
    ];
    prop_oneof![
        10 => (prop::bool::weighted(0.9), prop::bool::weighted(0.1))
            .prop_map(|(sees_last_write, dies)| Action::Operator { sees_last_write, dies }),
        8 => (0..ROUTERS).prop_map(Action::Router),
        1 => (1..=NODES).prop_map(Action::Scale),
        6 => (1_i64..4).prop_map(Action::Wait),
        40 => (0..ROUTERS, operations, 0..KEYS)
            .prop_map(|(router, operation, key)| Action::Ask(router, operation, key)),
    ]
}

type Items = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the nodes hold, by server. Volumes outlive their pods.
#[derive(Clone, Default)]
struct Nodes(Arc<Mutex<BTreeMap<String, Items>>>);

impl Servers for Nodes {
    fn ask(&self, to: &Destination, request: &Request) -> impl Future<Output = Reply> + Send {
        let mut nodes = self.0.lock().unwrap();
        let items = nodes.entry(to.server.clone()).or_default();
        ready(execute(items, request))
    }

    fn background(&self, work: impl FnOnce(Self) -> BoxFuture<'static, ()>) {
        work(self.clone()).now_or_never().unwrap();
    }

    fn now(&self) -> i64 {
        0
    }
}

fn execute(items: &mut Items, request: &Request) -> Reply {
    use Operation::{Add, Append, Delete, Incr, Metaget, Replace, Set, Touch};
    let held = items.get(&request.key).cloned();
    let mut store = |value| {
        items.insert(request.key.clone(), value);
        Reply::new(Outcome::Stored)
    };
    match (request.operation, held) {
        (Set, _) | (Add, None) | (Replace, Some(_)) => store(request.value.clone()),
        (Append, Some(value)) => store([value, request.value.clone()].concat()),
        (Incr, Some(value)) => store(incremented(&value)),
        (Add, Some(_)) | (Replace | Append, None) => Reply::new(Outcome::NotStored),
        (_, None) => Reply::new(Outcome::NotFound),
        (Delete, Some(_)) => {
            items.remove(&request.key);
            Reply::new(Outcome::Deleted)
        }
        (Touch, Some(_)) => Reply::new(Outcome::Touched),
        (Metaget, Some(_)) => Reply::new(Outcome::Found),
        (_, Some(value)) => Reply {
            value,
            ..Reply::new(Outcome::Found)
        },
    }
}

fn incremented(value: &[u8]) -> Vec<u8> {
    let number: u64 = String::from_utf8_lossy(value).parse().unwrap();
    (number + 1).to_string().into_bytes()
}

struct World {
    cluster: ValidatedCluster,
    desired: i32,
    /// The configuration that is live, and the one that was before it.
    used: Used,
    before: Used,
    routers: [Used; ROUTERS],
    pods: i32,
    told: BTreeMap<i32, Place>,
    /// The step of the status, and when it began.
    status: Option<(Step, i64)>,
    now: i64,
    nodes: Nodes,
    compiled: BTreeMap<String, Router>,
    /// What was acknowledged last; nothing where that was a delete.
    truth: BTreeMap<u8, Vec<u8>>,
    values: u64,
}

impl World {
    fn new() -> Self {
        let spec = "{replicas: 3, regions: [{name: r}]}";
        let cluster = PetraCluster::new("c", serde_saphyr::from_str(spec).unwrap());
        let settings = Settings {
            router_image: Some("r".to_owned()),
            ..Settings::default()
        };
        let used = Layout::settled(3).used;
        Self {
            cluster: validate(&cluster, &settings).unwrap(),
            desired: 3,
            used,
            before: used,
            routers: [used; ROUTERS],
            pods: 3,
            told: BTreeMap::new(),
            status: None,
            now: 0,
            nodes: Nodes::default(),
            compiled: BTreeMap::new(),
            truth: BTreeMap::new(),
            values: 0,
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Operator {
                sees_last_write,
                dies,
            } => self.operate(*sees_last_write, *dies),
            Action::Router(router) => self.routers[*router] = self.used,
            Action::Scale(nodes) => self.desired = *nodes,
            Action::Wait(seconds) => self.now += seconds,
            Action::Ask(router, operation, key) => self.ask(*router, *operation, *key),
        }
    }

    fn operate(&mut self, sees_last_write: bool, dies: bool) {
        self.now += 1;
        let seen = if sees_last_write {
            self.used
        } else {
            self.before
        };
        let told = |(node, place): (&i32, &Place)| {
            let size = i32::try_from(place.size).unwrap();
            let epoch = place.epoch;
            (*node, Told { size, epoch })
        };
        let live = Live {
            used: Some(seen),
            pods: Some(self.pods),
            existing: self.pods,
            ready: (0..self.pods).collect(),
            told: self.told.iter().map(told).collect(),
            routers_follow: self.routers.iter().all(|router| *router == seen),
            serving: true,
        };
        let past = self.status.map(|(step, since)| Past {
            step,
            since,
            age: Duration::from_secs((self.now - since).unsigned_abs()),
        });
        let layout = Layout::next(self.desired, PACE, &live, past);
        self.pods = layout.pods;
        self.told.retain(|node, _| *node < layout.pods);
        (self.before, self.used) = (self.used, layout.used);
        if dies {
            // Another one begins with what there is.
            self.before = self.used;
            return;
        }
        if let Some(telling) = layout.telling {
            telling
                .nodes()
                .for_each(|node| self.tell(node, telling.told));
        }
        let since = self.status.filter(|(step, _)| Some(*step) == layout.step);
        self.status = layout
            .step
            .map(|step| (step, since.map_or(self.now, |(_, since)| since)));
    }

    fn tell(&mut self, node: i32, told: Told) {
        let place = Place {
            index: node.unsigned_abs(),
            size: told.size.unsigned_abs(),
            hash: Default::default(),
            salt: String::new(),
            epoch: told.epoch,
        };
        if self
            .told
            .get(&node)
            .is_some_and(|told| place.is_said_by(told))
        {
            return;
        }
        let server = self.cluster.regions[0].server(node);
        let mut nodes = self.nodes.0.lock().unwrap();
        let items = nodes.entry(server).or_default();
        items.retain(|key, _| place.owns(key));
        self.told.insert(node, place);
    }

    fn ask(&mut self, router: usize, operation: Operation, key: u8) {
        // Half of the keys hold numbers.
        let is_number = key < KEYS / 2;
        if operation
            == if is_number {
                Operation::Append
            } else {
                Operation::Incr
            }
        {
            return;
        }
        self.values += 1;
        let request = Request {
            value: (self.values * 1000).to_string().into_bytes(),
            ..Request::new(operation, format!("key-{key}"))
        };
        let reply = self.send(self.routers[router], &request);
        let held = self.truth.remove(&key);
        let now = match (operation, reply.outcome) {
            (Operation::Get | Operation::Gets | Operation::Gat, Outcome::Found) => {
                assert_eq!(held.as_ref(), Some(&reply.value), "{}", self.state());
                held
            }
            (Operation::Delete, _) => None,
            (Operation::Incr, Outcome::Stored) => Some(incremented(&held.unwrap())),
            (Operation::Append, Outcome::Stored) => Some([held.unwrap(), request.value].concat()),
            (Operation::Replace, Outcome::Stored) => {
                assert!(held.is_some(), "{}", self.state());
                Some(request.value)
            }
            (Operation::Set | Operation::Add, Outcome::Stored) => Some(request.value),
            (Operation::Set, outcome) => panic!("{outcome:?}"),
            // A miss.
            _ => held,
        };
        self.truth.extend(now.map(|value| (key, value)));
    }

    /// What a router that runs `used` answers.
    fn send(&mut self, used: Used, request: &Request) -> Reply {
        let nodes = self.nodes.clone();
        let reply = self.router(used).route(&nodes, request).now_or_never();
        reply.unwrap()
    }

    fn router(&mut self, used: Used) -> &Router {
        let cluster = &self.cluster;
        self.compiled.entry(format!("{used:?}")).or_insert_with(|| {
            let layout = Layout {
                used,
                ..Layout::settled(used.most())
            };
            let layouts = Layouts::from([("r".to_owned(), layout)]);
            Router::new(&build(cluster, &layouts)[0].config).unwrap()
        })
    }

    fn state(&self) -> String {
        format!("routers {:?}, live {:?}", self.routers, self.used)
    }

    fn live_configurations(&self) -> usize {
        let others = self.routers.iter().filter(|router| **router != self.used);
        let mut others: Vec<_> = others.collect();
        others.dedup();
        1 + others.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_through_one_router_is_what_was_acknowledged_last_through_any(
        actions in prop::collection::vec(action(), 0..300)
    ) {
        let mut world = World::new();
        for action in &actions {
            world.act(action);
            prop_assert!(world.live_configurations() <= 2, "{}", world.state());
        }
    }
}

/// What is asked through routers that run these configurations.
type Requests<'a> = &'a [(Used, Operation)];

/// Pairs of configurations that are never live at once, and how each would serve an old value: what this test is for can be found.
#[test]
fn routers_that_are_further_apart_do_not_agree() {
    use Operation::{Delete, Get, Incr, Set};
    let [old, next, warm, last, new] = Used::way(3, 5);
    let table: [(&str, Requests<'_>, &str); 5] = [
        (
            "a copy of what is then written to the old layout alone",
            &[(old, Set), (warm, Get), (old, Set), (warm, Get)],
            "1",
        ),
        (
            "what was written to both, and then to the old one alone, without a clearing in between",
            &[(next, Set), (old, Set), (warm, Get)],
            "1",
        ),
        (
            "what was deleted in the new layout alone",
            &[(old, Set), (new, Delete), (warm, Get)],
            "1",
        ),
        (
            "what was counted in the new layout alone",
            &[(next, Set), (last, Incr), (next, Get)],
            "1",
        ),
        (
            "what was written to the new layout alone",
            &[(next, Set), (new, Set), (next, Get)],
            "1",
        ),
    ];
    let moves = |key: &String| ch3(key.as_bytes(), 3) != ch3(key.as_bytes(), 5);
    let key = (0..100)
        .map(|number| format!("key-{number}"))
        .find(moves)
        .unwrap();
    for (case, requests, stale) in table {
        let mut world = World::new();
        let mut last = None;
        for (number, (used, operation)) in requests.iter().enumerate() {
            let request = Request {
                value: (number + 1).to_string().into_bytes(),
                delta: 1,
                ..Request::new(*operation, key.clone())
            };
            last = Some(world.send(*used, &request));
        }
        assert_eq!(last.unwrap().value, stale.as_bytes(), "{case}");
    }
}
