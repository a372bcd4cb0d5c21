//! The numbers that tell versions of items apart.
//!
//! Owns the promise that no number is handed out twice by a database, whatever kills the process: a block of
//! numbers is written down as used before the first of them is given away. It does not know where.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Numbers reserved at a time. Each reservation waits for the disk once; a crash wastes at most this many of
/// 2^64, so that the block may be large enough for half a minute at full speed.
const BLOCK: u64 = 1 << 24;

/// Rising numbers, unique across restarts.
#[derive(Debug)]
pub(super) struct CasSequence {
    next: AtomicU64,
    /// The first number that may not be given away yet.
    reserved: AtomicU64,
    reserving: Mutex<()>,
}

impl CasSequence {
    /// Continues after the last reservation of an earlier run, 0 for a new database. The first number is 1.
    pub(super) fn resume(reserved: u64) -> Self {
        Self {
            next: AtomicU64::new(reserved.max(1)),
            reserved: AtomicU64::new(reserved),
            reserving: Mutex::new(()),
        }
    }

    /// The next number. `write_down` makes a reservation durable; it is called once per block.
    pub(super) fn next<E>(&self, write_down: impl FnOnce(u64) -> Result<(), E>) -> Result<u64, E> {
        let cas = self.next.fetch_add(1, Ordering::Relaxed);
        if cas >= self.reserved.load(Ordering::Acquire) {
            self.reserve_past(cas, write_down)?;
        }
        Ok(cas)
    }

    #[cold]
    fn reserve_past<E>(
        &self,
        cas: u64,
        write_down: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let _guard = self
            .reserving
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if cas < self.reserved.load(Ordering::Acquire) {
            return Ok(());
        }
        let reserved = cas + BLOCK;
        write_down(reserved)?;
        self.reserved.store(reserved, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn numbers_start_at_one_and_rise_by_one() {
        let sequence = CasSequence::resume(0);
        let ok = |_| Ok::<_, Infallible>(());
        assert_eq!(
            [sequence.next(ok), sequence.next(ok), sequence.next(ok)],
            [Ok(1), Ok(2), Ok(3)]
        );
    }

    #[test]
    fn a_block_is_written_down_before_its_first_number_is_given_away() {
        let sequence = CasSequence::resume(0);
        let written = Cell::new(0);
        let write_down = |reserved| {
            written.set(reserved);
            Ok::<_, Infallible>(())
        };
        let mut last = 0;
        for _ in 0..10 {
            last = sequence.next(write_down).expect("infallible");
            assert!(last < written.get());
        }
        // A crash here: the next run starts behind everything that was given away.
        let after_crash = CasSequence::resume(written.get());
        assert!(after_crash.next(write_down).expect("infallible") > last);
    }

    #[test]
    fn a_number_that_could_not_be_reserved_is_not_given_away() {
        let sequence = CasSequence::resume(0);
        assert_eq!(sequence.next(|_| Err("disk")), Err("disk"));
        assert_eq!(sequence.next(|_| Ok::<_, &str>(())), Ok(2));
    }

    #[test]
    fn threads_never_get_the_same_number() {
        let sequence = CasSequence::resume(0);
        let take = || {
            let ok = |_| Ok::<_, Infallible>(());
            (0..10_000)
                .map(|_| sequence.next(ok).expect("infallible"))
                .collect::<Vec<_>>()
        };
        let mut all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads
                .into_iter()
                .flat_map(|t| t.join().expect("thread"))
                .collect::<Vec<_>>()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 40_000);
    }
}
