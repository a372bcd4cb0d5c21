//! How a node goes: unready first, busy then, closed at last.

use std::time::{Duration, Instant};

use crate::client::{Client, http_get};
use crate::harness::{Node, wait_until};

#[test]
fn a_node_that_stops_sends_routers_on_before_it_closes() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut node = Node::start(dir.path(), &["--drain", "1s"]);
    let mut client = node.connect();
    assert_eq!(client.set("key", "data"), "STORED");
    assert_eq!(http_get(node.admin, "/ready"), (200, "ready\n".to_owned()));
    let asked = Instant::now();
    node.signal("TERM");
    wait_until("the node is unready", || {
        http_get(node.admin, "/ready").0 == 503
    });
    // Alive all the same: nothing must restart it now.
    assert_eq!(http_get(node.admin, "/health").0, 200);
    for command in [
        "get key",
        "gat 0 key",
        "set key 0 0 1\r\nx",
        "delete key",
        "touch key 0",
    ] {
        assert_eq!(client.ask(command), "SERVER_ERROR 307 busy", "{command}");
    }
    assert!(client.ask("version").starts_with("VERSION "));
    // Who connects now is told the same instead of being refused.
    assert_eq!(node.connect().ask("get key"), "SERVER_ERROR 307 busy");
    assert_eq!(client.rest(), b"");
    assert!(node.wait().success());
    assert!(
        asked.elapsed() >= Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
    assert!(Client::try_connect(node.addr).is_err());
    let node = Node::start(dir.path(), &[]);
    assert_eq!(node.connect().get("key").as_deref(), Some("data"));
}

#[test]
fn a_node_without_clients_stops_at_once() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut node = Node::start(dir.path(), &["--drain", "60s"]);
    let asked = Instant::now();
    node.signal("INT");
    assert!(node.wait().success());
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn a_second_signal_does_not_wait() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut node = Node::start(dir.path(), &["--drain", "60s"]);
    let mut client = node.connect();
    assert_eq!(client.set("key", "data"), "STORED");
    let asked = Instant::now();
    node.signal("TERM");
    wait_until("the first signal has arrived", || {
        node.log().contains("draining")
    });
    node.signal("TERM");
    assert_eq!(node.wait().code(), Some(1));
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn a_client_that_reads_nothing_does_not_keep_the_node_from_stopping() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut node = Node::start(dir.path(), &["--drain", "100ms"]);
    let mut client = node.connect();
    assert_eq!(client.set("big", &"x".repeat(1_000_000)), "STORED");
    for _ in 0..50 {
        client.send(b"get big\r\n");
    }
    let asked = Instant::now();
    node.signal("TERM");
    assert!(node.wait().success());
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
}
