//! Short pauses in long work, so that whoever serves clients on the same core need not wait for it.
//!
//! Owns when to pause. Without pauses a scheduler may let the work go on until its next tick, which is milliseconds away:
//! many times what a request takes.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// A few requests' time. Shorter ones cost more in switching than they gain.
const WORK: Duration = Duration::from_micros(400);
/// Long enough for a worker to have its turn; the timer adds about half as much.
const PAUSE: Duration = Duration::from_micros(100);

/// The pace of one piece of work.
#[derive(Debug)]
pub(super) struct Pace {
    /// From here on there are no more pauses: it is late. `None` for work that somebody waits for.
    due: Option<Instant>,
    worked_since: Instant,
}

impl Pace {
    /// With pauses until `due`, if it ever is.
    pub(super) fn until(due: Option<Instant>) -> Self {
        Self {
            due,
            worked_since: Instant::now(),
        }
    }

    /// To be called again and again between steps that are much shorter than a request.
    pub(super) fn step(&mut self) {
        let Some(due) = self.due else {
            return;
        };
        let now = Instant::now();
        if now >= due {
            self.due = None;
        } else if now - self.worked_since >= WORK {
            sleep(PAUSE);
            self.worked_since = Instant::now();
        }
    }
}
