//! Write-behind: what was written in memory goes to the disk, on a thread of its own.
//!
//! Owns when that happens and who waits for it. All passes are made by one thread, one after the other, so that the
//! versions of an item reach the disk in their order; between two passes only the last version of an item counts.
//!
//! ```text
//!   workers ──dirty items──► memory tier ──pass──► lots ──┬── little ──► log and memtable
//!      │                                                  └── much ────► table file
//!      └── commit: wait for a pass that began after the write (always, fsync) ◄── finished
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::{error, info};

use super::StoreError;
use super::durability::Durability;
use super::heartbeat::Heartbeat;
use super::liveness::Liveness;
use super::lot::{Lot, Written};
use super::memory::Memory;
use super::pace::Pace;
use super::quota::Quota;
use super::rocks::Rocks;
use crate::clock::Clock;

/// Items that are taken or settled while the lock of their shard is held.
const ITEMS_PER_LOCK: usize = 128;
/// Taken at a time, so that a lot does not grow far beyond what fills it.
const BYTES_PER_TURN: usize = 1 << 20;
/// The timer of the modes whose promise does not depend on it.
const DEFAULT_PERIOD: Duration = Duration::from_secs(1);
/// A disk that fails is left alone for so long, however much somebody wants a pass.
const RETRY_PERIOD: Duration = Duration::from_millis(100);

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

/// What a pass works on.
pub(super) struct Parts {
    pub(super) memory: Arc<Memory>,
    pub(super) rocks: Arc<Rocks>,
    pub(super) liveness: Arc<Liveness>,
    pub(super) quota: Arc<Quota>,
    pub(super) heartbeat: Heartbeat,
    pub(super) clock: Arc<dyn Clock>,
    /// Where a table file is built, on the database's file system.
    pub(super) incoming: PathBuf,
}

/// What a pass needs, and what it counts.
struct Flusher {
    parts: Parts,
    durability: Durability,
    interval: Duration,
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
            interval,
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
        self.flusher.pass(None)?;
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

/// When the next pass begins after one that took `took` and came `distance` after its predecessor. A write is at most one
/// period old when its pass begins, and a pass takes the longer, the more has come together: both fit into three quarters of
/// the interval, the rest is in case the next one takes longer. The longer the period, the more overwrites come together.
fn period(
    durability: Durability,
    interval: Duration,
    took: Duration,
    distance: Duration,
) -> Duration {
    match durability {
        Durability::Interval => {
            let share = took.as_secs_f64() / distance.as_secs_f64().max(f64::EPSILON);
            let period = interval.mul_f64(0.75 / (1.0 + share));
            period.clamp(interval / 2, interval / 4 * 3)
        }
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
        let mut earliest = Instant::now();
        // When what is dirty may have been written first.
        let mut oldest = earliest;
        let mut tick = earliest
            + period(
                self.durability,
                self.interval,
                Duration::ZERO,
                self.interval,
            );
        while let Some(pass) = self.next_pass(earliest, tick) {
            let begun = Instant::now();
            let result = self.pass(self.due(oldest));
            let (took, distance) = (begun.elapsed(), begun - oldest);
            oldest = begun;
            let now = self.parts.clock.now();
            self.parts
                .quota
                .keep(&self.parts.memory, &self.parts.rocks, now);
            if result.is_ok() {
                self.parts.heartbeat.beat(&self.parts.rocks, now);
            }
            self.report(&result);
            let ended = Instant::now();
            tick = (begun + period(self.durability, self.interval, took, distance)).max(ended);
            if result.is_err() {
                earliest = ended + RETRY_PERIOD;
                tick = earliest;
            }
            self.finished.send_replace(Finished {
                pass,
                failure: result.err(),
            });
        }
    }

    /// When a pass must be over that nobody waits for: what was written at `oldest` reaches the disk in time.
    fn due(&self, oldest: Instant) -> Option<Instant> {
        let requests = self.lock();
        let acknowledges = matches!(self.durability, Durability::Always | Durability::Fsync);
        let awaited = acknowledges || requests.wanted >= requests.begun || requests.stop;
        (!awaited).then(|| oldest + self.interval / 8 * 7)
    }

    /// Waits until a pass is due, or wanted and not too early. `None` when there will be no more.
    fn next_pass(&self, earliest: Instant, due: Instant) -> Option<u64> {
        let mut requests = self.lock();
        loop {
            if requests.stop {
                return None;
            }
            let wanted = requests.wanted > requests.begun;
            let begin = if wanted { earliest } else { due };
            let left = begin.saturating_duration_since(Instant::now());
            if left.is_zero() {
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
    fn pass(&self, due: Option<Instant>) -> Result<(), StoreError> {
        let begun = Instant::now();
        let result = self.try_pass(&mut Pace::until(due));
        if result.is_ok() {
            *self.complete.lock().unwrap_or_else(PoisonError::into_inner) = begun;
            let elapsed = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.figures.last_pass_us.store(elapsed, Ordering::Relaxed);
        } else {
            self.parts.memory.find_dirty_shards();
        }
        result
    }

    fn try_pass(&self, pace: &mut Pace) -> Result<(), StoreError> {
        let mut lot = Lot::default();
        let mut wrote = false;
        for index in self.parts.memory.take_dirty_shards() {
            // What others write meanwhile is left for the next pass, or this one might never end.
            let mut left = self.parts.memory.lock_index(index).dirty_count();
            while left > 0 {
                let now = self.parts.clock.now();
                let taken = self.parts.memory.lock_index(index).take_dirty(
                    left.min(ITEMS_PER_LOCK),
                    BYTES_PER_TURN,
                    now,
                );
                left -= taken.len();
                lot.add(index, taken);
                pace.step();
                if lot.is_full(&self.parts.rocks) {
                    wrote = true;
                    self.write(&mut lot, pace)?;
                }
            }
        }
        if !lot.items().is_empty() {
            wrote = true;
            self.write(&mut lot, pace)?;
        }
        if wrote {
            self.make_durable()?;
            self.figures.passes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes the lot, settles what is in it, whether it could be written or not, and empties it.
    fn write(&self, lot: &mut Lot, pace: &mut Pace) -> Result<(), StoreError> {
        let Parts {
            rocks,
            liveness,
            clock,
            ..
        } = &self.parts;
        let result = if lot.is_large(rocks) {
            self.write_file(lot, pace)
        } else {
            lot.log(rocks, liveness, clock.now(), pace)
        };
        self.settle(lot, result.is_ok(), pace);
        let items = lot.items().len() as u64;
        lot.clear(pace);
        let Written { bytes, lives_until } = result.map_err(StoreError::Write)?;
        self.figures.items.fetch_add(items, Ordering::Relaxed);
        self.figures.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.parts
            .quota
            .note(bytes, lives_until, clock.now(), rocks);
        Ok(())
    }

    fn write_file(&self, lot: &Lot, pace: &mut Pace) -> Result<Written, rocksdb::Error> {
        let Parts {
            rocks,
            liveness,
            quota,
            clock,
            incoming,
            ..
        } = &self.parts;
        quota.wait_for_space(rocks);
        let mut file = rocks.table_file(incoming)?;
        let written = lot.fill(&mut file, liveness, clock.now(), pace)?;
        file.finish()?;
        rocks.add_table_file(incoming)?;
        Ok(written)
    }

    fn settle(&self, lot: &Lot, written: bool, pace: &mut Pace) {
        let by_shard = lot.items().chunk_by(|(one, _), (other, _)| one == other);
        for chunk in by_shard.flat_map(|shard| shard.chunks(ITEMS_PER_LOCK)) {
            let mut shard = self.parts.memory.lock_index(chunk[0].0);
            for (_, taken) in chunk {
                shard.settle(taken, written);
            }
            drop(shard);
            pace.step();
        }
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
