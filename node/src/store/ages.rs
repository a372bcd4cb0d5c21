//! How old what lies on the disk is, and until when any of it lives.
//!
//! Owns an outline of everything that was written, from old to new, because RocksDB drops files from the oldest on when
//! the disk quota is reached. From it follows what should be written again before it is dropped, and how much of the old
//! end nobody needs any more. It knows no item and no file.
//!
//! ```text
//!   oldest                                                              newest
//!   ├── checkpoint ──┼── checkpoint ──┼── ... ──┼── checkpoint ──┼── open ──►
//!   written until t1  t2: bytes so far, lives until                 not kept yet
//! ```

use std::collections::VecDeque;

use crate::clock::UnixSeconds;

use super::item::Expiry;

/// Checkpoints that are kept. With more, the two that lie closest together become one.
const MAX_CHECKPOINTS: usize = 128;
/// A quota is divided into so many checkpoints, ...
const CHECKPOINTS_PER_QUOTA: u64 = 64;
/// ... but what is written in this time gets one too, so that what has expired is found soon.
const MAX_SECONDS: u32 = 600;
/// The share of the quota, at its old end, that is about to be dropped.
const ENDANGERED_SHARE: u64 = 8;

/// Everything up to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Checkpoint {
    /// Written at this moment or before.
    until: UnixSeconds,
    /// Written in all so far.
    bytes: u64,
    /// What was written since the previous checkpoint is of no use from then on.
    lives_until: Expiry,
}

const CHECKPOINT_LEN: usize = 16;
/// Behind the last checkpoint when nothing has been written since.
const COMPLETE: u8 = 1;

/// The outline.
#[derive(Debug)]
pub(super) struct Ages {
    checkpoints: VecDeque<Checkpoint>,
    /// What the next checkpoint will be. Lives until [`Expiry::PAST`] while nothing has been written.
    open: Checkpoint,
    opened: UnixSeconds,
    quota: u64,
}

impl Ages {
    /// The outline of a database in which nothing is.
    pub(super) fn of_nothing(quota: u64, now: UnixSeconds) -> Self {
        Self::resume(&[COMPLETE], quota, now)
    }

    /// Continues from what [`Ages::encode`] or [`Ages::finish`] has returned.
    pub(super) fn resume(encoded: &[u8], quota: u64, now: UnixSeconds) -> Self {
        let checkpoints: VecDeque<_> = encoded.chunks_exact(CHECKPOINT_LEN).map(decode).collect();
        let bytes = checkpoints.back().map_or(0, |last| last.bytes);
        let complete = !encoded.len().is_multiple_of(CHECKPOINT_LEN);
        Self {
            checkpoints,
            open: Checkpoint {
                until: now,
                bytes,
                // What a crash has kept from being noted may live for ever.
                lives_until: if complete {
                    Expiry::PAST
                } else {
                    Expiry::NEVER
                },
            },
            opened: now,
            quota,
        }
    }

    /// What must be kept for [`Ages::resume`] after a crash.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.checkpoints.iter().flat_map(encode).collect()
    }

    /// What must be kept when nothing will be written any more.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.close();
        let mut encoded = self.encode();
        encoded.push(COMPLETE);
        encoded
    }

    /// Notes that `bytes` have been written, of which nothing lives longer than `lives_until`. `true` when the outline has
    /// changed and should be kept.
    pub(super) fn note(&mut self, bytes: u64, lives_until: Expiry, now: UnixSeconds) -> bool {
        self.open.bytes += bytes;
        self.open.until = now;
        self.open.lives_until = self.open.lives_until.later(lives_until);
        let last = self.checkpoints.back().map_or(0, |last| last.bytes);
        let full = self.open.bytes - last >= (self.quota / CHECKPOINTS_PER_QUOTA).max(1);
        let due = now.0.saturating_sub(self.opened.0) >= MAX_SECONDS;
        if !full && !due {
            return false;
        }
        self.opened = now;
        self.close();
        true
    }

    /// Everything that has been written so far is of no use any more.
    pub(super) fn forget_all(&mut self) {
        for checkpoint in &mut self.checkpoints {
            checkpoint.lives_until = Expiry::PAST;
        }
        self.open.lives_until = Expiry::PAST;
    }

    /// What was written at this moment or before is dropped soon, if the files take `on_disk` bytes.
    pub(super) fn endangered(&self, on_disk: u64) -> UnixSeconds {
        let share = self.quota / ENDANGERED_SHARE;
        if on_disk + share < self.quota {
            return UnixSeconds(0);
        }
        let dropped = self.open.bytes.saturating_sub(on_disk);
        self.checkpoints
            .iter()
            .take_while(|checkpoint| checkpoint.bytes <= dropped + share)
            .last()
            .map_or(UnixSeconds(0), |checkpoint| checkpoint.until)
    }

    /// The bytes behind the old end that is of no use any more: files need not take more than these.
    pub(super) fn needed(&self, now: UnixSeconds) -> u64 {
        let useless = self
            .checkpoints
            .iter()
            .take_while(|checkpoint| checkpoint.lives_until.has_passed(now))
            .last()
            .map_or(0, |checkpoint| checkpoint.bytes);
        self.open.bytes - useless
    }

    fn close(&mut self) {
        self.checkpoints.push_back(self.open);
        self.open.lives_until = Expiry::PAST;
        self.thin_out();
    }

    /// Joins the two neighbours that are closest in bytes.
    fn thin_out(&mut self) {
        if self.checkpoints.len() <= MAX_CHECKPOINTS {
            return;
        }
        let start = |at: usize| match at {
            0 => 0,
            _ => self.checkpoints[at - 1].bytes,
        };
        let closest = (0..self.checkpoints.len() - 1)
            .min_by_key(|at| self.checkpoints[at + 1].bytes - start(*at))
            .unwrap_or_default();
        if let Some(first) = self.checkpoints.remove(closest) {
            let second = &mut self.checkpoints[closest];
            second.lives_until = first.lives_until.later(second.lives_until);
        }
    }
}

fn encode(checkpoint: &Checkpoint) -> [u8; CHECKPOINT_LEN] {
    let mut bytes = [0; CHECKPOINT_LEN];
    bytes[..4].copy_from_slice(&checkpoint.until.0.to_le_bytes());
    bytes[4..12].copy_from_slice(&checkpoint.bytes.to_le_bytes());
    bytes[12..].copy_from_slice(&checkpoint.lives_until.to_raw().to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Checkpoint {
    let u32_at = |at: usize| {
        let field: [u8; 4] = std::array::from_fn(|index| bytes[at + index]);
        u32::from_le_bytes(field)
    };
    Checkpoint {
        until: UnixSeconds(u32_at(0)),
        bytes: u64::from(u32_at(4)) | u64::from(u32_at(8)) << 32,
        lives_until: Expiry::from_raw(u32_at(12)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: UnixSeconds = UnixSeconds(1_000_000);

    /// An outline in which `bytes` are written each second, living for `ttl`, for `seconds`.
    fn written(ages: &mut Ages, from: UnixSeconds, seconds: u32, bytes: u64, ttl: Option<u32>) {
        for second in 0..seconds {
            let now = from.plus(second);
            let lives_until = ttl.map_or(Expiry::NEVER, |ttl| Expiry::at(now.plus(ttl)));
            ages.note(bytes, lives_until, now);
        }
    }

    fn new(quota: u64) -> Ages {
        Ages::of_nothing(quota, START)
    }

    #[test]
    fn nothing_is_endangered_before_the_quota_is_near() {
        let mut ages = new(6400);
        written(&mut ages, START, 50, 100, None);
        assert_eq!(ages.endangered(5000), UnixSeconds(0));
    }

    #[test]
    fn the_oldest_eighth_is_endangered_when_the_quota_is_reached() {
        let mut ages = new(6400);
        written(&mut ages, START, 64, 100, None);
        assert_eq!(ages.endangered(6400), START.plus(7));
        written(&mut ages, START.plus(64), 64, 100, None);
        // Half of it is gone.
        assert_eq!(ages.endangered(6400), START.plus(71));
    }

    #[test]
    fn an_old_end_that_has_expired_is_not_needed() {
        let mut ages = new(6400);
        written(&mut ages, START, 10, 100, Some(5));
        written(&mut ages, START.plus(10), 10, 100, Some(1000));
        assert_eq!(ages.needed(START.plus(4)), 2000);
        assert_eq!(ages.needed(START.plus(20)), 1000);
        assert_eq!(ages.needed(START.plus(2000)), 0);
    }

    #[test]
    fn what_lives_for_ever_keeps_everything_behind_it() {
        let mut ages = new(6400);
        written(&mut ages, START, 1, 100, None);
        written(&mut ages, START.plus(1), 10, 100, Some(5));
        assert_eq!(ages.needed(START.plus(1000)), 1100);
        ages.forget_all();
        assert_eq!(ages.needed(START.plus(1000)), 0);
    }

    #[test]
    fn a_restart_continues_and_what_a_crash_has_lost_is_taken_to_live_for_ever() {
        let mut ages = new(6400);
        written(&mut ages, START, 10, 100, Some(5));
        for (encoded, needed) in [(ages.encode(), 100), (ages.finish(), 0)] {
            let mut ages = Ages::resume(&encoded, 6400, START.plus(100));
            assert_eq!(ages.needed(START.plus(100)), 0);
            written(&mut ages, START.plus(100), 1, 100, Some(5));
            assert_eq!(ages.needed(START.plus(1000)), needed);
        }
    }

    #[test]
    fn the_outline_stays_small() {
        let mut ages = new(6400);
        written(&mut ages, START, 1000, 100, Some(5));
        assert_eq!(ages.checkpoints.len(), MAX_CHECKPOINTS);
        assert_eq!(ages.open.bytes, 100_000);
    }
}
