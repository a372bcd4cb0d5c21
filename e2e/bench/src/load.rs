//! One load against one server: what is asked, by how many connections, how long.
//!
//! Owns the workers of the load and when the server's CPU time is read. Does not start servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use serde::Serialize;

use crate::cores;
use crate::distribution::{Draw, Popularity};
use crate::keys::{Keys, MAX_ID};
use crate::mix::{Asker, Mix, Range, Source};
use crate::process::{self, CpuTime};
use crate::summary::{Recorder, Summary, Window};
use crate::worker::{Plan, Report, Worker};

/// Time to start threads, before any request.
const HEAD_START: Duration = Duration::from_millis(20);
/// How a server is filled: few connections with many requests each.
const FILL_CONNECTIONS: usize = 4;
const FILL_DEPTH: usize = 32;
/// How often it is looked whether a load is over.
const TICK: Duration = Duration::from_millis(20);
/// A server is quiet when it uses less than two ticks of CPU in this time.
const QUIET: Duration = Duration::from_millis(250);
const QUIET_CPU_SECONDS: f64 = 0.015;

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    pub mix: Mix,
    pub popularity: Popularity,
    /// Ids that are drawn: 0 up to this.
    pub items: u64,
    pub key_len: usize,
    pub value_len: usize,
    pub keys_per_get: usize,
    pub read_through: bool,
    pub connections: usize,
    /// Requests outstanding on a connection.
    pub depth: usize,
    /// Requests a second, whatever the server does; none in a closed loop.
    pub rate: Option<f64>,
    /// The first id of those that are never used twice.
    pub fresh_from: u64,
    pub warm_up: Duration,
    pub time: Duration,
    /// The load ends after so many requests, if that is before `time`.
    pub requests: Option<u64>,
    /// Another seed is another sequence of the same kind.
    pub seed: u64,
}

/// Where a load goes, and where it comes from.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    /// The server's process, where its CPU time is to be counted.
    pub pid: Option<u32>,
    /// Cores of the load generator; empty for any. One worker runs on each.
    pub cores: Vec<usize>,
}

/// What came of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    #[serde(flatten)]
    pub summary: Summary,
    /// The server's CPU time from the first request that counts to the last.
    pub server_cpu: Option<CpuTime>,
    /// Seconds in which that was used.
    pub window_seconds: f64,
    /// The share of its cores that the load generator used.
    pub generator_utilisation: f64,
    /// Cores that all other processes used, and a hypervisor: it should be nearly none.
    pub disturbance: f64,
}

impl Outcome {
    /// Cores that the server used, 1 for one core all the time.
    #[must_use]
    pub fn server_utilisation(&self) -> Option<f64> {
        Some(self.server_cpu?.seconds() / self.window_seconds)
    }

    /// Microseconds of the server's CPU for each request, `later` used after the load for what it left to do.
    #[must_use]
    pub fn cpu_us_per_request(&self, later: CpuTime) -> Option<f64> {
        let seconds = self.server_cpu?.seconds() + later.seconds();
        Some(seconds * 1e6 / self.summary.counts.requests.max(1) as f64)
    }
}

/// Runs `load` against `target`.
///
/// # Errors
///
/// A wrong answer, a lost connection, an answer that does not come.
pub fn run(load: &Load, target: &Target) -> anyhow::Result<Outcome> {
    let workers = target.cores.len().clamp(1, load.connections.max(1));
    let window = Window {
        from: nanos(load.warm_up),
        until: nanos(load.warm_up + load.time),
        by_due: load.rate.is_some(),
    };
    let keys = Arc::new(Keys::new(load.key_len, load.value_len));
    let jobs = (0..workers).map(|worker| {
        let source = mixed(load, worker as u64, workers as u64);
        asker(&keys, source, load.read_through)
    });
    let shape = Shape {
        connections: load.connections,
        depth: load.depth,
        interval: load.rate.map(|rate| 1e9 * workers as f64 / rate),
        window,
    };
    let (reports, usage) = run_workers(jobs, &shape, target)?;
    let time = usage.seconds;
    let busy: f64 = reports.iter().map(|report| report.cpu.as_secs_f64()).sum();
    let server = usage.server.map_or(0.0, CpuTime::seconds);
    Ok(Outcome {
        summary: merge(&reports, window).summary(),
        server_cpu: usage.server,
        window_seconds: time,
        generator_utilisation: busy / workers as f64 / time,
        disturbance: (usage.machine - server - busy).max(0.0) / time,
    })
}

/// Sets the items of `load` once, in order, and returns the rate.
///
/// # Errors
///
/// As [`run`].
pub fn fill(load: &Load, target: &Target) -> anyhow::Result<f64> {
    let keys = Arc::new(Keys::new(load.key_len, load.value_len));
    let fill = Source::Fill(Range {
        next: 0,
        end: load.items,
        step: 1,
    });
    let window = Window {
        from: 0,
        until: u64::MAX / 2,
        by_due: false,
    };
    let shape = Shape {
        connections: FILL_CONNECTIONS,
        depth: FILL_DEPTH,
        interval: load.rate.map(|rate| 1e9 / rate),
        window,
    };
    let target = Target {
        pid: None,
        cores: target.cores.iter().take(1).copied().collect(),
        ..target.clone()
    };
    let jobs = std::iter::once(asker(&keys, fill, false));
    let (reports, _) = run_workers(jobs, &shape, &target)?;
    Ok(merge(&reports, window).summary().throughput)
}

/// Waits until process `pid` has nothing to do, at most `patience`. Returns the CPU time used in the meantime.
///
/// # Errors
///
/// When the process is gone.
pub fn settle(pid: u32, patience: Duration) -> anyhow::Result<CpuTime> {
    let (start, before) = (Instant::now(), process::cpu_time(pid)?);
    let mut last = before;
    loop {
        std::thread::sleep(QUIET);
        let now = process::cpu_time(pid)?;
        if now.since(last).seconds() < QUIET_CPU_SECONDS || start.elapsed() > patience {
            return Ok(now.since(before));
        }
        last = now;
    }
}

/// How the workers send.
struct Shape {
    connections: usize,
    depth: usize,
    interval: Option<f64>,
    window: Window,
}

impl Shape {
    fn plan(&self, address: SocketAddr, worker: usize, workers: usize) -> Plan {
        Plan {
            address,
            connections: share(self.connections, worker, workers),
            depth: self.depth.max(1),
            interval: self.interval,
            window: self.window,
        }
    }
}

fn mixed(load: &Load, worker: u64, workers: u64) -> Source {
    Source::Mixed {
        mix: load.mix.clone(),
        draw: Draw::new(load.popularity, load.items, load.seed, (worker, workers)),
        keys_per_get: load.keys_per_get.max(1),
        fresh: Range {
            next: load.fresh_from + worker,
            end: MAX_ID,
            step: workers,
        },
        left: load
            .requests
            .map_or(u64::MAX, |requests| requests / workers),
        random: fastrand::Rng::with_seed(!((load.seed << 16) + worker)),
    }
}

fn asker(keys: &Arc<Keys>, source: Source, read_through: bool) -> Asker {
    Asker {
        keys: Arc::clone(keys),
        source,
        read_through,
    }
}

/// CPU seconds used in the window.
#[derive(Clone, Copy, Default)]
struct Usage {
    server: Option<CpuTime>,
    /// Of all processes together.
    machine: f64,
    /// How long the window was.
    seconds: f64,
}

/// Runs one worker for each of `askers`, and reads CPU times where the window begins and ends.
fn run_workers(
    askers: impl ExactSizeIterator<Item = Asker>,
    shape: &Shape,
    target: &Target,
) -> anyhow::Result<(Vec<Report>, Usage)> {
    let count = askers.len();
    let workers = askers
        .enumerate()
        .map(|(index, asker)| Worker::connect(shape.plan(target.address, index, count), asker))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let start = Instant::now() + HEAD_START;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, worker) in workers.into_iter().enumerate() {
            let core = target.cores.get(index).copied();
            threads.push(scope.spawn(move || {
                if let Some(core) = core {
                    cores::pin(&[core])?;
                }
                worker.run(start)
            }));
        }
        let usage = usage_in_window(target.pid, start, shape.window, || {
            threads.iter().all(|thread| thread.is_finished())
        });
        let reports = threads
            .into_iter()
            .map(|thread| {
                let report = thread.join().map_err(|_| anyhow!("a worker panicked"));
                report.flatten().context("the load failed")
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok((reports, usage?))
    })
}

/// How many of `connections` worker `index` has.
fn share(connections: usize, index: usize, workers: usize) -> usize {
    connections / workers + usize::from(index < connections % workers)
}

/// Waits for the window's beginning and end; for less when the load is `over` before.
fn usage_in_window(
    pid: Option<u32>,
    start: Instant,
    window: Window,
    over: impl Fn() -> bool,
) -> anyhow::Result<Usage> {
    let at = |nanos| {
        let time = start + Duration::from_nanos(nanos);
        while Instant::now() < time && !over() {
            std::thread::sleep(time.saturating_duration_since(Instant::now()).min(TICK));
        }
        let server = pid.map(process::cpu_time).transpose()?;
        anyhow::Ok((server, process::machine_cpu_seconds()?))
    };
    let (server_before, machine_before) = at(window.from)?;
    let begin = Instant::now();
    let (server, machine) = at(window.until)?;
    Ok(Usage {
        server: server
            .zip(server_before)
            .map(|(now, before)| now.since(before)),
        machine: machine - machine_before,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

fn merge(reports: &[Report], window: Window) -> Recorder {
    let mut merged = Recorder::new(window);
    for report in reports {
        merged.add(&report.recorder);
    }
    merged
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_shared_to_the_last() {
        let shares: Vec<usize> = (0..3).map(|index| share(20, index, 3)).collect();
        assert_eq!(shares, [7, 7, 6]);
    }
}
