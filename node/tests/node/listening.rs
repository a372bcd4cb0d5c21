//! Where clients are served, and how long.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::harness::{Node, PATIENCE, free_addr, wait_until};

fn ask_unix(path: &Path, line: &str) -> String {
    let stream = UnixStream::connect(path).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    (&stream)
        .write_all(format!("{line}\r\n").as_bytes())
        .expect("sent");
    let mut answer = String::new();
    BufReader::new(&stream)
        .read_line(&mut answer)
        .expect("a line");
    answer
}

#[test]
fn a_unix_socket_is_served_instead_of_the_network() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("socket");
    let flags = ["-s", path.to_str().expect("text"), "-a", "750"];
    let db_path = dir.path().join("db");
    let node = Node::start(&db_path, &flags);
    assert!(ask_unix(&path, "version").starts_with("VERSION"));
    let mode = fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    // A second one does not take it away.
    let second = Node::command(&dir.path().join("other"), &flags)
        .output()
        .expect("runs");
    assert!(!second.status.success());
    assert!(ask_unix(&path, "version").starts_with("VERSION"));
    // What a killed one leaves behind is in nobody's way.
    node.kill();
    assert!(path.exists());
    let node = Node::start(&db_path, &flags);
    assert!(ask_unix(&path, "version").starts_with("VERSION"));
    node.stop();
    assert!(!path.exists());
}

#[test]
fn several_addresses_are_served_and_ipv6_is_one_of_them() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (first, second) = (free_addr(), free_addr());
    let mut places = format!("localhost:{},127.0.0.1:{}", first.port(), second.port());
    let ipv6 = TcpListener::bind("[::1]:0").and_then(|listener| listener.local_addr());
    if let Ok(addr) = ipv6 {
        places += &format!(",{addr}");
    }
    let node = Node::start(dir.path(), &["-l", &places]);
    for addr in [Some(first), Some(second), ipv6.ok()].into_iter().flatten() {
        assert!(
            Client::connect(addr).ask("version").starts_with("VERSION"),
            "{addr}"
        );
    }
    assert!(node.log().contains(&second.to_string()), "{}", node.log());
}

#[test]
fn a_silent_connection_is_closed_and_one_that_speaks_is_not() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-o", "idle_timeout=1"]);
    let (mut silent, mut speaking) = (node.connect(), node.connect());
    assert_eq!(speaking.stat("idle_kicks"), "0");
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2500) {
        assert!(speaking.ask("version").starts_with("VERSION"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(silent.rest(), b"");
    assert_eq!(speaking.stat("idle_kicks"), "1");
}

#[test]
fn without_fast_refusal_one_connection_too_many_waits_for_its_turn() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-c", "1", "-o", "no_maxconns_fast"]);
    let mut first = node.connect();
    assert!(first.ask("version").starts_with("VERSION"));
    let mut second = node.connect();
    second.send(b"version\r\n");
    let stream = second.stream();
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .expect("set");
    assert!(
        stream.try_clone().expect("cloned").read(&mut [0]).is_err(),
        "not answered yet"
    );
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    drop(first);
    assert!(second.line().starts_with("VERSION"));
}

#[test]
fn few_commands_in_a_row_let_others_have_their_turn() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-R", "1"]);
    let mut client = node.connect();
    client.send("set key 0 0 1\r\nx\r\n".repeat(6).as_bytes());
    for _ in 0..6 {
        assert_eq!(client.line(), "STORED");
    }
    let yields: u64 = client.stat("conn_yields").parse().expect("a number");
    assert!(yields >= 5, "{yields}");
}

#[test]
fn connections_are_listed_with_what_they_do() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut waiting = node.connect();
    waiting.send(b"set key 0 0 10\r\nhalf");
    let mut client = node.connect();
    let own = format!("tcp:{}", client.stream().local_addr().expect("an address"));
    let listening = format!("tcp:{}", node.addr);
    let mut lines = Vec::new();
    wait_until("the first half of a value has come", || {
        lines = stats_conns(&mut client);
        lines.iter().any(|line| line.ends_with(":state conn_nread"))
    });
    let fd_of = |end: &str| {
        let line = lines
            .iter()
            .find(|line| line.ends_with(end))
            .unwrap_or_else(|| panic!("no {end}: {lines:?}"));
        line.split([' ', ':'])
            .nth(1)
            .expect("a descriptor")
            .to_owned()
    };
    let fd = fd_of(&format!("addr {own}"));
    for expected in [
        "state conn_parse_cmd",
        &format!("listen_addr {listening}"),
        "secs_since_last_cmd 0",
    ] {
        let line = format!("STAT {fd}:{expected}");
        assert!(lines.contains(&line), "no {line}: {lines:?}");
    }
    let listener = fd_of(":state conn_listening");
    assert_eq!(lines[0], format!("STAT {listener}:addr {listening}"));
}

fn stats_conns(client: &mut Client) -> Vec<String> {
    client.send(b"stats conns\r\n");
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != "END") {
        lines.push(client.line());
    }
    lines
}
