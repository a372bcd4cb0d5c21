//! How a node is told what to do, from a shell's point of view.

use std::fs;
use std::process::Output;

use crate::harness::Node;

fn run(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_petracache"));
    command
        .args(args)
        .envs(environment.iter().copied())
        .output()
        .expect("runs")
}

fn log(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_wrong_value_names_itself_its_place_and_what_is_allowed() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("config.toml");
    fs::write(&file, "[server]\nmax_connections = 0\n").expect("written");
    let file = file.to_str().expect("text");
    let output = run(&[file], &[]);
    assert_eq!(output.status.code(), Some(78));
    let expected = format!(
        "server.max_connections is \"0\" in the file {file}, but must be a whole number from 1 to 1000000"
    );
    assert!(log(&output).contains(&expected), "{}", log(&output));
    let output = run(&[], &[("PETRACACHE_DURABILITY", "forever")]);
    let expected = "storage.durability is \"forever\" in the environment (PETRACACHE_DURABILITY), \
                    but must be none, interval, always or fsync";
    assert!(log(&output).contains(expected), "{}", log(&output));
    let output = run(&["-p", "70000"], &[]);
    let expected =
        "-p is \"70000\" on the command line (-p), but must be a whole number from 0 to 65535";
    assert!(log(&output).contains(expected), "{}", log(&output));
}

#[test]
fn help_and_version_are_printed() {
    let help = run(&["-h"], &[]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.status.success());
    for flag in [
        "--listen-addr",
        "--db-path",
        "--durability",
        "--memory",
        "--drain",
        "-I",
        "-U",
    ] {
        assert!(text.contains(flag), "no {flag} in:\n{text}");
    }
    let version = run(&["-V"], &[]);
    let expected = format!("petracache {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);
}

#[test]
fn unknown_flags_and_udp_are_refused() {
    assert_eq!(run(&["--bogus"], &[]).status.code(), Some(2));
    assert_eq!(run(&["-U", "11211"], &[]).status.code(), Some(2));
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(&dir.path().join("first"), &[]);
    let port = node.addr.port().to_string();
    let output = Node::command(&dir.path().join("second"), &["-p", &port])
        .output()
        .expect("runs");
    assert!(!output.status.success());
    let expected = format!("cannot listen for clients on 127.0.0.1:{port}");
    assert!(log(&output).contains(&expected), "{}", log(&output));
}

#[test]
fn a_metrics_address_must_be_free_only_if_it_was_asked_for() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let first = Node::start(&dir.path().join("first"), &[]);
    let taken = first.admin.to_string();
    let output = Node::command(&dir.path().join("second"), &["--metrics-addr", &taken])
        .output()
        .expect("runs");
    assert!(!output.status.success());
    let expected = format!("cannot listen for metrics on {taken}");
    assert!(log(&output).contains(&expected), "{}", log(&output));
    // Two nodes that were told nothing about metrics, as two memcacheds would be started.
    let told_nothing = |name: &str| {
        let db_path = dir.path().join(name);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_petracache"));
        command
            .args(["-p", "0", "-m", "64", "--db-path"])
            .arg(db_path);
        Node::spawn(&mut command)
    };
    let nodes = [told_nothing("third"), told_nothing("fourth")];
    for node in &nodes {
        assert!(node.connect().ask("version").starts_with("VERSION"));
    }
    assert!(
        nodes
            .iter()
            .any(|node| node.log().contains("--metrics-addr sets where"))
    );
}

#[test]
fn the_first_line_of_the_log_says_what_runs_where() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["--durability", "always"]);
    let log = node.log();
    let line = log
        .lines()
        .find(|line| line.contains("petracache is ready"))
        .expect("a line");
    for part in [
        env!("CARGO_PKG_VERSION"),
        &node.addr.to_string(),
        dir.path().to_str().expect("text"),
        "durability=\"always\"",
        "items_estimated=0",
    ] {
        assert!(line.contains(part), "no {part} in {line}");
    }
}
