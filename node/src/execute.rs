//! What each command does to the store.
//!
//! Owns memcached's semantics: which answer follows from which item. It has no socket and no clock, and it does not
//! wait: a request whose item must be read from the disk first is left undone, and can be tried again later.

mod meta;

use std::borrow::Cow;

use crate::clock::UnixSeconds;
use crate::protocol::request::{ANY_VERSION, Direction, Request, Steps, StoreMode};
use crate::protocol::response::{Counter, Refusal, Response};
use crate::protocol::text::parse_counter;
use crate::store::item::{Expiry, Exptime, Item, Marks};
use crate::store::{Amendment, Blocked, Change, Store};

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
        } => update(store, key, now, |item| match item {
            Some(item) => (touched(item, exptime, now), Response::Hit(item.clone())),
            None => (Change::Keep, Response::Miss),
        }),
        Request::LeaseGet { key } => update(store, key, now, |item| match item {
            Some(item) => (read(item), Response::Hit(item.clone())),
            None => (Change::Keep, Response::Leased(store.grant_lease(key, now))),
        }),
        Request::MetaGet { key, steps, read } => meta::get(store, key, steps, read, now),
        Request::Inspect { key } => meta::inspect(store, key, now),
        Request::Store {
            mode,
            key,
            flags,
            exptime,
            data,
            binary_key,
        } => {
            let new = NewItem {
                key,
                flags,
                expiry: exptime.expiry(now),
                data,
                marks: if binary_key {
                    Marks::BINARY_KEY
                } else {
                    Marks::default()
                },
            };
            store_item(store, mode, &new, now)
        }
        Request::Delete { key, cas, .. } => update(store, key, now, |item| match item {
            Some(item) if is_version(item, cas) => (Change::Delete, Response::Deleted),
            Some(_) => (Change::Keep, Response::Exists),
            // Whoever is about to store an item is told that it is out of date.
            None => (Change::Delete, Response::NotFound),
        }),
        Request::Invalidate { key, cas, exptime } => {
            meta::invalidate(store, key, cas, exptime, now)
        }
        Request::Arithmetic {
            direction,
            key,
            delta,
            cas,
            initial,
            steps,
        } => update(store, key, now, |item| match item {
            Some(item) if !item.data().is_empty() && !is_version(item, cas) => {
                (Change::Keep, Response::Exists)
            }
            Some(item) => add_delta(item, direction, delta, steps, now),
            None if steps.create() => create_counter(initial, steps, now),
            None => (Change::Keep, Response::NotFound),
        }),
        Request::Touch { key, exptime } => update(store, key, now, |item| match item {
            Some(item) => (touched(item, exptime, now), Response::Touched),
            None => (Change::Keep, Response::NotFound),
        }),
        Request::FlushAll { delay } => flush_all(store, delay, now),
        Request::StoreTooLarge { mode, key } => {
            let response = Response::Refused(Refusal::TooLarge);
            if mode == StoreMode::Set {
                update(store, key, now, |_| (Change::Delete, response))
            } else {
                Ok(response)
            }
        }
    }
}

/// [`Store::update`] with an answer that names the version that was put.
fn update<'a>(
    store: &Store,
    key: &[u8],
    now: UnixSeconds,
    decide: impl FnOnce(Option<&Item>) -> (Change<'a>, Response),
) -> Result<Response, Blocked> {
    let updated = store.update(key, now, decide)?;
    Ok(updated.result.with_cas(updated.cas))
}

fn is_version(item: &Item, cas: u64) -> bool {
    cas == ANY_VERSION || item.cas() == cas
}

fn read(item: &Item) -> Change<'static> {
    Change::Amend(Amendment {
        expiry: item.expiry(),
        marks: item.marks(),
        read: true,
    })
}

fn touched(item: &Item, exptime: Exptime, now: UnixSeconds) -> Change<'static> {
    Change::Amend(Amendment {
        expiry: exptime.expiry(now),
        marks: item.marks(),
        read: true,
    })
}

/// What a storage command brings along.
struct NewItem<'a> {
    key: &'a [u8],
    flags: u64,
    expiry: Expiry,
    data: &'a [u8],
    marks: Marks,
}

impl<'a> NewItem<'a> {
    fn put(&self) -> (Change<'a>, Response) {
        let change = Change::Put {
            flags: self.flags,
            expiry: self.expiry,
            data: Cow::Borrowed(self.data),
            marks: self.marks,
        };
        (change, Response::Stored { cas: 0 })
    }

    /// Takes the place of a later version than its client knew.
    fn put_stale(&self, item: &Item) -> (Change<'a>, Response) {
        let stale = Self {
            expiry: item.expiry(),
            marks: self
                .marks
                .with(Marks::STALE)
                .with(item.marks().only(Marks::WON)),
            ..*self
        };
        stale.put()
    }
}

fn store_item(
    store: &Store,
    mode: StoreMode,
    new: &NewItem<'_>,
    now: UnixSeconds,
) -> Result<Response, Blocked> {
    if mode == StoreMode::Set && new.marks == Marks::default() {
        let cas = store.set(new.key, new.flags, new.expiry, new.data, now)?;
        return Ok(Response::Stored { cas });
    }
    update(store, new.key, now, |item| match (mode, item) {
        (StoreMode::Set, _) | (StoreMode::Add, None) | (StoreMode::Replace, Some(_)) => new.put(),
        (StoreMode::Append(cas) | StoreMode::Prepend(cas), Some(item))
            if !is_version(item, cas) =>
        {
            (Change::Keep, Response::Exists)
        }
        (StoreMode::Leased(token), None) if store.redeem_lease(new.key, token, now) => new.put(),
        (StoreMode::Append(_), Some(item)) => join(store, new.key, item, item.data(), new.data),
        (StoreMode::Prepend(_), Some(item)) => join(store, new.key, item, new.data, item.data()),
        (StoreMode::Add, Some(_))
        | (StoreMode::Leased(_), _)
        | (StoreMode::Replace | StoreMode::Append(_) | StoreMode::Prepend(_), None) => {
            (Change::Keep, Response::NotStored)
        }
        (StoreMode::Cas(cas) | StoreMode::CasOrStale(cas), Some(item)) if item.cas() == cas => {
            new.put()
        }
        (StoreMode::CasOrStale(cas), Some(item)) if (1..item.cas()).contains(&cas) => {
            new.put_stale(item)
        }
        (StoreMode::Cas(_) | StoreMode::CasOrStale(_), Some(_)) => (Change::Keep, Response::Exists),
        (StoreMode::Cas(_) | StoreMode::CasOrStale(_), None) => (Change::Keep, Response::NotFound),
    })
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
    let change = Change::Put {
        flags: item.flags(),
        expiry: item.expiry(),
        data: Cow::Owned([first, second].concat()),
        marks: Marks::default(),
    };
    (change, Response::Stored { cas: 0 })
}

/// A counter is its decimal digits. A result that is shorter than the old one keeps its length, padded with spaces, and
/// what else is known about the item.
fn add_delta(
    item: &Item,
    direction: Direction,
    delta: u64,
    steps: Steps,
    now: UnixSeconds,
) -> (Change<'static>, Response) {
    let Some(old) = parse_counter(item.data()) else {
        return (Change::Keep, Response::Refused(Refusal::NotANumber));
    };
    let value = match direction {
        Direction::Incr => old.wrapping_add(delta),
        Direction::Decr => old.saturating_sub(delta),
    };
    let data = format!("{value:<width$}", width = item.data().len()).into_bytes();
    let marks = if data.len() == item.data().len() {
        item.marks()
    } else {
        Marks::default()
    };
    let walk = meta::Walk::over(steps, item.expiry(), false, now);
    let change = Change::Put {
        flags: item.flags(),
        expiry: walk.expiry,
        data: Cow::Owned(data),
        marks,
    };
    (change, counter(value, &walk, false))
}

fn create_counter(initial: u64, steps: Steps, now: UnixSeconds) -> (Change<'static>, Response) {
    let walk = meta::Walk::over(steps, Expiry::NEVER, true, now);
    let change = Change::Put {
        flags: 0,
        expiry: walk.expiry,
        data: Cow::Owned(initial.to_string().into_bytes()),
        marks: Marks::default(),
    };
    (change, counter(initial, &walk, true))
}

fn counter(value: u64, walk: &meta::Walk, created: bool) -> Response {
    Response::Number(Counter {
        value,
        cas: 0,
        ttl: walk.ttl,
        created,
    })
}

fn flush_all(store: &Store, delay: Exptime, now: UnixSeconds) -> Result<Response, Blocked> {
    let due = match delay.expiry(now) {
        Expiry::NEVER | Expiry::PAST => None,
        expiry => Some(UnixSeconds(expiry.to_raw())),
    };
    store.flush_all(due, now)?;
    Ok(Response::Ok)
}
