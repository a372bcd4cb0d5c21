//! memcached's meta commands: lines of the text protocol to requests.
//!
//! Owns `mg`, `ms`, `md`, `ma`, `me` and `mn` as memcached's `doc/protocol.txt` has them, and the order in which memcached
//! checks them, because that order decides which mistake is reported. It decides nothing about items.
//!
//! ```text
//!   mg Zm9v b t v O123 q
//!   │  │    └─ flags: a letter, and a token behind some of them ([`flags`])
//!   │  └─ key, in base64 if there is a flag b
//!   └─ verb
//! ```
//!
//! The answer repeats what the flags ask for, in their order ([`compose`]).

mod base64;
mod compose;
mod flags;
mod mistake;
#[cfg(test)]
mod tests;

use super::command::{Command, Parsed};
use super::reply::{Reply, ShownCas};
use super::request::{
    ANY_VERSION, Control, Direction, MAX_KEY_LEN, Request, StoreMode, VERSION_ZERO,
};
use super::response::Refusal;
use super::text::{Arguments, CRLF, DATA_LEN_END, Words, number};
use crate::store::item::Exptime;
pub use compose::compose;
use flags::Flags;
pub use mistake::Mistake;

/// With the verb and the key; memcached's `MFLAG_MAX_OPT_LENGTH`, without the end of the line that it counts too.
const MAX_WORDS: usize = 19;

/// What the answer to a meta command needs to know about the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form<'a> {
    pub verb: Verb,
    /// Whether the key was sent in base64.
    pub base64: bool,
    /// What goes without saying is not said.
    pub quiet: bool,
    /// The value is asked for.
    pub value: bool,
    /// The cas, where the flags ask for it.
    pub cas: ShownCas,
    /// The flags as they came.
    pub flags: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Set,
    Delete,
    Arithmetic,
    Debug,
    Noop,
}

/// A line that begins with the name of a meta command, and what may follow it.
pub(super) struct Line<'a> {
    pub(super) words: Arguments<'a, { MAX_WORDS + 1 }>,
    /// Without its end.
    pub(super) text: &'a [u8],
    /// With its end.
    pub(super) len: usize,
    /// The line and what came behind it.
    pub(super) input: &'a [u8],
}

impl<'a> Line<'a> {
    /// `text` and `len` bytes of `input` are a line; the rest came behind it.
    pub(super) fn new(text: &'a [u8], len: usize, input: &'a [u8]) -> Self {
        Self {
            words: Arguments::of(text),
            text,
            len,
            input,
        }
    }

    /// What is left of the text behind so many words.
    fn behind(&self, count: usize) -> &'a [u8] {
        let mut words = Words::of(self.text);
        words.by_ref().take(count).for_each(drop);
        words.rest()
    }
}

/// What is wrong with a command, and how many bytes of data follow it.
struct Fault {
    refusal: Refusal,
    discard: usize,
}

impl<R: Into<Refusal>> From<R> for Fault {
    fn from(refusal: R) -> Self {
        Self {
            refusal: refusal.into(),
            discard: 0,
        }
    }
}

/// The verb that a line begins with.
pub(super) fn verb(word: &[u8]) -> Option<Verb> {
    Some(match word {
        b"mg" => Verb::Get,
        b"ms" => Verb::Set,
        b"md" => Verb::Delete,
        b"ma" => Verb::Arithmetic,
        b"me" => Verb::Debug,
        b"mn" => Verb::Noop,
        _ => return None,
    })
}

/// Parses a line. `decoded` is room for a key that comes in base64.
pub(super) fn parse<'a>(
    verb: Verb,
    line: &Line<'a>,
    decoded: &'a mut Vec<u8>,
    fits: impl Fn(usize, u64, usize) -> bool,
) -> Parsed<'a> {
    let parsed = match verb {
        Verb::Noop => Ok(noop()),
        Verb::Debug => debug(line, decoded),
        Verb::Set => match set(line, decoded, fits) {
            Ok(parsed) => return parsed,
            Err(fault) => Err(fault),
        },
        Verb::Get | Verb::Delete | Verb::Arithmetic => without_data(verb, line, decoded),
    };
    let command = parsed.unwrap_or_else(|fault| Command::Refused {
        refusal: fault.refusal,
        reply: Reply::Line,
        discard: fault.discard,
    });
    Parsed::Command {
        consumed: line.len,
        command,
    }
}

fn noop<'a>() -> Command<'a> {
    let form = Form {
        verb: Verb::Noop,
        base64: false,
        quiet: false,
        value: false,
        cas: ShownCas::Cas,
        flags: &[],
    };
    Command::Control {
        control: Control::Noop,
        reply: Reply::Meta(form),
    }
}

fn debug<'a>(line: &Line<'a>, decoded: &'a mut Vec<u8>) -> Result<Command<'a>, Fault> {
    let [_, key, flags @ ..] = line.words.as_slice() else {
        return Err(Refusal::BadCommandLine.into());
    };
    if key.len() > MAX_KEY_LEN {
        return Err(Refusal::BadCommandLine.into());
    }
    let base64 = flags.first() == Some(&&b"b"[..]);
    let key = if base64 {
        base64::decode(key, decoded).ok_or(Refusal::BadCommandLine)?
    } else {
        key
    };
    let form = Form {
        verb: Verb::Debug,
        base64,
        quiet: false,
        value: false,
        cas: ShownCas::Cas,
        flags: &[],
    };
    Ok(Command::Request {
        request: Request::Inspect { key },
        reply: Reply::Meta(form),
    })
}

/// The key as it was sent, after the checks that come first.
fn raw_key<'a>(line: &Line<'a>, too_many: Mistake) -> Result<&'a [u8], Refusal> {
    let words = line.words.as_slice();
    let key = *words.get(1).ok_or(Refusal::UnknownCommand)?;
    if key.len() > MAX_KEY_LEN || (too_many == Mistake::TooManySetFlags && words.len() == 2) {
        return Err(Refusal::BadCommandLine);
    }
    if words.len() > MAX_WORDS {
        return Err(too_many.into());
    }
    Ok(key)
}

fn without_data<'a>(
    verb: Verb,
    line: &Line<'a>,
    decoded: &'a mut Vec<u8>,
) -> Result<Command<'a>, Fault> {
    let too_many = match verb {
        Verb::Get => Mistake::TooManyGetFlags,
        _ => Mistake::TooManyFlags,
    };
    let key = raw_key(line, too_many)?;
    let flags = Flags::parse(line.behind(2), key, decoded).map_err(|refusal| match verb {
        Verb::Get => refusal,
        _ => Mistake::InvalidOrDuplicate.into(),
    })?;
    let form = flags.form(verb);
    let key = if flags.base64 { &decoded[..] } else { key };
    if flags.opaque_too_long {
        return Err(Mistake::OpaqueTooLong.into());
    }
    let request = match verb {
        Verb::Get => Request::MetaGet {
            key,
            steps: flags.steps,
            read: !flags.no_update,
        },
        Verb::Delete => delete(key, &flags),
        _ => arithmetic(key, &flags)?,
    };
    Ok(Command::Request {
        request,
        reply: Reply::Meta(form),
    })
}

fn delete<'a>(key: &'a [u8], flags: &Flags<'_>) -> Request<'a> {
    // No version has the cas 0, and whoever asks for it gets none.
    let cas = match flags.cas {
        Some(ANY_VERSION) => VERSION_ZERO,
        cas => cas.unwrap_or(ANY_VERSION),
    };
    if flags.invalidate {
        Request::Invalidate {
            key,
            cas,
            exptime: flags.exptime,
        }
    } else {
        Request::Delete {
            key,
            cas,
            timed: false,
        }
    }
}

fn arithmetic<'a>(key: &'a [u8], flags: &Flags<'_>) -> Result<Request<'a>, Mistake> {
    let direction = match flags.mode {
        None | Some(b'I' | b'+') => Direction::Incr,
        Some(b'D' | b'-') => Direction::Decr,
        Some(_) => return Err(Mistake::ArithmeticMode),
    };
    Ok(Request::Arithmetic {
        direction,
        key,
        delta: flags.delta.unwrap_or(1),
        cas: flags.cas.unwrap_or(ANY_VERSION),
        initial: flags.initial,
        steps: flags.steps,
    })
}

fn set<'a>(
    line: &Line<'a>,
    decoded: &'a mut Vec<u8>,
    fits: impl Fn(usize, u64, usize) -> bool,
) -> Result<Parsed<'a>, Fault> {
    let key = raw_key(line, Mistake::TooManySetFlags)?;
    let len = number::signed(line.words.as_slice()[2])
        .filter(|len| (0..DATA_LEN_END).contains(len))
        .and_then(|len| usize::try_from(len).ok())
        .ok_or(Refusal::BadCommandLine)?;
    let data_len = len + CRLF.len();
    // From here on the data is known to be data, whatever is wrong with the line.
    let with_data = |refusal: Refusal| Fault {
        refusal,
        discard: data_len,
    };
    let flags = Flags::parse(line.behind(3), key, decoded).map_err(with_data)?;
    let mode = store_mode(&flags).map_err(|mistake| with_data(mistake.into()))?;
    if flags.opaque_too_long {
        return Err(with_data(Mistake::OpaqueTooLong.into()));
    }
    let reply = Reply::Meta(flags.form(Verb::Set));
    let key = if flags.base64 { &decoded[..] } else { key };
    if !fits(key.len(), flags.client_flags, len) {
        return Ok(too_large(line.len, key, data_len));
    }
    let consumed = line.len + data_len;
    let Some(data) = line.input.get(line.len..consumed) else {
        return Ok(Parsed::Incomplete { needed: consumed });
    };
    let command = match data.strip_suffix(CRLF) {
        Some(data) => Command::Request {
            request: Request::Store {
                mode,
                key,
                flags: flags.client_flags,
                exptime: flags.exptime.unwrap_or(Exptime(0)),
                data,
                binary_key: flags.base64,
            },
            reply,
        },
        None => Command::Refused {
            refusal: Refusal::BadDataChunk,
            reply: Reply::Line,
            discard: 0,
        },
    };
    Ok(Parsed::Command { consumed, command })
}

/// A value over the limit takes the old value away, whatever the mode.
fn too_large(line_len: usize, key: &[u8], discard: usize) -> Parsed<'_> {
    let mode = StoreMode::Set;
    Parsed::Command {
        consumed: line_len,
        command: Command::TooLarge {
            request: Request::StoreTooLarge { mode, key },
            reply: Reply::Line,
            discard,
        },
    }
}

/// With a cas, storing over what is there is storing over that version of it.
fn store_mode(flags: &Flags<'_>) -> Result<StoreMode, Mistake> {
    let any = flags.cas.unwrap_or(ANY_VERSION);
    Ok(match (flags.mode, flags.cas) {
        (None | Some(b'S' | b'R'), Some(cas)) if flags.invalidate => StoreMode::CasOrStale(cas),
        (None | Some(b'S' | b'R'), Some(cas)) => StoreMode::Cas(cas),
        (None | Some(b'S'), None) => StoreMode::Set,
        (Some(b'R'), None) => StoreMode::Replace,
        (Some(b'E'), _) => StoreMode::Add,
        (Some(b'A'), _) => StoreMode::Append(any),
        (Some(b'P'), _) => StoreMode::Prepend(any),
        (Some(_), _) => return Err(Mistake::SetMode),
    })
}

/// Appends a key as it is written with the flag b.
pub fn encode_key(key: &[u8], out: &mut impl Extend<u8>) {
    base64::encode(key, out);
}
