//! What is still there after the node has stopped and started again.

use std::fs;
use std::net::Shutdown;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::client::{Client, http_get};
use crate::harness::Node;

#[test]
fn a_restart_keeps_values_flags_versions_and_times_to_live() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_eq!(
        client.ask("set forever 18446744073709551615 0 3\r\nabc"),
        "STORED"
    );
    assert_eq!(client.ask("set soon 0 3 1\r\nx"), "STORED");
    assert_eq!(client.ask("set later 7 1000 1\r\ny"), "STORED");
    assert_eq!(client.ask("set deleted 0 0 1\r\nz"), "STORED");
    assert_eq!(client.ask("delete deleted"), "DELETED");
    let cas = client.cas("forever");
    node.stop();

    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_eq!(client.cas("forever"), cas);
    assert_eq!(
        client.ask("get forever"),
        "VALUE forever 18446744073709551615 3"
    );
    assert_eq!(
        (client.line(), client.line()),
        ("abc".to_owned(), "END".to_owned())
    );
    assert_eq!(client.get("later").as_deref(), Some("y"));
    assert_eq!(client.get("deleted"), None);
    // An old version is recognized, and a new one is later than all old ones.
    assert_eq!(
        client.ask(&format!("cas forever 0 0 1 {cas}\r\nn")),
        "STORED"
    );
    assert!(client.cas("forever") > cas);
    crate::harness::wait_until(
        "the short time to live has passed, across the restart",
        || client.get("soon").is_none(),
    );
    node.stop();
}

#[test]
fn a_restart_keeps_who_is_to_replace_what_is_stale() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_eq!(client.ask("ms AGE= 1 b\r\nx"), "HD");
    assert_eq!(client.ask("ms c3RhbGU= 1 b\r\nx"), "HD");
    assert_eq!(client.ask("md stale I"), "HD");
    assert_eq!(client.ask("mg taken N1000"), "HD W");
    node.stop();

    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_eq!(client.ask("mg AGE= b k"), "HD kAGE= b");
    assert_eq!(client.ask("mg taken"), "HD Z");
    assert_eq!(client.ask("mg stale k"), "HD kc3RhbGU= b X W");
    node.stop();

    let node = Node::start(dir.path(), &[]);
    assert_eq!(node.connect().ask("mg stale k"), "HD kc3RhbGU= b Z X");
}

#[test]
fn who_asks_and_then_says_no_more_is_still_answered_from_the_disk() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    for key in ["a", "b", "c"] {
        assert_eq!(node.connect().set(key, "data"), "STORED");
    }
    node.stop();
    let node = Node::start(dir.path(), &[]);
    // Nothing more, half a command, and a line that is no memcached client's.
    for (key, rest) in [("a", ""), ("b", "get"), ("c", "GET / HTTP/1.1\r\n")] {
        let mut client = node.connect();
        client.send(format!("get {key}\r\n{rest}").as_bytes());
        client
            .stream()
            .shutdown(Shutdown::Write)
            .expect("shut down");
        let answer = format!("VALUE {key} 0 4\r\ndata\r\nEND\r\n");
        assert_eq!(client.rest(), answer.as_bytes());
    }
}

#[test]
fn sigterm_while_writing_loses_nothing_that_was_acknowledged() {
    for durability in ["none", "interval"] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut node = Node::start(
            dir.path(),
            &["--durability", durability, "--drain", "100ms"],
        );
        let acknowledged = thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let client = node.connect();
                    scope.spawn(move || write_until_refused(writer, client))
                })
                .collect();
            thread::sleep(Duration::from_millis(300));
            node.signal("TERM");
            writers
                .into_iter()
                .map(|writer| writer.join().expect("a count"))
                .collect::<Vec<_>>()
        });
        assert!(node.wait().success());
        assert!(
            acknowledged.iter().all(|count| *count > 100),
            "{acknowledged:?}"
        );
        let node = Node::start(dir.path(), &[]);
        let mut client = node.connect();
        for (writer, count) in acknowledged.iter().enumerate() {
            for number in 0..*count {
                let value = client.get(&format!("{writer}-{number}"));
                assert_eq!(
                    value,
                    Some(number.to_string()),
                    "{durability}: {writer}-{number}"
                );
            }
        }
    }
}

/// How many writes were acknowledged before the node refused one.
fn write_until_refused(writer: usize, mut client: Client) -> usize {
    let mut count = 0;
    loop {
        let data = count.to_string();
        let set = format!("set {writer}-{count} 0 0 {}\r\n{data}\r\n", data.len());
        if client.try_send(set.as_bytes()).is_err() {
            return count;
        }
        match client.try_line() {
            Ok(line) if line == b"STORED\r\n" => count += 1,
            _ => return count,
        }
    }
}

#[test]
fn a_database_that_does_not_open_is_set_aside_and_the_node_starts_empty_and_says_so() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    assert_eq!(node.connect().set("key", "data"), "STORED");
    node.stop();
    let database = dir.path().join("items");
    let manifest = files(&database)
        .into_iter()
        .find(|name| name.starts_with("MANIFEST"));
    fs::write(database.join(manifest.expect("a manifest")), b"garbage").expect("written");

    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_eq!(client.get("key"), None);
    assert_eq!(client.set("key", "new"), "STORED");
    assert!(node.log().contains("DOES NOT OPEN"), "{}", node.log());
    let (_, metrics) = http_get(node.admin, "/metrics");
    assert!(
        metrics.contains("petracache_database_set_aside 1\n"),
        "{metrics}"
    );
    let aside = files(dir.path())
        .into_iter()
        .find(|name| name.starts_with("set-aside-"));
    let kept = files(&dir.path().join(aside.expect("the database is kept")));
    assert!(
        kept.iter()
            .any(|name| name.ends_with(".sst") || name.ends_with(".log")),
        "{kept:?}"
    );
    node.stop();

    let node = Node::start(dir.path(), &[]);
    assert_eq!(node.connect().get("key").as_deref(), Some("new"));
    assert!(!node.log().contains("DOES NOT OPEN"));
}

#[test]
fn a_missing_table_file_sets_the_database_aside() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    assert_eq!(node.connect().set("key", "data"), "STORED");
    node.stop();
    let database = dir.path().join("items");
    let table = files(&database)
        .into_iter()
        .find(|name| name.ends_with(".sst"));
    fs::remove_file(database.join(table.expect("a table file"))).expect("removed");
    let node = Node::start(dir.path(), &[]);
    assert_eq!(node.connect().get("key"), None);
    assert!(node.log().contains("DOES NOT OPEN"), "{}", node.log());
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_and_not_an_empty_cache() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("file");
    fs::write(&file, b"").expect("written");
    let output = Node::command(&file, &[]).output().expect("runs");
    assert!(!output.status.success());
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        log.contains("cannot create") && log.contains("file"),
        "{log}"
    );
}

#[test]
fn a_second_process_on_the_same_directory_is_refused_and_the_first_is_not_disturbed() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_eq!(client.set("key", "data"), "STORED");
    let output = Node::command(dir.path(), &[]).output().expect("runs");
    assert!(!output.status.success());
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("another process is running on"), "{log}");
    assert_eq!(client.get("key").as_deref(), Some("data"));
    assert!(
        !files(dir.path())
            .iter()
            .any(|name| name.starts_with("set-aside"))
    );
}

fn files(dir: &Path) -> Vec<String> {
    fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}
