//! Ch3, the consistent hash with which mcrouter picks a server of a pool (`furc_hash` in `mcrouter/lib/fbi/hash.c`).
//!
//! The hash walks a binary tree whose leaves are the servers. Each level of the tree and each attempt looks at one bit
//! of an endless stream of bits that the key's MurmurHash64A starts. A pool that grows from `n` to `m` servers
//! therefore moves keys to the new servers only, about `(m - n) / m` of all.

/// Distance in the bit stream between two looks.
const SHIFT: u32 = 23;
/// Attempts before index 0 is taken.
const TRIES: u32 = 32;
const SEED: u64 = 4_193_360_111;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;

/// The index of the server that has `key`, in a pool of `servers` servers.
pub fn ch3(key: &[u8], servers: usize) -> usize {
    let Ok(servers @ 2..) = u32::try_from(servers) else {
        return 0;
    };
    let mut bits = Bits {
        words: vec![murmur_hash_64a(key)],
    };
    let mut depth = u32::BITS - (servers - 1).leading_zeros();
    let mut at = depth;
    for _ in 0..TRIES {
        while !bits.get(at) {
            depth -= 1;
            if depth == 0 {
                return 0;
            }
            at = depth;
        }
        at += SHIFT;
        let mut index = 1;
        for _ in 1..depth {
            index = index << 1 | u32::from(bits.get(at));
            at += SHIFT;
        }
        if index < servers {
            return index as usize;
        }
    }
    0
}

/// [`ch3`] of a key with a salt, which is appended to the key.
pub fn ch3_salted(key: &[u8], salt: &str, servers: usize) -> usize {
    if salt.is_empty() {
        ch3(key, servers)
    } else {
        ch3(&[key, salt.as_bytes()].concat(), servers)
    }
}

/// The part of a key that is hashed: without its routing prefix, and up to `|#|`.
pub fn hashed_part(key: &[u8]) -> &[u8] {
    let key = strip_routing_prefix(key).1;
    match key.windows(3).position(|window| window == b"|#|") {
        Some(end) => &key[..end],
        None => key,
    }
}

/// A key's routing prefix `/region/cluster/`, empty when it has none, and the rest.
pub fn strip_routing_prefix(key: &[u8]) -> (&[u8], &[u8]) {
    if key.first() != Some(&b'/') {
        return key.split_at(0);
    }
    let slashes = key
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| at);
    match slashes.take(3).last() {
        Some(third) if key[..=third].iter().filter(|byte| **byte == b'/').count() == 3 => {
            key.split_at(third + 1)
        }
        _ => key.split_at(0),
    }
}

/// The stream of bits: each word is the hash of the one before.
struct Bits {
    words: Vec<u64>,
}

impl Bits {
    fn get(&mut self, at: u32) -> bool {
        let word = (at / u64::BITS) as usize;
        while self.words.len() <= word {
            let last = self.words[self.words.len() - 1];
            self.words.push(murmur_rehash_64a(last));
        }
        self.words[word] >> (at % u64::BITS) & 1 == 1
    }
}

/// MurmurHash64A by Austin Appleby, with Ch3's seed.
fn murmur_hash_64a(key: &[u8]) -> u64 {
    let mut hash = SEED ^ (key.len() as u64).wrapping_mul(MULTIPLIER);
    let chunks = key.chunks_exact(8);
    let tail = chunks.remainder();
    for chunk in chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    finish(hash)
}

fn murmur_rehash_64a(word: u64) -> u64 {
    finish(mix(SEED ^ 8u64.wrapping_mul(MULTIPLIER), word))
}

fn mix(hash: u64, word: u64) -> u64 {
    let word = word.wrapping_mul(MULTIPLIER);
    let word = (word ^ word >> 47).wrapping_mul(MULTIPLIER);
    (hash ^ word).wrapping_mul(MULTIPLIER)
}

fn finish(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 47).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_reference() {
        let table = include_str!("../tests/data/ch3.tsv");
        let mut rows = 0;
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let fields: Vec<&str> = row.split('\t').collect();
            let [key, servers, index] = fields[..] else {
                panic!("row {row:?}")
            };
            assert_eq!(
                ch3(key.as_bytes(), servers.parse().unwrap()).to_string(),
                index,
                "{row}"
            );
            rows += 1;
        }
        assert_eq!(
            rows,
            table.lines().count() - table.lines().filter(|row| row.starts_with('#')).count()
        );
        assert!(rows > 1000, "only {rows} rows");
    }

    #[test]
    fn a_growing_pool_moves_keys_only_to_new_servers() {
        for servers in 1..40 {
            for key in 0..500 {
                let key = format!("key-{key}");
                let (before, after) = (
                    ch3(key.as_bytes(), servers),
                    ch3(key.as_bytes(), servers + 1),
                );
                assert!(
                    before == after || after == servers,
                    "{key}: {before} of {servers} became {after}"
                );
            }
        }
    }

    #[test]
    fn a_key_is_hashed_without_prefix_and_up_to_its_hash_stop() {
        for (key, hashed) in [
            ("a", "a"),
            ("a|#|b", "a"),
            ("/eu/west/a|#|b", "a"),
            ("/eu/a", "/eu/a"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(hashed_part(key.as_bytes()), hashed.as_bytes(), "{key}");
        }
    }
}
