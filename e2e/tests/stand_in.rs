//! The stand-in for mcrouter, in front of real memcached servers.
//!
//! With `MCROUTER_BIN` set, the same tests run on that binary: what the stand-in does, mcrouter does.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::ensure;
use md5::{Digest, Md5};
use petra_e2e::eventually;
use petra_e2e::memcached::Connection;
use serde_json::json;

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

struct Bed {
    folder: PathBuf,
    servers: Vec<(u16, Option<Process>)>,
    port: u16,
    _router: Process,
}

impl Bed {
    /// Starts `count` memcached servers and a router whose route is what `route` makes of their addresses.
    async fn start(
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
        let program = std::env::var("MCROUTER_BIN")
            .unwrap_or_else(|_| env!("CARGO_BIN_EXE_mcrouter-stand-in").to_owned());
        let router = Command::new(&program)
            .arg(format!(
                "--config=file:{}",
                folder.join("mcrouter.json").display()
            ))
            .args([
                "-p",
                &port.to_string(),
                "--listen-addresses=127.0.0.1",
                "--asynclog-disable",
            ])
            .args(["--stats-root=", "--config-dump-root=", "--debug-fifo-root="])
            .args([
                "--probe-timeout-initial=100",
                "--reconfiguration-delay-ms=100",
            ])
            .stderr(Stdio::null())
            .spawn()
            .expect(&program);
        let bed = Self {
            folder,
            servers,
            port,
            _router: Process(router),
        };
        eventually("the router listens", || async {
            TcpStream::connect(("127.0.0.1", port)).map(drop)
        })
        .await;
        bed
    }

    fn addresses(&self) -> Vec<String> {
        self.servers
            .iter()
            .map(|(port, _)| format!("127.0.0.1:{port}"))
            .collect()
    }

    async fn connect(&self) -> Connection {
        Connection::open(&format!("127.0.0.1:{}", self.port))
            .await
            .expect("the router")
    }

    async fn server(&self, index: usize) -> Connection {
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

fn memcached(port: u16) -> Process {
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

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a port")
        .port()
}

/// Replaces the configuration as one step, as a ConfigMap's volume does.
fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("new"), text).expect("writing");
    std::fs::rename(folder.join("new"), folder.join("mcrouter.json")).expect("renaming");
}

fn failover(addresses: &[String]) -> serde_json::Value {
    json!({
        "pools": {"a": {"servers": [addresses[0]]}, "b": {"servers": [addresses[1]]}},
        "route": {"type": "OperationSelectorRoute",
            "default_policy": {"type": "FailoverRoute", "children": ["PoolRoute|a", "PoolRoute|b"]},
            "operation_policies": {"set": {"type": "AllInitialRoute", "children": ["PoolRoute|a", "PoolRoute|b"]}}},
    })
}

#[tokio::test]
async fn a_set_reaches_both_pools_and_a_read_fails_over_and_back() {
    let mut bed = Bed::start("failover", 2, failover).await;
    let mut client = bed.connect().await;
    assert_eq!(client.set("k", "v").await.unwrap(), "STORED");
    eventually("the second pool has it", || async {
        ensure!(bed.server(1).await.get("k").await? == Some("v".to_owned()));
        anyhow::Ok(())
    })
    .await;

    bed.servers[0].1 = None;
    eventually("reads fail over", || async {
        ensure!(bed.connect().await.get("k").await? == Some("v".to_owned()));
        anyhow::Ok(())
    })
    .await;
    let set = bed.connect().await.set("k", "w").await.unwrap();
    assert!(set.starts_with("SERVER_ERROR"), "{set}");

    bed.servers[0].1 = Some(memcached(bed.servers[0].0));
    eventually("a probe finds the first pool again", || async {
        ensure!(bed.connect().await.set("k", "x").await? == "STORED");
        anyhow::Ok(())
    })
    .await;
}

#[tokio::test]
async fn says_which_configuration_it_runs_and_keeps_it_when_a_new_one_is_invalid() {
    let bed = Bed::start("reload", 2, failover).await;
    let digest = |text: &str| {
        Md5::digest(text)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let ask = || async {
        bed.connect()
            .await
            .get("__mcrouter__.config_md5_digest")
            .await
    };
    let first = failover(&bed.addresses()).to_string();
    assert_eq!(ask().await.unwrap(), Some(digest(&first)));

    let second = json!({"pools": {"b": {"servers": [bed.addresses()[1]]}}, "route": "PoolRoute|b"})
        .to_string();
    write(&bed.folder, &second);
    eventually("the new configuration runs", || async {
        ensure!(ask().await? == Some(digest(&second)));
        anyhow::Ok(())
    })
    .await;
    assert_eq!(
        bed.connect().await.set("only-b", "v").await.unwrap(),
        "STORED"
    );
    assert_eq!(bed.server(0).await.get("only-b").await.unwrap(), None);

    write(&bed.folder, "{\"route\": \"PoolRoute|nowhere\"}");
    eventually("the failure is counted", || async {
        let mut client = bed.connect().await;
        let mut line = client.line("stats").await?;
        while !line.starts_with("STAT config_failures") && line != "END" {
            line = client.read_line().await?;
        }
        ensure!(line.ends_with(" 1"), "{line}");
        anyhow::Ok(())
    })
    .await;
    assert_eq!(ask().await.unwrap(), Some(digest(&second)));
}

#[tokio::test]
async fn what_mcrouter_does_not_speak_is_malformed_and_closes_the_connection() {
    let bed = Bed::start("malformed", 2, failover).await;
    for line in ["mg k v", "GET k", "gibberish"] {
        let mut client = bed.connect().await;
        assert_eq!(
            client.line(line).await.unwrap(),
            "CLIENT_ERROR malformed request"
        );
        assert!(
            client.read_line().await.is_err(),
            "{line} did not close the connection"
        );
    }
}
