//! What a load has seen: counts, latencies, and the course of it second by second.
//!
//! Owns what is counted and when; knows no socket.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::answer::{Expect, Outcome};

const SECOND: u64 = 1_000_000_000;
/// Latencies are told apart to three digits, from a nanosecond to two minutes.
const LONGEST: u64 = 120 * SECOND;
const DIGITS: u8 = 3;

/// The part of a load that counts, in nanoseconds since its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub from: u64,
    pub until: u64,
    /// Whether a request belongs to the window in which it was due, or to that in which it was answered. A load of
    /// a fixed rate asks for the first: a server that falls behind must not lose the requests it is late with.
    pub by_due: bool,
}

/// Counts what happens in a window.
pub struct Recorder {
    window: Window,
    latency: Histogram<u64>,
    counts: Counts,
    seconds: Vec<Second>,
    last: u64,
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests answered.
    pub requests: u64,
    /// Keys found and keys missed; a `get` may ask for many.
    pub hits: u64,
    pub misses: u64,
    /// `cas` that somebody else was faster than.
    pub cas_lost: u64,
    /// `SERVER_ERROR`.
    pub refused: u64,
}

/// One second of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Second {
    pub requests: u64,
    pub longest_us: u64,
}

impl Recorder {
    /// Counts what belongs to `window`.
    ///
    /// # Panics
    ///
    /// Never: the bounds of the histogram are constants that fit.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self {
            window,
            latency: Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("constant bounds"),
            counts: Counts::default(),
            seconds: Vec::new(),
            last: window.from,
        }
    }

    /// `expect` was answered at `now`.
    #[inline]
    pub fn answered(&mut self, expect: &Expect, outcome: Outcome, now: u64) {
        let time = if self.window.by_due { expect.due } else { now };
        if time < self.window.from || time >= self.window.until {
            return;
        }
        match outcome {
            Outcome::Done => {}
            Outcome::Hit | Outcome::HitWithCas(_) => self.counts.hits += 1,
            Outcome::Miss => self.counts.misses += 1,
            Outcome::CasLost => self.counts.cas_lost += 1,
            Outcome::Refused => self.counts.refused += 1,
        }
        if expect.what.completes() {
            self.completed(now.saturating_sub(expect.due), now);
        }
    }

    #[inline]
    fn completed(&mut self, latency: u64, now: u64) {
        self.counts.requests += 1;
        self.latency.saturating_record(latency);
        self.last = self.last.max(now);
        let second = usize::try_from((now - self.window.from) / SECOND).unwrap_or(0);
        if second >= self.seconds.len() {
            self.seconds.resize(second + 1, Second::default());
        }
        let second = &mut self.seconds[second];
        second.requests += 1;
        second.longest_us = second.longest_us.max(latency / 1000);
    }

    /// Adds what another worker has counted.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so nothing can be out of them.
        let _ = self.latency.add(&other.latency);
        self.counts.requests += other.counts.requests;
        self.counts.hits += other.counts.hits;
        self.counts.misses += other.counts.misses;
        self.counts.cas_lost += other.counts.cas_lost;
        self.counts.refused += other.counts.refused;
        self.last = self.last.max(other.last);
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (sum, second) in self.seconds.iter_mut().zip(&other.seconds) {
            sum.requests += second.requests;
            sum.longest_us = sum.longest_us.max(second.longest_us);
        }
    }

    /// What it comes to.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let end = if self.window.by_due {
            self.last.max(self.window.until)
        } else {
            self.window.until.min(self.last.max(self.window.from + 1))
        };
        let seconds = Duration::from_nanos(end - self.window.from).as_secs_f64();
        let quantile = |quantile| self.latency.value_at_quantile(quantile) as f64 / 1000.0;
        Summary {
            counts: self.counts,
            elapsed_seconds: seconds,
            throughput: self.counts.requests as f64 / seconds,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: self.latency.max() as f64 / 1000.0,
            seconds: self.seconds.clone(),
        }
    }
}

/// A load in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    #[serde(flatten)]
    pub counts: Counts,
    pub elapsed_seconds: f64,
    /// Requests a second.
    pub throughput: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    pub seconds: Vec<Second>,
}

impl Summary {
    /// Keys found among keys asked for; 1 when none was.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        let asked = self.counts.hits + self.counts.misses;
        if asked == 0 {
            return 1.0;
        }
        self.counts.hits as f64 / asked as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::What;

    fn recorder(by_due: bool) -> Recorder {
        Recorder::new(Window {
            from: SECOND,
            until: 3 * SECOND,
            by_due,
        })
    }

    #[test]
    fn a_late_answer_counts_where_its_request_was_due() {
        let expect = Expect::new(What::Stored, 1, 2 * SECOND);
        let (mut closed, mut fixed) = (recorder(false), recorder(true));
        for recorder in [&mut closed, &mut fixed] {
            recorder.answered(&expect, Outcome::Done, 4 * SECOND);
        }
        assert_eq!(closed.summary().counts.requests, 0);
        let fixed = fixed.summary();
        assert_eq!(fixed.counts.requests, 1);
        assert!((fixed.max_us - 2e6).abs() < 2e3, "{}", fixed.max_us);
        assert_eq!(fixed.elapsed_seconds, 3.0);
    }

    #[test]
    fn a_get_of_many_keys_is_one_request() {
        let mut recorder = recorder(false);
        for (what, outcome) in [
            (What::Value, Outcome::Hit),
            (What::Value, Outcome::Miss),
            (What::End, Outcome::Done),
        ] {
            recorder.answered(&Expect::new(what, 1, SECOND), outcome, SECOND + 5);
        }
        let summary = recorder.summary();
        assert_eq!(summary.counts.requests, 1);
        assert_eq!(summary.hit_ratio(), 0.5);
    }
}
