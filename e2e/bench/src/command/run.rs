//! `petra-bench run`: all cases, or some.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::case::Case;
use crate::case::table::CASES;
use crate::cores::Cores;
use crate::lab::Lab;
use crate::report::{self, Machine, Report};
use crate::rounds;
use crate::server::node::Node;

/// Which cases, how long, with which programs.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Case to run, or what names of cases begin with; may be given many times [default: all]
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// Seconds that count of one load
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Times that baseline and node take turns; long cases have fewer
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Program of the node
    #[arg(long, env = "PETRA_BENCH_NODE")]
    node: PathBuf,
    /// Another flag for all nodes: --node-flag=--enable-compression --node-flag=true
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    node_flag: Vec<String>,
    /// Program of memcached
    #[arg(long, default_value = "memcached")]
    memcached: PathBuf,
    /// Cores of the server, such as 0 or 0-7; one thread runs on each [default: the first half]
    #[arg(long, value_name = "CORES")]
    server_cores: Option<String>,
    /// Cores of the load generator; one thread runs on each [default: the second half]
    #[arg(long, value_name = "CORES")]
    generator_cores: Option<String>,
    /// Directory for what servers write while they run, and for results.json and the charts
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write the charts and a brief results.json to this directory as well
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

/// Runs the cases, prints the table, writes numbers and charts.
///
/// # Errors
///
/// When there is no such case, a program is missing, or a case failed.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let cases = flags.cases()?;
    if flags.list {
        for case in cases {
            println!("{:<20} {}", case.name, case.title);
        }
        return Ok(());
    }
    let lab = flags.lab()?;
    println!("{}", lab.cores);
    let start = Instant::now();
    let mut report = Report {
        machine: Machine::new(&lab, flags.rounds),
        cases: Vec::new(),
    };
    for (number, case) in cases.iter().enumerate() {
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        println!(
            "\n[{}/{}, {minutes:.1} min] {}",
            number + 1,
            cases.len(),
            case.title
        );
        let result = rounds::run(&lab, case, flags.rounds, &|line| println!("{line}"));
        if let Some(failure) = &result.failure {
            println!("  FAILED: {failure}");
        }
        report.cases.push(result);
        // What was measured is not lost when a later case is interrupted.
        report::write(&report, &flags.out)?;
    }
    println!("{}", report::table::report(&report));
    println!(
        "{:.1} min; numbers and charts: {}",
        start.elapsed().as_secs_f64() / 60.0,
        flags.out.display()
    );
    if let Some(directory) = &flags.save {
        report::write_brief(&report, directory)?;
        println!("and in {}", directory.display());
    }
    if report.cases.iter().any(|case| case.failure.is_some()) {
        bail!("not all cases could be measured");
    }
    Ok(())
}

impl Flags {
    fn cases(&self) -> anyhow::Result<Vec<&'static Case>> {
        let mut chosen = Vec::new();
        for name in &self.cases {
            let exact = |case: &&Case| case.name == name;
            let like = |case: &&Case| case.name.starts_with(name.as_str());
            let before = chosen.len();
            match CASES.iter().find(exact) {
                Some(case) => chosen.push(case),
                None => chosen.extend(CASES.iter().filter(like)),
            }
            if chosen.len() == before {
                bail!("there is no case {name}; --list says which there are");
            }
        }
        if self.cases.is_empty() {
            chosen.extend(CASES);
        }
        Ok(chosen)
    }

    fn lab(&self) -> anyhow::Result<Lab> {
        let cores = Cores::from_flags(
            self.server_cores.as_deref(),
            self.generator_cores.as_deref(),
        )?;
        let directory = self.out.join("servers");
        std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(Lab::new(
            Node::new(&self.node, &self.node_flag)?,
            self.memcached.clone(),
            cores,
            directory,
            Duration::from_secs_f64(self.seconds),
        ))
    }
}
