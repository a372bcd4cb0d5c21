//! How evenly: keys that are all new, at half of the top rate, second by second.

use std::time::Duration;

use anyhow::{Context, bail};

use super::{Metric, Sample};
use crate::distribution::Popularity;
use crate::lab::{Contender, Lab};
use crate::load::{self, Load};
use crate::process;

/// The rate's share of the top rate.
const SHARE: f64 = 0.5;
/// Of the free space, this much may be filled.
const DISK_SHARE: f64 = 0.5;
/// No run is longer: what is asked for is ten minutes.
const LONGEST: Duration = Duration::from_secs(600);

/// Endless writes, as data.
#[derive(Clone, Copy, Debug)]
pub struct Sustained {
    pub value_len: usize,
    pub connections: usize,
    pub memory_mb: u64,
    pub quota_mb: u64,
    /// How many times as long as one load of another case.
    pub times: u32,
}

impl Sustained {
    pub(super) fn sample(&self, lab: &Lab, contender: Contender) -> anyhow::Result<Sample> {
        let rate = self.top_rate(lab, contender)? * SHARE;
        let load = Load {
            rate: Some(rate),
            depth: 16,
            time: (lab.time * self.times).min(LONGEST),
            ..self.load(lab)?
        };
        self.check_space(lab, &load, rate)?;
        let server = lab.start(contender, self.memory_mb, Some(self.quota_mb))?;
        let before = process::written(server.pid())?;
        let outcome = load::run(&load, &lab.target(&server))?;
        load::settle(server.pid(), Duration::from_secs(30))?;
        let written = process::written(server.pid())? - before;
        let mut sample = Sample {
            server: contender.to_string(),
            stats: server.stats()?,
            memory: Some(process::memory(server.pid())?.into()),
            ..Sample::default()
        };
        sample.figures.extend([
            (Metric::Throughput, outcome.summary.throughput),
            (Metric::P999Us, outcome.summary.p999_us),
            (Metric::WorstSecond, worst_second(&outcome, rate)),
            (
                Metric::WriteAmplification,
                amplification(&load, &outcome, written),
            ),
        ]);
        sample
            .notes
            .push(format!("{rate:.0} writes a second for {:?}", load.time));
        if !lab.node.has_quota() {
            sample.notes.push("without a quota".to_owned());
        }
        sample.loads.insert("sustained", outcome);
        Ok(sample)
    }

    fn top_rate(&self, lab: &Lab, contender: Contender) -> anyhow::Result<f64> {
        let server = lab.start(contender, self.memory_mb, Some(self.quota_mb))?;
        let outcome = load::run(&self.load(lab)?, &lab.target(&server))?;
        Ok(outcome.summary.throughput)
    }

    fn load(&self, lab: &Lab) -> anyhow::Result<Load> {
        Ok(Load {
            mix: "fresh".parse()?,
            popularity: Popularity::Uniform,
            items: 1,
            key_len: 16,
            value_len: self.value_len,
            keys_per_get: 1,
            read_through: false,
            connections: self.connections,
            depth: 1,
            rate: None,
            fresh_from: 0,
            warm_up: lab.warm_up,
            time: lab.time,
            requests: None,
            seed: 1,
        })
    }

    /// A node that does not limit itself must not fill the disk of whoever measures it.
    fn check_space(&self, lab: &Lab, load: &Load, rate: f64) -> anyhow::Result<()> {
        let space = rustix::fs::statvfs(&lab.directory).context("asking for free space")?;
        let free = space.f_bavail as f64 * space.f_frsize as f64 * DISK_SHARE;
        let needed = rate * load.time.as_secs_f64() * (self.value_len + load.key_len) as f64 * 2.0;
        if needed > free && !lab.node.has_quota() {
            bail!(
                "{:.0} GB of writes need more than the free space that may be filled, {:.0} GB, and the node has no quota; \
                 ask for fewer --seconds",
                needed / 1e9,
                free / 1e9
            );
        }
        Ok(())
    }
}

/// The last second is the end of the load, not a slow one.
fn worst_second(outcome: &load::Outcome, rate: f64) -> f64 {
    let seconds = &outcome.summary.seconds;
    let whole = outcome.window_seconds as usize;
    seconds
        .iter()
        .take(whole.min(seconds.len().saturating_sub(1)))
        .map(|second| second.requests as f64 / rate)
        .fold(f64::INFINITY, f64::min)
}

fn amplification(load: &Load, outcome: &load::Outcome, written: u64) -> f64 {
    let warm_up = load.rate.unwrap_or(0.0) * load.warm_up.as_secs_f64();
    let requests = outcome.summary.counts.requests as f64 + warm_up;
    written as f64 / (requests * (load.key_len + load.value_len) as f64)
}
