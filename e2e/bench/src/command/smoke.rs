//! `petra-bench smoke`: two seconds of every kind of request, about nothing but correctness.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::cores::Cores;
use crate::distribution::Popularity;
use crate::keys::{COUNTER_START, Keys};
use crate::lab::{Contender, Lab};
use crate::load::{self, Load, Outcome, Target};
use crate::server::node::{Durability, Node};

const MEMORY_MB: u64 = 256;
/// Together they are about two seconds on two cores.
const REQUESTS: u64 = 5_000;
/// A server that takes this long for them hangs.
const LONGEST: Duration = Duration::from_secs(60);
const ITEMS: u64 = 1000;
const MIXES: [&str; 5] = [
    "get=9,set=1",
    "get=1,set=1",
    "cas",
    "delete=1,set=1,get=1",
    "fresh",
];
/// One at a time, and many.
const DEPTHS: [usize; 2] = [1, 16];

/// Which programs.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Program of the node
    #[arg(long, env = "PETRA_BENCH_NODE")]
    node: PathBuf,
    /// Program of memcached, with which the load generator itself is checked
    #[arg(long, default_value = "memcached")]
    memcached: PathBuf,
    /// Directory for what servers write while they run
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Asks memcached and a node, and fails with the first wrong answer.
///
/// # Errors
///
/// The wrong answer.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let node = Node::new(&flags.node, &[])?;
    let directory = flags.out.join("servers");
    let cores = Cores::halves()?;
    let lab = Lab::new(node, flags.memcached.clone(), cores, directory, LONGEST);
    for contender in [Contender::Memcached, Contender::Node(Durability::Interval)] {
        let checked = check(&lab, contender).with_context(|| contender.to_string())?;
        println!("{contender}: {checked} answers, all right");
    }
    Ok(())
}

fn check(lab: &Lab, contender: Contender) -> anyhow::Result<u64> {
    let server = lab.start(contender, MEMORY_MB, None)?;
    let target = lab.target(&server);
    load::fill(&load("set", 1)?, &target)?;
    let mut checked = ITEMS;
    for (mix, depth) in MIXES
        .iter()
        .flat_map(|mix| DEPTHS.map(|depth| (mix, depth)))
    {
        let outcome = load::run(&load(mix, depth)?, &target)?;
        expect_all(mix, &outcome)?;
        checked += outcome.summary.counts.requests;
    }
    Ok(checked + check_counters(&target)?)
}

/// Nothing is lost: the counters' sum is the number of increments that were answered.
fn check_counters(target: &Target) -> anyhow::Result<u64> {
    let load = load("incr", 16)?;
    let outcome = load::run(&load, target)?;
    expect_all("incr", &outcome)?;
    let counts = outcome.summary.counts;
    // A miss is an increment that was refused, and is followed by an `add`.
    let increments = counts.requests - 2 * counts.misses;
    let sum = sum_of_counters(target.address, &load)?;
    ensure!(
        sum == increments,
        "{increments} increments were answered, the counters say {sum}"
    );
    Ok(counts.requests)
}

fn expect_all(mix: &str, outcome: &Outcome) -> anyhow::Result<()> {
    let counts = outcome.summary.counts;
    ensure!(
        counts.requests >= REQUESTS,
        "{mix}: {} requests answered",
        counts.requests
    );
    ensure!(
        counts.refused == 0,
        "{mix}: {} requests refused",
        counts.refused
    );
    Ok(())
}

fn sum_of_counters(address: SocketAddr, load: &Load) -> anyhow::Result<u64> {
    let keys = Keys::new(load.key_len, load.value_len);
    let mut stream = BufReader::new(TcpStream::connect(address)?);
    let mut sum = 0;
    for id in 0..load.items {
        let mut request = b"get ".to_vec();
        keys.push_counter(id, &mut request);
        request.extend_from_slice(b"\r\n");
        stream.get_mut().write_all(&request)?;
        sum += counter(&mut stream)?.map_or(0, |count| count - COUNTER_START);
    }
    Ok(sum)
}

fn counter(stream: &mut BufReader<TcpStream>) -> anyhow::Result<Option<u64>> {
    let mut line = || -> anyhow::Result<String> {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    };
    match line()?.as_str() {
        "END" => return Ok(None),
        value if value.starts_with("VALUE ") => {}
        other => bail!("get of a counter was answered {other:?}"),
    }
    let number = line()?;
    let end = line()?;
    ensure!(end == "END", "get of a counter ended with {end:?}");
    Ok(Some(
        number
            .parse()
            .with_context(|| format!("counter {number:?}"))?,
    ))
}

fn load(mix: &str, depth: usize) -> anyhow::Result<Load> {
    Ok(Load {
        mix: mix.parse()?,
        popularity: Popularity::Zipf(0.99),
        items: ITEMS,
        key_len: 16,
        value_len: 1000,
        keys_per_get: 3,
        read_through: true,
        connections: 10,
        depth,
        rate: None,
        fresh_from: 1 << 40,
        warm_up: Duration::ZERO,
        time: LONGEST,
        requests: Some(REQUESTS),
        seed: 1,
    })
}
