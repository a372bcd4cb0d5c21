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
pub mod auth;
pub mod clock;
pub mod config;
mod connection;
mod descriptors;
mod dump;
pub mod execute;
mod listener;
pub mod loopback;
pub mod metrics;
mod ports;
mod prefixes;
pub mod process;
pub mod protocol;
mod registry;
pub mod server;
pub mod shutdown;
mod stats;
pub mod store;
mod stream;
mod tls;
mod udp;
mod watch;
mod worker;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use auth::AuthError;
use clock::SystemClock;
use config::{Config, Endpoint};
use listener::Address;
use protocol::request::Topics;
use server::{Server, Shared};
use shutdown::StopSignals;
use store::{OpenError, StoreError};
use tls::TlsError;

/// Why the node did not start, or did not end well.
#[derive(Debug, Error)]
pub enum RunError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot listen for clients on {endpoint}: {source}")]
    Bind {
        endpoint: Endpoint,
        source: io::Error,
    },
    #[error("cannot listen for metrics on {addr}: {source}")]
    BindMetrics { addr: SocketAddr, source: io::Error },
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot start: {0}")]
    Start(io::Error),
    #[error("the database was not closed cleanly: {0}")]
    Close(StoreError),
}

/// Serves until the process is asked to stop. Calls `ready` when clients are served.
pub fn run(mut config: Config, ready: impl FnOnce()) -> Result<(), RunError> {
    config.max_connections = descriptors::make_room(config.max_connections, store::MAX_OPEN_FILES);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Start)?;
    let signals = runtime
        .block_on(async { StopSignals::catch() })
        .map_err(RunError::Start)?;
    let opening = Instant::now();
    let shared = Arc::new(Shared::open(config, Arc::new(SystemClock))?);
    show_drops(&shared);
    info!(elapsed = ?opening.elapsed(), "the database is open");
    runtime.block_on(serve(&shared, signals, ready))?;
    let closing = Instant::now();
    shared.store.close().map_err(RunError::Close)?;
    info!(elapsed = ?closing.elapsed(), "the database is closed");
    Ok(())
}

/// Shows those who watch evictions which files the store drops. Items are not known one by one by then.
fn show_drops(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    shared.store.on_drop(move |dropped| {
        let Some(shared) = weak.upgrade() else { return };
        if !shared.watchers.wants(Topics::EVICTIONS) {
            return;
        }
        let reason = if dropped.expired { "expired" } else { "quota" };
        let (files, records) = (dropped.files, dropped.records);
        shared.watchers.tell(
            Topics::EVICTIONS,
            format_args!("type=files_dropped reason={reason} files={files} records={records}"),
        );
    });
}

async fn serve(
    shared: &Arc<Shared>,
    signals: StopSignals,
    ready: impl FnOnce(),
) -> Result<(), RunError> {
    let config = &shared.config;
    let bound =
        server::bind(config).map_err(|(endpoint, source)| RunError::Bind { endpoint, source })?;
    ports::tell(&bound);
    let mut server = Server::start(shared, bound).map_err(RunError::Start)?;
    if let Some(listener) = bind_admin(config).await? {
        info!(addr = %listener.local_addr().map_err(RunError::Start)?, "serving metrics");
        tokio::spawn(serve_admin(listener, Arc::clone(shared)));
    }
    let hangup = signal(SignalKind::hangup()).map_err(RunError::Start)?;
    announce(shared);
    ready();
    tokio::select! {
        () = server.run() => {}
        () = follow_certificate(shared) => {}
        () = reload_on_hangup(shared, hangup) => {}
        () = stop_and_drain(shared, signals) => {}
    }
    server.close().await;
    Ok(())
}

/// Never returns.
async fn follow_certificate(shared: &Shared) {
    match &shared.tls {
        Some(tls) => tls.follow_files().await,
        None => pending().await,
    }
}

/// Reads again what may be read again, whenever a SIGHUP asks for it. The users are read at every login anyway. Never
/// returns.
async fn reload_on_hangup(shared: &Shared, mut hangup: Signal) {
    while hangup.recv().await.is_some() {
        info!("SIGHUP: reading the certificate and the users again");
        if let Some(tls) = &shared.tls
            && let Err(error) = tls.refresh()
        {
            warn!(%error, "the certificate stays as it was");
        }
    }
    pending().await
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
        Err(source) => Err(RunError::BindMetrics { addr, source }),
    }
}

async fn serve_admin(listener: TcpListener, shared: Arc<Shared>) {
    if let Err(error) = admin::serve(listener, shared).await {
        error!(%error, "the admin endpoints have stopped");
    }
}

fn announce(shared: &Shared) {
    let config = &shared.config;
    let mut listening = shared.registry.listeners();
    listening.extend(shared.registry.datagram_places());
    info!(
        version = stats::VERSION,
        addr = %listening.iter().map(place).collect::<Vec<_>>().join(","),
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

/// An address as it is given to a client.
fn place(address: &Address) -> String {
    match address {
        Address::Tcp(addr) => addr.to_string(),
        Address::Udp(addr) => format!("udp:{addr}"),
        Address::Unix(path) => path.display().to_string(),
        Address::Unnamed => String::new(),
    }
}
