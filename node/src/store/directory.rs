//! The directory that a node keeps its database in.
//!
//! Owns its layout and its lock; what is inside the database it does not know.
//!
//! ```text
//!   db_path/
//!     petracache.lock               locked while a node runs on the directory
//!     items/                        the RocksDB database
//!     incoming.sst                  a table file that is being written and not part of the database yet
//!     set-aside-1767225600/         a database that did not open, kept for whoever wants to look
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::clock::UnixSeconds;

const LOCK_FILE: &str = "petracache.lock";
const DATABASE: &str = "items";
const INCOMING: &str = "incoming.sst";

#[derive(Debug, Error)]
pub enum DirectoryError {
    #[error(
        "another process is running on {}: stop it, or give this one a different --db-path",
        path.display()
    )]
    InUse { path: PathBuf },
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

/// A directory that this process, and no other, works on. The lock ends with the value or the process.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Creates the directory if need be and locks it.
    pub(super) fn acquire(path: &Path) -> Result<Self, DirectoryError> {
        let failed = |action| {
            let path = path.to_path_buf();
            move |source| DirectoryError::Io {
                action,
                path,
                source,
            }
        };
        fs::create_dir_all(path).map_err(failed("create"))?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK_FILE))
            .map_err(failed("write to"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_path_buf(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(DirectoryError::InUse {
                path: path.to_path_buf(),
            }),
            Err(TryLockError::Error(source)) => Err(failed("lock")(source)),
        }
    }

    /// Where RocksDB works.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Where a table file is built before RocksDB has it.
    pub(super) fn incoming(&self) -> PathBuf {
        self.path.join(INCOMING)
    }

    /// Renames the database out of the way and says where it is now.
    pub(super) fn set_database_aside(&self, now: UnixSeconds) -> Result<PathBuf, DirectoryError> {
        let aside = (0..)
            .map(|attempt: u32| match attempt {
                0 => self.path.join(format!("set-aside-{now}")),
                _ => self.path.join(format!("set-aside-{now}-{attempt}")),
            })
            .find(|candidate| !candidate.exists())
            .unwrap_or_else(|| self.path.join("set-aside"));
        fs::rename(self.database(), &aside).map_err(|source| DirectoryError::Io {
            action: "set aside",
            path: self.database(),
            source,
        })?;
        Ok(aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_worked_on_by_one_at_a_time() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let first = Directory::acquire(dir.path()).expect("free");
        let refused = Directory::acquire(dir.path()).expect_err("in use");
        assert!(
            refused
                .to_string()
                .contains("another process is running on"),
            "{refused}"
        );
        drop(first);
        Directory::acquire(dir.path()).expect("free again");
    }

    #[test]
    fn databases_set_aside_in_the_same_second_are_all_kept() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let directory = Directory::acquire(dir.path()).expect("free");
        for expected in ["set-aside-7", "set-aside-7-1", "set-aside-7-2"] {
            fs::create_dir(directory.database()).expect("a database");
            let aside = directory
                .set_database_aside(UnixSeconds(7))
                .expect("renamed");
            assert_eq!(aside, dir.path().join(expected));
            assert!(!directory.database().exists());
        }
    }
}
