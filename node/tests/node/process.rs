//! The process that serves: its user, its place in the background, its number in a file.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Stdio;

use crate::client::Client;
use crate::harness::{Node, free_addr, wait_until};

/// A name that every system has.
const OTHER: &str = "nobody";

fn runs_as_root(dir: &Path) -> bool {
    fs::metadata(dir).expect("a directory").uid() == 0
}

fn uid_of(pid: &str) -> u32 {
    fs::metadata(format!("/proc/{pid}"))
        .expect("a process")
        .uid()
}

#[test]
fn a_node_started_as_root_becomes_the_user_it_is_told_and_the_database_is_that_users() {
    let dir = tempfile::tempdir().expect("temporary directory");
    if !runs_as_root(dir.path()) {
        let node = Node::start(dir.path(), &["-u", OTHER]);
        assert!(
            node.connect().ask("version").starts_with("VERSION"),
            "ignored, as by memcached"
        );
        return;
    }
    chown(dir.path(), Some(65534), Some(65534)).expect("changed");
    let db_path = dir.path().join("new");
    let node = Node::start(&db_path, &["-u", OTHER]);
    assert_eq!(node.connect().set("key", "data"), "STORED");
    let uid = uid_of(&node.id().to_string());
    assert_ne!(uid, 0);
    assert_eq!(fs::metadata(&db_path).expect("made").uid(), uid);
    let status = fs::read_to_string(format!("/proc/{}/status", node.id())).expect("status");
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    assert_eq!(
        groups.map(str::trim),
        Some(""),
        "none of root's groups is kept"
    );
    let unknown = Node::command(dir.path(), &["-u", "nobody-of-this-name"]).output();
    assert!(!unknown.expect("runs").status.success());
}

#[test]
fn a_node_in_the_background_serves_when_the_command_returns() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (addr, pid_file) = (free_addr(), dir.path().join("pid"));
    let flags = [
        "-d",
        "-P",
        pid_file.to_str().expect("text"),
        "-p",
        &addr.port().to_string(),
    ];
    let started = Node::command(&dir.path().join("db"), &flags)
        .stderr(Stdio::null())
        .status()
        .expect("runs");
    assert!(started.success());
    let mut client = Client::connect(addr);
    let pid = fs::read_to_string(&pid_file).expect("a file");
    let pid = pid.trim_end();
    assert_eq!(client.stat("pid"), pid);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields: Vec<_> = stat.split(' ').collect();
    assert_eq!(
        (fields[5], fields[6]),
        (pid, "0"),
        "a session of its own, without a terminal"
    );
    kill(pid);
    wait_until("the node has ended", || !pid_file.exists());
}

#[test]
fn a_node_that_cannot_serve_in_the_background_says_so() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(&dir.path().join("first"), &[]);
    let taken = node.addr.port().to_string();
    let output = Node::command(&dir.path().join("second"), &["-d", "-p", &taken])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(log.contains("cannot listen for clients"), "{log}");
}

fn kill(pid: &str) {
    let status = std::process::Command::new("kill").arg(pid).status();
    assert!(status.expect("kill runs").success());
}
