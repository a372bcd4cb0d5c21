//! The requests that are about items.
//!
//! Owns their order: an answer that waits for the disk holds up those that must follow it, and no others are read than fit.

use std::io;

use super::Session;
use crate::connection::answers::Waiting;
use crate::connection::{events, transit};
use crate::execute::execute;
use crate::metrics::Op;
use crate::protocol::reply::{Reply, ShownCas};
use crate::protocol::request::{Request, Topics};
use crate::protocol::response::{Refusal, Response};
use crate::protocol::text::{self, Keys};
use crate::store::item::Exptime;
use crate::store::{Blocked, Change, Loading, Room, StoreError};

impl Session {
    pub(super) async fn answer_gets(
        &mut self,
        keys: Keys<'_>,
        with_cas: bool,
        touch: Option<Exptime>,
    ) -> io::Result<()> {
        let cas = if with_cas {
            ShownCas::Cas
        } else {
            ShownCas::Nothing
        };
        for key in keys {
            if self.worker.is_draining() {
                let busy = Response::Refused(Refusal::Busy);
                self.answer_at_once(Op::Get, Reply::Line, &busy);
                return Ok(());
            }
            let request = Request::Get { key, touch };
            self.give_way().await?;
            self.carry_out(request, Reply::Value { cas }).await?;
        }
        self.answers.next().extend_from_slice(text::END);
        Ok(())
    }

    /// Carries out `request`, or puts it in line if it waits for the disk or for an earlier one.
    pub(super) async fn carry_out(
        &mut self,
        mut request: Request<'_>,
        mut reply: Reply<'_>,
    ) -> io::Result<()> {
        if !self.shows_cas {
            request = request.without_cas();
            reply = reply.without_cas();
        }
        if self.answers.is_waiting() {
            if request.key().is_none() || self.answers.is_full() {
                self.finish_waiting().await?;
            } else if self.answers.must_follow(&request) {
                self.answers.wait(request, reply, None);
                return Ok(());
            }
        }
        if request.is_write() {
            self.wait_for_room().await?;
        }
        match self.execute(&request) {
            Ok(response) => {
                self.count(&request, reply, &response);
                if response.data_len() > transit::SMALL {
                    // It does not wait behind others, but they are answered first.
                    self.finish_waiting().await?;
                    self.claim_for(&response).await?;
                }
                let key = request.key().unwrap_or_default();
                reply.compose(key, &response, self.answers.next());
            }
            Err(loading) => {
                self.answers.wait(request, reply, Some(loading));
                if self.stream.is_datagrams() {
                    // Its answer is not to come together with the next one's.
                    self.finish_waiting().await?;
                }
            }
        }
        Ok(())
    }

    /// Waits until everything before the next request has been answered.
    pub(in crate::connection) async fn finish_waiting(&mut self) -> io::Result<()> {
        while self.answers.is_waiting() {
            self.answer_first().await?;
        }
        Ok(())
    }

    /// Waits for the first request in line, and answers it.
    pub(super) async fn answer_first(&mut self) -> io::Result<()> {
        while let Some(first) = self.answers.first() {
            if let Some(loading) = first.loading.clone() {
                if !loading.is_finished() {
                    self.send().await?;
                }
                let loaded = loading.finished().await;
                self.begin_batch();
                if let Err(failure) = loaded {
                    self.give_up_first(&failure);
                    break;
                }
            }
            if self.try_first().await? {
                break;
            }
        }
        Ok(())
    }

    /// Carries out the first request in line. `false` when it must wait again.
    async fn try_first(&mut self) -> io::Result<bool> {
        // Taken out, so that its key may be looked at while the answers are written.
        let Some(first) = self.answers.take_first() else {
            return Ok(true);
        };
        match self.execute(&first.request.as_request()) {
            Ok(response) => {
                self.count(
                    &first.request.as_request(),
                    first.reply.as_reply(),
                    &response,
                );
                if response.data_len() > transit::SMALL {
                    self.claim_for(&response).await?;
                }
                self.answer_waiting(first, &response);
                Ok(true)
            }
            Err(loading) => {
                self.answers.put_first(first, loading);
                Ok(false)
            }
        }
    }

    /// The disk failed for the first request in line.
    fn give_up_first(&mut self, failure: &StoreError) {
        self.worker.report(self.now, failure);
        if let Some(first) = self.answers.take_first() {
            self.answer_waiting(first, &Response::Refused(Refusal::StorageFailed));
        }
    }

    fn answer_waiting(&mut self, first: Waiting, response: &Response) {
        let key = first.request.as_request().key().unwrap_or_default();
        let reply = first.reply.as_reply();
        reply.compose(key, response, &mut self.answers.ready);
        self.answers.release(first);
    }

    /// Waits while the disk does not keep up with what is written.
    async fn wait_for_room(&mut self) -> io::Result<()> {
        while self.store.room() == Room::Soon {
            self.send().await?;
            self.store.more_room().await;
            self.begin_batch();
        }
        Ok(())
    }

    /// The response, or what must come from the disk first.
    fn execute(&mut self, request: &Request<'_>) -> Result<Response, Loading> {
        let response = if self.worker.shared().watchers.are_there() {
            self.respond_watched(request)?
        } else {
            self.respond(request)?
        };
        self.record(Op::of(request), &response);
        Ok(response)
    }

    /// Counts meta commands, and of the others what `stats detail` shows, while it does.
    fn count(&self, request: &Request<'_>, reply: Reply<'_>, response: &Response) {
        let prefixes = &self.worker.shared().prefixes;
        if matches!(reply, Reply::Meta(_)) {
            self.metrics().meta_commands.add(1);
        } else if prefixes.are_counted() {
            prefixes.count(request, response);
        }
    }

    #[cold]
    fn respond_watched(&mut self, request: &Request<'_>) -> Result<Response, Loading> {
        let found = self.look_for_watchers(request);
        let response = self.respond(request)?;
        let watchers = &self.worker.shared().watchers;
        if let (Some(found), Some(key)) = (found, request.key()) {
            events::tell_lookup(watchers, &self.listed, key, found);
        }
        events::tell(watchers, &self.listed, self.now, request, &response);
        Ok(response)
    }

    /// memcached looks an item up before it stores one, and shows that to who watches lookups.
    fn look_for_watchers(&self, request: &Request<'_>) -> Option<bool> {
        let watched = self.worker.shared().watchers.wants(Topics::FETCHERS);
        let key = request
            .key()
            .filter(|_| watched && matches!(request, Request::Store { .. }))?;
        let is_there = self
            .store
            .update(key, self.now, |item| (Change::Keep, item.is_some()));
        // What only the disk knows is not worth waiting for.
        is_there.ok().map(|updated| updated.result)
    }

    fn respond(&mut self, request: &Request<'_>) -> Result<Response, Loading> {
        if self.worker.is_draining() {
            return Ok(Response::Refused(Refusal::Busy));
        }
        if let Some(refusal) = self.not_allowed(request) {
            return Ok(Response::Refused(refusal));
        }
        if request.is_write() && self.store.room() == Room::None {
            return Ok(Response::Refused(Refusal::OutOfMemory));
        }
        self.uncommitted |= request.is_write();
        match execute(request, &self.store, self.now) {
            Ok(response) => Ok(response),
            Err(Blocked::Loading(loading)) => Err(loading),
            Err(Blocked::Failed(failure)) => {
                self.worker.report(self.now, &failure);
                Ok(Response::Refused(Refusal::StorageFailed))
            }
        }
    }

    /// What the configuration keeps clients from.
    fn not_allowed(&self, request: &Request<'_>) -> Option<Refusal> {
        let config = &self.worker.shared().config;
        match request {
            Request::FlushAll { .. } if !config.access.flush_all => Some(Refusal::FlushNotAllowed),
            Request::Delete { timed: true, .. } if config.strict_delete => {
                Some(Refusal::BadDeleteArguments)
            }
            _ => None,
        }
    }
}
