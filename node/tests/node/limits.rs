//! What happens when there is too much of something.

use std::thread;
use std::time::Duration;

use crate::harness::{Node, wait_until};

#[test]
fn one_connection_too_many_is_told_so_and_closed() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-c", "3"]);
    let mut clients: Vec<_> = (0..3).map(|_| node.connect()).collect();
    for client in &mut clients {
        assert!(client.ask("version").starts_with("VERSION"));
    }
    let mut refused = node.connect();
    assert_eq!(refused.line(), "ERROR Too many open connections");
    assert_eq!(refused.rest(), b"");
    assert_eq!(clients[0].stat("rejected_connections"), "1");
    assert_eq!(clients[0].stat("curr_connections"), "3");
    // Its place can be taken when somebody leaves.
    clients.pop();
    wait_until("a place is free", || {
        clients[0].stat("curr_connections") == "2"
    });
    assert!(node.connect().ask("version").starts_with("VERSION"));
}

#[test]
fn a_client_that_does_not_read_is_not_served_further_and_costs_no_memory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut other = node.connect();
    assert_eq!(other.set("big", &"x".repeat(1_000_000)), "STORED");
    assert!(other.get("big").is_some());
    let before = node.own_memory();
    // In one line and in many: a gigabyte of answers.
    let mut slow = node.connect();
    slow.send(format!("get{}\r\n", " big".repeat(500)).as_bytes());
    let mut slower = node.connect();
    slower.send("get big\r\n".repeat(500).as_bytes());
    for _ in 0..50 {
        assert!(other.get("big").is_some(), "others are served meanwhile");
    }
    let grown = node.own_memory().saturating_sub(before);
    assert!(grown < 32 << 20, "{} MiB for two slow readers", grown >> 20);
    // And whoever reads after all gets everything.
    let mut hits = 0;
    while slow.line() != "END" {
        hits += 1;
    }
    assert_eq!(hits, 2 * 500, "a line for the key and one for the data");
}

#[test]
fn a_refused_value_is_not_kept_in_memory_while_it_passes() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    assert_eq!(client.set("warm", "up"), "STORED");
    let before = node.own_memory();
    let chunk = vec![b'x'; 1 << 20];
    client.send(format!("set big 0 0 {}\r\n", 100 << 20).as_bytes());
    for _ in 0..100 {
        client.send(&chunk);
    }
    client.send(b"\r\n");
    assert_eq!(client.line(), "SERVER_ERROR object too large for cache");
    assert!(client.ask("version").starts_with("VERSION"));
    let grown = node.own_memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{} MiB for a refused value", grown >> 20);
}

#[test]
fn announcing_large_values_costs_nothing_until_they_come() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-I", "16m"]);
    let mut clients: Vec<_> = (0..200).map(|_| node.connect()).collect();
    for client in &mut clients {
        // Every thread takes its first memory in huge pages: what is announced is what comes after.
        assert!(client.ask("version").starts_with("VERSION"));
    }
    let before = node.own_memory();
    for client in &mut clients {
        client.send(format!("set big 0 0 {}\r\nbegin", 15 << 20).as_bytes());
    }
    assert!(node.connect().ask("version").starts_with("VERSION"));
    thread::sleep(Duration::from_millis(100));
    let grown = node.own_memory().saturating_sub(before);
    assert!(
        grown < 200 * (64 << 10),
        "{} MiB for 200 announcements",
        grown >> 20
    );
}

#[test]
fn a_large_value_that_stops_in_the_middle_ends_with_the_idle_timeout_like_a_small_one() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-o", "idle_timeout=1"]);
    let mut client = node.connect();
    client.send(b"set large 0 0 900000\r\n");
    client.send(&[b'x'; 300_000]);
    assert_eq!(client.rest(), b"");
}

/// Both need more than half of the memory for large values that are on their way.
#[test]
fn who_writes_a_large_value_and_reads_it_at_once_does_not_wait_for_itself() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-m", "64", "-I", "7m"]);
    let mut client = node.connect();
    let value = "x".repeat(6 << 20);
    let set = format!("set large 0 0 {}\r\n{value}\r\n", value.len());
    client.send(format!("{set}get large\r\n").as_bytes());
    assert_eq!(client.line(), "STORED");
    assert_eq!(client.line(), format!("VALUE large 0 {}", value.len()));
    assert_eq!(client.line(), value);
}

#[test]
fn a_get_line_without_an_end_is_cut_off() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    client.send(b"get ");
    let keys = b"key ".repeat(1 << 16);
    // The node closes somewhere after a mebibyte, so that sending fails at last.
    let sent = (0..1000)
        .take_while(|_| client.try_send(&keys).is_ok())
        .count();
    assert!((4..1000).contains(&sent), "{sent} times 256 KiB");
    assert!(node.connect().ask("version").starts_with("VERSION"));
}

#[test]
fn a_low_limit_on_open_files_lowers_the_connection_limit_instead_of_leaving_clients_waiting() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = env!("CARGO_BIN_EXE_petracache");
    let db_path = dir.path().to_str().expect("text");
    let start = format!(
        "ulimit -n 1500 && exec {program} -p -1 -m 64 --metrics-enabled false --db-path {db_path}"
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &start]);
    let node = Node::spawn(&mut shell);
    let limit: u64 = node
        .connect()
        .stat("max_connections")
        .parse()
        .expect("a number");
    assert!((1..500).contains(&limit), "{limit}");
    assert!(node.log().contains("ulimit -n"), "{}", node.log());
}

#[test]
fn items_lie_in_huge_pages_where_the_kernel_has_them() {
    let huge_pages = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if huge_pages.is_ok_and(|enabled| enabled.contains("[never]")) {
        println!("not tested: this kernel is told to use no huge pages");
        return;
    }
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-m", "256"]);
    let mut client = node.connect();
    let value = "x".repeat(100_000);
    for number in 0..640 {
        assert_eq!(client.set(&format!("key:{number}"), &value), "STORED");
    }
    let (huge, all) = (node.huge_pages(), node.own_memory());
    assert!(huge > all / 2, "{} of {} MiB", huge >> 20, all >> 20);
}
