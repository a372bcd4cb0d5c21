//! A memcached that remembers: memcached's protocol over RocksDB.
//!
//! ```text
//!   main thread                      worker threads, each with its own event loop
//!   ┌───────────────────────┐        ┌────────────────────────────────────────────────────────┐
//!   │ server: accept, limit │ ─────► │ connection ─► protocol ─► execute ─► store: memory tier │
//!   │ admin: /health ...    │ in     │     ▲         bytes to    request      │        ▲       │
//!   │ shutdown: signals     │ turn   │     └──────── request     to answer    │        │       │
//!   └───────────────────────┘        └────────────────────────────────────────│────────│───────┘
//!                                      write-behind thread ◄──────────────────┘        │
//!                                              └──► RocksDB ──► loader threads ────────┘
//! ```
//!
//! Invariants: no worker waits for the disk; the protocol knows no socket, `execute` no clock, the store no protocol; an answer is sent only
//! when what it promises is as durable as configured; whatever a client sends, what is kept for it is bounded.

mod admin;
pub mod clock;
pub mod config;
mod connection;
mod descriptors;
pub mod execute;
pub mod metrics;
pub mod protocol;
pub mod server;
pub mod shutdown;
mod stats;
pub mod store;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;
use tokio::net::TcpListener;
use tracing::{error, info, warn};

use clock::SystemClock;
use config::Config;
use metrics::Metrics;
use server::{Server, Shared};
use shutdown::{Drain, StopSignals};
use store::{OpenError, Store, StoreError};

/// Why the node did not start, or did not end well.
#[derive(Debug, Error)]
pub enum RunError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot listen for {what} on {addr}: {source}")]
    Bind {
        what: &'static str,
        addr: SocketAddr,
        source: io::Error,
    },
    #[error("cannot start: {0}")]
    Start(io::Error),
    #[error("the database was not closed cleanly: {0}")]
    Close(StoreError),
}

/// Serves until the process is asked to stop.
pub fn run(mut config: Config) -> Result<(), RunError> {
    config.max_connections = descriptors::make_room(config.max_connections, store::MAX_OPEN_FILES);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Start)?;
    let signals = runtime
        .block_on(async { StopSignals::catch() })
        .map_err(RunError::Start)?;
    let opening = Instant::now();
    let clock = Arc::new(SystemClock);
    let store = Arc::new(Store::open(&config.storage, clock.clone())?);
    let shared = Arc::new(Shared {
        metrics: Metrics::new(config.threads),
        store,
        clock,
        drain: Drain::default(),
        config,
    });
    info!(elapsed = ?opening.elapsed(), "the database is open");
    runtime.block_on(serve(&shared, signals))?;
    let closing = Instant::now();
    shared.store.close().map_err(RunError::Close)?;
    info!(elapsed = ?closing.elapsed(), "the database is closed");
    Ok(())
}

async fn serve(shared: &Arc<Shared>, signals: StopSignals) -> Result<(), RunError> {
    let config = &shared.config;
    let server = Server::bind(Arc::clone(shared))
        .await
        .map_err(|source| RunError::Bind {
            what: "clients",
            addr: config.listen_addr,
            source,
        })?;
    if let Some(listener) = bind_admin(config).await? {
        info!(addr = %listener.local_addr().map_err(RunError::Start)?, "serving metrics");
        tokio::spawn(serve_admin(listener, Arc::clone(shared)));
    }
    announce(shared, server.local_addr().map_err(RunError::Start)?);
    tokio::select! {
        () = server.accept() => {}
        () = stop_and_drain(shared, signals) => {}
    }
    server.close();
    Ok(())
}

/// Clients are accepted, and told busy, until the end of this.
async fn stop_and_drain(shared: &Shared, signals: StopSignals) {
    signals.first().await;
    shutdown::drain(&shared.drain, &shared.metrics, shared.config.drain).await;
}

/// An address that nobody asked for may be taken, by another node for one.
async fn bind_admin(config: &Config) -> Result<Option<TcpListener>, RunError> {
    let Some(addr) = config.metrics_addr else {
        return Ok(None);
    };
    match TcpListener::bind(addr).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if !config.metrics_addr_is_set => {
            warn!(%addr, %error, "no metrics, health and readiness: --metrics-addr sets where");
            Ok(None)
        }
        Err(source) => Err(RunError::Bind {
            what: "metrics",
            addr,
            source,
        }),
    }
}

async fn serve_admin(listener: TcpListener, shared: Arc<Shared>) {
    if let Err(error) = admin::serve(listener, shared).await {
        error!(%error, "the admin endpoints have stopped");
    }
}

fn announce(shared: &Shared, addr: SocketAddr) {
    let config = &shared.config;
    info!(
        version = stats::VERSION,
        %addr,
        threads = config.threads,
        db_path = %config.storage.db_path.display(),
        durability = config.storage.durability.name(),
        memory = %config.memory,
        items_estimated = shared.store.figures().estimated_items(),
        "petracache is ready"
    );
    if let Some(path) = shared.store.set_aside() {
        warn!(set_aside = %path.display(), "this node started empty: its database did not open");
    }
}
