//! What leaves the disk when RocksDB compacts: records that expired, were flushed, or are another node's.
//!
//! Owns the compaction filter. Each compaction looks at the clock once; it may drop a record late but never early.

use std::ffi::CStr;
use std::sync::Arc;

use rocksdb::CompactionDecision;
use rocksdb::compaction_filter::CompactionFilter;
use rocksdb::compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory};

use crate::clock::{Clock, UnixSeconds};

use super::dropped::Dropped;
use super::liveness::Liveness;
use super::record;

/// Makes a filter for each compaction.
#[derive(Clone)]
pub(super) struct DropDead {
    pub clock: Arc<dyn Clock>,
    pub liveness: Arc<Liveness>,
    /// Told what goes without being looked at.
    pub dropped: Arc<Dropped>,
}

impl CompactionFilterFactory for DropDead {
    type Filter = DropDeadFilter;

    fn create(&mut self, _context: CompactionFilterContext) -> DropDeadFilter {
        DropDeadFilter {
            now: self.clock.now(),
            liveness: Arc::clone(&self.liveness),
        }
    }

    fn name(&self) -> &CStr {
        c"petracache.drop-dead"
    }
}

/// Drops what is dead at the moment the compaction began.
pub(super) struct DropDeadFilter {
    now: UnixSeconds,
    liveness: Arc<Liveness>,
}

impl CompactionFilter for DropDeadFilter {
    fn filter(&mut self, _level: u32, key: &[u8], value: &[u8]) -> CompactionDecision {
        match record::header(value) {
            Some(header)
                if !self
                    .liveness
                    .is_live_record(key, header.attributes, self.now) =>
            {
                CompactionDecision::Remove
            }
            // What is not understood is not ours to delete.
            _ => CompactionDecision::Keep,
        }
    }

    fn name(&self) -> &CStr {
        c"petracache.drop-dead"
    }
}
