//! Who is to fill a miss: the leases of "Scaling Memcache at Facebook" (NSDI 2013).
//!
//! Owns the tokens. One client at a time gets one for a key that has no item, and may store an item with it as long as
//! nobody else has written or deleted under the key. Tokens are kept in memory only: after a restart there are none, and
//! who holds one stores nothing.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::UnixSeconds;

/// How long others wait for the client that has the token; as long as mcrouter remembers where a token came from.
const TERM_SECONDS: u32 = 10;
/// Leases at a time, about 4 MiB. Beyond that the oldest ends early.
const MAX_LEASES: usize = 1 << 16;

/// The leases of all keys. To be asked under the lock of the key's shard, so that no write comes between.
#[derive(Debug)]
pub(super) struct Leases {
    /// A key is its hash here: two keys that share one share a lease, which costs at most a miss.
    hasher: RandomState,
    table: Mutex<Table>,
    /// Of the table; looked at by every write.
    len: AtomicUsize,
}

#[derive(Debug)]
struct Table {
    leases: HashMap<u64, Lease>,
    /// In the order in which they were granted, which is that in which they end. Some have been given back.
    granted: VecDeque<(u64, Lease)>,
    next_token: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lease {
    token: u64,
    end: UnixSeconds,
}

impl Leases {
    pub(super) fn new() -> Self {
        let hasher = RandomState::new();
        // Not where an earlier run began, and above what has a meaning of its own.
        let next_token = (hasher.hash_one(TERM_SECONDS) >> 1) | 1 << 32;
        Self {
            hasher,
            table: Mutex::new(Table {
                leases: HashMap::new(),
                granted: VecDeque::new(),
                next_token,
            }),
            len: AtomicUsize::new(0),
        }
    }

    /// A token for `key`, unless another client has one.
    pub(super) fn grant(&self, key: &[u8], now: UnixSeconds) -> Option<u64> {
        let hash = self.hasher.hash_one(key);
        let mut table = self.table();
        let held = table.leases.get(&hash);
        if held.is_some_and(|lease| now < lease.end) {
            return None;
        }
        let token = table.grant(hash, now);
        self.len.store(table.leases.len(), Ordering::Relaxed);
        Some(token)
    }

    /// Whether `token` is the one for `key`. It is not from then on.
    pub(super) fn redeem(&self, key: &[u8], token: u64, now: UnixSeconds) -> bool {
        let hash = self.hasher.hash_one(key);
        let mut table = self.table();
        let held = table.leases.get(&hash);
        let valid = held.is_some_and(|lease| lease.token == token && now < lease.end);
        if valid {
            table.leases.remove(&hash);
            self.len.store(table.leases.len(), Ordering::Relaxed);
        }
        valid
    }

    /// Something else has been done under `key`.
    pub(super) fn revoke(&self, key: &[u8]) {
        if self.len.load(Ordering::Relaxed) == 0 {
            return;
        }
        let hash = self.hasher.hash_one(key);
        let mut table = self.table();
        table.leases.remove(&hash);
        self.len.store(table.leases.len(), Ordering::Relaxed);
    }

    pub(super) fn revoke_all(&self) {
        let mut table = self.table();
        table.leases.clear();
        table.granted.clear();
        self.len.store(0, Ordering::Relaxed);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn grant(&mut self, hash: u64, now: UnixSeconds) -> u64 {
        while let Some((hash, oldest)) = self.granted.front().copied()
            && (oldest.end <= now || self.granted.len() >= MAX_LEASES)
        {
            self.granted.pop_front();
            if self.leases.get(&hash) == Some(&oldest) {
                self.leases.remove(&hash);
            }
        }
        let lease = Lease {
            token: self.next_token,
            end: now.plus(TERM_SECONDS),
        };
        self.next_token += 1;
        self.leases.insert(hash, lease);
        self.granted.push_back((hash, lease));
        lease.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1000);

    #[test]
    fn a_key_has_one_lease_at_a_time() {
        let leases = Leases::new();
        let token = leases.grant(b"a", NOW).expect("a token");
        assert!(token > 1);
        assert_eq!(leases.grant(b"a", NOW.plus(TERM_SECONDS - 1)), None);
        assert!(leases.grant(b"b", NOW).is_some_and(|other| other != token));
        let next = leases.grant(b"a", NOW.plus(TERM_SECONDS));
        assert!(next.is_some_and(|next| next != token));
    }

    #[test]
    fn a_token_is_good_once_for_its_key_in_its_time() {
        let leases = Leases::new();
        let token = leases.grant(b"a", NOW).expect("a token");
        assert!(!leases.redeem(b"b", token, NOW));
        assert!(!leases.redeem(b"a", token + 1, NOW));
        assert!(!leases.redeem(b"a", token, NOW.plus(TERM_SECONDS)));
        assert!(leases.redeem(b"a", token, NOW));
        assert!(!leases.redeem(b"a", token, NOW));
    }

    #[test]
    fn a_revoked_token_is_good_for_nothing() {
        let leases = Leases::new();
        let token = leases.grant(b"a", NOW).expect("a token");
        leases.revoke(b"b");
        leases.revoke(b"a");
        assert!(!leases.redeem(b"a", token, NOW));
        let token = leases.grant(b"a", NOW).expect("a token");
        leases.revoke_all();
        assert!(!leases.redeem(b"a", token, NOW));
    }

    #[test]
    fn there_is_a_limit_to_leases_and_the_oldest_end_first() {
        let leases = Leases::new();
        let grant = |index: usize| leases.grant(&index.to_le_bytes(), NOW).expect("a token");
        let tokens: Vec<_> = (0..=MAX_LEASES).map(grant).collect();
        assert_eq!(leases.len.load(Ordering::Relaxed), MAX_LEASES);
        assert!(!leases.redeem(&0_usize.to_le_bytes(), tokens[0], NOW));
        assert!(leases.redeem(&1_usize.to_le_bytes(), tokens[1], NOW));
    }
}
