//! memcached's classic text protocol: bytes to commands.
//!
//! Owns the grammar of memcached's `doc/protocol.txt`, as memcached reads it: which arguments a command takes,
//! which mistakes are answered how, and which of them close the connection. It decides nothing about items.
//!
//! A command is one line, which ends in `\n` and may end in `\r\n`. The storage commands are followed by as
//! many bytes as the line says and `\r\n`. Only `get`, `gets`, `gat` and `gats` take several keys; they are
//! handed on key by key, so that an answer need not fit into memory.

mod admin;
mod arguments;
mod commands;
mod compose;
mod login;
pub(super) mod mcrouter;
pub(super) mod number;

use memchr::memchr;

use super::command::Parsed;
pub use arguments::Keys;
pub(super) use arguments::{Arguments, Words};
pub(super) use commands::{CRLF, DATA_LEN_END};
pub use compose::{END, compose};
pub use login::parse_login;
/// A counter's value, or `None` when the data is no number.
pub use number::unsigned as parse_counter;

/// Without a newline in so many bytes a line is no command, unless it is a get (memcached closes there too).
const MAX_LINE_LEN: usize = 2048;
/// A get may have many keys. memcached reads them until it runs out of memory; here it is enough for 4,000
/// of the longest keys.
const MAX_GET_LINE_LEN: usize = 1 << 20;

/// Looks at the first command in `input`. `fits` says whether an item of these lengths (key, flags, data) may
/// be stored, `decoded` is room for a key that must be decoded.
pub fn parse<'a>(
    input: &'a [u8],
    decoded: &'a mut Vec<u8>,
    fits: impl Fn(usize, u64, usize) -> bool,
) -> Parsed<'a> {
    let Some(newline) = memchr(b'\n', input) else {
        return unfinished_line(input);
    };
    let line = match &input[..newline] {
        [line @ .., b'\r'] => line,
        line => line,
    };
    commands::parse_line(line, newline + 1, input, decoded, fits)
}

fn unfinished_line(input: &[u8]) -> Parsed<'_> {
    let limit = if starts_like_a_get(input) {
        MAX_GET_LINE_LEN
    } else {
        MAX_LINE_LEN
    };
    if input.len() > limit {
        Parsed::Close
    } else {
        Parsed::Incomplete {
            needed: input.len() + 1,
        }
    }
}

fn starts_like_a_get(input: &[u8]) -> bool {
    let command = input.trim_ascii_start();
    [&b"get "[..], b"gets ", b"gat ", b"gats "]
        .iter()
        .any(|get| command.starts_with(get))
}

#[cfg(test)]
mod tests;
