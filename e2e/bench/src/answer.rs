//! What a server must answer, and whether it did.
//!
//! Owns the answers' bytes: pure functions from an expectation and what has arrived so far to an outcome. Every
//! byte of a value is compared with the value that belongs to the key.

use crate::keys::{COUNTER_START, Keys};

/// One thing that must come next.
#[derive(Clone, Copy, Debug)]
pub struct Expect {
    pub what: What,
    pub id: u64,
    /// When the request was due, in nanoseconds since the load began.
    pub due: u64,
}

impl Expect {
    /// `what` about the item `id`, for the request that was due at `due`.
    #[must_use]
    pub fn new(what: What, id: u64, due: u64) -> Self {
        Self { what, id, due }
    }
}

/// The kinds of answers. A `get` of n keys expects n values and an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Value,
    ValueWithCas,
    End,
    Stored,
    StoredByCas,
    Count,
    Added,
    Deleted,
}

impl What {
    /// Whether a request is answered when this has come.
    #[must_use]
    pub fn completes(self) -> bool {
        !matches!(self, Self::Value | Self::ValueWithCas)
    }
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// More bytes are needed.
    More,
    /// This many bytes are the answer.
    Took(usize, Outcome),
    /// This is no answer to what was asked.
    Wrong(&'static str),
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Hit,
    /// A hit with its cas number.
    HitWithCas(u64),
    Miss,
    /// Somebody else changed the item first.
    CasLost,
    /// `SERVER_ERROR`: the server understood and could not.
    Refused,
}

/// Reads the answer to `expect` from the front of `bytes`.
#[inline]
#[must_use]
pub fn scan(expect: &Expect, keys: &Keys, bytes: &[u8]) -> Scan {
    match expect.what {
        What::Value => value(expect.id, keys, bytes),
        What::ValueWithCas => value_with_cas(expect.id, keys, bytes),
        What::End => line(bytes, b"END\r\n", Outcome::Done, &[]),
        What::Stored => line(bytes, b"STORED\r\n", Outcome::Done, &[]),
        What::StoredByCas => line(
            bytes,
            b"STORED\r\n",
            Outcome::Done,
            &[("EXISTS", Outcome::CasLost), ("NOT_FOUND", Outcome::Miss)],
        ),
        What::Added => line(
            bytes,
            b"STORED\r\n",
            Outcome::Done,
            &[("NOT_STORED", Outcome::Done)],
        ),
        What::Deleted => line(
            bytes,
            b"DELETED\r\n",
            Outcome::Done,
            &[("NOT_FOUND", Outcome::Miss)],
        ),
        What::Count => count(bytes),
    }
}

/// An answer of one line: the usual one, or one of `others`.
#[inline]
fn line(bytes: &[u8], usual: &[u8], outcome: Outcome, others: &[(&str, Outcome)]) -> Scan {
    if bytes.starts_with(usual) {
        return Scan::Took(usual.len(), outcome);
    }
    other_line(bytes, others)
}

#[cold]
fn other_line(bytes: &[u8], others: &[(&str, Outcome)]) -> Scan {
    let Some((line, length)) = first_line(bytes) else {
        return Scan::More;
    };
    if line.starts_with(b"SERVER_ERROR") {
        return Scan::Took(length, Outcome::Refused);
    }
    match others.iter().find(|(text, _)| text.as_bytes() == line) {
        Some((_, outcome)) => Scan::Took(length, *outcome),
        None => Scan::Wrong("an answer to something else"),
    }
}

/// The first line without its end, and its length with it.
fn first_line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], end + 2))
}

/// Whether a value may follow: `None` while that cannot be told. Anything else than `VALUE` is a miss of this key,
/// and what it is will be looked at when the end is expected.
fn value_follows(bytes: &[u8]) -> Option<bool> {
    const VALUE: &[u8] = b"VALUE ";
    if bytes.starts_with(VALUE) {
        return Some(true);
    }
    (!VALUE.starts_with(bytes)).then_some(false)
}

/// `VALUE KEY FLAGS LENGTH\r\nDATA\r\n`
#[inline]
fn value(id: u64, keys: &Keys, bytes: &[u8]) -> Scan {
    match header(id, keys, bytes) {
        Header::More => Scan::More,
        Header::Other => Scan::Took(0, Outcome::Miss),
        Header::Wrong => Scan::Wrong("flags or length of another value"),
        Header::Matches(at) => match bytes[at..].get(..2) {
            None => Scan::More,
            Some(b"\r\n") => data(id, keys, bytes, at + 2, Outcome::Hit),
            Some(_) => Scan::Wrong("length of another value"),
        },
    }
}

/// `VALUE KEY FLAGS LENGTH CAS\r\nDATA\r\n`
fn value_with_cas(id: u64, keys: &Keys, bytes: &[u8]) -> Scan {
    let at = match header(id, keys, bytes) {
        Header::More => return Scan::More,
        Header::Other => return Scan::Took(0, Outcome::Miss),
        Header::Wrong => return Scan::Wrong("flags or length of another value"),
        Header::Matches(at) => at,
    };
    let Some((rest, length)) = first_line(&bytes[at..]) else {
        return Scan::More;
    };
    let unique = rest
        .strip_prefix(b" ")
        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    match unique {
        Some(unique) => data(id, keys, bytes, at + length, Outcome::HitWithCas(unique)),
        None => Scan::Wrong("no cas number"),
    }
}

enum Header {
    More,
    /// Not a value, or the value of another key.
    Other,
    Wrong,
    /// The key is the right one, and so are flags and length, which end here.
    Matches(usize),
}

#[inline]
fn header(id: u64, keys: &Keys, bytes: &[u8]) -> Header {
    const KEY_AT: usize = 6;
    match value_follows(bytes) {
        None => return Header::More,
        Some(false) => return Header::Other,
        Some(true) => {}
    }
    let length_at = KEY_AT + keys.key_len();
    let end = length_at + keys.flags_and_length().len();
    let Some(key) = bytes.get(KEY_AT..length_at) else {
        return Header::More;
    };
    if !keys.is_key(key, id) {
        return Header::Other;
    }
    match bytes.get(length_at..end) {
        None => Header::More,
        Some(found) if found == keys.flags_and_length() => Header::Matches(end),
        Some(_) => Header::Wrong,
    }
}

#[inline]
fn data(id: u64, keys: &Keys, bytes: &[u8], at: usize, outcome: Outcome) -> Scan {
    let value = keys.value(id);
    let end = at + value.len();
    if bytes.len() < end + 2 {
        return Scan::More;
    }
    if &bytes[at..end] != value || &bytes[end..end + 2] != b"\r\n" {
        return Scan::Wrong("the value of another key, or a damaged one");
    }
    Scan::Took(end + 2, outcome)
}

/// The number of a counter, which never falls below its start.
fn count(bytes: &[u8]) -> Scan {
    let Some((line, length)) = first_line(bytes) else {
        return Scan::More;
    };
    let number = std::str::from_utf8(line)
        .ok()
        .and_then(|digits| digits.parse::<u64>().ok());
    match number {
        Some(number) if number > COUNTER_START => Scan::Took(length, Outcome::Done),
        Some(_) => Scan::Wrong("a counter below its start"),
        None => other_line(bytes, &[("NOT_FOUND", Outcome::Miss)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::new(13, 5)
    }

    fn answer(id: u64, value_of: u64, cas: &str) -> Vec<u8> {
        let keys = keys();
        let mut answer = b"VALUE ".to_vec();
        keys.push_key(id, &mut answer);
        answer.extend_from_slice(format!(" 0 5{cas}\r\n").as_bytes());
        answer.extend_from_slice(keys.value(value_of));
        answer.extend_from_slice(b"\r\n");
        answer
    }

    fn ask(what: What, bytes: &[u8]) -> Scan {
        scan(&Expect::new(what, 1, 0), &keys(), bytes)
    }

    #[test]
    fn a_value_is_taken_when_all_of_it_is_there() {
        for (what, cas, outcome) in [
            (What::Value, "", Outcome::Hit),
            (What::ValueWithCas, " 77", Outcome::HitWithCas(77)),
        ] {
            let answer = answer(1, 1, cas);
            for length in 0..answer.len() {
                assert_eq!(ask(what, &answer[..length]), Scan::More, "{length} bytes");
            }
            assert_eq!(ask(what, &answer), Scan::Took(answer.len(), outcome));
        }
    }

    #[test]
    fn the_value_of_another_key_is_wrong() {
        assert!(matches!(
            ask(What::Value, &answer(1, 2, "")),
            Scan::Wrong(_)
        ));
    }

    #[test]
    fn another_key_is_a_miss_and_wrong_where_the_end_must_come() {
        let other = answer(2, 2, "");
        assert_eq!(ask(What::Value, &other), Scan::Took(0, Outcome::Miss));
        assert!(matches!(ask(What::End, &other), Scan::Wrong(_)));
    }

    #[test]
    fn lines_mean_what_the_protocol_says() {
        for (what, line, outcome) in [
            (What::Value, "END", Outcome::Miss),
            (What::End, "END", Outcome::Done),
            (What::Stored, "STORED", Outcome::Done),
            (What::Stored, "SERVER_ERROR out of memory", Outcome::Refused),
            (What::StoredByCas, "EXISTS", Outcome::CasLost),
            (What::StoredByCas, "NOT_FOUND", Outcome::Miss),
            (What::Count, "1000000001", Outcome::Done),
            (What::Count, "NOT_FOUND", Outcome::Miss),
            (What::Deleted, "DELETED", Outcome::Done),
            (What::Deleted, "NOT_FOUND", Outcome::Miss),
        ] {
            let bytes = format!("{line}\r\n");
            let length = if what == What::Value { 0 } else { bytes.len() };
            assert_eq!(
                ask(what, bytes.as_bytes()),
                Scan::Took(length, outcome),
                "{line}"
            );
        }
    }

    #[test]
    fn answers_to_something_else_are_wrong() {
        for (what, line) in [
            (What::Stored, "NOT_STORED"),
            (What::Stored, "ERROR"),
            (What::Deleted, "STORED"),
            (What::End, "CLIENT_ERROR bad data chunk"),
            (What::Count, "7"),
        ] {
            let bytes = format!("{line}\r\n");
            assert!(
                matches!(ask(what, bytes.as_bytes()), Scan::Wrong(_)),
                "{line}"
            );
        }
    }
}
