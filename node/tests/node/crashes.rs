//! What each durability mode keeps when the process is killed.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::harness::Node;

/// Writes numbered keys for `time`, and says when each was acknowledged.
fn write_for(client: &mut Client, time: Duration) -> Vec<Instant> {
    let start = Instant::now();
    let mut acknowledged = Vec::new();
    while start.elapsed() < time {
        assert_eq!(
            client.set(&format!("key-{}", acknowledged.len()), "data"),
            "STORED"
        );
        acknowledged.push(Instant::now());
    }
    acknowledged
}

/// The numbered keys that are missing.
fn missing(dir: &Path, count: usize) -> Vec<usize> {
    let node = Node::start(dir, &[]);
    let mut client = node.connect();
    (0..count)
        .filter(|number| client.get(&format!("key-{number}")).is_none())
        .collect()
}

#[test]
fn a_killed_process_loses_nothing_acknowledged_in_modes_always_and_fsync() {
    for mode in ["always", "fsync"] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let node = Node::start(dir.path(), &["--durability", mode]);
        let acknowledged = write_for(&mut node.connect(), Duration::from_millis(500));
        node.kill();
        assert_eq!(
            missing(dir.path(), acknowledged.len()),
            [0_usize; 0],
            "mode {mode}"
        );
    }
}

#[test]
fn every_kind_of_change_survives_a_kill_in_mode_always() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["--durability", "always"]);
    let mut client = node.connect();
    for key in ["counter", "deleted", "touched", "flags"] {
        assert_eq!(client.set(key, "1"), "STORED");
    }
    assert_eq!(client.ask("incr counter 41"), "42");
    assert_eq!(client.ask("append counter 0 0 1\r\n0"), "STORED");
    assert_eq!(client.ask("delete deleted"), "DELETED");
    assert_eq!(client.ask("touch touched -1"), "TOUCHED");
    // Answered in one batch, which is committed as one.
    client.send(b"set a 0 0 1\r\n1\r\nset b 0 0 1 noreply\r\n2\r\nget a\r\n");
    assert_eq!([client.line(), client.line()], ["STORED", "VALUE a 0 1"]);
    node.kill();
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_eq!(client.get("counter").as_deref(), Some("420"));
    assert_eq!(client.get("deleted"), None);
    assert_eq!(client.get("touched"), None);
    assert_eq!(client.get("a").as_deref(), Some("1"));
    assert_eq!(client.get("b").as_deref(), Some("2"));
}

#[test]
fn a_killed_process_loses_at_most_the_interval_in_mode_interval() {
    let interval = Duration::from_millis(200);
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(
        dir.path(),
        &["--durability", "interval", "--flush-interval", "200ms"],
    );
    let acknowledged = write_for(&mut node.connect(), Duration::from_millis(900));
    let killed = Instant::now();
    node.kill();
    let missing = missing(dir.path(), acknowledged.len());
    for number in &missing {
        let age = killed - acknowledged[*number];
        assert!(age <= interval, "key-{number} was {age:?} old and is lost");
    }
}

/// Shows that the tests above would notice a log that is not flushed.
#[test]
fn what_is_younger_than_the_interval_is_only_in_memory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(
        dir.path(),
        &["--durability", "interval", "--flush-interval", "1h"],
    );
    let acknowledged = write_for(&mut node.connect(), Duration::from_millis(100));
    node.kill();
    assert_eq!(
        missing(dir.path(), acknowledged.len()).len(),
        acknowledged.len()
    );
}

#[test]
fn mode_none_keeps_everything_at_a_stop_and_what_became_a_file_at_a_kill() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["--durability", "none"]);
    assert_eq!(node.connect().set("stopped", "1"), "STORED");
    node.stop();
    let node = Node::start(dir.path(), &["--durability", "none"]);
    let mut client = node.connect();
    assert_eq!(client.get("stopped").as_deref(), Some("1"));
    assert_eq!(client.set("killed", "1"), "STORED");
    node.kill();
    let node = Node::start(dir.path(), &["--durability", "none"]);
    let mut client = node.connect();
    assert_eq!(client.get("stopped").as_deref(), Some("1"));
    assert_eq!(client.get("killed"), None);
}

#[test]
fn versions_and_flushes_survive_a_kill_in_every_mode() {
    for mode in ["none", "interval", "always", "fsync"] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let flags = ["--durability", mode, "--flush-interval", "10ms"];
        let node = Node::start(dir.path(), &flags);
        let mut client = node.connect();
        assert_eq!(client.set("flushed", "1"), "STORED");
        let cas = client.cas("flushed");
        // In mode interval it is on the disk by then, so that only the flush can take it away.
        thread::sleep(Duration::from_millis(100));
        assert_eq!(client.ask("flush_all"), "OK");
        node.kill();
        let node = Node::start(dir.path(), &flags);
        let mut client = node.connect();
        assert_eq!(client.get("flushed"), None, "mode {mode}");
        assert_eq!(client.set("new", "1"), "STORED");
        assert!(client.cas("new") > cas, "mode {mode}");
    }
}
