//! Conversations on the wire, in `tests/transcripts/`, held with a node and with memcached itself.
//!
//! Each file is a conversation with a server that has just started. memcached must give the answers that the node
//! must give, so that the files are known to be true.
//!
//! ```text
//!   # a remark
//!   > sent, with CRLF              \r \n \0 \\ \xFF are bytes, {k*250} is 250 times k
//!   >> sent, without CRLF
//!   < expected, with CRLF          {any} stands for the rest of the line, {100s} for 100 seconds that begin to pass
//!   >b <b a frame of the binary protocol, see frames.rs
//!   <~ expected somewhere among the lines up to END
//!   <node expected of the node     <memcached and of memcached: only in differences.txt, as !node
//!   ! close                        the server closes the connection
//!   ! connect                      goes on with a new connection
//!   ! wait 2s
//! ```

use std::fs;
use std::net::{Shutdown, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::client::Client;
use crate::frames;
use crate::harness::{Memcached, Node};
use crate::notation::bytes;

/// The file that says where a node differs, and why.
const DIFFERENCES: &str = "differences";

macro_rules! transcripts {
    ($($name:ident)*) => {
        /// Every file has its test.
        const NAMES: &[&str] = &[$(stringify!($name),)*];

        mod the_node_answers_as_written_in {
            $(#[test] fn $name() { super::hold_with_the_node(stringify!($name)); })*
        }

        mod memcached_answers_as_written_in {
            $(#[test] fn $name() { super::hold_with_memcached(stringify!($name)); })*
        }
    };
}

transcripts! {
    admin
    append_prepend
    arithmetic
    binary
    cas
    command_lines
    delete
    differences
    exptime
    flush_all
    gat
    get
    http
    item_size
    lengths
    meta_arithmetic
    meta_debug
    meta_delete
    meta_get
    meta_set
    noreply
    pipelining
    set_add_replace
    stats
    stats_detail
    touch
    version_verbosity_quit
}

#[test]
fn every_transcript_is_held() {
    let mut files: Vec<_> = fs::read_dir(folder())
        .expect("transcripts")
        .map(|entry| entry.expect("a file").path())
        .map(|path| {
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    files.sort();
    assert_eq!(files, NAMES);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Node,
    Memcached,
}

fn hold_with_the_node(name: &str) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    Conversation::new(name, Side::Node, node.addr).hold();
    node.stop();
}

fn hold_with_memcached(name: &str) {
    let memcached = Memcached::start();
    Conversation::new(name, Side::Memcached, memcached.addr).hold();
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

struct Conversation {
    name: String,
    side: Side,
    addr: SocketAddr,
    client: Client,
    /// Where in the file we are, for messages.
    line: usize,
}

impl Conversation {
    fn new(name: &str, side: Side, addr: SocketAddr) -> Self {
        Self {
            name: name.to_owned(),
            side,
            addr,
            client: Client::connect(addr),
            line: 0,
        }
    }

    fn hold(mut self) {
        let text = fs::read_to_string(folder().join(format!("{}.txt", self.name))).expect("a file");
        let mut among = Vec::new();
        for (number, line) in text.lines().enumerate() {
            self.line = number + 1;
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            if kind == "<~" {
                among.push(bytes(rest));
                continue;
            }
            self.expect_among(&std::mem::take(&mut among));
            self.step(kind, rest);
        }
        self.expect_among(&among);
        self.expect_silence();
    }

    fn step(&mut self, kind: &str, rest: &str) {
        match kind {
            "" | "#" => {}
            ">" => self.client.send(&[&bytes(rest)[..], b"\r\n"].concat()),
            ">b" => self.client.send(&frames::request(rest, bytes)),
            "<b" => self.expect_frame(rest),
            ">>" => self.client.send(&bytes(rest)),
            "<" => self.expect(rest),
            "<node" | "<memcached" => {
                assert_eq!(
                    self.name, DIFFERENCES,
                    "{}: belongs into {DIFFERENCES}",
                    self.line
                );
                let side = if kind == "<node" {
                    Side::Node
                } else {
                    Side::Memcached
                };
                if side == self.side {
                    self.expect(rest);
                }
            }
            "!" => self.direct(rest),
            "!node" => {
                assert_eq!(
                    self.name, DIFFERENCES,
                    "{}: belongs into {DIFFERENCES}",
                    self.line
                );
                if self.side == Side::Node {
                    self.direct(rest);
                }
            }
            unknown => panic!("{} line {}: what is {unknown}?", self.name, self.line),
        }
    }

    fn direct(&mut self, directive: &str) {
        match directive.split_once(' ').unwrap_or((directive, "")) {
            ("close", "") => {
                let rest = self.client.rest();
                assert!(
                    rest.is_empty(),
                    "{} line {}: {}",
                    self.name,
                    self.line,
                    show(&rest)
                );
            }
            ("connect", "") => self.client = Client::connect(self.addr),
            ("wait", seconds) => {
                let seconds = seconds.trim_end_matches('s').parse().expect("seconds");
                thread::sleep(Duration::from_secs(seconds));
            }
            _ => panic!("{} line {}: what is {directive}?", self.name, self.line),
        }
    }

    fn expect(&mut self, line: &str) {
        let answer = self.client.try_line().expect("an answer");
        let matches = match line.split_once("{any}") {
            Some((start, _)) => answer.starts_with(&bytes(start)) && answer.ends_with(b"\r\n"),
            None => (0..=2).any(|passed| {
                let line = with_seconds(line, passed);
                answer == [&bytes(&line)[..], b"\r\n"].concat()
            }),
        };
        assert!(
            matches,
            "{} line {}: expected {line}, got {}",
            self.name,
            self.line,
            show(&answer)
        );
    }

    fn expect_frame(&mut self, expected: &str) {
        let frame = self.client.frame().expect("a frame");
        let matches = match expected.split_once("{any}") {
            Some((start, _)) => frame.starts_with(start),
            None => frame == expected,
        };
        let (name, line) = (&self.name, self.line);
        assert!(
            matches,
            "{name} line {line}: expected {expected}, got {frame}"
        );
    }

    fn expect_among(&mut self, expected: &[Vec<u8>]) {
        if expected.is_empty() {
            return;
        }
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line| line != b"END\r\n") {
            lines.push(self.client.try_line().expect("a line"));
        }
        for line in expected {
            let line = [line, &b"\r\n"[..]].concat();
            let all: Vec<_> = lines.iter().map(|line| show(line)).collect();
            assert!(
                lines.contains(&line),
                "{}: no {} in {all:#?}",
                self.name,
                show(&line)
            );
        }
    }

    /// Nothing more is answered than what is written.
    fn expect_silence(&mut self) {
        // The server may have closed already.
        let _ = self.client.stream().shutdown(Shutdown::Write);
        let rest = self.client.rest();
        assert!(rest.is_empty(), "{}: unexpected {}", self.name, show(&rest));
    }
}

/// Replaces `{100s}` by what is left when so many seconds have passed.
fn with_seconds(line: &str, passed: u32) -> String {
    let mut parts = line.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let seconds = part.split_once("s}");
        match seconds.and_then(|(number, rest)| Some((number.parse::<u32>().ok()?, rest))) {
            Some((seconds, rest)) => out.push_str(&format!("{}{rest}", seconds - passed)),
            None => out.push_str(&format!("{{{part}")),
        }
    }
    out
}

fn show(bytes: &[u8]) -> String {
    let shown: String = bytes.escape_ascii().to_string();
    if shown.len() > 400 {
        format!("{}... ({} bytes)", &shown[..400], bytes.len())
    } else {
        shown
    }
}
