//! What the cache keeps under a key, and when it stops being there.
//!
//! Owns the item and memcached's rule for expiration times. It knows no protocol and no disk.
//!
//! ```text
//!   one allocation, shared by reference count
//!   ┌───────┬────────┬─────┬───────┬────────┬──────────┬─────────┬──────┬─────────┬─────────┬──────────┐
//!   │ count │ length │ cas │ flags │ expiry │ accessed │ written │ bits │ key len │ key ... │ data ... │
//!   │   8   │   8    │  8  │   8   │   4    │    4     │    4    │  2   │    1 +1 │         │          │
//!   └───────┴────────┴─────┴───────┴────────┴──────────┴─────────┴──────┴─────────┴─────────┴──────────┘
//! ```
//!
//! Key, data, flags and cas of an item never change: another value is another item. What does change (expiry, last
//! access, marks) is atomic, and is only changed under the lock of the item's shard.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use triomphe::ThinArc;

use crate::clock::UnixSeconds;

/// The largest exptime that counts seconds from now; above it, it is a Unix time (memcached's `protocol.txt`).
const MAX_RELATIVE_EXPTIME: i32 = 60 * 60 * 24 * 30;

/// What memcached adds to a value when it compares it with `-I`: item header, cas, terminating zero and CRLF.
/// Counting the same way keeps the limit where its users have it.
const ITEM_OVERHEAD: usize = 48 + 8 + 1 + 2;
/// memcached keeps flags only when they are not zero.
const FLAGS_OVERHEAD: usize = 4;

/// Key and data are brought together here before they are allocated as one; a larger item gets a buffer of its own.
const MAX_SCRATCH: usize = 64 << 10;

/// One version of what is stored under a key. Cheap to clone: clones are the same item.
#[derive(Clone)]
pub struct Item(ThinArc<Head, u8>);

struct Head {
    cas: u64,
    flags: u64,
    expiry: AtomicU32,
    accessed: AtomicU32,
    written: AtomicU32,
    marks: AtomicU16,
    key_len: u8,
}

/// What there is to say about an item beside its key and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Opaque to us. 32 bits for memcached's clients, 64 for mcrouter's.
    pub flags: u64,
    pub expiry: Expiry,
    /// Unique among all versions of all items of this node, across restarts; larger means written later.
    pub cas: u64,
}

impl Item {
    /// An item that is used for the first time `now`. The key is at most 255 bytes long.
    pub fn new(key: &[u8], attributes: Attributes, data: &[u8], now: UnixSeconds) -> Self {
        let head = Head {
            cas: attributes.cas,
            flags: attributes.flags,
            expiry: AtomicU32::new(attributes.expiry.to_raw()),
            accessed: AtomicU32::new(now.0),
            written: AtomicU32::new(now.0),
            marks: AtomicU16::new(0),
            key_len: u8::try_from(key.len()).expect("a key is at most 250 bytes long"),
        };
        Self(with_joined(key, data, |joined| {
            ThinArc::from_header_and_slice(head, joined)
        }))
    }

    pub fn key(&self) -> &[u8] {
        &self.0.slice[..self.head().key_len.into()]
    }

    pub fn data(&self) -> &[u8] {
        &self.0.slice[self.head().key_len.into()..]
    }

    pub fn flags(&self) -> u64 {
        self.head().flags
    }

    pub fn cas(&self) -> u64 {
        self.head().cas
    }

    pub fn expiry(&self) -> Expiry {
        Expiry(self.head().expiry.load(Ordering::Relaxed))
    }

    pub fn attributes(&self) -> Attributes {
        Attributes {
            flags: self.flags(),
            expiry: self.expiry(),
            cas: self.cas(),
        }
    }

    /// When it was last read or written by a client. Not kept on the disk: an item that comes from there starts anew.
    pub fn accessed(&self) -> UnixSeconds {
        UnixSeconds(self.head().accessed.load(Ordering::Relaxed))
    }

    /// When it was last put in line for the disk, and so roughly how old its record there is.
    pub(super) fn written(&self) -> UnixSeconds {
        UnixSeconds(self.head().written.load(Ordering::Relaxed))
    }

    pub fn has(&self, mark: Marks) -> bool {
        self.marks().has(mark)
    }

    pub fn marks(&self) -> Marks {
        Marks(self.head().marks.load(Ordering::Relaxed))
    }

    pub(super) fn set_marks(&self, marks: Marks) {
        self.head().marks.store(marks.0, Ordering::Relaxed);
    }

    pub(super) fn set_expiry(&self, expiry: Expiry) {
        self.head().expiry.store(expiry.to_raw(), Ordering::Relaxed);
    }

    pub(super) fn set_written(&self, now: UnixSeconds) {
        self.head().written.store(now.0, Ordering::Relaxed);
    }

    /// Writes only what is new, because an item that is read by many is in the caches of many processors.
    pub(super) fn set_accessed(&self, now: UnixSeconds) {
        if self.accessed() != now {
            self.head().accessed.store(now.0, Ordering::Relaxed);
        }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.head(), other.head())
    }

    /// The memory that the item takes, in bytes: its allocation, rounded up as the allocator does.
    pub(super) fn footprint(&self) -> usize {
        footprint(self.0.slice.len())
    }

    fn head(&self) -> &Head {
        &self.0.header.header
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.attributes() == other.attributes() && self.0.slice == other.0.slice
    }
}

impl Eq for Item {}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("attributes", &self.attributes())
            .field("data", &String::from_utf8_lossy(self.data()))
            .finish_non_exhaustive()
    }
}

/// Facts about an item, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u16);

impl Marks {
    /// A client has read it.
    pub const FETCHED: Self = Self(1);
    /// Must be written to the disk.
    pub(super) const DIRTY: Self = Self(1 << 1);
    /// Is being written to the disk.
    pub(super) const FLUSHING: Self = Self(1 << 2);
    /// There is no item under this key, whatever the disk says.
    pub(super) const ABSENT: Self = Self(1 << 3);
    /// In the main queue of its shard, not in the small one.
    pub(super) const IN_MAIN: Self = Self(1 << 4);
    const USES_SHIFT: u16 = 5;
    /// How often it was read since it was last considered for eviction, 3 for more.
    pub(super) const USES: Self = Self(3 << Self::USES_SHIFT);
    const LASTING_SHIFT: u16 = 7;
    /// A client has said that the data is out of date, and that it may be served until it is replaced.
    pub const STALE: Self = Self(1 << Self::LASTING_SHIFT);
    /// A client was told to replace the data; others are told that one was.
    pub const WON: Self = Self(1 << (Self::LASTING_SHIFT + 1));
    /// The key was sent in base64 and is shown so.
    pub const BINARY_KEY: Self = Self(1 << (Self::LASTING_SHIFT + 2));
    /// What is kept on the disk.
    pub const LASTING: Self = Self(Self::STALE.0 | Self::WON.0 | Self::BINARY_KEY.0);

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The lasting ones as they lie on the disk.
    pub(super) fn to_raw(self) -> u8 {
        (self.only(Self::LASTING).0 >> Self::LASTING_SHIFT) as u8
    }

    /// Reads [`Marks::to_raw`].
    pub(super) fn from_raw(raw: u8) -> Self {
        Self(u16::from(raw) << Self::LASTING_SHIFT).only(Self::LASTING)
    }

    pub(super) fn uses(self) -> u16 {
        (self.0 & Self::USES.0) >> Self::USES_SHIFT
    }

    pub(super) fn with_uses(self, uses: u16) -> Self {
        self.without(Self::USES)
            .with(Self(uses.min(3) << Self::USES_SHIFT))
    }
}

/// Calls `use_joined` with `key` and `data` as one slice.
fn with_joined<R>(key: &[u8], data: &[u8], use_joined: impl FnOnce(&[u8]) -> R) -> R {
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    if key.len() + data.len() > MAX_SCRATCH {
        return use_joined(&[key, data].concat());
    }
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        scratch.extend_from_slice(key);
        scratch.extend_from_slice(data);
        use_joined(scratch)
    })
}

/// What key and data of `len` bytes take: with the item's head, rounded up to the allocator's next size. Its sizes are
/// the multiples of 16 up to 128, and from there four to each power of two.
fn footprint(len: usize) -> usize {
    const HEAD: usize = size_of::<Head>() + 2 * size_of::<usize>();
    let size = HEAD + len;
    let step = if size <= 128 {
        16
    } else {
        size.next_power_of_two() >> 3
    };
    size.next_multiple_of(step)
}

/// The bytes an item counts for against the item size limit.
pub fn item_size(key_len: usize, flags: u64, data_len: usize) -> usize {
    let flags_len = if flags == 0 { 0 } else { FLAGS_OVERHEAD };
    ITEM_OVERHEAD
        .saturating_add(flags_len)
        .saturating_add(key_len)
        .saturating_add(data_len)
}

/// The moment from which an item is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry(u32);

impl Expiry {
    pub const NEVER: Self = Self(0);
    /// A moment that has passed for everybody: what a negative exptime means.
    pub const PAST: Self = Self(1);

    /// Gone from `moment` on.
    pub fn at(moment: UnixSeconds) -> Self {
        Self(moment.0.max(Self::PAST.0))
    }

    /// The stored form: seconds since 1970, 0 for never.
    pub fn to_raw(self) -> u32 {
        self.0
    }

    /// Reads [`Expiry::to_raw`].
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The later of two.
    pub fn later(self, other: Self) -> Self {
        if self == Self::NEVER || other == Self::NEVER {
            Self::NEVER
        } else {
            Self(self.0.max(other.0))
        }
    }

    pub fn has_passed(self, now: UnixSeconds) -> bool {
        self != Self::NEVER && self.0 <= now.0
    }
}

/// An expiration time as clients send it: 0 for never, negative for at once, up to 30 days from now, above
/// that a Unix time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exptime(pub i32);

impl Exptime {
    /// The moment this means for a request that arrived `now`.
    pub fn expiry(self, now: UnixSeconds) -> Expiry {
        match self.0 {
            0 => Expiry::NEVER,
            i32::MIN..0 => Expiry::PAST,
            1..=MAX_RELATIVE_EXPTIME => Expiry::at(now.plus(self.0.unsigned_abs())),
            absolute => Expiry::at(UnixSeconds(absolute.unsigned_abs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_000_000_000);

    #[test]
    fn exptime_is_relative_up_to_thirty_days_and_absolute_above() {
        let cases = [
            (0, 0),
            (-1, 1),
            (i32::MIN, 1),
            (1, 1_000_000_001),
            (2_592_000, 1_002_592_000),
            (2_592_001, 2_592_001),
            (i32::MAX, 2_147_483_647),
        ];
        for (exptime, expiry) in cases {
            assert_eq!(
                Exptime(exptime).expiry(NOW).to_raw(),
                expiry,
                "exptime {exptime}"
            );
        }
    }

    #[test]
    fn an_item_is_gone_from_its_expiry_on_and_not_before() {
        let expiry = Exptime(10).expiry(NOW);
        assert!(!expiry.has_passed(NOW.plus(9)));
        assert!(expiry.has_passed(NOW.plus(10)));
        assert!(!Expiry::NEVER.has_passed(UnixSeconds(u32::MAX)));
        assert!(Expiry::PAST.has_passed(NOW));
    }

    #[test]
    fn key_and_data_are_what_was_put_in() {
        let attributes = Attributes {
            flags: 7,
            expiry: Expiry::NEVER,
            cas: 3,
        };
        for len in [0, 1, 1000, MAX_SCRATCH, MAX_SCRATCH + 1] {
            let data = vec![b'x'; len];
            let item = Item::new(b"key", attributes, &data, NOW);
            assert_eq!(
                (item.key(), item.data(), item.attributes()),
                (&b"key"[..], &data[..], attributes)
            );
        }
    }

    #[test]
    fn an_item_takes_what_the_allocator_gives_it() {
        assert_eq!(size_of::<Head>(), 32);
        let sizes = [
            (0, 48),
            (1, 64),
            (80, 128),
            (81, 160),
            (112, 160),
            (113, 192),
            (1000, 1280),
        ];
        for (len, expected) in sizes {
            assert_eq!(footprint(len), expected, "{len} bytes of key and data");
        }
    }

    #[test]
    fn an_item_counts_for_what_memcached_counts() {
        // The largest values that memcached takes under a one-byte key with -I 1m.
        assert_eq!(item_size(1, 0, 1_048_516), 1_048_576);
        assert_eq!(item_size(1, 7, 1_048_512), 1_048_576);
        assert_eq!(item_size(250, u64::MAX, usize::MAX), usize::MAX);
    }
}
