//! One command line to one command.
//!
//! Owns each command's arguments, and the order in which memcached checks them, because that order decides
//! which mistake is reported. A wrong number of arguments is always an unknown command.

use super::super::command::{Command, Parsed};
use super::super::meta;
use super::super::reply::Reply;
use super::super::request::{
    ANY_VERSION, Control, Direction, MAX_KEY_LEN, Request, Stats, Steps, StoreMode,
};
use super::super::response::Refusal;
use super::admin;
use super::arguments::{Arguments, Keys};
use super::number;
use crate::store::item::Exptime;

/// Lengths from here on are bad: memcached adds the CRLF in a signed 32-bit number.
pub(in crate::protocol) const DATA_LEN_END: i64 = i32::MAX as i64 - 1;
pub(in crate::protocol) const CRLF: &[u8] = b"\r\n";

/// The command in `line`, which took `line_len` bytes of `input` with its end; data follows there.
pub(super) fn parse_line<'a>(
    line: &'a [u8],
    line_len: usize,
    input: &'a [u8],
    decoded: &'a mut Vec<u8>,
    fits: impl Fn(usize, u64, usize) -> bool,
) -> Parsed<'a> {
    let arguments: Arguments<'_> = Arguments::of(line);
    if let Some(verb) = arguments
        .as_slice()
        .first()
        .and_then(|name| meta::verb(name))
    {
        return meta::parse(verb, &meta::Line::new(line, line_len, input), decoded, fits);
    }
    let noreply = arguments.as_slice().last() == Some(&&b"noreply"[..]);
    if let Some(storage) = storage_line(arguments.as_slice(), noreply) {
        return match storage {
            Ok(storage) => storage.parse(line_len, input, fits),
            Err(refusal) => refused(line_len, refusal, noreply),
        };
    }
    let command = match arguments.as_slice() {
        // Nobody knows bget any more, but memcached.
        [b"get" | b"bget", _, ..] => gets(line, false),
        [b"gets", _, ..] => gets(line, true),
        [b"gat", exptime, ..] => gats(line, exptime, false),
        [b"gats", exptime, ..] => gats(line, exptime, true),
        words => short_command(words, noreply),
    };
    match command {
        Ok(Some(command)) => Parsed::Command {
            consumed: line_len,
            command,
        },
        Ok(None) if is_http(&arguments) => Parsed::Close,
        Ok(None) => refused(line_len, Refusal::UnknownCommand, false),
        Err(refusal @ (Refusal::UnknownCommand | Refusal::BadClass)) => {
            refused(line_len, refusal, false)
        }
        // A get answers whatever its last key is.
        Err(refusal) => refused(line_len, refusal, noreply && !is_get(&arguments)),
    }
}

fn is_get(arguments: &Arguments<'_>) -> bool {
    let name = arguments.as_slice().first();
    name.is_some_and(|name| matches!(*name, b"get" | b"bget" | b"gets" | b"gat" | b"gats"))
}

/// A command without data, `None` when there is none like it.
type ShortCommand<'a> = Result<Option<Command<'a>>, Refusal>;

fn short_command<'a>(words: &[&'a [u8]], noreply: bool) -> ShortCommand<'a> {
    let request = match *words {
        [b"delete", key, ref options @ ..] if options.len() <= 2 => delete(key, options, noreply)?,
        [b"incr", key, delta] | [b"incr", key, delta, _] => {
            arithmetic(Direction::Incr, key, delta)?
        }
        [b"decr", key, delta] | [b"decr", key, delta, _] => {
            arithmetic(Direction::Decr, key, delta)?
        }
        [b"touch", key, exptime] | [b"touch", key, exptime, _] => Request::Touch {
            key: checked_key(key)?,
            exptime: checked_exptime(exptime)?,
        },
        [b"flush_all"] | [b"flush_all", b"noreply"] => Request::FlushAll { delay: Exptime(0) },
        [b"flush_all", delay] | [b"flush_all", delay, _] => Request::FlushAll {
            delay: checked_exptime(delay)?,
        },
        [b"verbosity", level] | [b"verbosity", level, _] => {
            number::unsigned(level).ok_or(Refusal::BadCommandLine)?;
            return Ok(Some(Command::Control {
                control: Control::Verbosity,
                reply: Reply::line_unless(noreply),
            }));
        }
        [b"lease-get", key] => {
            let key = checked_key(key)?;
            return Ok(Some(Command::Request {
                request: Request::LeaseGet { key },
                reply: Reply::Lease,
            }));
        }
        [b"metaget", key] => {
            let key = checked_key(key)?;
            return Ok(Some(Command::Request {
                request: Request::Inspect { key },
                reply: Reply::Metaget,
            }));
        }
        _ => return control_command(words),
    };
    Ok(Some(Command::Request {
        request,
        reply: Reply::line_unless(noreply),
    }))
}

/// The commands that do not mind superfluous arguments, and answer even if the last of them is `noreply`.
fn control_command<'a>(words: &[&'a [u8]]) -> ShortCommand<'a> {
    let control = match *words {
        [b"version", ..] => Control::Version,
        [b"quit", ..] => Control::Quit,
        [b"stats"] => Control::Stats(Stats::General),
        [b"stats", b"detail", b"on", ..] => Control::CountPrefixes(true),
        [b"stats", b"detail", b"off", ..] => Control::CountPrefixes(false),
        [b"stats", b"detail", b"dump", ..] => Control::Stats(Stats::Detail),
        [b"stats", b"detail", ..] => return Err(Refusal::BadStatsDetail),
        [b"stats", group, ..] => Control::Stats(stats_group(group)?),
        _ => match admin::parse(words)? {
            Some(control) => control,
            None => return Ok(None),
        },
    };
    let reply = Reply::line_unless(control == Control::Quit);
    Ok(Some(Command::Control { control, reply }))
}

fn stats_group(group: &[u8]) -> Result<Stats, Refusal> {
    Ok(match group {
        b"settings" => Stats::Settings,
        b"items" => Stats::Items,
        b"slabs" => Stats::Slabs,
        b"sizes" => Stats::Sizes,
        b"conns" => Stats::Conns,
        b"reset" => Stats::Reset,
        _ => return Err(Refusal::UnknownCommand),
    })
}

fn gets(line: &[u8], with_cas: bool) -> ShortCommand<'_> {
    let keys = Keys::of(line, 1).ok_or(Refusal::BadCommandLine)?;
    Ok(Some(Command::Gets {
        keys,
        with_cas,
        touch: None,
    }))
}

fn gats<'a>(line: &'a [u8], exptime: &[u8], with_cas: bool) -> ShortCommand<'a> {
    let touch = Some(checked_exptime(exptime)?);
    let keys = Keys::of(line, 2).ok_or(Refusal::BadCommandLine)?;
    Ok(Some(Command::Gets {
        keys,
        with_cas,
        touch,
    }))
}

/// mcrouter passes the time on that a client names, and memcached of old did not add before it. Neither is done here: the
/// time is looked at and forgotten, or refused where deletes are strict.
fn delete<'a>(key: &'a [u8], options: &[&[u8]], noreply: bool) -> Result<Request<'a>, Refusal> {
    let time = match options {
        [] => None,
        [_] if noreply => None,
        [time] => Some(time),
        [time, _] if noreply => Some(time),
        _ => return Err(Refusal::BadDeleteArguments),
    };
    if time.is_some_and(|time| number::signed(time).is_none()) {
        return Err(Refusal::BadDeleteArguments);
    }
    Ok(Request::Delete {
        key: checked_key(key)?,
        cas: ANY_VERSION,
        // memcached takes no other.
        timed: time.is_some_and(|time| *time != b"0"),
    })
}

fn arithmetic<'a>(
    direction: Direction,
    key: &'a [u8],
    delta: &[u8],
) -> Result<Request<'a>, Refusal> {
    let key = checked_key(key)?;
    let delta = number::unsigned(delta).ok_or(Refusal::BadDelta)?;
    Ok(Request::Arithmetic {
        direction,
        key,
        delta,
        cas: ANY_VERSION,
        initial: 0,
        steps: Steps::default(),
    })
}

/// The line of a command that has data, `None` if it is another.
fn storage_line<'a, 'w>(
    words: &'w [&'a [u8]],
    noreply: bool,
) -> Option<Result<StorageLine<'a, 'w>, Refusal>> {
    let (mode, key, flags, exptime, len) = match *words {
        [b"cas", key, flags, exptime, len, cas] | [b"cas", key, flags, exptime, len, cas, _] => {
            let mode = number::unsigned(cas).map(StoreMode::Cas);
            (mode, key, flags, exptime, len)
        }
        [b"lease-set", key, token, flags, exptime, len]
        | [b"lease-set", key, token, flags, exptime, len, _] => {
            let mode = number::unsigned(token).map(StoreMode::Leased);
            (mode, key, flags, exptime, len)
        }
        [name, key, flags, exptime, len] | [name, key, flags, exptime, len, _] => {
            (Some(store_mode(name)?), key, flags, exptime, len)
        }
        _ => return None,
    };
    let line = mode.ok_or(Refusal::BadCommandLine).map(|mode| StorageLine {
        mode,
        key,
        flags,
        exptime,
        len,
        noreply,
    });
    Some(line)
}

fn store_mode(name: &[u8]) -> Option<StoreMode> {
    Some(match name {
        b"set" => StoreMode::Set,
        b"add" => StoreMode::Add,
        b"replace" => StoreMode::Replace,
        b"append" => StoreMode::Append(ANY_VERSION),
        b"prepend" => StoreMode::Prepend(ANY_VERSION),
        _ => return None,
    })
}

/// A line that announces data.
struct StorageLine<'a, 'w> {
    mode: StoreMode,
    key: &'a [u8],
    flags: &'w [u8],
    exptime: &'w [u8],
    len: &'w [u8],
    noreply: bool,
}

impl<'a> StorageLine<'a, '_> {
    fn parse(
        &self,
        line_len: usize,
        input: &'a [u8],
        fits: impl Fn(usize, u64, usize) -> bool,
    ) -> Parsed<'a> {
        let Some((flags, exptime, len)) = self.numbers() else {
            // The data is then read as the next commands, as memcached does.
            return refused(line_len, Refusal::BadCommandLine, self.noreply);
        };
        let (mode, key, noreply) = (self.mode, self.key, self.noreply);
        let data_len = len + CRLF.len();
        if !fits(key.len(), flags, len) {
            let request = Request::StoreTooLarge { mode, key };
            let command = Command::TooLarge {
                request,
                reply: Reply::line_unless(noreply),
                discard: data_len,
            };
            return Parsed::Command {
                consumed: line_len,
                command,
            };
        }
        let consumed = line_len + data_len;
        let Some(data) = input.get(line_len..consumed) else {
            return Parsed::Incomplete { needed: consumed };
        };
        let Some(data) = data.strip_suffix(CRLF) else {
            return refused(consumed, Refusal::BadDataChunk, noreply);
        };
        let request = Request::Store {
            mode,
            key,
            flags,
            exptime,
            data,
            binary_key: false,
        };
        Parsed::Command {
            consumed,
            command: Command::Request {
                request,
                reply: Reply::line_unless(noreply),
            },
        }
    }

    fn numbers(&self) -> Option<(u64, Exptime, usize)> {
        checked_key(self.key).ok()?;
        let flags = number::unsigned(self.flags)?;
        let exptime = checked_exptime(self.exptime).ok()?;
        let len = number::signed(self.len).filter(|len| (0..DATA_LEN_END).contains(len))?;
        Some((flags, exptime, usize::try_from(len).ok()?))
    }
}

fn checked_key(key: &[u8]) -> Result<&[u8], Refusal> {
    if key.len() <= MAX_KEY_LEN {
        Ok(key)
    } else {
        Err(Refusal::BadCommandLine)
    }
}

/// Exptimes are 32 bits wide, but mcrouter prints its negative ones without a sign: -1 arrives as 4294967295.
fn checked_exptime(text: &[u8]) -> Result<Exptime, Refusal> {
    let exptime = number::signed(text).ok_or(Refusal::BadExptime)?;
    Ok(Exptime(exptime as i32))
}

/// Somebody took the node for a web server, or made a browser send requests here.
fn is_http(arguments: &Arguments<'_>) -> bool {
    arguments
        .as_slice()
        .last()
        .is_some_and(|word| word.starts_with(b"HTTP/"))
}

fn refused<'a>(consumed: usize, refusal: Refusal, noreply: bool) -> Parsed<'a> {
    Parsed::Command {
        consumed,
        command: Command::Refused {
            refusal,
            reply: Reply::line_unless(noreply),
            discard: 0,
        },
    }
}
