//! The store seen from outside.

use std::sync::atomic::Ordering;

use super::{FlushFigures, MemoryFigures, RocksFigures, Store};

impl Store {
    /// The store seen from outside. Takes every lock for a moment.
    pub fn figures(&self) -> StoreFigures {
        StoreFigures {
            rocks: self.rocks.figures(),
            memory: self.memory.figures(),
            flush: self.write_behind.figures(),
            tier_limit: self.memory.limit() as u64,
            disk_quota: self.quota.bytes(),
            counts: StoreCounts {
                found_expired: self.found_dead.expired(),
                found_flushed: self.found_dead.flushed(),
                evicted: self.dropped.evicted(),
                reclaimed: self.dropped.reclaimed(),
            },
            rewritten: self.quota.rewritten(),
            fetched: self.fetched.load(Ordering::Relaxed) + self.loaders.found(),
            disk_reads: self.loaders.count(),
            disk_reads_waiting: self.loaders.waiting() as u64,
        }
    }
}

/// What the store counts, since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreCounts {
    /// Look-ups in memory that found an item which has expired, ...
    pub found_expired: u64,
    /// ... and one that a `flush_all` has made dead.
    pub found_flushed: u64,
    /// Records in files that the disk quota has dropped.
    pub evicted: u64,
    /// Records in files that were dropped because all in them had expired.
    pub reclaimed: u64,
}

impl StoreCounts {
    /// What was counted after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            found_expired: self.found_expired - earlier.found_expired,
            found_flushed: self.found_flushed - earlier.found_flushed,
            evicted: self.evicted - earlier.evicted,
            reclaimed: self.reclaimed - earlier.reclaimed,
        }
    }
}

/// What there is to see from outside.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreFigures {
    pub rocks: RocksFigures,
    pub memory: MemoryFigures,
    pub flush: FlushFigures,
    pub tier_limit: u64,
    pub disk_quota: u64,
    pub counts: StoreCounts,
    /// Items that were written again so that they are not dropped, since the start.
    pub rewritten: u64,
    /// Items that were not in the memory tier and have been brought there, since the start.
    pub fetched: u64,
    /// Keys that were looked for on the disk because they were not in memory, since the start.
    pub disk_reads: u64,
    pub disk_reads_waiting: u64,
}

impl StoreFigures {
    /// Items in memory and on the disk. Exact while everything is in memory; RocksDB counts versions that it has not
    /// brought together yet.
    pub fn estimated_items(&self) -> u64 {
        self.memory.items.max(self.rocks.estimated_items)
    }

    /// What they take.
    pub fn estimated_bytes(&self) -> u64 {
        let on_disk = self.rocks.live_data_bytes + self.rocks.memtable_bytes;
        self.memory.bytes.max(on_disk)
    }
}
