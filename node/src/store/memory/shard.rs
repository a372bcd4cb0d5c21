//! One shard of the memory tier.
//!
//! Owns the bookkeeping of an item: table, slot, queue, bytes and marks always agree. It is called under its lock.

use std::collections::{HashMap, VecDeque};

use hashbrown::HashTable;

use super::queues::{Ghosts, Queue, Ticket, small_limit};
use crate::clock::UnixSeconds;
use crate::store::item::{Item, Marks};
use crate::store::load::{Loading, absent};

/// What an item costs beside its allocation: its place in the table, in a queue and among the ghosts, each with the room
/// that growing tables keep.
const BOOKKEEPING: usize = 40;
/// Items considered for eviction per item that comes in. What is missed is made up for by the next one.
const MAX_STEPS: usize = 64;
/// Room that the list of dirty items keeps when it is empty.
const MAX_SPARE_DIRTY: usize = 1024;
const UNWRITTEN: Marks = Marks::DIRTY.with(Marks::FLUSHING);

/// Spreads the 32 bits that are kept over the 64 that the table looks at.
fn table_hash(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Debug)]
struct Entry {
    item: Item,
    ticket: Ticket,
}

impl Entry {
    fn holds(&self, hash: u32, key: &[u8]) -> bool {
        self.ticket.hash == hash && self.item.key() == key
    }
}

/// What memory knows about a key.
pub(in crate::store) enum Found {
    /// This is its item, dead or alive.
    Item(Item),
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
    ticket: Ticket,
    pub(in crate::store) item: Item,
}

/// What a shard counts. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardFigures {
    pub items: u64,
    /// Of the items, and of what is remembered of keys without one.
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
    table: HashTable<Entry>,
    /// Entries of the table that say that there is no item.
    absent: usize,
    /// Tickets given out.
    tickets: u32,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    /// Items in the order in which they became dirty; each is marked so.
    dirty: VecDeque<Ticket>,
    loading: HashMap<Box<[u8]>, Loading>,
    limit: usize,
    dirty_bytes: usize,
    evicted_unread: u64,
    evicted_read: u64,
}

impl Shard {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            table: HashTable::new(),
            absent: 0,
            tickets: 0,
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
        if let Some(entry) = self
            .table
            .find(table_hash(hash), |entry| entry.holds(hash, key))
        {
            return if entry.item.has(Marks::ABSENT) {
                Found::Absent
            } else {
                Found::Item(entry.item.clone())
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

    /// Puts a new version of an item, to be written to the disk.
    pub(in crate::store) fn write(&mut self, hash: u32, item: Item) {
        let ticket = self.put(hash, item);
        self.mark_dirty(ticket);
        self.make_room();
    }

    /// Puts the fact that there is no item, to be written to the disk.
    pub(in crate::store) fn write_absent(&mut self, hash: u32, absent: Item) {
        absent.set_marks(Marks::ABSENT);
        self.write(hash, absent);
    }

    /// Puts what the disk has.
    pub(in crate::store) fn keep(&mut self, hash: u32, item: Item) {
        self.put(hash, item);
        self.make_room();
    }

    /// Puts the fact that the disk has nothing.
    pub(in crate::store) fn keep_absent(&mut self, hash: u32, absent: Item) {
        absent.set_marks(Marks::ABSENT);
        self.keep(hash, absent);
    }

    /// An item that was found has changed and must be written to the disk again. It may have been evicted since.
    pub(in crate::store) fn write_again(&mut self, hash: u32, item: &Item) {
        let found = self
            .table
            .find(table_hash(hash), |entry| entry.item.is(item))
            .map(|entry| entry.ticket);
        match found {
            Some(ticket) => self.mark_dirty(ticket),
            None => self.write(hash, item.clone()),
        }
    }

    /// Marks as dirty what was written to the disk at this moment or before, and says how many items that were.
    pub(super) fn write_again_older_than(&mut self, moment: UnixSeconds) -> usize {
        let old: Vec<Ticket> = self
            .table
            .iter()
            .filter(|entry| {
                entry.item.written() <= moment && !entry.item.has(Marks::ABSENT.with(UNWRITTEN))
            })
            .map(|entry| entry.ticket)
            .collect();
        old.iter().for_each(|ticket| self.mark_dirty(*ticket));
        old.len()
    }

    /// Takes out the items that `is_gone` says, and says how many they were. What is not on the disk as it is here leaves when
    /// the disk has heard that it is gone.
    pub(super) fn sweep(&mut self, is_gone: impl Fn(&Item) -> bool, now: UnixSeconds) -> usize {
        let gone: Vec<(Ticket, Item)> = self
            .table
            .iter()
            .filter(|entry| !entry.item.has(Marks::ABSENT) && is_gone(&entry.item))
            .map(|entry| (entry.ticket, entry.item.clone()))
            .collect();
        for (ticket, item) in &gone {
            if item.has(UNWRITTEN) {
                self.write_absent(ticket.hash, absent(item.key(), now));
            } else {
                self.remove(*ticket);
            }
        }
        self.collect_vacant();
        gone.len()
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
            && let Some(ticket) = self.dirty.pop_front()
        {
            // What is dirty is never removed.
            let Some(entry) = self.entry(ticket) else {
                continue;
            };
            let item = entry.item.clone();
            let marks = item.marks();
            item.set_marks(marks.without(Marks::DIRTY).with(Marks::FLUSHING));
            item.set_written(now);
            bytes += size(&item);
            taken.push(Taken { ticket, item });
        }
        if self.dirty.is_empty() {
            // A burst of writes is not paid for in memory for ever.
            self.dirty.shrink_to(MAX_SPARE_DIRTY);
        }
        taken
    }

    /// What was taken is on its way to the disk, or could not be written and must be taken again.
    pub(in crate::store) fn settle(&mut self, taken: &Taken, written: bool) {
        let current = self.entry(taken.ticket);
        if !current.is_some_and(|current| current.item.is(&taken.item)) {
            return;
        }
        let marks = taken.item.marks().without(Marks::FLUSHING);
        taken.item.set_marks(marks);
        if marks.has(Marks::DIRTY) {
            return;
        }
        self.dirty_bytes -= size(&taken.item);
        if !written {
            self.mark_dirty(taken.ticket);
        }
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes
    }

    pub(super) fn figures(&self) -> ShardFigures {
        ShardFigures {
            items: (self.table.len() - self.absent) as u64,
            bytes: self.bytes() as u64,
            dirty_bytes: self.dirty_bytes as u64,
            evicted_unread: self.evicted_unread,
            evicted_read: self.evicted_read,
        }
    }

    fn bytes(&self) -> usize {
        self.small.bytes + self.main.bytes
    }

    fn entry(&self, ticket: Ticket) -> Option<&Entry> {
        self.table
            .find(table_hash(ticket.hash), |entry| entry.ticket == ticket)
    }

    fn mark_dirty(&mut self, ticket: Ticket) {
        let Some(entry) = self.entry(ticket) else {
            return;
        };
        let (marks, size) = (entry.item.marks(), size(&entry.item));
        if marks.has(Marks::DIRTY) {
            return;
        }
        entry.item.set_marks(marks.with(Marks::DIRTY));
        if !marks.has(Marks::FLUSHING) {
            self.dirty_bytes += size;
        }
        self.dirty.push_back(ticket);
    }

    /// Puts an item in the place of the one with the same key, or into a new one.
    fn put(&mut self, hash: u32, item: Item) -> Ticket {
        if !self.loading.is_empty() {
            self.loading.remove(item.key());
        }
        let found = self
            .table
            .find_mut(table_hash(hash), |entry| entry.holds(hash, item.key()));
        self.absent += usize::from(item.has(Marks::ABSENT));
        let Some(entry) = found else {
            return self.insert(hash, item);
        };
        // The new version has its predecessor's place among the dirty and in the queue.
        let (old_marks, old_size, new_size) = (entry.item.marks(), size(&entry.item), size(&item));
        let inherited = Marks::DIRTY.with(Marks::IN_MAIN).with(Marks::USES);
        item.set_marks(item.marks().with(old_marks.only(inherited)));
        entry.item = item;
        let ticket = entry.ticket;
        if old_marks.has(UNWRITTEN) {
            self.dirty_bytes -= old_size;
        }
        if old_marks.has(Marks::DIRTY) {
            self.dirty_bytes += new_size;
        }
        self.absent -= usize::from(old_marks.has(Marks::ABSENT));
        let queue = self.queue(old_marks);
        queue.bytes = queue.bytes - old_size + new_size;
        ticket
    }

    fn insert(&mut self, hash: u32, item: Item) -> Ticket {
        if self.ghosts.recall(hash) {
            item.set_marks(item.marks().with(Marks::IN_MAIN));
        }
        self.tickets = self.tickets.wrapping_add(1);
        let ticket = Ticket {
            hash,
            number: self.tickets,
        };
        let (marks, bytes) = (item.marks(), size(&item));
        self.queue(marks).push(ticket, bytes);
        self.table
            .insert_unique(table_hash(hash), Entry { item, ticket }, |entry| {
                table_hash(entry.ticket.hash)
            });
        ticket
    }

    /// Takes an item out. Its ticket stays in its queue until it is popped there.
    fn remove(&mut self, ticket: Ticket) -> Option<Item> {
        let found = self
            .table
            .find_entry(table_hash(ticket.hash), |entry| entry.ticket == ticket);
        let (entry, _) = found.ok()?.remove();
        self.absent -= usize::from(entry.item.has(Marks::ABSENT));
        self.queue(entry.item.marks()).bytes -= size(&entry.item);
        Some(entry.item)
    }

    /// Where items leave in the middle of a queue faster than it moves, their tickets would pile up.
    fn collect_vacant(&mut self) {
        let queued = self.small.len() + self.main.len();
        if queued < 2 * self.table.len() + 1024 {
            return;
        }
        let table = &self.table;
        let valid = |ticket: &Ticket| {
            table
                .find(table_hash(ticket.hash), |entry| entry.ticket == *ticket)
                .is_some()
        };
        self.small.retain(valid);
        self.main.retain(valid);
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
        let Some((ticket, item)) = self.pop(|shard| &mut shard.small) else {
            return false;
        };
        let marks = item.marks();
        if marks.has(UNWRITTEN) {
            self.small.push_again(ticket);
            return true;
        }
        if uses(marks) > 1 {
            let bytes = size(&item);
            item.set_marks(marks.with_uses(0).with(Marks::IN_MAIN));
            self.small.bytes -= bytes;
            self.main.push(ticket, bytes);
        } else {
            self.ghosts.grow_for(self.table.len());
            self.ghosts.remember(ticket.hash);
            self.evict(ticket);
        }
        false
    }

    /// Decides about the oldest item of the main queue.
    fn step_main(&mut self) {
        let Some((ticket, item)) = self.pop(|shard| &mut shard.main) else {
            return;
        };
        let marks = item.marks();
        if marks.has(UNWRITTEN) {
            self.main.push_again(ticket);
        } else if uses(marks) > 0 {
            item.set_marks(marks.with_uses(marks.uses() - 1));
            self.main.push_again(ticket);
        } else {
            self.evict(ticket);
        }
    }

    /// The next item of a queue. Tickets of what is not there any more are dropped on the way.
    fn pop(&mut self, queue: impl Fn(&mut Self) -> &mut Queue) -> Option<(Ticket, Item)> {
        while let Some(ticket) = queue(self).pop() {
            if let Some(entry) = self.entry(ticket) {
                return Some((ticket, entry.item.clone()));
            }
        }
        None
    }

    /// Takes an item out whose ticket is in no queue any more.
    fn evict(&mut self, ticket: Ticket) {
        match self.remove(ticket) {
            Some(item) if item.has(Marks::ABSENT) => {}
            Some(item) if item.has(Marks::FETCHED) => self.evicted_read += 1,
            Some(_) => self.evicted_unread += 1,
            None => {}
        }
    }
}

/// Counts a client's reading of an item.
pub(in crate::store) fn count_use(item: &Item, now: UnixSeconds) {
    let marks = item.marks();
    let used = marks.with_uses(marks.uses() + 1).with(Marks::FETCHED);
    if used != marks {
        item.set_marks(used);
    }
    item.set_accessed(now);
}

/// What counts when somebody must leave. A key that has lost its item leaves before those that are as old.
fn uses(marks: Marks) -> u16 {
    if marks.has(Marks::ABSENT) {
        0
    } else {
        marks.uses()
    }
}

fn size(item: &Item) -> usize {
    item.footprint() + BOOKKEEPING
}

#[cfg(test)]
mod tests;
