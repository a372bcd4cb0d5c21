//! How many hits: the same bytes and the same requests for both; a miss is followed by a `set`, as clients do.

use std::time::Duration;

use super::{Metric, Sample};
use crate::distribution::Popularity;
use crate::lab::{Contender, Lab};
use crate::load::{self, Load};
use crate::{process, server};

/// A trace of this many requests ends before, unless the server hangs.
const LONGEST: Duration = Duration::from_secs(300);

/// A trace, as data.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    pub popularity: Popularity,
    pub items: u64,
    pub value_len: usize,
    /// memcached's memory; the node's memory and its quota on the disk.
    pub bytes_mb: u64,
    /// Requests until what is held is what is popular.
    pub warm_up: u64,
    /// Requests that count.
    pub requests: u64,
}

impl Trace {
    pub(super) fn sample(&self, lab: &Lab, contender: Contender) -> anyhow::Result<Sample> {
        let server = lab.start(contender, self.bytes_mb, Some(self.bytes_mb))?;
        let target = lab.target(&server);
        let warm_up = load::run(&self.load(self.warm_up, 1)?, &target)?;
        let before = server.stats()?;
        let counted = load::run(&self.load(self.requests, 2)?, &target)?;
        let mut sample = Sample {
            server: contender.to_string(),
            stats: server.stats()?,
            memory: Some(process::memory(server.pid())?.into()),
            ..Sample::default()
        };
        let ratio = counted.summary.hit_ratio();
        sample.figures.insert(Metric::HitRatio, ratio);
        let hits = |stats| server::node::hits_in_memory(stats);
        if let (Some(before), Some(after)) = (hits(&before), hits(&sample.stats)) {
            let requests = self.requests as f64;
            let note = format!("{:.4} of all gets from memory", (after - before) / requests);
            sample.notes.push(note);
        }
        if matches!(contender, Contender::Node(_)) && !lab.node.has_quota() {
            sample
                .notes
                .push("without a quota: holds everything".to_owned());
        }
        sample.loads.insert("warm-up", warm_up);
        sample.loads.insert("trace", counted);
        Ok(sample)
    }

    fn load(&self, requests: u64, seed: u64) -> anyhow::Result<Load> {
        Ok(Load {
            mix: "get".parse()?,
            popularity: self.popularity,
            items: self.items,
            key_len: 16,
            value_len: self.value_len,
            keys_per_get: 1,
            read_through: true,
            connections: 20,
            depth: 8,
            rate: None,
            fresh_from: 0,
            warm_up: Duration::ZERO,
            time: LONGEST,
            requests: Some(requests),
            seed,
        })
    }
}
