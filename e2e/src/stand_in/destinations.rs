//! Servers, really asked: connections, timeouts, and which servers are knocked out until a probe succeeds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use petra_routing::{Destination, Outcome, Parsed, Reply, Request, Servers};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::options::Options;
use super::tls::{ClientFiles, Stream};

/// The most that a server's answer may be: memcached's largest item and room for its line.
const LARGEST_ANSWER: usize = (1 << 30) + 4096;

/// All servers that were ever asked.
#[derive(Clone)]
pub(super) struct Destinations {
    servers: Arc<Mutex<Known>>,
    limits: Limits,
    files: Arc<ClientFiles>,
}

/// Servers by name, and whether TLS is spoken.
type Known = HashMap<(String, bool), Arc<Server>>;

#[derive(Clone, Copy)]
struct Limits {
    server_timeout: Duration,
    timeouts_until_tko: u32,
    probe_initial: Duration,
    probe_max: Duration,
}

#[derive(Default)]
struct Server {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<Box<dyn Stream>>,
    timeouts: u32,
    /// Why the server gets no traffic, if it gets none.
    knocked_out: Option<Outcome>,
}

/// A server that has failed and not answered since.
pub(super) struct Suspect {
    pub(super) server: String,
    pub(super) knocked_out: bool,
    pub(super) failures: u32,
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Destinations {
    pub(super) fn new(options: &Options, files: ClientFiles) -> Self {
        let limits = Limits {
            server_timeout: options.server_timeout(),
            timeouts_until_tko: options.timeouts_until_tko,
            probe_initial: Duration::from_millis(options.probe_timeout_initial_ms),
            probe_max: Duration::from_millis(options.probe_timeout_max_ms),
        };
        Self {
            servers: Arc::default(),
            limits,
            files: Arc::new(files),
        }
    }

    fn server(&self, to: &Destination) -> Arc<Server> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (to.server.clone(), to.tls);
        Arc::clone(servers.entry(key).or_default())
    }

    async fn connect(&self, name: &str, tls: bool) -> std::io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(name).await?;
        stream.set_nodelay(true)?;
        if tls {
            self.files.encrypt(name, stream).await
        } else {
            Ok(Box::new(stream))
        }
    }

    /// The servers that have failed and not answered since, by their names.
    pub(super) fn suspects(&self) -> Vec<Suspect> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let suspect = |((name, _), server): (&(String, bool), &Arc<Server>)| {
            let state = server.state();
            let is_suspect = state.timeouts > 0 || state.knocked_out.is_some();
            is_suspect.then(|| Suspect {
                server: name.clone(),
                knocked_out: state.knocked_out.is_some(),
                failures: state.timeouts,
            })
        };
        let mut suspects: Vec<Suspect> = servers.iter().filter_map(suspect).collect();
        suspects.sort_by(|a, b| a.server.cmp(&b.server));
        suspects
    }

    /// Counts an outcome against the server; a connection that fails knocks it out at once, timeouts after some.
    fn judge(&self, to: &Destination, server: &Arc<Server>, outcome: Outcome) {
        let mut state = server.state();
        match outcome {
            Outcome::Timeout => state.timeouts += 1,
            Outcome::ConnectError | Outcome::ConnectTimeout => {
                state.timeouts = self.limits.timeouts_until_tko;
            }
            _ => state.timeouts = 0,
        }
        if state.timeouts >= self.limits.timeouts_until_tko && state.knocked_out.is_none() {
            state.knocked_out = Some(outcome);
            state.idle.clear();
            tracing::warn!(server = to.server, ?outcome, "knocked out");
            tokio::spawn(probe(self.clone(), to.clone(), Arc::clone(server)));
        }
    }

    async fn exchange(&self, to: &Destination, server: &Server, request: &Request) -> Reply {
        let wait = to
            .server_timeout_ms
            .map_or(self.limits.server_timeout, Duration::from_millis);
        let connect_wait = to.connect_timeout_ms.map_or(wait, Duration::from_millis);
        let bytes = request.to_bytes();
        // A connection that was idle may have been closed meanwhile: then a new one is tried, once.
        let idle = server.state().idle.pop();
        if let Some(stream) = idle
            && let Ok(reply) = attempt(stream, &bytes, request, wait, server).await
        {
            return reply;
        }
        match timeout(connect_wait, self.connect(&to.server, to.tls)).await {
            Err(_) => failure(Outcome::ConnectTimeout, "mc_res_connect_timeout"),
            Ok(Err(error)) => {
                tracing::debug!(server = to.server, %error, "connecting failed");
                failure(Outcome::ConnectError, "mc_res_connect_error")
            }
            Ok(Ok(stream)) => match attempt(stream, &bytes, request, wait, server).await {
                Ok(reply) => reply,
                Err(error) => Reply::error(Outcome::RemoteError, error.to_string()),
            },
        }
    }
}

impl Servers for Destinations {
    async fn ask(&self, to: &Destination, request: &Request) -> Reply {
        let server = self.server(to);
        let knocked_out = server.state().knocked_out;
        if let Some(outcome) = knocked_out {
            let reason = match outcome {
                Outcome::Timeout => "mc_res_timeout",
                Outcome::ConnectTimeout => "mc_res_connect_timeout",
                _ => "mc_res_connect_error",
            };
            return failure(Outcome::Tko, reason);
        }
        let reply = self.exchange(to, &server, request).await;
        self.judge(to, &server, reply.outcome);
        reply
    }

    fn background(&self, work: impl FnOnce(Self) -> BoxFuture<'static, ()>) {
        tokio::spawn(work(self.clone()));
    }

    fn now(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        since.as_secs().cast_signed()
    }
}

fn failure(outcome: Outcome, reason: &str) -> Reply {
    Reply::error(outcome, format!("Server unavailable. Reason: {reason}"))
}

/// Sends the request and reads its answer. The stream goes back to the idle ones only after a whole answer.
async fn attempt(
    mut stream: Box<dyn Stream>,
    bytes: &[u8],
    request: &Request,
    wait: Duration,
    server: &Server,
) -> std::io::Result<Reply> {
    let answer = async {
        stream.write_all(bytes).await?;
        stream.flush().await?;
        let mut received = Vec::with_capacity(4096);
        loop {
            match Reply::parse(request.operation, &received) {
                Parsed::Reply(reply, _) => return Ok(reply),
                Parsed::Nonsense => {
                    return Err(std::io::Error::other("unexpected answer of the server"));
                }
                Parsed::Incomplete if received.len() > LARGEST_ANSWER => {
                    return Err(std::io::Error::other("the server's answer has no end"));
                }
                Parsed::Incomplete => {}
            }
            if stream.read_buf(&mut received).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    };
    match timeout(wait, answer).await {
        Err(_) => Ok(failure(Outcome::Timeout, "mc_res_timeout")),
        Ok(Err(error)) => Err(error),
        Ok(Ok(reply)) => {
            server.state().idle.push(stream);
            Ok(reply)
        }
    }
}

/// Asks a knocked-out server for its version, at growing distances, until it answers.
async fn probe(servers: Destinations, to: Destination, server: Arc<Server>) {
    let limits = servers.limits;
    let mut wait = limits.probe_initial;
    loop {
        tokio::time::sleep(wait).await;
        wait = wait.mul_f32(1.5).min(limits.probe_max);
        if let Ok(Ok(())) = timeout(limits.server_timeout, version(&servers, &to)).await {
            let mut state = server.state();
            state.knocked_out = None;
            state.timeouts = 0;
            tracing::info!(server = to.server, "is back");
            return;
        }
    }
}

async fn version(servers: &Destinations, to: &Destination) -> std::io::Result<()> {
    let mut stream = servers.connect(&to.server, to.tls).await?;
    stream.write_all(b"version\r\n").await?;
    stream.flush().await?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).await?;
    if answer == *b"VERSION " {
        Ok(())
    } else {
        Err(std::io::ErrorKind::InvalidData.into())
    }
}
