//! The whole command state machine: what a client sends, over a real store, to what it is answered.
//!
//! Owns two nodes that are told the same, the one in one piece, the other in many, and must answer the same. Each
//! conversation begins with an empty store. Time stands still.
//!
//! `@1` in an input stands for the cas of the first version that the conversation makes, up to `@9`; what it is in digits
//! depends on how many versions there were before.

use std::cell::RefCell;
use std::sync::Arc;

use clap::Parser;
use petra_node::clock::{Clock, UnixSeconds};
use petra_node::config::Config;
use petra_node::config::flags::Flags;
use petra_node::loopback::Loopback;
use petra_node::protocol::binary;
use petra_node::protocol::command::{Command, Parsed};
use petra_node::protocol::request::{Control, Request};
use petra_node::store::item::Expiry;
use tempfile::TempDir;

use crate::parser::{fits, is_long_line, parse_text};
use crate::reading;

pub(crate) const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
/// Pieces are of 1 byte up to this.
const MAX_PIECE: usize = 64;

/// What a client is answered does not depend on the pieces that its bytes come in, and is one answer per command, in order.
pub fn connection(input: &[u8]) {
    thread_local! {
        static NODES: RefCell<Option<[Node; 2]>> = const { RefCell::new(None) };
    }
    NODES.with_borrow_mut(|nodes| {
        let [one, other] = nodes.get_or_insert_with(|| [Node::start("1m"), Node::start("1m")]);
        let input = with_versions(input, begin(one, other));
        let whole = one.loopback.converse(&[&input]).expect("a socket");
        let repeatable = read_along(&input, &whole);
        let pieces = other.loopback.converse(&pieces(&input)).expect("a socket");
        if repeatable {
            assert_eq!(
                whole.escape_ascii().to_string(),
                pieces.escape_ascii().to_string()
            );
        }
    });
}

/// A node in this thread, and its files.
pub(crate) struct Node {
    pub(crate) loopback: Loopback,
    /// Removed after the node.
    dir: TempDir,
}

struct Standstill;

impl Clock for Standstill {
    fn now(&self) -> UnixSeconds {
        NOW
    }
}

impl Node {
    /// With so much memory for items, as a flag says it.
    pub(crate) fn start(memory: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self {
            loopback: open(&dir, memory),
            dir,
        }
    }

    /// With the same files, and as little memory as there can be.
    pub(crate) fn restart(self) -> Self {
        let Self { loopback, dir } = self;
        drop(loopback);
        Self {
            loopback: open(&dir, "1m"),
            dir,
        }
    }

    /// Makes a version, and says which.
    fn version(&self) -> u64 {
        let store = self.loopback.store();
        store
            .set(b"version", 0, Expiry::NEVER, b"", NOW)
            .expect("stored")
    }
}

fn open(dir: &TempDir, memory: &str) -> Loopback {
    let db_path = dir.path().to_str().expect("text");
    let flags = Flags::parse_from([
        "petracache",
        "-m=64",
        "-I=1k",
        "--durability=none",
        "--block-cache-size=64k",
        &format!("--tier-size={memory}"),
        &format!("--db-path={db_path}"),
    ]);
    let config = Config::load(&flags, |_| None).expect("a good configuration");
    Loopback::open(config, Arc::new(Standstill)).expect("a database")
}

/// Empties both stores and returns the cas that both give next.
fn begin(one: &Node, other: &Node) -> u64 {
    let (mut first, mut second) = (one.version(), other.version());
    // An input that is not repeatable may have made more versions of the one than of the other.
    while first != second {
        if first < second {
            first = one.version();
        } else {
            second = other.version();
        }
    }
    for node in [one, other] {
        node.loopback.store().flush_all(None, NOW).expect("flushed");
    }
    // A flush has a cas too.
    first + 2
}

/// Puts versions where `input` names them.
fn with_versions(input: &[u8], first: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some((byte, tail)) = rest.split_first() {
        rest = match (byte, tail) {
            (b'@', [digit @ b'1'..=b'9', tail @ ..]) => {
                let version = first + u64::from(digit - b'1');
                out.extend(version.to_string().bytes());
                tail
            }
            _ => {
                out.push(*byte);
                tail
            }
        };
    }
    out
}

/// Pieces of lengths that depend on nothing but the input.
pub(crate) fn pieces(input: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let (mut rest, mut state) = (input, input.len());
    while !rest.is_empty() {
        state = state.wrapping_mul(31).wrapping_add(rest[0].into());
        let (piece, tail) = rest.split_at((state % MAX_PIECE + 1).min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// Reads the answers to everything in `input`, and says whether they would be the same another time.
pub(crate) fn read_along(input: &[u8], answers: &[u8]) -> bool {
    let is_binary = input.first() == Some(&binary::MAGIC);
    let (mut rest, mut places, mut repeatable) = (input, vec![0], true);
    while !rest.is_empty() {
        repeatable &= is_binary || !is_long_line(rest);
        let mut decoded = Vec::new();
        let parsed = if is_binary {
            binary::parse(rest, fits)
        } else {
            parse_text(rest, &mut decoded)
        };
        let Parsed::Command { consumed, command } = parsed else {
            break;
        };
        repeatable &= is_repeatable(&command);
        places = go_on(&command, &places, answers);
        assert!(
            !places.is_empty(),
            "no answer to {command:?} in {}",
            answers.escape_ascii()
        );
        if is_last(&command) {
            break;
        }
        rest = rest.get(consumed + command.discard()..).unwrap_or_default();
    }
    assert!(
        places.contains(&answers.len()),
        "more answers than commands: {}",
        answers.escape_ascii()
    );
    repeatable
}

/// The places where the next answer may begin.
fn go_on(command: &Command<'_>, places: &[usize], answers: &[u8]) -> Vec<usize> {
    let from = |place: &usize| {
        let ends = reading::ends(command, &answers[*place..]);
        ends.into_iter().map(|end| place + end).collect::<Vec<_>>()
    };
    let mut next: Vec<_> = places.iter().flat_map(from).collect();
    next.sort_unstable();
    next.dedup();
    next
}

/// What tells about the server, or gives out random tokens, is another thing each time.
fn is_repeatable(command: &Command<'_>) -> bool {
    !matches!(
        command,
        Command::Control {
            control: Control::Stats(_) | Control::Dump(..) | Control::Watch(_),
            ..
        } | Command::Request {
            request: Request::LeaseGet { .. },
            ..
        }
    )
}

fn is_last(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::HangUp { .. }
            | Command::Control {
                control: Control::Quit | Control::Watch(_),
                ..
            }
    )
}
