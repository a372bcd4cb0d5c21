//! Who may do what.

use std::fs;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;

use crate::client::Client;
use crate::frames;
use crate::harness::{Node, wait_until};

fn start_with_users(users: &str) -> (tempfile::TempDir, Node) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("users");
    fs::write(&file, users).expect("written");
    let node = Node::start(
        &dir.path().join("db"),
        &["-Y", file.to_str().expect("text")],
    );
    (dir, node)
}

fn log_in(client: &mut Client, token: &str) -> String {
    client.ask(&format!("set any 0 0 {}\r\n{token}", token.len()))
}

#[test]
fn nothing_is_done_for_who_has_not_logged_in() {
    let (dir, node) = start_with_users("foo:bar\nbaaaz:quux\n");
    let mut client = node.connect();
    for refused in [
        "get foo",
        "version",
        "quit",
        "set foo 0 0",
        "bogus",
        "",
        "mg foo v",
    ] {
        assert_eq!(
            client.ask(refused),
            "CLIENT_ERROR unauthenticated",
            "{refused}"
        );
    }
    assert_eq!(
        log_in(&mut client, "foo"),
        "CLIENT_ERROR bad authentication token format"
    );
    assert_eq!(
        client.ask("set a 0 0 2\r\nfoo bar"),
        "CLIENT_ERROR bad command line termination"
    );
    // What came behind the two bytes is another command.
    assert_eq!(client.line(), "CLIENT_ERROR unauthenticated");
    for wrong in ["foo baz", "foo quux", "nobody bar"] {
        assert_eq!(
            log_in(&mut client, wrong),
            "CLIENT_ERROR authentication failure"
        );
    }
    assert_eq!(log_in(&mut client, "foo bar"), "STORED");
    assert_eq!(client.get("any"), None, "no item was stored");
    assert_eq!(client.set("foo", "data"), "STORED");
    assert_eq!(
        (client.stat("auth_cmds"), client.stat("auth_errors")),
        ("4".into(), "3".into())
    );
    assert_eq!(
        node.connect().ask("get foo"),
        "CLIENT_ERROR unauthenticated",
        "others have not"
    );
    // A user who is new in the file.
    fs::write(dir.path().join("users"), "new:user\n").expect("written");
    assert_eq!(log_in(&mut node.connect(), "new user"), "STORED");
    assert_eq!(
        log_in(&mut node.connect(), "foo bar"),
        "CLIENT_ERROR authentication failure"
    );
}

#[test]
fn a_huge_token_is_not_kept() {
    let (_dir, node) = start_with_users("foo:bar\n");
    let mut client = node.connect();
    let before = node.own_memory();
    client.send(format!("set a 0 0 {}\r\n", 64 << 20).as_bytes());
    assert_eq!(
        client.line(),
        "CLIENT_ERROR bad authentication token format"
    );
    for _ in 0..64 {
        client.send(&vec![b'x'; 1 << 20]);
    }
    client.send(b"\r\nversion\r\n");
    assert_eq!(client.line(), "CLIENT_ERROR unauthenticated");
    assert!(node.own_memory().saturating_sub(before) < 16 << 20);
    let mut endless = node.connect();
    endless.send(&[b'x'; 4096]);
    assert_eq!(endless.rest(), b"");
}

#[test]
fn what_is_switched_off_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-F", "-X", "-W"]);
    let mut client = node.connect();
    assert_eq!(client.set("key", "data"), "STORED");
    assert_eq!(
        client.ask("flush_all"),
        "CLIENT_ERROR flush_all not allowed"
    );
    assert_eq!(
        client.ask("flush_all 10"),
        "CLIENT_ERROR flush_all not allowed"
    );
    assert_eq!(
        client.ask("lru_crawler metadump all"),
        "ERROR metadump not allowed"
    );
    assert_eq!(
        client.ask("watch"),
        "CLIENT_ERROR watch commands not allowed"
    );
    assert_eq!(client.ask("shutdown"), "ERROR: shutdown not enabled");
    assert_eq!(client.ask("refresh_certs"), "Error TLS not enabled");
    assert_eq!(client.get("key").as_deref(), Some("data"));
}

#[test]
fn a_client_may_stop_the_node_if_that_is_allowed() {
    for command in ["shutdown", "shutdown graceful"] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut node = Node::start(dir.path(), &["-A"]);
        let mut client = node.connect();
        assert_eq!(client.set("key", "data"), "STORED");
        assert_eq!(
            client.ask("shutdown foo"),
            "CLIENT_ERROR invalid shutdown mode"
        );
        client.send(format!("{command}\r\n").as_bytes());
        assert_eq!(client.rest(), b"");
        assert!(node.wait().success());
        let node = Node::start(dir.path(), &[]);
        assert_eq!(node.connect().get("key").as_deref(), Some("data"));
    }
}

#[test]
fn where_only_the_binary_protocol_is_spoken_text_is_not_answered() {
    for flags in [&["-B", "binary"][..], &["-S"]] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let node = Node::start(dir.path(), flags);
        let mut client = node.connect();
        client.send(b"version\r\n");
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn a_hangup_does_not_end_the_node() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    node.signal("HUP");
    wait_until("the signal has arrived", || node.log().contains("SIGHUP"));
    assert!(node.connect().ask("version").starts_with("VERSION"));
}

/// The answer to a binary command, as text.
fn ask_binary(client: &mut Client, frame: &str) -> String {
    client.send(&frames::request(frame, |text| text.as_bytes().to_vec()));
    client.frame().expect("an answer")
}

fn digest(password: &str, challenge: &str) -> String {
    let mut mac = Hmac::<Md5>::new_from_slice(password.as_bytes()).expect("a key");
    mac.update(challenge.as_bytes());
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_user_may_show_to_know_the_password_without_sending_it() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let users = dir.path().join("users");
    fs::write(&users, "petra:cached\n").expect("written");
    let mut command = Node::command(&dir.path().join("db"), &["-S"]);
    let node = Node::spawn(command.env("MEMCACHED_SASL_PWDB", &users));
    let mut client = node.connect();
    assert_eq!(
        ask_binary(&mut client, "sasl_list"),
        "sasl_list value=CRAM-MD5 PLAIN"
    );
    let refused = "sasl_step status=32 value=Auth failure.";
    let mut last = String::new();
    for (user, password, answer) in [
        ("petra", "wrong", refused),
        ("nobody", "cached", refused),
        ("petra", "cached", "sasl_step value=Authenticated"),
    ] {
        let asked = ask_binary(&mut client, "sasl_auth key=CRAM-MD5");
        let challenge = asked
            .strip_prefix("sasl_auth status=33 value=")
            .expect(&asked);
        assert_ne!(challenge, last, "no challenge comes twice");
        let proof = digest(password, challenge);
        let step = format!("sasl_step key=CRAM-MD5 value={user} {proof}");
        assert_eq!(ask_binary(&mut client, &step), answer);
        if answer == refused {
            // It was to be answered once.
            let right = digest("cached", challenge);
            let step = format!("sasl_step key=CRAM-MD5 value=petra {right}");
            assert_eq!(ask_binary(&mut client, &step), refused);
        }
        last = challenge.to_owned();
    }
    assert_eq!(
        ask_binary(&mut client, "get key=a"),
        "get status=1 value=Not found"
    );
}
