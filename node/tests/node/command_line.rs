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
        "-p is \"70000\" on the command line (-p), but must be a whole number from -1 to 65535";
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

/// What memcached's own tests look for, to see what they may expect.
#[test]
fn memcacheds_tests_find_in_the_help_what_there_is_and_nothing_else() {
    let help = run(&["-h"], &[]);
    let help = String::from_utf8_lossy(&help.stdout).to_lowercase();
    for there in ["sasl", "enable-ssl", "unix-socket"] {
        assert!(help.contains(there), "no {there} in:\n{help}");
    }
    for not_there in ["ext_path", "proxy_config", "no_drop_privileges"] {
        assert!(!help.contains(not_there), "{not_there} in:\n{help}");
    }
}

#[test]
fn unknown_flags_and_options_are_refused() {
    assert_eq!(run(&["--bogus"], &[]).status.code(), Some(2));
    let output = run(&["-o", "bogus"], &[]);
    assert_eq!(output.status.code(), Some(78));
    assert!(
        log(&output).contains("-o bogus is unknown"),
        "{}",
        log(&output)
    );
    for args in [
        &["-l", "fooble.invalid", "-p", "-1"][..],
        &["-c", "0"],
        &["-c", "-1"],
        &["-t", "0"],
        &["-R", "0"],
        &["-I", "1000"],
        &["-B", "http"],
        &["-S", "-Y", "file"],
    ] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let output = Node::command(dir.path(), args).output().expect("runs");
        assert!(!output.status.success(), "{args:?}");
    }
}

#[test]
fn flags_that_mean_nothing_here_are_accepted_and_said_to_be_ignored() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let flags = [
        "-f",
        "1.1",
        "-n",
        "96",
        "-L",
        "-M",
        "-N",
        "3",
        "-o",
        "slab_chunk_max=1024,hashpower=20",
        "-o",
        "modern",
        "-vv",
        "-r",
        "-k",
        "-W",
        "-X",
    ];
    let node = Node::start(dir.path(), &flags);
    assert!(node.connect().ask("version").starts_with("VERSION"));
    for ignored in [
        "-f",
        "-n",
        "-L",
        "-M",
        "-N",
        "-o slab_chunk_max",
        "-o hashpower",
        "-o modern",
    ] {
        let expected = format!("{ignored} is ignored: ");
        assert!(
            node.log().contains(&expected),
            "no {expected} in {}",
            node.log()
        );
    }
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
    let expected = format!("cannot listen for clients on 127.0.0.1, TCP port {port}");
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
            .args(["-p", "-1", "-m", "64", "--db-path"])
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
