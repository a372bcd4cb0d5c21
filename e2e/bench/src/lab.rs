//! Where experiments happen: programs, cores, directories and how long.
//!
//! Owns what all experiments share. Knows no case.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::cores::Cores;
use crate::load::Target;
use crate::server::node::{Durability, Node};
use crate::server::{Server, Settings, memcached};

/// A server that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    Memcached,
    /// memcached that keeps values on a disk.
    Extstore,
    Node(Durability),
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memcached => f.write_str("memcached"),
            Self::Extstore => f.write_str("extstore"),
            Self::Node(Durability::Interval) => f.write_str("node"),
            Self::Node(durability) => write!(f, "node, {durability}"),
        }
    }
}

/// The environment of all experiments of a run.
#[derive(Debug)]
pub struct Lab {
    pub node: Node,
    pub memcached: PathBuf,
    pub cores: Cores,
    /// Servers have their directories here.
    pub directory: PathBuf,
    /// How long one load counts.
    pub time: Duration,
    pub warm_up: Duration,
    started: AtomicU32,
}

impl Lab {
    /// Programs on cores, with directories below `directory`.
    #[must_use]
    pub fn new(
        node: Node,
        memcached: PathBuf,
        cores: Cores,
        directory: PathBuf,
        time: Duration,
    ) -> Self {
        Self {
            node,
            memcached,
            cores,
            directory,
            time,
            warm_up: time.mul_f64(0.3).min(Duration::from_secs(2)),
            started: AtomicU32::new(0),
        }
    }

    /// Starts an empty `contender` with as many threads as the server has cores.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start(
        &self,
        contender: Contender,
        memory_mb: u64,
        disk_mb: Option<u64>,
    ) -> anyhow::Result<Server> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let directory = self
            .directory
            .join(format!("{}-{number}", std::process::id()));
        let settings = Settings {
            threads: self.cores.server.len().max(1),
            memory_mb,
            disk_mb: disk_mb.filter(|_| contender != Contender::Memcached),
        };
        Server::start(directory, &self.cores.server, |directory| match contender {
            Contender::Memcached | Contender::Extstore => {
                memcached::launch(&self.memcached, &settings, directory)
            }
            Contender::Node(durability) => self.node.launch(durability, &settings, directory),
        })
    }

    /// `server` as the target of loads from the generator's cores.
    #[must_use]
    pub fn target(&self, server: &Server) -> Target {
        Target {
            address: server.address,
            pid: Some(server.pid()),
            cores: self.cores.generator.clone(),
        }
    }
}
