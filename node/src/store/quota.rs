//! How much of the disk is used, and which items must be saved from what is dropped.
//!
//! Owns the rules of the disk quota. RocksDB keeps its files in the order of their age and drops the oldest when they
//! take more than they may. Before that happens, items that are in use are written again: those in the memory tier,
//! and those that are read from a file that will be dropped soon. What only lies there goes: the quota keeps what is
//! new and what is used.
//!
//! | part of the quota | for                                                     |
//! |-------------------|---------------------------------------------------------|
//! | 3/4               | table files                                             |
//! | 1/8               | files that are being written while those they replace   |
//! |                   | are still there                                         |
//! | 1/8               | the write-ahead log, and what RocksDB says about itself |

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use tracing::{info, warn};

use super::ages::Ages;
use super::item::Expiry;
use super::memory::Memory;
use super::rocks::Rocks;
use crate::clock::UnixSeconds;

/// What the database's directory may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskQuota {
    Bytes(u64),
    /// Of the file system that the directory is on.
    Percent(u8),
}

impl DiskQuota {
    /// The quota in bytes for `directory`.
    pub(super) fn of(self, directory: &Path) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Percent(percent) => {
                let disk = rustix::fs::statvfs(directory)?;
                Ok(disk.f_blocks.saturating_mul(disk.f_frsize) / 100 * u64::from(percent))
            }
        }
    }
}

/// How often it is looked whether expired data can be dropped.
const LOOK_EVERY_SECONDS: u32 = 60;
/// RocksDB drops files within milliseconds once it may.
const DROP_POLL: Duration = Duration::from_millis(20);
const DROP_POLLS: u32 = 100;

/// The most that table files may take.
pub(super) fn table_bytes(quota: u64) -> u64 {
    quota / 4 * 3
}

/// The largest file that smaller ones are brought together in. The fewer files, the fewer a look-up has to ask.
pub(super) fn largest_merge(quota: u64) -> u64 {
    quota / 24
}

/// The most that one memtable may take: files larger than that are not brought together.
pub(super) fn largest_memtable(quota: u64) -> u64 {
    quota / 96
}

/// The most that the write-ahead log may take.
pub(super) fn log_bytes(quota: u64) -> u64 {
    quota / 16
}

/// Waits until the table files take no more than this, or it seems that they never will.
fn wait_for_drop(rocks: &Rocks, bytes: u64) {
    for _ in 0..DROP_POLLS {
        if rocks.table_bytes() <= bytes {
            break;
        }
        sleep(DROP_POLL);
    }
}

/// The state of the quota. Written to by the write-behind thread alone.
pub(super) struct Quota {
    ages: Mutex<Ages>,
    bytes: u64,
    /// See [`Ages::endangered`].
    endangered: AtomicU32,
    looked: AtomicU32,
    rewritten: AtomicU64,
}

impl Quota {
    /// The quota of `bytes` for the database `rocks`.
    pub(super) fn open(
        bytes: u64,
        rocks: &Rocks,
        now: UnixSeconds,
    ) -> Result<Self, rocksdb::Error> {
        let tables = table_bytes(bytes);
        let ages = match rocks.ages()? {
            None if rocks.is_empty() => Ages::of_nothing(tables, now),
            encoded => Ages::resume(&encoded.unwrap_or_default(), tables, now),
        };
        // From here on it is incomplete, until it is finished again.
        rocks.set_ages(&ages.encode())?;
        Ok(Self {
            ages: Mutex::new(ages),
            bytes,
            endangered: AtomicU32::new(0),
            looked: AtomicU32::new(now.0),
            rewritten: AtomicU64::new(0),
        })
    }

    /// Keeps the outline for the next start. Nothing may be written afterwards.
    pub(super) fn close(&self, rocks: &Rocks) -> Result<(), rocksdb::Error> {
        rocks.set_ages(&self.lock().finish())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Items that were written again so that they are not dropped, since the start.
    pub(super) fn rewritten(&self) -> u64 {
        self.rewritten.load(Ordering::Relaxed)
    }

    /// Whether an item whose record is as old as this must be written again if it is to stay.
    pub(super) fn endangers(&self, written: UnixSeconds) -> bool {
        written.0 <= self.endangered.load(Ordering::Relaxed)
    }

    pub(super) fn count_rewritten(&self, items: usize) {
        self.rewritten.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// Everything that was written so far is dead.
    pub(super) fn forget_all(&self) {
        self.lock().forget_all();
    }

    /// Notes what has been written.
    pub(super) fn note(&self, bytes: u64, lives_until: Expiry, now: UnixSeconds, rocks: &Rocks) {
        let mut ages = self.lock();
        if ages.note(bytes, lives_until, now)
            && let Err(error) = rocks.set_ages(&ages.encode())
        {
            // Without it, expired data of this time stays until the quota needs its space.
            warn!(%error, "cannot note how old what lies on the disk is");
        }
    }

    /// Writes again what will be dropped soon, and drops what nobody needs. Blocks.
    pub(super) fn keep(&self, memory: &Memory, rocks: &Rocks, now: UnixSeconds) {
        let on_disk = rocks.table_bytes();
        let endangered = self.lock().endangered(on_disk);
        if self.endangered.fetch_max(endangered.0, Ordering::Relaxed) < endangered.0 {
            self.count_rewritten(memory.write_again_older_than(endangered));
        }
        let looked = self.looked.load(Ordering::Relaxed);
        // The clock may have been set back.
        if now.0.abs_diff(looked) >= LOOK_EVERY_SECONDS {
            self.looked.store(now.0, Ordering::Relaxed);
            self.drop_expired(rocks, on_disk, now);
        }
    }

    /// Has RocksDB drop the oldest files, if all that is in them has expired.
    pub(super) fn drop_expired(&self, rocks: &Rocks, on_disk: u64, now: UnixSeconds) {
        // Files are a little larger than what is in them, and one may begin before the others.
        let needed = self.lock().needed(now) / 4 * 5 + largest_merge(self.bytes);
        if on_disk <= needed {
            return;
        }
        // Nothing is written meanwhile: this is the thread that writes.
        let dropped = rocks
            .limit_tables(needed)
            .map(|()| wait_for_drop(rocks, needed));
        let restored = rocks.limit_tables(table_bytes(self.bytes));
        match dropped.and(restored) {
            Ok(()) => info!(
                before = on_disk,
                after = rocks.table_bytes(),
                "files were dropped in which everything had expired"
            ),
            Err(error) => warn!(%error, "cannot drop files in which everything has expired"),
        }
    }

    /// Waits while RocksDB is behind with dropping: what is written meanwhile would exceed the quota. Blocks.
    pub(super) fn wait_for_space(&self, rocks: &Rocks) {
        wait_for_drop(
            rocks,
            table_bytes(self.bytes) + largest_memtable(self.bytes),
        );
    }

    fn lock(&self) -> MutexGuard<'_, Ages> {
        self.ages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
