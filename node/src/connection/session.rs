//! What a client is answered, and the sending of it.
//!
//! Owns the batch of answers: it is committed and sent as one, and never grows past a bound. It knows neither
//! where the requests come from nor what they do.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::admin::needs_login;
use super::answers::{Answers, Waiting};
use super::events;
use crate::auth::Challenge;
use crate::clock::UnixSeconds;
use crate::config::Protocol;
use crate::execute::execute;
use crate::metrics::{Op, Outcome, WorkerMetrics};
use crate::protocol::command::Command;
use crate::protocol::reply::{Reply, ShownCas};
use crate::protocol::request::{Request, Topics};
use crate::protocol::response::{Refusal, Response};
use crate::protocol::text::{self, Keys};
use crate::registry::{Activity, Listed};
use crate::store::item::Exptime;
use crate::store::{Blocked, Change, Loading, Room, Store, StoreError};
use crate::stream::Stream;
use crate::worker::Worker;
use bytes::BytesMut;

/// Answers are sent when so much has come together, however many requests follow. One answer may exceed it.
const MAX_BATCH: usize = 64 << 10;

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Close,
}

/// The answering half of a connection.
pub(super) struct Session {
    stream: Stream,
    listed: Arc<Listed>,
    worker: Rc<Worker>,
    store: Arc<Store>,
    answers: Answers,
    /// Answers are sent when so many bytes have come together.
    batch: usize,
    /// Whether clients see which version of an item they have.
    shows_cas: bool,
    /// Whether an answer acknowledges a write that is not committed.
    uncommitted: bool,
    /// When the batch began, which is when all its commands happen.
    now: UnixSeconds,
    /// When the last command ended, which is when the next one began: one look at the clock per command.
    clocked: Instant,
    commands_this_turn: u32,
    /// Whether the client has logged in, or need not.
    known: bool,
    /// What the client has been asked, to show that it is a user. In a box, because hardly any is.
    challenge: Option<Box<Challenge>>,
}

impl Session {
    pub(super) fn new(stream: Stream, listed: Arc<Listed>, worker: Rc<Worker>) -> Self {
        let known = !worker.shared().auth.required();
        let shows_cas = worker.shared().config.cas;
        // Each answer has datagrams of its own.
        let batch = if stream.is_datagrams() { 1 } else { MAX_BATCH };
        Self {
            stream,
            listed,
            store: Arc::clone(worker.store()),
            worker,
            answers: Answers::default(),
            batch,
            shows_cas,
            uncommitted: false,
            now: UnixSeconds::default(),
            clocked: Instant::now(),
            commands_this_turn: 0,
            known,
            challenge: None,
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    /// Whether the text protocol is closed to clients.
    pub(super) fn must_be_binary(&self) -> bool {
        self.worker.shared().config.access.protocol == Protocol::Binary
    }

    pub(super) fn set_challenge(&mut self, challenge: Challenge) {
        self.challenge = Some(Box::new(challenge));
    }

    pub(super) fn take_challenge(&mut self) -> Option<Box<Challenge>> {
        self.challenge.take()
    }

    pub(super) fn set_known(&mut self, known: bool) {
        self.known = known;
    }

    /// Where the answer to the next command goes.
    pub(super) fn out(&mut self) -> &mut BytesMut {
        self.answers.next()
    }

    pub(super) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Whether nothing can be sent but answers.
    pub(super) fn is_datagrams(&self) -> bool {
        self.stream.is_datagrams()
    }

    pub(super) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn count_read(&self, count: usize) {
        self.metrics().bytes_read.add(count as u64);
    }

    /// Notes what the connection does until something comes.
    pub(super) fn waits(&self, activity: Activity) {
        self.listed.does(activity);
    }

    /// Notes that the client has been silent for too long.
    pub(super) fn note_idle(&self) {
        self.listed.ends_idle();
    }

    /// What the next answer waits for, if it does.
    pub(super) fn waits_for(&self) -> Option<Loading> {
        self.answers.first()?.loading.clone()
    }

    /// Whether so much waits that no more requests may be read.
    pub(super) fn is_full(&self) -> bool {
        self.answers.is_full()
    }

    /// Looks at the clocks, once for everything that is buffered.
    pub(super) fn begin_batch(&mut self) {
        self.now = self.worker.now();
        self.listed.executes(self.now);
        self.clocked = Instant::now();
        self.commands_this_turn = 0;
        if self.answers.ready.capacity() == 0 {
            self.answers.ready = self.worker.take_buffer();
        }
    }

    /// Carries out one command, or as much of it as can be without the disk.
    pub(super) async fn answer(&mut self, command: Command<'_>) -> io::Result<Flow> {
        if !self.known
            && let Some(reply) = needs_login(&command)
        {
            let refused = Response::Refused(Refusal::WrongPassword);
            return self.close_with(reply, &refused).await;
        }
        match command {
            Command::Request { request, reply } | Command::TooLarge { request, reply, .. } => {
                self.carry_out(request, reply).await?;
            }
            Command::Gets {
                keys,
                with_cas,
                touch,
            } => self.answer_gets(keys, with_cas, touch).await?,
            Command::Refused { refusal, reply, .. } => {
                self.answer_at_once(Op::Other, reply, &Response::Refused(refusal));
            }
            Command::HangUp { refusal, reply } => {
                let response = Response::Refused(refusal);
                return self.close_with(reply, &response).await;
            }
            Command::Auth { auth, reply } => self.authenticate(auth, reply),
            Command::Login { user, password } => self.log_in(user, password),
            Command::Control { control, reply } => {
                // In a box, because every idle connection has room for what it might wait for.
                if Box::pin(self.answer_control(control, reply)).await? == Flow::Close {
                    return Ok(Flow::Close);
                }
            }
        }
        self.give_way().await?;
        Ok(Flow::Continue)
    }

    /// Answers the requests whose items have come from the disk.
    pub(super) async fn answer_loaded(&mut self) -> io::Result<()> {
        while let Some(first) = self.answers.first() {
            match &first.loading {
                Some(loading) if !loading.is_finished() => break,
                _ => self.answer_first().await?,
            }
        }
        Ok(())
    }

    /// Makes the batch's writes durable and sends its answers. Waits for a client that reads slowly.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        if self.uncommitted {
            // Nothing may be acknowledged that could not be committed: the client sees a lost connection.
            self.store.commit().await.map_err(|error| {
                self.worker.report(self.now, &error);
                io::Error::other(error)
            })?;
            self.uncommitted = false;
        }
        let ready = &mut self.answers.ready;
        if ready.is_empty() {
            return Ok(());
        }
        self.stream.send(ready).await?;
        let sent = std::mem::take(ready);
        self.metrics().bytes_written.add(sent.len() as u64);
        // The next batch begins with another buffer, if there is one at all.
        self.worker.put_buffer(sent);
        Ok(())
    }

    async fn answer_gets(
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

    /// Answers a command that is not about an item.
    pub(super) fn answer_at_once(&mut self, op: Op, reply: Reply<'_>, response: &Response) {
        self.record(op, response);
        reply.compose(&[], response, self.answers.next());
    }

    /// The last answer of the connection.
    pub(super) async fn close_with(
        &mut self,
        reply: Reply<'_>,
        response: &Response,
    ) -> io::Result<Flow> {
        self.finish_waiting().await?;
        self.answer_at_once(Op::Other, reply, response);
        Ok(Flow::Close)
    }

    /// Carries out `request`, or puts it in line if it waits for the disk or for an earlier one.
    async fn carry_out(
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
    pub(super) async fn finish_waiting(&mut self) -> io::Result<()> {
        while self.answers.is_waiting() {
            self.answer_first().await?;
        }
        Ok(())
    }

    /// Waits for the first request in line, and answers it.
    async fn answer_first(&mut self) -> io::Result<()> {
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
            if self.try_first() {
                break;
            }
        }
        Ok(())
    }

    /// Carries out the first request in line. `false` when it must wait again.
    fn try_first(&mut self) -> bool {
        // Taken out, so that its key may be looked at while the answers are written.
        let Some(first) = self.answers.take_first() else {
            return true;
        };
        match self.execute(&first.request.as_request()) {
            Ok(response) => {
                self.count(
                    &first.request.as_request(),
                    first.reply.as_reply(),
                    &response,
                );
                self.answer_waiting(first, &response);
                true
            }
            Err(loading) => {
                self.answers.put_first(first, loading);
                false
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

    /// Sends what has come together, and lets other connections have their turn.
    async fn give_way(&mut self) -> io::Result<()> {
        self.commands_this_turn += 1;
        if self.answers.ready.len() >= self.batch {
            self.send().await?;
        } else if self.commands_this_turn >= self.worker.commands_per_turn() {
            self.metrics().yields.add(1);
            tokio::task::yield_now().await;
        } else {
            return Ok(());
        }
        // Time has passed that no command took.
        self.begin_batch();
        Ok(())
    }

    fn record(&mut self, op: Op, response: &Response) {
        let ended = Instant::now();
        self.metrics()
            .record(op, Outcome::of(response), ended - self.clocked);
        self.clocked = ended;
    }

    pub(super) fn metrics(&self) -> &WorkerMetrics {
        self.worker.metrics()
    }
}
