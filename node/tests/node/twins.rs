//! What a node answers when it is started with flags that change answers: the same as a memcached with the same flags.

use std::thread;
use std::time::Duration;

use crate::client::Client;
use crate::harness::{Memcached, Node};

/// Says the same to both, with a pause before each part but the first.
fn answers(flags: &[&str], parts: &[&str]) -> [String; 2] {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (node, memcached) = (Node::start(dir.path(), flags), Memcached::start_with(flags));
    let mut clients = [Client::connect(memcached.addr), node.connect()];
    let mut answers = [String::new(), String::new()];
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            thread::sleep(Duration::from_millis(1100));
        }
        for (client, answers) in clients.iter_mut().zip(&mut answers) {
            client.send(format!("{part}mn\r\n").as_bytes());
            loop {
                let line = client.line();
                if line == "MN" {
                    break;
                }
                answers.push_str(&line);
                answers.push('\n');
            }
        }
    }
    answers
}

#[test]
fn without_cas_no_version_is_shown_and_none_matches() {
    let [memcached, node] = answers(
        &["-C"],
        &["set a 0 0 1\r\n1\r\n\
           gets a\r\n\
           cas a 0 0 1 0\r\n2\r\n\
           cas a 0 0 1 1\r\n3\r\n\
           cas missing 0 0 1 0\r\n3\r\n\
           mg a c v\r\n\
           ms a 1 c\r\nx\r\n\
           ms a 1 C0\r\ny\r\n\
           ms a 1 C1\r\nz\r\n\
           ms a 1 C1 I\r\nz\r\n\
           md a C1\r\n\
           md a C1 I\r\n\
           mg a v c\r\n\
           ma n N0 c v\r\n\
           ma n C1 c\r\n\
           ma n C0 c\r\n\
           me n\r\n\
           md a I\r\n\
           mg a v c\r\n\
           md a C0\r\n\
           gets a n\r\n"],
    );
    // What is not about cas differs there by nature.
    let comparable = |answers: &str| {
        let words = answers.split_whitespace();
        let kept = words.filter(|word| {
            !["la=", "size=", "fetch="]
                .iter()
                .any(|f| word.starts_with(f))
        });
        kept.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(comparable(&node), comparable(&memcached), "{node}");
    assert!(node.contains("VALUE a 0 1 0\n1\nEND\nEXISTS\nEXISTS\nNOT_FOUND\n"));
}

#[test]
fn without_cas_a_flush_takes_the_rest_of_its_second_with_it() {
    // Wherever the second begins, one of these is in the same one as the flush before it.
    let flushes = "flush_all\r\nset a 0 0 1\r\nx\r\nget a\r\n".repeat(20);
    let [memcached, node] = answers(
        &["-C"],
        &[&flushes, "get a\r\nset a 0 0 1\r\ny\r\nget a\r\n"],
    );
    for answers in [&memcached, &node] {
        assert!(answers.contains("OK\nSTORED\nEND\n"), "{answers}");
        assert!(
            answers.ends_with("STORED\nVALUE a 0 1\ny\nEND\n"),
            "{answers}"
        );
    }
}

#[test]
fn prefixes_end_at_the_delimiter_and_are_counted_from_the_start() {
    let [memcached, node] = answers(
        &["-D", "/"],
        &["set a/b 0 0 1\r\nx\r\nget a/b a:b /\r\ndelete a/c\r\nstats detail dump\r\n"],
    );
    let lines = |answers: &str| {
        let mut lines: Vec<_> = answers.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&node), lines(&memcached));
    assert!(
        node.contains("PREFIX a get 1 hit 1 set 1 del 1\n"),
        "{node}"
    );
}

#[test]
fn a_strict_node_refuses_the_deletes_that_memcached_refuses() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-o", "strict_delete"]);
    let memcached = Memcached::start();
    let [theirs, ours] = [memcached.addr, node.addr].map(|addr| {
        let mut client = Client::connect(addr);
        let deletes = "set a 0 0 1\r\nx\r\ndelete a 10\r\ndelete a 10 noreply\r\nget a\r\ndelete a -1\r\n\
                       delete a 00\r\ndelete a 0 noreply\r\nget a\r\ndelete a 0\r\n";
        client.send(format!("{deletes}quit\r\n").as_bytes());
        String::from_utf8(client.rest()).expect("text")
    });
    assert_eq!(ours, theirs);
    assert!(ours.contains("Usage: delete <key> [noreply]"));
}
