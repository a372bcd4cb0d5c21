//! The SASL mechanism CRAM-MD5 (RFC 2195): a user proves to know a password without sending it.
//!
//! Owns the challenge, which is never the same twice, and what a right answer to it is.
//!
//! ```text
//!   node:   <random.time@petracache>
//!   client: user HMAC-MD5(password, challenge) in hexadecimal digits
//! ```

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use rustls::crypto::{GetRandomFailed, ring};

use super::same;
use crate::clock::UnixSeconds;

const RANDOM_BYTES: usize = 16;
/// Two digits for each byte of an MD5.
const DIGEST_LEN: usize = 32;

/// What one client is to answer, once.
#[derive(Debug)]
pub(crate) struct Challenge(String);

/// What a client has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    pub(super) user: &'a [u8],
    digest: &'a [u8],
}

impl Challenge {
    pub(crate) fn new(now: UnixSeconds) -> Result<Self, GetRandomFailed> {
        let mut random = [0; RANDOM_BYTES];
        ring::default_provider().secure_random.fill(&mut random)?;
        Ok(Self(format!("<{}.{now}@petracache>", hexadecimal(&random))))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether `answer` was made with `password`, in a time that does not depend on how wrong it is.
    pub(super) fn is_answered(&self, answer: Answer<'_>, password: &[u8]) -> bool {
        // A key may have any length.
        let Ok(mut mac) = Hmac::<Md5>::new_from_slice(password) else {
            return false;
        };
        mac.update(self.as_bytes());
        let right = hexadecimal(&mac.finalize().into_bytes());
        same(right.as_bytes(), answer.digest)
    }
}

impl<'a> Answer<'a> {
    /// The last word is the digest; a user's name may have spaces.
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let space = memchr::memrchr(b' ', data)?;
        let (user, digest) = (&data[..space], &data[space + 1..]);
        (digest.len() == DIGEST_LEN).then_some(Self { user, digest })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing into memory cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_2195_is_right() {
        let challenge = Challenge("<1896.697170952@postoffice.reston.mci.net>".to_owned());
        let answer = |data| Answer::parse(data).expect("an answer");
        let right = answer(b"tim b913a602c7eda7a495b4e6e7334d3890");
        assert_eq!(right.user, b"tim");
        assert!(challenge.is_answered(right, b"tanstaaftanstaaf"));
        assert!(!challenge.is_answered(right, b"tanstaaftanstaa"));
        let wrong = answer(b"tim b913a602c7eda7a495b4e6e7334d3891");
        assert!(!challenge.is_answered(wrong, b"tanstaaftanstaaf"));
        for no_answer in [
            &b""[..],
            b"tim",
            b"tim b913",
            b"b913a602c7eda7a495b4e6e7334d3890",
        ] {
            assert_eq!(Answer::parse(no_answer), None);
        }
    }

    #[test]
    fn no_challenge_comes_twice() {
        let challenge = || Challenge::new(UnixSeconds(1)).expect("random numbers");
        assert_ne!(challenge().as_bytes(), challenge().as_bytes());
    }
}
