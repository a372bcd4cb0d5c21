//! What each command does to the store.
//!
//! Owns memcached's semantics: which answer follows from which item. It has no socket and no clock, and it does not
//! wait: a request whose item must be read from the disk first is left undone, and can be tried again later.

use std::borrow::Cow;

use crate::clock::UnixSeconds;
use crate::protocol::request::{Direction, Request, StoreMode};
use crate::protocol::response::{Refusal, Response};
use crate::protocol::text::parse_counter;
use crate::store::item::{Expiry, Exptime, Item};
use crate::store::{Blocked, Change, Store};

/// Carries out `request` as of `now`, or says why it could not be and that nothing has changed.
pub fn execute(
    request: &Request<'_>,
    store: &Store,
    now: UnixSeconds,
) -> Result<Response, Blocked> {
    match *request {
        Request::Get { key, touch: None } => {
            Ok(store.get(key, now)?.map_or(Response::Miss, Response::Hit))
        }
        Request::Get {
            key,
            touch: Some(exptime),
        } => get_and_touch(store, key, exptime, now),
        Request::Store {
            mode,
            key,
            flags,
            exptime,
            data,
        } => {
            let new = NewItem {
                key,
                flags,
                expiry: exptime.expiry(now),
                data,
            };
            store_item(store, mode, &new, now)
        }
        Request::Delete { key } => store.update(key, now, |item| match item {
            Some(_) => (Change::Delete, Response::Deleted),
            None => (Change::Keep, Response::NotFound),
        }),
        Request::Arithmetic {
            direction,
            key,
            delta,
        } => store.update(key, now, |item| {
            let Some(item) = item else {
                return (Change::Keep, Response::NotFound);
            };
            add_delta(item, direction, delta)
        }),
        Request::Touch { key, exptime } => store.update(key, now, |item| match item {
            Some(_) => (Change::Expire(exptime.expiry(now)), Response::Touched),
            None => (Change::Keep, Response::NotFound),
        }),
        Request::FlushAll { delay } => flush_all(store, delay, now),
        Request::StoreTooLarge { mode, key } => {
            if mode == StoreMode::Set {
                store.update(key, now, |_| (Change::Delete, ()))?;
            }
            Ok(Response::Refused(Refusal::TooLarge))
        }
    }
}

fn get_and_touch(
    store: &Store,
    key: &[u8],
    exptime: Exptime,
    now: UnixSeconds,
) -> Result<Response, Blocked> {
    store.update(key, now, |item| match item {
        Some(item) => {
            let expiry = exptime.expiry(now);
            (Change::Expire(expiry), Response::Hit(item.clone()))
        }
        None => (Change::Keep, Response::Miss),
    })
}

/// What a storage command brings along.
struct NewItem<'a> {
    key: &'a [u8],
    flags: u64,
    expiry: Expiry,
    data: &'a [u8],
}

impl<'a> NewItem<'a> {
    fn put(&self) -> (Change<'a>, Response) {
        let change = Change::Put {
            flags: self.flags,
            expiry: self.expiry,
            data: Cow::Borrowed(self.data),
        };
        (change, Response::Stored)
    }
}

fn store_item(
    store: &Store,
    mode: StoreMode,
    new: &NewItem<'_>,
    now: UnixSeconds,
) -> Result<Response, Blocked> {
    let not_stored = (Change::Keep, Response::NotStored);
    match mode {
        StoreMode::Set => {
            store.set(new.key, new.flags, new.expiry, new.data, now)?;
            Ok(Response::Stored)
        }
        StoreMode::Add => store.update(new.key, now, |item| match item {
            None => new.put(),
            Some(_) => not_stored,
        }),
        StoreMode::Replace => store.update(new.key, now, |item| match item {
            Some(_) => new.put(),
            None => not_stored,
        }),
        StoreMode::Append => store.update(new.key, now, |item| match item {
            Some(item) => join(store, new.key, item, item.data(), new.data),
            None => not_stored,
        }),
        StoreMode::Prepend => store.update(new.key, now, |item| match item {
            Some(item) => join(store, new.key, item, new.data, item.data()),
            None => not_stored,
        }),
        StoreMode::Cas(cas) => store.update(new.key, now, |item| match item {
            Some(item) if item.cas() == cas => new.put(),
            Some(_) => (Change::Keep, Response::Exists),
            None => (Change::Keep, Response::NotFound),
        }),
    }
}

/// The item with longer data; its flags and expiry stay. What would exceed the item size limit is not stored.
fn join(
    store: &Store,
    key: &[u8],
    item: &Item,
    first: &[u8],
    second: &[u8],
) -> (Change<'static>, Response) {
    if !store.fits(key.len(), item.flags(), first.len() + second.len()) {
        return (Change::Keep, Response::NotStored);
    }
    let data = Cow::Owned([first, second].concat());
    (
        Change::Put {
            flags: item.flags(),
            expiry: item.expiry(),
            data,
        },
        Response::Stored,
    )
}

/// A counter is its decimal digits. A result that is shorter than the old one keeps its length, padded with spaces.
fn add_delta(item: &Item, direction: Direction, delta: u64) -> (Change<'static>, Response) {
    let Some(old) = parse_counter(item.data()) else {
        return (Change::Keep, Response::Refused(Refusal::NotANumber));
    };
    let new = match direction {
        Direction::Incr => old.wrapping_add(delta),
        Direction::Decr => old.saturating_sub(delta),
    };
    let data = format!("{new:<width$}", width = item.data().len()).into_bytes();
    let change = Change::Put {
        flags: item.flags(),
        expiry: item.expiry(),
        data: Cow::Owned(data),
    };
    (change, Response::Number(new))
}

fn flush_all(store: &Store, delay: Exptime, now: UnixSeconds) -> Result<Response, Blocked> {
    let due = match delay.expiry(now) {
        Expiry::NEVER | Expiry::PAST => None,
        expiry => Some(UnixSeconds(expiry.to_raw())),
    };
    store.flush_all(due, now)?;
    Ok(Response::Ok)
}
