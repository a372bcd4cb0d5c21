//! What mcrouter says to a node beyond what memcached understands.

use crate::client::Client;
use crate::harness::Node;

fn with_node(test: impl FnOnce(&Node)) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    test(&node);
    node.stop();
}

/// The token of a miss.
fn lease(client: &mut Client, key: &str) -> u64 {
    let miss = client.ask(&format!("lease-get {key}"));
    let rest = miss.strip_prefix(&format!("LVALUE {key} ")).expect(&miss);
    let token = rest.strip_suffix(" 0 0").expect(&miss);
    assert_eq!(client.line(), "");
    assert_eq!(client.line(), "END");
    token.parse().expect("a token")
}

fn lease_set(client: &mut Client, key: &str, token: u64, data: &str) -> String {
    client.ask(&format!(
        "lease-set {key} {token} 7 0 {}\r\n{data}",
        data.len()
    ))
}

#[test]
fn one_of_the_clients_that_miss_fills_the_cache() {
    with_node(|node| {
        let (mut first, mut second) = (node.connect(), node.connect());
        let token = lease(&mut first, "key");
        assert!(token > 1);
        assert_eq!(lease(&mut second, "key"), 1);
        assert_eq!(lease_set(&mut second, "key", 1, "bad"), "NOT_STORED");
        assert_eq!(lease_set(&mut first, "key", token, "good"), "STORED");
        assert_eq!(second.ask("lease-get key"), "VALUE key 7 4");
        assert_eq!(
            (second.line(), second.line()),
            ("good".into(), "END".into())
        );
        assert_eq!(lease_set(&mut first, "key", token, "again"), "NOT_STORED");
        assert_eq!(first.get("key").as_deref(), Some("good"));
    });
}

#[test]
fn what_is_done_under_a_key_ends_its_lease() {
    let changes = [
        ("delete key", "NOT_FOUND"),
        ("delete key 10", "NOT_FOUND"),
        ("md key", "NF"),
        ("set key 0 0 1\r\nx", "STORED"),
        ("add key 0 0 1\r\nx", "STORED"),
        ("ms a2V5 1 b\r\nx", "HD"),
        ("mg key N10", "HD W"),
        ("ma key N10", "HD"),
        ("flush_all", "OK"),
    ];
    with_node(|node| {
        let mut client = node.connect();
        for (change, answer) in changes {
            client.ask("delete key");
            let token = lease(&mut client, "key");
            assert_eq!(client.ask(change), answer);
            let refused = lease_set(&mut client, "key", token, "stale");
            assert_eq!(refused, "NOT_STORED", "{change}");
            assert_ne!(client.get("key").as_deref(), Some("stale"), "{change}");
        }
    });
}

#[test]
fn what_changes_nothing_ends_no_lease() {
    with_node(|node| {
        let mut client = node.connect();
        let token = lease(&mut client, "key");
        for (line, answer) in [
            ("get key", "END"),
            ("touch key 1", "NOT_FOUND"),
            ("incr key 1", "NOT_FOUND"),
            ("append key 0 0 1\r\nx", "NOT_STORED"),
            ("set other 0 0 1\r\nx", "STORED"),
        ] {
            assert_eq!(client.ask(line), answer);
        }
        assert_eq!(lease_set(&mut client, "key", token, "x"), "STORED");
    });
}

#[test]
fn a_restart_ends_all_leases() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let token = lease(&mut node.connect(), "key");
    node.stop();
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_ne!(lease(&mut client, "key"), token);
    assert_eq!(lease_set(&mut client, "key", token, "x"), "NOT_STORED");
}

#[test]
fn metaget_tells_the_expiry_and_does_not_read() {
    with_node(|node| {
        let mut client = node.connect();
        client.ask("set forever 0 0 1\r\nx");
        client.ask("set until 0 4000000000 1\r\nx");
        let known = |key, exptime: u32| {
            format!("META {key} age: unknown; exptime: {exptime}; from: unknown")
        };
        assert_eq!(client.ask("metaget forever"), known("forever", 0));
        assert_eq!(client.line(), "END");
        assert_eq!(client.ask("metaget missing"), "END");
        assert_eq!(client.ask("mg forever h"), "HD h0");
    });
}

#[test]
fn nothing_that_mcrouter_sends_is_an_error_without_words() {
    with_node(|node| {
        let mut client = node.connect();
        for (line, answer) in [
            ("set key 18446744073709551615 -1 1\r\nx", "STORED"),
            ("touch key 4294967295", "NOT_FOUND"),
            ("delete key -1", "NOT_FOUND"),
            ("flush_all 4294967295", "OK"),
            ("gat -1 key", "END"),
            ("lease-get {key}", "CLIENT_ERROR bad command line format"),
            ("metaget {key}", "CLIENT_ERROR bad command line format"),
            (
                "lease-set key x 0 0 0",
                "CLIENT_ERROR bad command line format",
            ),
            (
                "lease-set key 5 0 0 2000000\r\n{data}",
                "SERVER_ERROR object too large for cache",
            ),
            ("lease-set key 5 0 0 1\r\nxy", "CLIENT_ERROR bad data chunk"),
        ] {
            let line = line
                .replace("{key}", &"k".repeat(251))
                .replace("{data}", &"x".repeat(2_000_000));
            assert_eq!(client.ask(&line), answer, "{}", &line[..line.len().min(60)]);
        }
    });
}
