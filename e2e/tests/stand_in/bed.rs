//! memcached servers and routers as processes that end with the test.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use petra_e2e::eventually;
use petra_e2e::memcached::Connection;

/// A process that ends with the test.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

pub(crate) struct Bed {
    pub(crate) folder: PathBuf,
    pub(crate) servers: Vec<(u16, Option<Process>)>,
    port: u16,
    _router: Process,
}

impl Bed {
    /// Starts `count` memcached servers and a router whose route is what `route` makes of their addresses.
    pub(crate) async fn start(
        name: &str,
        count: usize,
        route: impl Fn(&[String]) -> serde_json::Value,
    ) -> Self {
        let folder =
            std::env::temp_dir().join(format!("petra-stand-in-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut servers = Vec::new();
        for _ in 0..count {
            let port = free_port();
            servers.push((port, Some(memcached(port))));
        }
        let addresses: Vec<String> = servers
            .iter()
            .map(|(port, _)| format!("127.0.0.1:{port}"))
            .collect();
        write(&folder, &route(&addresses).to_string());
        let port = free_port();
        let plain = ["-p".to_owned(), port.to_string()];
        let router = router(&folder, &plain);
        let bed = Self {
            folder,
            servers,
            port,
            _router: router,
        };
        eventually("the router listens", || async {
            TcpStream::connect(("127.0.0.1", port)).map(drop)
        })
        .await;
        bed
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.servers
            .iter()
            .map(|(port, _)| format!("127.0.0.1:{port}"))
            .collect()
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(&format!("127.0.0.1:{}", self.port))
            .await
            .expect("the router")
    }

    pub(crate) async fn server(&self, index: usize) -> Connection {
        Connection::open(&self.addresses()[index])
            .await
            .expect("a server")
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.folder);
    }
}

/// A router of the configuration in `folder`, with these arguments beside.
pub(crate) fn router(folder: &Path, arguments: &[String]) -> Process {
    let program = std::env::var("MCROUTER_BIN")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_mcrouter-stand-in").to_owned());
    let config = folder.join("mcrouter.json");
    let child = Command::new(&program)
        .arg(format!("--config=file:{}", config.display()))
        .args(["--listen-addresses=127.0.0.1", "--asynclog-disable"])
        .args(["--stats-root=", "--config-dump-root=", "--debug-fifo-root="])
        .args([
            "--probe-timeout-initial=100",
            "--reconfiguration-delay-ms=100",
        ])
        .args(arguments)
        .stderr(Stdio::null())
        .spawn()
        .expect(&program);
    Process(child)
}

pub(crate) fn memcached(port: u16) -> Process {
    let child = Command::new("memcached")
        .args([
            "-l",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-U",
            "0",
            "-u",
            "nobody",
        ])
        .spawn()
        .expect("memcached: apt-get install memcached");
    Process(child)
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a port")
        .port()
}

/// Replaces the configuration as one step, as a ConfigMap's volume does.
pub(crate) fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("new"), text).expect("writing");
    std::fs::rename(folder.join("new"), folder.join("mcrouter.json")).expect("renaming");
}
