//! What a client is answered, and the sending of it.
//!
//! Owns the batch of answers: it is committed and sent as one, and never grows past a bound. It knows neither
//! where the requests come from nor what they do.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::clock::UnixSeconds;
use crate::execute::execute;
use crate::metrics::{Op, Outcome, WorkerMetrics};
use crate::protocol::request::{Control, Request};
use crate::protocol::response::{Refusal, Response};
use crate::protocol::text::{self, Command, Keys};
use crate::stats;
use crate::store::Store;
use crate::store::item::Exptime;
use crate::worker::Worker;

/// Answers are sent when so much has come together, however many requests follow. One answer may exceed it.
const MAX_BATCH: usize = 64 << 10;
/// So many commands in a row, then other connections of the worker get their turn.
const COMMANDS_PER_TURN: u32 = 128;

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Close,
}

/// The answering half of a connection.
pub(super) struct Session {
    stream: TcpStream,
    worker: Rc<Worker>,
    store: Arc<Store>,
    /// Answers that wait to be sent.
    output: BytesMut,
    /// Whether `output` acknowledges a write that is not committed.
    uncommitted: bool,
    /// When the batch began, which is when all its commands happen.
    now: UnixSeconds,
    /// When the last command ended, which is when the next one began: one look at the clock per command.
    clocked: Instant,
    commands_this_turn: u32,
}

impl Session {
    pub(super) fn new(stream: TcpStream, worker: Rc<Worker>) -> Self {
        Self {
            stream,
            store: Arc::clone(worker.store()),
            worker,
            output: BytesMut::new(),
            uncommitted: false,
            now: UnixSeconds::default(),
            clocked: Instant::now(),
            commands_this_turn: 0,
        }
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
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

    /// Looks at the clocks, once for everything that is buffered.
    pub(super) fn begin_batch(&mut self) {
        self.now = self.worker.now();
        self.clocked = Instant::now();
        self.commands_this_turn = 0;
        if self.output.capacity() == 0 {
            self.output = self.worker.take_buffer();
        }
    }

    /// Carries out one command and adds its answer to the batch.
    pub(super) async fn answer(&mut self, command: Command<'_>) -> io::Result<Flow> {
        match command {
            Command::Request { request, noreply }
            | Command::TooLarge {
                request, noreply, ..
            } => {
                let response = self.execute(&request);
                self.reply(&response, noreply);
            }
            Command::Gets {
                keys,
                with_cas,
                touch,
            } => self.answer_gets(keys, with_cas, touch).await?,
            Command::Refused { refusal, noreply } => {
                let response = Response::Refused(refusal);
                self.record(Op::Other, &response);
                self.reply(&response, noreply);
            }
            Command::Control {
                control: Control::Quit,
                ..
            } => return Ok(Flow::Close),
            Command::Control { control, noreply } => self.answer_control(control, noreply),
        }
        self.give_way().await?;
        Ok(Flow::Continue)
    }

    /// Makes the batch's writes durable and sends its answers. Waits for a client that reads slowly.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        if self.uncommitted {
            // Nothing may be acknowledged that could not be committed: the client sees a lost connection.
            self.store.commit().map_err(|error| {
                self.worker.report(self.now, &error);
                io::Error::other(error)
            })?;
            self.uncommitted = false;
        }
        if self.output.is_empty() {
            return Ok(());
        }
        self.stream.write_all(&self.output).await?;
        self.metrics().bytes_written.add(self.output.len() as u64);
        // The next batch begins with another buffer, if there is one at all.
        self.worker.put_buffer(std::mem::take(&mut self.output));
        Ok(())
    }

    async fn answer_gets(
        &mut self,
        keys: Keys<'_>,
        with_cas: bool,
        touch: Option<Exptime>,
    ) -> io::Result<()> {
        for key in keys {
            let response = self.execute(&Request::Get { key, touch });
            text::compose(&response, key, with_cas, &mut self.output);
            if let Response::Refused(_) = response {
                return Ok(());
            }
            self.give_way().await?;
        }
        self.output.extend_from_slice(text::END);
        Ok(())
    }

    fn answer_control(&mut self, control: Control, noreply: bool) {
        if !noreply {
            stats::answer(control, self.worker.shared(), &mut self.output);
        }
        self.record(Op::Other, &Response::Ok);
    }

    fn execute(&mut self, request: &Request<'_>) -> Response {
        let response = if self.worker.is_draining() {
            Response::Refused(Refusal::Busy)
        } else {
            self.uncommitted |= request.is_write();
            execute(request, &self.store, self.now).unwrap_or_else(|error| {
                self.worker.report(self.now, &error);
                Response::Refused(Refusal::StorageFailed)
            })
        };
        self.record(Op::of(request), &response);
        response
    }

    fn reply(&mut self, response: &Response, noreply: bool) {
        if !noreply {
            text::compose(response, &[], false, &mut self.output);
        }
    }

    /// Sends what has come together, and lets other connections have their turn.
    async fn give_way(&mut self) -> io::Result<()> {
        self.commands_this_turn += 1;
        if self.output.len() >= MAX_BATCH {
            self.send().await?;
        } else if self.commands_this_turn >= COMMANDS_PER_TURN {
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

    fn metrics(&self) -> &WorkerMetrics {
        self.worker.metrics()
    }
}
