//! Answers to bytes of the meta protocol.
//!
//! Owns the two letters that an answer begins with, and what the flags of a command ask for behind them, in the order of
//! the flags.

use std::fmt::Write;

use bytes::BytesMut;

use super::super::response::{Counter, Inspected, MetaHit, Response};
use super::super::text::Words;
use super::{Form, Verb, base64};
use crate::store::item::Marks;

/// Appends `response` to the command that `form` describes to `out`.
pub fn compose(form: &Form<'_>, key: &[u8], response: &Response, out: &mut BytesMut) {
    match response {
        Response::MetaHit(hit) => return compose_hit(form, hit, out),
        Response::Inspected(inspected) => return compose_inspected(form, inspected, out),
        Response::Number(counter) => return compose_counter(form, key, counter, out),
        _ => {}
    }
    let Some((status, cas)) = status(form.verb, response) else {
        return;
    };
    if form.quiet && is_nominal(form.verb, response) {
        return;
    }
    out.extend_from_slice(status);
    for flag in Words::of(form.flags) {
        match flag[0] {
            b'O' => push_opaque(flag, out),
            b'k' => push_key(key, form.base64, out),
            b'c' if form.verb == Verb::Set => push_number(b'c', form.cas.of(cas), out),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The letters, and the cas of what was stored.
fn status(verb: Verb, response: &Response) -> Option<(&'static [u8], u64)> {
    Some(match response {
        Response::Stored { cas } => (b"HD", *cas),
        Response::Ok if verb == Verb::Noop => (b"MN", 0),
        Response::Deleted | Response::Ok => (b"HD", 0),
        Response::NotStored => (b"NS", 0),
        Response::Exists => (b"EX", 0),
        Response::NotFound => (b"NF", 0),
        Response::Miss => (b"EN", 0),
        _ => return None,
    })
}

/// What a client that wants quiet expects anyway.
fn is_nominal(verb: Verb, response: &Response) -> bool {
    match response {
        Response::Miss => verb == Verb::Get,
        Response::Stored { .. } | Response::Deleted => true,
        _ => false,
    }
}

fn compose_hit(form: &Form<'_>, hit: &MetaHit, out: &mut BytesMut) {
    let item = &hit.item;
    push_head(form, item.data().len(), out);
    for flag in Words::of(form.flags) {
        match flag[0] {
            b's' => push_number(b's', item.data().len() as u64, out),
            b't' => push_ttl(hit.ttl, out),
            b'c' => push_number(b'c', form.cas.of(item.cas()), out),
            b'f' => push_number(b'f', item.flags(), out),
            b'l' => push_number(b'l', hit.idle.into(), out),
            b'h' => push_number(b'h', hit.fetched.into(), out),
            b'O' => push_opaque(flag, out),
            b'k' => push_key(item.key(), item.has(Marks::BINARY_KEY), out),
            _ => {}
        }
    }
    for (said, letter) in [(hit.taken, b" Z"), (hit.stale, b" X"), (hit.won, b" W")] {
        if said {
            out.extend_from_slice(letter);
        }
    }
    out.extend_from_slice(b"\r\n");
    if form.value {
        out.extend_from_slice(item.data());
        out.extend_from_slice(b"\r\n");
    }
}

fn compose_counter(form: &Form<'_>, key: &[u8], counter: &Counter, out: &mut BytesMut) {
    // memcached is not quiet about counters that it creates.
    if form.quiet && !counter.created {
        return;
    }
    let digits = counter.value.to_string();
    push_head(form, digits.len(), out);
    for flag in Words::of(form.flags) {
        match flag[0] {
            b't' => push_ttl(counter.ttl, out),
            b'c' => push_number(b'c', form.cas.of(counter.cas), out),
            b'O' => push_opaque(flag, out),
            b'k' => push_key(key, form.base64, out),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if form.value {
        out.extend_from_slice(digits.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// `ME <key> <name>=<value>*`. There are no slab classes: all items are of the first.
fn compose_inspected(form: &Form<'_>, inspected: &Inspected, out: &mut BytesMut) {
    let item = &inspected.item;
    out.extend_from_slice(b"ME ");
    extend_with_key(item.key(), item.has(Marks::BINARY_KEY), out);
    // This memcached counts the seconds to live backwards.
    let exp = inspected.ttl.map_or(-1, |ttl| -i64::from(ttl));
    // Writing into memory cannot fail.
    let _ = write!(
        out,
        " exp={exp} la={} cas={} fetch={} cls=1 size={}\r\n",
        inspected.idle,
        form.cas.of(item.cas()),
        if inspected.fetched { "yes" } else { "no" },
        inspected.size,
    );
}

fn push_head(form: &Form<'_>, len: usize, out: &mut BytesMut) {
    if form.value {
        let _ = write!(out, "VA {len}");
    } else {
        out.extend_from_slice(b"HD");
    }
}

fn push_ttl(ttl: Option<u32>, out: &mut BytesMut) {
    match ttl {
        Some(ttl) => push_number(b't', ttl.into(), out),
        None => out.extend_from_slice(b" t-1"),
    }
}

fn push_number(letter: u8, number: u64, out: &mut BytesMut) {
    let _ = write!(out, " {}{number}", char::from(letter));
}

fn push_opaque(flag: &[u8], out: &mut BytesMut) {
    out.extend_from_slice(b" ");
    out.extend_from_slice(flag);
}

/// A key that came in base64 goes so, and says so.
fn push_key(key: &[u8], base64: bool, out: &mut BytesMut) {
    out.extend_from_slice(b" k");
    if extend_with_key(key, base64, out) {
        out.extend_from_slice(b" b");
    }
}

/// Whether the key was written in base64, which it also is if it could not stand in a line.
fn extend_with_key(key: &[u8], base64: bool, out: &mut BytesMut) -> bool {
    let base64 = base64 || key.iter().any(|byte| matches!(byte, b' ' | b'\n' | 0));
    if base64 {
        base64::encode(key, out);
    } else {
        out.extend_from_slice(key);
    }
    base64
}
