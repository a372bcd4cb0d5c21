//! How the node stops being used before it stops.
//!
//! Owns the phases and what moves from one to the next. What a phase means for a connection or for `/ready` is
//! decided where they are.
//!
//! ```text
//!   serving ──SIGTERM──► draining ──no connections, or the drain time is over──► closing
//!                        /ready: 503                                             listener and connections
//!                        data commands: busy                                     close, then the database
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::metrics::Metrics;

/// How often draining looks whether the last connection has gone.
const DRAIN_POLL: Duration = Duration::from_millis(10);

/// Whether data commands are still carried out. Shared by everything that serves.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<AtomicBool>);

impl Drain {
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// A relaxed load: cheap enough for every command.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The signals that end the process, caught from the moment this exists: the first process of a container would
/// not be ended by them otherwise.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// memcached's signal to stop gracefully, as a node always does.
    user1: Signal,
}

impl StopSignals {
    /// Must be called on the runtime that [`StopSignals::first`] is awaited on.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Returns when the process is asked to stop. Asked again, it ends at once: whatever was acknowledged is as
    /// safe as the durability mode says.
    pub async fn first(mut self) {
        let name = self.next().await;
        info!("{name}: draining");
        tokio::spawn(async move {
            let name = self.next().await;
            warn!("{name} again: stopping at once, without closing the database");
            std::process::exit(1);
        });
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.user1.recv() => "SIGUSR1",
        }
    }
}

/// Answers busy for at most `time`, so that routers move on, or until nobody is connected.
pub async fn drain(drain: &Drain, metrics: &Metrics, time: Duration) {
    drain.begin();
    let end = Instant::now() + time;
    while metrics.connections_open.load(Ordering::Relaxed) > 0 && Instant::now() < end {
        sleep(DRAIN_POLL.min(end - Instant::now())).await;
    }
}
