//! One thread of the load generator: a poller and its share of the connections.
//!
//! Owns when requests are sent. In a closed loop a connection sends its next batch when the last one is answered. At
//! a fixed rate requests are due at fixed times, whatever the server does, and latency is counted from then on: a
//! server that stops for a second is late with all that was due in it ("coordinated omission" would hide them).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mio::{Events, Poll, Token};

use crate::answer::{Expect, Outcome, What};
use crate::connection::{Connection, ReadBuffer};
use crate::mix::{Asker, FollowUp};
use crate::process::thread_cpu_time;
use crate::summary::{Recorder, Window};

/// Events taken from the poller at once.
const EVENTS: usize = 1024;
/// A worker looks at the clock at least this often.
const TICK: Duration = Duration::from_millis(50);
/// Below this the poller's timeout, which is in milliseconds, is too coarse; the worker spins instead.
const SPIN_NANOS: u64 = 2_000_000;
/// How long answers may still be missing after the last request.
const GRACE_NANOS: u64 = 30_000_000_000;

/// What one worker does.
pub struct Plan {
    pub address: SocketAddr,
    pub connections: usize,
    /// Requests outstanding on a connection.
    pub depth: usize,
    /// Nanoseconds between two requests of this worker; none in a closed loop.
    pub interval: Option<f64>,
    pub window: Window,
}

/// What it has seen.
pub struct Report {
    pub recorder: Recorder,
    /// CPU time of this thread in the window.
    pub cpu: Duration,
}

/// A worker with its connections open.
pub struct Worker {
    plan: Plan,
    /// The beginning of the load, the same for all workers.
    start: Instant,
    asker: Asker,
    poll: Poll,
    connections: Vec<Connection>,
    buffer: ReadBuffer,
    /// Requests that are being put together.
    out: Vec<u8>,
    follow_ups: Vec<FollowUp>,
    recorder: Recorder,
    /// Connections that may send, at a fixed rate. The longest waiting is first.
    free: VecDeque<usize>,
    /// Which connections `free` holds.
    is_free: Vec<bool>,
    /// Requests sent so far at the fixed rate.
    dispatched: u64,
    /// No more requests: the time is over or the source is empty.
    stopping: bool,
    cpu_at_start: Option<Duration>,
    cpu_at_end: Option<Duration>,
}

impl Worker {
    /// Opens the connections of `plan`.
    ///
    /// # Errors
    ///
    /// The address that could not be reached.
    pub fn connect(plan: Plan, asker: Asker) -> anyhow::Result<Self> {
        let poll = Poll::new().context("creating a poller")?;
        let connections = (0..plan.connections)
            .map(|index| Connection::open(plan.address, poll.registry(), Token(index)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self {
            start: Instant::now(),
            asker,
            poll,
            connections,
            buffer: ReadBuffer::default(),
            out: Vec::new(),
            follow_ups: Vec::new(),
            recorder: Recorder::new(plan.window),
            free: (0..plan.connections).collect(),
            is_free: vec![true; plan.connections],
            plan,
            dispatched: 0,
            stopping: false,
            cpu_at_start: None,
            cpu_at_end: None,
        })
    }

    /// Runs the load, which begins at `start`, to its end.
    ///
    /// # Errors
    ///
    /// A wrong answer, a lost connection, an answer that does not come.
    pub fn run(mut self, start: Instant) -> anyhow::Result<Report> {
        self.start = start;
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let mut events = Events::with_capacity(EVENTS);
        if self.plan.interval.is_none() {
            for index in 0..self.connections.len() {
                self.send_batch(index, 0)?;
            }
        }
        loop {
            let now = self.now();
            self.look_at_clock(now)?;
            if self.plan.interval.is_some() {
                self.dispatch_due(now)?;
            }
            if self.stopping && self.connections.iter().all(Connection::is_idle) {
                break;
            }
            match self.poll.poll(&mut events, Some(self.patience())) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                polled => polled.context("waiting for the server")?,
            }
            for event in &events {
                let index = event.token().0;
                if event.is_writable() {
                    self.connections[index].flush()?;
                }
                if event.is_readable() {
                    self.receive(index)?;
                }
            }
        }
        let end = self.cpu_at_end.unwrap_or_else(thread_cpu_time);
        Ok(Report {
            cpu: end.saturating_sub(self.cpu_at_start.unwrap_or_default()),
            recorder: self.recorder,
        })
    }

    /// Nanoseconds since the beginning.
    #[inline]
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn look_at_clock(&mut self, now: u64) -> anyhow::Result<()> {
        let window = self.plan.window;
        if now >= window.from && self.cpu_at_start.is_none() {
            self.cpu_at_start = Some(thread_cpu_time());
        }
        if now >= window.until {
            self.cpu_at_end.get_or_insert_with(thread_cpu_time);
            // At a fixed rate everything that was due is sent, however late.
            self.stopping |=
                self.plan.interval.is_none() || self.due(self.dispatched) >= window.until;
        }
        if now >= window.until.saturating_add(GRACE_NANOS) {
            let busy = self
                .connections
                .iter()
                .filter(|connection| !connection.is_idle());
            bail!(
                "{} connections still wait for answers {} seconds after the load has ended",
                busy.count(),
                GRACE_NANOS / 1_000_000_000
            );
        }
        Ok(())
    }

    /// How long the poller may wait.
    fn patience(&self) -> Duration {
        if self.plan.interval.is_none() || self.stopping {
            return TICK;
        }
        if self.free.is_empty() {
            return TICK;
        }
        let wait = self.due(self.dispatched).saturating_sub(self.now());
        if wait < SPIN_NANOS {
            return Duration::ZERO;
        }
        Duration::from_nanos(wait - SPIN_NANOS / 2).min(TICK)
    }

    fn receive(&mut self, index: usize) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let (recorder, follow_ups) = (&mut self.recorder, &mut self.follow_ups);
        let (start, read_through) = (self.start, self.asker.read_through);
        // The clock is read once for all answers that came together.
        let mut now = None;
        connection.receive(&mut self.buffer, &self.asker.keys, |expect, outcome| {
            let now = *now.get_or_insert_with(|| {
                u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
            });
            recorder.answered(expect, outcome, now);
            follow_ups.extend(follow_up(expect, outcome, read_through));
        })?;
        let Some(now) = now else { return Ok(()) };
        if self.plan.interval.is_none() {
            if self.connections[index].is_idle() {
                self.send_batch(index, now)?;
            }
            return Ok(());
        }
        self.send_follow_ups(index, now)?;
        self.release(index);
        Ok(())
    }

    /// Closed loop: the next `depth` requests on an idle connection.
    fn send_batch(&mut self, index: usize, now: u64) -> anyhow::Result<()> {
        self.stopping |= now >= self.plan.window.until;
        self.out.clear();
        let expect = &mut self.connections[index].expect;
        let mut count = self.follow_ups.len();
        for follow_up in self.follow_ups.drain(..) {
            self.asker
                .push_follow_up(follow_up, now, &mut self.out, expect);
        }
        while !self.stopping && count < self.plan.depth {
            self.stopping |= !self.asker.push_next(now, &mut self.out, expect);
            count += 1;
        }
        if self.out.is_empty() {
            return Ok(());
        }
        self.connections[index].send(&self.out)
    }

    /// Fixed rate: when request `number` of this worker is due.
    fn due(&self, number: u64) -> u64 {
        (number as f64 * self.plan.interval.unwrap_or(0.0)) as u64
    }

    /// Fixed rate: sends what is due on the connections that are free. What finds none waits, and is late.
    fn dispatch_due(&mut self, now: u64) -> anyhow::Result<()> {
        while !self.stopping {
            let due = self.due(self.dispatched);
            if due > now || due >= self.plan.window.until {
                break;
            }
            let Some(index) = self.free.pop_front() else {
                break;
            };
            self.out.clear();
            let connection = &mut self.connections[index];
            self.stopping |= !self
                .asker
                .push_next(due, &mut self.out, &mut connection.expect);
            connection.send(&self.out)?;
            self.dispatched += 1;
            self.is_free[index] = false;
            self.release(index);
        }
        Ok(())
    }

    fn send_follow_ups(&mut self, index: usize, now: u64) -> anyhow::Result<()> {
        if self.follow_ups.is_empty() {
            return Ok(());
        }
        self.out.clear();
        let connection = &mut self.connections[index];
        for follow_up in self.follow_ups.drain(..) {
            self.asker
                .push_follow_up(follow_up, now, &mut self.out, &mut connection.expect);
        }
        connection.send(&self.out)
    }

    fn release(&mut self, index: usize) {
        if !self.is_free[index] && self.depth_of(index) < self.plan.depth {
            self.is_free[index] = true;
            self.free.push_back(index);
        }
    }

    /// Requests outstanding on a connection.
    fn depth_of(&self, index: usize) -> usize {
        let expect = &self.connections[index].expect;
        expect
            .iter()
            .filter(|expect| expect.what.completes())
            .count()
    }
}

/// What an answer calls for.
fn follow_up(expect: &Expect, outcome: Outcome, read_through: bool) -> Option<FollowUp> {
    let id = expect.id;
    match (expect.what, outcome) {
        (What::Value, Outcome::Miss) if read_through => Some(FollowUp::Set { id }),
        (What::ValueWithCas | What::StoredByCas, Outcome::Miss) => Some(FollowUp::Set { id }),
        (What::ValueWithCas, Outcome::HitWithCas(unique)) => Some(FollowUp::Cas { id, unique }),
        (What::Count, Outcome::Miss) => Some(FollowUp::AddCounter { id }),
        _ => None,
    }
}
