//! A command line taken apart at its spaces.
//!
//! Owns what separates arguments: spaces and nothing else, and that a zero byte ends the line, because memcached
//! reads it as a C string.

use memchr::memchr2;

use super::super::request::MAX_KEY_LEN;

/// More arguments than any command but the gets and the meta commands has.
const MAX_ARGUMENTS: usize = 8;

/// The first words of a line.
#[derive(Clone, Copy, Debug)]
pub(in crate::protocol) struct Arguments<'a, const MAX: usize = MAX_ARGUMENTS> {
    words: [&'a [u8]; MAX],
    len: usize,
}

impl<'a, const MAX: usize> Arguments<'a, MAX> {
    /// Takes the first words of `line` apart and counts no more than fit.
    pub(in crate::protocol) fn of(line: &'a [u8]) -> Self {
        let mut arguments = Self {
            words: [&[]; MAX],
            len: 0,
        };
        for (slot, word) in arguments.words.iter_mut().zip(Words(line)) {
            *slot = word;
            arguments.len += 1;
        }
        arguments
    }

    pub(in crate::protocol) fn as_slice(&self) -> &[&'a [u8]] {
        &self.words[..self.len]
    }
}

/// The keys of a get, still in its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys<'a>(Words<'a>);

impl<'a> Keys<'a> {
    /// The words of `line` from the one with number `first` on, if none of them is too long for a key.
    pub(super) fn of(line: &'a [u8], first: usize) -> Option<Self> {
        let mut words = Words(line);
        for _ in 0..first {
            words.next();
        }
        words
            .clone()
            .all(|key| key.len() <= MAX_KEY_LEN)
            .then_some(Self(words))
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.next()
    }
}

/// All words of a line; none is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::protocol) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    pub(in crate::protocol) fn of(line: &'a [u8]) -> Self {
        Self(line)
    }

    /// What has not been taken.
    pub(in crate::protocol) fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|byte| *byte != b' ')?;
        let rest = &self.0[start..];
        let end = memchr2(b' ', 0, rest).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = if rest.first() == Some(&0) { &[] } else { rest };
        (!word.is_empty()).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Vec<&[u8]> {
        Words(line).collect()
    }

    #[test]
    fn words_are_separated_by_any_number_of_spaces_and_by_nothing_else() {
        assert_eq!(words(b"  get  a\tb c "), [&b"get"[..], b"a\tb", b"c"]);
        assert!(words(b"").is_empty());
        assert!(words(b"   ").is_empty());
    }

    #[test]
    fn a_zero_byte_ends_the_line() {
        assert_eq!(words(b"get a\0b c"), [&b"get"[..], b"a"]);
        assert_eq!(words(b"get \0b"), [&b"get"[..]]);
        assert!(words(b"\0get a").is_empty());
    }

    #[test]
    fn arguments_beyond_what_any_command_takes_are_not_kept() {
        assert_eq!(
            Arguments::<MAX_ARGUMENTS>::of(b"1 2 3 4 5 6 7 8 9 10")
                .as_slice()
                .len(),
            MAX_ARGUMENTS
        );
        assert_eq!(
            Arguments::<MAX_ARGUMENTS>::of(b"1 2").as_slice(),
            [b"1", b"2"]
        );
    }
}
