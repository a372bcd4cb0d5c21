//! What a client wants, whatever encoding it spoke.
//!
//! Owns the command types. Keys and data borrow from the connection's read buffer.

use crate::store::item::Exptime;

/// The longest key, memcached's `KEY_MAX_LENGTH`.
pub const MAX_KEY_LEN: usize = 250;

/// A command that reads or changes items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    Get {
        key: &'a [u8],
        /// Sets the item's expiry on the way.
        touch: Option<Exptime>,
    },
    Store {
        mode: StoreMode,
        key: &'a [u8],
        flags: u64,
        exptime: Exptime,
        data: &'a [u8],
    },
    Delete {
        key: &'a [u8],
    },
    Arithmetic {
        direction: Direction,
        key: &'a [u8],
        delta: u64,
    },
    Touch {
        key: &'a [u8],
        exptime: Exptime,
    },
    FlushAll {
        /// When: 0 or negative for at once.
        delay: Exptime,
    },
    /// A value over the size limit, whose data was not kept. memcached takes the old value away if it was a
    /// `set`, because the client believes that it is replaced.
    StoreTooLarge {
        mode: StoreMode,
        key: &'a [u8],
    },
}

/// Under which condition a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    Set,
    /// Only where there is no item.
    Add,
    /// Only where there is an item.
    Replace,
    /// Behind the data of an existing item, which keeps its flags and expiry.
    Append,
    /// Before the data of an existing item, which keeps its flags and expiry.
    Prepend,
    /// Only if the item is still the version with this cas.
    Cas(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Wraps at 2^64.
    Incr,
    /// Stops at 0.
    Decr,
}

/// A command about the server or the connection. It is answered also while the node is draining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    Version,
    /// Accepted; the log's level is set by the log filter.
    Verbosity,
    Stats(Stats),
    /// `stats detail on` and `off`: there are no per-prefix statistics to switch.
    StatsDetail,
    Quit,
}

/// Which group of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    General,
    Settings,
    Items,
    Slabs,
    Sizes,
    Conns,
    Detail,
    Reset,
}

impl<'a> Request<'a> {
    /// The key it is about; `flush_all` is about all.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Get { key, .. }
            | Self::Store { key, .. }
            | Self::Delete { key }
            | Self::Arithmetic { key, .. }
            | Self::Touch { key, .. }
            | Self::StoreTooLarge { key, .. } => Some(key),
            Self::FlushAll { .. } => None,
        }
    }

    /// The same request with another key and other data, where it has them.
    fn with<'b>(self, key: &'b [u8], data: &'b [u8]) -> Request<'b> {
        match self {
            Self::Get { touch, .. } => Request::Get { key, touch },
            Self::Store {
                mode,
                flags,
                exptime,
                ..
            } => Request::Store {
                mode,
                key,
                flags,
                exptime,
                data,
            },
            Self::Delete { .. } => Request::Delete { key },
            Self::Arithmetic {
                direction, delta, ..
            } => Request::Arithmetic {
                direction,
                key,
                delta,
            },
            Self::Touch { exptime, .. } => Request::Touch { key, exptime },
            Self::FlushAll { delay } => Request::FlushAll { delay },
            Self::StoreTooLarge { mode, .. } => Request::StoreTooLarge { mode, key },
        }
    }

    /// Whether the answer promises something about the disk.
    pub fn is_write(&self) -> bool {
        match self {
            Self::Get { touch, .. } => touch.is_some(),
            Self::Store { .. }
            | Self::Delete { .. }
            | Self::Arithmetic { .. }
            | Self::Touch { .. }
            | Self::FlushAll { .. }
            | Self::StoreTooLarge { .. } => true,
        }
    }
}

/// A request that outlives the buffer it was read from.
#[derive(Debug)]
pub struct OwnedRequest {
    key: Box<[u8]>,
    data: Box<[u8]>,
    /// With neither key nor data.
    rest: Request<'static>,
}

impl OwnedRequest {
    pub fn new(request: Request<'_>) -> Self {
        let data = match request {
            Request::Store { data, .. } => data,
            _ => &[],
        };
        Self {
            key: request.key().unwrap_or_default().into(),
            data: data.into(),
            rest: request.with(&[], &[]),
        }
    }

    pub fn as_request(&self) -> Request<'_> {
        self.rest.with(&self.key, &self.data)
    }

    /// What it takes in memory beside itself, in bytes.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.data.len()
    }
}
