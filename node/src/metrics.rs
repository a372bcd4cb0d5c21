//! What the node counts.
//!
//! Owns every counter and histogram. Each worker thread writes only its own, so that counting shares nothing
//! between threads; readers add them up. How the numbers are shown is the business of [`prometheus`] and of
//! [`crate::stats`].

mod histogram;
pub mod prometheus;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::protocol::request::{Direction, Request, StoreMode};
use crate::protocol::response::{Refusal, Response};
use crate::store::StoreCounts;

pub use histogram::{Histogram, HistogramTotals};

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Only for the thread that owns the counter: two of them would lose counts.
    pub fn add(&self, count: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($variant,)* }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

labels! {
    /// The commands that are counted apart. Each key of a multi-get counts.
    Op {
        Get = "get",
        Gat = "gat",
        Set = "set",
        Add = "add",
        Replace = "replace",
        Append = "append",
        Prepend = "prepend",
        Cas = "cas",
        Delete = "delete",
        Incr = "incr",
        Decr = "decr",
        Touch = "touch",
        FlushAll = "flush_all",
        Other = "other",
    }
}

labels! {
    /// How a command ended.
    Outcome {
        Hit = "hit",
        Miss = "miss",
        Stored = "stored",
        NotStored = "not_stored",
        Exists = "exists",
        Ok = "ok",
        TooLarge = "too_large",
        Busy = "busy",
        ClientError = "client_error",
        ServerError = "server_error",
    }
}

impl Op {
    pub fn of(request: &Request<'_>) -> Self {
        match request {
            Request::Get { touch: None, .. } => Self::Get,
            Request::Get { touch: Some(_), .. } => Self::Gat,
            Request::MetaGet { steps, .. } if steps.touch() => Self::Gat,
            Request::MetaGet { .. } | Request::LeaseGet { .. } => Self::Get,
            Request::Inspect { .. } => Self::Other,
            Request::Store { mode, .. } | Request::StoreTooLarge { mode, .. } => match mode {
                StoreMode::Set | StoreMode::Leased(_) => Self::Set,
                StoreMode::Add => Self::Add,
                StoreMode::Replace => Self::Replace,
                StoreMode::Append(_) => Self::Append,
                StoreMode::Prepend(_) => Self::Prepend,
                StoreMode::Cas(_) | StoreMode::CasOrStale(_) => Self::Cas,
            },
            Request::Delete { .. } | Request::Invalidate { .. } => Self::Delete,
            Request::Arithmetic {
                direction: Direction::Incr,
                ..
            } => Self::Incr,
            Request::Arithmetic {
                direction: Direction::Decr,
                ..
            } => Self::Decr,
            Request::Touch { .. } => Self::Touch,
            Request::FlushAll { .. } => Self::FlushAll,
        }
    }
}

impl Outcome {
    pub fn of(response: &Response) -> Self {
        match response {
            Response::Hit(_)
            | Response::MetaHit(_)
            | Response::Inspected(_)
            | Response::Deleted
            | Response::Touched
            | Response::Number(_) => Self::Hit,
            Response::Miss | Response::Leased(_) | Response::NotFound => Self::Miss,
            Response::Stored { .. } => Self::Stored,
            Response::NotStored => Self::NotStored,
            Response::Exists => Self::Exists,
            Response::Ok
            | Response::Version(_)
            | Response::Mechanisms
            | Response::Challenge(_)
            | Response::Authenticated
            | Response::Stats(_)
            | Response::Details(_)
            | Response::Reset => Self::Ok,
            Response::Refused(refusal) => match refusal {
                Refusal::TooLarge => Self::TooLarge,
                Refusal::Busy => Self::Busy,
                Refusal::StorageFailed | Refusal::OutOfMemory => Self::ServerError,
                Refusal::UnknownCommand
                | Refusal::BadCommandLine
                | Refusal::BadDeleteArguments
                | Refusal::BadStatsDetail
                | Refusal::NoSuchStats
                | Refusal::BadExptime
                | Refusal::BadDelta
                | Refusal::BadDataChunk
                | Refusal::NotANumber
                | Refusal::ShutdownNotEnabled
                | Refusal::BadShutdownMode
                | Refusal::FlushNotAllowed
                | Refusal::DumpNotAllowed
                | Refusal::WatchNotAllowed
                | Refusal::TooManyWatchers
                | Refusal::DumpBusy
                | Refusal::BadClass
                | Refusal::BadCrawlerSleep
                | Refusal::MemoryLimitTooSmall
                | Refusal::MemoryLimitFixed
                | Refusal::TlsNotEnabled
                | Refusal::CertificateUnreadable
                | Refusal::Unauthenticated
                | Refusal::WrongPassword
                | Refusal::BadLogin
                | Refusal::BadLoginEnd
                | Refusal::Meta(_) => Self::ClientError,
            },
        }
    }
}

const OPS: usize = Op::ALL.len();
const OUTCOMES: usize = Outcome::ALL.len();

/// What one worker thread counts. Aligned so that no two workers share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerMetrics {
    commands: [[Counter; OUTCOMES]; OPS],
    latency: [Histogram; OPS],
    pub bytes_read: Counter,
    pub bytes_written: Counter,
    /// Connections that had their turn for long enough.
    pub yields: Counter,
    /// Connections closed because they were silent.
    pub idle_kicks: Counter,
    /// Attempts with a wrong user or password.
    pub login_failures: Counter,
    /// Attempts to log in.
    pub logins: Counter,
    /// Commands of the meta protocol.
    pub meta_commands: Counter,
}

impl WorkerMetrics {
    /// Counts a command that took `elapsed`, without waiting for its bytes and for its answer to leave.
    pub fn record(&self, op: Op, outcome: Outcome, elapsed: Duration) {
        self.commands[op as usize][outcome as usize].add(1);
        self.latency[op as usize].record(elapsed);
    }
}

/// Everything the node counts.
#[derive(Debug)]
pub struct Metrics {
    workers: Box<[WorkerMetrics]>,
    started: Instant,
    pub connections_accepted: AtomicU64,
    pub connections_rejected: AtomicU64,
    pub connections_open: AtomicU64,
    /// How often it was not accepted because there were too many, and for how long.
    pub pauses: AtomicU64,
    pub paused_micros: AtomicU64,
    /// The store's counts at the last `stats reset`.
    store_baseline: Mutex<StoreCounts>,
    /// What `stats reset` was asked at: `stats` counts from there, Prometheus's counters never go back.
    baseline: Mutex<Totals>,
}

impl Metrics {
    pub fn new(workers: usize) -> Self {
        Self {
            workers: std::iter::repeat_with(WorkerMetrics::default)
                .take(workers)
                .collect(),
            started: Instant::now(),
            connections_accepted: AtomicU64::default(),
            connections_rejected: AtomicU64::default(),
            connections_open: AtomicU64::default(),
            pauses: AtomicU64::default(),
            paused_micros: AtomicU64::default(),
            store_baseline: Mutex::default(),
            baseline: Mutex::default(),
        }
    }

    /// The counters of one worker thread, for that thread alone to write.
    pub fn worker(&self, index: usize) -> &WorkerMetrics {
        &self.workers[index]
    }

    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Everything since the start.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            connections_accepted: self.connections_accepted.load(Ordering::Relaxed),
            connections_rejected: self.connections_rejected.load(Ordering::Relaxed),
            ..Totals::default()
        };
        for worker in &self.workers {
            for (sums, counters) in totals.commands.iter_mut().zip(&worker.commands) {
                for (sum, counter) in sums.iter_mut().zip(counters) {
                    *sum += counter.get();
                }
            }
            totals.bytes_read += worker.bytes_read.get();
            totals.bytes_written += worker.bytes_written.get();
            totals.yields += worker.yields.get();
            totals.idle_kicks += worker.idle_kicks.get();
            totals.login_failures += worker.login_failures.get();
            totals.logins += worker.logins.get();
            totals.meta_commands += worker.meta_commands.get();
        }
        totals
    }

    /// Everything since the last [`Metrics::reset`].
    pub fn totals_since_reset(&self) -> Totals {
        let baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        self.totals().since(&baseline)
    }

    /// What the store has counted since the last [`Metrics::reset`], when it has counted `counts` in all.
    pub fn store_since_reset(&self, counts: StoreCounts) -> StoreCounts {
        let baseline = self.store_baseline.lock();
        counts.since(*baseline.unwrap_or_else(PoisonError::into_inner))
    }

    /// Has `stats` count from here on. The store has counted `counts`.
    pub fn reset(&self, counts: StoreCounts) {
        let baseline = self.store_baseline.lock();
        *baseline.unwrap_or_else(PoisonError::into_inner) = counts;
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner) = self.totals();
    }

    /// The latencies of one command, over all workers.
    pub fn latency(&self, op: Op) -> HistogramTotals {
        let mut totals = HistogramTotals::default();
        for worker in &self.workers {
            totals.add(&worker.latency[op as usize]);
        }
        totals
    }
}

/// All workers' counters added up.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    commands: [[u64; OUTCOMES]; OPS],
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub yields: u64,
    pub idle_kicks: u64,
    pub login_failures: u64,
    pub logins: u64,
    pub meta_commands: u64,
    pub connections_accepted: u64,
    pub connections_rejected: u64,
}

impl Totals {
    pub fn count(&self, op: Op, outcome: Outcome) -> u64 {
        self.commands[op as usize][outcome as usize]
    }

    /// How often any of `ops` ended in `outcome`.
    pub fn sum(&self, ops: &[Op], outcome: Outcome) -> u64 {
        ops.iter().map(|op| self.count(*op, outcome)).sum()
    }

    fn since(mut self, baseline: &Self) -> Self {
        for (counts, before) in self.commands.iter_mut().zip(&baseline.commands) {
            for (count, before) in counts.iter_mut().zip(before) {
                *count -= before;
            }
        }
        self.bytes_read -= baseline.bytes_read;
        self.bytes_written -= baseline.bytes_written;
        self.yields -= baseline.yields;
        self.idle_kicks -= baseline.idle_kicks;
        self.login_failures -= baseline.login_failures;
        self.logins -= baseline.logins;
        self.meta_commands -= baseline.meta_commands;
        self.connections_accepted -= baseline.connections_accepted;
        self.connections_rejected -= baseline.connections_rejected;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workers_counts_are_added_up_and_reset_only_moves_the_baseline() {
        let metrics = Metrics::new(2);
        for worker in 0..2 {
            metrics
                .worker(worker)
                .record(Op::Get, Outcome::Hit, Duration::from_micros(3));
        }
        assert_eq!(metrics.totals_since_reset().count(Op::Get, Outcome::Hit), 2);
        metrics.reset(StoreCounts::default());
        metrics
            .worker(1)
            .record(Op::Get, Outcome::Hit, Duration::from_micros(3));
        assert_eq!(metrics.totals_since_reset().count(Op::Get, Outcome::Hit), 1);
        assert_eq!(metrics.totals().count(Op::Get, Outcome::Hit), 3);
        assert_eq!(metrics.latency(Op::Get).count(), 3);
    }
}
