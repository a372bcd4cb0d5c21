//! `petra-bench load`: any load against a server that is running.

use std::net::SocketAddr;
use std::time::Duration;

use crate::cores;
use crate::distribution::Popularity;
use crate::load::{self, Load, Outcome, Target};
use crate::mix::Mix;

/// How long a server may work on after a load, for what is counted as the load's CPU time.
const SETTLE: Duration = Duration::from_secs(5);

/// A load, as flags.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Address of the server
    #[arg(default_value = "127.0.0.1:11211")]
    address: SocketAddr,
    /// Process of the server, to count its CPU time
    #[arg(long)]
    pid: Option<u32>,
    /// Cores of the load generator, such as 1 or 2-3; one thread runs on each [default: any, one thread]
    #[arg(long, value_name = "CORES")]
    cores: Option<String>,
    /// Connections
    #[arg(short, long, default_value_t = 20)]
    connections: usize,
    /// Requests sent together on each connection; in an open loop, the most that are outstanding
    #[arg(short, long, default_value_t = 1)]
    pipeline: usize,
    /// Kinds of requests and their weights: get, set, fresh (set of a new key), incr, cas, delete
    #[arg(short, long, default_value = "get=9,set=1")]
    mix: Mix,
    /// Keys of one get
    #[arg(long, default_value_t = 1)]
    multi_get: usize,
    /// Bytes of a value
    #[arg(short, long, default_value_t = 1000)]
    value: usize,
    /// Bytes of a key
    #[arg(long, default_value_t = 16)]
    key: usize,
    /// Number of items
    #[arg(short = 'n', long, default_value_t = 100_000)]
    items: u64,
    /// Popularity of keys: uniform, zipf:THETA, scan:THETA:SHARE
    #[arg(short = 'd', long, default_value = "uniform")]
    popularity: Popularity,
    /// Set a key that was missed
    #[arg(long)]
    read_through: bool,
    /// Requests a second in an open loop; latency counts from when a request was due [default: closed loop]
    #[arg(short, long)]
    rate: Option<f64>,
    /// First id for mix "fresh"
    #[arg(long, default_value_t = 1 << 40)]
    fresh_from: u64,
    /// Seconds before anything counts
    #[arg(short, long, default_value_t = 1.0)]
    warm_up: f64,
    /// Seconds that count
    #[arg(short, long, default_value_t = 5.0)]
    seconds: f64,
    /// Another number is another sequence of keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not set all items first
    #[arg(long)]
    no_fill: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the load and prints what came of it.
///
/// # Errors
///
/// As [`load::run`].
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let target = Target {
        address: flags.address,
        pid: flags.pid,
        cores: flags
            .cores
            .as_deref()
            .map_or(Ok(Vec::new()), cores::parse)?,
    };
    let load = flags.load();
    if !flags.no_fill {
        let unhurried = Load {
            rate: None,
            ..load.clone()
        };
        let rate = load::fill(&unhurried, &target)?;
        if !flags.json {
            println!("filled {} items, {rate:.0} a second", load.items);
        }
        settle(flags.pid)?;
    }
    let outcome = load::run(&load, &target)?;
    let later = settle(flags.pid)?;
    if flags.json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print(&outcome, outcome.cpu_us_per_request(later));
    }
    Ok(())
}

fn settle(pid: Option<u32>) -> anyhow::Result<crate::process::CpuTime> {
    pid.map_or(Ok(crate::process::CpuTime::default()), |pid| {
        load::settle(pid, SETTLE)
    })
}

impl Flags {
    fn load(&self) -> Load {
        Load {
            mix: self.mix.clone(),
            popularity: self.popularity,
            items: self.items,
            key_len: self.key,
            value_len: self.value,
            keys_per_get: self.multi_get,
            read_through: self.read_through,
            connections: self.connections,
            depth: self.pipeline,
            rate: self.rate,
            fresh_from: self.fresh_from,
            warm_up: Duration::from_secs_f64(self.warm_up),
            time: Duration::from_secs_f64(self.seconds),
            requests: None,
            seed: self.seed,
        }
    }
}

fn print(outcome: &Outcome, cpu_us: Option<f64>) {
    let summary = &outcome.summary;
    println!("requests a second  {:>12.0}", summary.throughput);
    println!("p50                {:>12.1} us", summary.p50_us);
    println!("p99                {:>12.1} us", summary.p99_us);
    println!("p99.9              {:>12.1} us", summary.p999_us);
    println!("max                {:>12.1} us", summary.max_us);
    println!("hit ratio          {:>12.4}", summary.hit_ratio());
    if let (Some(cpu), Some(utilisation)) = (cpu_us, outcome.server_utilisation()) {
        println!("server CPU         {cpu:>12.2} us a request");
        println!("server cores       {utilisation:>12.2} used");
    }
    println!(
        "generator          {:>12.2} of its cores used",
        outcome.generator_utilisation
    );
    println!(
        "other processes    {:>12.2} cores used",
        outcome.disturbance
    );
    let counts = summary.counts;
    if counts.refused + counts.cas_lost > 0 {
        println!("refused {}, cas lost {}", counts.refused, counts.cas_lost);
    }
}
