//! What a client is answered, and the sending of it.
//!
//! Owns the batch of answers: it is committed and sent as one, and never grows past a bound. It knows neither
//! where the requests come from nor what they do.

mod requests;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::admin::needs_login;
use super::answers::Answers;
use super::transit::{self, Claim, Transit};
use crate::auth::Challenge;
use crate::clock::UnixSeconds;
use crate::config::Protocol;
use crate::metrics::{Op, Outcome, WorkerMetrics};
use crate::protocol::command::Command;
use crate::protocol::reply::Reply;
use crate::protocol::response::{Refusal, Response};
use crate::registry::{Activity, Listed};
use crate::store::{Loading, Store};
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
    /// The memory for the large values among the answers.
    claim: Option<Claim>,
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
            claim: None,
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
        if self.claim.is_some() {
            let transit = &self.worker.shared().transit;
            // In a box, because hardly any connection waits for this.
            Box::pin(send_in_parts(&mut self.stream, ready, transit)).await?;
        } else {
            self.stream.send(ready).await?;
        }
        let sent = std::mem::take(ready);
        self.claim = None;
        self.metrics().bytes_written.add(sent.len() as u64);
        // The next batch begins with another buffer, if there is one at all.
        self.worker.put_buffer(sent);
        Ok(())
    }

    /// Waits for memory for a large answer.
    async fn claim_for(&mut self, response: &Response) -> io::Result<()> {
        // What is held is given back first, or connections would wait for each other.
        self.send().await?;
        let transit = &self.worker.shared().transit;
        self.claim = Some(Box::pin(transit.claim(response.data_len())).await?);
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

/// Sends large answers. The client must take each part in time, not all of it.
async fn send_in_parts(stream: &mut Stream, answers: &[u8], transit: &Transit) -> io::Result<()> {
    if stream.is_datagrams() {
        return stream.send(answers).await;
    }
    for part in answers.chunks(transit::SMALL) {
        transit.unless_stalled(stream.send(part)).await?;
    }
    Ok(())
}
