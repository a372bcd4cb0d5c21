//! One shard of the memory tier.
//!
//! Owns the bookkeeping of an item: table, slot, queue, bytes and marks always agree. It is called under its lock.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use super::queues::{Ghosts, Queue, small_limit};
use crate::clock::UnixSeconds;
use crate::store::item::{Item, Marks};
use crate::store::load::Loading;

/// What an item costs beside its allocation: its place in the table, in the slots, in a queue and among the ghosts, each
/// with the room that growing tables keep.
const BOOKKEEPING: usize = 36;
/// Slots considered for eviction per item that comes in. What is missed is made up for by the next one.
const MAX_STEPS: usize = 64;
/// Room that the list of dirty slots keeps when it is empty.
const MAX_SPARE_DIRTY: usize = 1024;
const UNWRITTEN: Marks = Marks::DIRTY.with(Marks::FLUSHING);

/// 64 bits for a key. The shard uses the lower half.
pub(super) fn hash(hasher: &RandomState, key: &[u8]) -> u64 {
    hasher.hash_one(key)
}

/// Spreads the 32 bits that are kept over the 64 that the table looks at.
fn table_hash(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    slot: u32,
}

/// What memory knows about a key.
pub(in crate::store) enum Found {
    /// This is its item, dead or alive.
    Item(u32),
    /// It has none: the disk need not be asked.
    Absent,
    /// It is being read from the disk.
    Loading(Loading),
    /// Only the disk knows.
    Unknown,
}

/// An item that is being written to the disk.
#[derive(Debug)]
pub(in crate::store) struct Taken {
    slot: u32,
    pub(in crate::store) item: Item,
}

/// What a shard counts. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardFigures {
    pub items: u64,
    pub bytes: u64,
    pub dirty_bytes: u64,
    /// Left to make room, never read since they came.
    pub evicted_unread: u64,
    /// Left to make room, and had been read.
    pub evicted_read: u64,
}

impl ShardFigures {
    pub(super) fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.dirty_bytes += other.dirty_bytes;
        self.evicted_unread += other.evicted_unread;
        self.evicted_read += other.evicted_read;
    }
}

#[derive(Debug)]
pub(in crate::store) struct Shard {
    hasher: RandomState,
    table: HashTable<Entry>,
    slots: Vec<Option<Item>>,
    /// Slots that are in no queue and may be used again.
    free: Vec<u32>,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    /// Slots in the order in which they became dirty; each is marked so.
    dirty: VecDeque<u32>,
    loading: HashMap<Box<[u8]>, Loading>,
    limit: usize,
    dirty_bytes: usize,
    evicted_unread: u64,
    evicted_read: u64,
}

impl Shard {
    pub(super) fn new(limit: usize, hasher: RandomState) -> Self {
        Self {
            hasher,
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            small: Queue::default(),
            main: Queue::default(),
            ghosts: Ghosts::default(),
            dirty: VecDeque::new(),
            loading: HashMap::new(),
            limit,
            dirty_bytes: 0,
            evicted_unread: 0,
            evicted_read: 0,
        }
    }

    pub(in crate::store) fn find(&self, hash: u32, key: &[u8]) -> Found {
        if let Some(slot) = self.slot_of(hash, key) {
            let item = self.item(slot);
            return if item.has(Marks::ABSENT) {
                Found::Absent
            } else {
                Found::Item(slot)
            };
        }
        if self.loading.is_empty() {
            return Found::Unknown;
        }
        match self.loading.get(key) {
            Some(loading) => Found::Loading(loading.clone()),
            None => Found::Unknown,
        }
    }

    /// The item that [`Shard::find`] found.
    pub(in crate::store) fn item(&self, slot: u32) -> &Item {
        self.slots[slot as usize]
            .as_ref()
            .expect("a slot that was found under this lock is taken")
    }

    /// Counts a client's reading of an item.
    pub(in crate::store) fn use_item(&self, slot: u32, now: UnixSeconds) {
        let item = self.item(slot);
        let marks = item.marks();
        let used = marks.with_uses(marks.uses() + 1).with(Marks::FETCHED);
        if used != marks {
            item.set_marks(used);
        }
        item.set_accessed(now);
    }

    /// Puts a new version of an item, to be written to the disk.
    pub(in crate::store) fn write(&mut self, hash: u32, item: Item) {
        let slot = self.put(hash, item);
        self.mark_dirty(slot);
        self.make_room();
    }

    /// Puts the fact that there is no item, to be written to the disk.
    pub(in crate::store) fn write_absent(&mut self, hash: u32, absent: Item) {
        absent.set_marks(Marks::ABSENT);
        self.write(hash, absent);
    }

    /// Puts what the disk has. [`Shard::make_room`] is to follow.
    pub(in crate::store) fn keep(&mut self, hash: u32, item: Item) -> u32 {
        self.put(hash, item)
    }

    /// Puts the fact that the disk has nothing.
    pub(in crate::store) fn keep_absent(&mut self, hash: u32, absent: Item) {
        absent.set_marks(Marks::ABSENT);
        self.put(hash, absent);
        self.make_room();
    }

    /// The item has changed and must be written to the disk again.
    pub(in crate::store) fn mark_dirty(&mut self, slot: u32) {
        let item = self.item(slot);
        let (marks, size) = (item.marks(), size(item));
        if marks.has(Marks::DIRTY) {
            return;
        }
        item.set_marks(marks.with(Marks::DIRTY));
        if !marks.has(Marks::FLUSHING) {
            self.dirty_bytes += size;
        }
        self.dirty.push_back(slot);
    }

    /// Notes that the key is being read from the disk. The lock may be released meanwhile: what is written under the
    /// key ends the note.
    pub(in crate::store) fn begin_load(&mut self, key: &[u8]) -> Loading {
        let loading = Loading::default();
        self.loading.insert(key.into(), loading.clone());
        loading
    }

    /// Whether what was read for `loading` still is what the key has; the note ends.
    pub(in crate::store) fn end_load(&mut self, key: &[u8], loading: &Loading) -> bool {
        let current = self
            .loading
            .get(key)
            .is_some_and(|current| current.is(loading));
        if current {
            self.loading.remove(key);
        }
        current
    }

    pub(in crate::store) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// At most `count` items that must be written to the disk, of together about `max_bytes`: those that have waited
    /// longest. Each must be settled before more are taken.
    pub(in crate::store) fn take_dirty(
        &mut self,
        count: usize,
        max_bytes: usize,
        now: UnixSeconds,
    ) -> Vec<Taken> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        while taken.len() < count
            && bytes < max_bytes
            && let Some(slot) = self.dirty.pop_front()
        {
            let item = self.item(slot).clone();
            let marks = item.marks();
            item.set_marks(marks.without(Marks::DIRTY).with(Marks::FLUSHING));
            item.set_written(now);
            bytes += size(&item);
            taken.push(Taken { slot, item });
        }
        if self.dirty.is_empty() {
            // A burst of writes is not paid for in memory for ever.
            self.dirty.shrink_to(MAX_SPARE_DIRTY);
        }
        taken
    }

    /// What was taken is on its way to the disk, or could not be written and must be taken again.
    pub(in crate::store) fn settle(&mut self, taken: &Taken, written: bool) {
        let current = self.slots[taken.slot as usize].as_ref();
        if !current.is_some_and(|current| current.is(&taken.item)) {
            return;
        }
        let marks = taken.item.marks().without(Marks::FLUSHING);
        taken.item.set_marks(marks);
        if marks.has(Marks::DIRTY) {
            return;
        }
        self.dirty_bytes -= size(&taken.item);
        if !written {
            self.mark_dirty(taken.slot);
        } else if marks.has(Marks::ABSENT) {
            self.remove(taken.slot);
        }
    }

    /// The slots that hold something.
    #[cfg(test)]
    fn occupied(&self) -> impl Iterator<Item = (u32, &Item)> {
        (0..)
            .zip(&self.slots)
            .filter_map(|(slot, item)| Some((slot, item.as_ref()?)))
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes
    }

    pub(super) fn figures(&self) -> ShardFigures {
        ShardFigures {
            items: self.table.len() as u64,
            bytes: self.bytes() as u64,
            dirty_bytes: self.dirty_bytes as u64,
            evicted_unread: self.evicted_unread,
            evicted_read: self.evicted_read,
        }
    }

    fn bytes(&self) -> usize {
        self.small.bytes + self.main.bytes
    }

    fn slot_of(&self, hash: u32, key: &[u8]) -> Option<u32> {
        self.table
            .find(table_hash(hash), |entry| {
                entry.hash == hash && self.item(entry.slot).key() == key
            })
            .map(|entry| entry.slot)
    }

    /// Puts an item in the place of the one with the same key, or into a new one.
    fn put(&mut self, hash: u32, item: Item) -> u32 {
        if !self.loading.is_empty() {
            self.loading.remove(item.key());
        }
        match self.slot_of(hash, item.key()) {
            Some(slot) => {
                self.replace(slot, item);
                slot
            }
            None => self.insert(hash, item),
        }
    }

    /// The new version has its predecessor's place among the dirty and in the queue.
    fn replace(&mut self, slot: u32, item: Item) {
        let old = self.item(slot);
        let (old_marks, old_size, new_size) = (old.marks(), size(old), size(&item));
        let inherited = Marks::DIRTY.with(Marks::IN_MAIN).with(Marks::USES);
        item.set_marks(item.marks().with(old_marks.only(inherited)));
        if old_marks.has(UNWRITTEN) {
            self.dirty_bytes -= old_size;
        }
        if old_marks.has(Marks::DIRTY) {
            self.dirty_bytes += new_size;
        }
        let queue = self.queue(old_marks);
        queue.bytes = queue.bytes - old_size + new_size;
        self.slots[slot as usize] = Some(item);
    }

    fn insert(&mut self, hash: u32, item: Item) -> u32 {
        let returning = self.ghosts.recall(hash);
        let bytes = size(&item);
        if returning {
            item.set_marks(item.marks().with(Marks::IN_MAIN));
        }
        let marks = item.marks();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(item);
                slot
            }
            None => {
                self.slots.push(Some(item));
                u32::try_from(self.slots.len() - 1).expect("a shard has less than 2^32 items")
            }
        };
        self.queue(marks).push(slot, bytes);
        self.table
            .insert_unique(table_hash(hash), Entry { hash, slot }, |entry| {
                table_hash(entry.hash)
            });
        slot
    }

    /// Empties a slot. It stays in its queue until it is popped there.
    fn remove(&mut self, slot: u32) {
        let Some(item) = self.slots[slot as usize].take() else {
            return;
        };
        let hash = hash(&self.hasher, item.key()) as u32;
        if let Ok(entry) = self
            .table
            .find_entry(table_hash(hash), |entry| entry.slot == slot)
        {
            entry.remove();
        }
        self.queue(item.marks()).bytes -= size(&item);
        self.collect_vacant();
    }

    /// Where items leave in the middle of a queue faster than it moves, their slots would pile up.
    fn collect_vacant(&mut self) {
        let queued = self.small.len() + self.main.len();
        if queued < 2 * self.table.len() + 1024 {
            return;
        }
        let (slots, free) = (&self.slots, &mut self.free);
        let mut occupied = |slot: &u32| {
            let occupied = slots[*slot as usize].is_some();
            if !occupied {
                free.push(*slot);
            }
            occupied
        };
        self.small.retain(&mut occupied);
        self.main.retain(&mut occupied);
    }

    fn queue(&mut self, marks: Marks) -> &mut Queue {
        if marks.has(Marks::IN_MAIN) {
            &mut self.main
        } else {
            &mut self.small
        }
    }

    /// Evicts until the shard is within its limit, or enough has been tried.
    pub(in crate::store) fn make_room(&mut self) {
        let mut prefer_main = false;
        for _ in 0..MAX_STEPS {
            if self.bytes() <= self.limit {
                return;
            }
            let from_small = self.small.bytes > small_limit(self.limit) && !prefer_main;
            prefer_main = if from_small || self.main.len() == 0 {
                self.step_small()
            } else {
                self.step_main();
                false
            };
        }
    }

    /// Decides about the oldest item of the small queue. `true` when it had to stay.
    fn step_small(&mut self) -> bool {
        let Some((slot, item)) = Self::pop(&mut self.small, &self.slots, &mut self.free) else {
            return false;
        };
        let marks = item.marks();
        if marks.has(UNWRITTEN) {
            self.small.push_again(slot);
            return true;
        }
        let bytes = size(item);
        if marks.uses() > 1 {
            item.set_marks(marks.with_uses(0).with(Marks::IN_MAIN));
            self.small.bytes -= bytes;
            self.main.push(slot, bytes);
        } else {
            let hash = hash(&self.hasher, item.key()) as u32;
            self.ghosts.grow_for(self.table.len());
            self.ghosts.remember(hash);
            self.evict(slot);
        }
        false
    }

    /// Decides about the oldest item of the main queue.
    fn step_main(&mut self) {
        let Some((slot, item)) = Self::pop(&mut self.main, &self.slots, &mut self.free) else {
            return;
        };
        let marks = item.marks();
        if marks.has(UNWRITTEN) {
            self.main.push_again(slot);
        } else if marks.uses() > 0 {
            item.set_marks(marks.with_uses(marks.uses() - 1));
            self.main.push_again(slot);
        } else {
            self.evict(slot);
        }
    }

    /// The next item of a queue. Vacant slots on the way become free.
    fn pop<'a>(
        queue: &mut Queue,
        slots: &'a [Option<Item>],
        free: &mut Vec<u32>,
    ) -> Option<(u32, &'a Item)> {
        while let Some(slot) = queue.pop() {
            match &slots[slot as usize] {
                Some(item) => return Some((slot, item)),
                None => free.push(slot),
            }
        }
        None
    }

    /// Takes an item out whose slot is in no queue any more.
    fn evict(&mut self, slot: u32) {
        if self.item(slot).has(Marks::FETCHED) {
            self.evicted_read += 1;
        } else {
            self.evicted_unread += 1;
        }
        self.remove(slot);
        self.free.push(slot);
    }
}

fn size(item: &Item) -> usize {
    item.footprint() + BOOKKEEPING
}

#[cfg(test)]
mod tests;
