//! Memory for large values on their way: what of them has come, and answers that are not sent yet.
//!
//! Owns how much that may be for all connections together. Who needs more waits until others have had their turn. A client that
//! neither sends nor reads on is closed when others wait for what it holds.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// What is not longer passes without being counted, in bytes.
pub(crate) const SMALL: usize = 64 << 10;
/// A client that does nothing for so long gives way to those that wait, ...
const PATIENCE: Duration = Duration::from_secs(10);
/// ... and no number of them keeps one waiting for so many times longer.
const LONGEST_WAIT: u32 = 3;
/// What is counted in, so that the counts are small.
const KIB: usize = 1 << 10;

/// The memory that is there for large values.
pub struct Transit {
    free: Arc<Semaphore>,
    total: u32,
    waiting: AtomicUsize,
    patience: Duration,
}

/// A part of it, given back when this is dropped.
pub(crate) struct Claim(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit);

impl Transit {
    /// With room for `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes / KIB as u64).unwrap_or(u32::MAX).max(1);
        Self {
            free: Arc::new(Semaphore::new(total as usize)),
            total,
            waiting: AtomicUsize::new(0),
            patience: PATIENCE,
        }
    }

    /// Room for `bytes`, or all of it if there is less; waits for it.
    pub(crate) async fn claim(&self, bytes: usize) -> io::Result<Claim> {
        let needed = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
        let needed = needed.min(self.total);
        let free = || Arc::clone(&self.free);
        if let Ok(permit) = free().try_acquire_many_owned(needed) {
            return Ok(Claim(permit));
        }
        let _waiting = Waiting::begin(&self.waiting);
        match timeout(
            self.patience * LONGEST_WAIT,
            free().acquire_many_owned(needed),
        )
        .await
        {
            Ok(Ok(permit)) => Ok(Claim(permit)),
            _ => Err(io::Error::other("there is no memory for a large value")),
        }
    }

    /// Carries out a step that a client with a claim must do its part for, unless that takes too long while others wait.
    pub(crate) async fn unless_stalled<T>(
        &self,
        work: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let mut work = pin!(work);
        loop {
            match timeout(self.patience, &mut work).await {
                Ok(result) => return result,
                Err(_) if self.waiting.load(Ordering::Relaxed) > 0 => {
                    let slow = "the client was too slow with a large value while others waited";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, slow));
                }
                Err(_) => {}
            }
        }
    }
}

/// Counts itself as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn who_needs_more_than_is_left_waits_until_it_is_given_back() {
        let transit = Transit::new(100 << 10);
        let first = transit.claim(90 << 10).await.expect("there is room");
        let give_back = async {
            assert_eq!(transit.waiting.load(Ordering::Relaxed), 1);
            drop(first);
        };
        let (second, ()) = tokio::join!(transit.claim(1 << 30), give_back);
        second.expect("all of it, although more was asked for");
        assert_eq!(transit.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_client_that_does_nothing_gives_way_when_others_wait_and_not_before() {
        let patience = Duration::from_millis(10);
        let transit = Transit {
            patience,
            ..Transit::new(100 << 10)
        };
        let held = transit.claim(100 << 10).await.expect("there is room");
        let mut stalled = pin!(transit.unless_stalled(pending::<io::Result<()>>()));
        let alone = timeout(patience * 5, &mut stalled).await;
        assert!(alone.is_err(), "nobody waits");
        let gives_way = async {
            let error = stalled.await.expect_err("it is closed");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            drop(held);
        };
        let other = async { while transit.claim(1).await.is_err() {} };
        tokio::join!(other, gives_way);
    }
}
