//! The flags of a meta command.
//!
//! Owns their letters and their tokens. Every command knows all flags and ignores those that it has no use for, as
//! memcached's do.

use super::super::reply::ShownCas;
use super::super::request::{Step, Steps};
use super::super::response::Refusal;
use super::super::text::{Words, number};
use super::{Form, Mistake, Verb, base64};
use crate::store::item::Exptime;

/// With its letter; memcached's `MFLAG_MAX_OPAQUE_LENGTH`.
const MAX_OPAQUE_LEN: usize = 32;
/// Letters are ASCII.
const LETTERS: u8 = 127;

/// All that the flags of one command say.
#[derive(Debug, Default)]
pub(super) struct Flags<'a> {
    text: &'a [u8],
    pub(super) steps: Steps,
    pub(super) base64: bool,
    quiet: bool,
    value: bool,
    pub(super) no_update: bool,
    pub(super) invalidate: bool,
    pub(super) opaque_too_long: bool,
    pub(super) cas: Option<u64>,
    pub(super) mode: Option<u8>,
    pub(super) client_flags: u64,
    pub(super) exptime: Option<Exptime>,
    pub(super) delta: Option<u64>,
    pub(super) initial: u64,
}

impl<'a> Flags<'a> {
    /// Reads the flags in `text`. If one of them says so, `key` is base64, and is decoded into `decoded`.
    ///
    /// A flag that is none ends the reading at once. Of other mistakes the last one is reported.
    pub(super) fn parse(
        text: &'a [u8],
        key: &[u8],
        decoded: &mut Vec<u8>,
    ) -> Result<Self, Refusal> {
        let mut flags = Self {
            text,
            ..Self::default()
        };
        let mut seen = 0_u128;
        let mut refusal = None;
        for word in Words::of(text) {
            let (letter, token) = (word[0], &word[1..]);
            if letter >= LETTERS || seen & 1 << letter != 0 {
                return Err(Mistake::DuplicateFlag.into());
            }
            seen |= 1 << letter;
            match flags.set(letter, token, key, decoded) {
                Ok(()) => {}
                Err(Some(Refusal::Meta(Mistake::InvalidFlag))) => {
                    return Err(Mistake::InvalidFlag.into());
                }
                // Nothing is said of bad client flags, so that an earlier mistake is.
                Err(mistake) => refusal = mistake.or(refusal).or(Some(Refusal::BadCommandLine)),
            }
        }
        refusal.map_or(Ok(flags), Err)
    }

    fn set(
        &mut self,
        letter: u8,
        token: &[u8],
        key: &[u8],
        decoded: &mut Vec<u8>,
    ) -> Result<(), Option<Refusal>> {
        let because = |mistake: Mistake| Some(Refusal::from(mistake));
        match letter {
            b'b' => {
                self.base64 = true;
                base64::decode(key, decoded).ok_or(because(Mistake::Key))?;
            }
            b'N' => self.steps.push(Step::Create(exptime(token)?)),
            b'R' => self.steps.push(Step::Recache(exptime(token)?)),
            b'T' => {
                let exptime = exptime(token)?;
                self.exptime = Some(exptime);
                self.steps.push(Step::Touch(exptime));
            }
            b't' => self.steps.push(Step::ReportTtl),
            b'v' => self.value = true,
            b'u' => self.no_update = true,
            b'q' => self.quiet = true,
            b'I' => self.invalidate = true,
            b'O' => self.opaque_too_long = token.len() >= MAX_OPAQUE_LEN,
            b'F' => self.client_flags = number::unsigned(token).ok_or(None)?,
            b'C' => self.cas = Some(number::unsigned(token).ok_or(because(Mistake::Token))?),
            b'J' => self.initial = number::unsigned(token).ok_or(because(Mistake::Initial))?,
            b'D' => self.delta = Some(number::unsigned(token).ok_or(because(Mistake::Delta))?),
            b'M' => match token {
                [mode] => self.mode = Some(*mode),
                _ => return Err(because(Mistake::ModeLength)),
            },
            // Asked for in the answer, or for a proxy to know.
            b'k' | b's' | b'c' | b'f' | b'l' | b'h' | b'P' | b'L' => {}
            _ => return Err(because(Mistake::InvalidFlag)),
        }
        Ok(())
    }

    /// What the answer needs to know.
    pub(super) fn form(&self, verb: Verb) -> Form<'a> {
        Form {
            verb,
            base64: self.base64,
            quiet: self.quiet,
            value: self.value,
            cas: ShownCas::Cas,
            flags: self.text,
        }
    }
}

fn exptime(token: &[u8]) -> Result<Exptime, Option<Refusal>> {
    let number = number::signed(token).ok_or(Some(Mistake::Token.into()))?;
    Ok(Exptime(number as i32))
}
