//! The byte streams that clients are served over.
//!
//! Owns the difference between a TCP connection, a Unix one, an encrypted one and datagrams, so that nobody else sees it.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use crate::tls::TlsServer;
use crate::udp::Datagrams;

/// A client that has not come to be encrypted by then never will.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that no worker has yet.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Socket {
    /// Its file descriptor, which is memcached's name for a connection.
    pub(crate) fn fd(&self) -> RawFd {
        match self {
            Self::Tcp(socket) => socket.as_raw_fd(),
            Self::Unix(socket) => socket.as_raw_fd(),
        }
    }
}

/// A connection on the worker that serves it.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Boxed, so that those without are not as large.
    Tls(Box<TlsStream<TcpStream>>),
    /// What answers a datagram; what asks has come already. Boxed for the same reason.
    Datagrams(Box<Datagrams>),
}

impl Stream {
    /// Takes the socket into the current thread's event loop, and comes to terms with the client if there is encryption.
    pub(crate) async fn open(socket: Socket, tls: Option<&TlsServer>) -> io::Result<Self> {
        match socket {
            Socket::Tcp(socket) => {
                let stream = TcpStream::from_std(socket)?;
                stream.set_nodelay(true)?;
                match tls {
                    None => Ok(Self::Tcp(stream)),
                    Some(tls) => Box::pin(encrypt(stream, tls)).await,
                }
            }
            Socket::Unix(socket) => Ok(Self::Unix(UnixStream::from_std(socket)?)),
        }
    }

    pub(crate) fn is_datagrams(&self) -> bool {
        matches!(self, Self::Datagrams(_))
    }

    /// Sends all of `answers`; as datagrams they are one answer.
    pub(crate) async fn send(&mut self, answers: &[u8]) -> io::Result<()> {
        if let Self::Datagrams(datagrams) = self {
            // In a box, because every connection has room for what it might wait for.
            return Box::pin(datagrams.send(answers)).await;
        }
        self.write_all(answers).await?;
        // Encryption may have kept some of it.
        self.flush().await
    }
}

async fn encrypt(stream: TcpStream, tls: &TlsServer) -> io::Result<Stream> {
    let handshake = timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(stream)).await;
    let encrypted = handshake.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    match encrypted {
        Ok(mut stream) => {
            stream.get_mut().1.set_buffer_limit(Some(tls.send_buffer()));
            Ok(Stream::Tls(Box::new(stream)))
        }
        Err(error) => {
            tls.count_handshake_error();
            Err(error)
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
            // Nothing follows.
            Self::Datagrams(_) => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
            // Only whole answers can be sent.
            Self::Datagrams(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
            Self::Datagrams(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            Self::Datagrams(_) => Poll::Ready(Ok(())),
        }
    }
}
