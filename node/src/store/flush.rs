//! Write-behind: what was written in memory goes to the disk, on a thread of its own.
//!
//! Owns when that happens and who waits for it. All passes are made by one thread, one after the other, so that the
//! versions of an item reach the disk in their order; between two passes only the last version of an item counts.
//!
//! ```text
//!   workers ──dirty items──► memory tier ──pass──► one write batch after the other ──► log and memtable
//!      └── commit: wait for a pass that began after the write (always, fsync) ◄── finished ──┘
//! ```

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::{error, info};

use super::StoreError;
use super::durability::Durability;
use super::heartbeat::Heartbeat;
use super::item::{Expiry, Item, Marks};
use super::liveness::Liveness;
use super::memory::{Memory, Taken};
use super::quota::Quota;
use super::record;
use super::rocks::{Batch, Rocks};
use crate::clock::{Clock, UnixSeconds};

/// One write to RocksDB. Larger ones gain nothing, and hold up who waits for the pass.
const BATCH_BYTES: usize = 1 << 20;
/// The timer of the modes whose promise does not depend on it.
const DEFAULT_PERIOD: Duration = Duration::from_secs(1);

/// The last pass that ended.
#[derive(Clone, Debug, Default)]
struct Finished {
    pass: u64,
    failure: Option<StoreError>,
}

#[derive(Debug, Default)]
struct Requests {
    /// Passes that have begun.
    begun: u64,
    /// The pass that somebody waits for.
    wanted: u64,
    stop: bool,
}

/// What is written together.
struct Lot {
    writes: Batch,
    /// The items in it, with their shards.
    taken: Vec<(usize, Taken)>,
    /// Nothing in it lives longer.
    lives_until: Expiry,
}

impl Default for Lot {
    fn default() -> Self {
        Self {
            writes: Batch::default(),
            taken: Vec::new(),
            lives_until: Expiry::PAST,
        }
    }
}

/// What a pass works on.
pub(super) struct Parts {
    pub(super) memory: Arc<Memory>,
    pub(super) rocks: Arc<Rocks>,
    pub(super) liveness: Arc<Liveness>,
    pub(super) quota: Arc<Quota>,
    pub(super) heartbeat: Heartbeat,
    pub(super) clock: Arc<dyn Clock>,
}

/// What a pass needs, and what it counts.
struct Flusher {
    parts: Parts,
    durability: Durability,
    period: Duration,
    requests: Mutex<Requests>,
    requested: Condvar,
    finished: watch::Sender<Finished>,
    /// When the last pass began that wrote everything.
    complete: Mutex<Instant>,
    figures: Counts,
}

#[derive(Default)]
struct Counts {
    passes: AtomicU64,
    items: AtomicU64,
    bytes: AtomicU64,
    /// How long the last pass took, in microseconds.
    last_pass_us: AtomicU64,
}

/// What write-behind has done since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlushFigures {
    pub passes: u64,
    pub items: u64,
    /// Keys and records.
    pub bytes: u64,
    pub last_pass: Duration,
    /// How old what is not on the disk is at most: the time since the last complete pass began.
    pub lag: Duration,
    pub failing: bool,
}

/// The thread, and the way to it. Dropping it ends the thread after what it is doing.
pub(super) struct WriteBehind {
    flusher: Arc<Flusher>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriteBehind {
    pub(super) fn start(
        parts: Parts,
        durability: Durability,
        interval: Duration,
    ) -> io::Result<Self> {
        let flusher = Arc::new(Flusher {
            parts,
            durability,
            period: period(durability, interval),
            requests: Mutex::default(),
            requested: Condvar::new(),
            finished: watch::Sender::default(),
            complete: Mutex::new(Instant::now()),
            figures: Counts::default(),
        });
        let thread = thread::Builder::new().name("write-behind".into()).spawn({
            let flusher = Arc::clone(&flusher);
            move || flusher.run()
        })?;
        Ok(Self {
            flusher,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns when everything that is dirty now has been through a pass.
    pub(super) async fn pass(&self) -> Result<(), StoreError> {
        let wanted = self.flusher.request();
        let mut finished = self.flusher.finished.subscribe();
        // The sender lives as long as `self`.
        let Ok(last) = finished.wait_for(|last| last.pass >= wanted).await else {
            return Ok(());
        };
        last.failure.clone().map_or(Ok(()), Err)
    }

    /// Asks for a pass without waiting for it.
    pub(super) fn hurry(&self) {
        self.flusher.request();
    }

    /// Whether the last pass failed.
    pub(super) fn is_failing(&self) -> bool {
        self.flusher.finished.borrow().failure.is_some()
    }

    /// Ends the thread and makes the last pass.
    pub(super) fn finish(&self) -> Result<(), StoreError> {
        self.stop();
        self.flusher.pass()?;
        self.flusher
            .parts
            .heartbeat
            .last_beat(&self.flusher.parts.rocks, self.flusher.parts.clock.now());
        Ok(())
    }

    pub(super) fn figures(&self) -> FlushFigures {
        let counts = &self.flusher.figures;
        FlushFigures {
            passes: counts.passes.load(Ordering::Relaxed),
            items: counts.items.load(Ordering::Relaxed),
            bytes: counts.bytes.load(Ordering::Relaxed),
            last_pass: Duration::from_micros(counts.last_pass_us.load(Ordering::Relaxed)),
            lag: if self.flusher.parts.memory.dirty_bytes() == 0 {
                Duration::ZERO
            } else {
                let complete = self.flusher.complete.lock();
                complete.unwrap_or_else(PoisonError::into_inner).elapsed()
            },
            failing: self.is_failing(),
        }
    }

    fn stop(&self) {
        self.flusher.lock().stop = true;
        self.flusher.requested.notify_one();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            error!("the thread that writes to the disk has panicked");
        }
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A write is at most one period old when its pass begins; the other half of the interval is for the pass.
fn period(durability: Durability, interval: Duration) -> Duration {
    match durability {
        Durability::Interval => interval / 2,
        Durability::None | Durability::Always | Durability::Fsync => DEFAULT_PERIOD,
    }
}

impl Flusher {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next pass to begin, which will be made soon.
    fn request(&self) -> u64 {
        let mut requests = self.lock();
        let next = requests.begun + 1;
        if requests.wanted < next {
            requests.wanted = next;
            self.requested.notify_one();
        }
        next
    }

    /// Ticks keep their distance however long a pass takes.
    fn run(&self) {
        let mut tick = Instant::now() + self.period;
        while let Some(pass) = self.next_pass(tick) {
            let result = self.pass();
            let now = self.parts.clock.now();
            self.parts
                .quota
                .keep(&self.parts.memory, &self.parts.rocks, now);
            if result.is_ok() {
                self.parts.heartbeat.beat(&self.parts.rocks, now);
            }
            self.report(&result);
            self.finished.send_replace(Finished {
                pass,
                failure: result.err(),
            });
            tick = (tick + self.period).max(Instant::now());
        }
    }

    /// Waits until a pass is wanted or due. `None` when there will be no more.
    fn next_pass(&self, due: Instant) -> Option<u64> {
        let mut requests = self.lock();
        loop {
            if requests.stop {
                return None;
            }
            let left = due.saturating_duration_since(Instant::now());
            if requests.wanted > requests.begun || left.is_zero() {
                requests.begun += 1;
                return Some(requests.begun);
            }
            requests = self
                .requested
                .wait_timeout(requests, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Writes everything that is dirty when it begins. Only one thread may do this at a time.
    fn pass(&self) -> Result<(), StoreError> {
        let begun = Instant::now();
        let result = self.try_pass();
        if result.is_ok() {
            *self.complete.lock().unwrap_or_else(PoisonError::into_inner) = begun;
            let elapsed = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.figures.last_pass_us.store(elapsed, Ordering::Relaxed);
        } else {
            self.parts.memory.find_dirty_shards();
        }
        result
    }

    fn try_pass(&self) -> Result<(), StoreError> {
        let mut lot = Lot::default();
        let mut wrote = false;
        for index in self.parts.memory.take_dirty_shards() {
            // What others write meanwhile is left for the next pass, or this one might never end.
            let mut left = self.parts.memory.lock_index(index).dirty_count();
            while left > 0 {
                let taken = self.parts.memory.lock_index(index).take_dirty(
                    left,
                    BATCH_BYTES,
                    self.parts.clock.now(),
                );
                left -= taken.len();
                self.fill(&mut lot, &taken);
                lot.taken
                    .extend(taken.into_iter().map(|taken| (index, taken)));
                if lot.writes.bytes() >= BATCH_BYTES || left > 0 {
                    wrote = true;
                    self.write(&mut lot)?;
                }
            }
        }
        if !lot.taken.is_empty() {
            wrote = true;
            self.write(&mut lot)?;
        }
        if wrote {
            self.make_durable()?;
            self.figures.passes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn fill(&self, lot: &mut Lot, taken: &[Taken]) {
        let now = self.parts.clock.now();
        for Taken { item, .. } in taken {
            // The disk may have an older version that would come alive again.
            if item.has(Marks::ABSENT) || !self.is_live(item, now) {
                lot.writes.delete(item.key());
            } else {
                lot.writes
                    .put(item.key(), |record| record::encode(item, record));
                lot.lives_until = lot.lives_until.later(item.expiry());
            }
        }
    }

    fn is_live(&self, item: &Item, now: UnixSeconds) -> bool {
        self.parts
            .liveness
            .is_live(item.key(), item.attributes(), now)
    }

    /// Writes the lot and settles what is in it, whether it could be written or not.
    fn write(&self, lot: &mut Lot) -> Result<(), StoreError> {
        let bytes = lot.writes.bytes() as u64;
        let result = self
            .parts
            .rocks
            .write(&mut lot.writes)
            .map_err(StoreError::Write);
        for chunk in lot.taken.chunk_by(|(one, _), (other, _)| one == other) {
            let mut shard = self.parts.memory.lock_index(chunk[0].0);
            for (_, taken) in chunk {
                shard.settle(taken, result.is_ok());
            }
        }
        if result.is_ok() {
            let items = lot.taken.len() as u64;
            self.figures.items.fetch_add(items, Ordering::Relaxed);
            self.figures.bytes.fetch_add(bytes, Ordering::Relaxed);
            let now = self.parts.clock.now();
            self.parts
                .quota
                .note(bytes, lot.lives_until, now, &self.parts.rocks);
        }
        lot.taken.clear();
        lot.lives_until = Expiry::PAST;
        result
    }

    fn make_durable(&self) -> Result<(), StoreError> {
        match self.durability {
            // In mode interval the log is synced by a thread of its own.
            Durability::None | Durability::Interval | Durability::Always => Ok(()),
            Durability::Fsync => self.parts.rocks.sync_log().map_err(StoreError::Flush),
        }
    }

    /// A failing disk is said once, and so is its recovery.
    fn report(&self, result: &Result<(), StoreError>) {
        let failed_before = self.finished.borrow().failure.is_some();
        match result {
            Err(failure) if !failed_before => error!(
                %failure,
                "cannot write to the disk: serving from memory, what is new would not survive a crash"
            ),
            Ok(()) if failed_before => info!("the disk takes writes again"),
            _ => {}
        }
        if result.is_err()
            && let Err(error) = self.parts.rocks.resume()
        {
            tracing::debug!(%error, "the database cannot resume yet");
        }
    }
}
