//! Opening the database, or a new one when it is damaged.
//!
//! Owns the difference between a database that is at fault and surroundings that are. A cache that refuses to
//! start is worse than a cold one, but data must not be given up for a wrong permission.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use tracing::{error, info};

use crate::clock::Clock;

use super::compaction::DropDead;
use super::directory::{Directory, DirectoryError};
use super::rocks::Rocks;
use super::{StorageOptions, StoreError};

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
