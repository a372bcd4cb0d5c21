//! Answers as a client reads them.
//!
//! Owns what may be answered to a command, in bytes: its form, what it repeats of the command, and where it ends. A client
//! that is told something else loses its place among the answers, for good.

mod binary;
mod meta;

use bytes::BytesMut;
use memchr::memmem;
use petra_node::protocol::command::Command;
use petra_node::protocol::reply::Reply;
use petra_node::protocol::request::{Control, Dump, Request, Stats};
use petra_node::protocol::response::{Refusal, Response};
use petra_node::protocol::text::{END, Keys};

const CRLF: &[u8] = b"\r\n";
/// What can go wrong with any request.
const FAILURES: [Refusal; 4] = [
    Refusal::Busy,
    Refusal::OutOfMemory,
    Refusal::StorageFailed,
    Refusal::TooLarge,
];

/// Ways to go on: how many bytes of the answers have been read. There are several when a command may go unanswered, and
/// none when what is there is no answer.
pub(crate) type Places = Vec<usize>;

/// Where the answer to `command` may end in `answers`.
pub(crate) fn ends(command: &Command<'_>, answers: &[u8]) -> Places {
    let one = |end: Option<usize>| -> Places { end.into_iter().collect() };
    match command {
        Command::Gets { keys, with_cas, .. } => one(values(keys.clone(), *with_cas, answers)),
        Command::Login { .. } => one(line(answers)),
        Command::Request { reply, .. }
        | Command::TooLarge { reply, .. }
        | Command::Control { reply, .. }
        | Command::Refused { reply, .. }
        | Command::HangUp { reply, .. }
        | Command::Auth { reply, .. } => match reply {
            Reply::None => vec![0],
            Reply::Binary(form) => binary::ends(*form, answers),
            // A failure may be the next command's, if this one is quiet.
            _ => one(failure(command, answers))
                .into_iter()
                .chain(good_ends(command, reply, answers))
                .collect(),
        },
    }
}

/// Where the answer may end when nothing has gone wrong.
fn good_ends(command: &Command<'_>, reply: &Reply<'_>, answers: &[u8]) -> Places {
    let end = match (reply, command) {
        (Reply::Meta(form), _) => return meta::ends(form, answers),
        (Reply::Lease, _) => lease(answers),
        (Reply::Metaget, _) => metaget(answers),
        (_, Command::Request { request, .. }) => result(request, answers),
        (_, Command::Control { control, .. }) => about_server(*control, answers),
        _ => None,
    };
    end.into_iter().collect()
}

/// Whatever goes wrong with `command` later, its answer is one that is read.
pub(crate) fn check_answers(command: &Command<'_>, reply: &Reply<'_>, key: &[u8]) {
    if let Reply::Binary(form) = reply {
        binary::check_answers(*form, key);
    }
    for refusal in FAILURES {
        let mut out = BytesMut::new();
        reply.compose(key, &Response::Refused(refusal), &mut out);
        assert!(ends(command, &out).contains(&out.len()), "{refusal:?}");
    }
}

/// The end of a line that says what went wrong.
fn failure(command: &Command<'_>, answers: &[u8]) -> Option<usize> {
    let own = match command {
        Command::Refused { refusal, .. } | Command::HangUp { refusal, .. } => Some(*refusal),
        Command::TooLarge { .. } => Some(Refusal::TooLarge),
        Command::Request {
            request: Request::Arithmetic { .. },
            ..
        } => Some(Refusal::NotANumber),
        Command::Control { control, .. } => match control {
            Control::Shutdown(_) => Some(Refusal::ShutdownNotEnabled),
            Control::RefreshCerts => Some(Refusal::TlsNotEnabled),
            Control::Dump(..) => Some(Refusal::DumpBusy),
            _ => None,
        },
        _ => None,
    };
    own.into_iter().chain(FAILURES).find_map(|refusal| {
        let mut out = BytesMut::new();
        Reply::Line.compose(&[], &Response::Refused(refusal), &mut out);
        answers.starts_with(&out).then_some(out.len())
    })
}

/// The end of one of these lines.
fn one_of(lines: &[&str], answers: &[u8]) -> Option<usize> {
    let end = line(answers)?;
    let text = &answers[..end - CRLF.len()];
    lines
        .iter()
        .any(|line| line.as_bytes() == text)
        .then_some(end)
}

fn result(request: &Request<'_>, answers: &[u8]) -> Option<usize> {
    match request {
        Request::Store { .. } => one_of(&["STORED", "NOT_STORED", "EXISTS", "NOT_FOUND"], answers),
        Request::Delete { .. } => one_of(&["DELETED", "NOT_FOUND"], answers),
        Request::Touch { .. } => one_of(&["TOUCHED", "NOT_FOUND"], answers),
        Request::FlushAll { .. } => one_of(&["OK"], answers),
        Request::Arithmetic { .. } => one_of(&["NOT_FOUND"], answers).or_else(|| {
            let end = line(answers)?;
            let digits = &answers[..end - CRLF.len()];
            let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            is_number.then_some(end)
        }),
        _ => None,
    }
}

fn about_server(control: Control, answers: &[u8]) -> Option<usize> {
    match control {
        Control::Version => line(answers).filter(|_| answers.starts_with(b"VERSION ")),
        Control::Stats(Stats::Reset) => one_of(&["RESET"], answers),
        Control::Stats(Stats::Detail) => listed(b"PREFIX ", END, answers),
        Control::Stats(_) => listed(b"STAT ", END, answers),
        Control::Dump(Dump::Meta, _) => listed(b"key=", END, answers),
        Control::Dump(Dump::Keys, _) => listed(b"mg ", b"EN\r\n", answers),
        // Events follow as long as the connection lasts.
        Control::Watch(_) => answers.starts_with(b"OK\r\n").then_some(answers.len()),
        Control::Verbosity | Control::Tune | Control::CountPrefixes(_) => one_of(&["OK"], answers),
        Control::Noop | Control::Shutdown(_) | Control::RefreshCerts | Control::Quit => None,
    }
}

/// Lines that begin with `start`, and `end`. In a dump they end in `\n`.
fn listed(start: &[u8], end: &[u8], answers: &[u8]) -> Option<usize> {
    let mut read = 0;
    while !answers[read..].starts_with(end) {
        let rest = answers[read..].strip_prefix(start)?;
        read = answers.len() - rest.len() + memchr::memchr(b'\n', rest)? + 1;
    }
    Some(read + end.len())
}

/// Some of the keys, in their order, and `END`.
fn values(mut keys: Keys<'_>, with_cas: bool, answers: &[u8]) -> Option<usize> {
    let mut read = 0;
    while !answers[read..].starts_with(END) {
        let (key, len) = value(b"VALUE ", if with_cas { 3 } else { 2 }, &answers[read..])?;
        keys.find(|asked| *asked == key)?;
        read += len;
    }
    Some(read + END.len())
}

/// `<start><key> <number>*`, of which the second number is the length of the data that follows. The key, and where all ends.
fn value<'a>(start: &[u8], numbers: usize, answers: &'a [u8]) -> Option<(&'a [u8], usize)> {
    let end = line(answers)?;
    let words = answers[..end - CRLF.len()].strip_prefix(start)?;
    let words: Vec<_> = words.split(|byte| *byte == b' ').collect();
    let (key, found) = words.split_first()?;
    let numbers_found: Option<Vec<u64>> = found.iter().map(|word| number(word)).collect();
    let len = *numbers_found
        .filter(|found| found.len() == numbers)?
        .get(1)?;
    Some((key, block(end, usize::try_from(len).ok()?, answers)?))
}

/// `VALUE <key> <flags> <bytes>` or `LVALUE <key> <token> 0 0`, data and `END`.
fn lease(answers: &[u8]) -> Option<usize> {
    let hit = value(b"VALUE ", 2, answers);
    let miss = || {
        let (key, end) = value(b"LVALUE ", 3, answers)?;
        Some((key, end))
    };
    let (_, end) = hit.or_else(miss)?;
    answers[end..].starts_with(END).then_some(end + END.len())
}

fn metaget(answers: &[u8]) -> Option<usize> {
    let end = if answers.starts_with(b"META ") {
        line(answers)?
    } else {
        0
    };
    answers[end..].starts_with(END).then_some(end + END.len())
}

/// Where `len` bytes that begin at `start` end with their line end.
fn block(start: usize, len: usize, answers: &[u8]) -> Option<usize> {
    let end = start.checked_add(len)?;
    let behind = answers.get(end..)?;
    behind.starts_with(CRLF).then_some(end + CRLF.len())
}

/// Where the first line ends.
fn line(answers: &[u8]) -> Option<usize> {
    memmem::find(answers, CRLF).map(|end| end + CRLF.len())
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
