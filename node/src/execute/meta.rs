//! What only the meta commands do to the store.
//!
//! Owns the order of their steps, and who is told to replace an item: whoever creates it, finds it stale or about to
//! expire, and is the first to do so.

use std::borrow::Cow;

use super::is_version;
use crate::clock::UnixSeconds;
use crate::protocol::request::{Step, Steps};
use crate::protocol::response::{Inspected, MetaHit, Response};
use crate::store::item::{Attributes, Expiry, Exptime, Item, Marks, item_size};
use crate::store::{Amendment, Blocked, Change, Store};

/// What the steps of a command make of an item.
pub(super) struct Walk {
    pub(super) expiry: Expiry,
    /// As it was when it was asked for.
    pub(super) ttl: Option<u32>,
    /// The item expires before the client wants it to be replaced.
    recache: bool,
}

impl Walk {
    /// Goes through `steps` with an item that expires at `expiry`, and that has just been `created` or not.
    pub(super) fn over(steps: Steps, expiry: Expiry, created: bool, now: UnixSeconds) -> Self {
        let mut walk = Self {
            expiry,
            ttl: None,
            recache: false,
        };
        for step in steps.iter() {
            match step {
                Step::Touch(exptime) => walk.expiry = exptime.expiry(now),
                Step::Create(exptime) if created => walk.expiry = exptime.expiry(now),
                Step::Create(_) => {}
                Step::Recache(exptime) => {
                    walk.recache = !created && walk.expires_before(exptime.expiry(now));
                }
                Step::ReportTtl => walk.ttl = ttl(walk.expiry, now),
            }
        }
        walk
    }

    /// An exptime of 0 is before everything here, as in memcached.
    fn expires_before(&self, moment: Expiry) -> bool {
        self.expiry != Expiry::NEVER && self.expiry.to_raw() < moment.to_raw()
    }
}

/// Seconds to live.
fn ttl(expiry: Expiry, now: UnixSeconds) -> Option<u32> {
    (expiry != Expiry::NEVER).then(|| expiry.to_raw().saturating_sub(now.0))
}

fn idle(item: &Item, now: UnixSeconds) -> u32 {
    now.0.saturating_sub(item.accessed().0)
}

pub(super) fn get(
    store: &Store,
    key: &[u8],
    steps: Steps,
    read: bool,
    now: UnixSeconds,
) -> Result<Response, Blocked> {
    let updated = store.update(key, now, |item| match item {
        Some(item) => found(item, steps, read, now),
        None if steps.create() => created(key, steps, read, now),
        None => (Change::Keep, Response::Miss),
    })?;
    Ok(match updated.result {
        Response::MetaHit(hit) if updated.cas != 0 => Response::MetaHit(MetaHit {
            item: empty_item(key, updated.cas, now),
            ..hit
        }),
        response => response,
    })
}

fn found(item: &Item, steps: Steps, read: bool, now: UnixSeconds) -> (Change<'static>, Response) {
    let walk = Walk::over(steps, item.expiry(), false, now);
    let (stale, taken) = (item.has(Marks::STALE), item.has(Marks::WON));
    let hit = MetaHit {
        item: item.clone(),
        ttl: walk.ttl,
        idle: idle(item, now),
        fetched: item.has(Marks::FETCHED),
        won: !taken && (stale || walk.recache),
        taken,
        stale,
    };
    let marks = if hit.won {
        item.marks().with(Marks::WON)
    } else {
        item.marks()
    };
    let change = Change::Amend(Amendment {
        expiry: walk.expiry,
        marks,
        read,
    });
    (change, Response::MetaHit(hit))
}

/// An empty item in the place of a missing one, for this client to replace.
fn created(key: &[u8], steps: Steps, read: bool, now: UnixSeconds) -> (Change<'static>, Response) {
    let walk = Walk::over(steps, Expiry::NEVER, true, now);
    let hit = MetaHit {
        item: empty_item(key, 0, now),
        ttl: walk.ttl,
        idle: 0,
        fetched: false,
        won: true,
        taken: false,
        stale: false,
    };
    let marks = if read {
        Marks::WON.with(Marks::FETCHED)
    } else {
        Marks::WON
    };
    let change = Change::Put {
        flags: 0,
        expiry: walk.expiry,
        data: Cow::Borrowed(b""),
        marks,
    };
    (change, Response::MetaHit(hit))
}

fn empty_item(key: &[u8], cas: u64, now: UnixSeconds) -> Item {
    let attributes = Attributes {
        flags: 0,
        expiry: Expiry::NEVER,
        cas,
    };
    Item::new(key, attributes, b"", now)
}

pub(super) fn inspect(store: &Store, key: &[u8], now: UnixSeconds) -> Result<Response, Blocked> {
    let updated = store.update(key, now, |item| {
        let response = item.map_or(Response::Miss, |item| {
            Response::Inspected(Inspected {
                item: item.clone(),
                ttl: ttl(item.expiry(), now),
                idle: idle(item, now),
                fetched: item.has(Marks::FETCHED),
                size: item_size(key.len(), item.flags(), item.data().len()),
            })
        });
        (Change::Keep, response)
    })?;
    Ok(updated.result)
}

/// A stale item is another version, so that nobody replaces it who has not seen that it is stale.
pub(super) fn invalidate(
    store: &Store,
    key: &[u8],
    cas: u64,
    exptime: Option<Exptime>,
    now: UnixSeconds,
) -> Result<Response, Blocked> {
    let updated = store.update(key, now, |item| match item {
        Some(item) if is_version(item, cas) => {
            let change = Change::Put {
                flags: item.flags(),
                expiry: exptime.map_or(item.expiry(), |exptime| exptime.expiry(now)),
                data: Cow::Owned(item.data().to_vec()),
                marks: item.marks().without(Marks::WON).with(Marks::STALE),
            };
            (change, Response::Deleted)
        }
        Some(_) => (Change::Keep, Response::Exists),
        None => (Change::Keep, Response::NotFound),
    })?;
    Ok(updated.result)
}
