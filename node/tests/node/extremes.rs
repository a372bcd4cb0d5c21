//! Numbers at the ends of their range, lines without an end, and requests that stop in the middle.

use std::net::Shutdown;

use crate::client::Client;
use crate::harness::{Node, wait_until};

/// Around 2^31, 2^32, 2^63 and 2^64, on both sides of 0.
const NUMBERS: [&str; 19] = [
    "2147483645",
    "2147483646",
    "2147483647",
    "2147483648",
    "4294967294",
    "4294967295",
    "4294967296",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551613",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "-1",
    "-2147483649",
    "-9223372036854775808",
    "-18446744073709551615",
];

/// Every text command that has a number, once for each of its numbers (`#`). None has data.
const LINES: [&str; 60] = [
    "set a 0 0 #",
    "set a 0 0 # noreply",
    "set a # 0 0",
    "set a 0 # 0",
    "add a 0 0 #",
    "replace a 0 0 #",
    "append a 0 0 #",
    "prepend a 0 0 #",
    "cas a 0 0 # 1",
    "cas a 0 0 1 #",
    "lease-set a 1 0 0 #",
    "lease-set a # 0 0 0",
    "incr n #",
    "decr n #",
    "touch a #",
    "gat # a",
    "gats # a",
    "delete a #",
    "flush_all #",
    "verbosity #",
    "ms a #",
    "ms a # b",
    "ms a # q",
    "ms a # MA",
    "ms a # I C1",
    "ms a 0 F#",
    "ms a 0 T#",
    "ms a 0 C#",
    "ms a 0 E#",
    "ms a 0 O#",
    "mg a t T#",
    "mg a N#",
    "mg a R#",
    "mg a v E# N30",
    "md a C#",
    "md a E#",
    "md a I T#",
    "md a x #",
    "ma n D#",
    "ma n MD D#",
    "ma n N0 J#",
    "ma n N#",
    "ma n T#",
    "ma n C#",
    "ma n E#",
    "me #",
    "mn #",
    "get #",
    "metaget #",
    "lease-get #",
    "cache_memlimit #",
    "lru_crawler sleep #",
    "lru_crawler tocrawl #",
    "lru_crawler crawl #",
    "lru_crawler metadump #",
    "lru_crawler mgdump #",
    "slabs automove #",
    "stats #",
    "watch #",
    "shutdown #",
];

/// Sends `bytes` and then no more, and reads what is answered until the node closes.
fn said_and_done(node: &Node, bytes: &[u8]) -> Vec<u8> {
    let mut client = node.connect();
    client.send(bytes);
    client
        .stream()
        .shutdown(Shutdown::Write)
        .expect("shut down");
    client.rest()
}

#[test]
fn no_number_in_any_text_command_stops_the_node_or_makes_it_take_memory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut steady = node.connect();
    let before = node.own_memory();
    for line in LINES {
        for number in NUMBERS {
            assert_eq!(steady.set("n", number), "STORED");
            let request = format!("{}\r\n", line.replace('#', number));
            let answer = said_and_done(&node, request.as_bytes());
            let is_line = answer.ends_with(b"\n");
            // Quiet, or a length that may be: the data is waited for.
            assert!(
                is_line || answer.is_empty(),
                "{request}{}",
                answer.escape_ascii()
            );
        }
    }
    let grown = node.own_memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{} MiB", grown >> 20);
    node.stop();
}

#[test]
fn no_length_in_any_binary_command_stops_the_node_or_makes_it_take_memory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut steady = node.connect();
    let before = node.own_memory();
    for opcode in 0..=255 {
        for (key_len, extras_len) in [
            (0, 0),
            (1, 0),
            (1, 4),
            (1, 8),
            (1, 20),
            (250, 8),
            (u16::MAX, u8::MAX),
        ] {
            for body_len in [0, 1, 9, 1 << 20, u32::MAX / 2, u32::MAX / 2 + 1, u32::MAX] {
                let mut frame = vec![0x80, opcode];
                frame.extend(key_len.to_be_bytes());
                frame.extend([extras_len, 0, 0, 0]);
                frame.extend(body_len.to_be_bytes());
                frame.extend([0xff; 12]);
                frame.extend([b'x'; 300]);
                let answer = said_and_done(&node, &frame);
                assert!(answer.is_empty() || answer[0] == 0x81);
            }
        }
    }
    assert_eq!(steady.set("key", "data"), "STORED");
    let grown = node.own_memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{} MiB", grown >> 20);
    node.stop();
}

/// Clients that have said no more than the node listens to.
fn lines_without_an_end(node: &Node) -> Vec<Client> {
    let begins = [
        "", "set ", "get ", "gets ", "gat ", "gats 0 ", "mg ", "ms ", "me ", "stats ", "watch ",
        "\0", " ",
    ];
    let say = |begin: &&str| {
        let mut client = node.connect();
        client.send(begin.as_bytes());
        let chunk = [b'x'; 1 << 16];
        // Of 64 MiB.
        let sent = (0..1000)
            .take_while(|_| client.try_send(&chunk).is_ok())
            .count();
        assert!(sent < 1000, "{begin:?} is listened to for ever");
        client
    };
    begins.iter().map(say).collect()
}

#[test]
fn a_line_without_an_end_is_cut_off_whatever_it_begins_with() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut steady = node.connect();
    // Every thread takes its first memory in huge pages: what the lines themselves take is what comes after.
    drop(lines_without_an_end(&node));
    let before = node.own_memory();
    let _clients = lines_without_an_end(&node);
    // What was read before a line was given up goes back to the system some seconds later.
    wait_until("all lines take less than 8 MiB", || {
        node.own_memory().saturating_sub(before) < 8 << 20
    });
    assert_eq!(steady.set("key", "data"), "STORED");
}

#[test]
fn a_request_that_stops_in_the_middle_ends_with_the_idle_timeout_in_every_protocol() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-o", "idle_timeout=1"]);
    let header = |body_len: u8| {
        [
            &[0x80, 1, 0, 1, 8, 0, 0, 0, 0, 0, 0, body_len][..],
            &[0; 12],
        ]
        .concat()
    };
    let halves = [
        b"get ke".to_vec(),
        b"set key 0 0 10\r\nhalf".to_vec(),
        b"set key 0 0 10\r\n0123456789\r".to_vec(),
        b"set key 0 0 99999999\r\nof a value that is refused".to_vec(),
        b"mg key".to_vec(),
        b"ms key 10\r\nhalf".to_vec(),
        b"mg key v\r".to_vec(),
        vec![0x80],
        header(19)[..23].to_vec(),
        header(19),
        [header(19), vec![b'x'; 18]].concat(),
    ];
    let mut clients: Vec<Client> = halves.iter().map(|_| node.connect()).collect();
    for (client, half) in clients.iter_mut().zip(&halves) {
        client.send(half);
    }
    for (client, half) in clients.iter_mut().zip(&halves) {
        let answer = client.rest();
        let refused = b"SERVER_ERROR object too large for cache\r\n";
        assert!(
            answer.is_empty() || answer == refused,
            "{}",
            half.escape_ascii()
        );
    }
    let kicks = clients.len().to_string();
    wait_until("all are counted", || {
        node.connect().stat("idle_kicks") == kicks
    });
}
