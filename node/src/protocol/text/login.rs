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
/// memcached reads a length into 32 bits; what does not fit is none, and nothing is skipped for it.
const LEN_END: u64 = u32::MAX as u64;

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
        [b"set", _, _, _, len, ..] => number::unsigned(len).filter(|len| *len < LEN_END),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_no_login_has_hides_no_more_than_memcached_would_skip() {
        let cases = [
            ("1024", Refusal::BadLoginEnd, 0),
            ("1025", Refusal::BadLogin, 1027),
            ("4294967294", Refusal::BadLogin, 4_294_967_296),
            ("4294967295", Refusal::Unauthenticated, 0),
            ("18446744073709551615", Refusal::Unauthenticated, 0),
            ("18446744073709551616", Refusal::Unauthenticated, 0),
            ("-1", Refusal::Unauthenticated, 0),
        ];
        for (len, expected, skipped) in cases {
            let input = format!("set a 0 0 {len}\r\n{:1026}", "user pass");
            let Parsed::Command {
                command:
                    Command::Refused {
                        refusal, discard, ..
                    },
                ..
            } = parse_login(input.as_bytes())
            else {
                panic!("{len} is not refused");
            };
            assert_eq!((refusal, discard), (expected, skipped), "{len}");
        }
    }
}
