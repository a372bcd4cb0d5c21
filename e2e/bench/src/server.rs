//! Servers under measurement: started on cores of their own, on loopback, in a directory that goes with them.
//!
//! Owns the process. Which program with which flags is said in the files below.

pub mod memcached;
pub mod node;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::cores;

/// A server that does not answer after this time will not.
const START: Duration = Duration::from_secs(20);
/// Connections that servers must accept, above any that a case opens.
pub const MAX_CONNECTIONS: u32 = 4096;
/// A server that does not end itself in this time is killed.
const STOP: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const LOG: &str = "server.log";

/// What servers of all kinds are given alike.
#[derive(Clone, Debug)]
pub struct Settings {
    pub threads: usize,
    pub memory_mb: u64,
    /// Space on the disk, for those that use it; none for what they take by default.
    pub disk_mb: Option<u64>,
}

/// A program to start, but for the cores it runs on.
pub struct Launch {
    pub command: Command,
    pub address: SocketAddr,
}

/// A running server. Dropping it ends it and deletes its directory.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    directory: PathBuf,
}

impl Server {
    /// Starts what `launch` makes for `directory` on `cores`, and waits until it answers.
    ///
    /// # Errors
    ///
    /// When it does not start, with the end of what it wrote.
    pub fn start(
        directory: PathBuf,
        server_cores: &[usize],
        launch: impl FnOnce(&Path) -> anyhow::Result<Launch>,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let Launch { command, address } = launch(&directory)?;
        let child = spawn(&command, &directory, server_cores)?;
        let mut server = Self {
            child,
            address,
            directory,
        };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What `stats` says.
    ///
    /// # Errors
    ///
    /// When the server does not answer.
    pub fn stats(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(START))?;
        (&stream).write_all(b"stats\r\n")?;
        let mut stats = BTreeMap::new();
        for line in BufReader::new(stream).lines() {
            let line = line.context("reading stats")?;
            match line
                .strip_prefix("STAT ")
                .and_then(|line| line.split_once(' '))
            {
                Some((name, value)) => stats.insert(name.to_owned(), value.to_owned()),
                None => break,
            };
        }
        Ok(stats)
    }

    fn wait_until_it_answers(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while !answers(self.address) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}: {}", self.log());
            }
            if start.elapsed() > START {
                bail!("the server does not answer after {START:?}: {}", self.log());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.directory.join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    fn end(&mut self) -> anyhow::Result<()> {
        terminate(&self.child);
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > STOP {
                self.child.kill()?;
                self.child.wait()?;
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.end().is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Starts `command` on `cores`. `setpriv` makes the kernel end it with this process, however that ends.
fn spawn(command: &Command, directory: &Path, server_cores: &[usize]) -> anyhow::Result<Child> {
    let log = File::create(directory.join(LOG))?;
    let mut wrapped = Command::new("setpriv");
    wrapped
        .args(["--pdeathsig", "KILL", "--"])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // An interrupt from the keyboard is this program's to handle.
        .process_group(0);
    let own = cores::current()?;
    cores::pin(server_cores)?;
    let child = wrapped.spawn();
    cores::pin(&own)?;
    child.with_context(|| format!("starting {}", command.get_program().display()))
}

fn terminate(child: &Child) {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

fn answers(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        (&stream).write_all(b"version\r\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    ask().is_ok_and(|line| line.starts_with("VERSION"))
}

/// A port of loopback that nobody uses now.
///
/// # Errors
///
/// When there is none.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?)
}
