//! One thread that serves its share of the connections.
//!
//! Owns the thread, its runtime and what its connections share without locks. It does not accept connections:
//! they are handed to it.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::BytesMut;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tracing::{debug, error};

use crate::clock::UnixSeconds;
use crate::connection::{Connection, events};
use crate::listener::Incoming;
use crate::metrics::WorkerMetrics;
use crate::registry::Listed;
use crate::server::Shared;
use crate::store::{Store, StoreError};
use crate::stream::Stream;
use crate::udp::{self, Place};

/// Buffers kept for the next connection that has something to say, for what it says and for the answer. More are
/// in use only while clients are in the middle of a request, or slow to read.
const SPARE_BUFFERS: usize = 4;
/// A buffer that held a large value is given back to the system.
const MAX_SPARE_CAPACITY: usize = 64 << 10;
/// How long answers may take to leave when the node closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the connections of one worker thread share.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    index: usize,
    closing: CancellationToken,
    /// Whether that has begun: cheaper to ask.
    is_closing: Cell<bool>,
    spare_buffers: RefCell<Vec<BytesMut>>,
    /// The second in which a failing disk was last reported: once is enough.
    reported: Cell<UnixSeconds>,
}

/// The way to a worker thread. Dropping it closes the worker's connections.
pub(crate) struct WorkerHandle {
    arrivals: mpsc::UnboundedSender<Arrival>,
    thread: JoinHandle<()>,
}

/// What a worker is to serve.
pub(crate) enum Arrival {
    Connection(Incoming),
    /// Where datagrams come to, for all workers.
    Datagrams(Place),
}

impl WorkerHandle {
    /// Starts worker number `index`.
    pub(crate) fn start(shared: Arc<Shared>, index: usize) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // Bounded by the connection limit, which is checked before anything is sent.
        let (arrivals, arriving) = mpsc::unbounded_channel();
        let thread = thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || {
                let worker = Rc::new(Worker::new(shared, index));
                LocalSet::new().block_on(&runtime, worker.serve(arriving));
            })?;
        Ok(Self { arrivals, thread })
    }

    /// Where connections are handed over.
    pub(crate) fn arrivals(&self) -> mpsc::UnboundedSender<Arrival> {
        self.arrivals.clone()
    }

    pub(crate) fn hand_over(&self, arrival: Arrival) {
        if self.arrivals.send(arrival).is_err() {
            error!("a worker thread has ended");
        }
    }

    /// Closes the worker's connections, once what they are being answered is sent, and ends the thread. Nobody else may
    /// still be able to hand connections over.
    pub(crate) fn close(self) {
        drop(self.arrivals);
        if self.thread.join().is_err() {
            error!("a worker thread has panicked");
        }
    }
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Self {
        Self {
            shared,
            index,
            closing: CancellationToken::new(),
            is_closing: Cell::new(false),
            spare_buffers: RefCell::default(),
            reported: Cell::default(),
        }
    }

    async fn serve(self: Rc<Self>, mut arriving: mpsc::UnboundedReceiver<Arrival>) {
        // Each connection holds a sender: the channel ends when the last of them has.
        let (connection_guard, mut all_gone) = mpsc::channel::<()>(1);
        while let Some(arrival) = arriving.recv().await {
            let guard = connection_guard.clone();
            let worker = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                let served = match arrival {
                    Arrival::Connection(incoming) => worker.serve_one(incoming).await,
                    Arrival::Datagrams(place) => Box::pin(udp::serve(&worker, place)).await,
                };
                if let Err(error) = served {
                    debug!(%error, "a connection was lost");
                }
                drop(guard);
            });
        }
        self.is_closing.set(true);
        self.closing.cancel();
        drop(connection_guard);
        if timeout(CLOSE_TIMEOUT, all_gone.recv()).await.is_err() {
            debug!(
                worker = self.index,
                "closing although answers are not sent yet"
            );
        }
    }

    /// Serves a connection that has been counted in, until it ends.
    pub(crate) async fn serve_one(self: &Rc<Self>, incoming: Incoming) -> io::Result<()> {
        let Incoming {
            socket,
            peer,
            local,
            tls,
        } = incoming;
        let listed = Arc::new(Listed::new(socket.fd(), peer, local, self.now()));
        let _open = OpenConnection::begin(&self.shared, Arc::clone(&listed));
        let tls = self.shared.tls.as_ref().filter(|_| tls);
        events::tell_open(&self.shared.watchers, &listed);
        let result = match Stream::open(socket, tls).await {
            Ok(stream) => {
                let listed = Arc::clone(&listed);
                Connection::new(stream, listed, Rc::clone(self)).run().await
            }
            Err(error) => Err(error),
        };
        events::tell_close(&self.shared.watchers, &listed, &result);
        result
    }

    /// Returns when the worker closes.
    pub(crate) fn closed(&self) -> WaitForCancellationFuture<'_> {
        self.closing.cancelled()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    pub(crate) fn metrics(&self) -> &WorkerMetrics {
        self.shared.metrics.worker(self.index)
    }

    pub(crate) fn now(&self) -> UnixSeconds {
        self.shared.clock.now()
    }

    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        self.shared.config.idle_timeout
    }

    pub(crate) fn commands_per_turn(&self) -> u32 {
        self.shared.config.commands_per_turn
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.shared.drain.has_begun()
    }

    /// Logs a failure of the disk, at most once a second.
    pub(crate) fn report(&self, now: UnixSeconds, failure: &StoreError) {
        if self.reported.replace(now) != now {
            error!(%failure, "clients are answered SERVER_ERROR");
        }
    }

    /// An empty buffer.
    pub(crate) fn take_buffer(&self) -> BytesMut {
        self.spare_buffers.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps a buffer that is not needed any more.
    pub(crate) fn put_buffer(&self, mut buffer: BytesMut) {
        buffer.clear();
        let mut spare = self.spare_buffers.borrow_mut();
        if spare.len() < SPARE_BUFFERS && buffer.capacity() <= MAX_SPARE_CAPACITY {
            spare.push(buffer);
        }
    }
}

/// Lists a connection while it is open, and counts it out when it ends; the acceptor has counted it in.
struct OpenConnection<'a> {
    shared: &'a Shared,
    listed: Arc<Listed>,
}

impl<'a> OpenConnection<'a> {
    fn begin(shared: &'a Shared, listed: Arc<Listed>) -> Self {
        shared.registry.add(Arc::clone(&listed));
        Self { shared, listed }
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.shared.registry.remove(&self.listed);
        self.shared
            .metrics
            .connections_open
            .fetch_sub(1, Ordering::Relaxed);
        self.shared.room.notify_one();
    }
}
