//! memcached's binary protocol: bytes to commands.
//!
//! Owns the frame, and which lengths a command takes. What is behind the body that a command should have is taken for the
//! next command, as in memcached. It decides nothing about items.
//!
//! ```text
//!   byte 0      1        2            4        5      6        8           12       16        24
//!        ┌──────┬────────┬────────────┬────────┬──────┬────────┬───────────┬────────┬─────────┬────────┬─────┬───────┐
//!        │ 0x80 │ opcode │ key length │ extras │ type │ vbucket│ body      │ opaque │   cas   │ extras │ key │ value │
//!        │      │        │            │ length │      │        │ length    │        │         │        │     │       │
//!        └──────┴────────┴────────────┴────────┴──────┴────────┴───────────┴────────┴─────────┴────────┴─────┴───────┘
//!                                                                                            body: the last three
//! ```

mod compose;
mod opcode;
#[cfg(test)]
mod tests;

use super::command::{Auth, Command, Parsed};
use super::reply::{Reply, ShownCas};
use super::request::{
    ANY_VERSION, Control, Direction, MAX_KEY_LEN, Request, Stats, Step, Steps, StoreMode,
};
use super::response::Refusal;
use crate::store::item::Exptime;
pub use compose::compose;
pub use opcode::{Opcode, Verb};

/// What a connection that speaks binary begins with.
pub const MAGIC: u8 = 0x80;
const HEADER_LEN: usize = 24;
/// A counter with this exptime is not created.
const DO_NOT_CREATE: u32 = u32::MAX;
/// What a client may say to show who it is, in bytes.
const MAX_AUTH_LEN: usize = 4096;

/// What the answer to a binary command needs to know about the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub opcode: Opcode,
    /// Sent back as it came.
    pub opaque: [u8; 4],
    pub cas: ShownCas,
}

/// A command, as far as it must be there before anything can be said about it.
#[derive(Clone, Copy)]
struct Frame<'a> {
    form: Form,
    cas: u64,
    extras: &'a [u8],
    key: &'a [u8],
    /// Of the value, which is what remains of the body.
    value_len: usize,
    /// Everything that came behind the key.
    rest: &'a [u8],
}

/// Why a command is not carried out.
struct Fault(Refusal);

/// Looks at the first command in `input`. `fits` says whether an item of these lengths (key, flags, data) may
/// be stored.
pub fn parse(input: &[u8], fits: impl Fn(usize, u64, usize) -> bool) -> Parsed<'_> {
    let Some((header, rest)) = input.split_first_chunk::<HEADER_LEN>() else {
        return Parsed::Incomplete { needed: HEADER_LEN };
    };
    if header[0] != MAGIC {
        return Parsed::Close;
    }
    let [_, opcode, key_high, key_low, extras_len, _, _, _, body @ ..] = *header;
    let key_len = usize::from(u16::from_be_bytes([key_high, key_low]));
    let extras_len = usize::from(extras_len);
    let Some((before_value, rest)) = rest.split_at_checked(extras_len + key_len) else {
        return Parsed::Incomplete {
            needed: HEADER_LEN + extras_len + key_len,
        };
    };
    let (extras, key) = before_value.split_at(extras_len);
    let form = Form {
        opcode: Opcode(opcode),
        opaque: [body[4], body[5], body[6], body[7]],
        cas: ShownCas::Cas,
    };
    let body_len = be_u32(&body) as usize;
    let Some(value_len) = body_len.checked_sub(extras_len + key_len) else {
        return hang_up(form, Refusal::UnknownCommand, input);
    };
    if key_len > MAX_KEY_LEN {
        return hang_up(form, Refusal::BadCommandLine, input);
    }
    let frame = Frame {
        form,
        cas: be_u64(&body[8..]),
        extras,
        key,
        value_len,
        rest,
    };
    frame.parse(input, fits)
}

/// After this nobody knows where the next command begins.
fn hang_up(form: Form, refusal: Refusal, input: &[u8]) -> Parsed<'_> {
    Parsed::Command {
        consumed: input.len(),
        command: Command::HangUp {
            refusal,
            reply: Reply::Binary(form),
        },
    }
}

impl<'a> Frame<'a> {
    fn parse(self, input: &'a [u8], fits: impl Fn(usize, u64, usize) -> bool) -> Parsed<'a> {
        let consumed = input.len() - self.rest.len();
        let refused = |refusal, discard| Parsed::Command {
            consumed,
            command: Command::Refused {
                refusal,
                reply: Reply::Binary(self.form),
                discard,
            },
        };
        let Some(verb) = self.form.opcode.verb() else {
            return refused(Refusal::UnknownCommand, self.value_len);
        };
        let parsed = match verb {
            Verb::Set | Verb::Add | Verb::Replace | Verb::Append | Verb::Prepend => {
                self.store(verb, consumed, fits)
            }
            Verb::SaslAuth | Verb::SaslStep if self.value_len > MAX_AUTH_LEN => {
                Ok(refused(Refusal::UnknownCommand, self.value_len))
            }
            Verb::SaslAuth | Verb::SaslStep => self.auth(verb, consumed),
            _ => self
                .without_value(verb)
                .map(|command| Parsed::Command { consumed, command }),
        };
        parsed.unwrap_or_else(|Fault(refusal)| hang_up(self.form, refusal, input))
    }

    fn without_value(&self, verb: Verb) -> Result<Command<'a>, Fault> {
        let request = match verb {
            Verb::Get | Verb::GetKey => self.get(None)?,
            Verb::Touch | Verb::GetAndTouch | Verb::GetKeyAndTouch => {
                self.check(self.extras.len() == 4 && !self.key.is_empty())?;
                self.touching(exptime(be_u32(self.extras)))
            }
            Verb::Delete => {
                self.check_key_alone()?;
                Request::Delete {
                    key: self.key,
                    cas: self.cas,
                    timed: false,
                }
            }
            Verb::Increment => self.arithmetic(Direction::Incr)?,
            Verb::Decrement => self.arithmetic(Direction::Decr)?,
            Verb::Flush => self.flush()?,
            _ => return self.control(verb),
        };
        Ok(Command::Request {
            request,
            reply: Reply::Binary(self.form),
        })
    }

    fn get(&self, touch: Option<Exptime>) -> Result<Request<'a>, Fault> {
        self.check_key_alone()?;
        Ok(Request::Get {
            key: self.key,
            touch,
        })
    }

    fn touching(&self, exptime: Exptime) -> Request<'a> {
        Request::Get {
            key: self.key,
            touch: Some(exptime),
        }
    }

    fn arithmetic(&self, direction: Direction) -> Result<Request<'a>, Fault> {
        self.check(self.extras.len() == 20 && !self.key.is_empty() && self.value_len == 0)?;
        let expires = be_u32(&self.extras[16..]);
        let mut steps = Steps::default();
        if expires != DO_NOT_CREATE {
            steps.push(Step::Create(exptime(expires)));
        }
        Ok(Request::Arithmetic {
            direction,
            key: self.key,
            delta: be_u64(self.extras),
            cas: self.cas,
            initial: be_u64(&self.extras[8..]),
            steps,
        })
    }

    fn flush(&self) -> Result<Request<'a>, Fault> {
        let lengths = self.key.is_empty() && self.value_len == 0;
        self.check(lengths && matches!(self.extras.len(), 0 | 4))?;
        let delay = if self.extras.is_empty() {
            Exptime(0)
        } else {
            exptime(be_u32(self.extras))
        };
        Ok(Request::FlushAll { delay })
    }

    fn control(&self, verb: Verb) -> Result<Command<'a>, Fault> {
        let reply = Reply::Binary(self.form);
        if verb == Verb::Stat {
            self.check(self.extras.is_empty())?;
            return Ok(match stats(self.key) {
                Some(control) => Command::Control { control, reply },
                None => Command::Refused {
                    refusal: Refusal::NoSuchStats,
                    reply,
                    discard: 0,
                },
            });
        }
        self.check(self.extras.is_empty() && self.key.is_empty() && self.value_len == 0)?;
        let control = match verb {
            Verb::Quit => Control::Quit,
            Verb::Version => Control::Version,
            Verb::SaslList => {
                let auth = Auth::ListMechanisms;
                return Ok(Command::Auth { auth, reply });
            }
            _ => Control::Noop,
        };
        Ok(Command::Control { control, reply })
    }

    fn store(
        &self,
        verb: Verb,
        before_value: usize,
        fits: impl Fn(usize, u64, usize) -> bool,
    ) -> Result<Parsed<'a>, Fault> {
        let joins = matches!(verb, Verb::Append | Verb::Prepend);
        let extras_len = if joins { 0 } else { 8 };
        self.check(self.extras.len() == extras_len && !self.key.is_empty())?;
        let (flags, expires) = if joins {
            (0, 0)
        } else {
            (be_u32(self.extras), be_u32(&self.extras[4..]))
        };
        let reply = Reply::Binary(self.form);
        if !fits(self.key.len(), flags.into(), self.value_len) {
            return Ok(Parsed::Command {
                consumed: before_value,
                command: Command::TooLarge {
                    request: Request::StoreTooLarge {
                        mode: store_mode(verb, ANY_VERSION),
                        key: self.key,
                    },
                    reply,
                    discard: self.value_len,
                },
            });
        }
        let consumed = before_value + self.value_len;
        let Some(data) = self.rest.get(..self.value_len) else {
            return Ok(Parsed::Incomplete { needed: consumed });
        };
        let request = Request::Store {
            mode: store_mode(verb, self.cas),
            key: self.key,
            flags: flags.into(),
            exptime: exptime(expires),
            data,
            binary_key: false,
        };
        Ok(Parsed::Command {
            consumed,
            command: Command::Request { request, reply },
        })
    }

    fn auth(&self, verb: Verb, before_value: usize) -> Result<Parsed<'a>, Fault> {
        self.check(self.extras.is_empty() && !self.key.is_empty())?;
        let consumed = before_value + self.value_len;
        let Some(data) = self.rest.get(..self.value_len) else {
            return Ok(Parsed::Incomplete { needed: consumed });
        };
        let mechanism = self.key;
        let auth = match verb {
            Verb::SaslAuth => Auth::Start { mechanism, data },
            _ => Auth::Step { mechanism, data },
        };
        let reply = Reply::Binary(self.form);
        Ok(Parsed::Command {
            consumed,
            command: Command::Auth { auth, reply },
        })
    }

    fn check_key_alone(&self) -> Result<(), Fault> {
        self.check(self.extras.is_empty() && !self.key.is_empty() && self.value_len == 0)
    }

    fn check(&self, valid: bool) -> Result<(), Fault> {
        valid.then_some(()).ok_or(Fault(Refusal::BadCommandLine))
    }
}

/// With a cas, whatever is stored is stored over that version.
fn store_mode(verb: Verb, cas: u64) -> StoreMode {
    match verb {
        Verb::Append => StoreMode::Append(cas),
        Verb::Prepend => StoreMode::Prepend(cas),
        _ if cas != ANY_VERSION => StoreMode::Cas(cas),
        Verb::Add => StoreMode::Add,
        Verb::Replace => StoreMode::Replace,
        _ => StoreMode::Set,
    }
}

/// memcached looks only at how these names begin.
fn stats(key: &[u8]) -> Option<Control> {
    Some(match key {
        b"" => Control::Stats(Stats::General),
        b"items" => Control::Stats(Stats::Items),
        b"slabs" => Control::Stats(Stats::Slabs),
        b"sizes" => Control::Stats(Stats::Sizes),
        key if key.starts_with(b"reset") => Control::Stats(Stats::Reset),
        key if key.starts_with(b"settings") => Control::Stats(Stats::Settings),
        key if key.starts_with(b"detail dump") => Control::Stats(Stats::Detail),
        key if key.starts_with(b"detail on") => Control::CountPrefixes(true),
        key if key.starts_with(b"detail off") => Control::CountPrefixes(false),
        _ => return None,
    })
}

/// There are no negative exptimes: what would be one is so far away that nobody will tell the difference.
fn exptime(seconds: u32) -> Exptime {
    Exptime(i32::try_from(seconds).unwrap_or(i32::MAX))
}

/// The number that `bytes` begin with.
fn be_u32(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .take(4)
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn be_u64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
