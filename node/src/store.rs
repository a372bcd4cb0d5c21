//! The items: reading, changing and flushing them, and opening and closing what they live in.
//!
//! Owns the seam between commands and storage. It knows no protocol, and takes the time from its caller. A memory
//! tier belongs between [`Store`] and [`rocks`]: nothing above would notice.
//!
//! ```text
//!   Store ── stripes ── liveness ── record ── rocks
//!     get: is it alive?                        │
//!     update: lock, read, decide, number, write ── commit: as durable as promised
//! ```
//!
//! Invariants: a cas number is never used twice, not even after a crash; nothing that was written before a
//! `flush_all` is served after it, not even after a restart; a database is renamed but never deleted.

mod cas;
mod compaction;
mod directory;
mod durability;
pub mod item;
mod liveness;
mod open;
pub mod record;
mod rocks;
mod stripes;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::clock::{Clock, UnixSeconds};

use cas::CasSequence;
use directory::Directory;
pub use directory::DirectoryError;
pub use durability::Durability;
use durability::LogFlusher;
use item::{Expiry, Item, item_size};
use liveness::Liveness;
pub use open::OpenError;
use open::open_or_set_aside;
use record::Header;
pub use rocks::RocksFigures;
use rocks::{Mark, Rocks};
use stripes::Stripes;

/// The files that RocksDB holds open at most.
pub const MAX_OPEN_FILES: u64 = rocks::MAX_OPEN_FILES as u64;

/// How the items are kept. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageOptions {
    pub db_path: PathBuf,
    pub durability: Durability,
    /// The timer of [`Durability::Interval`].
    pub flush_interval: Duration,
    /// Counted as memcached counts, see [`item_size`].
    pub max_item_size: u64,
    /// Recently read blocks, indexes and filters.
    pub block_cache_size: u64,
    /// What is written is collected in this much memory before it becomes a file.
    pub write_buffer_size: u64,
    /// So many of them may wait to be written before writers are slowed.
    pub max_write_buffer_number: i32,
    pub target_file_size_base: u64,
    pub max_background_jobs: i32,
    pub enable_compression: bool,
    /// Whether compaction removes what has expired.
    pub enable_ttl_compaction: bool,
}

impl StorageOptions {
    /// The most that unwritten data takes.
    pub fn memtable_memory(&self) -> u64 {
        self.write_buffer_size
            .saturating_mul(u64::from(self.max_write_buffer_number.unsigned_abs()))
    }
}

/// What went wrong with the disk while serving. The item it happened to is unchanged.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("cannot read an item: {0}")]
    Read(rocksdb::Error),
    #[error("cannot write an item: {0}")]
    Write(rocksdb::Error),
    #[error("cannot write the store's own marks: {0}")]
    Mark(rocksdb::Error),
    #[error("cannot flush: {0}")]
    Flush(rocksdb::Error),
}

/// What [`Store::update`] does with an item.
#[derive(Debug)]
pub enum Change<'a> {
    /// Nothing.
    Keep,
    /// Replaces it by a new version, which gets a new cas.
    Put {
        flags: u64,
        expiry: Expiry,
        data: Cow<'a, [u8]>,
    },
    /// Changes when it expires; the version and its cas stay.
    Expire(Expiry),
    Delete,
}

/// Items under keys. Shared by all threads.
pub struct Store {
    rocks: Arc<Rocks>,
    _log_flusher: Option<LogFlusher>,
    stripes: Stripes,
    cas: CasSequence,
    liveness: Arc<Liveness>,
    /// Held while a `flush_all` is carried out.
    flushing: Mutex<()>,
    durability: Durability,
    max_item_size: usize,
    set_aside: Option<PathBuf>,
    /// Last, so that the lock outlives the database.
    _directory: Directory,
}

impl Store {
    /// Opens the database of `options.db_path`. One that does not open is set aside and an empty one takes its place.
    pub fn open(options: &StorageOptions, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let directory = Directory::acquire(&options.db_path)?;
        let liveness = Arc::new(Liveness::default());
        let (rocks, set_aside) = open_or_set_aside(&directory, options, &clock, &liveness)?;
        let unreadable = |source| OpenError::Database {
            path: directory.database(),
            source,
        };
        let mark = |mark| {
            rocks
                .mark(mark)
                .map(Option::unwrap_or_default)
                .map_err(unreadable)
        };
        liveness.flush_below(mark(Mark::DeadBelow)?);
        liveness.flush_at(UnixSeconds(
            u32::try_from(mark(Mark::FlushDue)?).unwrap_or(u32::MAX),
        ));
        let cas = CasSequence::resume(mark(Mark::CasReserved)?);
        let rocks = Arc::new(rocks);
        let flusher = match options.durability {
            Durability::Interval => Some(
                LogFlusher::start(Arc::clone(&rocks), options.flush_interval)
                    .map_err(OpenError::Thread)?,
            ),
            Durability::None | Durability::Always | Durability::Fsync => None,
        };
        Ok(Self {
            rocks,
            _log_flusher: flusher,
            stripes: Stripes::default(),
            cas,
            liveness,
            flushing: Mutex::default(),
            durability: options.durability,
            max_item_size: usize::try_from(options.max_item_size).unwrap_or(usize::MAX),
            set_aside,
            _directory: directory,
        })
    }

    /// The item under `key`, if it is there and alive. May block on the disk.
    pub fn get(&self, key: &[u8], now: UnixSeconds) -> Result<Option<Item>, StoreError> {
        self.carry_out_due_flush(now)?;
        self.read(key, now)
    }

    /// Puts an item under `key` whatever was there, and returns its cas. May block on the disk.
    pub fn set(
        &self,
        key: &[u8],
        flags: u64,
        expiry: Expiry,
        data: &[u8],
        now: UnixSeconds,
    ) -> Result<u64, StoreError> {
        self.carry_out_due_flush(now)?;
        let _guard = self.stripes.lock(key);
        self.put(key, flags, expiry, data, now)
    }

    /// Reads the item under `key`, lets `decide` choose what becomes of it, and does that before any other
    /// thread sees or changes the item. Returns what `decide` returned. May block on the disk.
    pub fn update<'a, R>(
        &self,
        key: &[u8],
        now: UnixSeconds,
        decide: impl FnOnce(Option<&Item>) -> (Change<'a>, R),
    ) -> Result<R, StoreError> {
        self.carry_out_due_flush(now)?;
        let _guard = self.stripes.lock(key);
        let item = self.read(key, now)?;
        let (change, result) = decide(item.as_ref());
        match (change, item) {
            (
                Change::Put {
                    flags,
                    expiry,
                    data,
                },
                _,
            ) => {
                self.put(key, flags, expiry, &data, now)?;
            }
            (Change::Expire(expiry), Some(item)) => {
                let header = Header {
                    expiry,
                    flags: item.flags,
                    cas: item.cas,
                };
                self.write(key, header, &item.data, now)?;
            }
            (Change::Delete, Some(_)) => self.rocks.delete(key).map_err(StoreError::Write)?,
            (Change::Keep, _) | (Change::Expire(_) | Change::Delete, None) => {}
        }
        Ok(result)
    }

    /// Makes everything that was written so far dead: at once, or from `due` on. Blocks until the disk has it.
    pub fn flush_all(&self, due: Option<UnixSeconds>, now: UnixSeconds) -> Result<(), StoreError> {
        // An earlier flush that has come due is not undone by a later one.
        self.carry_out_due_flush(now)?;
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        match due {
            Some(due) if due > now => {
                self.set_marks(&[(Mark::FlushDue, due.0.into())])?;
                self.liveness.flush_at(due);
                Ok(())
            }
            _ => self.flush_now(),
        }
    }

    /// Makes what was written before this call as durable as the mode promises; called before a write is
    /// acknowledged. Blocks on the disk in mode `fsync`, for a system call in mode `always`, else not at all.
    pub fn commit(&self) -> Result<(), StoreError> {
        match self.durability {
            Durability::None | Durability::Interval => Ok(()),
            Durability::Always => self.rocks.flush_log(false).map_err(StoreError::Flush),
            Durability::Fsync => self.rocks.flush_log(true).map_err(StoreError::Flush),
        }
    }

    /// Writes everything to files and ends background work, so that the next start is quick. The last call
    /// before the store is dropped. Blocks.
    pub fn close(&self) -> Result<(), StoreError> {
        self.rocks.flush_all_to_files().map_err(StoreError::Flush)?;
        self.rocks.stop_background_work();
        Ok(())
    }

    /// Removes from the disk what is dead. Blocks for as long as rewriting everything takes.
    pub fn compact(&self) {
        self.rocks.compact();
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

    /// The database seen from outside. Blocks for microseconds.
    pub fn figures(&self) -> RocksFigures {
        self.rocks.figures()
    }

    fn read(&self, key: &[u8], now: UnixSeconds) -> Result<Option<Item>, StoreError> {
        let Some(record) = self.rocks.get(key).map_err(StoreError::Read)? else {
            return Ok(None);
        };
        let live = record::header(&record).filter(|header| self.liveness.is_live(*header, now));
        Ok(live.map(|header| record::item(header, &record)))
    }

    fn put(
        &self,
        key: &[u8],
        flags: u64,
        expiry: Expiry,
        data: &[u8],
        now: UnixSeconds,
    ) -> Result<u64, StoreError> {
        let cas = self.next_cas()?;
        self.write(key, Header { expiry, flags, cas }, data, now)?;
        Ok(cas)
    }

    /// An item that has expired already only takes the old one away.
    fn write(
        &self,
        key: &[u8],
        header: Header,
        data: &[u8],
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        if header.expiry.has_passed(now) {
            return self.rocks.delete(key).map_err(StoreError::Write);
        }
        let mut record = Vec::new();
        record::encode(header, data, &mut record);
        self.rocks.put(key, &record).map_err(StoreError::Write)
    }

    fn next_cas(&self) -> Result<u64, StoreError> {
        self.cas
            .next(|reserved| self.set_marks(&[(Mark::CasReserved, reserved)]))
    }

    fn set_marks(&self, marks: &[(Mark, u64)]) -> Result<(), StoreError> {
        self.rocks.set_marks(marks).map_err(StoreError::Mark)
    }

    fn carry_out_due_flush(&self, now: UnixSeconds) -> Result<(), StoreError> {
        if !self.liveness.flush_is_due(now) {
            return Ok(());
        }
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.liveness.flush_is_due(now) {
            self.flush_now()
        } else {
            Ok(())
        }
    }

    /// Needs `flushing` to be held.
    fn flush_now(&self) -> Result<(), StoreError> {
        let cas = self.next_cas()?;
        self.set_marks(&[(Mark::DeadBelow, cas), (Mark::FlushDue, 0)])?;
        self.liveness.flush_below(cas);
        Ok(())
    }
}
