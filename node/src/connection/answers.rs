//! The answers of a connection, in the order of its requests.
//!
//! Owns that order. A request that waits for the disk keeps its place while later ones are carried out; their answers
//! are kept behind it.
//!
//! ```text
//!   ready ─► waiting, after ─► waiting, after ─► ...
//!   to be sent   a request      what follows it
//! ```

use std::collections::VecDeque;

use bytes::BytesMut;

use crate::protocol::reply::{OwnedReply, Reply};
use crate::protocol::request::{OwnedRequest, Request};
use crate::store::Loading;

/// Requests of one connection that may wait at a time. A client that pipelines more waits with them.
const MAX_WAITING: usize = 128;
/// What may be kept behind a request that waits, in bytes, before later requests wait too.
const MAX_KEPT: usize = 1 << 20;

/// A request that has not been carried out.
pub(super) struct Waiting {
    pub(super) request: OwnedRequest,
    pub(super) reply: OwnedReply,
    /// What it waits for; nothing but its turn if an earlier request is about the same key.
    pub(super) loading: Option<Loading>,
    after: BytesMut,
}

impl Waiting {
    /// What it takes, in bytes, without the answers behind it.
    fn size(&self) -> usize {
        size_of::<Self>() + self.request.bytes() + self.reply.bytes()
    }
}

/// All answers that have not been sent.
#[derive(Default)]
pub(super) struct Answers {
    /// May be sent.
    pub(super) ready: BytesMut,
    waiting: VecDeque<Waiting>,
    /// What `waiting` holds in bytes.
    kept: usize,
}

impl Answers {
    /// Where the answer to the next request goes.
    pub(super) fn next(&mut self) -> &mut BytesMut {
        match self.waiting.back_mut() {
            Some(last) => &mut last.after,
            None => &mut self.ready,
        }
    }

    /// Adds a request that cannot be answered yet.
    pub(super) fn wait(
        &mut self,
        request: Request<'_>,
        reply: Reply<'_>,
        loading: Option<Loading>,
    ) {
        let waiting = Waiting {
            request: OwnedRequest::new(request),
            reply: OwnedReply::new(reply),
            loading,
            after: BytesMut::new(),
        };
        self.kept += waiting.size();
        self.waiting.push_back(waiting);
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether `request` must not overtake one that waits.
    pub(super) fn must_follow(&self, request: &Request<'_>) -> bool {
        self.waiting
            .iter()
            .any(|waiting| waiting.request.as_request().key() == request.key())
    }

    /// Whether no more requests may be carried out before the first one that waits.
    pub(super) fn is_full(&self) -> bool {
        let after: usize = self.waiting.iter().map(|waiting| waiting.after.len()).sum();
        self.waiting.len() >= MAX_WAITING || self.kept + after >= MAX_KEPT
    }

    /// The request that is answered next.
    pub(super) fn first(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// Takes out the request that is answered next, in `ready`. To be followed by [`Answers::release`] or
    /// [`Answers::put_first`].
    pub(super) fn take_first(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.kept -= first.size();
        Some(first)
    }

    /// `first` has been answered: what is behind it follows.
    pub(super) fn release(&mut self, first: Waiting) {
        self.ready.unsplit(first.after);
    }

    /// `first` waits again, for something else.
    pub(super) fn put_first(&mut self, mut first: Waiting, loading: Loading) {
        first.loading = Some(loading);
        self.kept += first.size();
        self.waiting.push_front(first);
    }
}
