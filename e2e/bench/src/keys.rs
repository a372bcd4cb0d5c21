//! Keys and values: both follow from a number, the id of an item.
//!
//! Owns the naming. An id becomes twelve hexadecimal digits behind a prefix; a value is a piece of one pattern that
//! starts where the id says. Knows nothing of requests.

/// Ids are below this: twelve hexadecimal digits.
pub const MAX_ID: u64 = 1 << 48;
/// What a key needs: a prefix of one byte and the digits.
pub const MIN_KEY_LEN: usize = 1 + DIGITS;
/// memcached's limit.
pub const MAX_KEY_LEN: usize = 250;
/// Counters start here, so that they keep their length however often they are counted up.
pub const COUNTER_START: u64 = 1_000_000_000;

const DIGITS: usize = 12;
/// An odd number: multiplying by it modulo 2^48 gives each id another place, so that ids that are close in
/// popularity are not neighbours in a sorted store.
const SCATTER: u64 = 0x9e37_79b9_7f4b;
/// How many different values there are of one length; a prime, so that neighbours in the pattern are rare.
const STARTS: u64 = 61_681;

/// How the items of one load look.
pub struct Keys {
    prefix: Vec<u8>,
    counter_prefix: Vec<u8>,
    pattern: Vec<u8>,
    value_len: usize,
    /// ` 0 LENGTH`: flags and length, as in requests and in answers.
    length: Vec<u8>,
}

impl Keys {
    /// Items with keys of `key_len` and values of `value_len` bytes.
    #[must_use]
    pub fn new(key_len: usize, value_len: usize) -> Self {
        let key_len = key_len.clamp(MIN_KEY_LEN, MAX_KEY_LEN);
        Self {
            prefix: vec![b'k'; key_len - DIGITS],
            counter_prefix: vec![b'c'; key_len - DIGITS],
            pattern: pattern(usize::try_from(STARTS).unwrap_or(0) + value_len),
            value_len,
            length: format!(" 0 {value_len}").into_bytes(),
        }
    }

    /// Appends the key of `id`.
    pub fn push_key(&self, id: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(&digits(id));
    }

    /// Appends the key of the counter `id`.
    pub fn push_counter(&self, id: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.counter_prefix);
        out.extend_from_slice(&digits(id));
    }

    /// The value of `id`.
    #[must_use]
    pub fn value(&self, id: u64) -> &[u8] {
        let start = usize::try_from(scatter(id) % STARTS).unwrap_or(0);
        &self.pattern[start..start + self.value_len]
    }

    /// Bytes of every key.
    #[must_use]
    pub fn key_len(&self) -> usize {
        self.prefix.len() + DIGITS
    }

    /// Bytes of every value.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// Flags and length, ` 0 1000`.
    #[must_use]
    pub fn flags_and_length(&self) -> &[u8] {
        &self.length
    }

    /// Whether `key` is the one of `id`.
    #[must_use]
    pub fn is_key(&self, key: &[u8], id: u64) -> bool {
        key.len() == self.key_len()
            && key.starts_with(&self.prefix)
            && key[self.prefix.len()..] == digits(id)
    }

    /// The id whose key this is.
    #[must_use]
    pub fn id_of(&self, key: &[u8]) -> Option<u64> {
        let digits = key.strip_prefix(self.prefix.as_slice())?;
        let place = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        Some(place.wrapping_mul(inverse(SCATTER)) % MAX_ID)
    }
}

fn scatter(id: u64) -> u64 {
    id.wrapping_mul(SCATTER) % MAX_ID
}

fn digits(id: u64) -> [u8; DIGITS] {
    let place = scatter(id);
    let mut digits = [0; DIGITS];
    for (position, digit) in digits.iter_mut().enumerate() {
        let nibble = (place >> (4 * (DIGITS - 1 - position))) & 15;
        *digit = b"0123456789abcdef"[nibble as usize];
    }
    digits
}

/// The number that undoes a multiplication by the odd number `factor`, by Newton's iteration.
fn inverse(factor: u64) -> u64 {
    (0..6).fold(factor, |inverse, _| {
        inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse)))
    })
}

/// Printable bytes without a period, so that a shifted value is a different value and compression finds little.
fn pattern(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..len).map(|_| random.u8(b'!'..=b'~')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_its_id() {
        let keys = Keys::new(16, 100);
        for id in [0, 1, 77, 1 << 20, MAX_ID - 1] {
            let mut key = Vec::new();
            keys.push_key(id, &mut key);
            assert_eq!(key.len(), 16);
            assert_eq!(keys.id_of(&key), Some(id));
            assert!(keys.is_key(&key, id) && !keys.is_key(&key, id + 1));
        }
    }

    #[test]
    fn values_of_neighbours_differ() {
        let keys = Keys::new(16, 100);
        for id in 0..1000 {
            assert_ne!(keys.value(id), keys.value(id + 1));
        }
    }
}
