//! A server's place in its pool, and which keys are its own there.
//!
//! The operator tells a node its place, and the node drops what is not its own. Both sides speak this as JSON.

use serde::{Deserialize, Serialize};

use crate::ch3::{ch3_salted, hashed_part};

/// Where a server stands in its pool. Its own keys are those that a router with this pool sends to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Number of the server, from 0.
    pub index: u32,
    /// Servers of the pool. A server whose index is not below this is outside of it and owns nothing.
    pub size: u32,
    /// How keys are hashed.
    #[serde(default)]
    pub hash: HashFunction,
    /// Appended to a key before it is hashed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub salt: String,
    /// Tells a place from the same place at another time: with another epoch, what came in between is dropped too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
}

/// The hash functions that a place can be told with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HashFunction {
    /// mcrouter's default.
    #[default]
    Ch3,
}

impl Place {
    /// Whether `key` is the server's own.
    pub fn owns(&self, key: &[u8]) -> bool {
        match self.hash {
            _ if self.owns_nothing() => false,
            HashFunction::Ch3 => {
                ch3_salted(hashed_part(key), &self.salt, self.size as usize) == self.index as usize
            }
        }
    }

    /// Whether the server is outside of the pool.
    pub fn owns_nothing(&self) -> bool {
        self.index >= self.size
    }

    /// Whether everything that is the server's own here was its own in `other` too, so that whoever dropped the rest of
    /// this has dropped the rest of that: Ch3 takes keys from a server when its pool grows and gives it none.
    pub fn is_within(&self, other: &Self) -> bool {
        let same_hash = (self.hash, &self.salt) == (other.hash, &other.salt);
        self.owns_nothing()
            || (!other.owns_nothing()
                && (self.index, same_hash) == (other.index, true)
                && self.size >= other.size)
    }

    /// Whether a server that was last told `told` need not be told this: a place without an epoch is the same at all times.
    pub fn is_said_by(&self, told: &Self) -> bool {
        let same_time = self.epoch.is_none() || self.epoch == told.epoch;
        let without_epoch = |place: &Self| Self {
            epoch: None,
            ..place.clone()
        };
        same_time && without_epoch(self) == without_epoch(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: u32, size: u32) -> Place {
        Place {
            index,
            size,
            hash: HashFunction::Ch3,
            salt: String::new(),
            epoch: None,
        }
    }

    fn keys() -> impl Iterator<Item = Vec<u8>> {
        (0..500).map(|number| format!("key-{number}").into_bytes())
    }

    #[test]
    fn every_key_has_one_owner_and_it_is_the_one_that_routers_pick() {
        for key in keys() {
            let owners: Vec<u32> = (0..7).filter(|index| place(*index, 7).owns(&key)).collect();
            assert_eq!(owners, [crate::ch3::ch3(&key, 7) as u32]);
        }
        assert!(place(0, 1).owns(b"key"));
        let tagged = |place: &Place| place.owns(b"/eu/west/key-1|#|tail") == place.owns(b"key-1");
        assert!((0..7).all(|index| tagged(&place(index, 7))));
    }

    #[test]
    fn a_server_outside_of_the_pool_owns_nothing() {
        assert!(keys().all(|key| !place(3, 3).owns(&key) && !place(0, 0).owns(&key)));
    }

    #[test]
    fn a_place_is_within_another_exactly_when_its_keys_are() {
        for index in 0..6 {
            for (new, old) in (0..6).flat_map(|new| (0..6).map(move |old| (new, old))) {
                let (new, old) = (place(index, new), place(index, old));
                let keys_are = keys().all(|key| !new.owns(&key) || old.owns(&key));
                assert_eq!(new.is_within(&old), keys_are, "{new:?} in {old:?}");
            }
        }
        let salted = Place {
            salt: "s".to_owned(),
            ..place(1, 3)
        };
        assert!(!salted.is_within(&place(1, 3)));
    }

    #[test]
    fn only_a_new_epoch_or_another_place_is_news() {
        let at = |epoch| Place {
            epoch,
            ..place(1, 3)
        };
        assert!(at(None).is_said_by(&at(Some(7))));
        assert!(at(Some(7)).is_said_by(&at(Some(7))));
        assert!(!at(Some(8)).is_said_by(&at(Some(7))));
        assert!(!at(Some(7)).is_said_by(&at(None)));
        assert!(!place(1, 4).is_said_by(&at(None)));
    }

    #[test]
    fn a_place_is_short_json_and_what_is_unknown_is_refused() {
        let json = r#"{"index":1,"size":3,"hash":"Ch3","epoch":7}"#;
        let place: Place = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&place).unwrap(), json);
        for wrong in [
            r#"{"index":1}"#,
            r#"{"index":1,"size":-1}"#,
            r#"{"index":1,"size":3,"hash":"Crc32"}"#,
            r#"{"index":1,"size":3,"seed":1}"#,
        ] {
            assert!(serde_json::from_str::<Place>(wrong).is_err(), "{wrong}");
        }
    }
}
