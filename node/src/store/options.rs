//! How a store is to be.

use std::path::PathBuf;
use std::time::Duration;

use super::{DiskQuota, Durability};

/// How the items are kept. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageOptions {
    pub db_path: PathBuf,
    pub durability: Durability,
    /// The timer of [`Durability::Interval`].
    pub flush_interval: Duration,
    /// Counted as memcached counts, see [`super::item::item_size`].
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
    /// What is kept in memory may take this much.
    pub fn memory(&self) -> u64 {
        self.tier_size + self.block_cache_size + self.memtable_memory()
    }

    /// The most that unwritten data takes.
    pub fn memtable_memory(&self) -> u64 {
        self.write_buffer_size
            .saturating_mul(u64::from(self.max_write_buffer_number.unsigned_abs()))
    }
}
