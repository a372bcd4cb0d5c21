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
mod compaction;
mod directory;
mod dropped;
mod dump;
mod durability;
mod flush;
mod heartbeat;
pub mod item;
mod leases;
mod liveness;
mod load;
mod lot;
mod memory;
mod open;
mod pace;
mod purges;
mod quota;
pub mod record;
mod rocks;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use petra_routing::Place;
use thiserror::Error;
use tracing::{info, warn};

use crate::clock::{Clock, UnixSeconds};

use cas::CasSequence;
use compaction::DropDead;
use directory::Directory;
pub use directory::DirectoryError;
use dropped::Dropped;
pub use dropped::DroppedFiles;
pub use dump::Entry;
pub use durability::Durability;
use durability::LogSyncer;
pub use flush::FlushFigures;
use flush::{Parts, WriteBehind};
use heartbeat::Heartbeat;
use item::{Attributes, Expiry, Item, Marks, item_size};
use leases::Leases;
use liveness::{FoundDead, Liveness};
pub use load::Loading;
use load::{Loaders, absent};
pub use memory::ShardFigures as MemoryFigures;
use memory::{Found, Locked, Memory, count_use};
pub use open::OpenError;
use open::open_or_set_aside;
use purges::Purges;
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

/// How the items are kept. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageOptions {
    pub db_path: PathBuf,
    pub durability: Durability,
    /// The timer of [`Durability::Interval`].
    pub flush_interval: Duration,
    /// Counted as memcached counts, see [`item_size`].
    pub max_item_size: u64,
    /// Items that are served without the disk.
    pub tier_size: u64,
    /// Recently read blocks, indexes and filters.
    pub block_cache_size: u64,
    /// What is written is collected in this much memory before it becomes a file.
    pub write_buffer_size: u64,
    /// So many of them may wait to be written before writers are slowed.
    pub max_write_buffer_number: i32,
    /// What the database's directory may take.
    pub disk_quota: DiskQuota,
    /// A node that was away for longer starts empty.
    pub keep_for: Option<Duration>,
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
        /// What is known about the new version from the start.
        marks: Marks,
    },
    /// Changes what may change of a version, which stays with its cas.
    Amend(Amendment),
    Delete,
}

/// What becomes of a version.
#[derive(Clone, Copy, Debug)]
pub struct Amendment {
    pub expiry: Expiry,
    /// Only the lasting ones are looked at.
    pub marks: Marks,
    /// Whether this counts as reading.
    pub read: bool,
}

/// What [`Store::update`] has done.
#[derive(Debug)]
pub struct Updated<R> {
    pub result: R,
    /// That of the version that was put, 0 if none was.
    pub cas: u64,
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
    /// Opens the database of `options.db_path`. One that does not open is set aside and an empty one takes its place.
    /// Blocks.
    pub fn open(options: &StorageOptions, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let directory = Directory::acquire(&options.db_path)?;
        let liveness = Arc::new(Liveness::default());
        let disk_quota = options
            .disk_quota
            .of(&options.db_path)
            .map_err(OpenError::Quota)?;
        let dropped = Arc::new(Dropped::new(quota::table_bytes(disk_quota)));
        let filter = DropDead {
            clock: Arc::clone(&clock),
            liveness: Arc::clone(&liveness),
            dropped: Arc::clone(&dropped),
        };
        let (rocks, set_aside) =
            open_or_set_aside(&directory, options, disk_quota, &clock, &filter)?;
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
        let purges = rocks.purges().map_err(unreadable)?;
        let quota = Quota::open(disk_quota, &rocks, clock.now()).map_err(unreadable)?;
        let quota = Arc::new(quota);
        let away = heartbeat::away(&rocks, clock.now()).map_err(unreadable)?;
        let rocks = Arc::new(rocks);
        let max_item_size = as_usize(options.max_item_size);
        let memory = Arc::new(Memory::new(as_usize(options.tier_size), max_item_size));
        let parts = Parts {
            memory: Arc::clone(&memory),
            rocks: Arc::clone(&rocks),
            liveness: Arc::clone(&liveness),
            quota: Arc::clone(&quota),
            heartbeat: Heartbeat::new(options.keep_for),
            clock,
            incoming: directory.incoming(),
        };
        let write_behind = WriteBehind::start(parts, options.durability, options.flush_interval);
        let log_syncer = (options.durability == Durability::Interval)
            .then(|| LogSyncer::start(Arc::clone(&rocks), options.flush_interval))
            .transpose()
            .map_err(OpenError::Thread)?;
        let store = Self {
            loaders: Loaders::start(&memory, &rocks, &quota, &liveness)
                .map_err(OpenError::Thread)?,
            write_behind: write_behind.map_err(OpenError::Thread)?,
            _log_syncer: log_syncer,
            memory,
            rocks,
            cas,
            leases: Leases::new(),
            liveness,
            quota,
            flushes_seconds: AtomicBool::new(false),
            flushing: Mutex::default(),
            dropped,
            found_dead: FoundDead::default(),
            fetched: AtomicU64::new(0),
            durability: options.durability,
            max_item_size,
            set_aside,
            _directory: directory,
        };
        store
            .empty_if_away_too_long(away, options.keep_for)
            .map_err(OpenError::Empty)?;
        store
            .resume_purges(purges.as_deref())
            .map_err(OpenError::Empty)?;
        Ok(store)
    }

    fn empty_if_away_too_long(
        &self,
        away: Option<Duration>,
        keep_for: Option<Duration>,
    ) -> Result<(), StoreError> {
        let (Some(away), Some(keep_for)) = (away, keep_for) else {
            return Ok(());
        };
        if away <= keep_for {
            return Ok(());
        }
        warn!(
            ?away,
            ?keep_for,
            "this node was away for too long to know what has changed: it starts EMPTY"
        );
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_now()
    }

    /// Nothing has been served yet, and memory is empty.
    fn resume_purges(&self, kept: Option<&[u8]>) -> Result<(), StoreError> {
        let Some(kept) = kept else {
            return Ok(());
        };
        if let Some(purges) = Purges::decode(kept) {
            self.liveness.purge(purges, 0);
            self.liveness.swept(self.liveness.sure_from());
            return Ok(());
        }
        warn!("this node does not understand what was said to be another node's: it starts EMPTY");
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_now()
    }

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

    /// From now on a `flush_all` also makes dead what is written in the rest of its second, as in a memcached without cas.
    pub fn flush_whole_seconds(&self) {
        self.flushes_seconds.store(true, Ordering::Relaxed);
    }

    /// Makes everything that was written so far dead: at once, or from `due` on. Blocks until the disk has it.
    pub fn flush_all(&self, due: Option<UnixSeconds>, now: UnixSeconds) -> Result<(), StoreError> {
        // An earlier flush that has come due is not undone by a later one.
        self.carry_out_due_flush(now)?;
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        match due {
            Some(due) if due > now => {
                if self.liveness.is_flushing() {
                    self.flush_now()?;
                }
                self.set_marks(&[(Mark::FlushDue, due.0.into())])?;
                self.liveness.flush_at(due);
                Ok(())
            }
            _ => self.flush_from(now),
        }
    }

    /// Where this node stands in its pool, if it was ever told.
    pub fn place(&self) -> Option<Place> {
        self.liveness.place()
    }

    /// Makes everything dead that was written so far and is another node's under `place`, unless that is known already.
    /// Returns whether it was news; [`Store::sweep`] follows then. Blocks until the disk has it.
    pub fn set_place(&self, place: Place) -> Result<bool, StoreError> {
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut purges = self.liveness.purges();
        if purges.place().is_some_and(|told| place.is_said_by(told)) {
            return Ok(false);
        }
        info!(
            ?place,
            "what was written so far and is another node's is dropped"
        );
        let is_everything = place.owns_nothing();
        let dead_below = purges.add(place, self.next_cas()?);
        let dead_below = dead_below.max(self.liveness.dead_below());
        self.rocks
            .set_purges(&purges.encode(), (Mark::DeadBelow, dead_below))
            .map_err(StoreError::Mark)?;
        self.liveness.purge(purges, dead_below);
        if is_everything {
            self.quota.forget_all();
        }
        Ok(true)
    }

    /// Takes out of memory what the last place has made dead, so that readers need not ask whose an item is. Takes every
    /// lock for a moment.
    pub fn sweep(&self, now: UnixSeconds) {
        let sure_from = self.liveness.sure_from();
        let is_gone =
            |item: &Item| item.cas() < sure_from && !self.liveness.is_kept(item.key(), item.cas());
        let items = self.memory.sweep(is_gone, now);
        self.liveness.swept(sure_from);
        info!(items, "memory is rid of what was dropped");
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

    fn carry_out_due_flush(&self, now: UnixSeconds) -> Result<(), StoreError> {
        if !self.liveness.flush_is_due(now) {
            return Ok(());
        }
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.liveness.flush_is_due(now) {
            Ok(())
        } else if self.liveness.is_flushing() {
            self.flush_now()
        } else {
            self.flush_from(now)
        }
    }

    /// Needs `flushing` to be held.
    fn flush_from(&self, now: UnixSeconds) -> Result<(), StoreError> {
        self.flush_now()?;
        if self.flushes_seconds.load(Ordering::Relaxed) {
            let until = now.plus(1);
            self.set_marks(&[(Mark::FlushDue, until.0.into())])?;
            self.liveness.flush_until(until);
        }
        Ok(())
    }

    /// Needs `flushing` to be held.
    fn flush_now(&self) -> Result<(), StoreError> {
        let cas = self.next_cas()?;
        self.set_marks(&[(Mark::DeadBelow, cas), (Mark::FlushDue, 0)])?;
        self.liveness.flush_below(cas);
        self.quota.forget_all();
        self.leases.revoke_all();
        Ok(())
    }
}

fn put(
    shard: &mut Locked<'_>,
    key: &[u8],
    attributes: Attributes,
    data: &[u8],
    marks: Marks,
    now: UnixSeconds,
) {
    let hash = shard.hash();
    if attributes.expiry.has_passed(now) {
        shard.write_absent(hash, absent(key, now));
    } else {
        let item = Item::new(key, attributes, data, now);
        item.set_marks(marks.only(Marks::LASTING.with(Marks::FETCHED)));
        shard.write(hash, item);
    }
}

/// What changes nothing is not written to the disk.
fn amend(shard: &mut Locked<'_>, item: &Item, amendment: Amendment, now: UnixSeconds) {
    if amendment.read {
        count_use(item, now);
    }
    let (old, expiry) = (item.marks(), item.expiry());
    let lasting = amendment.marks.only(Marks::LASTING);
    item.set_expiry(amendment.expiry);
    item.set_marks(old.without(Marks::LASTING).with(lasting));
    if amendment.expiry != expiry || lasting != old.only(Marks::LASTING) {
        let hash = shard.hash();
        shard.write_again(hash, item);
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

fn as_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
