//! The memory tier: the items that are served without the disk, and the writes that are not there yet.
//!
//! Owns where an item is in memory and which items stay. It knows neither the disk nor what an item means; whoever
//! holds a shard's lock decides.
//!
//! ```text
//!   key ─► hash ─► shard, under its lock
//!                  ├── table      hash ─► item
//!                  ├── queues     which item leaves next (see `queues`)
//!                  ├── dirty      items that must be written to the disk
//!                  └── loading    keys that are being read from the disk
//! ```
//!
//! Invariants: an item that is dirty or being written stays, so that what is not in memory is on the disk in its last
//! version; an item comes from the disk only under the lock, or for a key that is in `loading` and has not been
//! written since. A change to this must keep both, or old values come back.

mod queues;
mod shard;

use std::hash::BuildHasher;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;

use super::item::Item;
use crate::clock::UnixSeconds;

pub use shard::ShardFigures;
pub(super) use shard::{Found, Shard, Taken, count_use};

/// More shards than these gain nothing; each costs some hundred bytes.
const MAX_SHARDS: usize = 1024;
/// A shard is large enough for so many of the largest items, so that one of them does not push out all others.
const LARGEST_ITEMS_PER_SHARD: usize = 4;

/// All shards.
pub(super) struct Memory {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// A bit for each shard that has something dirty.
    dirty_shards: Box<[AtomicU64]>,
    dirty_bytes: AtomicUsize,
    limit: usize,
}

/// Where a key belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    shard: usize,
    hash: u32,
}

impl Memory {
    /// A tier of `limit` bytes for items of up to `max_item_size` bytes.
    pub(super) fn new(limit: usize, max_item_size: usize) -> Self {
        let shards = shard_count(limit, max_item_size);
        Self {
            shards: (0..shards)
                .map(|_| Mutex::new(Shard::new(limit / shards)))
                .collect(),
            hasher: RandomState::default(),
            dirty_shards: (0..shards.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            dirty_bytes: AtomicUsize::new(0),
            limit,
        }
    }

    pub(super) fn place(&self, key: &[u8]) -> Place {
        let hash = self.hasher.hash_one(key);
        Place {
            // Other bits than those that the shard uses.
            shard: (hash >> 32) as usize % self.shards.len(),
            hash: hash as u32,
        }
    }

    /// Waits until no other thread works on the shard of this key.
    pub(super) fn lock(&self, place: Place) -> Locked<'_> {
        self.lock_shard(place.shard, place.hash)
    }

    /// Bytes that must be written to the disk, or are being written.
    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The shards that have something dirty. They are clean in the eyes of the next call, so the caller takes it all.
    pub(super) fn take_dirty_shards(&self) -> impl Iterator<Item = usize> {
        self.dirty_shards
            .iter()
            .enumerate()
            .flat_map(|(word, bits)| {
                let bits = bits.swap(0, Ordering::AcqRel);
                (0..64)
                    .filter(move |bit| bits & (1 << bit) != 0)
                    .map(move |bit| word * 64 + bit)
            })
    }

    /// Looks for dirty shards itself, after taking them was given up in the middle.
    pub(super) fn find_dirty_shards(&self) {
        for index in 0..self.shards.len() {
            // Releasing the lock notes what is dirty.
            drop(self.lock_index(index));
        }
    }

    /// Waits until no other thread works on shard number `index`.
    pub(super) fn lock_index(&self, index: usize) -> Locked<'_> {
        self.lock_shard(index, 0)
    }

    /// Marks as dirty what was written to the disk at this moment or before, and says how many items that were.
    pub(super) fn write_again_older_than(&self, moment: UnixSeconds) -> usize {
        (0..self.shards.len())
            .map(|index| self.lock_index(index).write_again_older_than(moment))
            .sum()
    }

    /// Takes out the items that `is_gone` says, and says how many they were. Takes every lock for a moment.
    pub(super) fn sweep(&self, is_gone: impl Fn(&Item) -> bool, now: UnixSeconds) -> usize {
        (0..self.shards.len())
            .map(|index| self.lock_index(index).sweep(&is_gone, now))
            .sum()
    }

    /// Everything that is counted, over all shards. Takes every lock for a moment.
    pub(super) fn figures(&self) -> ShardFigures {
        let mut sum = ShardFigures::default();
        for index in 0..self.shards.len() {
            sum.add(&self.lock_index(index).figures());
        }
        sum
    }

    fn lock_shard(&self, index: usize, hash: u32) -> Locked<'_> {
        let shard = self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Locked {
            dirty_before: shard.dirty_bytes(),
            shard,
            memory: self,
            index,
            hash,
        }
    }
}

/// A power of two.
fn shard_count(limit: usize, max_item_size: usize) -> usize {
    let most = limit / max_item_size.saturating_mul(LARGEST_ITEMS_PER_SHARD).max(1);
    let count = most.clamp(1, MAX_SHARDS);
    1 << count.ilog2()
}

/// A shard that this thread alone works on. What becomes dirty is counted when the lock is released.
pub(super) struct Locked<'a> {
    shard: MutexGuard<'a, Shard>,
    memory: &'a Memory,
    index: usize,
    hash: u32,
    dirty_before: usize,
}

impl Locked<'_> {
    /// The hash that the lock was taken for.
    pub(super) fn hash(&self) -> u32 {
        self.hash
    }

    /// The place that the lock was taken for.
    pub(super) fn place(&self) -> Place {
        Place {
            shard: self.index,
            hash: self.hash,
        }
    }
}

impl Deref for Locked<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let dirty = self.shard.dirty_bytes();
        if dirty != self.dirty_before {
            let counter = &self.memory.dirty_bytes;
            counter.fetch_add(dirty.wrapping_sub(self.dirty_before), Ordering::Relaxed);
        }
        if self.shard.has_dirty() {
            let bits = &self.memory.dirty_shards[self.index / 64];
            let bit = 1 << (self.index % 64);
            // The line is shared by many shards: it is written only when something changes.
            if bits.load(Ordering::Relaxed) & bit == 0 {
                bits.fetch_or(bit, Ordering::AcqRel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tier_has_few_shards_so_that_large_items_fit() {
        assert_eq!(shard_count(1 << 20, 1 << 20), 1);
        assert_eq!(shard_count(64 << 20, 1 << 20), 16);
        assert_eq!(shard_count(1 << 30, 1 << 20), 256);
        assert_eq!(shard_count(64 << 30, 1 << 20), MAX_SHARDS);
    }
}
