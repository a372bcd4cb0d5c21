//! Random commands, restarts and passing time: the store against a plain map.

use std::collections::BTreeMap;

use petra_node::clock::Clock;
use petra_node::execute::execute;
use petra_node::protocol::request::{ANY_VERSION, Direction, Request, Steps, StoreMode};
use petra_node::protocol::response::{Counter, Refusal, Response};
use petra_node::store::Store;
use petra_node::store::item::Exptime;
use petra_routing::Place;
use proptest::prelude::*;

use crate::store::{TestClock, done, open, write_dirty};

/// Few keys, so that commands meet.
const KEYS: [&[u8]; 3] = [b"a", b"b", b"key with any bytes \xff\0"];

#[derive(Clone, Debug)]
enum Step {
    Get(usize),
    GetAndTouch(usize, i32),
    Store(Mode, usize, u64, i32, Vec<u8>),
    Delete(usize),
    Arithmetic(Direction, usize, u64),
    Touch(usize, i32),
    FlushAll(i32),
    /// In a pool of so many nodes.
    Place(u32),
    Sweep,
    TooLarge(Mode, usize),
    Wait(u32),
    WriteAndDrop,
    Restart,
}

/// [`StoreMode`] before the cas is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain(StoreMode),
    /// With the cas that the item has.
    CasOfNow,
    /// With the cas that it had when it was first seen.
    CasOfThen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS.len();
    let exptime = prop_oneof![
        4 => Just(0),
        4 => 1..20,
        1 => Just(-1),
        1 => Just(1_000_000_000),
        1 => Just(2_000_000_000),
    ];
    let mode = prop_oneof![
        4 => Just(Mode::Plain(StoreMode::Set)),
        2 => Just(Mode::Plain(StoreMode::Add)),
        1 => Just(Mode::Plain(StoreMode::Replace)),
        1 => Just(Mode::Plain(StoreMode::Append(ANY_VERSION))),
        1 => Just(Mode::Plain(StoreMode::Prepend(ANY_VERSION))),
        2 => Just(Mode::CasOfNow),
        1 => Just(Mode::CasOfThen),
    ];
    let data = prop_oneof![
        "[0-9]{1,4}".prop_map(String::into_bytes),
        Just(u64::MAX.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    let direction = prop_oneof![Just(Direction::Incr), Just(Direction::Decr)];
    let delta = prop_oneof![0..100_u64, any::<u64>()];
    let step = prop_oneof![
        6 => key.clone().prop_map(Step::Get),
        2 => (key.clone(), exptime.clone()).prop_map(|(k, e)| Step::GetAndTouch(k, e)),
        8 => (mode.clone(), key.clone(), any::<u64>(), exptime.clone(), data)
            .prop_map(|(m, k, f, e, d)| Step::Store(m, k, f, e, d)),
        2 => key.clone().prop_map(Step::Delete),
        4 => (direction, key.clone(), delta).prop_map(|(dir, k, d)| Step::Arithmetic(dir, k, d)),
        2 => (key.clone(), exptime.clone()).prop_map(|(k, e)| Step::Touch(k, e)),
        1 => (-1..15).prop_map(Step::FlushAll),
        2 => (0_u32..6).prop_map(Step::Place),
        1 => Just(Step::Sweep),
        1 => (mode, key).prop_map(|(m, k)| Step::TooLarge(m, k)),
        3 => (1_u32..8).prop_map(Step::Wait),
        1 => Just(Step::WriteAndDrop),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Debug)]
struct Entry {
    flags: u64,
    /// Gone from this second on.
    expiry: Option<u64>,
    data: Vec<u8>,
    /// Counts all changes of all items.
    version: u64,
}

/// What a memcached is, without protocol, disk or mercy for clarity.
#[derive(Default)]
struct Model {
    entries: BTreeMap<usize, Entry>,
    flush_due: Option<u64>,
    place: Option<Place>,
    versions: u64,
    /// The cas that each version was seen with.
    cas_of_version: BTreeMap<u64, u64>,
    first_cas: BTreeMap<usize, u64>,
}

impl Model {
    fn tick(&mut self, now: u64) {
        if self.flush_due.is_some_and(|due| due <= now) {
            self.flush_due = None;
            self.entries.clear();
        }
        self.entries
            .retain(|_, entry| entry.expiry.is_none_or(|expiry| expiry > now));
    }

    fn put(&mut self, key: usize, flags: u64, expiry: Option<u64>, data: Vec<u8>) {
        self.versions += 1;
        let version = self.versions;
        self.entries.insert(
            key,
            Entry {
                flags,
                expiry,
                data,
                version,
            },
        );
    }

    /// Versions have one cas each, and later versions a larger one.
    fn check_cas(&mut self, key: usize, cas: u64) {
        let version = self.entries[&key].version;
        assert_eq!(*self.cas_of_version.entry(version).or_insert(cas), cas);
        let seen: Vec<_> = self.cas_of_version.values().collect();
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        self.first_cas.entry(key).or_insert(cas);
    }
}

/// The second from which an item with this exptime is gone.
fn expiry(exptime: i32, now: u64) -> Option<u64> {
    match exptime {
        0 => None,
        negative if negative < 0 => Some(0),
        relative if relative <= 2_592_000 => Some(now + relative as u64),
        absolute => Some(absolute as u64),
    }
}

struct Run {
    dir: tempfile::TempDir,
    clock: std::sync::Arc<TestClock>,
    store: Option<Store>,
    model: Model,
}

impl Run {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let clock = TestClock::new();
        let store = Some(open(dir.path(), &clock));
        Self {
            dir,
            clock,
            store,
            model: Model::default(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().0.into()
    }

    fn ask(&self, request: Request<'_>) -> Response {
        let store = self.store.as_ref().expect("open");
        done(|| execute(&request, store, self.clock.now())).with_cas(0)
    }

    fn step(&mut self, step: Step) {
        let now = self.now();
        self.model.tick(now);
        match step {
            Step::Get(key) => self.get(key, None),
            Step::GetAndTouch(key, exptime) => self.get(key, Some(exptime)),
            Step::Store(mode, key, flags, exptime, data) => {
                self.store(mode, key, flags, exptime, data);
            }
            Step::Delete(key) => {
                let existed = self.model.entries.remove(&key).is_some();
                let expected = if existed {
                    Response::Deleted
                } else {
                    Response::NotFound
                };
                assert_eq!(
                    self.ask(Request::Delete {
                        key: KEYS[key],
                        cas: ANY_VERSION,
                        timed: false,
                    }),
                    expected
                );
            }
            Step::Arithmetic(direction, key, delta) => self.arithmetic(direction, key, delta),
            Step::Touch(key, exptime) => {
                let expected = match self.model.entries.get_mut(&key) {
                    Some(entry) => {
                        entry.expiry = expiry(exptime, now);
                        Response::Touched
                    }
                    None => Response::NotFound,
                };
                let touch = Request::Touch {
                    key: KEYS[key],
                    exptime: Exptime(exptime),
                };
                assert_eq!(self.ask(touch), expected);
            }
            Step::FlushAll(delay) => {
                match delay {
                    ..=0 => {
                        self.model.entries.clear();
                        self.model.flush_due = None;
                    }
                    delay => self.model.flush_due = expiry(delay, now),
                }
                let flush = Request::FlushAll {
                    delay: Exptime(delay),
                };
                assert_eq!(self.ask(flush), Response::Ok);
            }
            Step::Place(size) => self.place(Place {
                index: 1,
                size,
                hash: Default::default(),
                salt: String::new(),
                epoch: None,
            }),
            Step::Sweep => self.store.as_ref().expect("open").sweep(self.clock.now()),
            Step::TooLarge(mode, key) => {
                let mode = self.mode(mode, key);
                if mode == StoreMode::Set {
                    self.model.entries.remove(&key);
                }
                let refused = Response::Refused(Refusal::TooLarge);
                assert_eq!(
                    self.ask(Request::StoreTooLarge {
                        mode,
                        key: KEYS[key]
                    }),
                    refused
                );
            }
            Step::Wait(seconds) => self.clock.advance(seconds),
            Step::WriteAndDrop => {
                let store = self.store.as_ref().expect("open");
                write_dirty(store);
                store.drop_expired(self.clock.now());
            }
            Step::Restart => {
                let store = self.store.take().expect("open");
                store.close().expect("closed");
                drop(store);
                self.store = Some(open(self.dir.path(), &self.clock));
            }
        }
    }

    /// What is another node's is gone, unless the node was there already.
    fn place(&mut self, place: Place) {
        let store = self.store.as_ref().expect("open");
        let is_news = store.set_place(place.clone()).expect("placed");
        assert_eq!(is_news, self.model.place.as_ref() != Some(&place));
        assert_eq!(store.place().as_ref(), Some(&place));
        if is_news {
            let is_own = |key: &usize| place.owns(KEYS[*key]);
            self.model.entries.retain(|key, _| is_own(key));
            self.model.place = Some(place);
        }
    }

    fn get(&mut self, key: usize, touch: Option<i32>) {
        let response = self.ask(Request::Get {
            key: KEYS[key],
            touch: touch.map(Exptime),
        });
        let Some(entry) = self.model.entries.get(&key).cloned() else {
            assert_eq!(response, Response::Miss);
            return;
        };
        let Response::Hit(item) = response else {
            panic!("{response:?} instead of {entry:?}")
        };
        assert_eq!((item.flags(), item.data()), (entry.flags, &entry.data[..]));
        self.model.check_cas(key, item.cas());
        if let Some(exptime) = touch {
            let now = self.now();
            self.model.entries.get_mut(&key).expect("there").expiry = expiry(exptime, now);
        }
    }

    fn mode(&self, mode: Mode, key: usize) -> StoreMode {
        match mode {
            Mode::Plain(mode) => mode,
            Mode::CasOfThen => StoreMode::Cas(*self.model.first_cas.get(&key).unwrap_or(&0)),
            Mode::CasOfNow => match self.ask(Request::Get {
                key: KEYS[key],
                touch: None,
            }) {
                Response::Hit(item) => StoreMode::Cas(item.cas()),
                _ => StoreMode::Cas(0),
            },
        }
    }

    fn store(&mut self, mode: Mode, key: usize, flags: u64, exptime: i32, data: Vec<u8>) {
        let mode = self.mode(mode, key);
        let request = Request::Store {
            mode,
            key: KEYS[key],
            flags,
            exptime: Exptime(exptime),
            data: &data,
            binary_key: false,
        };
        let response = self.ask(request);
        let expiry = expiry(exptime, self.now());
        let old = self.model.entries.get(&key).cloned();
        let expected = match (mode, old) {
            (StoreMode::Set, _) | (StoreMode::Add, None) | (StoreMode::Replace, Some(_)) => {
                self.model.put(key, flags, expiry, data);
                Response::Stored { cas: 0 }
            }
            (StoreMode::Append(_), Some(old)) => {
                self.model
                    .put(key, old.flags, old.expiry, [old.data, data].concat());
                Response::Stored { cas: 0 }
            }
            (StoreMode::Prepend(_), Some(old)) => {
                self.model
                    .put(key, old.flags, old.expiry, [data, old.data].concat());
                Response::Stored { cas: 0 }
            }
            (StoreMode::Cas(cas) | StoreMode::CasOrStale(cas), Some(old)) => {
                if self.model.cas_of_version.get(&old.version) == Some(&cas) || {
                    // Never seen before: whether it is the item's is what the answer says.
                    !self.model.cas_of_version.contains_key(&old.version)
                        && response == (Response::Stored { cas: 0 })
                } {
                    self.model.put(key, flags, expiry, data);
                    Response::Stored { cas: 0 }
                } else {
                    Response::Exists
                }
            }
            (StoreMode::Cas(_) | StoreMode::CasOrStale(_), None) => Response::NotFound,
            (StoreMode::Add, Some(_))
            | (StoreMode::Leased(_), _)
            | (StoreMode::Replace | StoreMode::Append(_) | StoreMode::Prepend(_), None) => {
                Response::NotStored
            }
        };
        assert_eq!(response, expected, "{mode:?}");
    }

    fn arithmetic(&mut self, direction: Direction, key: usize, delta: u64) {
        let response = self.ask(Request::Arithmetic {
            direction,
            key: KEYS[key],
            delta,
            cas: ANY_VERSION,
            initial: 0,
            steps: Steps::default(),
        });
        let Some(old) = self.model.entries.get(&key).cloned() else {
            assert_eq!(response, Response::NotFound);
            return;
        };
        let Some(number) = plain_number(&old.data) else {
            // What else memcached takes for a number is the business of the transcripts.
            match response {
                Response::Refused(Refusal::NotANumber) => {}
                Response::Number(_) => self.adopt(key),
                other => panic!("{other:?}"),
            }
            return;
        };
        let sum = match direction {
            Direction::Incr => (u128::from(number) + u128::from(delta)) as u64,
            Direction::Decr if delta > number => 0,
            Direction::Decr => number - delta,
        };
        assert_eq!(response, counter(sum));
        let mut digits = sum.to_string().into_bytes();
        while digits.len() < old.data.len() {
            digits.push(b' ');
        }
        self.model.put(key, old.flags, old.expiry, digits);
    }

    /// Takes the item as it is.
    fn adopt(&mut self, key: usize) {
        let old = self.model.entries[&key].clone();
        let Response::Hit(item) = self.ask(Request::Get {
            key: KEYS[key],
            touch: None,
        }) else {
            panic!("the counter is gone");
        };
        self.model
            .put(key, old.flags, old.expiry, item.data().to_vec());
    }
}

fn counter(value: u64) -> Response {
    Response::Number(Counter {
        value,
        cas: 0,
        ttl: None,
        created: false,
    })
}

/// Digits, and spaces behind them.
fn plain_number(data: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(data).ok()?.trim_end_matches(' ');
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_commands_restarts_and_waits_leave_the_store_as_a_plain_map_would_be(steps in steps()) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        for key in 0..KEYS.len() {
            run.step(Step::Get(key));
        }
    }
}
