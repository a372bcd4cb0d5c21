//! What a client says before it has logged in: `set <any> <any> <any> <length>`, and as data its user and password.
//!
//! Owns how memcached reads that: everything else is refused line by line, whatever it is.

use memchr::memchr;

use super::super::command::{Command, Parsed};
use super::super::reply::Reply;
use super::super::response::Refusal;
use super::arguments::Arguments;
use super::{MAX_LINE_LEN, number};

const CRLF: &[u8] = b"\r\n";
/// A user and a password are never as long.
const MAX_TOKEN_LEN: u64 = 1024;

/// Looks at the first command in `input`, of a client that has not logged in.
pub fn parse_login(input: &[u8]) -> Parsed<'_> {
    let Some(newline) = memchr(b'\n', input) else {
        return if input.len() > MAX_LINE_LEN {
            Parsed::Close
        } else {
            Parsed::Incomplete {
                needed: input.len() + 1,
            }
        };
    };
    let (line, line_len) = (&input[..newline], newline + 1);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let arguments: Arguments<'_> = Arguments::of(line);
    let len = match arguments.as_slice() {
        [b"set", _, _, _, len, ..] => number::unsigned(len),
        _ => None,
    };
    match len {
        None => refused(line_len, Refusal::Unauthenticated, 0),
        Some(len) if len > MAX_TOKEN_LEN => {
            let discard = usize::try_from(len)
                .unwrap_or(usize::MAX)
                .saturating_add(CRLF.len());
            refused(line_len, Refusal::BadLogin, discard)
        }
        Some(len) => token(input, line_len, len as usize),
    }
}

fn token(input: &[u8], line_len: usize, len: usize) -> Parsed<'_> {
    let consumed = line_len + len + CRLF.len();
    let Some(data) = input.get(line_len..consumed) else {
        return Parsed::Incomplete { needed: consumed };
    };
    let Some(token) = data.strip_suffix(CRLF) else {
        return refused(consumed, Refusal::BadLoginEnd, 0);
    };
    let words: Arguments<'_> = Arguments::of(token);
    let [user, password, ..] = *words.as_slice() else {
        return refused(consumed, Refusal::BadLogin, 0);
    };
    Parsed::Command {
        consumed,
        command: Command::Login { user, password },
    }
}

fn refused<'a>(consumed: usize, refusal: Refusal, discard: usize) -> Parsed<'a> {
    Parsed::Command {
        consumed,
        command: Command::Refused {
            refusal,
            reply: Reply::Line,
            discard,
        },
    }
}
