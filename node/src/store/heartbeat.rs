//! How long a node was away.
//!
//! Owns the moment that is written down while the node serves and the disk takes writes, and what follows from its age
//! at the next start: whoever was away for long has missed what others changed meanwhile, and an empty cache is better
//! than an old one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tracing::debug;

use super::rocks::{Mark, Rocks};
use crate::clock::UnixSeconds;

/// Written at least this often.
const MAX_PERIOD_SECONDS: u32 = 10;
/// A node that is killed at once seems to have been away for up to this share of the time it may be.
const BEATS_PER_KEEP_FOR: u64 = 10;

/// Writes the moment down.
pub(super) struct Heartbeat {
    period: u32,
    last: AtomicU32,
}

impl Heartbeat {
    /// Often enough for a node that may be away for `keep_for`.
    pub(super) fn new(keep_for: Option<Duration>) -> Self {
        let period = keep_for.map_or(u64::MAX, |keep_for| keep_for.as_secs() / BEATS_PER_KEEP_FOR);
        Self {
            period: u32::try_from(period)
                .unwrap_or(u32::MAX)
                .clamp(1, MAX_PERIOD_SECONDS),
            last: AtomicU32::new(0),
        }
    }

    /// Writes down `now`, if it is time to. Blocks.
    pub(super) fn beat(&self, rocks: &Rocks, now: UnixSeconds) {
        // The clock may have been set back.
        if now.0.abs_diff(self.last.load(Ordering::Relaxed)) >= self.period {
            self.last_beat(rocks, now);
        }
    }

    /// Writes down `now`. Blocks.
    pub(super) fn last_beat(&self, rocks: &Rocks, now: UnixSeconds) {
        match rocks.set_marks(&[(Mark::Heartbeat, now.0.into())]) {
            Ok(()) => self.last.store(now.0, Ordering::Relaxed),
            // That the disk fails is said by those who write items.
            Err(error) => debug!(%error, "cannot write down that this node is there"),
        }
    }
}

/// How long the node was away, if it was ever there.
pub(super) fn away(rocks: &Rocks, now: UnixSeconds) -> Result<Option<Duration>, rocksdb::Error> {
    let last = rocks.mark(Mark::Heartbeat)?;
    Ok(last.map(|last| Duration::from_secs(u64::from(now.0).saturating_sub(last))))
}
