//! Answers to what mcrouter adds to the text protocol: leases and `metaget`.
//!
//! Owns their form, which is that of mcrouter's `AsciiSerialized.cpp` and `McAsciiParser.rl`.

use std::fmt::Write;

use bytes::BytesMut;

use super::super::reply::ShownCas;
use super::super::response::{Inspected, Response};
use super::{END, compose};

/// The token of a client that is to wait: somebody else stores the item.
const WAIT: u64 = 1;

/// `VALUE <key> <flags> <bytes>`, data and `END`, or `LVALUE <key> <token> <flags> <bytes>`, no data and `END`.
pub(crate) fn compose_lease(key: &[u8], response: &Response, out: &mut BytesMut) {
    if let Response::Leased(token) = response {
        out.extend_from_slice(b"LVALUE ");
        out.extend_from_slice(key);
        // Writing into memory cannot fail.
        let _ = write!(out, " {} 0 0\r\n\r\n", token.unwrap_or(WAIT));
    } else {
        compose(response, key, ShownCas::Nothing, out);
    }
    out.extend_from_slice(END);
}

/// `META <key> age: <seconds>; exptime: <unix>; from: <ip>` and `END`, or `END` alone. When and from where an item came is
/// not kept.
pub(crate) fn compose_metaget(key: &[u8], response: &Response, out: &mut BytesMut) {
    if let Response::Inspected(Inspected { item, .. }) = response {
        out.extend_from_slice(b"META ");
        out.extend_from_slice(key);
        let exptime = item.expiry().to_raw();
        let _ = write!(out, " age: unknown; exptime: {exptime}; from: unknown\r\n");
    }
    out.extend_from_slice(END);
}
