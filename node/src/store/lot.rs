//! What is written to the disk together.
//!
//! Owns the way in which it gets there. Little goes by RocksDB's log and memtable, where it waits for more; much becomes a
//! table file of its own at once.

use std::hint::black_box;

use super::item::{Expiry, Item, Marks};
use super::liveness::Liveness;
use super::memory::Taken;
use super::pace::Pace;
use super::record;
use super::rocks::{Batch, Rocks, TableFile};
use crate::clock::UnixSeconds;

/// One write to RocksDB's log. Larger ones gain nothing, and would keep a core busy for longer than a few requests take.
const BATCH_BYTES: usize = 16 << 10;
/// A lot of at least this part of a memtable becomes a table file. Smaller files would have to be brought together so often
/// that nothing is gained.
const FILE_SHARE: usize = 64;
/// Items that are fetched from memory together.
const FETCHED_AT_ONCE: usize = 16;

/// Items that are looked at, let go or counted between two looks at the clock.
const ITEMS_PER_STEP: usize = 64;
/// Sorted at once: takes about as long as a few requests.
const SORTED_AT_ONCE: usize = 2048;

/// Items with the numbers of their shards, each key once.
#[derive(Default)]
pub(super) struct Lot {
    items: Vec<(usize, Taken)>,
    /// Keys and data.
    bytes: usize,
    /// How many bytes all keys begin with.
    common_prefix: usize,
}

/// What a lot came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Keys and records.
    pub(super) bytes: u64,
    /// Nothing in it lives longer.
    pub(super) lives_until: Expiry,
}

impl Lot {
    /// Adds what was taken from a shard.
    pub(super) fn add(&mut self, shard: usize, taken: Vec<Taken>) {
        self.bytes += taken
            .iter()
            .map(|taken| taken.item.key().len() + taken.item.data().len())
            .sum::<usize>();
        for taken in taken {
            self.common_prefix = match self.items.first() {
                Some((_, first)) => {
                    let common = &first.item.key()[..self.common_prefix];
                    let equal = common.iter().zip(taken.item.key());
                    equal.take_while(|(one, other)| one == other).count()
                }
                None => taken.item.key().len(),
            };
            self.items.push((shard, taken));
        }
    }

    /// The items, those of a shard one after the other.
    pub(super) fn items(&self) -> &[(usize, Taken)] {
        &self.items
    }

    /// Lets go of all items. Those that have been replaced meanwhile are given back to the allocator.
    pub(super) fn clear(&mut self, pace: &mut Pace) {
        while !self.items.is_empty() {
            self.items
                .truncate(self.items.len().saturating_sub(ITEMS_PER_STEP));
            pace.step();
        }
        self.bytes = 0;
    }

    /// Whether it is time to write it: a larger file would gain nothing.
    pub(super) fn is_full(&self, rocks: &Rocks) -> bool {
        self.bytes >= rocks.memtable_size()
    }

    /// Whether it is enough for a table file.
    pub(super) fn is_large(&self, rocks: &Rocks) -> bool {
        self.bytes >= rocks.memtable_size() / FILE_SHARE
    }

    /// Writes all of it by way of RocksDB's log. After a failure a part may have been written. In the order of their keys,
    /// because a memtable finds the place of a key next to that of its predecessor.
    pub(super) fn log(
        &self,
        rocks: &Rocks,
        liveness: &Liveness,
        now: UnixSeconds,
        pace: &mut Pace,
    ) -> Result<Written, rocksdb::Error> {
        let mut batch = Batch::default();
        let written = self.each_record(liveness, now, pace, |key, record| {
            match record {
                Some(record) => batch.put(key, record),
                None => batch.delete(key),
            }
            if batch.bytes() >= BATCH_BYTES {
                rocks.write(&mut batch)?;
            }
            Ok(())
        })?;
        rocks.write(&mut batch)?;
        Ok(written)
    }

    /// Fills a table file.
    pub(super) fn fill(
        &self,
        file: &mut TableFile<'_>,
        liveness: &Liveness,
        now: UnixSeconds,
        pace: &mut Pace,
    ) -> Result<Written, rocksdb::Error> {
        self.each_record(liveness, now, pace, |key, record| match record {
            Some(record) => file.put(key, record),
            None => file.delete(key),
        })
    }

    /// Calls `write` with each key, in order, and its record; without one when whatever the disk has under the key must go.
    fn each_record(
        &self,
        liveness: &Liveness,
        now: UnixSeconds,
        pace: &mut Pace,
        mut write: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), rocksdb::Error>,
    ) -> Result<Written, rocksdb::Error> {
        let mut written = Written::NOTHING;
        let mut buffer = Vec::new();
        for indexes in self.in_key_order(pace).chunks(FETCHED_AT_ONCE) {
            let items = || indexes.iter().map(|index| &self.items[*index].1.item);
            // They lie apart from each other: waiting for one after the other would take longer than writing them.
            items().for_each(|item| {
                black_box((item.marks(), item.data().first()));
            });
            for item in items() {
                write(
                    item.key(),
                    written.look_at(item, liveness, now, &mut buffer),
                )?;
                pace.step();
            }
        }
        Ok(written)
    }

    /// The items' indexes. Most comparisons look at eight bytes of the key that lie with the index, not at the item.
    fn in_key_order(&self, pace: &mut Pace) -> Vec<usize> {
        let key = |index: usize| self.items[index].1.item.key();
        let compare = |(one_leads, one): &(u64, usize), (other_leads, other): &(u64, usize)| {
            let leads = one_leads.cmp(other_leads);
            leads.then_with(|| key(*one).cmp(key(*other)))
        };
        let mut order = Vec::with_capacity(self.items.len());
        for index in 0..self.items.len() {
            order.push((leading_bytes(&key(index)[self.common_prefix..]), index));
            if index % ITEMS_PER_STEP == 0 {
                pace.step();
            }
        }
        for part in order.chunks_mut(SORTED_AT_ONCE) {
            part.sort_unstable_by(compare);
            pace.step();
        }
        // This sort finds what is sorted already, and only brings it together.
        order.sort_by(compare);
        order.into_iter().map(|(_, index)| index).collect()
    }
}

impl Written {
    const NOTHING: Self = Self {
        bytes: 0,
        lives_until: Expiry::PAST,
    };

    /// The record of an item, or `None` when whatever the disk has under its key must go: an older version would come
    /// alive again.
    fn look_at<'a>(
        &mut self,
        item: &Item,
        liveness: &Liveness,
        now: UnixSeconds,
        buffer: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        self.bytes += item.key().len() as u64;
        if item.has(Marks::ABSENT) || !liveness.is_live(item.key(), item.attributes(), now) {
            return None;
        }
        self.lives_until = self.lives_until.later(item.expiry());
        record::encode(item, buffer);
        self.bytes += buffer.len() as u64;
        Some(buffer)
    }
}

/// The first eight bytes as a number that compares as they do; what is missing counts as zeros.
fn leading_bytes(bytes: &[u8]) -> u64 {
    let mut leading = [0; 8];
    let count = bytes.len().min(leading.len());
    leading[..count].copy_from_slice(&bytes[..count]);
    u64::from_be_bytes(leading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::item::Attributes;
    use crate::store::memory::Memory;
    use crate::store::rocks::test_database;

    const NOW: UnixSeconds = UnixSeconds(1_000);

    /// A lot of items with these keys, in the order in which a memory tier gives them.
    fn lot(keys: &[&[u8]]) -> Lot {
        let memory = Memory::new(1 << 20, 1 << 10);
        let attributes = Attributes {
            flags: 0,
            expiry: Expiry::NEVER,
            cas: 1,
        };
        for key in keys {
            let mut shard = memory.lock(memory.place(key));
            let hash = shard.hash();
            shard.write(hash, Item::new(key, attributes, b"data", NOW));
        }
        let mut lot = Lot::default();
        for index in memory.take_dirty_shards() {
            let taken = memory
                .lock_index(index)
                .take_dirty(usize::MAX, usize::MAX, NOW);
            lot.add(index, taken);
        }
        lot
    }

    #[test]
    fn keys_are_written_in_the_order_of_their_bytes() {
        let mut keys: [&[u8]; 9] = [
            b"user:1",
            b"user:10",
            b"user:2",
            b"user:1\0",
            b"user:123456789",
            b"user:123456780",
            b"user:\xff",
            b"user:",
            b"user:1234567",
        ];
        let lot = lot(&keys);
        let order: Vec<&[u8]> = lot
            .in_key_order(&mut Pace::until(None))
            .into_iter()
            .map(|index| lot.items[index].1.item.key())
            .collect();
        keys.sort_unstable();
        assert_eq!(order, keys);
    }

    #[test]
    fn more_keys_than_are_sorted_at_once_are_in_order_too() {
        let keys: Vec<String> = (0..3 * SORTED_AT_ONCE)
            .map(|n| format!("key:{n}"))
            .collect();
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let lot = lot(&keys);
        let order = lot.in_key_order(&mut Pace::until(None));
        let order: Vec<&[u8]> = order
            .into_iter()
            .map(|index| lot.items[index].1.item.key())
            .collect();
        assert_eq!(order.len(), keys.len());
        assert!(order.is_sorted());
    }

    #[test]
    fn a_table_file_lies_above_what_was_logged_before() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let rocks = test_database(dir.path());
        let (liveness, pace) = (Liveness::default(), &mut Pace::until(None));
        let logged = lot(&[b"deleted", b"kept"]);
        logged.log(&rocks, &liveness, NOW, pace).expect("logged");
        assert!(rocks.get(b"deleted").expect("read").is_some());

        let large = lot(&[b"deleted", b"new"]);
        for (_, taken) in &large.items {
            if taken.item.key() == b"deleted" {
                taken.item.set_marks(Marks::ABSENT);
            }
        }
        let path = dir.path().join("file.sst");
        let mut file = rocks.table_file(&path).expect("created");
        let written = large.fill(&mut file, &liveness, NOW, pace).expect("filled");
        file.finish().expect("finished");
        rocks.add_table_file(&path).expect("added");
        assert_eq!(written.lives_until, Expiry::NEVER);
        let found = |key: &[u8]| rocks.get(key).expect("read").is_some();
        assert_eq!(
            [found(b"deleted"), found(b"kept"), found(b"new")],
            [false, true, true]
        );
        assert!(!path.exists(), "it is the database's now");
    }

    #[test]
    fn what_all_keys_begin_with_is_not_compared() {
        assert_eq!(lot(&[b"user:1", b"user:2"]).common_prefix, 5);
        assert_eq!(lot(&[b"user:1", b"user:"]).common_prefix, 5);
        assert_eq!(lot(&[b"a", b"b"]).common_prefix, 0);
        assert_eq!(lot(&[b"alone"]).common_prefix, 5);
    }
}
