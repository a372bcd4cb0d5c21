//! One writer per key at a time.
//!
//! Owns the locks under which an item is read, decided about and written back. It does not know what they protect.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Enough that threads rarely meet by accident, at 8 bytes each.
const STRIPES: usize = 4096;

/// Locks that are shared by keys of equal hash.
pub(super) struct Stripes {
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Default for Stripes {
    fn default() -> Self {
        Self {
            locks: std::iter::repeat_with(Mutex::default)
                .take(STRIPES)
                .collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Stripes {
    /// Waits until no other thread works on a key of this stripe.
    pub(super) fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        let stripe = self.hasher.hash_one(key) as usize % STRIPES;
        // A panic elsewhere leaves no half-written item behind: RocksDB's writes are all or nothing.
        self.locks[stripe]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
