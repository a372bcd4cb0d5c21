//! The items: reading, changing and flushing them, and opening and closing what they live in.
//!
//! Owns the seam between commands and storage. It knows no protocol, and takes the time from its caller.
//!
//! ```text
//!   Store ─► memory: the shard of the key, under its lock
//!              hit: nothing else happens          dirty ─► flush (write-behind) ─► rocks
//!              unknown: what RocksDB has in its own memory is fetched at once,
//!                       what it has on the disk by load, and the caller waits or does something else
//! ```
//!
//! Invariants: nothing here waits for the disk except what says so; a cas number is never used twice, not even after
//! a crash; nothing that was written before a `flush_all` is served after it, nor what was another node's when the place
//! was told, not even after a restart; a database is renamed but never deleted.

mod ages;
mod cas;
mod change;
mod compaction;
mod directory;
mod dropped;
mod dump;
mod durability;
mod figures;
mod flush;
mod heartbeat;
mod invalidate;
pub mod item;
mod leases;
mod liveness;
mod load;
mod lot;
mod memory;
mod open;
mod options;
mod pace;
mod purges;
mod quota;
pub mod record;
mod rocks;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thiserror::Error;

use crate::clock::UnixSeconds;

use cas::CasSequence;
pub use change::{Amendment, Change, Updated};
use change::{amend, put};
use directory::Directory;
pub use directory::DirectoryError;
use dropped::Dropped;
pub use dropped::DroppedFiles;
pub use dump::Entry;
pub use durability::Durability;
use durability::LogSyncer;
pub use figures::{StoreCounts, StoreFigures};
pub use flush::FlushFigures;
use flush::WriteBehind;
use item::{Attributes, Expiry, Item, item_size};
use leases::Leases;
use liveness::{FoundDead, Liveness};
pub use load::Loading;
use load::{Loaders, absent};
pub use memory::ShardFigures as MemoryFigures;
use memory::{Found, Locked, Memory, count_use};
pub use open::OpenError;
pub use options::StorageOptions;
pub use quota::DiskQuota;
use quota::Quota;
pub use rocks::RocksFigures;
use rocks::{InMemory, Mark, Rocks};

/// The files that RocksDB holds open at most.
pub const MAX_OPEN_FILES: u64 = rocks::MAX_OPEN_FILES as u64;
/// Of the memory tier, in percent: from here on write-behind does not wait for its timer, ...
const HURRY_AT: usize = 25;
/// ... and from here on writers wait until something has reached the disk.
const SLOW_DOWN_AT: usize = 50;

/// What went wrong with the disk while serving. The item it happened to is unchanged.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    #[error("cannot read an item: {0}")]
    Read(rocksdb::Error),
    #[error("cannot write items: {0}")]
    Write(rocksdb::Error),
    #[error("cannot write the store's own marks: {0}")]
    Mark(rocksdb::Error),
    #[error("cannot flush: {0}")]
    Flush(rocksdb::Error),
}

/// Why an operation was not carried out. Nothing has changed.
#[derive(Debug, Error)]
pub enum Blocked {
    #[error("the item is being read from the disk")]
    Loading(Loading),
    #[error(transparent)]
    Failed(#[from] StoreError),
}

/// Items under keys. Shared by all threads.
pub struct Store {
    // In this order they end: who waits for the disk, who writes to it, the disk.
    loaders: Loaders,
    write_behind: WriteBehind,
    _log_syncer: Option<LogSyncer>,
    memory: Arc<Memory>,
    rocks: Arc<Rocks>,
    cas: CasSequence,
    leases: Leases,
    liveness: Arc<Liveness>,
    quota: Arc<Quota>,
    /// Whether a `flush_all` takes the rest of its second with it.
    flushes_seconds: AtomicBool,
    /// Held while a `flush_all` is carried out.
    flushing: Mutex<()>,
    dropped: Arc<Dropped>,
    found_dead: FoundDead,
    /// Items that RocksDB had in its own memory.
    fetched: AtomicU64,
    durability: Durability,
    max_item_size: usize,
    set_aside: Option<PathBuf>,
    /// Last, so that the lock outlives the database.
    _directory: Directory,
}

impl Store {
    /// The item under `key`, if it is there and alive.
    pub fn get(&self, key: &[u8], now: UnixSeconds) -> Result<Option<Item>, Blocked> {
        self.carry_out_due_flush(now)?;
        let mut shard = self.memory.lock(self.memory.place(key));
        let item = self.resident(&mut shard, key, now)?;
        if let Some(item) = &item {
            count_use(item, now);
        }
        Ok(item)
    }

    /// Puts an item under `key` whatever was there, and returns its cas.
    pub fn set(
        &self,
        key: &[u8],
        flags: u64,
        expiry: Expiry,
        data: &[u8],
        now: UnixSeconds,
    ) -> Result<u64, Blocked> {
        self.carry_out_due_flush(now)?;
        let cas = self.next_cas()?;
        let attributes = Attributes { flags, expiry, cas };
        // Allocated before the lock is taken.
        let item = if expiry.has_passed(now) {
            absent(key, now)
        } else {
            Item::new(key, attributes, data, now)
        };
        let mut shard = self.memory.lock(self.memory.place(key));
        let hash = shard.hash();
        self.leases.revoke(key);
        if expiry.has_passed(now) {
            shard.write_absent(hash, item);
        } else {
            shard.write(hash, item);
        }
        Ok(cas)
    }

    /// Reads the item under `key`, lets `decide` choose what becomes of it, and does that before any other
    /// thread sees or changes the item.
    pub fn update<'a, R>(
        &self,
        key: &[u8],
        now: UnixSeconds,
        decide: impl FnOnce(Option<&Item>) -> (Change<'a>, R),
    ) -> Result<Updated<R>, Blocked> {
        self.carry_out_due_flush(now)?;
        let mut shard = self.memory.lock(self.memory.place(key));
        let item = self.resident(&mut shard, key, now)?;
        let (change, result) = decide(item.as_ref());
        let mut cas = 0;
        if matches!(change, Change::Put { .. } | Change::Delete) {
            self.leases.revoke(key);
        }
        match (change, item) {
            (
                Change::Put {
                    flags,
                    expiry,
                    data,
                    marks,
                },
                _,
            ) => {
                cas = self.next_cas()?;
                let attributes = Attributes { flags, expiry, cas };
                put(&mut shard, key, attributes, &data, marks, now);
            }
            (Change::Amend(amendment), Some(item)) => amend(&mut shard, &item, amendment, now),
            (Change::Delete, Some(_)) => {
                let hash = shard.hash();
                shard.write_absent(hash, absent(key, now));
            }
            (Change::Keep, _) | (Change::Amend(_) | Change::Delete, None) => {}
        }
        Ok(Updated { result, cas })
    }

    /// A token for the client that is to fill a miss, unless another client has one. To be called from what
    /// [`Store::update`] is given, when it finds no item.
    pub fn grant_lease(&self, key: &[u8], now: UnixSeconds) -> Option<u64> {
        self.leases.grant(key, now)
    }

    /// Whether `token` is the one for `key`, under which nothing has been written or deleted since. To be called from
    /// what [`Store::update`] is given, once.
    pub fn redeem_lease(&self, key: &[u8], token: u64, now: UnixSeconds) -> bool {
        self.leases.redeem(key, token, now)
    }

    /// Returns when what was written before this call is as durable as the mode promises; awaited before a write is
    /// acknowledged.
    pub async fn commit(&self) -> Result<(), StoreError> {
        match self.durability {
            Durability::None | Durability::Interval => Ok(()),
            Durability::Always | Durability::Fsync => self.write_behind.pass().await,
        }
    }

    /// How much more may be written now.
    pub fn room(&self) -> Room {
        let dirty = self.memory.dirty_bytes();
        let at = |percent| self.memory.limit() / 100 * percent;
        if dirty < at(HURRY_AT) {
            return Room::Enough;
        }
        self.write_behind.hurry();
        if dirty < at(SLOW_DOWN_AT) {
            Room::Enough
        } else if self.write_behind.is_failing() {
            Room::None
        } else {
            Room::Soon
        }
    }

    /// Returns when more has reached the disk, or the disk has failed.
    pub async fn more_room(&self) {
        // A failure shows in the next `room`.
        let _ = self.write_behind.pass().await;
    }

    /// Writes everything to the disk and into files, so that the next start is quick. The last call before the store
    /// is dropped. Blocks.
    pub fn close(&self) -> Result<(), StoreError> {
        self.write_behind.finish()?;
        self.quota.close(&self.rocks).map_err(StoreError::Mark)?;
        self.rocks.flush_all_to_files().map_err(StoreError::Flush)?;
        self.rocks.stop_background_work();
        Ok(())
    }

    /// Returns when everything that was written before this call has been handed to RocksDB.
    pub async fn write_dirty(&self) -> Result<(), StoreError> {
        self.write_behind.pass().await
    }

    /// Drops from the disk what everybody can do without: the old end in which everything has expired. Done once a minute
    /// by itself. Blocks.
    pub fn drop_expired(&self, now: UnixSeconds) {
        self.quota
            .drop_expired(&self.rocks, self.rocks.table_bytes(), now);
    }

    /// Whether an item of these lengths is within the limit.
    pub fn fits(&self, key_len: usize, flags: u64, data_len: usize) -> bool {
        item_size(key_len, flags, data_len) <= self.max_item_size
    }

    /// The largest item, in bytes as [`item_size`] counts them.
    pub fn max_item_size(&self) -> usize {
        self.max_item_size
    }

    /// Where the database went that did not open, if that happened at this start.
    pub fn set_aside(&self) -> Option<&Path> {
        self.set_aside.as_deref()
    }

    /// Has `tell` called, by a thread of its own, whenever files are dropped from the disk.
    pub fn on_drop(&self, tell: impl Fn(DroppedFiles) + Send + Sync + 'static) {
        self.dropped.tell(Box::new(tell));
    }

    /// The live item under `key`, which has been brought to memory if it was not there.
    fn resident(
        &self,
        shard: &mut Locked<'_>,
        key: &[u8],
        now: UnixSeconds,
    ) -> Result<Option<Item>, Blocked> {
        match shard.find(shard.hash(), key) {
            Found::Item(item) => {
                let attributes = item.attributes();
                if self.liveness.is_live(key, attributes, now) {
                    Ok(Some(item))
                } else {
                    self.found_dead.count(attributes, now);
                    Ok(None)
                }
            }
            Found::Absent => Ok(None),
            Found::Loading(loading) => Err(Blocked::Loading(loading)),
            Found::Unknown => self.fetch(shard, key, now),
        }
    }

    fn fetch(
        &self,
        shard: &mut Locked<'_>,
        key: &[u8],
        now: UnixSeconds,
    ) -> Result<Option<Item>, Blocked> {
        match self.rocks.get_from_memory(key).map_err(StoreError::Read)? {
            InMemory::Nothing => Ok(None),
            InMemory::Record(record) => {
                let header = record::header(&record).filter(|header| {
                    let live = self.liveness.is_live_record(key, header.attributes, now);
                    if !live {
                        self.found_dead.count(header.attributes, now);
                    }
                    live
                });
                let item = header.map(|header| record::item(key, header, &record, now));
                if let Some(item) = &item {
                    self.fetched.fetch_add(1, Ordering::Relaxed);
                    load::keep(shard, item, &self.quota);
                }
                Ok(item)
            }
            InMemory::OnDisk => {
                let loading = shard.begin_load(key);
                self.loaders.load(key, shard.place(), &loading, now);
                Err(Blocked::Loading(loading))
            }
        }
    }

    fn next_cas(&self) -> Result<u64, StoreError> {
        self.cas
            .next(|reserved| self.set_marks(&[(Mark::CasReserved, reserved)]))
    }

    fn set_marks(&self, marks: &[(Mark, u64)]) -> Result<(), StoreError> {
        self.rocks.set_marks(marks).map_err(StoreError::Mark)
    }
}

/// Whether the disk keeps up with what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Enough,
    /// Writers wait for [`Store::more_room`].
    Soon,
    /// The disk takes nothing, and memory holds as much for it as it may: what is written now would be lost.
    None,
}
