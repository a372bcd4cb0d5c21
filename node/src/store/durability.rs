//! What an acknowledged write survives.
//!
//! Owns the modes, and the thread of mode `interval` that has the log synced. When something is written to the log is
//! decided in [`super::flush`].
//!
//! | mode       | an acknowledged write is ...                | a killed process loses | a dead machine loses |
//! |------------|---------------------------------------------|------------------------|----------------------|
//! | `none`     | in memory; files are written when it fills  | all since the last file | the same             |
//! | `interval` | in memory; logged and synced every interval | at most the interval   | about the interval   |
//! | `always`   | with the operating system                   | nothing                | what was not synced  |
//! | `fsync`    | on the disk                                 | nothing                | nothing              |

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::error;

use super::rocks::Rocks;

/// When a write reaches the log and the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// No log: kept in memory until enough has come together for a file, or until shutdown.
    None,
    /// Logged and synced once per flush interval.
    #[default]
    Interval,
    /// Logged before it is acknowledged, so that a killed process loses nothing.
    Always,
    /// Synced to the disk before it is acknowledged, so that a dead machine loses nothing.
    Fsync,
}

impl Durability {
    pub const ALL: [Self; 4] = [Self::None, Self::Interval, Self::Always, Self::Fsync];

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Interval => "interval",
            Self::Always => "always",
            Self::Fsync => "fsync",
        }
    }
}

/// Syncs the log on a timer until it is dropped. On its own thread, so that what comes meanwhile is logged however long
/// the disk takes.
pub(super) struct LogSyncer {
    /// Dropped first, which ends the thread at once.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LogSyncer {
    pub(super) fn start(rocks: Arc<Rocks>, interval: Duration) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("log-syncer".into())
            .spawn(move || sync_until(&stopped, &rocks, interval))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for LogSyncer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("the thread that syncs the log has panicked");
        }
    }
}

/// Ticks keep their distance however long a sync takes.
fn sync_until(stopped: &mpsc::Receiver<()>, rocks: &Rocks, interval: Duration) {
    let mut tick = Instant::now() + interval;
    while let Err(RecvTimeoutError::Timeout) =
        stopped.recv_timeout(tick.saturating_duration_since(Instant::now()))
    {
        // That the disk takes no writes is said by those who write; asking it to sync would only make it worse.
        if rocks.is_writable()
            && let Err(error) = rocks.sync_log()
        {
            error!(%error, "cannot sync the log: a machine that dies would lose what is in it");
        }
        tick = (tick + interval).max(Instant::now());
    }
}
