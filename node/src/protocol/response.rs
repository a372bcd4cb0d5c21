//! What a client is answered, whatever encoding it speaks.
//!
//! Owns the answer types. An answer that reports a fault of the request or of the server is a value like any other.

use super::meta::Mistake;
use crate::store::item::Item;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Hit(Item),
    /// A get found nothing.
    Miss,
    /// What a meta get found or created.
    MetaHit(MetaHit),
    /// A miss, and the token for the client that is to store the item. `None` for those that are to wait for it.
    Leased(Option<u64>),
    /// What there is to say about an item.
    Inspected(Inspected),
    Stored {
        /// That of the new version.
        cas: u64,
    },
    NotStored,
    /// The item is another version than the cas asked for.
    Exists,
    NotFound,
    Deleted,
    Touched,
    /// The new value of a counter.
    Number(Counter),
    Ok,
    Version(&'static str),
    /// How clients may show who they are.
    Mechanisms,
    /// What a client is to answer to show who it is.
    Challenge(Vec<u8>),
    Authenticated,
    /// Names and values.
    Stats(Vec<(String, String)>),
    /// The lines of `stats detail dump`.
    Details(Vec<u8>),
    /// The statistics start anew.
    Reset,
    Refused(Refusal),
}

/// What a meta get found or created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaHit {
    pub item: Item,
    /// Seconds to live when it was asked for, `None` for ever.
    pub ttl: Option<u32>,
    /// Seconds since it was last used, before this.
    pub idle: u32,
    /// Whether it was read before.
    pub fetched: bool,
    /// This client is to replace it.
    pub won: bool,
    /// Another client was told so before.
    pub taken: bool,
    pub stale: bool,
}

/// An item as it is for somebody who does not read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    pub item: Item,
    /// Seconds to live, `None` for ever.
    pub ttl: Option<u32>,
    /// Seconds since it was last used.
    pub idle: u32,
    pub fetched: bool,
    /// What it counts against the item size limit, in bytes.
    pub size: usize,
}

/// A counter that has changed or was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    pub value: u64,
    pub cas: u64,
    /// Seconds to live when it was asked for, `None` for ever.
    pub ttl: Option<u32>,
    pub created: bool,
}

impl Response {
    /// How much data it carries, in bytes.
    pub fn data_len(&self) -> usize {
        match self {
            Self::Hit(item) | Self::MetaHit(MetaHit { item, .. }) => item.data().len(),
            _ => 0,
        }
    }

    /// The same answer about the version with this cas, if it is one that has a version.
    pub fn with_cas(mut self, new: u64) -> Self {
        match &mut self {
            Self::Stored { cas } | Self::Number(Counter { cas, .. }) => *cas = new,
            _ => {}
        }
        self
    }
}

/// Why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The command does not exist, or not with so many arguments.
    UnknownCommand,
    /// A key, number or length that is none.
    BadCommandLine,
    BadDeleteArguments,
    BadStatsDetail,
    /// A group of statistics that there is none of.
    NoSuchStats,
    BadExptime,
    BadDelta,
    /// The data does not end where the command line said.
    BadDataChunk,
    NotANumber,
    TooLarge,
    /// The node is about to stop; routers ask another one.
    Busy,
    /// The disk takes nothing, and memory holds as much for it as it may.
    OutOfMemory,
    /// The disk failed. The log says how.
    StorageFailed,
    /// Clients may not stop the node.
    ShutdownNotEnabled,
    BadShutdownMode,
    FlushNotAllowed,
    DumpNotAllowed,
    WatchNotAllowed,
    TooManyWatchers,
    /// Somebody else is listing the keys.
    DumpBusy,
    BadClass,
    BadCrawlerSleep,
    MemoryLimitTooSmall,
    /// The limit cannot be changed while the node runs.
    MemoryLimitFixed,
    TlsNotEnabled,
    /// The certificate could not be read. The log says why.
    CertificateUnreadable,
    Unauthenticated,
    WrongPassword,
    BadLogin,
    BadLoginEnd,
    /// A meta command that is none.
    Meta(Mistake),
}
