//! What a client wants, whatever encoding it spoke.
//!
//! Owns the command types. Keys and data borrow from the connection's read buffer.

use crate::store::item::Exptime;

/// The longest key, memcached's `KEY_MAX_LENGTH`.
pub const MAX_KEY_LEN: usize = 250;

/// Stands for whatever version there is, in place of a cas. No version has this cas.
pub const ANY_VERSION: u64 = 0;

/// No version will ever have this cas, ...
const NO_VERSION: u64 = u64::MAX;
/// ... nor this one, which stands for the 0 that a meta command names.
pub(super) const VERSION_ZERO: u64 = u64::MAX - 1;

/// A command that reads or changes items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    Get {
        key: &'a [u8],
        /// Sets the item's expiry on the way.
        touch: Option<Exptime>,
    },
    MetaGet {
        key: &'a [u8],
        /// Done in this order.
        steps: Steps,
        /// Whether this counts as reading.
        read: bool,
    },
    /// A get that makes one of the clients that miss the one to store the item.
    LeaseGet {
        key: &'a [u8],
    },
    /// Asks about an item without reading it.
    Inspect {
        key: &'a [u8],
    },
    Store {
        mode: StoreMode,
        key: &'a [u8],
        flags: u64,
        exptime: Exptime,
        data: &'a [u8],
        /// The key was sent in base64 and is shown so.
        binary_key: bool,
    },
    Delete {
        key: &'a [u8],
        cas: u64,
        /// With a time, which is forgotten.
        timed: bool,
    },
    /// Marks an item as out of date: the next client that asks for it is told to replace it.
    Invalidate {
        key: &'a [u8],
        cas: u64,
        exptime: Option<Exptime>,
    },
    Arithmetic {
        direction: Direction,
        key: &'a [u8],
        delta: u64,
        cas: u64,
        /// What a counter that is missing is created with; its exptime is the one in `steps`.
        initial: u64,
        /// Done in this order after the counter has changed.
        steps: Steps,
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
    /// Behind the data of an existing item with this cas, which keeps its flags and expiry.
    Append(u64),
    /// Before the data of an existing item with this cas, which keeps its flags and expiry.
    Prepend(u64),
    /// Only if the item is still the version with this cas.
    Cas(u64),
    /// As `Cas`; over a later version too, but then as stale as that was, with its expiry.
    CasOrStale(u64),
    /// Only for the client that got this token when it missed, and if nothing has happened since.
    Leased(u64),
}

/// What a meta command does on the way, in the order in which the client names it, because later steps see what
/// earlier ones did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    steps: [Option<Step>; Self::MAX],
}

/// One thing to do with an item that was found or created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sets the expiry.
    Touch(Exptime),
    /// Creates the item if it is missing, with this expiry.
    Create(Exptime),
    /// Tells the client to replace an item that expires before this.
    Recache(Exptime),
    /// Notes how long the item has to live.
    ReportTtl,
}

impl Steps {
    /// Each can be named once.
    const MAX: usize = 4;

    /// Adds a step behind the others. There is room for each step once.
    pub fn push(&mut self, step: Step) {
        if let Some(slot) = self.steps.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(step);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Step> + '_ {
        self.steps.iter().copied().flatten()
    }

    /// Whether a missing item is created.
    pub fn create(&self) -> bool {
        self.iter().any(|step| matches!(step, Step::Create(_)))
    }

    /// Whether the expiry of an item that was found is set.
    pub fn touch(&self) -> bool {
        self.iter().any(|step| matches!(step, Step::Touch(_)))
    }
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
    /// Answered once everything before is.
    Noop,
    /// Accepted; the log's level is set by the log filter.
    Verbosity,
    Stats(Stats),
    /// What tunes memcached's inside: accepted, and without effect.
    Tune,
    Shutdown(ShutdownMode),
    /// Reads the certificate again.
    RefreshCerts,
    /// Lists all keys, if the classes that were asked for have any.
    Dump(Dump, bool),
    /// Shows what others do from now on.
    Watch(Topics),
    /// Whether the statistics per prefix go on.
    CountPrefixes(bool),
    Quit,
}

/// How the node is to stop. Both let answers leave first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    Now,
    Graceful,
    Unknown,
}

/// What is said about each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// `metadump`: everything but the data.
    Meta,
    /// `mgdump`: the key, as a command that gets it.
    Keys,
}

/// What somebody watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topics(u8);

impl Topics {
    pub const NONE: Self = Self(0);
    pub const FETCHERS: Self = Self(1);
    pub const MUTATIONS: Self = Self(2);
    pub const EVICTIONS: Self = Self(4);
    pub const CONNECTIONS: Self = Self(8);
    /// memcached has more to say there than a node: about its inside and its proxy.
    const OTHERS: Self = Self(16);

    /// The topic with this name.
    pub fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"fetchers" => Self::FETCHERS,
            b"mutations" => Self::MUTATIONS,
            b"evictions" => Self::EVICTIONS,
            b"connevents" => Self::CONNECTIONS,
            b"rawcmds" | b"sysevents" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => {
                Self::OTHERS
            }
            _ => return None,
        })
    }

    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub fn bits(self) -> u8 {
        self.0
    }

    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
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
            | Self::MetaGet { key, .. }
            | Self::LeaseGet { key }
            | Self::Inspect { key }
            | Self::Store { key, .. }
            | Self::Delete { key, .. }
            | Self::Invalidate { key, .. }
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
            Self::MetaGet { steps, read, .. } => Request::MetaGet { key, steps, read },
            Self::LeaseGet { .. } => Request::LeaseGet { key },
            Self::Inspect { .. } => Request::Inspect { key },
            Self::Store {
                mode,
                flags,
                exptime,
                binary_key,
                ..
            } => Request::Store {
                mode,
                key,
                flags,
                exptime,
                data,
                binary_key,
            },
            Self::Delete { cas, timed, .. } => Request::Delete { key, cas, timed },
            Self::Invalidate { cas, exptime, .. } => Request::Invalidate { key, cas, exptime },
            Self::Arithmetic {
                direction,
                delta,
                cas,
                initial,
                steps,
                ..
            } => Request::Arithmetic {
                direction,
                key,
                delta,
                cas,
                initial,
                steps,
            },
            Self::Touch { exptime, .. } => Request::Touch { key, exptime },
            Self::FlushAll { delay } => Request::FlushAll { delay },
            Self::StoreTooLarge { mode, .. } => Request::StoreTooLarge { mode, key },
        }
    }

    /// The same request to a server whose items have no cas that a client could name.
    pub fn without_cas(self) -> Self {
        // All versions are 0 then.
        let named = |cas| match cas {
            ANY_VERSION | VERSION_ZERO => ANY_VERSION,
            _ => NO_VERSION,
        };
        match self {
            Self::Store {
                mode,
                key,
                flags,
                exptime,
                data,
                binary_key,
            } => Self::Store {
                mode: match mode {
                    // As memcached, which does not look at the cas here.
                    StoreMode::Append(_) => StoreMode::Append(ANY_VERSION),
                    StoreMode::Prepend(_) => StoreMode::Prepend(ANY_VERSION),
                    StoreMode::Cas(_) => StoreMode::Cas(NO_VERSION),
                    StoreMode::CasOrStale(_) => StoreMode::CasOrStale(NO_VERSION),
                    mode => mode,
                },
                key,
                flags,
                exptime,
                data,
                binary_key,
            },
            Self::Delete { key, cas, timed } => Self::Delete {
                key,
                cas: named(cas),
                timed,
            },
            Self::Invalidate { key, cas, exptime } => Self::Invalidate {
                key,
                cas: named(cas),
                exptime,
            },
            Self::Arithmetic {
                direction,
                key,
                delta,
                cas,
                initial,
                steps,
            } => Self::Arithmetic {
                direction,
                key,
                delta,
                cas: named(cas),
                initial,
                steps,
            },
            request => request,
        }
    }

    /// Whether the answer promises something about the disk.
    pub fn is_write(&self) -> bool {
        match self {
            Self::Get { touch, .. } => touch.is_some(),
            Self::MetaGet { steps, .. } => steps.touch() || steps.create(),
            Self::LeaseGet { .. } | Self::Inspect { .. } => false,
            Self::Store { .. }
            | Self::Delete { .. }
            | Self::Invalidate { .. }
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
