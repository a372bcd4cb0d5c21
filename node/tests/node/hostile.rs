//! Whatever clients send, the node goes on serving.

use std::net::Shutdown;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::harness::{Node, wait_until};

/// Pieces of commands, so that random input gets past the first word.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "get",
        "gets",
        "gat",
        "gats",
        "set",
        "add",
        "replace",
        "append",
        "prepend",
        "cas",
        "delete",
        "incr",
        "decr",
        "touch",
        "flush_all",
        "verbosity",
        "version",
        "stats",
        "reset",
        "noreply",
        "a",
        "b",
        "0",
        "1",
        "-1",
        "5",
        "4096",
        "2147483645",
        "4294967295",
        "18446744073709551614",
        " ",
        "  ",
        "\r\n",
        "\n",
        "\r",
        "\0",
        "HTTP/1.1",
    ];
    prop_oneof![
        12 => prop::sample::select(words.to_vec()).prop_map(|word| format!("{word} ").into_bytes()),
        4 => Just(b"\r\n".to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (0..5000_usize).prop_map(|len| vec![b'x'; len]),
        2 => "[a-c]{1,2}".prop_flat_map(|key| (Just(key), 0..20_usize, prop::collection::vec(any::<u8>(), 0..20)))
            .prop_map(|(key, len, data)| [format!("set {key} 0 0 {len}\r\n").as_bytes(), &data, b"\r\n"].concat()),
    ]
}

#[test]
fn no_bytes_in_no_pieces_stop_the_node() {
    let dir = tempfile::tempdir().expect("temporary directory");
    // One node for all cases: what one of them breaks, the next notices.
    let node = Node::start(dir.path(), &["-I", "4k"]);
    let fragments = prop::collection::vec(fragment(), 0..60);
    let cuts = prop::collection::vec(1..200_usize, 0..8);
    let config = ProptestConfig {
        cases: 500,
        ..ProptestConfig::default()
    };
    let outcome = TestRunner::new(config).run(&(fragments, cuts), |(fragments, cuts)| {
        send_in_pieces(&node, &fragments.concat(), &cuts);
        let mut other = node.connect();
        prop_assert_eq!(other.set("alive", "yes"), "STORED");
        prop_assert_eq!(other.get("alive"), Some("yes".to_owned()));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    node.stop();
}

/// The node answers what it can and then closes: it neither hangs nor waits for more.
fn send_in_pieces(node: &Node, bytes: &[u8], cuts: &[usize]) {
    let mut client = node.connect();
    let mut rest = bytes;
    for cut in cuts {
        let (piece, tail) = rest.split_at((*cut).min(rest.len()));
        // The node may have closed the connection, as it should after an endless line.
        let _ = client.try_send(piece);
        rest = tail;
    }
    let _ = client.try_send(rest);
    let _ = client.stream().shutdown(Shutdown::Write);
    client.rest();
}

#[test]
fn clients_that_vanish_in_the_middle_of_a_request_leave_nothing_behind() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut steady = node.connect();
    for request in [
        "s",
        "set",
        "set a 0 0",
        "set a 0 0 10\r\n",
        "set a 0 0 10\r\nhalf",
        "get a",
    ] {
        for _ in 0..20 {
            node.connect().send(request.as_bytes());
        }
    }
    wait_until("all of them are gone", || {
        steady.stat("curr_connections") == "1"
    });
}
