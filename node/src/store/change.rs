//! What a command does with one item.
//!
//! Owns how a decision becomes a version in memory. It is called under the lock of the item's shard.

use std::borrow::Cow;

use super::item::{Attributes, Expiry, Item, Marks};
use super::load::absent;
use super::memory::{Locked, count_use};
use crate::clock::UnixSeconds;

/// What [`super::Store::update`] does with an item.
#[derive(Debug)]
pub enum Change<'a> {
    /// Nothing.
    Keep,
    /// Replaces it by a new version, which gets a new cas.
    Put {
        flags: u64,
        expiry: Expiry,
        data: Cow<'a, [u8]>,
        /// What is known about the new version from the start.
        marks: Marks,
    },
    /// Changes what may change of a version, which stays with its cas.
    Amend(Amendment),
    Delete,
}

/// What becomes of a version.
#[derive(Clone, Copy, Debug)]
pub struct Amendment {
    pub expiry: Expiry,
    /// Only the lasting ones are looked at.
    pub marks: Marks,
    /// Whether this counts as reading.
    pub read: bool,
}

/// What [`super::Store::update`] has done.
#[derive(Debug)]
pub struct Updated<R> {
    pub result: R,
    /// That of the version that was put, 0 if none was.
    pub cas: u64,
}

pub(super) fn put(
    shard: &mut Locked<'_>,
    key: &[u8],
    attributes: Attributes,
    data: &[u8],
    marks: Marks,
    now: UnixSeconds,
) {
    let hash = shard.hash();
    if attributes.expiry.has_passed(now) {
        shard.write_absent(hash, absent(key, now));
    } else {
        let item = Item::new(key, attributes, data, now);
        item.set_marks(marks.only(Marks::LASTING.with(Marks::FETCHED)));
        shard.write(hash, item);
    }
}

/// What changes nothing is not written to the disk.
pub(super) fn amend(shard: &mut Locked<'_>, item: &Item, amendment: Amendment, now: UnixSeconds) {
    if amendment.read {
        count_use(item, now);
    }
    let (old, expiry) = (item.marks(), item.expiry());
    let lasting = amendment.marks.only(Marks::LASTING);
    item.set_expiry(amendment.expiry);
    item.set_marks(old.without(Marks::LASTING).with(lasting));
    if amendment.expiry != expiry || lasting != old.only(Marks::LASTING) {
        let hash = shard.hash();
        shard.write_again(hash, item);
    }
}
