//! Starting and killing servers.
//!
//! Owns the processes of the tests. Everything it starts dies with the value that stands for it, and
//! every wait has an end.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;

/// No answer of a working server takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Polls `condition` until it holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(
            Instant::now() < end,
            "waited {PATIENCE:?} in vain until {what}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// A node process.
pub(crate) struct Node {
    child: Child,
    pub(crate) addr: SocketAddr,
    pub(crate) admin: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Node {
    /// Starts a node on `db_path` and waits until it serves.
    pub(crate) fn start(db_path: &Path, flags: &[&str]) -> Self {
        Self::spawn(&mut Self::command(db_path, flags))
    }

    /// Runs `command`, which starts a node, and waits until it serves.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("petracache starts");
        let log = collect(child.stderr.take().expect("standard error is piped"));
        let mut node = Self {
            child,
            addr: unset(),
            admin: unset(),
            log,
        };
        wait_until("the node is ready", || {
            assert!(
                node.child.try_wait().expect("a status").is_none(),
                "it ended:\n{}",
                node.log()
            );
            node.log().contains("petracache is ready")
        });
        node.admin = node.logged_addr("serving metrics").unwrap_or_else(unset);
        // It may serve on a Unix socket alone.
        node.addr = node
            .logged_addr("petracache is ready")
            .unwrap_or_else(unset);
        node
    }

    /// How a node on `db_path` is started.
    pub(crate) fn command(db_path: &Path, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_petracache"));
        command
            .args([
                "-p",
                "-1",
                "--metrics-addr",
                "127.0.0.1:0",
                "-m",
                "64",
                "-t",
                "2",
            ])
            .arg("--db-path")
            .arg(db_path)
            .args(flags)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("log").clone()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill")
            .args(["-s", name, &id])
            .status()
            .expect("kill runs");
        assert!(status.success(), "kill -s {name} {id}");
    }

    /// The exit status, once the process has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the node has ended", || {
            status = self.child.try_wait().expect("a status");
            status.is_some()
        });
        status.expect("just set")
    }

    /// Asks the node to stop, and expects it to end well.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        let status = self.wait();
        assert!(status.success(), "{status}:\n{}", self.log());
    }

    /// Kills the process without a chance to do anything.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("a status");
    }

    /// The most resident memory of its own that it ever had, in bytes; what is its program's file can be read again.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.status_bytes("VmHWM:") - self.status_bytes("RssFile:")
    }

    /// Of the resident memory, what is the process's own and no file's, in bytes. What the kernel holds for its sockets is
    /// in neither.
    pub(crate) fn own_memory(&self) -> u64 {
        self.status_bytes("RssAnon:")
    }

    /// Of the process's own memory, what lies in huge pages, in bytes.
    pub(crate) fn huge_pages(&self) -> u64 {
        self.bytes_of("smaps_rollup", "AnonHugePages:")
    }

    fn status_bytes(&self, name: &str) -> u64 {
        self.bytes_of("status", name)
    }

    fn bytes_of(&self, file: &str, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.id()));
        let text = text.expect("a file of the process");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let text = line.expect("a line").trim().trim_end_matches(" kB");
        text.parse::<u64>().expect("a number") * 1024
    }

    /// How many files and sockets the process has open.
    pub(crate) fn open_files(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.id()));
        files.expect("descriptors").count()
    }

    fn logged_addr(&self, message: &str) -> Option<SocketAddr> {
        let log = self.log();
        let line = log.lines().find(|line| line.contains(message))?;
        let addr = line.split("addr=").nth(1).expect("an address");
        let first = addr.split([' ', ',']).next().expect("an address");
        first.parse().ok()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- log of the node\n{}", self.log());
        }
    }
}

/// Reads a process's log as it comes, so that it never blocks on a full pipe.
fn collect(stderr: ChildStderr) -> Arc<Mutex<String>> {
    let log = Arc::new(Mutex::new(String::new()));
    let collected = Arc::clone(&log);
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut log = collected.lock().expect("log");
            log.push_str(&line);
            log.push('\n');
        }
    });
    log
}

fn unset() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 0))
}

/// A memcached process: the judge of what a node answers.
pub(crate) struct Memcached {
    child: Child,
    pub(crate) addr: SocketAddr,
}

impl Memcached {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(flags: &[&str]) -> Self {
        let addr = free_addr();
        let binary = [
            "/usr/bin/memcached",
            "/usr/local/bin/memcached",
            "/opt/homebrew/bin/memcached",
        ]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists())
        .expect("memcached is the judge of these tests and is missing: apt-get install memcached");
        let child = Command::new(binary)
            .args([
                "-u",
                "nobody",
                "-l",
                "127.0.0.1",
                "-U",
                "0",
                "-p",
                &addr.port().to_string(),
            ])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached starts");
        let memcached = Self { child, addr };
        wait_until("memcached listens", || TcpStream::connect(addr).is_ok());
        memcached
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address nobody listens on at the moment.
pub(crate) fn free_addr() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address")
}
