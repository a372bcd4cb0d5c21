//! What a run says: a table for people, JSON with every number, charts.
//!
//! Owns the form; the figures are those of [`crate::rounds`].

pub mod chart;
pub mod table;

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::lab::Lab;
use crate::rounds::CaseResult;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub cases: Vec<CaseResult>,
}

/// What the figures depend on.
#[derive(Debug, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub kernel: String,
    pub memory_mib: u64,
    pub server_cores: Vec<usize>,
    pub generator_cores: Vec<usize>,
    pub memcached: String,
    pub node: String,
    pub seconds: f64,
    pub rounds: usize,
}

impl Machine {
    /// This machine and these programs.
    #[must_use]
    pub fn new(lab: &Lab, rounds: usize) -> Self {
        Self {
            cpu: proc_field("/proc/cpuinfo", "model name"),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            memory_mib: proc_field("/proc/meminfo", "MemTotal")
                .split(' ')
                .next()
                .and_then(|kibibytes| kibibytes.parse::<u64>().ok())
                .unwrap_or(0)
                >> 10,
            server_cores: lab.cores.server.clone(),
            generator_cores: lab.cores.generator.clone(),
            memcached: first_line(&lab.memcached, "-V"),
            node: first_line(lab.node.program(), "--version"),
            seconds: lab.time.as_secs_f64(),
            rounds,
        }
    }
}

/// Writes `results.json` and the charts below `directory`.
///
/// # Errors
///
/// Where it cannot be written.
pub fn write(report: &Report, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let file = |name: &str, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    file("results.json", serde_json::to_string_pretty(report)? + "\n")?;
    for (name, svg) in chart::charts(report) {
        file(&name, svg)?;
    }
    Ok(())
}

fn proc_field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.split_once(':'))
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

fn first_line(program: &Path, flag: &str) -> String {
    std::process::Command::new(program)
        .arg(flag)
        .output()
        .ok()
        .and_then(|output| {
            String::from_utf8(output.stdout)
                .ok()?
                .lines()
                .next()
                .map(str::to_owned)
        })
        .unwrap_or_default()
}
