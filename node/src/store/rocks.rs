//! The items and the store's own marks in RocksDB.
//!
//! Owns every RocksDB option and call. It moves bytes under keys: what a record means, and which of them are
//! alive, is decided elsewhere. Every call may block on the disk unless it says otherwise.

mod table_file;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rocksdb::event_listener::{BackgroundErrorStatus, DBBackgroundErrorReason, EventListener};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompactionStyle, DBCompressionType,
    DBPinnableSlice, DBRawIterator, DataBlockIndexType, ErrorKind, FifoCompactOptions,
    IngestExternalFileOptions, LogLevel, Options, ReadOptions, ReadTier, WriteBatch, WriteOptions,
    properties,
};

use super::compaction::DropDead;
use super::dropped::{Dropped, Listener};
use super::quota;
use super::{Durability, StorageOptions};
pub(super) use table_file::TableFile;

/// The column family of the store's own marks, apart from the clients' keys.
const MARKS: &str = "marks";
/// The outline of [`super::ages`], among the marks.
const AGES: &[u8] = b"ages";
/// The history of [`super::purges`], among the marks.
const PURGES: &[u8] = b"purges";

/// Bits per key of the filters that spare misses the disk: about 1 % of them still go there.
const FILTER_BITS_PER_KEY: f64 = 10.0;
/// The descriptors that are left for RocksDB. All its files stay open, but there are few: see [`drop_oldest`].
pub(super) const MAX_OPEN_FILES: u16 = 1024;
/// So many files of about a memtable's size are brought together at a time.
const FEWEST_FILES_TO_MERGE: u64 = 4;
const MOST_FILES_TO_MERGE: u64 = 32;
/// RocksDB's own log, LOG in the database directory, may take this much space.
const INFO_LOG_BYTES: usize = 4 << 20;
const INFO_LOG_FILES: usize = 4;
/// Asks the operating system to write early and evenly instead of in one burst.
const BYTES_PER_SYNC: u64 = 1 << 20;
/// Given to the operating system at once: more would keep a core busy for longer than a request takes.
const FILE_BUFFER: u64 = 32 << 10;
/// Read ahead in each of the files that are brought together; there may be dozens, each with a buffer of its own.
const MERGE_READAHEAD: usize = 256 << 10;
/// The marks are a handful of short entries.
const MARKS_WRITE_BUFFER: usize = 256 << 10;

/// A mark of the store that must outlive the process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    /// The first cas number that has not been reserved.
    CasReserved,
    /// Records with a smaller cas are dead.
    DeadBelow,
    /// When a delayed `flush_all` takes effect, in Unix seconds; 0 for never.
    FlushDue,
    /// When the node was last there, in Unix seconds.
    Heartbeat,
}

impl Mark {
    fn key(self) -> &'static [u8] {
        match self {
            Self::CasReserved => b"cas-reserved",
            Self::DeadBelow => b"dead-below",
            Self::FlushDue => b"flush-due",
            Self::Heartbeat => b"heartbeat",
        }
    }
}

/// What RocksDB knows without the disk.
pub(super) enum InMemory<'a> {
    Record(DBPinnableSlice<'a>),
    Nothing,
    /// The disk must be asked.
    OnDisk,
}

/// Writes that are made together.
#[derive(Default)]
pub(super) struct Batch(WriteBatch);

impl Batch {
    pub(super) fn put(&mut self, key: &[u8], record: &[u8]) {
        self.0.put(key, record);
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        self.0.delete(key);
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.size_in_bytes()
    }
}

/// An open database.
pub(super) struct Rocks {
    db: DB,
    from_memory: ReadOptions,
    item_writes: WriteOptions,
    mark_writes: WriteOptions,
    block_cache: Cache,
    table_options: Options,
    memtable_size: usize,
    dropped: Arc<Dropped>,
    failing: AtomicBool,
}

impl Rocks {
    /// Opens the database in `path`, creating it when there is none.
    pub(super) fn open(
        path: &Path,
        options: &StorageOptions,
        disk_quota: u64,
        filter: DropDead,
    ) -> Result<Self, rocksdb::Error> {
        let dropped = Arc::clone(&filter.dropped);
        let block_cache = Cache::new_hyper_clock_cache(as_usize(options.block_cache_size), 0);
        let families = [
            ColumnFamilyDescriptor::new(
                "default",
                item_options(options, disk_quota, &block_cache, filter),
            ),
            ColumnFamilyDescriptor::new(MARKS, mark_options()),
        ];
        let mut database = database_options(options, disk_quota);
        database.add_event_listener(Listener(Arc::clone(&dropped)));
        let db = DB::open_cf_descriptors(&database, path, families)?;
        let mut item_writes = WriteOptions::default();
        item_writes.disable_wal(options.durability == Durability::None);
        let mut mark_writes = WriteOptions::default();
        mark_writes.set_sync(true);
        let mut from_memory = ReadOptions::default();
        from_memory.set_read_tier(ReadTier::BlockCache);
        Ok(Self {
            db,
            from_memory,
            item_writes,
            mark_writes,
            table_options: table_options(options, &block_cache),
            block_cache,
            memtable_size: as_usize(memtable_size(options, disk_quota)),
            dropped,
            failing: AtomicBool::new(false),
        })
    }

    /// The record under `key`, pinned in RocksDB's memory.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, rocksdb::Error> {
        self.db.get_pinned(key)
    }

    /// The record under `key` as far as RocksDB can tell without the disk. Does not block.
    pub(super) fn get_from_memory(&self, key: &[u8]) -> Result<InMemory<'_>, rocksdb::Error> {
        match self.db.get_pinned_opt(key, &self.from_memory) {
            Ok(Some(record)) => Ok(InMemory::Record(record)),
            Ok(None) => Ok(InMemory::Nothing),
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok(InMemory::OnDisk),
            Err(error) => Err(error),
        }
    }

    /// All records, in the order of their keys, as they are now. They pass the block cache by. Nothing is read ahead, since that would
    /// take a buffer for each file.
    pub(super) fn walk(&self) -> DBRawIterator<'_> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        self.db.raw_iterator_opt(options)
    }

    /// Writes the batch and empties it; how durable it is afterwards depends on the mode and on [`Rocks::sync_log`].
    pub(super) fn write(&self, batch: &mut Batch) -> Result<(), rocksdb::Error> {
        if batch.0.is_empty() {
            return Ok(());
        }
        let result = self.db.write_opt(&batch.0, &self.item_writes);
        batch.0.clear();
        self.failing.store(result.is_err(), Ordering::Relaxed);
        result
    }

    /// How much comes together in memory before it becomes a file, in bytes.
    pub(super) fn memtable_size(&self) -> usize {
        self.memtable_size
    }

    /// Begins a table file in `path`, past the log and the memtable.
    pub(super) fn table_file(&self, path: &Path) -> Result<TableFile<'_>, rocksdb::Error> {
        TableFile::create(&self.table_options, path)
    }

    /// Makes a finished file a part of the database, above everything that is there. It must lie on the same file system,
    /// and is moved.
    pub(super) fn add_table_file(&self, path: &Path) -> Result<(), rocksdb::Error> {
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let result = self.db.ingest_external_file_opts(&options, vec![path]);
        self.failing.store(result.is_err(), Ordering::Relaxed);
        result
    }

    /// Tries to go on after the disk has failed.
    pub(super) fn resume(&self) -> Result<(), rocksdb::Error> {
        self.db.resume()
    }

    /// What was last written under `mark`.
    pub(super) fn mark(&self, mark: Mark) -> Result<Option<u64>, rocksdb::Error> {
        let Some(family) = self.db.cf_handle(MARKS) else {
            return Ok(None);
        };
        let stored = self.db.get_cf(family, mark.key())?;
        Ok(stored.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?))))
    }

    /// Writes all `marks` or none, and returns when they are on the disk, in every mode.
    pub(super) fn set_marks(&self, marks: &[(Mark, u64)]) -> Result<(), rocksdb::Error> {
        let mut batch = WriteBatch::default();
        if let Some(family) = self.db.cf_handle(MARKS) {
            for (mark, value) in marks {
                batch.put_cf(family, mark.key(), value.to_le_bytes());
            }
        }
        self.db.write_opt(&batch, &self.mark_writes)
    }

    /// The history that was last kept.
    pub(super) fn purges(&self) -> Result<Option<Vec<u8>>, rocksdb::Error> {
        match self.db.cf_handle(MARKS) {
            Some(family) => self.db.get_cf(family, PURGES),
            None => Ok(None),
        }
    }

    /// Writes a history together with a mark, and returns when both are on the disk, in every mode.
    pub(super) fn set_purges(
        &self,
        history: &[u8],
        (mark, value): (Mark, u64),
    ) -> Result<(), rocksdb::Error> {
        let mut batch = WriteBatch::default();
        if let Some(family) = self.db.cf_handle(MARKS) {
            batch.put_cf(family, PURGES, history);
            batch.put_cf(family, mark.key(), value.to_le_bytes());
        }
        self.db.write_opt(&batch, &self.mark_writes)
    }

    /// The outline that was last kept.
    pub(super) fn ages(&self) -> Result<Option<Vec<u8>>, rocksdb::Error> {
        match self.db.cf_handle(MARKS) {
            Some(family) => self.db.get_cf(family, AGES),
            None => Ok(None),
        }
    }

    /// Whether there are no items.
    pub(super) fn is_empty(&self) -> bool {
        self.table_bytes() == 0 && self.property(properties::ESTIMATE_NUM_KEYS) == 0
    }

    /// Keeps an outline; it need not survive more than the items it is about.
    pub(super) fn set_ages(&self, outline: &[u8]) -> Result<(), rocksdb::Error> {
        match self.db.cf_handle(MARKS) {
            Some(family) => self.db.put_cf_opt(family, AGES, outline, &self.item_writes),
            None => Ok(()),
        }
    }

    /// What the table files take, in bytes.
    pub(super) fn table_bytes(&self) -> u64 {
        self.property(properties::TOTAL_SST_FILES_SIZE)
    }

    /// Has RocksDB drop the oldest table files when they take more than this.
    pub(super) fn limit_tables(&self, bytes: u64) -> Result<(), rocksdb::Error> {
        self.dropped.note_limit(bytes);
        let fifo = format!("{{max_table_files_size={bytes};allow_compaction=true}}");
        self.db
            .set_options(&[("compaction_options_fifo", fifo.as_str())])
    }

    /// Waits until the disk has the write-ahead log. The operating system has it already.
    pub(super) fn sync_log(&self) -> Result<(), rocksdb::Error> {
        self.db.flush_wal(true)
    }

    /// Whether the last write succeeded.
    pub(super) fn is_writable(&self) -> bool {
        !self.failing.load(Ordering::Relaxed)
    }

    /// Writes everything that is only in memory to files, so that the next start has no log to replay.
    pub(super) fn flush_all_to_files(&self) -> Result<(), rocksdb::Error> {
        self.db.flush_wal(true)?;
        self.db.flush()?;
        if let Some(family) = self.db.cf_handle(MARKS) {
            self.db.flush_cf(family)?;
        }
        Ok(())
    }

    /// Ends background work, so that dropping the database does not wait for a long compaction.
    pub(super) fn stop_background_work(&self) {
        self.db.cancel_all_background_work(true);
    }

    /// RocksDB's own figures, by the names they are exported under.
    pub(super) fn figures(&self) -> RocksFigures {
        let property = |name| self.property(name);
        RocksFigures {
            estimated_items: property(properties::ESTIMATE_NUM_KEYS),
            live_data_bytes: property(properties::ESTIMATE_LIVE_DATA_SIZE),
            file_bytes: property(properties::TOTAL_SST_FILES_SIZE),
            memtable_bytes: property(properties::CUR_SIZE_ALL_MEM_TABLES),
            block_cache_bytes: self.block_cache.get_usage() as u64,
            pending_compaction_bytes: property(properties::ESTIMATE_PENDING_COMPACTION_BYTES),
            running_compactions: property(properties::NUM_RUNNING_COMPACTIONS),
            running_flushes: property(properties::NUM_RUNNING_FLUSHES),
            background_errors: property(properties::BACKGROUND_ERRORS),
            write_stopped: property(properties::IS_WRITE_STOPPED),
        }
    }
}

impl Rocks {
    fn property(&self, name: &rocksdb::properties::PropName) -> u64 {
        self.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }
}

/// A look at the database from outside. Estimates are RocksDB's.
#[derive(Clone, Copy, Debug, Default)]
pub struct RocksFigures {
    /// Includes items that expired and have not been compacted away yet.
    pub estimated_items: u64,
    pub live_data_bytes: u64,
    pub file_bytes: u64,
    pub memtable_bytes: u64,
    pub block_cache_bytes: u64,
    pub pending_compaction_bytes: u64,
    pub running_compactions: u64,
    pub running_flushes: u64,
    pub background_errors: u64,
    /// 1 while RocksDB refuses writes until it has caught up.
    pub write_stopped: u64,
}

/// Leaves a full disk to [`Rocks::resume`]: RocksDB itself looks only every five seconds whether there is space again, and
/// refuses to resume meanwhile.
struct WaitForResume;

impl EventListener for WaitForResume {
    fn on_error_recovery_begin(
        &self,
        _: DBBackgroundErrorReason,
        _: &BackgroundErrorStatus,
        by_itself: &mut bool,
    ) {
        *by_itself = false;
    }
}

fn database_options(options: &StorageOptions, disk_quota: u64) -> Options {
    let mut db = Options::default();
    db.create_if_missing(true);
    db.create_missing_column_families(true);
    db.set_db_write_buffer_size(as_usize(options.memtable_memory()));
    // The marks are written rarely; without a bound their old log files would stay for ever.
    db.set_max_total_wal_size(quota::log_bytes(disk_quota));
    db.set_max_background_jobs(options.max_background_jobs);
    // All of them: without that there is no dropping of old files.
    db.set_max_open_files(-1);
    db.set_compaction_readahead_size(MERGE_READAHEAD);
    db.set_bytes_per_sync(BYTES_PER_SYNC);
    db.set_writable_file_max_buffer_size(FILE_BUFFER);
    db.set_max_log_file_size(INFO_LOG_BYTES);
    db.set_keep_log_file_num(INFO_LOG_FILES);
    db.set_log_level(LogLevel::Warn);
    // The figures are exported; a periodic dump into the log would only repeat them.
    db.set_stats_dump_period_sec(0);
    db.add_event_listener(WaitForResume);
    db
}

fn item_options(
    options: &StorageOptions,
    disk_quota: u64,
    block_cache: &Cache,
    filter: DropDead,
) -> Options {
    let mut items = table_options(options, block_cache);
    let memtable = memtable_size(options, disk_quota);
    items.set_write_buffer_size(as_usize(memtable));
    items.set_max_write_buffer_number(options.max_write_buffer_number);
    drop_oldest(&mut items, disk_quota, memtable);
    if options.enable_ttl_compaction {
        items.set_compaction_filter_factory(filter);
    }
    items
}

fn memtable_size(options: &StorageOptions, disk_quota: u64) -> u64 {
    options
        .write_buffer_size
        .min(quota::largest_memtable(disk_quota))
}

/// How a table file looks, whoever writes it.
fn table_options(options: &StorageOptions, block_cache: &Cache) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(block_cache);
    // Filters and indexes count against the cache, so that memory is bounded whatever the disk holds.
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_bloom_filter(FILTER_BITS_PER_KEY, false);
    table.set_initial_auto_readahead_size(0);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);

    let mut items = Options::default();
    items.set_block_based_table_factory(&table);
    items.set_bytes_per_sync(BYTES_PER_SYNC);
    items.set_writable_file_max_buffer_size(FILE_BUFFER);
    items.set_compression_type(if options.enable_compression {
        DBCompressionType::Lz4
    } else {
        DBCompressionType::None
    });
    items
}

/// Files lie in the order of their age. Each is written once, brought together with its neighbours once, and dropped when
/// it is the oldest and its space is needed: a write costs the disk three times its bytes at most, log included.
fn drop_oldest(items: &mut Options, disk_quota: u64, memtable: u64) {
    let merged = quota::largest_merge(disk_quota);
    let files = (merged / memtable.max(1)).clamp(FEWEST_FILES_TO_MERGE, MOST_FILES_TO_MERGE);
    let mut fifo = FifoCompactOptions::default();
    fifo.set_max_table_files_size(quota::table_bytes(disk_quota));
    fifo.set_allow_compaction(true);
    items.set_compaction_style(DBCompactionStyle::Fifo);
    items.set_fifo_compaction_options(&fifo);
    items.set_level_zero_file_num_compaction_trigger(i32::try_from(files).unwrap_or(i32::MAX));
    items.set_max_compaction_bytes(merged);
}

fn mark_options() -> Options {
    let mut marks = Options::default();
    marks.set_write_buffer_size(MARKS_WRITE_BUFFER);
    marks
}

fn as_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A small database in `path`, for the tests of those who use one.
#[cfg(test)]
pub(super) fn test_database(path: &Path) -> Rocks {
    let options = StorageOptions {
        db_path: path.to_path_buf(),
        durability: Durability::Interval,
        flush_interval: std::time::Duration::from_secs(1),
        max_item_size: 1 << 20,
        tier_size: 1 << 20,
        block_cache_size: 1 << 20,
        write_buffer_size: 1 << 20,
        max_write_buffer_number: 2,
        disk_quota: super::DiskQuota::Bytes(1 << 30),
        keep_for: None,
        max_background_jobs: 2,
        enable_compression: false,
        enable_ttl_compaction: true,
    };
    let filter = DropDead {
        clock: Arc::new(crate::clock::SystemClock),
        liveness: Arc::default(),
        dropped: Arc::new(Dropped::new(1 << 30)),
    };
    Rocks::open(&path.join("items"), &options, 1 << 30, filter).expect("a new database")
}
