//! Opening the store: the database, or a new one when it is damaged, and what works with it.
//!
//! Owns the difference between a database that is at fault and surroundings that are. A cache that refuses to
//! start is worse than a cold one, but data must not be given up for a wrong permission.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;
use tracing::{error, info};

use super::cas::CasSequence;
use super::compaction::DropDead;
use super::directory::{Directory, DirectoryError};
use super::dropped::Dropped;
use super::durability::LogSyncer;
use super::flush::{Parts, WriteBehind};
use super::heartbeat::{self, Heartbeat};
use super::leases::Leases;
use super::liveness::{FoundDead, Liveness};
use super::load::Loaders;
use super::memory::Memory;
use super::quota::{self, Quota};
use super::rocks::{Mark, Rocks};
use super::{Durability, StorageOptions, Store, StoreError};
use crate::clock::{Clock, UnixSeconds};

#[derive(Debug, Error)]
pub enum OpenError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("cannot open the database in {}: {source}", path.display())]
    Database {
        path: PathBuf,
        source: rocksdb::Error,
    },
    #[error("cannot find out how large the disk is: {0}")]
    Quota(io::Error),
    #[error("cannot start empty: {0}")]
    Empty(StoreError),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl Store {
    /// Opens the database of `options.db_path`. One that does not open is set aside and an empty one takes its place.
    /// Blocks.
    pub fn open(options: &StorageOptions, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let directory = Directory::acquire(&options.db_path)?;
        let disk_quota = options
            .disk_quota
            .of(&options.db_path)
            .map_err(OpenError::Quota)?;
        let liveness = Arc::new(Liveness::default());
        let dropped = Arc::new(Dropped::new(quota::table_bytes(disk_quota)));
        let filter = DropDead {
            clock: Arc::clone(&clock),
            liveness: Arc::clone(&liveness),
            dropped: Arc::clone(&dropped),
        };
        let (rocks, set_aside) =
            open_or_set_aside(&directory, options, disk_quota, &clock, &filter)?;
        let now = clock.now();
        let past = Past::read(&rocks, disk_quota, now).map_err(|source| OpenError::Database {
            path: directory.database(),
            source,
        })?;
        liveness.flush_below(past.dead_below);
        liveness.flush_at(past.flush_due);
        let max_item_size = as_usize(options.max_item_size);
        let parts = Parts {
            memory: Arc::new(Memory::new(as_usize(options.tier_size), max_item_size)),
            rocks: Arc::new(rocks),
            liveness,
            quota: Arc::new(past.quota),
            heartbeat: Heartbeat::new(options.keep_for),
            clock,
            incoming: directory.incoming(),
        };
        let store = Self {
            loaders: Loaders::start(&parts.memory, &parts.rocks, &parts.quota, &parts.liveness)
                .map_err(OpenError::Thread)?,
            _log_syncer: (options.durability == Durability::Interval)
                .then(|| LogSyncer::start(Arc::clone(&parts.rocks), options.flush_interval))
                .transpose()
                .map_err(OpenError::Thread)?,
            memory: Arc::clone(&parts.memory),
            rocks: Arc::clone(&parts.rocks),
            cas: CasSequence::resume(past.cas_reserved),
            leases: Leases::new(),
            liveness: Arc::clone(&parts.liveness),
            quota: Arc::clone(&parts.quota),
            write_behind: WriteBehind::start(parts, options.durability, options.flush_interval)
                .map_err(OpenError::Thread)?,
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
            .empty_if_away_too_long(past.away, options.keep_for)
            .and_then(|()| store.resume_purges(past.purges.as_deref()))
            .map_err(OpenError::Empty)?;
        Ok(store)
    }
}

/// What a database remembers of the time before.
struct Past {
    dead_below: u64,
    flush_due: UnixSeconds,
    cas_reserved: u64,
    purges: Option<Vec<u8>>,
    quota: Quota,
    away: Option<Duration>,
}

impl Past {
    fn read(rocks: &Rocks, disk_quota: u64, now: UnixSeconds) -> Result<Self, rocksdb::Error> {
        let mark = |mark| rocks.mark(mark).map(Option::unwrap_or_default);
        let flush_due = u32::try_from(mark(Mark::FlushDue)?).unwrap_or(u32::MAX);
        Ok(Self {
            dead_below: mark(Mark::DeadBelow)?,
            flush_due: UnixSeconds(flush_due),
            cas_reserved: mark(Mark::CasReserved)?,
            purges: rocks.purges()?,
            quota: Quota::open(disk_quota, rocks, now)?,
            away: heartbeat::away(rocks, now)?,
        })
    }
}

/// Opens the database in `directory`. One that does not open is moved out of the way, and said where to.
pub(super) fn open_or_set_aside(
    directory: &Directory,
    options: &StorageOptions,
    disk_quota: u64,
    clock: &Arc<dyn Clock>,
    filter: &DropDead,
) -> Result<(Rocks, Option<PathBuf>), OpenError> {
    let path = directory.database();
    let open = || Rocks::open(&path, options, disk_quota, filter.clone());
    let failed = |source| OpenError::Database {
        path: path.clone(),
        source,
    };
    match open() {
        Ok(rocks) => Ok((rocks, None)),
        Err(error) if is_damage(&error) && path.exists() => {
            let aside = directory.set_database_aside(clock.now())?;
            error!(
                %error,
                set_aside = %aside.display(),
                "THE DATABASE DOES NOT OPEN: it was set aside and this node starts EMPTY"
            );
            let rocks = open().map_err(failed)?;
            info!(path = %path.display(), "a new database was created");
            Ok((rocks, Some(aside)))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Whether the database is at fault. Anything else (permissions, a full disk, too few descriptors) would hit
/// an empty database just as well, and passes without the data being lost.
fn is_damage(error: &rocksdb::Error) -> bool {
    use rocksdb::ErrorKind;
    match error.kind() {
        ErrorKind::Corruption
        | ErrorKind::InvalidArgument
        | ErrorKind::NotFound
        | ErrorKind::NotSupported => true,
        ErrorKind::IOError => error.as_ref().contains("No such file or directory"),
        _ => false,
    }
}

fn as_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
