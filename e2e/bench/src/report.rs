//! What a run says: a table for people, JSON with every number, charts.
//!
//! Owns the form; the figures are those of [`crate::rounds`].

pub mod chart;
pub mod table;

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

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

/// Writes `results.json`, with every number, and the charts below `directory`.
///
/// # Errors
///
/// Where it cannot be written.
pub fn write(report: &Report, directory: &Path) -> anyhow::Result<()> {
    write_numbers(&serde_json::to_value(report)?, report, directory)
}

/// As [`write`], without what only helps to find out why: what servers say of themselves, and each second of loads
/// that are not about seconds.
///
/// # Errors
///
/// Where it cannot be written.
pub fn write_brief(report: &Report, directory: &Path) -> anyhow::Result<()> {
    let mut numbers = serde_json::to_value(report)?;
    shorten(&mut numbers);
    write_numbers(&numbers, report, directory)
}

fn write_numbers(numbers: &Value, report: &Report, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let file = |name: &str, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    file(
        "results.json",
        serde_json::to_string_pretty(numbers)? + "\n",
    )?;
    for (name, svg) in chart::charts(report) {
        file(&name, svg)?;
    }
    Ok(())
}

fn shorten(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("stats");
            for (name, field) in fields {
                if let Value::Object(load) = field
                    && name != "sustained"
                {
                    load.remove("seconds");
                }
                shorten(field);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        _ => {}
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_brief_form_keeps_the_seconds_that_matter() {
        let mut value = json!([{
            "stats": {"pid": "1"},
            "loads": {"closed": {"seconds": [1], "p50_us": 2}, "sustained": {"seconds": [1]}},
        }]);
        shorten(&mut value);
        let loads = json!({"closed": {"p50_us": 2}, "sustained": {"seconds": [1]}});
        assert_eq!(value, json!([{ "loads": loads }]));
    }
}
