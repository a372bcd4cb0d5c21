//! `stats detail`: how often the keys of each prefix are asked for.
//!
//! Owns the counts, and memcached's rules about them: a prefix is what comes before the delimiter, a key without one is
//! not counted, and neither are meta commands. While it is off, all of this costs one relaxed load per command.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::protocol::request::Request;
use crate::protocol::response::Response;

/// What is kept is bounded, whatever keys there are: with the longest prefixes it takes 4 megabytes. Those that come later
/// are not counted.
const MAX_PREFIXES: usize = 10_000;

/// memcached's four numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// The counts of all prefixes.
#[derive(Debug)]
pub struct Prefixes {
    on: AtomicBool,
    delimiter: u8,
    counts: Mutex<HashMap<Box<[u8]>, Counts>>,
}

impl Prefixes {
    pub fn new(delimiter: u8, on: bool) -> Self {
        Self {
            on: AtomicBool::new(on),
            delimiter,
            counts: Mutex::default(),
        }
    }

    pub fn are_counted(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Forgets everything.
    pub fn reset(&self) {
        self.lock().clear();
    }

    /// Counts what was asked for and what came of it.
    #[cold]
    pub fn count(&self, request: &Request<'_>, response: &Response) {
        let Some(prefix) = request.key().and_then(|key| self.prefix(key)) else {
            return;
        };
        let counted = match request {
            Request::Get { .. } => Counts {
                gets: 1,
                hits: matches!(response, Response::Hit(_)).into(),
                ..Counts::default()
            },
            Request::Store { .. } | Request::StoreTooLarge { .. } => Counts {
                sets: 1,
                ..Counts::default()
            },
            Request::Delete { .. } => Counts {
                deletes: 1,
                ..Counts::default()
            },
            _ => return,
        };
        self.add(prefix, counted);
    }

    /// memcached's lines, in the order of the prefixes.
    pub fn dump(&self) -> Vec<u8> {
        let mut all: Vec<_> = {
            let counts = self.lock();
            counts
                .iter()
                .map(|(prefix, counts)| (prefix.clone(), *counts))
                .collect()
        };
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let mut lines = Vec::new();
        for (
            prefix,
            Counts {
                gets,
                hits,
                sets,
                deletes,
            },
        ) in all
        {
            let mut numbers = String::new();
            // Writing into memory cannot fail.
            let _ = write!(
                numbers,
                " get {gets} hit {hits} set {sets} del {deletes}\r\n"
            );
            lines.extend_from_slice(b"PREFIX ");
            lines.extend_from_slice(&prefix);
            lines.extend_from_slice(numbers.as_bytes());
        }
        lines.extend_from_slice(b"END\r\n");
        lines
    }

    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let delimiter = memchr::memchr2(self.delimiter, 0, key)?;
        (key[delimiter] == self.delimiter).then_some(&key[..delimiter])
    }

    fn add(&self, prefix: &[u8], counted: Counts) {
        let mut counts = self.lock();
        if !counts.contains_key(prefix) {
            if counts.len() >= MAX_PREFIXES {
                return;
            }
            counts.insert(prefix.into(), Counts::default());
        }
        if let Some(sum) = counts.get_mut(prefix) {
            sum.gets += counted.gets;
            sum.hits += counted.hits;
            sum.sets += counted.sets;
            sum.deletes += counted.deletes;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Counts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(prefixes: &Prefixes, key: &str) {
        let key = key.as_bytes();
        prefixes.count(&Request::Get { key, touch: None }, &Response::Miss);
    }

    fn dump(prefixes: &Prefixes) -> String {
        String::from_utf8(prefixes.dump()).expect("text")
    }

    #[test]
    fn a_prefix_is_what_comes_before_the_delimiter() {
        let prefixes = Prefixes::new(b'/', true);
        for key in ["a/b/c", "a/", "/a", "none", "b:c"] {
            get(&prefixes, key);
        }
        assert_eq!(
            dump(&prefixes),
            "PREFIX  get 1 hit 0 set 0 del 0\r\nPREFIX a get 2 hit 0 set 0 del 0\r\nEND\r\n"
        );
        prefixes.reset();
        assert_eq!(dump(&prefixes), "END\r\n");
    }

    #[test]
    fn there_are_at_most_so_many_prefixes_and_the_first_go_on() {
        let prefixes = Prefixes::new(b':', true);
        for number in 0..=MAX_PREFIXES {
            get(&prefixes, &format!("{number}:key"));
        }
        get(&prefixes, "0:key");
        let lines = dump(&prefixes);
        assert_eq!(lines.lines().count(), MAX_PREFIXES + 1);
        assert!(lines.starts_with("PREFIX 0 get 2 hit 0 set 0 del 0\r\n"));
    }
}
