//! Builds table files in what is left of the processor.
//!
//! Owns the thread that does it. To build a file is most of the work of write-behind, and on a core that also serves clients
//! a scheduler would let it run for milliseconds at a time: many times what a request takes. So this thread has the
//! lowest priority that there is and is interrupted by any other. Therefore it takes no lock that clients need, and who
//! waits for it does so only until a file is due.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};
use tracing::{debug, error};

use super::liveness::Liveness;
use super::lot::{Lot, Written};
use super::rocks::Rocks;
use crate::clock::UnixSeconds;

/// What a table file is built from.
pub(super) struct Plan {
    pub(super) lot: Lot,
    pub(super) rocks: Arc<Rocks>,
    pub(super) liveness: Arc<Liveness>,
    pub(super) now: UnixSeconds,
}

impl Plan {
    /// Builds the file in `path`.
    pub(super) fn build(&self, path: &Path) -> Result<Written, rocksdb::Error> {
        let built = self.build_while(path, || true)?;
        Ok(built.unwrap_or(Written::NOTHING))
    }

    /// Builds the file in `path`, unless it is not wanted any more.
    fn build_while(
        &self,
        path: &Path,
        wanted: impl Fn() -> bool,
    ) -> Result<Option<Written>, rocksdb::Error> {
        let mut file = self.rocks.table_file(path)?;
        let written = self
            .lot
            .fill(&mut file, &self.liveness, self.now, &wanted)?;
        match written {
            Some(written) if wanted() => file.finish().map(|()| Some(written)),
            _ => Ok(None),
        }
    }
}

struct Job {
    plan: Arc<Plan>,
    path: PathBuf,
    /// Nobody waits for the file any more.
    given_up: Arc<AtomicBool>,
    done: SyncSender<Result<Option<Written>, rocksdb::Error>>,
}

/// The thread, and the way to it. Dropping it ends the thread after what it is doing.
pub(super) struct Builder {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Builder {
    pub(super) fn start() -> std::io::Result<Self> {
        let (jobs, arriving) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name("file-builder".into())
            .spawn(move || build_all(&arriving))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Has the file of `plan` built in `path`. `None` when it is not there at `due`; then it is not wanted any more.
    pub(super) fn build(
        &self,
        plan: &Arc<Plan>,
        path: &Path,
        due: Instant,
    ) -> Result<Option<Written>, rocksdb::Error> {
        let given_up = Arc::new(AtomicBool::new(false));
        let (done, built) = mpsc::sync_channel(1);
        let job = Job {
            plan: Arc::clone(plan),
            path: path.to_path_buf(),
            given_up: Arc::clone(&given_up),
            done,
        };
        // It may still be busy with what was given up before.
        let accepted = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        let left = due.saturating_duration_since(Instant::now());
        match (accepted, built.recv_timeout(left)) {
            (Some(Ok(())), Ok(built)) => built,
            _ => {
                given_up.store(true, Ordering::Relaxed);
                Ok(None)
            }
        }
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("the thread that builds table files has panicked");
        }
    }
}

fn build_all(jobs: &Receiver<Job>) {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if let Err(error) =
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
    {
        debug!(
            ?error,
            "table files are built with the priority of everything else"
        );
    }
    while let Ok(job) = jobs.recv() {
        let wanted = || !job.given_up.load(Ordering::Relaxed);
        let built = job.plan.build_while(&job.path, wanted);
        // Whoever waited may have given up at this moment.
        let _ = job.done.send(built);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::item::{Attributes, Expiry, Item};
    use crate::store::memory::Memory;
    use crate::store::rocks::test_database;

    const NOW: UnixSeconds = UnixSeconds(1_000);

    fn plan(rocks: &Arc<Rocks>) -> Arc<Plan> {
        let memory = Memory::new(1 << 20, 1 << 10);
        let mut shard = memory.lock(memory.place(b"key"));
        let hash = shard.hash();
        let attributes = Attributes {
            flags: 0,
            expiry: Expiry::NEVER,
            cas: 1,
        };
        shard.write(hash, Item::new(b"key", attributes, b"data", NOW));
        let mut lot = Lot::default();
        lot.add(0, shard.take_dirty(1, usize::MAX, NOW));
        Arc::new(Plan {
            lot,
            rocks: Arc::clone(rocks),
            liveness: Arc::default(),
            now: NOW,
        })
    }

    #[test]
    fn a_file_is_built_and_becomes_a_part_of_the_database() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let rocks = Arc::new(test_database(dir.path()));
        let path = dir.path().join("file.sst");
        let builder = Builder::start().expect("a thread");
        let due = Instant::now() + Duration::from_secs(60);
        let written = builder
            .build(&plan(&rocks), &path, due)
            .expect("built")
            .expect("in time");
        assert_eq!(written.lives_until, Expiry::NEVER);
        rocks.add_table_file(&path).expect("added");
        assert!(rocks.get(b"key").expect("read").is_some());
        assert!(!path.exists(), "it is the database's now");
    }

    #[test]
    fn what_is_not_there_when_it_is_due_is_not_wanted_any_more() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let rocks = Arc::new(test_database(dir.path()));
        let path = dir.path().join("file.sst");
        let plan = plan(&rocks);
        let given_up = plan
            .build_while(&path, || false)
            .expect("nothing went wrong");
        assert!(given_up.is_none());
        assert!(!path.exists(), "what was begun is removed");
        let builder = Builder::start().expect("a thread");
        let _ = builder.build(&plan, &path, Instant::now());
        // Whoever waited can do it himself.
        plan.build(&dir.path().join("another.sst")).expect("built");
    }
}
