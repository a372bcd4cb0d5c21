//! One client: bytes in, answers out.
//!
//! Owns the read buffer and the loop around it. It knows no command: what one does is in [`session`], and how it
//! is written in [`crate::protocol`].
//!
//! ```text
//!   wait ─► read ─► parse, execute, compose ... for all that is buffered ─► commit ─► one write
//!    ▲                                                                                   │
//!    └───────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Nothing is read while answers wait to be sent, so that a client which does not read its answers stops being
//! served instead of filling memory. A connection that waits for its client holds no buffers. While a request waits
//! for the disk the next ones are read and carried out; their answers keep their order in [`answers`].

mod admin;
mod answers;
pub(crate) mod events;
mod session;
pub(crate) mod transit;

use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::protocol::command::Parsed;
use crate::protocol::{binary, text};
use crate::registry::{Activity, Listed};
use crate::stream::Stream;
use crate::worker::Worker;
use session::{Flow, Session};
use transit::Claim;

/// Room for one read when no more is known to be needed; memcached's `READ_BUFFER_SIZE`.
const MIN_READ: usize = 16 << 10;
/// Room for one read of a large value. Until then the buffer doubles: it grows with what has come, not with what was announced,
/// since what is allocated may cost memory before it is used.
const MAX_READ: usize = 256 << 10;

/// What there is to do.
enum Next {
    /// Bytes have come that may be parsed.
    Input,
    /// The disk has answered.
    Loaded,
    /// The client has left, or the worker closes.
    Close,
}

/// What a client speaks, as long as it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Text,
    Binary,
}

impl Encoding {
    fn of(input: &[u8]) -> Self {
        if input.first() == Some(&binary::MAGIC) {
            Self::Binary
        } else {
            Self::Text
        }
    }
}

/// A client's connection, served by one worker.
pub(crate) struct Connection {
    session: Session,
    /// Set by the first byte that comes.
    encoding: Option<Encoding>,
    /// Bytes that have come and are not answered yet.
    input: BytesMut,
    /// How many bytes there must be in `input` before it is worth parsing.
    needed: usize,
    /// So many of the next bytes belong to a value that was refused.
    discard: usize,
    /// The memory for the large value of which a part has come.
    claim: Option<Claim>,
}

impl Connection {
    pub(crate) fn new(stream: Stream, listed: Arc<Listed>, worker: Rc<Worker>) -> Self {
        let session = Session::new(stream, listed, worker);
        Self {
            session,
            encoding: None,
            input: BytesMut::new(),
            needed: 1,
            discard: 0,
            claim: None,
        }
    }

    /// Serves the client until it leaves, misbehaves or the worker closes.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        let worker = Rc::clone(self.session.worker());
        // Polled once: it wakes this task when the worker closes, whatever the task waits for then. To wait for it anew with
        // every request would cost more than to parse one.
        let mut closed = pin!(worker.closed());
        poll_fn(|context| Poll::Ready(closed.as_mut().poll(context).is_ready())).await;
        loop {
            let flow = match self.next().await? {
                Next::Input => self.answer_buffered().await?,
                Next::Loaded => {
                    self.session.answer_loaded().await?;
                    Flow::Continue
                }
                Next::Close => Flow::Close,
            };
            if flow == Flow::Close {
                // Who says no more may still listen, also to what comes from the disk.
                self.session.finish_waiting().await?;
            }
            self.session.send().await?;
            if flow == Flow::Close {
                return Ok(());
            }
            self.give_back_empty_input();
        }
    }

    /// Answers the commands of one datagram, and that is all.
    pub(crate) async fn answer_datagram(mut self, request: &[u8]) -> io::Result<()> {
        self.input.extend_from_slice(request);
        self.answer_buffered().await?;
        self.session.finish_waiting().await?;
        self.session.send().await?;
        self.session.waits(Activity::Read);
        Ok(())
    }

    /// Waits until there is something to do.
    async fn next(&mut self) -> io::Result<Next> {
        let worker = Rc::clone(self.session.worker());
        let loading = self.session.waits_for();
        let loaded = async {
            match &loading {
                // How it went is seen when the request is tried again.
                Some(loading) => drop(loading.finished().await),
                None => pending().await,
            }
        };
        let mut loaded = pin!(loaded);
        while self.input.len() < self.needed {
            let may_read = !self.session.is_full();
            self.session.waits(self.activity());
            let count = tokio::select! {
                biased;
                () = noticed(|| worker.is_closing()) => return Ok(Next::Close),
                () = &mut loaded, if loading.is_some() => return Ok(Next::Loaded),
                count = self.read(), if may_read => count?,
            };
            if count == 0 {
                return Ok(Next::Close);
            }
            self.session.count_read(count);
        }
        Ok(Next::Input)
    }

    /// What the connection does while nothing comes.
    fn activity(&self) -> Activity {
        if self.input.is_empty() && self.discard == 0 {
            Activity::Read
        } else {
            Activity::ReadValue
        }
    }

    /// Waits for bytes as long as a connection may be silent. None have come when it has ended.
    async fn read(&mut self) -> io::Result<usize> {
        let worker = Rc::clone(self.session.worker());
        let transit = &worker.shared().transit;
        if self.input.len() >= transit::SMALL && self.claim.is_none() {
            // In a box, because hardly any connection waits for this.
            self.claim = Some(Box::pin(transit.claim(self.needed)).await?);
        }
        let has_claim = self.claim.is_some();
        let read = poll_fn(|context| self.poll_read(context));
        let read = async {
            if has_claim {
                Box::pin(transit.unless_stalled(read)).await
            } else {
                read.await
            }
        };
        let Some(patience) = worker.idle_timeout() else {
            return read.await;
        };
        match timeout(patience, read).await {
            Ok(count) => count,
            Err(_) => {
                worker.metrics().idle_kicks.add(1);
                self.session.note_idle();
                Ok(0)
            }
        }
    }

    /// Reads what has come. While nothing has, the connection goes without a buffer.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.input.capacity() == 0 {
            self.input = self.session.worker().take_buffer();
        }
        let come = self.input.len();
        let missing = self.needed.saturating_sub(come);
        let most = come.clamp(MIN_READ, MAX_READ);
        self.input.reserve(missing.clamp(MIN_READ, most));
        let read = pin!(self.session.stream().read_buf(&mut self.input)).poll(context);
        if read.is_pending() {
            self.give_back_empty_input();
        }
        read
    }

    fn give_back_empty_input(&mut self) {
        if self.input.is_empty() {
            self.claim = None;
            self.session
                .worker()
                .put_buffer(std::mem::take(&mut self.input));
        }
    }

    /// Answers every command that is complete, and sets what is needed for the next.
    async fn answer_buffered(&mut self) -> io::Result<Flow> {
        self.session.begin_batch();
        let mut flow = Flow::Continue;
        let mut consumed = 0;
        let mut decoded = Vec::new();
        let encoding = *self.encoding.get_or_insert(Encoding::of(&self.input));
        self.needed = 1;
        while flow == Flow::Continue && consumed < self.input.len() {
            let input = &self.input[consumed..];
            if self.discard > 0 {
                let discarded = self.discard.min(input.len());
                self.discard -= discarded;
                consumed += discarded;
                continue;
            }
            let store = self.session.store();
            let fits = |key, flags, data| store.fits(key, flags, data);
            let parsed = match encoding {
                Encoding::Binary => binary::parse(input, fits),
                Encoding::Text if self.session.must_be_binary() => Parsed::Close,
                Encoding::Text if self.session.is_known() => text::parse(input, &mut decoded, fits),
                Encoding::Text => text::parse_login(input),
            };
            match parsed {
                Parsed::Incomplete { needed } => {
                    self.needed = needed;
                    break;
                }
                Parsed::Close => flow = Flow::Close,
                Parsed::Command {
                    consumed: len,
                    command,
                } => {
                    self.discard = command.discard();
                    flow = self.session.answer(command).await?;
                    consumed += len;
                    // A large value has come as a whole. Whoever has a claim must not wait for another one.
                    self.claim = None;
                }
            }
        }
        self.input.advance(consumed);
        Ok(flow)
    }
}

/// Returns when a task is woken and `happened` then.
async fn noticed(happened: impl Fn() -> bool) {
    poll_fn(|_| match happened() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
