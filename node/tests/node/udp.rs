//! UDP: the same datagrams as memcached's.

use std::net::{SocketAddr, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use crate::client::Client;
use crate::harness::{Memcached, Node, PATIENCE, free_addr};

/// Where no more answers are expected, this much is waited for one.
const SILENCE: Duration = Duration::from_millis(100);

struct Peer {
    socket: UdpSocket,
    addr: SocketAddr,
}

impl Peer {
    fn of(addr: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        Self { socket, addr }
    }

    /// The `expected` datagrams that answer `request`, and those that come too many.
    fn ask(&self, header: [u16; 4], request: &[u8], expected: usize) -> Vec<Vec<u8>> {
        let mut datagram: Vec<u8> = header
            .iter()
            .flat_map(|field| field.to_be_bytes())
            .collect();
        datagram.extend_from_slice(request);
        self.socket.send_to(&datagram, self.addr).expect("sent");
        let mut answers: Vec<Vec<u8>> = Vec::new();
        let mut buffer = [0; 2000];
        loop {
            let patience = if answers.len() < expected {
                PATIENCE
            } else {
                SILENCE
            };
            self.socket.set_read_timeout(Some(patience)).expect("set");
            match self.socket.recv_from(&mut buffer) {
                // memcached says nothing in a datagram of its own.
                Ok((8, _)) => {}
                Ok((len, _)) => answers.push(buffer[..len].to_vec()),
                Err(_) => return answers,
            }
        }
    }
}

fn start() -> (tempfile::TempDir, Node, Memcached) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-U", "-1"]);
    let udp = free_addr().port().to_string();
    (dir, node, Memcached::start_with(&["-U", &udp]))
}

fn udp_addr(tcp: SocketAddr) -> SocketAddr {
    let mut client = Client::connect(tcp);
    client.send(b"stats settings\r\n");
    let mut port = None;
    loop {
        let line = client.line();
        if line == "END" {
            break;
        }
        if let Some(value) = line.strip_prefix("STAT udpport ") {
            port = Some(value.parse().expect("a port"));
        }
    }
    SocketAddr::new(tcp.ip(), port.expect("a UDP port"))
}

#[test]
fn every_answer_has_the_datagrams_that_memcached_sends() {
    let (_dir, node, memcached) = start();
    let big = format!("set big 0 0 5000\r\n{}\r\n", "x".repeat(5000));
    let binary_get = b"\x80\x00\x00\x01\0\0\0\0\0\0\0\x01opaq\0\0\0\0\0\0\0\0a";
    let requests: [(&[u8], usize); 18] = [
        (b"set a 0 0 1\r\n1\r\n", 1),
        (b"set b 0 0 1 noreply\r\n2\r\n", 0),
        (b"get a\r\n", 1),
        (b"get a b\r\n", 2),
        (b"get a missing b\r\n", 2),
        (b"get a missing\r\n", 2),
        (b"get a\r\nget b\r\n", 2),
        (big.as_bytes(), 1),
        (b"get big\r\n", 4),
        (b"get a big b\r\n", 6),
        (b"mg a v\r\n", 1),
        (b"mg missing q v\r\nmn\r\n", 1),
        (b"incr a 5\r\n", 1),
        (b"bogus\r\n", 1),
        (b"get a", 0),
        (binary_get, 1),
        (b"quit\r\n", 0),
        (b"get a\r\n", 1),
    ];
    let peers = [udp_addr(memcached.addr), udp_addr(node.addr)].map(Peer::of);
    for (number, (request, expected)) in requests.iter().enumerate() {
        let [theirs, ours] = peers
            .each_ref()
            .map(|peer| peer.ask([number as u16 + 300, 0, 1, 0], request, *expected));
        assert_eq!(ours, theirs, "{}", request.escape_ascii());
        assert!(ours.iter().all(|datagram| datagram.len() <= 1400));
    }
}

#[test]
fn a_request_of_several_datagrams_is_not_answered() {
    let (_dir, node, memcached) = start();
    for addr in [udp_addr(memcached.addr), udp_addr(node.addr)] {
        let peer = Peer::of(addr);
        for header in [[1, 0, 2, 0], [1, 1, 2, 0], [1, 0, 0, 0], [1, 0, 257, 0]] {
            assert!(peer.ask(header, b"version\r\n", 0).is_empty(), "{header:?}");
        }
        assert_eq!(peer.ask([1, 5, 1, 7], b"version\r\n", 1).len(), 1);
    }
}

#[test]
fn nobody_is_sent_all_keys_or_what_others_do() {
    let (_dir, node, _) = start();
    let peer = Peer::of(udp_addr(node.addr));
    for (request, refusal) in [
        ("watch\r\n", "CLIENT_ERROR watch commands not allowed\r\n"),
        (
            "lru_crawler metadump all\r\n",
            "ERROR metadump not allowed\r\n",
        ),
    ] {
        let answers = peer.ask([1, 0, 1, 0], request.as_bytes(), 1);
        assert_eq!(&answers[0][8..], refusal.as_bytes());
    }
}

#[test]
fn whoever_must_log_in_cannot_go_around_it() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let users = dir.path().join("users");
    std::fs::write(&users, "user:password\n").expect("written");
    let users = users.to_str().expect("text");
    for flags in [&["-U", "-1", "-S"][..], &["-U", "-1", "-Y", users]] {
        let output = Node::command(&dir.path().join("db"), flags)
            .stderr(Stdio::piped())
            .output()
            .expect("it ends");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && log.contains("-U cannot be combined"),
            "{log}"
        );
    }
}

#[test]
fn an_answer_that_waits_for_the_disk_comes_too() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-U", "-1"]);
    let mut client = node.connect();
    for key in 0..100 {
        assert_eq!(client.set(&format!("key{key}"), "data"), "STORED");
    }
    node.stop();
    let node = Node::start(dir.path(), &["-U", "-1"]);
    let peer = Peer::of(udp_addr(node.addr));
    let answers = peer.ask([1, 0, 1, 0], b"get key1 key50 key99\r\nget key7\r\n", 4);
    let said: Vec<_> = answers
        .iter()
        .map(|answer| answer[8..].escape_ascii().to_string())
        .collect();
    assert_eq!(
        said,
        [
            "VALUE key1 0 4\\r\\ndata\\r\\n",
            "VALUE key50 0 4\\r\\ndata\\r\\n",
            "VALUE key99 0 4\\r\\ndata\\r\\nEND\\r\\n",
            "VALUE key7 0 4\\r\\ndata\\r\\nEND\\r\\n",
        ]
    );
}
