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

use tokio::signal::unix::{SignalKind, signal};
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

/// Returns when the process is asked to stop. Asked again, it ends at once: whatever was acknowledged is as safe
/// as the durability mode says.
pub async fn stop_signal() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => info!("SIGTERM: draining"),
        _ = interrupt.recv() => info!("SIGINT: draining"),
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        warn!("a second signal: stopping at once, without closing the database");
        std::process::exit(1);
    });
    Ok(())
}

/// Answers busy for at most `time`, so that routers move on, or until nobody is connected.
pub async fn drain(drain: &Drain, metrics: &Metrics, time: Duration) {
    drain.begin();
    let end = Instant::now() + time;
    while metrics.connections_open.load(Ordering::Relaxed) > 0 && Instant::now() < end {
        sleep(DRAIN_POLL.min(end - Instant::now())).await;
    }
}
