//! What a process has used, from `/proc`.
//!
//! Owns the reading of those files. CPU time counts all threads, those that ended included.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// `USER_HZ`, the unit of `/proc/PID/stat`; Linux has it fixed for user space on x86-64 and ARM.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuTime {
    pub user_seconds: f64,
    pub system_seconds: f64,
}

impl CpuTime {
    /// User and system.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
        }
    }
}

/// CPU time of process `pid` so far.
///
/// # Errors
///
/// When the process is gone.
pub fn cpu_time(pid: u32) -> anyhow::Result<CpuTime> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    parse_cpu_time(&text).with_context(|| format!("{path}: {text:?}"))
}

/// Fields 14 and 15. The second field is a name in parentheses that may hold anything.
fn parse_cpu_time(stat: &str) -> Option<CpuTime> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_ascii_whitespace().skip(11);
    let mut seconds = || Some(ticks.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    Some(CpuTime {
        user_seconds: seconds()?,
        system_seconds: seconds()?,
    })
}

/// CPU time that all processes of this machine have used so far, with what a hypervisor has taken away.
///
/// # Errors
///
/// When the operating system does not say.
pub fn machine_cpu_seconds() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    parse_machine_cpu(&text).context("/proc/stat has no line for all cores")
}

/// `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guests are part of user and nice.
fn parse_machine_cpu(stat: &str) -> Option<f64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = fields
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let busy = [0, 1, 2, 5, 6, 7].map(|index| ticks.get(index).copied().unwrap_or(0.0));
    Some(busy.iter().sum::<f64>() / TICKS_PER_SECOND)
}

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub resident: u64,
    /// The most it ever was.
    pub peak: u64,
}

/// Memory of process `pid`.
///
/// # Errors
///
/// When the process is gone.
pub fn memory(pid: u32) -> anyhow::Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let kibibytes = |name| field(&text, name).with_context(|| format!("{name} in {path}"));
    Ok(Memory {
        resident: kibibytes("VmRSS:")? << 10,
        peak: kibibytes("VmHWM:")? << 10,
    })
}

/// Bytes that process `pid` caused to be written to disks.
///
/// # Errors
///
/// When the process is gone or belongs to somebody else.
pub fn written(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    field(&text, "write_bytes:").with_context(|| format!("write_bytes in {path}"))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// CPU time of the calling thread so far.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a b) c) S 1 1 1 0 -1 4194304 1 0 0 0 250 150 0 0 20 0 4 0 100 0 0";
        assert_eq!(
            parse_cpu_time(stat),
            Some(CpuTime {
                user_seconds: 2.5,
                system_seconds: 1.5
            })
        );
    }

    #[test]
    fn a_machine_is_not_busy_while_it_is_idle() {
        let stat = "cpu  100 200 300 9999 8888 1 2 97 50 0\ncpu0 1 1";
        assert_eq!(parse_machine_cpu(stat), Some(7.0));
    }

    #[test]
    fn this_process_has_memory_and_time() {
        let pid = std::process::id();
        let memory = memory(pid).unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.resident);
        assert!(cpu_time(pid).unwrap().seconds() >= 0.0);
    }
}
