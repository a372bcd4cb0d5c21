//! Short pauses in long work, so that whoever serves clients on the same core need not wait for it.
//!
//! Owns when to pause. Without pauses a scheduler may let the work go on until its next tick, which is milliseconds away:
//! many times what a request takes.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long to work between pauses, and how long to pause.
#[derive(Clone, Copy, Debug)]
struct Rhythm {
    work: Duration,
    pause: Duration,
}

/// While there is time: no client waits for longer than for a few others' requests, and most of the core is left to them.
const GENTLE: Rhythm = Rhythm {
    work: Duration::from_micros(150),
    pause: Duration::from_micros(250),
};
/// When it is late: most of the core is the work's, but clients still have their turn.
const BRISK: Rhythm = Rhythm {
    work: Duration::from_micros(400),
    pause: Duration::from_micros(100),
};

/// The pace of one piece of work.
#[derive(Debug)]
pub(super) struct Pace {
    /// From here on it is late. `None` for work that somebody waits for, which does not pause.
    due: Option<Instant>,
    worked_since: Instant,
}

impl Pace {
    /// With pauses, which are shorter after `due`; with none if it is never due.
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
        let rhythm = if now < due { GENTLE } else { BRISK };
        if now - self.worked_since >= rhythm.work {
            sleep(rhythm.pause);
            self.worked_since = Instant::now();
        }
    }
}
