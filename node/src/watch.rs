//! `watch`: clients that are shown what others do.
//!
//! Owns memcached's lines about it, and a bounded queue for each watcher. Whoever is slow misses lines and is told how
//! many; nobody else waits for that. While nobody watches, all of this costs one relaxed load per command.

use std::fmt::{self, Display, Write};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use tokio::sync::Notify;

use crate::protocol::request::Topics;

/// memcached's limit on clients that watch.
const MAX_WATCHERS: usize = 20;

/// All clients that watch.
pub struct Watchers {
    /// What any of them wants.
    wanted: AtomicU8,
    /// The number of the last event.
    last: AtomicU64,
    list: Mutex<Vec<Arc<Watcher>>>,
    /// What may wait for each of them, in bytes.
    limit: usize,
    sent: AtomicU64,
    skipped: AtomicU64,
}

struct Watcher {
    topics: Topics,
    queue: Mutex<Queue>,
    more: Notify,
}

#[derive(Default)]
struct Queue {
    lines: BytesMut,
    /// Lines that found no room since the last one that did.
    skipped: u64,
}

/// A client's own end. It stops watching when this is dropped.
pub(crate) struct Watching<'a> {
    watchers: &'a Watchers,
    watcher: Arc<Watcher>,
}

/// What `stats` says about watching.
pub(crate) struct WatchFigures {
    pub(crate) watchers: u64,
    pub(crate) sent: u64,
    pub(crate) skipped: u64,
}

impl Watchers {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            wanted: AtomicU8::default(),
            last: AtomicU64::default(),
            list: Mutex::default(),
            limit,
            sent: AtomicU64::default(),
            skipped: AtomicU64::default(),
        }
    }

    /// Begins to watch, unless there are too many who do.
    pub(crate) fn add(&self, topics: Topics) -> Option<Watching<'_>> {
        let mut list = lock(&self.list);
        if list.len() >= MAX_WATCHERS {
            return None;
        }
        let watcher = Arc::new(Watcher {
            topics,
            queue: Mutex::default(),
            more: Notify::new(),
        });
        list.push(Arc::clone(&watcher));
        self.note_wanted(&list);
        Some(Watching {
            watchers: self,
            watcher,
        })
    }

    /// Whether anybody watches.
    pub(crate) fn are_there(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn wants(&self, topic: Topics) -> bool {
        Topics::from_bits(self.wanted.load(Ordering::Relaxed)).has(topic)
    }

    /// Shows an event to whoever wants it. To be asked first: [`Watchers::wants`].
    pub(crate) fn tell(&self, topic: Topics, event: impl Display) {
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let line = format!(
            "ts={}.{} gid={number} {event}\n",
            since_1970.as_secs(),
            since_1970.subsec_micros()
        );
        for watcher in lock(&self.list)
            .iter()
            .filter(|watcher| watcher.topics.has(topic))
        {
            let counter = match watcher.push(&line, self.limit) {
                true => &self.sent,
                false => &self.skipped,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn figures(&self) -> WatchFigures {
        WatchFigures {
            watchers: lock(&self.list).len() as u64,
            sent: self.sent.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
        }
    }

    fn note_wanted(&self, list: &[Arc<Watcher>]) {
        let wanted = list
            .iter()
            .fold(Topics::NONE, |all, watcher| all.with(watcher.topics));
        self.wanted.store(wanted.bits(), Ordering::Relaxed);
    }
}

impl Watcher {
    /// `false` when there is no room.
    fn push(&self, line: &str, limit: usize) -> bool {
        let mut queue = lock(&self.queue);
        if queue.lines.len() + line.len() > limit {
            queue.skipped += 1;
            return false;
        }
        if queue.skipped > 0 {
            let skipped = std::mem::take(&mut queue.skipped);
            // Writing into memory cannot fail.
            let _ = writeln!(queue.lines, "skipped={skipped}");
        }
        queue.lines.extend_from_slice(line.as_bytes());
        self.more.notify_one();
        true
    }
}

impl Watching<'_> {
    /// The lines that have come, once there are any.
    pub(crate) async fn lines(&self) -> BytesMut {
        loop {
            let lines = std::mem::take(&mut lock(&self.watcher.queue).lines);
            if !lines.is_empty() {
                return lines;
            }
            self.watcher.more.notified().await;
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut list = lock(&self.watchers.list);
        list.retain(|watcher| !Arc::ptr_eq(watcher, &self.watcher));
        self.watchers.note_wanted(&list);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A key as memcached writes it where a line may not have every byte.
pub(crate) struct UriEncoded<'a>(pub(crate) &'a [u8]);

impl Display for UriEncoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    f.write_char(char::from(*byte))?;
                }
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_watcher_misses_lines_and_is_told_how_many() {
        let watchers = Watchers::new(200);
        assert!(!watchers.wants(Topics::FETCHERS));
        let watching = watchers.add(Topics::FETCHERS).expect("the first");
        assert!(watchers.wants(Topics::FETCHERS) && !watchers.wants(Topics::MUTATIONS));
        for _ in 0..10 {
            watchers.tell(Topics::FETCHERS, "type=test");
            watchers.tell(Topics::MUTATIONS, "type=other");
        }
        let first = watching.lines().await;
        let lines = first.iter().filter(|byte| **byte == b'\n').count() as u64;
        assert!((1..10).contains(&lines) && first.len() <= 200);
        watchers.tell(Topics::FETCHERS, "type=last");
        let rest = String::from_utf8(watching.lines().await.to_vec()).expect("text");
        assert!(
            rest.starts_with(&format!("skipped={}\nts=", 10 - lines)),
            "{rest}"
        );
        assert!(rest.ends_with("type=last\n"), "{rest}");
        let figures = watchers.figures();
        assert_eq!((figures.sent, figures.skipped), (lines + 1, 10 - lines));
        drop(watching);
        assert!(!watchers.wants(Topics::FETCHERS));
    }

    #[test]
    fn there_are_at_most_so_many_watchers() {
        let watchers = Watchers::new(200);
        let all: Vec<_> = (0..20).map(|_| watchers.add(Topics::FETCHERS)).collect();
        assert!(all.iter().all(Option::is_some) && watchers.add(Topics::FETCHERS).is_none());
    }

    #[test]
    fn keys_are_encoded_as_in_an_address() {
        assert_eq!(
            UriEncoded(b"aZ09-._~ /\xff").to_string(),
            "aZ09-._~%20%2F%FF"
        );
    }
}
