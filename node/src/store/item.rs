//! What the cache keeps under a key, and when it stops being there.
//!
//! Owns the item's fields and memcached's rule for expiration times. It knows no protocol and no disk.

use bytes::Bytes;

use crate::clock::UnixSeconds;

/// The largest exptime that counts seconds from now; above it, it is a Unix time (memcached's `protocol.txt`).
const MAX_RELATIVE_EXPTIME: i32 = 60 * 60 * 24 * 30;

/// What memcached adds to a value when it compares it with `-I`: item header, cas, terminating zero and CRLF.
/// Counting the same way keeps the limit where its users have it.
const ITEM_OVERHEAD: usize = 48 + 8 + 1 + 2;
/// memcached keeps flags only when they are not zero.
const FLAGS_OVERHEAD: usize = 4;

/// One stored value with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Opaque to us. 32 bits for memcached's clients, 64 for mcrouter's.
    pub flags: u64,
    pub expiry: Expiry,
    /// Unique among all versions of all items of this node, across restarts; larger means written later.
    pub cas: u64,
    pub data: Bytes,
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
    fn an_item_counts_for_what_memcached_counts() {
        // The largest values that memcached takes under a one-byte key with -I 1m.
        assert_eq!(item_size(1, 0, 1_048_516), 1_048_576);
        assert_eq!(item_size(1, 7, 1_048_512), 1_048_576);
        assert_eq!(item_size(250, u64::MAX, usize::MAX), usize::MAX);
    }
}
