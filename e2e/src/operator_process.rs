//! The operator as a process of this machine, and what it costs: for tests that measure it.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The kernel's unit of processor time as it shows it, on every platform that Linux has.
const TICKS_PER_SECOND: f64 = 100.0;

/// An operator that runs. It is killed when it is dropped.
pub struct OperatorProcess {
    child: Child,
    address: String,
}

/// One sample of a metric: its labels as they are written, and its value.
pub type Samples = BTreeMap<String, f64>;

impl OperatorProcess {
    /// Starts `program` on the cluster of `kubeconfig`, and waits until its caches are filled.
    ///
    /// # Errors
    ///
    /// It does not start, or ends.
    pub async fn start(program: &str, kubeconfig: &str, log: &Path) -> anyhow::Result<Self> {
        // Free until somebody else takes it, which is soon enough here.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let log = File::create(log).with_context(|| log.display().to_string())?;
        let child = Command::new(program)
            .args(["run", "--listen-addr", &address])
            .env("KUBECONFIG", kubeconfig)
            // As in the chart.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| program.to_owned())?;
        let mut operator = Self { child, address };
        while !matches!(operator.get("/ready").await, Ok(answer) if answer.starts_with("HTTP/1.1 200"))
        {
            let ended = operator.child.try_wait()?;
            ensure!(ended.is_none(), "the operator ended: {ended:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(operator)
    }

    /// Every sample of the metric `name`.
    ///
    /// # Errors
    ///
    /// The operator does not answer.
    pub async fn metric(&self, name: &str) -> anyhow::Result<Samples> {
        let text = self.get("/metrics").await?;
        Ok(samples(&text, name))
    }

    /// Resident memory in bytes, now and at its highest.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub fn memory(&self) -> anyhow::Result<(u64, u64)> {
        let status = self.proc("status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
            kib.and_then(|kib| kib.trim().parse::<u64>().ok())
                .map(|kib| kib * 1024)
        };
        let now = field("VmRSS:").context("VmRSS")?;
        Ok((now, field("VmHWM:").context("VmHWM")?))
    }

    /// Processor time that it has used, in seconds.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub fn processor_seconds(&self) -> anyhow::Result<f64> {
        let stat = self.proc("stat")?;
        // The name of the program, in parentheses, may hold anything.
        let (_, fields) = stat.rsplit_once(')').context("stat")?;
        let ticks: Vec<f64> = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse().ok())
            .collect();
        Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
    }

    fn proc(&self, file: &str) -> anyhow::Result<String> {
        let id = self.child.id();
        Ok(std::fs::read_to_string(format!("/proc/{id}/{file}"))?)
    }

    async fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn samples(text: &str, name: &str) -> Samples {
    let sample = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        let whole = labels.is_empty() || labels.starts_with('{');
        Some((labels.to_owned(), value.parse().ok()?)).filter(|_| whole)
    };
    text.lines().filter_map(sample).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn samples_are_those_of_the_metric_and_of_no_longer_name() {
        let text = "# HELP a x\na{b=\"c d\"} 2\na 3\na_total 4\n";
        let expected = [("{b=\"c d\"}".to_owned(), 2.0), (String::new(), 3.0)];
        assert_eq!(samples(text, "a"), expected.into());
    }
}
