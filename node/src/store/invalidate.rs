//! Many items at once that are served no more: `flush_all`, a node that was away for too long, and what is another node's.
//!
//! Owns that each of these is on the disk before anybody is told, and is carried out one after the other.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use petra_routing::Place;
use tracing::{info, warn};

use super::item::Item;
use super::purges::Purges;
use super::rocks::Mark;
use super::{Store, StoreError};
use crate::clock::UnixSeconds;

impl Store {
    /// From now on a `flush_all` also makes dead what is written in the rest of its second, as in a memcached without cas.
    pub fn flush_whole_seconds(&self) {
        self.flushes_seconds.store(true, Ordering::Relaxed);
    }

    /// Makes everything that was written so far dead: at once, or from `due` on. Blocks until the disk has it.
    pub fn flush_all(&self, due: Option<UnixSeconds>, now: UnixSeconds) -> Result<(), StoreError> {
        // An earlier flush that has come due is not undone by a later one.
        self.carry_out_due_flush(now)?;
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        match due {
            Some(due) if due > now => {
                if self.liveness.is_flushing() {
                    self.flush_now()?;
                }
                self.set_marks(&[(Mark::FlushDue, due.0.into())])?;
                self.liveness.flush_at(due);
                Ok(())
            }
            _ => self.flush_from(now),
        }
    }

    /// Where this node stands in its pool, if it was ever told.
    pub fn place(&self) -> Option<Place> {
        self.liveness.place()
    }

    /// Makes everything dead that was written so far and is another node's under `place`, unless that is known already.
    /// Returns whether it was news; [`Store::sweep`] follows then. Blocks until the disk has it.
    pub fn set_place(&self, place: Place) -> Result<bool, StoreError> {
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut purges = self.liveness.purges();
        if purges.place().is_some_and(|told| place.is_said_by(told)) {
            return Ok(false);
        }
        info!(
            ?place,
            "what was written so far and is another node's is dropped"
        );
        let is_everything = place.owns_nothing();
        let dead_below = purges.add(place, self.next_cas()?);
        let dead_below = dead_below.max(self.liveness.dead_below());
        self.rocks
            .set_purges(&purges.encode(), (Mark::DeadBelow, dead_below))
            .map_err(StoreError::Mark)?;
        self.liveness.purge(purges, dead_below);
        if is_everything {
            self.quota.forget_all();
        }
        Ok(true)
    }

    /// Takes out of memory what the last place has made dead, so that readers need not ask whose an item is. Takes every
    /// lock for a moment.
    pub fn sweep(&self, now: UnixSeconds) {
        let sure_from = self.liveness.sure_from();
        let is_gone =
            |item: &Item| item.cas() < sure_from && !self.liveness.is_kept(item.key(), item.cas());
        let items = self.memory.sweep(is_gone, now);
        self.liveness.swept(sure_from);
        info!(items, "memory is rid of what was dropped");
    }

    pub(super) fn empty_if_away_too_long(
        &self,
        away: Option<Duration>,
        keep_for: Option<Duration>,
    ) -> Result<(), StoreError> {
        let (Some(away), Some(keep_for)) = (away, keep_for) else {
            return Ok(());
        };
        if away <= keep_for {
            return Ok(());
        }
        warn!(
            ?away,
            ?keep_for,
            "this node was away for too long to know what has changed: it starts EMPTY"
        );
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_now()
    }

    /// Nothing has been served yet, and memory is empty.
    pub(super) fn resume_purges(&self, kept: Option<&[u8]>) -> Result<(), StoreError> {
        let Some(kept) = kept else {
            return Ok(());
        };
        if let Some(purges) = Purges::decode(kept) {
            self.liveness.purge(purges, 0);
            self.liveness.swept(self.liveness.sure_from());
            return Ok(());
        }
        warn!("this node does not understand what was said to be another node's: it starts EMPTY");
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_now()
    }

    pub(super) fn carry_out_due_flush(&self, now: UnixSeconds) -> Result<(), StoreError> {
        if !self.liveness.flush_is_due(now) {
            return Ok(());
        }
        let _guard = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.liveness.flush_is_due(now) {
            Ok(())
        } else if self.liveness.is_flushing() {
            self.flush_now()
        } else {
            self.flush_from(now)
        }
    }

    /// Needs `flushing` to be held.
    fn flush_from(&self, now: UnixSeconds) -> Result<(), StoreError> {
        self.flush_now()?;
        if self.flushes_seconds.load(Ordering::Relaxed) {
            let until = now.plus(1);
            self.set_marks(&[(Mark::FlushDue, until.0.into())])?;
            self.liveness.flush_until(until);
        }
        Ok(())
    }

    /// Needs `flushing` to be held.
    fn flush_now(&self) -> Result<(), StoreError> {
        let cas = self.next_cas()?;
        self.set_marks(&[(Mark::DeadBelow, cas), (Mark::FlushDue, 0)])?;
        self.liveness.flush_below(cas);
        self.quota.forget_all();
        self.leases.revoke_all();
        Ok(())
    }
}
