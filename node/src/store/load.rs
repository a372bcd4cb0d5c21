//! Reading from the disk without holding anybody up.
//!
//! Owns the threads that wait for the disk, and what others wait on meanwhile. What was read goes into the memory
//! tier, and whoever waited asks again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, atomic::AtomicU64};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

use crossbeam_channel::{Receiver, Sender, unbounded};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::StoreError;
use super::item::{Attributes, Expiry, Item};
use super::liveness::Liveness;
use super::memory::{Locked, Memory, Place};
use super::quota::Quota;
use super::record;
use super::rocks::Rocks;
use crate::clock::UnixSeconds;

/// Disks answer several at a time; more than these wait for each other there.
const THREADS: usize = 8;

/// A key that is being read from the disk.
#[derive(Clone, Default)]
pub struct Loading(Arc<State>);

#[derive(Default)]
struct State {
    done: CancellationToken,
    failure: OnceLock<StoreError>,
}

impl Loading {
    /// Returns when the disk has answered. The request may be tried again then, unless the disk failed.
    pub async fn finished(&self) -> Result<(), StoreError> {
        self.0.done.cancelled().await;
        match self.0.failure.get() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    pub fn is_finished(&self) -> bool {
        self.0.done.is_cancelled()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn finish(&self, result: Result<(), StoreError>) {
        if let Err(failure) = result {
            // Only one thread finishes a load, once.
            let _ = self.0.failure.set(failure);
        }
        self.0.done.cancel();
    }
}

impl fmt::Debug for Loading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loading")
            .field("finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

struct Job {
    key: Box<[u8]>,
    place: Place,
    loading: Loading,
    now: UnixSeconds,
}

/// The threads that read. Dropping it waits for what is being read.
pub(super) struct Loaders {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    loads: AtomicU64,
    found: AtomicU64,
}

impl Loaders {
    pub(super) fn start(
        memory: &Arc<Memory>,
        rocks: &Arc<Rocks>,
        quota: &Arc<Quota>,
        liveness: &Arc<Liveness>,
    ) -> io::Result<Self> {
        // Bounded by what the connections may have under way.
        let (jobs, queue) = unbounded();
        let counts = Arc::new(Counts::default());
        let threads = (0..THREADS)
            .map(|index| {
                let (memory, rocks) = (Arc::clone(memory), Arc::clone(rocks));
                let (quota, liveness) = (Arc::clone(quota), Arc::clone(liveness));
                let (queue, counts) = (queue.clone(), Arc::clone(&counts));
                thread::Builder::new()
                    .name(format!("loader-{index}"))
                    .spawn(move || {
                        let to = To {
                            memory: &memory,
                            rocks: &rocks,
                            quota: &quota,
                            liveness: &liveness,
                        };
                        to.load_all(&queue, &counts);
                    })
            })
            .collect::<io::Result<_>>()?;
        Ok(Self {
            jobs: Some(jobs),
            threads,
            counts,
        })
    }

    /// Reads `key` for `loading`, which its shard knows of.
    pub(super) fn load(&self, key: &[u8], place: Place, loading: &Loading, now: UnixSeconds) {
        let job = Job {
            key: key.into(),
            place,
            loading: loading.clone(),
            now,
        };
        // The threads live as long as `self`.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
    }

    /// Reads from the disk since the start.
    pub(super) fn count(&self) -> u64 {
        self.counts.loads.load(Ordering::Relaxed)
    }

    /// Items that these reads have found.
    pub(super) fn found(&self) -> u64 {
        self.counts.found.load(Ordering::Relaxed)
    }

    /// Reads that wait for a thread.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.as_ref().map_or(0, Sender::len)
    }
}

impl Drop for Loaders {
    fn drop(&mut self) {
        self.jobs.take();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                error!("a thread that reads from the disk has panicked");
            }
        }
    }
}

/// What a thread reads from, and where it brings it.
struct To<'a> {
    memory: &'a Memory,
    rocks: &'a Rocks,
    quota: &'a Quota,
    liveness: &'a Liveness,
}

impl To<'_> {
    fn load_all(&self, queue: &Receiver<Job>, counts: &Counts) {
        while let Ok(job) = queue.recv() {
            let found = self.load(&job);
            counts.loads.fetch_add(1, Ordering::Relaxed);
            if let Ok(true) = found {
                counts.found.fetch_add(1, Ordering::Relaxed);
            }
            job.loading.finish(found.map(drop));
        }
    }

    /// Brings the item to memory, and says whether there was one.
    fn load(&self, job: &Job) -> Result<bool, StoreError> {
        let read = self.rocks.get(&job.key).map_err(StoreError::Read);
        let mut shard = self.memory.lock(job.place);
        if !shard.end_load(&job.key, &job.loading) {
            // Somebody has written meanwhile, so that what was read is history.
            return Ok(false);
        }
        let item = read?.and_then(|record| {
            let header = record::header(&record)?;
            // Asked under the lock, because memory is swept but once of what a purge drops.
            let kept = self.liveness.is_kept(&job.key, header.attributes.cas);
            kept.then(|| record::item(&job.key, header, &record, job.now))
        });
        match &item {
            Some(item) => keep(&mut shard, item, self.quota),
            None => {
                let hash = shard.hash();
                shard.keep_absent(hash, absent(&job.key, job.now));
            }
        }
        Ok(item.is_some())
    }
}

/// Keeps what the disk has in memory, and on the disk if it would be dropped there soon.
pub(super) fn keep(shard: &mut Locked<'_>, item: &Item, quota: &Quota) {
    let hash = shard.hash();
    shard.keep(hash, item.clone());
    if quota.endangers(item.written()) {
        shard.write_again(hash, item);
        quota.count_rewritten(1);
    }
}

/// What stands in the memory tier for a key that has no item.
pub(super) fn absent(key: &[u8], now: UnixSeconds) -> Item {
    let nothing = Attributes {
        flags: 0,
        expiry: Expiry::NEVER,
        cas: u64::MAX,
    };
    Item::new(key, nothing, b"", now)
}
