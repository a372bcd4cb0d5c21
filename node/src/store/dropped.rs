//! What RocksDB drops when its files take too much: whole files, the oldest first.
//!
//! Owns the counts of what was in them, and tells whoever wants to know. A record that is dropped is not always an item
//! that is lost: it may have been overwritten, or written again, since, or have expired.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rocksdb::event_listener::{CompactionJobInfo, DBCompactionReason, EventListener};

/// Files that were dropped together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedFiles {
    pub files: u64,
    /// What was in them: items, and that there is none under a key.
    pub records: u64,
    /// Whether all of it had expired: otherwise the disk quota was reached.
    pub expired: bool,
}

type Tell = Box<dyn Fn(DroppedFiles) + Send + Sync>;

/// The counts since the start.
pub(super) struct Dropped {
    /// What the files may take.
    limit: u64,
    /// The limit is lower for a moment, so that what has expired goes.
    only_expired: AtomicBool,
    evicted: AtomicU64,
    reclaimed: AtomicU64,
    tell: OnceLock<Tell>,
}

impl fmt::Debug for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dropped").finish_non_exhaustive()
    }
}

impl Dropped {
    /// `limit` is what the files may take.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            only_expired: AtomicBool::new(false),
            evicted: AtomicU64::default(),
            reclaimed: AtomicU64::default(),
            tell: OnceLock::new(),
        }
    }

    /// From now on the files may take so much.
    pub(super) fn note_limit(&self, limit: u64) {
        self.only_expired
            .store(limit < self.limit, Ordering::Relaxed);
    }

    /// Records that were dropped because the quota was reached.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Records that were dropped because all around them had expired.
    pub(super) fn reclaimed(&self) -> u64 {
        self.reclaimed.load(Ordering::Relaxed)
    }

    /// Has `tell` called, by a thread of RocksDB, whenever files are dropped. Only the first call has an effect.
    pub(super) fn tell(&self, tell: Tell) {
        // There is one store per node, and one to tell.
        let _ = self.tell.set(tell);
    }

    fn count(&self, files: u64, records: u64) {
        let dropped = DroppedFiles {
            files,
            records,
            expired: self.only_expired.load(Ordering::Relaxed),
        };
        let sum = if dropped.expired {
            &self.reclaimed
        } else {
            &self.evicted
        };
        sum.fetch_add(records, Ordering::Relaxed);
        if let Some(tell) = self.tell.get() {
            tell(dropped);
        }
    }
}

/// Hears from RocksDB.
pub(super) struct Listener(pub(super) Arc<Dropped>);

impl EventListener for Listener {
    fn on_compaction_completed(&self, job: &CompactionJobInfo) {
        if job.compaction_reason() != DBCompactionReason::KFifomaxSize
            || job.output_file_count() != 0
        {
            return;
        }
        let records = job
            .table_properties()
            .map(|(_, properties)| properties.num_entries())
            .sum();
        self.0.count(job.input_file_count() as u64, records);
    }
}
