//! How the answer to a request is to be written.
//!
//! Owns the choice between encodings. A reply borrows from the request what the answer repeats of it; it can outlive
//! the request's bytes as an [`OwnedReply`].

use bytes::BytesMut;

use super::binary;
use super::meta::{self, Form};
use super::response::Response;
use super::text::{self, mcrouter};

/// What is said about the version of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownCas {
    Nothing,
    Cas,
    /// 0, where clients are not to compare versions.
    Zero,
}

impl ShownCas {
    /// What is shown of `cas` where something is.
    pub fn of(self, cas: u64) -> u64 {
        match self {
            Self::Cas => cas,
            Self::Nothing | Self::Zero => 0,
        }
    }
}

/// How an answer is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Not at all.
    None,
    /// As a line.
    Line,
    /// As one of the items of a get, if there is one.
    Value { cas: ShownCas },
    /// As the item, or the token of who is to store it, and `END`.
    Lease,
    /// As what there is to say about an item, and `END`.
    Metaget,
    /// As a line of the meta protocol, with what the request asked for.
    Meta(Form<'a>),
    /// As a frame of the binary protocol.
    Binary(binary::Form),
}

impl<'a> Reply<'a> {
    /// A line, unless the client does not want one.
    pub fn line_unless(noreply: bool) -> Self {
        if noreply { Self::None } else { Self::Line }
    }

    /// The same, but every cas is shown as 0.
    pub fn without_cas(self) -> Self {
        match self {
            Self::Value { cas: ShownCas::Cas } => Self::Value {
                cas: ShownCas::Zero,
            },
            Self::Meta(form) => Self::Meta(Form {
                cas: ShownCas::Zero,
                ..form
            }),
            Self::Binary(form) => Self::Binary(binary::Form {
                cas: ShownCas::Zero,
                ..form
            }),
            reply => reply,
        }
    }

    /// Appends `response` to `out`. The answer may repeat the `key` it was asked for.
    pub fn compose(&self, key: &[u8], response: &Response, out: &mut BytesMut) {
        match (self, response) {
            (Self::None, _) => {}
            // Between the items of a get there is no room for an error: the item is missing.
            (Self::Value { .. }, Response::Refused(_)) => {}
            (Self::Value { cas }, response) => text::compose(response, key, *cas, out),
            (Self::Line, response) => text::compose(response, key, ShownCas::Nothing, out),
            // What goes wrong is said also to who is quiet, and as in the text protocol.
            (Self::Meta(_) | Self::Lease | Self::Metaget, Response::Refused(_)) => {
                text::compose(response, key, ShownCas::Nothing, out);
            }
            (Self::Lease, response) => mcrouter::compose_lease(key, response, out),
            (Self::Metaget, response) => mcrouter::compose_metaget(key, response, out),
            (Self::Binary(form), response) => binary::compose(*form, key, response, out),
            (Self::Meta(form), response) => meta::compose(form, key, response, out),
        }
    }

    /// What it borrows.
    fn text(&self) -> &'a [u8] {
        match self {
            Self::Meta(form) => form.flags,
            _ => &[],
        }
    }

    /// The same reply that borrows `text` instead.
    fn with<'b>(self, text: &'b [u8]) -> Reply<'b> {
        match self {
            Self::None => Reply::None,
            Self::Line => Reply::Line,
            Self::Binary(form) => Reply::Binary(form),
            Self::Lease => Reply::Lease,
            Self::Metaget => Reply::Metaget,
            Self::Value { cas } => Reply::Value { cas },
            Self::Meta(form) => Reply::Meta(Form {
                flags: text,
                ..form
            }),
        }
    }
}

/// A reply that outlives the buffer of its request.
#[derive(Debug)]
pub struct OwnedReply {
    text: Box<[u8]>,
    rest: Reply<'static>,
}

impl OwnedReply {
    pub fn new(reply: Reply<'_>) -> Self {
        Self {
            text: reply.text().into(),
            rest: reply.with(&[]),
        }
    }

    pub fn as_reply(&self) -> Reply<'_> {
        self.rest.with(&self.text)
    }

    /// What it takes in memory beside itself, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }
}
