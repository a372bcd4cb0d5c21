//! What a client is answered, whatever encoding it speaks.
//!
//! Owns the answer types. An answer that reports a fault of the request or of the server is a value like any other.

use crate::store::item::Item;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Hit(Item),
    /// A get found nothing.
    Miss,
    Stored,
    NotStored,
    /// The item is another version than the cas asked for.
    Exists,
    NotFound,
    Deleted,
    Touched,
    /// The new value of a counter.
    Number(u64),
    Ok,
    Refused(Refusal),
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
}
