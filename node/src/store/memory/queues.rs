//! Which item leaves a shard next.
//!
//! Owns the order of items by S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023):
//! a new item enters the small queue; one that is read again on its way through it moves to the main queue, the others
//! leave early and are remembered for a while, so that they enter the main queue when they come back. A scan passes
//! through a tenth of the memory and leaves the rest alone.

use std::collections::VecDeque;

/// The share of the small queue, as in the paper.
const SMALL_SHARE: usize = 10;

/// Stands for an item, whatever its version. No two items of a shard have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) hash: u32,
    pub(super) number: u32,
}

/// Tickets in the order in which their items leave. The item may be gone already.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    tickets: VecDeque<Ticket>,
    /// What the items in it take.
    pub(super) bytes: usize,
}

impl Queue {
    pub(super) fn push(&mut self, ticket: Ticket, bytes: usize) {
        self.tickets.push_back(ticket);
        self.bytes += bytes;
    }

    /// The next to consider; its bytes are for the caller to take off.
    pub(super) fn pop(&mut self) -> Option<Ticket> {
        self.tickets.pop_front()
    }

    /// Behind all others again, with the bytes that are counted already.
    pub(super) fn push_again(&mut self, ticket: Ticket) {
        self.tickets.push_back(ticket);
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Ticket) -> bool) {
        self.tickets.retain(keep);
    }

    pub(super) fn len(&self) -> usize {
        self.tickets.len()
    }
}

/// The most that the small queue of a shard of `limit` bytes holds while there is something else to evict.
pub(super) fn small_limit(limit: usize) -> usize {
    limit / SMALL_SHARE
}

/// The hashes of items that left the small queue. Each new one may displace an old one, so that as many are
/// remembered as there is room, and the older the fewer.
#[derive(Debug)]
pub(super) struct Ghosts(Vec<u32>);

impl Default for Ghosts {
    fn default() -> Self {
        Self(vec![0; 64])
    }
}

impl Ghosts {
    pub(super) fn remember(&mut self, hash: u32) {
        let at = self.position(hash);
        self.0[at] = hash;
    }

    /// Whether the hash is remembered; it is not afterwards.
    pub(super) fn recall(&mut self, hash: u32) -> bool {
        let at = self.position(hash);
        let known = self.0[at] == hash && hash != 0;
        if known {
            self.0[at] = 0;
        }
        known
    }

    /// Room for about as many as there are items.
    pub(super) fn grow_for(&mut self, items: usize) {
        let room = items.next_power_of_two();
        if room > self.0.len() {
            let known = std::mem::replace(&mut self.0, vec![0; room]);
            known.into_iter().for_each(|hash| self.remember(hash));
        }
    }

    fn position(&self, hash: u32) -> usize {
        hash as usize & (self.0.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ghost_is_recalled_once() {
        let mut ghosts = Ghosts::default();
        ghosts.remember(7);
        ghosts.grow_for(1000);
        assert!(ghosts.recall(7));
        assert!(!ghosts.recall(7));
        assert!(!ghosts.recall(0), "an empty place is no ghost");
    }
}
