//! One connection: what was sent, what is outstanding, what has arrived of it.
//!
//! Owns the socket and the order of answers. Does not know when to send.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use anyhow::{Context, bail};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::answer::{Expect, Outcome, Scan, scan};
use crate::keys::Keys;

/// What is read at once. It grows where one value is longer.
const READ_BYTES: usize = 256 << 10;
/// No value is this long.
const MAX_READ_BYTES: usize = 256 << 20;
/// How much of a wrong answer is shown.
const SHOWN_BYTES: usize = 120;

/// One client of the server.
pub struct Connection {
    stream: TcpStream,
    /// What must be answered next, in order.
    pub expect: VecDeque<Expect>,
    /// The beginning of an answer.
    partial: Vec<u8>,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
}

/// The buffer that the connections of one worker read into.
pub struct ReadBuffer(Vec<u8>);

impl Default for ReadBuffer {
    fn default() -> Self {
        Self(vec![0; READ_BYTES])
    }
}

impl Connection {
    /// Connects to `address`; its events will have `token`.
    ///
    /// # Errors
    ///
    /// The address that could not be reached.
    pub fn open(address: SocketAddr, registry: &Registry, token: Token) -> anyhow::Result<Self> {
        let stream = std::net::TcpStream::connect(address)
            .with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            stream,
            expect: VecDeque::new(),
            partial: Vec::new(),
            unsent: Vec::new(),
        })
    }

    /// Whether everything is answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.expect.is_empty()
    }

    /// Sends `requests`; what the socket does not take is kept.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub fn send(&mut self, requests: &[u8]) -> anyhow::Result<()> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(requests);
            return Ok(());
        }
        let sent = write(&mut self.stream, requests)?;
        self.unsent.extend_from_slice(&requests[sent..]);
        Ok(())
    }

    /// The socket takes more.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        if !self.unsent.is_empty() {
            let sent = write(&mut self.stream, &self.unsent)?;
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Reads what has come and tells each answer to `on`.
    ///
    /// # Errors
    ///
    /// A wrong answer, or the end of the connection.
    pub fn receive(
        &mut self,
        buffer: &mut ReadBuffer,
        keys: &Keys,
        mut on: impl FnMut(&Expect, Outcome),
    ) -> anyhow::Result<()> {
        let buffer = &mut buffer.0;
        let mut filled = self.partial.len();
        if buffer.len() <= filled {
            grow(buffer, filled)?;
        }
        buffer[..filled].copy_from_slice(&self.partial);
        self.partial.clear();
        // Nothing more can come when everything is answered: that spares one call for each batch.
        while !self.expect.is_empty() {
            if filled == buffer.len() {
                grow(buffer, filled)?;
            }
            let space = buffer.len() - filled;
            let read = match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("reading from the server"),
            };
            filled += read;
            let taken = take(&mut self.expect, keys, &buffer[..filled], &mut on)?;
            buffer.copy_within(taken..filled, 0);
            filled -= taken;
            // A short read has emptied the socket; the poller reports what comes later.
            if read < space {
                break;
            }
        }
        self.partial.extend_from_slice(&buffer[..filled]);
        Ok(())
    }
}

fn grow(buffer: &mut Vec<u8>, filled: usize) -> anyhow::Result<()> {
    if filled >= MAX_READ_BYTES {
        bail!("an answer of more than {MAX_READ_BYTES} bytes");
    }
    buffer.resize(2 * filled.max(READ_BYTES), 0);
    Ok(())
}

/// Takes all complete answers from the front of `bytes`; returns how many bytes they are.
fn take(
    expect: &mut VecDeque<Expect>,
    keys: &Keys,
    bytes: &[u8],
    on: &mut impl FnMut(&Expect, Outcome),
) -> anyhow::Result<usize> {
    let mut at = 0;
    while let Some(next) = expect.front() {
        match scan(next, keys, &bytes[at..]) {
            Scan::More => return Ok(at),
            Scan::Took(length, outcome) => {
                on(next, outcome);
                at += length;
                expect.pop_front();
            }
            Scan::Wrong(why) => bail!(
                "wrong answer to {:?} of item {}: {why}: {}",
                next.what,
                next.id,
                bytes[at..bytes.len().min(at + SHOWN_BYTES)].escape_ascii()
            ),
        }
    }
    if at < bytes.len() {
        bail!("{} bytes that nobody asked for", bytes.len() - at);
    }
    Ok(at)
}

fn write(stream: &mut TcpStream, bytes: &[u8]) -> anyhow::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(written) => sent += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("writing to the server"),
        }
    }
    Ok(sent)
}
