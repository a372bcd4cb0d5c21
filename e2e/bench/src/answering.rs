//! The least that a server can do: it reads requests and answers them, and keeps nothing.
//!
//! What the load generator reaches against it is what the load generator can do. It knows the values of all items,
//! since they follow from the keys; so the load generator checks every answer, as it does in a measurement.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::keys::Keys;
use crate::{cores, process, server};

const LISTENER: Token = Token(usize::MAX);
const EVENTS: usize = 1024;
const TICK: Duration = Duration::from_millis(20);
const READ_BYTES: usize = 256 << 10;

/// A running server; dropping it ends it.
pub struct Answering {
    pub address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<Duration>>>,
}

impl Answering {
    /// Starts a thread on `server_cores` that answers as if it had all items of `keys`.
    ///
    /// # Errors
    ///
    /// When there is no free port.
    pub fn start(keys: Keys, server_cores: Vec<usize>) -> anyhow::Result<Self> {
        let address = server::free_address()?;
        let listener =
            TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            cores::pin(&server_cores)?;
            serve(listener, &keys, &ended)
        });
        Ok(Self {
            address,
            over,
            thread: Some(thread),
        })
    }

    /// Ends it and returns the CPU time it has used.
    ///
    /// # Errors
    ///
    /// What went wrong in the meantime.
    pub fn stop(mut self) -> anyhow::Result<Duration> {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it was stopped before")?;
        thread
            .join()
            .map_err(|_| anyhow!("the answering server panicked"))?
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// One client: what has arrived of a request, and what the socket has not taken of the answers.
struct Client {
    stream: TcpStream,
    partial: Vec<u8>,
    unsent: Vec<u8>,
}

fn serve(mut listener: TcpListener, keys: &Keys, over: &AtomicBool) -> anyhow::Result<Duration> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(EVENTS);
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut clients: Vec<Client> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut out = Vec::new();
    while !over.load(Ordering::Relaxed) {
        poll.poll(&mut events, Some(TICK))?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut clients)?;
                continue;
            }
            // A client that is gone stays in its place, silent: the server ends with its load.
            let client = &mut clients[event.token().0];
            if event.is_readable() {
                client.answer(keys, &mut buffer, &mut out)?;
            } else {
                client.send(&[])?;
            }
        }
    }
    Ok(process::thread_cpu_time())
}

fn accept(listener: &TcpListener, poll: &Poll, clients: &mut Vec<Client>) -> anyhow::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("accepting a connection"),
        };
        stream.set_nodelay(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(&mut stream, Token(clients.len()), interest)?;
        clients.push(Client {
            stream,
            partial: Vec::new(),
            unsent: Vec::new(),
        });
    }
}

impl Client {
    fn answer(&mut self, keys: &Keys, buffer: &mut [u8], out: &mut Vec<u8>) -> anyhow::Result<()> {
        loop {
            let read = match self.stream.read(buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error).context("reading requests"),
            };
            out.clear();
            if self.partial.is_empty() {
                let taken = answers(keys, &buffer[..read], out);
                self.partial.extend_from_slice(&buffer[taken..read]);
            } else {
                self.partial.extend_from_slice(&buffer[..read]);
                let taken = answers(keys, &self.partial, out);
                self.partial.drain(..taken);
            }
            self.send(out)?;
            if read < buffer.len() {
                return Ok(());
            }
        }
    }

    fn send(&mut self, answers: &[u8]) -> anyhow::Result<()> {
        let written = if self.unsent.is_empty() && !answers.is_empty() {
            self.stream.write(answers)
        } else if self.unsent.is_empty() {
            return Ok(());
        } else {
            self.unsent.extend_from_slice(answers);
            let written = self.stream.write(&self.unsent);
            self.unsent.drain(..*written.as_ref().unwrap_or(&0));
            return ignore_full(written).map(|_| ());
        };
        let written = ignore_full(written)?;
        self.unsent.extend_from_slice(&answers[written..]);
        Ok(())
    }
}

fn ignore_full(written: std::io::Result<usize>) -> anyhow::Result<usize> {
    match written {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        written => written.context("writing answers"),
    }
}

/// Answers all whole requests in `bytes` and returns how many bytes those are.
fn answers(keys: &Keys, bytes: &[u8], out: &mut Vec<u8>) -> usize {
    let mut at = 0;
    while let Some(length) = answer(keys, &bytes[at..], out) {
        at += length;
    }
    at
}

/// Answers the first request, if all of it is there.
fn answer(keys: &Keys, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    // Written out, since `memchr` would be one more dependency: lines are short.
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    if let Some(asked) = line.strip_prefix(b"get ") {
        for key in asked.split(|byte| *byte == b' ') {
            out.extend_from_slice(b"VALUE ");
            out.extend_from_slice(key);
            out.extend_from_slice(keys.flags_and_length());
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(keys.value(keys.id_of(key).unwrap_or(0)));
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"END\r\n");
        return Some(end + 1);
    }
    if line.starts_with(b"set ") {
        let whole = end + 1 + keys.value_len() + 2;
        if bytes.len() < whole {
            return None;
        }
        out.extend_from_slice(b"STORED\r\n");
        return Some(whole);
    }
    out.extend_from_slice(b"ERROR\r\n");
    Some(end + 1)
}
