//! Answers to bytes of the text protocol.
//!
//! Owns memcached's own lines, to the letter: clients and routers compare them.

use std::fmt::Write;

use bytes::BytesMut;

use super::super::reply::ShownCas;
use super::super::response::{Refusal, Response};

/// Closes the answer to a get.
pub const END: &[u8] = b"END\r\n";

/// Appends `response` to `out`. A hit repeats the `key` it was asked for.
pub fn compose(response: &Response, key: &[u8], cas: ShownCas, out: &mut BytesMut) {
    let line: &[u8] = match response {
        Response::Hit(item) => {
            out.extend_from_slice(b"VALUE ");
            out.extend_from_slice(key);
            push_number(b' ', item.flags(), out);
            push_number(b' ', item.data().len() as u64, out);
            if cas != ShownCas::Nothing {
                push_number(b' ', cas.of(item.cas()), out);
            }
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(item.data());
            b"\r\n"
        }
        Response::Number(counter) => {
            push_digits(counter.value, out);
            b"\r\n"
        }
        // What only other encodings have an answer for.
        Response::Miss
        | Response::Leased(_)
        | Response::MetaHit(_)
        | Response::Inspected(_)
        | Response::Mechanisms
        | Response::Challenge(_)
        | Response::Authenticated => b"",
        Response::Stored { .. } => b"STORED\r\n",
        Response::NotStored => b"NOT_STORED\r\n",
        Response::Exists => b"EXISTS\r\n",
        Response::NotFound => b"NOT_FOUND\r\n",
        Response::Deleted => b"DELETED\r\n",
        Response::Touched => b"TOUCHED\r\n",
        Response::Ok => b"OK\r\n",
        Response::Reset => b"RESET\r\n",
        Response::Version(version) => {
            out.extend_from_slice(b"VERSION ");
            out.extend_from_slice(version.as_bytes());
            b"\r\n"
        }
        Response::Stats(stats) => {
            for (name, value) in stats {
                // Writing into memory cannot fail.
                let _ = write!(out, "STAT {name} {value}\r\n");
            }
            END
        }
        Response::Details(lines) => lines,
        Response::Refused(refusal) => refusal_line(*refusal),
    };
    out.extend_from_slice(line);
}

fn refusal_line(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::UnknownCommand | Refusal::NoSuchStats => b"ERROR\r\n",
        Refusal::BadCommandLine => b"CLIENT_ERROR bad command line format\r\n",
        Refusal::BadDeleteArguments => {
            b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
        }
        Refusal::BadStatsDetail => b"CLIENT_ERROR usage: stats detail on|off|dump\r\n",
        Refusal::BadExptime => b"CLIENT_ERROR invalid exptime argument\r\n",
        Refusal::BadDelta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
        Refusal::BadDataChunk => b"CLIENT_ERROR bad data chunk\r\n",
        Refusal::NotANumber => b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        Refusal::TooLarge => b"SERVER_ERROR object too large for cache\r\n",
        // mcrouter reads the number as its result "busy" and asks the next server, without marking this one.
        Refusal::Busy => b"SERVER_ERROR 307 busy\r\n",
        Refusal::OutOfMemory => b"SERVER_ERROR out of memory storing object\r\n",
        Refusal::StorageFailed => b"SERVER_ERROR storage failed\r\n",
        Refusal::ShutdownNotEnabled => b"ERROR: shutdown not enabled\r\n",
        Refusal::BadShutdownMode => b"CLIENT_ERROR invalid shutdown mode\r\n",
        Refusal::FlushNotAllowed => b"CLIENT_ERROR flush_all not allowed\r\n",
        Refusal::DumpNotAllowed => b"ERROR metadump not allowed\r\n",
        Refusal::WatchNotAllowed => b"CLIENT_ERROR watch commands not allowed\r\n",
        Refusal::TooManyWatchers => b"WATCHER_TOO_MANY log watcher limit reached\r\n",
        Refusal::DumpBusy => b"BUSY currently processing crawler request\r\n",
        Refusal::BadClass => b"BADCLASS invalid class id\r\n",
        Refusal::BadCrawlerSleep => b"CLIENT_ERROR sleep must be one second or less\r\n",
        Refusal::MemoryLimitTooSmall => {
            b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"
        }
        Refusal::MemoryLimitFixed => {
            b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
        }
        Refusal::TlsNotEnabled => b"Error TLS not enabled\r\n",
        Refusal::CertificateUnreadable => b"ERROR cannot read the certificate\r\n",
        Refusal::Unauthenticated => b"CLIENT_ERROR unauthenticated\r\n",
        Refusal::WrongPassword => b"CLIENT_ERROR authentication failure\r\n",
        Refusal::BadLogin => b"CLIENT_ERROR bad authentication token format\r\n",
        Refusal::BadLoginEnd => b"CLIENT_ERROR bad command line termination\r\n",
        Refusal::Meta(mistake) => mistake.line(),
    }
}

fn push_number(before: u8, number: u64, out: &mut BytesMut) {
    out.extend_from_slice(&[before]);
    push_digits(number, out);
}

fn push_digits(number: u64, out: &mut BytesMut) {
    // Writing into memory cannot fail.
    let _ = write!(out, "{number}");
}
