//! Starting, asking and killing servers.
//!
//! Owns processes and connections of the tests. Everything it starts dies with the value that stands for it, and
//! every wait has an end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

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
        node.addr = node.logged_addr("petracache is ready").expect("an address");
        node
    }

    /// How a node on `db_path` is started.
    pub(crate) fn command(db_path: &Path, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_petracache"));
        command
            .args([
                "-p",
                "0",
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

    /// Resident memory in bytes.
    pub(crate) fn resident_memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("VmRSS");
        let kib: u64 = line
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .expect("a number");
        kib * 1024
    }

    fn logged_addr(&self, message: &str) -> Option<SocketAddr> {
        let log = self.log();
        let line = log.lines().find(|line| line.contains(message))?;
        let addr = line.split("addr=").nth(1).expect("an address");
        addr.split_whitespace()
            .next()
            .expect("an address")
            .parse()
            .ok()
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

/// A connection that speaks the text protocol.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        Self::try_connect(addr).expect("a connection")
    }

    pub(crate) fn try_connect(addr: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("sent");
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next line without its end; empty when the connection was closed.
    pub(crate) fn try_line(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        Ok(line)
    }

    /// The next line, as text without its end.
    pub(crate) fn line(&mut self) -> String {
        let line = self.try_line().expect("a line");
        String::from_utf8_lossy(&line)
            .trim_end_matches("\r\n")
            .to_owned()
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest,
            // A server that closes with unread input resets the connection.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("the connection does not end: {error}; so far {rest:?}"),
        }
    }

    /// Sends a line and returns the one-line answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes());
        self.line()
    }

    pub(crate) fn set(&mut self, key: &str, data: &str) -> String {
        self.ask(&format!("set {key} 0 0 {}\r\n{data}", data.len()))
    }

    /// The data of one key.
    pub(crate) fn get(&mut self, key: &str) -> Option<String> {
        let value = self.ask(&format!("get {key}"));
        if value == "END" {
            return None;
        }
        assert!(value.starts_with(&format!("VALUE {key} ")), "{value}");
        let len: usize = value
            .rsplit(' ')
            .next()
            .expect("a length")
            .parse()
            .expect("a length");
        let mut data = vec![0; len + 2];
        self.stream.read_exact(&mut data).expect("data");
        assert_eq!(self.line(), "END");
        data.truncate(len);
        Some(String::from_utf8(data).expect("text"))
    }

    /// The cas of one key that is there.
    pub(crate) fn cas(&mut self, key: &str) -> u64 {
        let value = self.ask(&format!("gets {key}"));
        let cas = value
            .rsplit(' ')
            .next()
            .expect("a cas")
            .parse()
            .expect("a cas");
        while self.line() != "END" {}
        cas
    }

    /// The value of one general statistic.
    pub(crate) fn stat(&mut self, name: &str) -> String {
        self.send(b"stats\r\n");
        let mut found = None;
        loop {
            let line = self.line();
            if line == "END" {
                return found.unwrap_or_else(|| panic!("no statistic {name}"));
            }
            if let Some(value) = line.strip_prefix(&format!("STAT {name} ")) {
                found = Some(value.to_owned());
            }
        }
    }
}

/// Status and body of an HTTP GET.
pub(crate) fn http_get(addr: SocketAddr, path: &str) -> (u16, String) {
    let mut client = Client::connect(addr);
    client
        .send(format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").as_bytes());
    let response = String::from_utf8(client.rest()).expect("text");
    let status = response
        .split(' ')
        .nth(1)
        .expect("a status")
        .parse()
        .expect("a status");
    let body = response.split_once("\r\n\r\n").expect("a body").1;
    (status, body.to_owned())
}
