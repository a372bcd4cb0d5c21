//! How much memory an item takes: the resident memory of a full server, by the items it holds in memory.

use std::time::Duration;

use super::{Metric, Sample};
use crate::distribution::Popularity;
use crate::lab::{Contender, Lab};
use crate::load::{self, Load};
use crate::{process, server};

const SETTLE: Duration = Duration::from_secs(20);

/// More items than fit, as data.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub value_len: usize,
    pub items: u64,
    pub memory_mb: u64,
}

impl Fill {
    pub(super) fn sample(&self, lab: &Lab, contender: Contender) -> anyhow::Result<Sample> {
        let server = lab.start(contender, self.memory_mb, None)?;
        let empty = process::memory(server.pid())?;
        load::fill(&self.load()?, &lab.target(&server))?;
        load::settle(server.pid(), SETTLE)?;
        let stats = server.stats()?;
        let full = process::memory(server.pid())?;
        let items = match contender {
            Contender::Node(_) => server::node::items_in_memory(&stats),
            _ => stats.get("curr_items").and_then(|items| items.parse().ok()),
        };
        let mut sample = Sample {
            server: contender.to_string(),
            stats,
            memory: Some(full.into()),
            ..Sample::default()
        };
        sample
            .notes
            .push(format!("{} MiB resident when empty", empty.resident >> 20));
        match items {
            Some(items) if items > 0.0 => {
                let bytes = full.resident as f64 / items;
                sample.figures.insert(Metric::BytesPerItem, bytes);
            }
            _ => sample
                .notes
                .push("does not say how many items are in memory".to_owned()),
        }
        Ok(sample)
    }

    fn load(&self) -> anyhow::Result<Load> {
        Ok(Load {
            mix: "set".parse()?,
            popularity: Popularity::Uniform,
            items: self.items,
            key_len: 16,
            value_len: self.value_len,
            keys_per_get: 1,
            read_through: false,
            connections: 1,
            depth: 1,
            rate: None,
            fresh_from: 0,
            warm_up: Duration::ZERO,
            time: Duration::ZERO,
            requests: None,
            seed: 1,
        })
    }
}
