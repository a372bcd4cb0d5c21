//! Which records still count: the effect of `flush_all` and of expiry on what lies on the disk.
//!
//! Owns the marks that `flush_all` leaves instead of deleting anything, shared by readers and by the
//! compaction filter. It does not know how the marks are made durable.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::clock::UnixSeconds;

use super::item::Attributes;

/// Above every cas.
const EVERYTHING: u64 = u64::MAX;

/// Everything written before a `flush_all` has a smaller cas than everything after it, so that one number
/// says what is dead.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// Records with a smaller cas are dead.
    dead_below: AtomicU64,
    /// When a delayed `flush_all` takes effect, in Unix seconds; 0 when none is pending.
    flush_due: AtomicU32,
}

impl Liveness {
    /// Whether an item with these attributes may be served.
    pub(super) fn is_live(&self, item: Attributes, now: UnixSeconds) -> bool {
        item.cas >= self.dead_below() && !item.expiry.has_passed(now)
    }

    pub(super) fn dead_below(&self) -> u64 {
        self.dead_below.load(Ordering::Acquire)
    }

    /// Whether a delayed flush has come due and must be carried out before anything is read or written.
    pub(super) fn flush_is_due(&self, now: UnixSeconds) -> bool {
        let due = self.flush_due.load(Ordering::Relaxed);
        due != 0 && due <= now.0
    }

    /// All records with a cas below `cas` are dead from now on, and nothing is pending any more. A `cas` is never smaller
    /// than the one before.
    pub(super) fn flush_below(&self, cas: u64) {
        self.dead_below.store(cas, Ordering::Release);
        self.flush_due.store(0, Ordering::Release);
    }

    /// Everything that was or will be written before `until` is dead from now on. Ended by [`Self::flush_below`].
    pub(super) fn flush_until(&self, until: UnixSeconds) {
        self.dead_below.store(EVERYTHING, Ordering::Release);
        self.flush_due.store(until.0, Ordering::Release);
    }

    /// Whether what is written now is dead.
    pub(super) fn is_flushing(&self) -> bool {
        self.dead_below() == EVERYTHING
    }

    /// Everything written before `due` is dead from then on. Replaces what was pending.
    pub(super) fn flush_at(&self, due: UnixSeconds) {
        self.flush_due.store(due.0, Ordering::Release);
    }
}

/// How often something was looked for and found dead, in memory; what the disk is asked for does not count. Apart from what
/// every look-up reads, so that counting slows down nobody else.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct FoundDead {
    expired: AtomicU64,
    flushed: AtomicU64,
}

impl FoundDead {
    #[cold]
    pub(super) fn count(&self, item: Attributes, now: UnixSeconds) {
        let counter = if item.expiry.has_passed(now) {
            &self.expired
        } else {
            &self.flushed
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    pub(super) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::item::Expiry;

    const NOW: UnixSeconds = UnixSeconds(1000);

    fn item(cas: u64, expiry: u32) -> Attributes {
        Attributes {
            expiry: Expiry::from_raw(expiry),
            flags: 0,
            cas,
        }
    }

    #[test]
    fn a_record_lives_until_it_expires_or_is_flushed() {
        let liveness = Liveness::default();
        assert!(liveness.is_live(item(5, 0), NOW));
        assert!(liveness.is_live(item(5, 1001), NOW));
        assert!(!liveness.is_live(item(5, 1000), NOW));
        liveness.flush_below(6);
        assert!(!liveness.is_live(item(5, 0), NOW));
        assert!(liveness.is_live(item(6, 0), NOW));
    }

    #[test]
    fn a_delayed_flush_is_due_from_its_moment_on_and_only_once() {
        let liveness = Liveness::default();
        assert!(!liveness.flush_is_due(NOW));
        liveness.flush_at(NOW.plus(10));
        assert!(!liveness.flush_is_due(NOW.plus(9)));
        assert!(liveness.flush_is_due(NOW.plus(10)));
        liveness.flush_below(1);
        assert!(!liveness.flush_is_due(NOW.plus(10)));
    }
}
