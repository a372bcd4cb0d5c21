//! Answers to bytes of the binary protocol.
//!
//! Owns the frame of an answer, the status numbers and memcached's words for them.

use bytes::BytesMut;

use super::super::response::{Refusal, Response};
use super::{Form, Verb};

const MAGIC: u8 = 0x81;

/// What is behind the header.
#[derive(Default)]
struct Body<'a> {
    status: u16,
    cas: u64,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
}

impl<'a> Body<'a> {
    fn error(status: u16, words: &'a str) -> Self {
        Self {
            status,
            value: words.as_bytes(),
            ..Self::default()
        }
    }
}

/// Appends `response` to the command that `form` describes to `out`.
pub fn compose(form: Form, key: &[u8], response: &Response, out: &mut BytesMut) {
    let verb = form.opcode.verb();
    let quiet = form.opcode.is_quiet();
    match response {
        Response::Hit(item) => {
            let flags = (item.flags() as u32).to_be_bytes();
            let with_key = matches!(verb, Some(Verb::GetKey | Verb::GetKeyAndTouch));
            let body = Body {
                cas: item.cas(),
                extras: &flags,
                key: if with_key { item.key() } else { &[] },
                value: if verb == Some(Verb::Touch) {
                    &[]
                } else {
                    item.data()
                },
                ..Body::default()
            };
            push(form, &body, out);
        }
        Response::Miss if quiet => {}
        Response::Miss => push(form, &miss(verb, key), out),
        Response::Stats(stats) => {
            for (name, value) in stats {
                let body = Body {
                    key: name.as_bytes(),
                    value: value.as_bytes(),
                    ..Body::default()
                };
                push(form, &body, out);
            }
            push(form, &Body::default(), out);
        }
        Response::Details(lines) => {
            let body = Body {
                key: b"detailed",
                value: lines,
                ..Body::default()
            };
            push(form, &body, out);
            push(form, &Body::default(), out);
        }
        Response::Number(counter) if !quiet => {
            let body = Body {
                cas: counter.cas,
                value: &counter.value.to_be_bytes(),
                ..Body::default()
            };
            push(form, &body, out);
        }
        response => match failure(verb, response) {
            Some(body) => push(form, &body, out),
            None if quiet => {}
            None => push(form, &success(response), out),
        },
    }
}

fn miss<'a>(verb: Option<Verb>, key: &'a [u8]) -> Body<'a> {
    match verb {
        Some(Verb::GetKey | Verb::GetKeyAndTouch) => Body {
            status: 0x01,
            key,
            ..Body::default()
        },
        _ => Body::error(0x01, "Not found"),
    }
}

fn success(response: &Response) -> Body<'_> {
    match response {
        Response::Stored { cas } => Body {
            cas: *cas,
            ..Body::default()
        },
        Response::Mechanisms => Body {
            value: b"CRAM-MD5 PLAIN",
            ..Body::default()
        },
        Response::Challenge(challenge) => Body {
            status: 0x21,
            value: challenge,
            ..Body::default()
        },
        Response::Authenticated => Body {
            value: b"Authenticated",
            ..Body::default()
        },
        Response::Version(version) => Body {
            value: version.as_bytes(),
            ..Body::default()
        },
        _ => Body::default(),
    }
}

fn failure(verb: Option<Verb>, response: &Response) -> Option<Body<'static>> {
    let (status, words) = match response {
        Response::NotFound => (0x01, "Not found"),
        Response::Exists => (0x02, "Data exists for key."),
        Response::NotStored => match verb {
            Some(Verb::Add) => (0x02, "Data exists for key."),
            Some(Verb::Replace) => (0x01, "Not found"),
            _ => (0x05, "Not stored."),
        },
        Response::Refused(refusal) => refusal_status(*refusal),
        _ => return None,
    };
    Some(Body::error(status, words))
}

fn refusal_status(refusal: Refusal) -> (u16, &'static str) {
    match refusal {
        Refusal::NoSuchStats => (0x01, "Not found"),
        Refusal::TooLarge => (0x03, "Too large."),
        Refusal::NotANumber => (0x06, "Non-numeric server-side value for incr or decr"),
        Refusal::WrongPassword | Refusal::Unauthenticated | Refusal::FlushNotAllowed => {
            (0x20, "Auth failure.")
        }
        Refusal::UnknownCommand => (0x81, "Unknown command"),
        Refusal::OutOfMemory => (0x82, "Out of memory"),
        Refusal::StorageFailed => (0x84, "Internal error"),
        Refusal::Busy => (0x85, "Busy"),
        Refusal::BadCommandLine
        | Refusal::BadDeleteArguments
        | Refusal::BadStatsDetail
        | Refusal::BadExptime
        | Refusal::BadDelta
        | Refusal::BadDataChunk
        | Refusal::ShutdownNotEnabled
        | Refusal::BadShutdownMode
        | Refusal::DumpNotAllowed
        | Refusal::WatchNotAllowed
        | Refusal::TooManyWatchers
        | Refusal::DumpBusy
        | Refusal::BadClass
        | Refusal::BadCrawlerSleep
        | Refusal::TlsNotEnabled
        | Refusal::MemoryLimitTooSmall
        | Refusal::MemoryLimitFixed
        | Refusal::CertificateUnreadable
        | Refusal::BadLogin
        | Refusal::BadLoginEnd
        | Refusal::Meta(_) => (0x04, "Invalid arguments"),
    }
}

fn push(form: Form, body: &Body<'_>, out: &mut BytesMut) {
    // Keys are at most 250 bytes long, items shorter than 2^32.
    let key_len = body.key.len() as u16;
    let extras_len = body.extras.len() as u8;
    let body_len = (body.extras.len() + body.key.len() + body.value.len()) as u32;
    out.extend_from_slice(&[MAGIC, form.opcode.0]);
    out.extend_from_slice(&key_len.to_be_bytes());
    out.extend_from_slice(&[extras_len, 0]);
    out.extend_from_slice(&body.status.to_be_bytes());
    out.extend_from_slice(&body_len.to_be_bytes());
    out.extend_from_slice(&form.opaque);
    out.extend_from_slice(&form.cas.of(body.cas).to_be_bytes());
    for part in [body.extras, body.key, body.value] {
        out.extend_from_slice(part);
    }
}
