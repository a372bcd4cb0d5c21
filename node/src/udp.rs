//! UDP: requests of one datagram each, and answers of as many as they need.
//!
//! Owns the frame around what is said, which is that of memcached's `doc/protocol.txt`. What is said is the text, meta or
//! binary protocol, told apart anew in every datagram.
//!
//! ```text
//!   byte 0          2            4            6            8                           1400 at most
//!        ┌──────────┬────────────┬────────────┬────────────┬─────── ─ ─ ─ ─ ─ ─ ───────┐
//!        │ request  │ number of  │ how many   │ reserved:  │ what is said, or a part   │
//!        │          │ this one   │ there are  │ 0          │ of it                     │
//!        └──────────┴────────────┴────────────┴────────────┴─────── ─ ─ ─ ─ ─ ─ ───────┘
//! ```
//!
//! As in memcached each command has an answer of its own, and each item of a get too: their datagrams are counted apart.
//! A request of several datagrams, and one that is cut off, is not answered at all.
//!
//! Nobody knows who has sent a datagram. Whoever may send any can have this node send what is stored, and the statistics,
//! to somebody else: so there is no UDP unless it is asked for, none where users log in, and neither `watch` nor a list of
//! all keys over it.

use std::io;
use std::net::{SocketAddr, UdpSocket as BlockingSocket};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;

use socket2::{Domain, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tracing::debug;

use crate::config::Host;
use crate::connection::Connection;
use crate::listener::{Address, addresses};
use crate::registry::Listed;
use crate::server::Shared;
use crate::stream::Stream;
use crate::worker::Worker;

const HEADER_LEN: usize = 8;
/// memcached's, which fits into a frame of any network.
const MAX_DATAGRAM: usize = 1400;
const MAX_PART: usize = MAX_DATAGRAM - HEADER_LEN;
/// The largest that there can be.
const MAX_REQUEST: usize = 64 << 10;
/// Requests of one worker that may wait for the disk at a time. Beyond, datagrams wait in the system, or are lost.
const MAX_AT_A_TIME: usize = 64;

/// A worker's own handle of a socket that all workers have.
pub(crate) struct Place {
    socket: BlockingSocket,
    listed: Arc<Listed>,
}

impl Place {
    pub(crate) fn list(socket: BlockingSocket, shared: &Shared) -> io::Result<Self> {
        let local = Address::Udp(socket.local_addr()?);
        let fd = socket.as_raw_fd();
        let listed = Arc::new(Listed::new(fd, local.clone(), local, shared.clock.now()));
        shared.registry.add_datagrams(Arc::clone(&listed));
        Ok(Self { socket, listed })
    }
}

/// One socket for each address of `host`.
pub(crate) fn bind(host: &Host, port: u16) -> io::Result<Vec<BlockingSocket>> {
    let mut sockets = Vec::new();
    for addr in addresses(host, port)? {
        match bind_to(addr) {
            Ok(socket) => sockets.push(socket),
            // A machine without IPv6 has all the addresses it has.
            Err(error) if *host == Host::All && addr.is_ipv6() && !sockets.is_empty() => {
                debug!(%error, "no UDP on IPv6");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(sockets)
}

fn bind_to(addr: SocketAddr) -> io::Result<BlockingSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, None)?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&addr.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Answers what comes to `place` until `worker` closes.
pub(crate) async fn serve(worker: &Rc<Worker>, place: Place) -> io::Result<()> {
    let Place { socket, listed } = place;
    let socket = Rc::new(UdpSocket::from_std(socket)?);
    let turns = Arc::new(Semaphore::new(MAX_AT_A_TIME));
    let mut buffer = vec![0; MAX_REQUEST];
    while let Ok(turn) = Arc::clone(&turns).acquire_owned().await {
        let (len, peer) = tokio::select! {
            biased;
            () = worker.closed() => return Ok(()),
            received = socket.recv_from(&mut buffer) => match received {
                Ok(received) => received,
                // What somebody did not want of an earlier answer.
                Err(error) => {
                    debug!(%error, "no datagram");
                    tokio::task::yield_now().await;
                    continue;
                }
            },
        };
        let Some((request_id, request)) = open(&buffer[..len]) else {
            continue;
        };
        worker.metrics().bytes_read.add(len as u64);
        let answers = Datagrams {
            socket: Rc::clone(&socket),
            peer,
            request_id,
        };
        let stream = Stream::Datagrams(Box::new(answers));
        let connection = Connection::new(stream, Arc::clone(&listed), Rc::clone(worker));
        let request = request.to_vec();
        tokio::task::spawn_local(async move {
            if let Err(error) = connection.answer_datagram(&request).await {
                debug!(%error, "a datagram is not answered");
            }
            drop(turn);
        });
    }
    Ok(())
}

/// The number and the content of a request that is one datagram.
fn open(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (header, request) = datagram.split_first_chunk::<HEADER_LEN>()?;
    let [id_high, id_low, _, _, 0, 1, ..] = *header else {
        return None;
    };
    (!request.is_empty()).then_some((u16::from_be_bytes([id_high, id_low]), request))
}

/// Where the answers to one request go.
pub(crate) struct Datagrams {
    socket: Rc<UdpSocket>,
    peer: SocketAddr,
    request_id: u16,
}

impl Datagrams {
    /// Sends one answer. It is lost when its parts cannot be numbered, or when there is nobody who takes it.
    pub(crate) async fn send(&self, answer: &[u8]) -> io::Result<()> {
        let total = u16::try_from(answer.len().div_ceil(MAX_PART)).map_err(io::Error::other)?;
        let mut datagram = Vec::with_capacity(MAX_DATAGRAM.min(HEADER_LEN + answer.len()));
        for (number, part) in (0..total).zip(answer.chunks(MAX_PART)) {
            datagram.clear();
            for field in [self.request_id, number, total, 0] {
                datagram.extend_from_slice(&field.to_be_bytes());
            }
            datagram.extend_from_slice(part);
            self.socket.send_to(&datagram, self.peer).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_datagram_with_something_in_it() {
        assert_eq!(
            open(b"\x01\x02\0\0\0\x01\0\0get a"),
            Some((258, &b"get a"[..]))
        );
        // memcached does not look at the number of the datagram, nor at what is reserved.
        assert_eq!(open(b"\0\x01\0\x05\0\x01\xff\xffx"), Some((1, &b"x"[..])));
        for refused in [
            &b"\0\x01\0\0\0\x02\0\0get a"[..],
            b"\0\x01\0\0\x01\x01\0\0get a",
            b"\0\x01\0\0\0\0\0\0get a",
            b"\0\x01\0\0\0\x01\0\0",
            b"\0\x01\0\0",
            b"",
        ] {
            assert_eq!(open(refused), None, "{}", refused.escape_ascii());
        }
    }
}
