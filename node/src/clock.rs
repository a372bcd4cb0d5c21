//! What time it is, in the one unit the cache needs: whole seconds since 1970.
//!
//! Owns the seam between the operating system's clock and everything that expires. It knows nothing about items;
//! tests put their own clock in.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, in whole seconds since 1970. 32 bits last until the year 2106.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixSeconds(pub u32);

impl UnixSeconds {
    /// The moment `seconds` later, or the last one that can be written.
    pub fn plus(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(seconds))
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// The present moment. Called once per batch of requests, so it must be cheap.
    fn now(&self) -> UnixSeconds;
}

/// The operating system's clock. It follows corrections of the machine's time, so that an item expires at the
/// moment its client meant, also after a restart.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixSeconds {
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        UnixSeconds(u32::try_from(since_1970.as_secs()).unwrap_or(u32::MAX))
    }
}
