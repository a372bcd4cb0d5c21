//! Accepting clients and handing them to the workers in turn.
//!
//! Owns the listener, the connection limit and the worker threads. What a connection says is not looked at.
//!
//! mcrouter opens few connections and keeps them, so that only handing them out in turn gives every worker its share.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::shutdown::Drain;
use crate::store::Store;
use crate::worker::WorkerHandle;

/// memcached's answer to one connection too many.
const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";
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
}

/// A bound listener and running workers.
pub struct Server {
    shared: Arc<Shared>,
    listener: TcpListener,
    workers: Vec<WorkerHandle>,
}

impl Server {
    pub async fn bind(shared: Arc<Shared>) -> io::Result<Self> {
        let listener = TcpListener::bind(shared.config.listen_addr).await?;
        let workers = (0..shared.config.threads)
            .map(|index| WorkerHandle::start(Arc::clone(&shared), index))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            shared,
            listener,
            workers,
        })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts clients for as long as it is polled.
    pub async fn accept(&self) {
        let mut turns = self.workers.iter().cycle();
        let mut backoff = ACCEPT_BACKOFF;
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    backoff = ACCEPT_BACKOFF;
                    if let (Some(stream), Some(worker)) = (self.admit(stream), turns.next())
                        && let Err(error) = hand_over(worker, stream)
                    {
                        self.shared
                            .metrics
                            .connections_open
                            .fetch_sub(1, Ordering::Relaxed);
                        debug!(%peer, %error, "cannot hand a connection over");
                    }
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(MAX_ACCEPT_BACKOFF);
                }
            }
        }
    }

    /// Closes the listener and all connections, when the answers that are under way have been sent.
    pub fn close(self) {
        drop(self.listener);
        for worker in self.workers {
            worker.close();
        }
    }

    /// Counts the connection in, or tells it that there are too many.
    fn admit(&self, stream: TcpStream) -> Option<TcpStream> {
        let metrics = &self.shared.metrics;
        metrics.connections_accepted.fetch_add(1, Ordering::Relaxed);
        let open = metrics.connections_open.fetch_add(1, Ordering::Relaxed);
        if open < self.shared.config.max_connections {
            return Some(stream);
        }
        metrics.connections_open.fetch_sub(1, Ordering::Relaxed);
        metrics.connections_rejected.fetch_add(1, Ordering::Relaxed);
        refuse(stream);
        None
    }
}

fn hand_over(worker: &WorkerHandle, stream: TcpStream) -> io::Result<()> {
    worker
        .serve(stream.into_std()?)
        .map_err(|_| io::Error::other("the worker is gone"))
}

/// The line fits into the socket's empty buffer, so that there is nothing to wait for.
fn refuse(mut stream: TcpStream) {
    tokio::spawn(async move {
        let _ = stream.write_all(TOO_MANY_CONNECTIONS).await;
    });
}
