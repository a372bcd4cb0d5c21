//! The parsers: bytes to commands, and what a command needs to be answered.
//!
//! Owns what a connection relies on: a parser takes no more than there is, asks for no more than the command has, and says
//! the same however the bytes arrive.

use memchr::memchr;
use petra_node::protocol::command::{Command, Parsed};
use petra_node::protocol::reply::{OwnedReply, Reply};
use petra_node::protocol::request::{MAX_KEY_LEN, OwnedRequest, Request};
use petra_node::protocol::{binary as binary_protocol, text as text_protocol};
use petra_node::store::item::item_size;

use crate::reading;

/// The limit on items here; small, so that short inputs reach it.
pub(crate) const MAX_ITEM_SIZE: usize = 1 << 10;
/// No parser may ask for more bytes at a time: a get line is the longest thing that a client may say.
const MAX_NEEDED: usize = (1 << 20) + MAX_ITEM_SIZE;
/// The longest data of a refused command that is skipped: what 32 bits say, and a line end.
const MAX_DISCARD: usize = (1 << 32) + 2;
/// A line that has no end after so many bytes closes the connection, so that it matters how it comes.
pub(crate) const MAX_LINE_LEN: usize = 2048;
/// Of longer commands, so many beginnings are tried.
const BEGINNINGS: usize = 16;

/// Looks at the first command in bytes; the vector is room for a key.
type Parser = for<'a> fn(&'a [u8], &'a mut Vec<u8>) -> Parsed<'a>;

/// The text protocol without the meta commands.
pub fn text(input: &[u8]) {
    if !is_meta(input) {
        check_all(input, parse_text);
    }
}

/// The meta commands.
pub fn meta(input: &[u8]) {
    if is_meta(input) {
        check_all(input, parse_text);
    }
}

/// The binary protocol.
pub fn binary(input: &[u8]) {
    check_all(input, |input, _| binary_protocol::parse(input, fits));
}

/// What a client says before it has logged in over the text protocol.
pub fn login(input: &[u8]) {
    check_all(input, |input, _| text_protocol::parse_login(input));
}

pub(crate) fn parse_text<'a>(input: &'a [u8], decoded: &'a mut Vec<u8>) -> Parsed<'a> {
    text_protocol::parse(input, decoded, fits)
}

pub(crate) fn fits(key_len: usize, flags: u64, data_len: usize) -> bool {
    item_size(key_len, flags, data_len) <= MAX_ITEM_SIZE
}

fn is_meta(input: &[u8]) -> bool {
    matches!(input.trim_ascii_start(), [b'm', second, third, ..] if second.is_ascii_lowercase() && !third.is_ascii_lowercase())
}

fn check_all(input: &[u8], parser: Parser) {
    let mut rest = input;
    while !rest.is_empty() {
        let Some(taken) = check_first(rest, parser) else {
            return;
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
}

/// How many bytes the first command took, with what is skipped behind it; `None` when none follows.
fn check_first(input: &[u8], parser: Parser) -> Option<usize> {
    match parser(input, &mut Vec::new()) {
        Parsed::Close => None,
        Parsed::Incomplete { needed } => {
            assert!((input.len() + 1..=MAX_NEEDED).contains(&needed));
            None
        }
        Parsed::Command { consumed, command } => {
            assert!((1..=input.len()).contains(&consumed));
            assert!(command.discard() <= MAX_DISCARD);
            check_arrival(input, consumed, &command, parser);
            check_command(&command);
            let goes_on = !matches!(command, Command::HangUp { .. });
            goes_on.then(|| consumed + command.discard())
        }
    }
}

/// Whatever part of the command has come, it is either the same command or waits for no more than that.
fn check_arrival(input: &[u8], consumed: usize, command: &Command<'_>, parser: Parser) {
    let hangs_up = matches!(command, Command::HangUp { .. });
    for len in beginnings(consumed) {
        match parser(&input[..len], &mut Vec::new()) {
            Parsed::Incomplete { needed } => {
                assert!(needed > len, "it asks for what there is");
                assert!(needed <= consumed, "it waits for what may never come");
            }
            Parsed::Command {
                consumed: early,
                command: found,
            } => {
                assert_eq!(found, *command, "it says something else");
                // Behind the last command nothing is looked at.
                assert!(early == consumed || hangs_up);
            }
            Parsed::Close => assert!(is_long_line(input), "it gives up a good command"),
        }
    }
}

/// Lengths of beginnings of so many bytes: all of a short command, some of a long one, and the whole.
fn beginnings(all: usize) -> impl Iterator<Item = usize> {
    let step = (all / BEGINNINGS).max(1);
    (1..all.min(BEGINNINGS))
        .chain((1..all).step_by(step))
        .chain(all.saturating_sub(2).max(1)..=all)
}

/// Whether the line that `input` begins with is one that closes a connection when it comes without its end.
pub(crate) fn is_long_line(input: &[u8]) -> bool {
    memchr(b'\n', input).is_none_or(|newline| newline > MAX_LINE_LEN)
}

/// A command outlives its bytes, and everything that may be answered to it is well formed.
fn check_command(command: &Command<'_>) {
    match command {
        Command::Request { request, reply } | Command::TooLarge { request, reply, .. } => {
            check_request(request);
            check_reply(reply);
            let key = request.key().unwrap_or_default();
            reading::check_answers(command, reply, key);
        }
        Command::Gets { keys, .. } => {
            assert!(keys.clone().all(is_key));
        }
        Command::Control { reply, .. }
        | Command::Refused { reply, .. }
        | Command::HangUp { reply, .. }
        | Command::Auth { reply, .. } => {
            check_reply(reply);
            reading::check_answers(command, reply, &[]);
        }
        Command::Login { user, password } => {
            assert!(!user.is_empty() && !password.is_empty());
        }
    }
}

fn check_request(request: &Request<'_>) {
    assert!(request.key().is_none_or(is_key));
    if let Request::Store {
        key, flags, data, ..
    } = request
    {
        assert!(fits(key.len(), *flags, data.len()));
    }
    let owned = OwnedRequest::new(*request);
    assert_eq!(owned.as_request(), *request);
}

fn is_key(key: &[u8]) -> bool {
    (1..=MAX_KEY_LEN).contains(&key.len())
}

fn check_reply(reply: &Reply<'_>) {
    assert_eq!(OwnedReply::new(*reply).as_reply(), *reply);
}
