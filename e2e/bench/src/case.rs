//! What is compared, and what must come out.
//!
//! Owns the vocabulary: a case compares a node with a baseline by an experiment and says what their figures must be.
//! The cases themselves are in `case/table.rs`, as data; each experiment has a file.

pub mod hit_ratio;
pub mod memory;
pub mod speed;
pub mod sustained;
pub mod table;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::lab::{Contender, Lab};
use crate::load::Outcome;
use crate::process::Memory;

/// One line of the table of what must be true.
#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    pub title: &'static str,
    /// What the node is compared with; where there is none, bounds are about the node's own figures.
    pub baseline: Option<Contender>,
    pub node: Contender,
    pub experiment: Experiment,
    pub must: &'static [Must],
    /// Long experiments are not repeated as often as asked.
    pub max_rounds: usize,
}

/// How figures are found.
#[derive(Clone, Copy, Debug)]
pub enum Experiment {
    Speed(speed::Speed),
    Sustained(sustained::Sustained),
    Memory(memory::Fill),
    HitRatio(hit_ratio::Trace),
}

/// A bound on a figure of the node, or on its ratio to the baseline's.
#[derive(Clone, Copy, Debug)]
pub struct Must(pub Metric, pub Bound);

/// What a figure must be.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Nothing; it is stated.
    Stated,
}

impl Bound {
    /// Whether `figure` is within the bound.
    #[must_use]
    pub fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bound) => figure >= bound,
            Self::AtMost(bound) => figure <= bound,
            Self::Stated => true,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, ">= {bound:.2}"),
            Self::AtMost(bound) => write!(f, "<= {bound:.2}"),
            Self::Stated => f.write_str("stated"),
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    Throughput,
    CpuUs,
    P50Us,
    P99Us,
    P999Us,
    /// Of a fixed rate, the same for both.
    SteadyP99Us,
    SteadyP999Us,
    HitRatio,
    BytesPerItem,
    /// The slowest second's share of the rate.
    WorstSecond,
    /// Bytes written to the disk for each byte of a key or value.
    WriteAmplification,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Throughput => "requests/s",
            Self::CpuUs => "server CPU, us/request",
            Self::P50Us => "p50, us",
            Self::P99Us => "p99, us",
            Self::P999Us => "p99.9, us",
            Self::SteadyP99Us => "p99 at a fixed rate, us",
            Self::SteadyP999Us => "p99.9 at a fixed rate, us",
            Self::HitRatio => "hit ratio",
            Self::BytesPerItem => "resident bytes/item",
            Self::WorstSecond => "slowest second / rate",
            Self::WriteAmplification => "write amplification",
        })
    }
}

/// One experiment with one server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    pub server: String,
    pub figures: BTreeMap<Metric, f64>,
    /// Each load by its name.
    pub loads: BTreeMap<&'static str, Outcome>,
    /// What the server said of itself at the end.
    pub stats: BTreeMap<String, String>,
    pub memory: Option<SampleMemory>,
    pub notes: Vec<String>,
}

/// Resident bytes of the server at the end of a sample.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SampleMemory {
    pub resident: u64,
    pub peak: u64,
}

impl From<Memory> for SampleMemory {
    fn from(memory: Memory) -> Self {
        Self {
            resident: memory.resident,
            peak: memory.peak,
        }
    }
}

impl Sample {
    /// The most that other processes took of the machine during any load.
    #[must_use]
    pub fn disturbance(&self) -> f64 {
        self.loads
            .values()
            .map(|load| load.disturbance)
            .fold(0.0, f64::max)
    }
}

impl Experiment {
    /// Whether its figures depend on what else the machine does.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        matches!(self, Self::Speed(_) | Self::Sustained(_))
    }

    /// One sample of `contender`. `rate` is the fixed rate, where the experiment has one.
    ///
    /// # Errors
    ///
    /// A server that does not start or answers wrongly.
    pub fn sample(
        &self,
        lab: &Lab,
        contender: Contender,
        rate: Option<f64>,
    ) -> anyhow::Result<Sample> {
        match self {
            Self::Speed(speed) => speed.sample(lab, contender, rate),
            Self::Sustained(sustained) => sustained.sample(lab, contender),
            Self::Memory(fill) => fill.sample(lab, contender),
            Self::HitRatio(trace) => trace.sample(lab, contender),
        }
    }
}
