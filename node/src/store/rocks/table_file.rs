//! A table file that is written outside of RocksDB, to be handed to it as a whole.
//!
//! Owns the file until it is finished. Much that is written at once costs a third of what it costs by way of the log
//! and the memtable: each record is copied and checked once instead of three times.

use std::fs;
use std::path::{Path, PathBuf};

use rocksdb::{Error, Options, SstFileWriter};

/// Records in the order of their keys, each key once. What is not finished is removed.
pub(in crate::store) struct TableFile<'a> {
    writer: SstFileWriter<'a>,
    path: PathBuf,
    finished: bool,
}

impl<'a> TableFile<'a> {
    /// Begins a file in `path`. What lies there is overwritten.
    pub(super) fn create(options: &'a Options, path: &Path) -> Result<Self, Error> {
        let mut writer = SstFileWriter::create(options);
        writer.open(path)?;
        Ok(Self {
            writer,
            path: path.to_path_buf(),
            finished: false,
        })
    }

    pub(in crate::store) fn put(&mut self, key: &[u8], record: &[u8]) -> Result<(), Error> {
        self.writer.put(key, record)
    }

    pub(in crate::store) fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        self.writer.delete(key)
    }

    /// Returns when the disk has all of it. A file without records cannot be finished.
    pub(in crate::store) fn finish(mut self) -> Result<(), Error> {
        self.writer.finish()?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for TableFile<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // What stays in spite of this is overwritten by the next one.
            let _ = fs::remove_file(&self.path);
        }
    }
}
