//! Which versions still count: the effect of `flush_all`, of a changed place and of expiry.
//!
//! Owns the marks that are left instead of deleting anything, shared by readers and by the compaction filter. It does not
//! know how the marks are made durable.
//!
//! What was dropped because it is another node's takes a hash to find out. Nearly nobody computes one: what was written
//! since the last change is alive by its cas alone, and memory is rid of the rest soon after the change.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use petra_routing::Place;

use crate::clock::UnixSeconds;

use super::item::Attributes;
use super::purges::Purges;

/// Above every cas.
const EVERYTHING: u64 = u64::MAX;

/// Everything written before a mark has a smaller cas than everything after it, so that one number says what is old.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// Versions with a smaller cas are dead.
    dead_below: AtomicU64,
    /// Versions in memory with a smaller cas may have been dropped, all others have not.
    sure_from: AtomicU64,
    /// When a delayed `flush_all` takes effect, in Unix seconds; 0 when none is pending.
    flush_due: AtomicU32,
    purges: RwLock<Purges>,
}

impl Liveness {
    /// Whether a version in memory may be served.
    pub(super) fn is_live(&self, key: &[u8], item: Attributes, now: UnixSeconds) -> bool {
        let sure = item.cas >= self.sure_from.load(Ordering::Acquire);
        (sure || self.is_kept(key, item.cas)) && !item.expiry.has_passed(now)
    }

    /// Whether a version that comes from the disk may be served.
    pub(super) fn is_live_record(&self, key: &[u8], item: Attributes, now: UnixSeconds) -> bool {
        !item.expiry.has_passed(now) && self.is_kept(key, item.cas)
    }

    /// Whether neither a flush nor a purge has dropped this version.
    #[cold]
    pub(super) fn is_kept(&self, key: &[u8], cas: u64) -> bool {
        cas >= self.dead_below() && self.read(|purges| purges.spare(key, cas))
    }

    pub(super) fn dead_below(&self) -> u64 {
        self.dead_below.load(Ordering::Acquire)
    }

    /// Whether a delayed flush has come due and must be carried out before anything is read or written.
    pub(super) fn flush_is_due(&self, now: UnixSeconds) -> bool {
        let due = self.flush_due.load(Ordering::Relaxed);
        due != 0 && due <= now.0
    }

    /// All versions with a cas below `cas` are dead from now on, and nothing is pending any more. A `cas` is never smaller
    /// than the one before.
    pub(super) fn flush_below(&self, cas: u64) {
        self.dead_below.store(cas, Ordering::Release);
        // Also the end of `flush_until`: memory may still hold what a purge has dropped.
        let sure_from = cas.max(self.read(Purges::newest));
        self.sure_from.store(sure_from, Ordering::Release);
        self.flush_due.store(0, Ordering::Release);
    }

    /// Everything that was or will be written before `until` is dead from now on. Ended by [`Self::flush_below`].
    pub(super) fn flush_until(&self, until: UnixSeconds) {
        self.dead_below.store(EVERYTHING, Ordering::Release);
        self.sure_from.store(EVERYTHING, Ordering::Release);
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

    /// Where the node stands, if it was ever told.
    pub(super) fn place(&self) -> Option<Place> {
        self.read(|purges| purges.place().cloned())
    }

    /// The purges that are in force.
    pub(super) fn purges(&self) -> Purges {
        self.read(Purges::clone)
    }

    /// What these purges drop is dead from now on, and everything with a cas below `dead_below`.
    pub(super) fn purge(&self, purges: Purges, dead_below: u64) {
        let newest = purges.newest();
        *self.purges.write().unwrap_or_else(PoisonError::into_inner) = purges;
        self.kill_below(dead_below);
        self.sure_from.fetch_max(newest, Ordering::AcqRel);
    }

    /// The newest of the purges: to be told to [`Liveness::swept`].
    pub(super) fn sure_from(&self) -> u64 {
        self.sure_from.load(Ordering::Acquire)
    }

    /// Memory holds nothing any more that was dropped while [`Liveness::sure_from`] was this.
    pub(super) fn swept(&self, sure_from: u64) {
        let dead_below = self.dead_below();
        // If there was another purge meanwhile, its own sweep follows.
        let _ = self.sure_from.compare_exchange(
            sure_from,
            dead_below,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        // A flush may have raised it in between.
        self.sure_from
            .fetch_max(self.dead_below(), Ordering::AcqRel);
    }

    fn kill_below(&self, cas: u64) {
        self.dead_below.fetch_max(cas, Ordering::AcqRel);
        self.sure_from.fetch_max(cas, Ordering::AcqRel);
    }

    fn read<R>(&self, look: impl FnOnce(&Purges) -> R) -> R {
        look(&self.purges.read().unwrap_or_else(PoisonError::into_inner))
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
    fn a_version_lives_until_it_expires_or_is_flushed() {
        let liveness = Liveness::default();
        let both = |item| {
            let in_memory = liveness.is_live(b"key", item, NOW);
            assert_eq!(in_memory, liveness.is_live_record(b"key", item, NOW));
            in_memory
        };
        assert!(both(item(5, 0)));
        assert!(both(item(5, 1001)));
        assert!(!both(item(5, 1000)));
        liveness.flush_below(6);
        assert!(!both(item(5, 0)));
        assert!(both(item(6, 0)));
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

    fn purge(liveness: &Liveness, index: u32, size: u32, before: u64) {
        let mut purges = liveness.purges();
        let place = Place {
            index,
            size,
            hash: Default::default(),
            salt: String::new(),
            epoch: None,
        };
        let dead_below = purges.add(place, before);
        liveness.purge(purges, dead_below);
    }

    /// Which of the nodes of a pool of two has the key.
    fn owner(key: &[u8]) -> u32 {
        u32::try_from(petra_routing::ch3::ch3(key, 2)).expect("small")
    }

    #[test]
    fn memory_is_looked_into_until_it_is_swept_and_the_disk_for_ever() {
        let (liveness, foreign) = (Liveness::default(), item(5, 0));
        purge(&liveness, 1 - owner(b"key"), 2, 6);
        assert!(!liveness.is_live(b"key", foreign, NOW));
        assert!(liveness.is_live(b"key", item(6, 0), NOW));
        liveness.swept(liveness.sure_from());
        assert_eq!(liveness.sure_from(), 0, "no hash for what is in memory");
        assert!(!liveness.is_live_record(b"key", foreign, NOW));
    }

    #[test]
    fn a_sweep_does_not_answer_for_a_purge_or_a_flush_that_came_meanwhile() {
        let liveness = Liveness::default();
        purge(&liveness, 0, 2, 6);
        let begun = liveness.sure_from();
        purge(&liveness, 0, 3, 9);
        liveness.swept(begun);
        assert_eq!(liveness.sure_from(), 9);
        liveness.flush_below(20);
        liveness.swept(9);
        assert_eq!(liveness.sure_from(), 20);
    }
}
