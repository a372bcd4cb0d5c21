//! The shard against a plain map, and its evictions.

use std::collections::HashMap;
use std::hash::BuildHasher;

use proptest::prelude::*;

use super::*;
use crate::store::item::{Attributes, Expiry};
use crate::store::load::absent;

const NOW: UnixSeconds = UnixSeconds(1000);

fn item(key: &[u8], cas: u64, len: usize) -> Item {
    let attributes = Attributes {
        flags: 0,
        expiry: Expiry::NEVER,
        cas,
    };
    Item::new(key, attributes, &vec![b'x'; len], NOW)
}

fn shard(limit: usize) -> Shard {
    Shard::new(limit)
}

fn hash_of(key: &[u8]) -> u32 {
    foldhash::fast::FixedState::default().hash_one(key) as u32
}

fn write(shard: &mut Shard, key: &str, cas: u64, len: usize) {
    let hash = hash_of(key.as_bytes());
    shard.write(hash, item(key.as_bytes(), cas, len));
}

fn flush(shard: &mut Shard) {
    for taken in shard.take_dirty(usize::MAX, usize::MAX, NOW) {
        shard.settle(&taken, true);
    }
}

fn cas_of(shard: &Shard, key: &str) -> Option<u64> {
    match shard.find(hash_of(key.as_bytes()), key.as_bytes()) {
        Found::Item(item) => Some(item.cas()),
        _ => None,
    }
}

/// What must hold whatever happens.
fn check(shard: &Shard) {
    let occupied: Vec<&Item> = shard.table.iter().map(|entry| &entry.item).collect();
    let sizes = |in_main| {
        let items = occupied
            .iter()
            .filter(|item| item.has(Marks::IN_MAIN) == in_main);
        items.map(|item| size(item)).sum::<usize>()
    };
    assert_eq!(shard.small.bytes, sizes(false));
    assert_eq!(shard.main.bytes, sizes(true));
    let unwritten = occupied.iter().filter(|item| item.has(UNWRITTEN));
    assert_eq!(
        shard.dirty_bytes,
        unwritten.map(|item| size(item)).sum::<usize>()
    );
    let dirty = occupied.iter().filter(|item| item.has(Marks::DIRTY));
    assert_eq!(shard.dirty.len(), dirty.count());
    assert_eq!(shard.table.len(), occupied.len());
    let absent = occupied.iter().filter(|item| item.has(Marks::ABSENT));
    assert_eq!(shard.absent, absent.count());
    let (mut small, mut main) = (shard.small.clone(), shard.main.clone());
    let tickets: Vec<_> = std::iter::from_fn(|| small.pop().or_else(|| main.pop())).collect();
    for entry in &shard.table {
        let places = tickets.iter().filter(|ticket| **ticket == entry.ticket);
        assert_eq!(places.count(), 1, "each item is in one queue, once");
    }
}

#[test]
fn what_is_not_on_the_disk_is_never_evicted() {
    let mut shard = shard(10_000);
    for number in 0..100 {
        write(&mut shard, &format!("key-{number}"), number, 1000);
    }
    assert_eq!(shard.table.len(), 100);
    flush(&mut shard);
    write(&mut shard, "one more", 100, 1000);
    write(&mut shard, "and another", 101, 1000);
    assert!(shard.bytes() <= 10_000, "{} bytes", shard.bytes());
    assert_eq!(cas_of(&shard, "and another"), Some(101));
    check(&shard);
}

#[test]
fn a_scan_leaves_alone_what_is_used() {
    let mut shard = shard(100_000);
    for round in 0..3 {
        for number in 0..20 {
            let key = format!("hot-{number}");
            match shard.find(hash_of(key.as_bytes()), key.as_bytes()) {
                Found::Item(item) => count_use(&item, NOW),
                _ => write(&mut shard, &key, round, 1000),
            }
        }
        flush(&mut shard);
    }
    for number in 0..1000 {
        write(&mut shard, &format!("scanned-{number}"), number, 1000);
        flush(&mut shard);
    }
    let left = (0..20).filter(|number| cas_of(&shard, &format!("hot-{number}")).is_some());
    assert_eq!(left.count(), 20);
    check(&shard);
}

#[test]
fn an_item_that_comes_back_soon_is_kept_longer() {
    let mut shard = shard(50_000);
    // So large that no two of the few keys here displace each other.
    shard.ghosts.grow_for(1 << 20);
    let fill = |shard: &mut Shard, name: &str| {
        for number in 0..60 {
            write(shard, &format!("{name}-{number}"), 1, 1000);
            flush(shard);
        }
    };
    write(&mut shard, "comes back", 1, 1000);
    flush(&mut shard);
    fill(&mut shard, "first");
    assert_eq!(cas_of(&shard, "comes back"), None);
    write(&mut shard, "comes back", 2, 1000);
    flush(&mut shard);
    fill(&mut shard, "second");
    assert_eq!(cas_of(&shard, "comes back"), Some(2));
}

#[test]
fn a_version_that_was_replaced_while_it_was_written_is_written_again() {
    let mut shard = shard(1 << 20);
    write(&mut shard, "key", 1, 10);
    let taken = shard.take_dirty(usize::MAX, usize::MAX, NOW);
    write(&mut shard, "key", 2, 10);
    shard.settle(&taken[0], true);
    let again = shard.take_dirty(usize::MAX, usize::MAX, NOW);
    assert_eq!(again[0].item.cas(), 2);
    shard.settle(&again[0], true);
    assert_eq!(shard.dirty_bytes(), 0);
    check(&shard);
}

#[test]
fn what_could_not_be_written_stays_dirty() {
    let mut shard = shard(1 << 20);
    write(&mut shard, "key", 1, 10);
    let taken = shard.take_dirty(usize::MAX, usize::MAX, NOW);
    shard.settle(&taken[0], false);
    assert!(shard.has_dirty());
    check(&shard);
}

#[test]
fn what_was_read_from_the_disk_is_history_once_somebody_has_written() {
    let mut shard = shard(1 << 20);
    let loading = shard.begin_load(b"key");
    let hash = hash_of(b"key");
    assert!(matches!(shard.find(hash, b"key"), Found::Loading(_)));
    write(&mut shard, "key", 2, 10);
    assert!(!shard.end_load(b"key", &loading));
    assert_eq!(cas_of(&shard, "key"), Some(2));
}

#[test]
fn a_deleted_key_is_known_to_be_absent_and_is_no_item() {
    let mut shard = shard(1 << 20);
    write(&mut shard, "key", 1, 10);
    let hash = hash_of(b"key");
    shard.write_absent(hash, absent(b"key", NOW));
    for _ in 0..2 {
        assert!(matches!(shard.find(hash, b"key"), Found::Absent));
        assert_eq!(shard.figures().items, 0);
        flush(&mut shard);
    }
    check(&shard);
}

#[test]
fn deleted_keys_leave_before_what_is_used_and_are_no_evictions() {
    let mut shard = shard(100_000);
    for number in 0..100_000 {
        let key = format!("key-{number}");
        write(&mut shard, &key, number, 10);
        let hash = hash_of(key.as_bytes());
        for _ in 0..3 {
            if let Found::Item(item) = shard.find(hash, key.as_bytes()) {
                count_use(&item, NOW);
            }
        }
        if number >= 10 {
            shard.write_absent(hash, absent(key.as_bytes(), NOW));
        }
        flush(&mut shard);
    }
    for number in 0..10 {
        assert!(cas_of(&shard, &format!("key-{number}")).is_some());
    }
    assert!(shard.bytes() <= shard.limit);
    assert!(shard.table.len() < 2000, "{} entries", shard.table.len());
    let queued = shard.small.len() + shard.main.len();
    assert!(queued < 5000, "{queued} tickets");
    let figures = shard.figures();
    assert_eq!((figures.evicted_read, figures.evicted_unread), (0, 0));
    check(&shard);
}

#[derive(Clone, Debug)]
enum Step {
    Write { key: u8, len: usize },
    Delete { key: u8 },
    Use { key: u8 },
    Expire { key: u8 },
    Take { count: usize },
    Settle { written: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..20u8;
    let step = prop_oneof![
        4 => (key.clone(), 0..2000usize).prop_map(|(key, len)| Step::Write { key, len }),
        1 => key.clone().prop_map(|key| Step::Delete { key }),
        2 => key.clone().prop_map(|key| Step::Use { key }),
        1 => key.prop_map(|key| Step::Expire { key }),
        2 => (1..5usize).prop_map(|count| Step::Take { count }),
        2 => any::<bool>().prop_map(|written| Step::Settle { written }),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    /// Memory and disk together always have the last version: the disk is a map that `settle` writes.
    #[test]
    fn nothing_is_lost_and_nothing_old_comes_back(steps in steps()) {
        let mut shard = shard(8_000);
        let mut expected: HashMap<Vec<u8>, u64> = HashMap::new();
        let mut disk: HashMap<Vec<u8>, u64> = HashMap::new();
        let mut taken: Vec<Taken> = Vec::new();
        for (cas, step) in (1_u64..).zip(steps) {
            let key_of = |key: u8| vec![b'k', key];
            match step {
                Step::Write { key, len } => {
                    let key = key_of(key);
                    let hash = hash_of(&key);
                    shard.write(hash, item(&key, cas, len));
                    expected.insert(key, cas);
                }
                Step::Delete { key } => {
                    let key = key_of(key);
                    let hash = hash_of(&key);
                    shard.write_absent(hash, absent(&key, NOW));
                    expected.remove(&key);
                }
                Step::Use { key } => {
                    let key = key_of(key);
                    if let Found::Item(item) = shard.find(hash_of(&key), &key) {
                        count_use(&item, NOW);
                    }
                }
                Step::Expire { key } => {
                    let key = key_of(key);
                    let hash = hash_of(&key);
                    if let Found::Item(item) = shard.find(hash, &key) {
                        item.set_expiry(Expiry::at(NOW.plus(10)));
                        shard.write_again(hash, &item);
                    }
                }
                Step::Take { count } if taken.is_empty() => {
                    taken = shard.take_dirty(count, usize::MAX, NOW);
                }
                Step::Take { .. } => {}
                Step::Settle { written } => {
                    for taken in taken.drain(..) {
                        let key = taken.item.key().to_vec();
                        if written && taken.item.has(Marks::ABSENT) {
                            disk.remove(&key);
                        } else if written {
                            disk.insert(key, taken.item.cas());
                        }
                        shard.settle(&taken, written);
                    }
                }
            }
            check(&shard);
            for key in (0..20).map(key_of) {
                let seen = match shard.find(hash_of(&key), &key) {
                    Found::Item(item) => Some(item.cas()),
                    Found::Absent | Found::Loading(_) => None,
                    Found::Unknown => disk.get(&key).copied(),
                };
                prop_assert_eq!(seen, expected.get(&key).copied());
            }
        }
    }
}
