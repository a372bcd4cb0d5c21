//! Every item there is, one after the other.
//!
//! Owns the walk: over RocksDB as it is when the walk begins, while memory says what has become of each item since. An
//! item that is new after the beginning is not seen; nothing is seen twice. It holds one record at a time, and each
//! shard's lock for as long as one look takes.

use super::item::{Attributes, Marks, item_size};
use super::memory::Found;
use super::{Store, StoreError, record};
use crate::clock::UnixSeconds;

/// An item as it is listed.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub key: &'a [u8],
    pub attributes: Attributes,
    /// When it was last used, or was written if it has not been in memory since.
    pub accessed: UnixSeconds,
    /// Whether it was read since it came to memory.
    pub fetched: bool,
    /// What it counts against the item size limit, in bytes.
    pub size: usize,
}

impl Store {
    /// Calls `each` with every item that is alive, until it returns `false`. What is only in memory is not seen:
    /// [`Store::write_dirty`] comes first. Blocks on the disk.
    pub fn visit(
        &self,
        now: impl Fn() -> UnixSeconds,
        mut each: impl FnMut(&Entry<'_>) -> bool,
    ) -> Result<(), StoreError> {
        let mut records = self.rocks.walk();
        records.seek_to_first();
        while let Some((key, value)) = records.item() {
            let entry = self.entry(key, value, now());
            if entry.is_some_and(|entry| !each(&entry)) {
                return Ok(());
            }
            records.next();
        }
        records.status().map_err(StoreError::Read)
    }

    /// What there is to say about `key`, whose record was this when the walk began.
    fn entry<'a>(&self, key: &'a [u8], value: &[u8], now: UnixSeconds) -> Option<Entry<'a>> {
        let shard = self.memory.lock(self.memory.place(key));
        let entry = match shard.find(shard.hash(), key) {
            Found::Absent => return None,
            Found::Item(item) => {
                let attributes = item.attributes();
                Entry {
                    key,
                    attributes,
                    accessed: item.accessed(),
                    fetched: item.has(Marks::FETCHED),
                    size: item_size(key.len(), attributes.flags, item.data().len()),
                }
            }
            Found::Loading(_) | Found::Unknown => {
                let header = record::header(value)?;
                let data_len = value.len().saturating_sub(record::HEADER_LEN);
                Entry {
                    key,
                    attributes: header.attributes,
                    accessed: header.written,
                    fetched: false,
                    size: item_size(key.len(), header.attributes.flags, data_len),
                }
            }
        };
        self.liveness
            .is_live_record(key, entry.attributes, now)
            .then_some(entry)
    }
}
