//! The sockets that clients connect to.
//!
//! Owns how each is opened and what it is called. Who is accepted is decided in [`crate::server`].

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket as RawSocket, Type};
use tokio::net::{TcpListener, UnixListener};

use crate::config::Host;
use crate::stream::Socket;

/// An address, written as memcached writes it in its statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Unix(PathBuf),
    /// The client's end of a Unix socket, which has no name.
    Unnamed,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => write_ip(f, "tcp", addr),
            Self::Udp(addr) => write_ip(f, "udp", addr),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Unnamed => f.write_str("?:<AF 0>"),
        }
    }
}

fn write_ip(f: &mut fmt::Formatter<'_>, protocol: &str, addr: &SocketAddr) -> fmt::Result {
    match addr {
        SocketAddr::V4(addr) => write!(f, "{protocol}:{addr}"),
        SocketAddr::V6(addr) => write!(f, "{protocol}6:[{}]:{}", addr.ip(), addr.port()),
    }
}

/// A bound socket.
pub(crate) enum Listener {
    Tcp {
        listener: TcpListener,
        tls: bool,
    },
    Unix {
        listener: UnixListener,
        path: PathBuf,
    },
}

/// A connection that has come.
pub(crate) struct Incoming {
    pub(crate) socket: Socket,
    pub(crate) peer: Address,
    /// The end of the connection that is here.
    pub(crate) local: Address,
    /// Whether it is to be encrypted.
    pub(crate) tls: bool,
}

impl Listener {
    /// One listener for each address of `host`.
    pub(crate) fn tcp(host: &Host, port: u16, tls: bool, backlog: u32) -> io::Result<Vec<Self>> {
        let mut listeners = Vec::new();
        for addr in addresses(host, port)? {
            match tcp_listener(addr, backlog) {
                Ok(listener) => listeners.push(Self::Tcp { listener, tls }),
                // A machine without IPv6 has all the addresses it has.
                Err(error) if *host == Host::All && addr.is_ipv6() && !listeners.is_empty() => {
                    tracing::debug!(%error, "not listening on IPv6");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(listeners)
    }

    /// A Unix socket that `mask` says who may connect to.
    pub(crate) fn unix(path: &Path, mask: u32, backlog: u32) -> io::Result<Self> {
        remove_stale(path)?;
        let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        // Nobody can connect before it listens.
        fs::set_permissions(path, fs::Permissions::from_mode(mask))?;
        socket.listen(as_backlog(backlog))?;
        socket.set_nonblocking(true)?;
        Ok(Self::Unix {
            listener: UnixListener::from_std(socket.into())?,
            path: path.to_path_buf(),
        })
    }

    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp { listener, .. } => Ok(Address::Tcp(listener.local_addr()?)),
            Self::Unix { path, .. } => Ok(Address::Unix(path.clone())),
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        match self {
            Self::Tcp { listener, .. } => listener.as_raw_fd(),
            Self::Unix { listener, .. } => listener.as_raw_fd(),
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<Incoming> {
        match self {
            Self::Tcp { listener, tls } => {
                let (stream, peer) = listener.accept().await?;
                Ok(Incoming {
                    peer: Address::Tcp(peer),
                    local: Address::Tcp(stream.local_addr()?),
                    socket: Socket::Tcp(stream.into_std()?),
                    tls: *tls,
                })
            }
            Self::Unix { listener, path } => {
                let (stream, _) = listener.accept().await?;
                Ok(Incoming {
                    peer: Address::Unnamed,
                    local: Address::Unix(path.clone()),
                    socket: Socket::Unix(stream.into_std()?),
                    tls: false,
                })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, .. } = self {
            // It may have been removed by somebody else.
            let _ = fs::remove_file(path);
        }
    }
}

/// Where `host` is, with `port`.
pub(crate) fn addresses(host: &Host, port: u16) -> io::Result<Vec<SocketAddr>> {
    match host {
        Host::All => Ok(vec![
            SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
            SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
        ]),
        Host::Named(name) => {
            let mut found: Vec<_> = (name.as_str(), port).to_socket_addrs()?.collect();
            found.dedup();
            // Each address would get another port.
            found.truncate(if port == 0 { 1 } else { usize::MAX });
            Ok(found)
        }
    }
}

fn tcp_listener(addr: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = RawSocket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        // The same port of IPv4 is a listener of its own.
        socket.set_only_v6(true)?;
    }
    socket.bind(&addr.into())?;
    socket.listen(as_backlog(backlog))?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

fn as_backlog(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

/// Removes a socket that nobody listens on any more. Anything else under that name stays, and is in the way.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
            _ => Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process serves on it",
            )),
        },
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is no socket is in the way",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_stale_socket_is_removed() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("socket");
        let listener = Listener::unix(&path, 0o700, 5).expect("a socket");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let error = Listener::unix(&path, 0o700, 5).err().expect("in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists(), "a listener removes its socket");
        // As a process leaves it that is killed.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
        drop(Listener::unix(&path, 0o777, 5).expect("a stale socket is removed"));
        fs::write(&path, "data").expect("written");
        assert!(Listener::unix(&path, 0o777, 5).is_err());
        assert_eq!(fs::read(&path).expect("still there"), b"data");
    }

    #[test]
    fn addresses_are_written_as_memcached_writes_them() {
        let tcp = |text: &str| Address::Tcp(text.parse().expect("an address")).to_string();
        assert_eq!(tcp("127.0.0.1:5"), "tcp:127.0.0.1:5");
        assert_eq!(tcp("[::1]:5"), "tcp6:[::1]:5");
        let udp = Address::Udp("[::1]:5".parse().expect("an address"));
        assert_eq!(udp.to_string(), "udp6:[::1]:5");
        assert_eq!(Address::Unix("/tmp/s".into()).to_string(), "unix:/tmp/s");
    }
}
