//! Accepting clients and handing them to the workers in turn.
//!
//! Owns the listeners, the connection limit and the worker threads. What a connection says is not looked at.
//!
//! mcrouter opens few connections and keeps them, so that only handing them out in turn gives every worker its share.

use std::future::pending;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::RunError;
use crate::auth::Auth;
use crate::clock::Clock;
use crate::config::{Config, Endpoint};
use crate::connection::transit::Transit;
use crate::dump::Dumping;
use crate::listener::{Incoming, Listener};
use crate::metrics::Metrics;
use crate::prefixes::Prefixes;
use crate::registry::Registry;
use crate::shutdown::Drain;
use crate::store::Store;
use crate::stream::Socket;
use crate::tls::TlsServer;
use crate::udp::{self, Place};
use crate::watch::Watchers;
use crate::worker::{Arrival, WorkerHandle};

/// memcached's answer to one connection too many.
const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";
/// So much less than for what is kept is there for large values that come and go.
const SHARE_IN_TRANSIT: u64 = 8;
/// Pause after an accept that failed, which is mostly for want of file descriptors; it doubles up to the last.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(10);
const MAX_ACCEPT_BACKOFF: Duration = Duration::from_secs(1);

/// What everything that serves has in common.
pub struct Shared {
    pub config: Config,
    pub store: Arc<Store>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Metrics,
    pub drain: Drain,
    pub registry: Registry,
    pub auth: Auth,
    /// If connections are encrypted.
    pub tls: Option<TlsServer>,
    pub watchers: Watchers,
    pub prefixes: Prefixes,
    pub dumping: Dumping,
    pub transit: Transit,
    /// Told when a connection has ended.
    pub room: Notify,
}

impl Shared {
    /// Opens what `config` names: the users, the certificate, the database.
    pub(crate) fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, RunError> {
        let auth = Auth::open(&config.access, |name| std::env::var(name).ok())?;
        let tls = config.tls.clone().map(TlsServer::open).transpose()?;
        let store = Arc::new(Store::open(&config.storage, Arc::clone(&clock))?);
        if !config.cas {
            store.flush_whole_seconds();
        }
        Ok(Self {
            metrics: Metrics::new(config.threads),
            store,
            clock,
            drain: Drain::default(),
            registry: Registry::default(),
            auth,
            tls,
            watchers: Watchers::new(config.watcher_buffer),
            prefixes: Prefixes::new(config.prefix_delimiter, config.count_prefixes),
            dumping: Dumping::default(),
            transit: Transit::new(config.storage.memory() / SHARE_IN_TRANSIT),
            room: Notify::new(),
            config,
        })
    }
}

/// Everything that is listened on.
#[derive(Default)]
pub(crate) struct Bound {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) datagrams: Vec<UdpSocket>,
}

/// Running listeners and workers.
pub struct Server {
    listeners: JoinSet<()>,
    workers: Vec<WorkerHandle>,
}

impl Server {
    /// Starts the workers, and tasks that accept clients.
    pub(crate) fn start(shared: &Arc<Shared>, bound: Bound) -> io::Result<Self> {
        let workers = (0..shared.config.threads)
            .map(|index| WorkerHandle::start(Arc::clone(shared), index))
            .collect::<io::Result<Vec<_>>>()?;
        for socket in bound.datagrams {
            for worker in &workers {
                let place = Place::list(socket.try_clone()?, shared)?;
                worker.hand_over(Arrival::Datagrams(place));
            }
        }
        let acceptor = Arc::new(Acceptor {
            shared: Arc::clone(shared),
            workers: workers.iter().map(WorkerHandle::arrivals).collect(),
            turn: AtomicUsize::new(0),
        });
        let mut tasks = JoinSet::new();
        for listener in bound.listeners {
            shared
                .registry
                .add_listener(listener.fd(), listener.address()?);
            let acceptor = Arc::clone(&acceptor);
            tasks.spawn(async move { acceptor.accept_from(&listener).await });
        }
        Ok(Self {
            listeners: tasks,
            workers,
        })
    }

    /// Never returns: clients are accepted all the time.
    pub async fn run(&mut self) {
        while self.listeners.join_next().await.is_some() {}
        pending().await
    }

    /// Closes the listeners and all connections, when the answers that are under way have been sent.
    pub async fn close(mut self) {
        self.listeners.shutdown().await;
        for worker in self.workers {
            worker.close();
        }
    }
}

/// Opens everything that `config` says to listen on, or says what could not be.
pub(crate) fn bind(config: &Config) -> Result<Bound, (Endpoint, io::Error)> {
    let mut bound = Bound::default();
    for endpoint in &config.listen {
        bound
            .add(endpoint, config.backlog)
            .map_err(|error| (endpoint.clone(), error))?;
    }
    Ok(bound)
}

impl Bound {
    fn add(&mut self, endpoint: &Endpoint, backlog: u32) -> io::Result<()> {
        match endpoint {
            Endpoint::Tcp { host, port, tls } => {
                let listeners = Listener::tcp(host, *port, *tls, backlog)?;
                self.listeners.extend(listeners);
            }
            Endpoint::Udp { host, port } => self.datagrams.extend(udp::bind(host, *port)?),
            Endpoint::Unix { path, mask } => {
                self.listeners.push(Listener::unix(path, *mask, backlog)?);
            }
        }
        Ok(())
    }
}

/// What the tasks that accept have in common.
struct Acceptor {
    shared: Arc<Shared>,
    workers: Vec<mpsc::UnboundedSender<Arrival>>,
    turn: AtomicUsize,
}

impl Acceptor {
    async fn accept_from(&self, listener: &Listener) {
        let mut backoff = ACCEPT_BACKOFF;
        loop {
            self.wait_for_room().await;
            match listener.accept().await {
                Ok(incoming) => {
                    backoff = ACCEPT_BACKOFF;
                    self.admit(incoming);
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(MAX_ACCEPT_BACKOFF);
                }
            }
        }
    }

    /// Where nobody is refused, clients wait in the backlog.
    async fn wait_for_room(&self) {
        if self.shared.config.refuse_connections || !self.is_full() {
            return;
        }
        let metrics = &self.shared.metrics;
        let began = Instant::now();
        metrics.pauses.fetch_add(1, Ordering::Relaxed);
        while self.is_full() {
            self.shared.room.notified().await;
        }
        let paused = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        metrics.paused_micros.fetch_add(paused, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        let open = self.shared.metrics.connections_open.load(Ordering::Relaxed);
        open >= self.shared.config.max_connections
    }

    /// Counts the connection in and hands it to the next worker, or tells it that there are too many.
    fn admit(&self, incoming: Incoming) {
        let metrics = &self.shared.metrics;
        metrics.connections_accepted.fetch_add(1, Ordering::Relaxed);
        if self.is_full() {
            metrics.connections_rejected.fetch_add(1, Ordering::Relaxed);
            return refuse(incoming.socket);
        }
        metrics.connections_open.fetch_add(1, Ordering::Relaxed);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.workers.len();
        if self.workers[turn]
            .send(Arrival::Connection(incoming))
            .is_err()
        {
            metrics.connections_open.fetch_sub(1, Ordering::Relaxed);
            debug!("a connection came while the workers close");
        }
    }
}

/// The line fits into the socket's empty buffer, so that there is nothing to wait for.
fn refuse(socket: Socket) {
    let _ = match socket {
        Socket::Tcp(mut socket) => socket.write_all(TOO_MANY_CONNECTIONS),
        Socket::Unix(mut socket) => socket.write_all(TOO_MANY_CONNECTIONS),
    };
}
