//! What was made of a client's bytes, whatever encoding it spoke.
//!
//! Owns the outcome of parsing. It knows neither what a command does nor how its answer is written.

use super::reply::Reply;
use super::request::{Control, Request};
use super::response::Refusal;
use super::text::Keys;
use crate::store::item::Exptime;

/// The outcome of looking at the bytes that have arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// More bytes are needed: nothing can be said before there are `needed` in all.
    Incomplete { needed: usize },
    /// `consumed` bytes were one command.
    Command {
        consumed: usize,
        command: Command<'a>,
    },
    /// This is not a memcached client, or not a sane one: close without an answer.
    Close,
}

/// One command, and the data that belongs to it.
#[derive(Debug, PartialEq, Eq)]
pub enum Command<'a> {
    Request {
        request: Request<'a>,
        reply: Reply<'a>,
    },
    /// A get of any number of keys, answered by the hits and `END`.
    Gets {
        keys: Keys<'a>,
        with_cas: bool,
        touch: Option<Exptime>,
    },
    Control {
        control: Control,
        reply: Reply<'a>,
    },
    Refused {
        refusal: Refusal,
        reply: Reply<'a>,
        /// So many of the next bytes are the data of what is refused.
        discard: usize,
    },
    /// Refused, and nothing can be said about what follows: the connection is closed.
    HangUp {
        refusal: Refusal,
        reply: Reply<'a>,
    },
    /// The client shows who it is.
    Auth {
        auth: Auth<'a>,
        reply: Reply<'a>,
    },
    /// A value over the limit: refused, and the next `discard` bytes are its data.
    TooLarge {
        request: Request<'a>,
        reply: Reply<'a>,
        discard: usize,
    },
}

/// SASL, as far as the protocol knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth<'a> {
    ListMechanisms,
    Start { mechanism: &'a [u8], data: &'a [u8] },
    Step { mechanism: &'a [u8], data: &'a [u8] },
}

impl Command<'_> {
    /// How many of the bytes behind the command belong to it but are of no use.
    pub fn discard(&self) -> usize {
        match self {
            Self::TooLarge { discard, .. } | Self::Refused { discard, .. } => *discard,
            _ => 0,
        }
    }
}
