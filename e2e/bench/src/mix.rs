//! What is asked: kinds of requests by weight, as bytes, with what must be answered.
//!
//! Owns the requests' bytes. Knows no socket and reads no answer.

use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail};

use crate::answer::{Expect, What};
use crate::distribution::Draw;
use crate::keys::{COUNTER_START, Keys};

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `get` of one key or, where the load says so, of many.
    Get,
    /// `set` of a key that is drawn.
    Set,
    /// `set` of a key that was never used before.
    Fresh,
    /// `incr` of a counter; one that is missing is added.
    Incr,
    /// `gets`, then `cas` with the number that came back.
    Cas,
    /// `delete`.
    Delete,
}

const KINDS: [(&str, Kind); 6] = [
    ("get", Kind::Get),
    ("set", Kind::Set),
    ("fresh", Kind::Fresh),
    ("incr", Kind::Incr),
    ("cas", Kind::Cas),
    ("delete", Kind::Delete),
];

/// Kinds of requests, each with its weight: `get=9,set=1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    weights: Vec<(Kind, u32)>,
    total: u32,
}

impl FromStr for Mix {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let weights = text
            .split(',')
            .map(weight)
            .collect::<anyhow::Result<Vec<_>>>()?;
        let total = weights.iter().map(|(_, weight)| weight).sum();
        if total == 0 {
            bail!("{text:?} has no weight above 0");
        }
        Ok(Self { weights, total })
    }
}

fn weight(text: &str) -> anyhow::Result<(Kind, u32)> {
    let (name, weight) = text.split_once('=').unwrap_or((text, "1"));
    let kind = KINDS.iter().find(|(known, _)| *known == name);
    let Some((_, kind)) = kind else {
        let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        bail!("{name:?} is none of {}", known.join(", "));
    };
    let weight: u16 = weight
        .parse()
        .with_context(|| format!("weight {weight:?} of {name}"))?;
    Ok((*kind, u32::from(weight)))
}

impl Mix {
    fn pick(&self, random: &mut fastrand::Rng) -> Kind {
        if let [(kind, _)] = self.weights[..] {
            return kind;
        }
        let mut point = random.u32(0..self.total);
        for &(kind, weight) in &self.weights {
            if point < weight {
                return kind;
            }
            point -= weight;
        }
        Kind::Get
    }
}

/// A request that an answer calls for; it goes out before any other.
#[derive(Clone, Copy, Debug)]
pub enum FollowUp {
    /// The key was missed.
    Set { id: u64 },
    /// The second half of a cas loop.
    Cas { id: u64, unique: u64 },
    /// The counter is not there yet.
    AddCounter { id: u64 },
}

/// Ids in order, each once: `next`, `next + step`, ... below `end`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub next: u64,
    pub end: u64,
    pub step: u64,
}

impl Iterator for Range {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.next >= self.end {
            return None;
        }
        let id = self.next;
        self.next += self.step;
        Some(id)
    }
}

/// Where one worker's requests come from.
pub enum Source {
    /// Endless, by weight.
    Mixed {
        mix: Mix,
        draw: Draw,
        /// Keys of one `get`.
        keys_per_get: usize,
        fresh: Range,
        /// Requests until the end.
        left: u64,
        random: fastrand::Rng,
    },
    /// Sets each key of a range once.
    Fill(Range),
}

/// Writes requests and what they must be answered.
pub struct Asker {
    pub keys: Arc<Keys>,
    pub source: Source,
    /// A miss is followed by a `set`.
    pub read_through: bool,
}

impl Asker {
    /// Appends the next request to `out`. False when there is none.
    pub fn push_next(
        &mut self,
        due: u64,
        out: &mut Vec<u8>,
        expect: &mut VecDeque<Expect>,
    ) -> bool {
        let keys = &self.keys;
        let (mix, draw, keys_per_get, fresh, left, random) = match &mut self.source {
            Source::Fill(range) => {
                let Some(id) = range.next() else { return false };
                push_set(keys, id, due, out, expect);
                return true;
            }
            Source::Mixed {
                mix,
                draw,
                keys_per_get,
                fresh,
                left,
                random,
            } => (mix, draw, *keys_per_get, fresh, left, random),
        };
        if *left == 0 {
            return false;
        }
        *left -= 1;
        match mix.pick(random) {
            Kind::Get => push_get(keys, (0..keys_per_get).map(|_| draw.id()), due, out, expect),
            Kind::Set => push_set(keys, draw.id(), due, out, expect),
            Kind::Fresh => {
                let Some(id) = fresh.next() else { return false };
                push_set(keys, id, due, out, expect);
            }
            Kind::Incr => push_incr(keys, draw.id(), due, out, expect),
            Kind::Cas => push_gets(keys, draw.id(), due, out, expect),
            Kind::Delete => push_delete(keys, draw.id(), due, out, expect),
        }
        true
    }

    /// Appends the request that an answer called for.
    pub fn push_follow_up(
        &self,
        follow_up: FollowUp,
        due: u64,
        out: &mut Vec<u8>,
        expect: &mut VecDeque<Expect>,
    ) {
        let keys = &self.keys;
        match follow_up {
            FollowUp::Set { id } => push_set(keys, id, due, out, expect),
            FollowUp::Cas { id, unique } => push_cas(keys, id, unique, due, out, expect),
            FollowUp::AddCounter { id } => push_add_counter(keys, id, due, out, expect),
        }
    }
}

fn push_get(
    keys: &Keys,
    ids: impl Iterator<Item = u64>,
    due: u64,
    out: &mut Vec<u8>,
    expect: &mut VecDeque<Expect>,
) {
    out.extend_from_slice(b"get");
    for id in ids {
        out.push(b' ');
        keys.push_key(id, out);
        expect.push_back(Expect::new(What::Value, id, due));
    }
    out.extend_from_slice(b"\r\n");
    expect.push_back(Expect::new(What::End, 0, due));
}

fn push_gets(keys: &Keys, id: u64, due: u64, out: &mut Vec<u8>, expect: &mut VecDeque<Expect>) {
    out.extend_from_slice(b"gets ");
    keys.push_key(id, out);
    out.extend_from_slice(b"\r\n");
    expect.push_back(Expect::new(What::ValueWithCas, id, due));
    expect.push_back(Expect::new(What::End, 0, due));
}

fn push_set(keys: &Keys, id: u64, due: u64, out: &mut Vec<u8>, expect: &mut VecDeque<Expect>) {
    out.extend_from_slice(b"set ");
    keys.push_key(id, out);
    out.extend_from_slice(b" 0");
    out.extend_from_slice(keys.flags_and_length());
    push_value(keys, id, out);
    expect.push_back(Expect::new(What::Stored, id, due));
}

fn push_cas(
    keys: &Keys,
    id: u64,
    unique: u64,
    due: u64,
    out: &mut Vec<u8>,
    expect: &mut VecDeque<Expect>,
) {
    out.extend_from_slice(b"cas ");
    keys.push_key(id, out);
    out.extend_from_slice(b" 0");
    out.extend_from_slice(keys.flags_and_length());
    out.extend_from_slice(format!(" {unique}").as_bytes());
    push_value(keys, id, out);
    expect.push_back(Expect::new(What::StoredByCas, id, due));
}

/// The end of the line, the value, and its end.
fn push_value(keys: &Keys, id: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(keys.value(id));
    out.extend_from_slice(b"\r\n");
}

fn push_incr(keys: &Keys, id: u64, due: u64, out: &mut Vec<u8>, expect: &mut VecDeque<Expect>) {
    out.extend_from_slice(b"incr ");
    keys.push_counter(id, out);
    out.extend_from_slice(b" 1\r\n");
    expect.push_back(Expect::new(What::Count, id, due));
}

fn push_add_counter(
    keys: &Keys,
    id: u64,
    due: u64,
    out: &mut Vec<u8>,
    expect: &mut VecDeque<Expect>,
) {
    out.extend_from_slice(b"add ");
    keys.push_counter(id, out);
    out.extend_from_slice(format!(" 0 0 10\r\n{COUNTER_START}\r\n").as_bytes());
    expect.push_back(Expect::new(What::Added, id, due));
}

fn push_delete(keys: &Keys, id: u64, due: u64, out: &mut Vec<u8>, expect: &mut VecDeque<Expect>) {
    out.extend_from_slice(b"delete ");
    keys.push_key(id, out);
    out.extend_from_slice(b"\r\n");
    expect.push_back(Expect::new(What::Deleted, id, due));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_picked_by_weight() {
        let mix: Mix = "get=9,set=1".parse().unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let sets = (0..10_000)
            .filter(|_| mix.pick(&mut random) == Kind::Set)
            .count();
        assert!((800..1200).contains(&sets), "{sets} of 10000");
    }

    #[test]
    fn a_mix_that_means_nothing_is_refused() {
        for text in ["", "got=1", "get=0", "get=x"] {
            assert!(text.parse::<Mix>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn requests_are_those_of_the_protocol() {
        let keys = Keys::new(13, 3);
        let (mut out, mut expect) = (Vec::new(), VecDeque::new());
        push_get(&keys, [0, 0].into_iter(), 5, &mut out, &mut expect);
        assert_eq!(out, b"get k000000000000 k000000000000\r\n");
        assert_eq!(expect.len(), 3);
        out.clear();
        push_set(&keys, 0, 5, &mut out, &mut expect);
        let value = String::from_utf8(keys.value(0).to_vec()).unwrap();
        assert_eq!(
            out,
            format!("set k000000000000 0 0 3\r\n{value}\r\n").as_bytes()
        );
    }
}
