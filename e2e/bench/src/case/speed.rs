//! How fast: the same load on both, in a closed loop, and at one fixed rate where tails are compared.

use std::time::Duration;

use anyhow::Context;

use super::{Metric, Sample};
use crate::distribution::Popularity;
use crate::lab::{Contender, Lab};
use crate::load::{self, Load, Outcome};
use crate::server::Server;

/// The fixed rate's share of what the baseline can do: busy, and far from the edge where queues grow without end.
pub const STEADY_SHARE: f64 = 0.5;
/// How long a server may work on after a load; this CPU time is the load's.
const SETTLE: Duration = Duration::from_secs(5);

/// A load, as data.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    pub mix: &'static str,
    pub popularity: Popularity,
    pub items: u64,
    pub value_len: usize,
    pub keys_per_get: usize,
    pub read_through: bool,
    pub connections: usize,
    pub depth: usize,
    pub memory_mb: u64,
    pub disk_mb: Option<u64>,
    /// Items a second while an extstore is filled: faster than it writes and makes room for what it must remember of
    /// each item on the disk, it drops items.
    pub extstore_fill_rate: f64,
    /// Whether latency is also measured at a fixed rate.
    pub steady: bool,
    /// Warm-up in units of the usual.
    pub warm_ups: u32,
}

/// The seed's benchmark; the others say what they change.
pub const SEED: Speed = Speed {
    mix: "get=9,set=1",
    popularity: Popularity::Uniform,
    items: 100_000,
    value_len: 1000,
    keys_per_get: 1,
    read_through: false,
    connections: 20,
    depth: 1,
    memory_mb: 1024,
    disk_mb: None,
    extstore_fill_rate: 10_000.0,
    steady: true,
    warm_ups: 1,
};

impl Speed {
    /// The load of this experiment in a closed loop.
    ///
    /// # Errors
    ///
    /// A mix that means nothing.
    pub fn load(&self, time: Duration, warm_up: Duration) -> anyhow::Result<Load> {
        Ok(Load {
            mix: self.mix.parse()?,
            popularity: self.popularity,
            items: self.items,
            key_len: 16,
            value_len: self.value_len,
            keys_per_get: self.keys_per_get,
            read_through: self.read_through,
            connections: self.connections,
            depth: self.depth,
            rate: None,
            fresh_from: 1 << 40,
            warm_up,
            time,
            requests: None,
            seed: 1,
        })
    }

    fn load_in(&self, lab: &Lab) -> anyhow::Result<Load> {
        self.load(lab.time, lab.warm_up * self.warm_ups)
    }

    /// The fixed rate: a share of what `baseline` does.
    ///
    /// # Errors
    ///
    /// A server that does not start or answers wrongly.
    pub fn steady_rate(&self, lab: &Lab, baseline: Contender) -> anyhow::Result<f64> {
        let server = self.started(lab, baseline)?;
        let outcome = load::run(&self.load_in(lab)?, &lab.target(&server))?;
        Ok(outcome.summary.throughput * STEADY_SHARE)
    }

    pub(super) fn sample(
        &self,
        lab: &Lab,
        contender: Contender,
        rate: Option<f64>,
    ) -> anyhow::Result<Sample> {
        let server = self.started(lab, contender)?;
        let (load, target) = (self.load_in(lab)?, lab.target(&server));
        let mut sample = Sample {
            server: contender.to_string(),
            ..Sample::default()
        };
        let closed = load::run(&load, &target)?;
        let later = load::settle(server.pid(), SETTLE)?;
        closed_figures(&closed, later, &mut sample)?;
        if self.read_through {
            sample
                .figures
                .insert(Metric::HitRatio, closed.summary.hit_ratio());
        }
        sample.loads.insert("closed", closed);
        if rate.is_some() {
            let seed = load.seed + 1;
            let steady = load::run(&Load { rate, seed, ..load }, &target)?;
            sample
                .figures
                .insert(Metric::SteadyP99Us, steady.summary.p99_us);
            sample
                .figures
                .insert(Metric::SteadyP999Us, steady.summary.p999_us);
            sample.loads.insert("steady", steady);
        }
        sample.stats = server.stats()?;
        sample.memory = Some(crate::process::memory(server.pid())?.into());
        Ok(sample)
    }

    fn started(&self, lab: &Lab, contender: Contender) -> anyhow::Result<Server> {
        let server = lab.start(contender, self.memory_mb, self.disk_mb)?;
        let load = Load {
            rate: (contender == Contender::Extstore).then_some(self.extstore_fill_rate),
            ..self.load_in(lab)?
        };
        load::fill(&load, &lab.target(&server)).context("filling the server")?;
        load::settle(server.pid(), SETTLE)?;
        Ok(server)
    }
}

fn closed_figures(
    closed: &Outcome,
    later: crate::process::CpuTime,
    sample: &mut Sample,
) -> anyhow::Result<()> {
    let cpu = closed
        .cpu_us_per_request(later)
        .context("the server's CPU time is unknown")?;
    let summary = &closed.summary;
    sample.figures.extend([
        (Metric::Throughput, summary.throughput),
        (Metric::CpuUs, cpu),
        (Metric::P50Us, summary.p50_us),
        (Metric::P99Us, summary.p99_us),
        (Metric::P999Us, summary.p999_us),
    ]);
    if summary.counts.refused > 0 {
        sample
            .notes
            .push(format!("{} requests refused", summary.counts.refused));
    }
    Ok(())
}
