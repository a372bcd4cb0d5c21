//! `petra-bench self-test`: what the load generator itself can do.

use std::time::Duration;

use crate::answering::Answering;
use crate::case::table::CASES;
use crate::case::{Case, Experiment, speed::Speed};
use crate::cores::Cores;
use crate::keys::Keys;
use crate::load::{self, Target};

/// As in all cases.
const KEY_LEN: usize = 16;

/// How long, and where.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Seconds that count of one load
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Core of the answering server [default: the first half]
    #[arg(long, value_name = "CORES")]
    server_cores: Option<String>,
    /// Cores of the load generator [default: the second half]
    #[arg(long, value_name = "CORES")]
    generator_cores: Option<String>,
}

/// Puts the loads of the cases on a server that does the least, and prints what the generator reaches.
///
/// # Errors
///
/// As [`load::run`].
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let cores = Cores::from_flags(
        flags.server_cores.as_deref(),
        flags.generator_cores.as_deref(),
    )?;
    println!("What the load generator can do, against a thread that only answers; {cores}\n");
    println!(
        "{:<24} {:>12} {:>12} {:>12} {:>14} {:>8}",
        "", "requests/s", "generator", "answering", "at least able", "others"
    );
    for (case, speed) in CASES.iter().filter_map(answerable) {
        measure(case, speed, &cores, Duration::from_secs_f64(flags.seconds))?;
    }
    println!(
        "\ngenerator, answering, others: cores used. At least able: requests/s if all of the generator's cores were used."
    );
    Ok(())
}

/// The cases that ask nothing but gets and sets.
fn answerable(case: &Case) -> Option<(&Case, Speed)> {
    match case.experiment {
        Experiment::Speed(speed) if speed.disk_mb.is_none() && speed.mix.starts_with("get") => {
            Some((case, speed))
        }
        _ => None,
    }
}

fn measure(case: &Case, speed: Speed, cores: &Cores, time: Duration) -> anyhow::Result<()> {
    let keys = Keys::new(KEY_LEN, speed.value_len);
    let server = Answering::start(keys, cores.server.iter().take(1).copied().collect())?;
    let target = Target {
        address: server.address,
        pid: None,
        cores: cores.generator.clone(),
    };
    let outcome = load::run(&speed.load(time, time / 4)?, &target)?;
    let answering = server.stop()?.as_secs_f64() / (time.as_secs_f64() * 1.25);
    let throughput = outcome.summary.throughput;
    println!(
        "{:<24} {throughput:>12.0} {:>12.2} {answering:>12.2} {:>14.0} {:>8.2}",
        case.name,
        outcome.generator_utilisation,
        throughput / outcome.generator_utilisation,
        (outcome.disturbance - answering).max(0.0),
    );
    Ok(())
}
