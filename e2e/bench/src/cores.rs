//! Which cores the server has and which the load generator.
//!
//! Owns the pinning. A process that is started inherits the cores of the thread that starts it.

use std::fmt;

use anyhow::{Context, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Two sets of cores that do not overlap, unless there is only one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    pub server: Vec<usize>,
    pub generator: Vec<usize>,
}

impl Cores {
    /// The cores that were asked for, as [`parse`] reads them; where none were, a half.
    ///
    /// # Errors
    ///
    /// What is not a core.
    pub fn from_flags(server: Option<&str>, generator: Option<&str>) -> anyhow::Result<Self> {
        let halves = Self::halves()?;
        Ok(Self {
            server: server.map_or(Ok(halves.server), parse)?,
            generator: generator.map_or(Ok(halves.generator), parse)?,
        })
    }

    /// Half of the cores for each: on two, core 0 for the server and core 1 for the generator.
    ///
    /// # Errors
    ///
    /// When the operating system does not say which cores there are.
    pub fn halves() -> anyhow::Result<Self> {
        Ok(Self::halves_of(&current()?))
    }

    fn halves_of(cores: &[usize]) -> Self {
        if cores.len() < 2 {
            return Self {
                server: cores.to_vec(),
                generator: cores.to_vec(),
            };
        }
        let (server, generator) = cores.split_at(cores.len() / 2);
        Self {
            server: server.to_vec(),
            generator: generator.to_vec(),
        }
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "server on core {}, load generator on core {}",
            join(&self.server),
            join(&self.generator)
        )
    }
}

fn join(cores: &[usize]) -> String {
    let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
    cores.join(",")
}

/// Cores as they are written on a command line: `0,1,4-7`.
///
/// # Errors
///
/// What is not a core.
pub fn parse(text: &str) -> anyhow::Result<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let core = |text: &str| {
            text.parse::<usize>()
                .with_context(|| format!("core {text:?}"))
        };
        cores.extend(core(first)?..=core(last)?);
    }
    if cores.is_empty() {
        bail!("{text:?} names no core");
    }
    Ok(cores)
}

/// The cores that the calling thread may run on.
///
/// # Errors
///
/// When the operating system does not say.
pub fn current() -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("asking for the cores of this process")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect())
}

/// Keeps the calling thread, and what it starts from now on, on `cores`.
///
/// # Errors
///
/// When there is no such core.
pub fn pin(cores: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    sched_setaffinity(None, &set).with_context(|| format!("pinning to core {}", join(cores)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_are_one_for_each() {
        let cores = Cores::halves_of(&[0, 1]);
        assert_eq!((cores.server, cores.generator), (vec![0], vec![1]));
    }

    #[test]
    fn cores_are_read_as_lists_and_ranges() {
        assert_eq!(parse("0,2,4-6").unwrap(), [0, 2, 4, 5, 6]);
        assert!(parse("one").is_err());
        assert!(parse("3-1").is_err());
    }
}
