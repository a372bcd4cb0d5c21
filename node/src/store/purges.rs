//! What a node had to drop because its place in the pool changed.
//!
//! Owns the rule and its history, and how they are kept. Nothing is deleted when a place changes: a purge says that what
//! was written before it and is another node's is dead. What is written afterwards stays, whoever's it is, because a node
//! stands in for others that are down.
//!
//! Records stay on the disk until their file goes, so a purge is in force for ever. The history stays short because a purge
//! makes those before it superfluous that dropped no more than it does; only a shrinking pool adds to it.

use petra_routing::Place;
use serde::{Deserialize, Serialize};

/// More purges than these that all matter are a pool that shrinks and shrinks. What is older than the oldest is given up.
const MAX_PURGES: usize = 16;

/// Everything with a smaller cas that is not the node's own under `place` is dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Purge {
    before: u64,
    place: Place,
}

/// The place, and the purges that are in force, the oldest first. Their cas numbers rise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Purges {
    place: Option<Place>,
    purges: Vec<Purge>,
}

impl Purges {
    /// Where the node stands, if it was ever told.
    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Whether a version with this cas is still there.
    pub(super) fn spare(&self, key: &[u8], cas: u64) -> bool {
        self.purges
            .iter()
            .all(|purge| cas >= purge.before || purge.place.owns(key))
    }

    /// All versions from this cas on are still there.
    pub(super) fn newest(&self) -> u64 {
        self.purges.last().map_or(0, |purge| purge.before)
    }

    /// Moves the node to `place`. Returns the cas below which everything is dead, whoever's it is.
    pub(super) fn add(&mut self, place: Place, before: u64) -> u64 {
        self.place = Some(place.clone());
        if place.owns_nothing() {
            self.purges.clear();
            return before;
        }
        self.purges.retain(|old| !place.is_within(&old.place));
        self.purges.push(Purge { before, place });
        if self.purges.len() > MAX_PURGES {
            self.purges.remove(0).before
        } else {
            0
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // Integers and text under text have a form as JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads [`Purges::encode`]; `None` when another version has written it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(index: u32, size: u32, salt: &str) -> Place {
        Place {
            index,
            size,
            hash: Default::default(),
            salt: salt.to_owned(),
            epoch: None,
        }
    }

    #[test]
    fn a_purge_drops_what_was_written_before_and_is_another_nodes() {
        let mut purges = Purges::default();
        assert_eq!(purges.add(place(1, 3, ""), 10), 0);
        for number in 0..100 {
            let key = format!("key-{number}");
            let own = place(1, 3, "").owns(key.as_bytes());
            assert_eq!(purges.spare(key.as_bytes(), 9), own, "{key}");
            assert!(purges.spare(key.as_bytes(), 10), "{key}");
        }
    }

    #[test]
    fn a_node_outside_of_the_pool_drops_everything() {
        let mut purges = Purges::default();
        purges.add(place(3, 4, ""), 10);
        assert_eq!(purges.add(place(3, 3, ""), 20), 20);
        assert_eq!(purges.purges, []);
        assert_eq!(purges.place(), Some(&place(3, 3, "")));
    }

    #[test]
    fn a_pool_that_goes_up_and_down_has_a_short_history() {
        let mut purges = Purges::default();
        for round in 0..100 {
            for size in [3, 7, 5] {
                purges.add(place(1, size, ""), 10 * round + u64::from(size));
            }
        }
        let sizes: Vec<u32> = purges.purges.iter().map(|p| p.place.size).collect();
        assert_eq!(sizes, [7, 5]);
    }

    #[test]
    fn what_is_kept_is_read_again_and_anything_else_is_not() {
        let mut purges = Purges::default();
        purges.add(place(1, 4, ""), 10);
        purges.add(place(1, 3, "s"), 20);
        assert_eq!(Purges::decode(&purges.encode()), Some(purges));
        assert_eq!(Purges::decode(b"{\"place\":1}"), None);
    }

    proptest! {
        /// The model remembers every purge there ever was.
        #[test]
        fn the_short_history_drops_what_the_whole_one_would(
            places in proptest::collection::vec((2_u32..9, 0_usize..2), 1..60),
            key in 0_u32..1000,
        ) {
            let key = format!("key-{key}");
            let mut purges = Purges::default();
            let mut all = Vec::new();
            let mut dead_below = 0;
            for (at, (size, salt)) in (1_u64..).zip(places) {
                let place = place(3, size, ["", "s"][salt]);
                dead_below = dead_below.max(purges.add(place.clone(), 2 * at));
                all.push((2 * at, place));
                prop_assert!(purges.purges.len() <= MAX_PURGES);
                prop_assert!(purges.purges.is_sorted_by_key(|purge| purge.before));
            }
            for cas in 1..=2 * all.len() as u64 {
                let expected = all.iter().all(|(before, place)| cas >= *before || place.owns(key.as_bytes()));
                let spared = cas >= dead_below && purges.spare(key.as_bytes(), cas);
                prop_assert!(spared == expected || cas < dead_below && !spared, "cas {cas}");
                prop_assert!(cas < purges.newest() || purges.spare(key.as_bytes(), cas));
            }
        }
    }
}
