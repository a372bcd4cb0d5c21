//! The node: the one place that knows its flags and the names of its figures.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::{Launch, MAX_CONNECTIONS, Settings, free_address};

/// Limits the space on the disk. A node without it grows as long as it is written to.
const QUOTA_FLAG: &str = "--disk-quota";
/// `stats`: items in the memory tier.
const TIER_ITEMS: &str = "tier_items";
/// `stats`: gets that the memory tier answered.
const TIER_HITS: &str = "tier_hits";

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    Interval,
    Always,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interval => "interval",
            Self::Always => "always",
        })
    }
}

/// The program, and flags for all of its starts.
#[derive(Clone, Debug)]
pub struct Node {
    program: PathBuf,
    extra: Vec<String>,
    help: String,
}

impl Node {
    /// Looks at what `program` can.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn new(program: &Path, extra: &[String]) -> anyhow::Result<Self> {
        let output = Command::new(program)
            .arg("--help")
            .output()
            .with_context(|| format!("running {}", program.display()))?;
        if !output.status.success() {
            bail!("{} --help: {}", program.display(), output.status);
        }
        Ok(Self {
            program: program.to_owned(),
            extra: extra.to_vec(),
            help: String::from_utf8_lossy(&output.stdout).into_owned(),
        })
    }

    /// Its program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Whether its space on the disk can be limited.
    #[must_use]
    pub fn has_quota(&self) -> bool {
        self.help.contains(QUOTA_FLAG)
    }

    /// A node with an empty database in `directory`.
    ///
    /// # Errors
    ///
    /// When there is no free port.
    pub fn launch(
        &self,
        durability: Durability,
        settings: &Settings,
        directory: &Path,
    ) -> anyhow::Result<Launch> {
        let address = free_address()?;
        let mut command = Command::new(&self.program);
        command
            .args(["--listen-addr", &address.to_string()])
            .args(["--metrics-addr", &free_address()?.to_string()])
            .args(["--threads", &settings.threads.to_string()])
            .args(["--memory", &settings.memory_mb.to_string()])
            .args(["--max-connections", &MAX_CONNECTIONS.to_string()])
            .args(["--durability", &durability.to_string()])
            .args(["--drain", "0s"])
            .arg("--db-path")
            .arg(directory.join("db"));
        if let (Some(disk_mb), true) = (settings.disk_mb, self.has_quota()) {
            command.args([QUOTA_FLAG, &format!("{disk_mb}m")]);
        }
        command.args(&self.extra);
        Ok(Launch { command, address })
    }
}

/// Items that `stats` says are in memory; none when it does not say.
#[must_use]
pub fn items_in_memory(stats: &BTreeMap<String, String>) -> Option<f64> {
    stats.get(TIER_ITEMS)?.parse().ok()
}

/// Gets that `stats` says memory has answered; none when it does not say.
#[must_use]
pub fn hits_in_memory(stats: &BTreeMap<String, String>) -> Option<f64> {
    stats.get(TIER_HITS)?.parse().ok()
}
