//! What is told to clients that watch.
//!
//! Owns memcached's words for what happened: to an item, from a request and its answer; to a connection.

use std::fmt::{self, Display};
use std::io;

use crate::clock::UnixSeconds;
use crate::listener::Address;
use crate::protocol::request::{Request, StoreMode, Topics};
use crate::protocol::response::{Refusal, Response};
use crate::registry::Listed;
use crate::store::item::Expiry;
use crate::watch::{UriEncoded, Watchers};

/// Tells what a request was about and what came of it, if anybody wants to know.
pub(super) fn tell(
    watchers: &Watchers,
    connection: &Listed,
    now: UnixSeconds,
    request: &Request<'_>,
    response: &Response,
) {
    let Some(key) = request.key() else { return };
    let topic = match request {
        Request::Store { .. } | Request::StoreTooLarge { .. } => Topics::MUTATIONS,
        _ => Topics::FETCHERS,
    };
    if !watchers.wants(topic) {
        return;
    }
    let (key, fd) = (UriEncoded(key), connection.fd);
    match request {
        Request::Store {
            mode,
            exptime,
            data,
            ..
        } => {
            let ttl = match exptime.expiry(now) {
                Expiry::NEVER => 0,
                expiry => expiry.to_raw().saturating_sub(now.0),
            };
            let (status, cmd, size) = (store_status(response), store_name(*mode), data.len());
            watchers.tell(
                topic,
                format_args!(
                    "type=item_store key={key} status={status} cmd={cmd} ttl={ttl} clsid=1 cfd={fd} size={size}"
                ),
            );
        }
        Request::StoreTooLarge { mode, .. } => {
            let cmd = store_name(*mode);
            watchers.tell(
                topic,
                format_args!("type=item_store key={key} status=too_large cmd={cmd} ttl=0 clsid=0 cfd={fd} size=0"),
            );
        }
        _ => {
            let (status, class, size) = found(response);
            watchers.tell(
                topic,
                format_args!(
                    "type=item_get key={key} status={status} clsid={class} cfd={fd} size={size}"
                ),
            );
        }
    }
}

/// Tells that a key was looked up before something is stored under it.
pub(super) fn tell_lookup(watchers: &Watchers, connection: &Listed, key: &[u8], found: bool) {
    let (status, class) = if found {
        ("found", 1)
    } else {
        ("not_found", 0)
    };
    let (key, fd) = (UriEncoded(key), connection.fd);
    watchers.tell(
        Topics::FETCHERS,
        format_args!("type=item_get key={key} status={status} clsid={class} cfd={fd} size=0"),
    );
}

/// Status, class and size of what was asked for.
fn found(response: &Response) -> (&'static str, u8, usize) {
    match response {
        Response::Hit(item) => ("found", 1, item.data().len()),
        Response::MetaHit(hit) => ("found", 1, hit.item.data().len()),
        Response::Inspected(inspected) => ("found", 1, inspected.item.data().len()),
        Response::Miss | Response::NotFound | Response::Refused(_) => ("not_found", 0, 0),
        _ => ("found", 1, 0),
    }
}

fn store_status(response: &Response) -> &'static str {
    match response {
        Response::Stored { .. } => "stored",
        Response::Exists => "exists",
        Response::NotFound => "not_found",
        Response::Refused(Refusal::TooLarge) => "too_large",
        Response::Refused(_) => "no_memory",
        _ => "not_stored",
    }
}

fn store_name(mode: StoreMode) -> &'static str {
    match mode {
        StoreMode::Set | StoreMode::Leased(_) => "set",
        StoreMode::Add => "add",
        StoreMode::Replace => "replace",
        StoreMode::Append(_) => "append",
        StoreMode::Prepend(_) => "prepend",
        StoreMode::Cas(_) | StoreMode::CasOrStale(_) => "cas",
    }
}

/// Tells that a client has come.
pub(crate) fn tell_open(watchers: &Watchers, connection: &Listed) {
    if watchers.wants(Topics::CONNECTIONS) {
        let peer = Peer(&connection.peer);
        let event = format_args!("type=conn_new {peer} cfd={}", connection.fd);
        watchers.tell(Topics::CONNECTIONS, event);
    }
}

/// Tells that a client is gone, and why.
pub(crate) fn tell_close(watchers: &Watchers, connection: &Listed, result: &io::Result<()>) {
    if watchers.wants(Topics::CONNECTIONS) {
        let peer = Peer(&connection.peer);
        let reason = match result {
            _ if connection.ended_idle() => "idle_timeout",
            Ok(()) => "normal",
            Err(_) => "error",
        };
        let event = format_args!(
            "type=conn_close {peer} reason={reason} cfd={}",
            connection.fd
        );
        watchers.tell(Topics::CONNECTIONS, event);
    }
}

struct Peer<'a>(&'a Address);

impl Display for Peer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Address::Tcp(addr) => {
                write!(f, "rip={} rport={} transport=tcp", addr.ip(), addr.port())
            }
            Address::Udp(addr) => {
                write!(f, "rip={} rport={} transport=udp", addr.ip(), addr.port())
            }
            Address::Unix(_) | Address::Unnamed => f.write_str("rip=unix rport=0 transport=local"),
        }
    }
}
