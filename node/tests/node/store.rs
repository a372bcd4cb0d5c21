//! The store on a real disk, with a clock that the tests turn.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use petra_node::clock::{Clock, UnixSeconds};
use petra_node::store::item::Expiry;
use petra_node::store::{
    Blocked, DirectoryError, DiskQuota, Durability, OpenError, StorageOptions, Store,
};

use crate::harness::{PATIENCE, wait_until};

/// A clock that stands still until it is turned.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicU32);

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU32::new(1_700_000_000)))
    }

    pub(crate) fn advance(&self, seconds: u32) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixSeconds {
        UnixSeconds(self.0.load(Ordering::Relaxed))
    }
}

/// Small enough that tests are quick, otherwise as in production.
pub(crate) fn options(path: &Path) -> StorageOptions {
    StorageOptions {
        db_path: path.to_path_buf(),
        durability: Durability::None,
        flush_interval: Duration::from_secs(1),
        max_item_size: 1 << 20,
        tier_size: 16 << 20,
        block_cache_size: 8 << 20,
        write_buffer_size: 1 << 20,
        max_write_buffer_number: 3,
        disk_quota: DiskQuota::Bytes(64 << 20),
        keep_for: None,
        max_background_jobs: 2,
        enable_compression: false,
        enable_ttl_compaction: true,
    }
}

pub(crate) fn open(path: &Path, clock: &Arc<TestClock>) -> Store {
    open_with(&options(path), clock)
}

fn open_with(options: &StorageOptions, clock: &Arc<TestClock>) -> Store {
    let mut store = None;
    // A process that another test is starting may hold the lock file open for a moment.
    wait_until("the directory is free", || {
        match Store::open(options, clock.clone()) {
            Err(OpenError::Directory(DirectoryError::InUse { .. })) => false,
            opened => {
                store = Some(opened.expect("the store opens"));
                true
            }
        }
    });
    store.expect("just set")
}

/// Tries again until what must come from the disk has come.
pub(crate) fn done<R>(mut attempt: impl FnMut() -> Result<R, Blocked>) -> R {
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(Blocked::Loading(loading)) => {
                wait_until("the disk has answered", || loading.is_finished());
            }
            Err(Blocked::Failed(failure)) => panic!("{failure}"),
        }
    }
}

/// Hands everything to RocksDB.
pub(crate) fn write_dirty(store: &Store) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(store.write_dirty()).expect("written");
}

fn reopen(store: Store, path: &Path, clock: &Arc<TestClock>) -> Store {
    store.close().expect("closed");
    drop(store);
    open(path, clock)
}

fn set(store: &Store, key: &str, expiry: Expiry, clock: &TestClock) -> u64 {
    store
        .set(key.as_bytes(), 0, expiry, b"data", clock.now())
        .expect("written")
}

fn has(store: &Store, key: &str, clock: &TestClock) -> bool {
    done(|| store.get(key.as_bytes(), clock.now())).is_some()
}

/// Writes `count` items of 10,000 bytes, and waits until they have been handed to the disk.
fn fill(store: &Store, name: &str, count: usize, expiry: Expiry, clock: &TestClock) {
    let data = [b'x'; 10_000];
    for number in 0..count {
        let key = format!("{name}-{number}");
        done(|| store.set(key.as_bytes(), 0, expiry, &data, clock.now()));
        if number % 500 == 499 {
            write_dirty(store);
        }
    }
    write_dirty(store);
}

/// What the files below `path` take.
fn bytes_in(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).expect("a directory");
    let bytes = entries.map(|entry| {
        let entry = entry.expect("an entry");
        // A file may be gone meanwhile.
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        }
    });
    bytes.sum()
}

#[test]
fn the_quota_is_kept_and_what_is_used_stays() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = TestClock::new();
    let store = open(dir.path(), &clock);
    set(&store, "used", Expiry::NEVER, &clock);
    set(&store, "not used", Expiry::NEVER, &clock);
    for round in 0..100 {
        clock.advance(1);
        fill(
            &store,
            &format!("round-{round}"),
            250,
            Expiry::NEVER,
            &clock,
        );
        assert!(has(&store, "used", &clock), "round {round}");
        let bytes = bytes_in(dir.path());
        assert!(bytes <= 64 << 20, "{bytes} bytes in round {round}");
    }
    let counts = store.figures().counts;
    assert!(
        counts.evicted > 10_000 && counts.reclaimed == 0,
        "{counts:?}"
    );
    // Nothing of this is in memory.
    let store = reopen(store, dir.path(), &clock);
    assert!(has(&store, "used", &clock));
    assert!(!has(&store, "not used", &clock));
    assert!(has(&store, "round-99-249", &clock));
    assert!(!has(&store, "round-0-0", &clock));
}

#[test]
fn what_has_expired_gives_its_space_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = TestClock::new();
    let store = open(dir.path(), &clock);
    let soon = Expiry::at(clock.now().plus(100));
    for round in 0..15 {
        clock.advance(1);
        fill(&store, &format!("expires-{round}"), 200, soon, &clock);
    }
    clock.advance(1);
    set(&store, "stays", Expiry::NEVER, &clock);
    write_dirty(&store);
    let before = store.figures().rocks.file_bytes;
    assert!(before > 20 << 20, "{before} bytes");
    store.drop_expired(clock.now());
    assert_eq!(
        store.figures().rocks.file_bytes,
        before,
        "nothing is dropped early"
    );
    let (tell, told) = mpsc::channel();
    store.on_drop(move |dropped| {
        // Nobody listens any more when the test is over.
        let _ = tell.send(dropped);
    });
    clock.advance(100);
    store.drop_expired(clock.now());
    let after = store.figures().rocks.file_bytes;
    assert!(after < 8 << 20, "{after} bytes of {before}");
    let dropped = told.recv_timeout(PATIENCE).expect("files are dropped");
    assert!(
        dropped.expired && dropped.files > 0 && dropped.records > 0,
        "{dropped:?}"
    );
    let counts = store.figures().counts;
    assert!(
        counts.reclaimed >= dropped.records && counts.evicted == 0,
        "{counts:?}"
    );
    assert!(has(&store, "stays", &clock));
}

#[test]
fn a_flush_is_not_forgotten_by_a_restart() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = TestClock::new();
    let store = open(dir.path(), &clock);
    set(&store, "before", Expiry::NEVER, &clock);
    store.flush_all(None, clock.now()).expect("flushed");
    set(&store, "after", Expiry::NEVER, &clock);
    let store = reopen(store, dir.path(), &clock);
    assert!(!has(&store, "before", &clock));
    assert!(has(&store, "after", &clock));
}

#[test]
fn a_delayed_flush_takes_effect_on_time_also_when_the_node_is_down_at_that_moment() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = TestClock::new();
    let mut store = open(dir.path(), &clock);
    for down_at_the_moment in [false, true] {
        set(&store, "before", Expiry::NEVER, &clock);
        store
            .flush_all(Some(clock.now().plus(10)), clock.now())
            .expect("flushed");
        clock.advance(9);
        store = reopen(store, dir.path(), &clock);
        assert!(has(&store, "before", &clock));
        clock.advance(1);
        if down_at_the_moment {
            store = reopen(store, dir.path(), &clock);
        }
        assert!(!has(&store, "before", &clock));
        set(&store, "after", Expiry::NEVER, &clock);
        clock.advance(1000);
        store = reopen(store, dir.path(), &clock);
        assert!(
            has(&store, "after", &clock),
            "a flush takes effect only once"
        );
        assert!(!has(&store, "before", &clock));
    }
}

#[test]
fn a_flush_that_has_come_due_is_not_undone_by_a_later_one() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = TestClock::new();
    let store = open(dir.path(), &clock);
    set(&store, "before", Expiry::NEVER, &clock);
    store
        .flush_all(Some(clock.now().plus(10)), clock.now())
        .expect("flushed");
    clock.advance(10);
    // Nothing has looked at the store since.
    store
        .flush_all(Some(clock.now().plus(10)), clock.now())
        .expect("flushed");
    assert!(!has(&store, "before", &clock));
}

#[test]
fn versions_keep_rising_across_restarts() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = TestClock::new();
    let mut store = open(dir.path(), &clock);
    let mut last = 0;
    for _ in 0..3 {
        for _ in 0..3 {
            let cas = set(&store, "key", Expiry::NEVER, &clock);
            assert!(cas > last, "{cas} after {last}");
            last = cas;
        }
        store = reopen(store, dir.path(), &clock);
        let item = done(|| store.get(b"key", clock.now())).expect("an item");
        assert_eq!(item.cas(), last, "a restart is no change");
    }
}

#[test]
fn concurrent_changes_of_one_item_are_all_seen() {
    use petra_node::execute::execute;
    use petra_node::protocol::request::{ANY_VERSION, Direction, Request, Steps};
    use petra_node::protocol::response::Response;

    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = TestClock::new();
    let store = open(dir.path(), &clock);
    store
        .set(b"counter", 0, Expiry::NEVER, b"0", clock.now())
        .expect("written");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let incr = Request::Arithmetic {
                    direction: Direction::Incr,
                    key: b"counter",
                    delta: 1,
                    cas: ANY_VERSION,
                    initial: 0,
                    steps: Steps::default(),
                };
                for _ in 0..500 {
                    let response = execute(&incr, &store, clock.now()).expect("carried out");
                    assert!(matches!(response, Response::Number(_)), "{response:?}");
                }
            });
        }
    });
    let item = done(|| store.get(b"counter", clock.now())).expect("an item");
    assert_eq!(item.data(), b"2000");
}

#[test]
fn a_node_that_was_away_for_too_long_starts_empty() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = TestClock::new();
    let open = |keep_for| {
        let options = StorageOptions {
            keep_for: Some(Duration::from_secs(keep_for)),
            ..options(dir.path())
        };
        open_with(&options, &clock)
    };
    for (away, stays) in [(300, true), (301, false)] {
        let store = open(300);
        set(&store, "key", Expiry::NEVER, &clock);
        store.close().expect("closed");
        drop(store);
        clock.advance(away);
        let store = open(300);
        assert_eq!(has(&store, "key", &clock), stays, "away for {away} s");
        set(&store, "new", Expiry::NEVER, &clock);
        assert!(has(&store, "new", &clock));
        store.close().expect("closed");
    }
}
