//! The file in which a node says which ports it has got, for whoever started it with a free one.
//!
//! Owns memcached's form of it: `TCP INET: 11211` and the like, a line per socket.

use std::env;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tracing::warn;

use crate::listener::{Address, Listener};
use crate::server::Bound;

/// Names the file, as it does for memcached.
const FILE: &str = "MEMCACHED_PORT_FILENAME";

/// Writes the file, if there is to be one.
pub(crate) fn tell(bound: &Bound) {
    let Some(path) = env::var_os(FILE).map(PathBuf::from) else {
        return;
    };
    let is_unix = |listener: &Listener| matches!(listener, Listener::Unix { .. });
    if bound.listeners.iter().any(is_unix) {
        return;
    }
    // Whoever finds the file finds all of it.
    let mut unfinished = path.clone().into_os_string();
    unfinished.push(".lck");
    let written =
        fs::write(&unfinished, lines(bound)).and_then(|()| fs::rename(&unfinished, &path));
    if let Err(error) = written {
        warn!(path = %path.display(), %error, "cannot write the ports");
    }
}

fn lines(bound: &Bound) -> String {
    let tcp = bound.listeners.iter().filter_map(|listener| {
        let Ok(Address::Tcp(addr)) = listener.address() else {
            return None;
        };
        Some(line("TCP", addr))
    });
    let udp = bound.datagrams.iter().map(|socket| socket.local_addr());
    let udp = udp.filter_map(io::Result::ok).map(|addr| line("UDP", addr));
    tcp.chain(udp).collect()
}

fn line(protocol: &str, addr: SocketAddr) -> String {
    let family = if addr.is_ipv4() { "INET" } else { "INET6" };
    format!("{protocol} {family}: {}\n", addr.port())
}
