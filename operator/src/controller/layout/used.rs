//! No client. What routers use of a region: one layout, or two while its size changes.
//!
//! Routers follow a new configuration one after the other, so at any moment some run it and some the one before. Nobody may
//! notice: what was written through one router must be what is read through the other. One change of size is therefore five
//! configurations, each of which agrees with its neighbours (O is the old layout, N the new one):
//!
//! ```text
//!          reads            set, delete, touch   incr, append, replace...  add           cas
//!  old     O                O                    O                         O             O
//!  Next    O                O and N              O, and N if the key moves O             N
//!  Warm    N, on a miss O   N and O              O, and N if the key moves O             N
//!  Last    N                N and O              N                         N, and O if   N
//!  new     N                N                    N                         it moves N    N
//! ```
//!
//! | live at once | why a read gives what was written last, or nothing |
//! |---|---|
//! | old, Next  | Both read O, and every write is in O. N gets some of them, and so becomes wrong: it is read by nobody, and is cleared when no router runs `old` any more. |
//! | Next alone | After the clearing N has of a key that moves nothing, or what O has: what changes O changes N too, `add` only adds what neither has, and `cas`, which can change but one, does not find its number in N. |
//! | Next, Warm | Both write so that this stays true, and a copy that a read makes keeps it true. So N, and O where N has nothing, is the same as O. |
//! | Warm, Last | `Last` leaves counting in O out, so O may be behind where N has the key: then N is read. What it does not have in N it counts as missing. Deletes and sets are in both, so that a miss in N finds nothing old in O. |
//! | Last, new  | Both read N, and every write is in N. |
//! | Warm, Next | The way back: the same pair as on the way forward. |
//! | Next, old  | Both read O, and every write is in O. |
//!
//! There is no way back from `Last`, where N alone is counted in. `set` and `delete` wait for both layouts: what is acknowledged is
//! in both.
//!
//! What the route language cannot say, and what is therefore not so:
//! - `cas` of a key that moves is refused (NOT_FOUND or EXISTS) in `Next`, for seconds. What it changes in `Warm` is not in O: a
//!   router that still runs `Next` reads what was before, and so does everybody after a way back.
//! - In the second in which `Warm` and `Last` are both live, two clients that `add` the same key may both be told STORED.
//! - A lease-set fills N alone in `Warm`.
//! - The copy that a read makes in `Warm` is an `add` on its way: a `delete` in the millisecond between is undone. A lease is not.
//! - Where the two nodes of a key evict it at different times, `add` may find it missing in O while N has it.

use serde::Serialize;

/// The nodes that a configuration uses: always the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Used {
    /// Servers that keys are hashed to.
    pub servers: i32,
    /// The other layout, while there are two.
    pub beside: Option<Beside>,
}

/// What the other layout of a region is there for, and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Beside {
    /// The new layout: written to, and not read yet.
    Next(i32),
    /// The old layout: written to, and asked for what the new one misses.
    Warm(i32),
    /// The old layout: written to, and not read any more.
    Last(i32),
}

impl Beside {
    /// Its size.
    pub fn servers(self) -> i32 {
        match self {
            Self::Next(servers) | Self::Warm(servers) | Self::Last(servers) => servers,
        }
    }
}

impl Used {
    /// One layout.
    pub fn only(servers: i32) -> Self {
        Self {
            servers,
            beside: None,
        }
    }

    pub(super) fn next(servers: i32, next: i32) -> Self {
        Self {
            servers,
            beside: Some(Beside::Next(next)),
        }
    }

    pub(super) fn warm(servers: i32, warm: i32) -> Self {
        Self {
            servers,
            beside: Some(Beside::Warm(warm)),
        }
    }

    pub(super) fn last(servers: i32, last: i32) -> Self {
        Self {
            servers,
            beside: Some(Beside::Last(last)),
        }
    }

    /// Nodes that must exist.
    pub fn most(self) -> i32 {
        self.servers.max(self.beside.map_or(0, Beside::servers))
    }

    /// The configurations of a change of size, in the order in which routers get them.
    pub fn way(from: i32, to: i32) -> [Self; 5] {
        [
            Self::only(from),
            Self::next(from, to),
            Self::warm(to, from),
            Self::last(to, from),
            Self::only(to),
        ]
    }

    /// The configurations in which a change of size ends that was given up while the old layout was still asked.
    pub(super) fn way_back(from: i32, to: i32) -> [Self; 3] {
        [Self::warm(from, to), Self::next(to, from), Self::only(to)]
    }
}
