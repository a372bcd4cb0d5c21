//! Commands about the server, and what a client sees of others.
//!
//! Owns what they do to the connection: some of them end it, some turn it into a stream.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tracing::{info, warn};

use super::session::{Flow, Session};
use crate::auth::Challenge;
use crate::dump;
use crate::metrics::Op;
use crate::protocol::command::{Auth, Command};
use crate::protocol::reply::Reply;
use crate::protocol::request::{Control, Dump, ShutdownMode, Topics};
use crate::protocol::response::{Refusal, Response};
use crate::registry::Activity;
use crate::server::Shared;
use crate::stats;

/// The longest name of a SASL mechanism that memcached takes.
const MAX_MECHANISM_LEN: usize = 32;
/// Who lists the keys and does not read them for so long has gone.
const DUMP_PATIENCE: Duration = Duration::from_secs(60);
/// What a client that watches says is read and not looked at.
const IGNORED_INPUT: usize = 512;

impl Session {
    pub(super) async fn answer_control(
        &mut self,
        control: Control,
        reply: Reply<'_>,
    ) -> io::Result<Flow> {
        let shared = Arc::clone(self.worker().shared());
        let access = &shared.config.access;
        let response = match control {
            Control::Quit => return self.close_with(reply, &Response::Ok).await,
            Control::Shutdown(mode) => match shutdown(access.shutdown, mode) {
                Err(refusal) => Response::Refused(refusal),
                Ok(()) => {
                    self.finish_waiting().await?;
                    return Ok(Flow::Close);
                }
            },
            Control::Dump(..) if !access.dump || self.is_datagrams() => {
                Response::Refused(Refusal::DumpNotAllowed)
            }
            Control::Dump(dump, has_items) => match self.dump(&shared, dump, has_items).await? {
                Ok(()) => return Ok(Flow::Continue),
                Err(refusal) => Response::Refused(refusal),
            },
            Control::Watch(_) if !access.watch || self.is_datagrams() => {
                Response::Refused(Refusal::WatchNotAllowed)
            }
            Control::Watch(topics) => match self.watch(&shared, topics).await? {
                Some(refusal) => Response::Refused(refusal),
                None => return Ok(Flow::Close),
            },
            Control::RefreshCerts => refresh_certificate(&shared),
            control => stats::answer(control, &shared),
        };
        self.answer_at_once(Op::Other, reply, &response);
        Ok(Flow::Continue)
    }

    /// Knows the client from here on, if this is a user.
    pub(super) fn log_in(&mut self, user: &[u8], password: &[u8]) {
        let response = if self.check_user(user, password) {
            // As if the user had been stored.
            Response::Stored { cas: 0 }
        } else {
            Response::Refused(Refusal::WrongPassword)
        };
        self.answer_at_once(Op::Other, Reply::Line, &response);
    }

    fn check_user(&mut self, user: &[u8], password: &[u8]) -> bool {
        let known = self.worker().shared().auth.check(user, password);
        self.note_login(known)
    }

    /// The client is one of the users from here on, or is not.
    fn note_login(&mut self, known: bool) -> bool {
        self.set_known(known);
        self.metrics().logins.add(1);
        self.metrics().login_failures.add(u64::from(!known));
        known
    }

    /// SASL, of which there are the mechanisms PLAIN (RFC 4616), `identity NUL user NUL password`, and CRAM-MD5.
    pub(super) fn authenticate(&mut self, auth: Auth<'_>, reply: Reply<'_>) {
        // It is answered now or never.
        let challenge = self.take_challenge();
        let response = match auth {
            _ if !self.worker().shared().config.access.sasl => {
                Response::Refused(Refusal::UnknownCommand)
            }
            Auth::ListMechanisms => {
                // memcached begins anew here, also with those who have logged in.
                self.set_known(false);
                Response::Mechanisms
            }
            Auth::Start { mechanism, .. } if mechanism.len() > MAX_MECHANISM_LEN => {
                Response::Refused(Refusal::BadCommandLine)
            }
            Auth::Start {
                mechanism,
                data: b"",
            } if mechanism.eq_ignore_ascii_case(b"CRAM-MD5") => self.challenge(),
            Auth::Start { mechanism, data } if mechanism.eq_ignore_ascii_case(b"PLAIN") => {
                let mut fields = data.splitn(3, |byte| *byte == 0).skip(1);
                let (user, password) = (fields.next(), fields.next());
                let is_user =
                    self.check_user(user.unwrap_or_default(), password.unwrap_or_default());
                authenticated(is_user)
            }
            Auth::Step { data, .. } => {
                let is_user = challenge.is_some_and(|challenge| {
                    let auth = &self.worker().shared().auth;
                    auth.check_answer(&challenge, data)
                });
                authenticated(self.note_login(is_user))
            }
            Auth::Start { .. } => authenticated(self.note_login(false)),
        };
        self.answer_at_once(Op::Other, reply, &response);
    }

    /// Asks the client something that only a user can answer.
    fn challenge(&mut self) -> Response {
        match Challenge::new(self.worker().now()) {
            Ok(challenge) => {
                let response = Response::Challenge(challenge.as_bytes().to_vec());
                self.set_challenge(challenge);
                response
            }
            Err(_) => {
                warn!("there are no random numbers, so that nobody can log in with CRAM-MD5");
                authenticated(self.note_login(false))
            }
        }
    }

    /// Sends a line about every item, or says why not.
    async fn dump(
        &mut self,
        shared: &Arc<Shared>,
        dump: Dump,
        has_items: bool,
    ) -> io::Result<Result<(), Refusal>> {
        let Some(turn) = shared.dumping.begin() else {
            return Ok(Err(Refusal::DumpBusy));
        };
        self.finish_waiting().await?;
        if !has_items {
            self.out().extend_from_slice(match dump {
                Dump::Meta => b"END\r\n",
                Dump::Keys => b"EN\r\n",
            });
            return Ok(Ok(()));
        }
        if let Err(failure) = shared.store.write_dirty().await {
            warn!(%failure, "the keys cannot be listed");
            return Ok(Err(Refusal::StorageFailed));
        }
        let mut chunks = dump::start(shared, dump, turn)?;
        while let Some(chunk) = chunks.recv().await {
            self.out().extend_from_slice(&chunk);
            // Others wait for their turn.
            timeout(DUMP_PATIENCE, self.send()).await??;
        }
        self.begin_batch();
        Ok(Ok(()))
    }

    /// Shows the client what others do until it leaves, or says why not.
    async fn watch(&mut self, shared: &Arc<Shared>, topics: Topics) -> io::Result<Option<Refusal>> {
        self.finish_waiting().await?;
        let Some(watching) = shared.watchers.add(topics) else {
            return Ok(Some(Refusal::TooManyWatchers));
        };
        self.out().extend_from_slice(b"OK\r\n");
        self.send().await?;
        self.waits(Activity::Watch);
        let worker = std::rc::Rc::clone(self.worker());
        let mut ignored = [0; IGNORED_INPUT];
        loop {
            let lines = tokio::select! {
                biased;
                () = worker.closed() => return Ok(None),
                count = self.stream().read(&mut ignored) => match count? {
                    0 => return Ok(None),
                    _ => continue,
                },
                lines = watching.lines() => lines,
            };
            tokio::select! {
                biased;
                () = worker.closed() => return Ok(None),
                sent = self.stream().write_all(&lines) => sent?,
            }
            self.stream().flush().await?;
            self.metrics().bytes_written.add(lines.len() as u64);
        }
    }
}

fn authenticated(is_user: bool) -> Response {
    if is_user {
        Response::Authenticated
    } else {
        Response::Refused(Refusal::WrongPassword)
    }
}

/// How a client is refused that must log in before this, over the binary protocol: the text protocol's own login comes
/// before everything else.
pub(super) fn needs_login<'a>(command: &Command<'a>) -> Option<Reply<'a>> {
    let reply = match command {
        Command::Request { reply, .. }
        | Command::TooLarge { reply, .. }
        | Command::Control { reply, .. } => *reply,
        _ => return None,
    };
    let about_server = matches!(
        command,
        Command::Control {
            control: Control::Version,
            ..
        }
    );
    (matches!(reply, Reply::Binary(_)) && !about_server).then_some(reply)
}

/// Asks the process to stop, as a signal from outside would.
fn shutdown(allowed: bool, mode: ShutdownMode) -> Result<(), Refusal> {
    match mode {
        _ if !allowed => Err(Refusal::ShutdownNotEnabled),
        ShutdownMode::Unknown => Err(Refusal::BadShutdownMode),
        ShutdownMode::Now | ShutdownMode::Graceful => {
            info!("a client asks the node to stop");
            kill_process(getpid(), Signal::TERM).map_err(|_| Refusal::BadShutdownMode)
        }
    }
}

fn refresh_certificate(shared: &Shared) -> Response {
    let Some(tls) = &shared.tls else {
        return Response::Refused(Refusal::TlsNotEnabled);
    };
    match tls.refresh() {
        Ok(()) => Response::Ok,
        Err(error) => {
            warn!(%error, "the certificate stays as it was");
            Response::Refused(Refusal::CertificateUnreadable)
        }
    }
}
