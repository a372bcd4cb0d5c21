//! A node is told its place in the pool, and serves nothing any more that another node owns.

use std::thread;
use std::time::Duration;

use petra_routing::ch3::ch3;

use crate::client::{Client, http, http_get};
use crate::harness::{Node, wait_until};

const KEYS: usize = 100;

fn key(number: usize) -> String {
    format!("key-{number}")
}

fn owner(number: usize, size: usize) -> usize {
    ch3(key(number).as_bytes(), size)
}

fn write(client: &mut Client, value: &str) {
    for number in 0..KEYS {
        assert_eq!(client.set(&key(number), value), "STORED");
    }
}

/// The keys that are there.
fn present(client: &mut Client) -> Vec<usize> {
    let has = |number: &usize| client.get(&key(*number)).is_some();
    (0..KEYS).filter(has).collect()
}

fn owned(index: usize, size: usize) -> Vec<usize> {
    (0..KEYS)
        .filter(|number| owner(*number, size) == index)
        .collect()
}

fn tell(node: &Node, place: &str) {
    assert_eq!(http(node.admin, "PUT", "/place", place).0, 204, "{place}");
}

#[test]
fn what_another_node_owns_is_gone_at_once_and_what_is_written_later_stays() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_eq!(http_get(node.admin, "/place").0, 404);
    write(&mut client, "old");
    tell(&node, r#"{"index":1,"size":3}"#);
    assert_eq!(present(&mut client), owned(1, 3));
    let (status, place) = http_get(node.admin, "/place");
    assert_eq!(
        (status, place.as_str()),
        (200, r#"{"index":1,"size":3,"hash":"Ch3"}"#)
    );

    // It stands in for others, and being told the same again changes nothing.
    write(&mut client, "new");
    tell(&node, r#"{"index":1,"size":3}"#);
    assert_eq!(present(&mut client).len(), KEYS);
    // The same place at another time is news.
    tell(&node, r#"{"index":1,"size":3,"epoch":7}"#);
    assert_eq!(present(&mut client), owned(1, 3));
    wait_until("memory is swept", || {
        node.log().matches("memory is rid").count() == 2
    });
    assert_eq!(present(&mut client), owned(1, 3));

    tell(&node, r#"{"index":3,"size":3}"#);
    assert_eq!(present(&mut client), [0_usize; 0]);
    for wrong in ["", "{}", r#"{"index":1,"size":3,"hash":"Rendezvous"}"#] {
        assert_eq!(http(node.admin, "PUT", "/place", wrong).0, 400, "{wrong}");
    }
}

#[test]
fn a_purge_that_was_answered_survives_a_kill_in_every_mode_and_so_does_the_one_before_it() {
    for mode in ["none", "interval", "always", "fsync"] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let flags = ["--durability", mode, "--flush-interval", "10ms"];
        let start = || Node::start(dir.path(), &flags);
        // On the disk, so that only the purges can take it away.
        let node = start();
        write(&mut node.connect(), "old");
        node.stop();
        let node = start();
        tell(&node, r#"{"index":1,"size":4}"#);
        tell(&node, r#"{"index":1,"size":3}"#);
        node.kill();

        let node = start();
        let mut client = node.connect();
        let both: Vec<_> = (0..KEYS)
            .filter(|number| owner(*number, 3) == 1 && owner(*number, 4) == 1)
            .collect();
        assert_eq!(present(&mut client), both, "mode {mode}");
        assert_eq!(
            http_get(node.admin, "/place").1,
            r#"{"index":1,"size":3,"hash":"Ch3"}"#,
            "mode {mode}"
        );
        // It owns more now, and has nothing old for that.
        tell(&node, r#"{"index":1,"size":2}"#);
        assert_eq!(present(&mut client), both, "mode {mode}");
        write(&mut client, "new");
        assert_eq!(present(&mut client).len(), KEYS);
    }
}

/// Items that are read from the disk, that are being written to it, and that are in memory, all at once.
#[test]
fn clients_that_read_and_write_while_the_place_changes_never_see_an_old_value_afterwards() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let flags = ["--flush-interval", "10ms", "--tier-size", "1m"];
    let mut node = Node::start(dir.path(), &flags);
    for round in 0..5 {
        let old = format!("{}{round}", "x".repeat(20_000));
        write(&mut node.connect(), &old);
        if round % 2 == 1 {
            node.stop();
            node = Node::start(dir.path(), &flags);
        }
        let (index, size) = (round % 3, 3);
        thread::scope(|scope| {
            scope.spawn(|| present(&mut node.connect()));
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(2));
                tell(&node, &format!(r#"{{"index":{index},"size":{size}}}"#));
            });
        });
        let mut client = node.connect();
        for number in 0..KEYS {
            let value = client.get(&key(number));
            let own = owner(number, size) == index;
            assert_eq!(value.is_some(), own, "round {round}, {}", key(number));
        }
    }
}
