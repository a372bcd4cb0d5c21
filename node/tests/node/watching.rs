//! Seeing what is there and what others do: `lru_crawler metadump`, `mgdump`, `watch`.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::client::Client;
use crate::harness::{Memcached, Node, wait_until};

fn dump(client: &mut Client, command: &str, end: &str) -> Vec<String> {
    client.send(format!("{command}\r\n").as_bytes());
    let mut lines = Vec::new();
    loop {
        let line = client.line().trim_end().to_owned();
        if line == end {
            return lines;
        }
        lines.push(line);
    }
}

/// The line without what differs from one run to the next.
fn comparable(line: &str) -> String {
    let stable = line
        .split(' ')
        .filter(|word| !word.starts_with("la=") && !word.starts_with("cas="));
    stable.collect::<Vec<_>>().join(" ")
}

#[test]
fn metadump_says_what_memcached_says() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (node, memcached) = (Node::start(dir.path(), &[]), Memcached::start());
    let [ours, theirs] = [node.addr, memcached.addr].map(|addr| {
        let mut client = Client::connect(addr);
        assert_eq!(client.set("plain", "data"), "STORED");
        assert_eq!(client.set("read", "x"), "STORED");
        assert_eq!(client.set("gone", "x"), "STORED");
        assert_eq!(client.ask("set odd/%~ 7 2000000000 0\r\n"), "STORED");
        assert!(client.get("read").is_some());
        assert_eq!(client.ask("delete gone"), "DELETED");
        let lines = dump(&mut client, "lru_crawler metadump all", "END");
        assert!(dump(&mut client, "lru_crawler metadump 2", "END").is_empty());
        assert_eq!(
            client.ask("lru_crawler metadump 64"),
            "BADCLASS invalid class id"
        );
        assert_eq!(
            client.ask("lru_crawler metadump bogus"),
            "BADCLASS invalid class id"
        );
        assert_eq!(client.ask("lru_crawler tocrawl 5"), "OK");
        assert_eq!(
            client.ask("lru_crawler sleep 1000001"),
            "CLIENT_ERROR sleep must be one second or less"
        );
        assert_eq!(client.ask("lru_crawler bogus"), "ERROR");
        assert_eq!(client.ask("watch bogus"), "ERROR");
        lines
            .iter()
            .map(|line| comparable(line))
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 3);
}

#[test]
fn every_key_is_listed_once_also_those_that_are_only_on_the_disk() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["--tier-size", "1m"]);
    let mut client = node.connect();
    let data = "x".repeat(2000);
    for number in 0..3000 {
        assert_eq!(client.set(&format!("key{number}"), &data), "STORED");
    }
    let keys = dump(&mut client, "lru_crawler mgdump all", "EN");
    let expected: BTreeSet<_> = (0..3000).map(|number| format!("mg key{number}")).collect();
    assert_eq!(
        (keys.len(), keys.into_iter().collect::<BTreeSet<_>>()),
        (3000, expected)
    );
    assert_eq!(client.ask("flush_all"), "OK");
    assert!(dump(&mut client, "lru_crawler metadump hash", "END").is_empty());
}

#[test]
fn a_dump_that_nobody_reads_costs_little_and_stops_nobody() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    let commands: String = (0..200_000)
        .map(|n| format!("set {:0>200}{n} 0 0 1 noreply\r\nx\r\n", ""))
        .collect();
    client.send(commands.as_bytes());
    assert!(client.ask("version").starts_with("VERSION"));
    let before = node.own_memory();
    let mut slow = node.connect();
    slow.send(b"lru_crawler metadump all\r\n");
    assert!(slow.line().starts_with("key="));
    for _ in 0..20 {
        assert_eq!(client.set("key", "data"), "STORED");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(
        client.ask("lru_crawler metadump all"),
        "BUSY currently processing crawler request"
    );
    let grown = node.own_memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{} MiB", grown >> 20);
    drop(slow);
    wait_until("the next dump may begin", || {
        client.send(b"lru_crawler metadump 2\r\n");
        client.line() == "END"
    });
}

#[test]
fn watchers_see_what_others_do() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut watcher = node.connect();
    assert_eq!(watcher.ask("watch fetchers mutations connevents"), "OK");
    let mut client = node.connect();
    assert_eq!(client.ask("set key 0 50 4\r\ndata"), "STORED");
    assert!(client.get("key").is_some());
    assert!(client.get("mis/sing").is_none());
    let port = client.stream().local_addr().expect("an address").port();
    drop(client);
    let lines: Vec<_> = (0..6)
        .map(|_| watcher.line().trim_end().to_owned())
        .collect();
    let fd = lines[0]
        .rsplit("cfd=")
        .next()
        .expect("a descriptor")
        .to_owned();
    let expected = [
        format!("type=conn_new rip=127.0.0.1 rport={port} transport=tcp cfd={fd}"),
        format!("type=item_get key=key status=not_found clsid=0 cfd={fd} size=0"),
        format!("type=item_store key=key status=stored cmd=set ttl=50 clsid=1 cfd={fd} size=4"),
        format!("type=item_get key=key status=found clsid=1 cfd={fd} size=4"),
        format!("type=item_get key=mis%2Fsing status=not_found clsid=0 cfd={fd} size=0"),
        format!("type=conn_close rip=127.0.0.1 rport={port} transport=tcp reason=normal cfd={fd}"),
    ];
    for (line, expected) in lines.iter().zip(&expected) {
        let (head, event) = line.split_once(" type=").expect("an event");
        assert_eq!(format!("type={event}"), *expected);
        assert!(head.starts_with("ts=") && head.contains(" gid="), "{line}");
    }
    // Watching ends with the connection.
    let mut other = node.connect();
    assert_eq!(other.stat("log_watchers"), "1");
    drop(watcher);
    wait_until("nobody watches", || other.stat("log_watchers") == "0");
}

#[test]
fn a_watcher_that_does_not_read_loses_lines_and_holds_nobody_up() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-o", "watcher_logbuf_size=16"]);
    let mut watcher = node.connect();
    assert_eq!(watcher.ask("watch fetchers"), "OK");
    let mut client = node.connect();
    let gets = format!("get{}\r\n", " key".repeat(1000));
    wait_until("lines have been lost", || {
        assert_eq!(client.ask(gets.trim_end()), "END");
        client.stat("log_watcher_skipped") != "0"
    });
    // It is told with the first line that finds room again, behind all those that found it before.
    let told = (0..1_000_000).any(|number| {
        // As many new ones as are read, so that there is always one to read.
        if number % 5 == 0 {
            assert_eq!(client.ask("get key key key key key"), "END");
        }
        watcher.line().starts_with("skipped=")
    });
    assert!(told);
}
