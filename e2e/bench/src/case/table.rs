//! All cases, as data: what is compared and what must come out.

use super::Bound::{AtLeast, AtMost, Stated};
use super::hit_ratio::Trace;
use super::memory::Fill;
use super::speed::{SEED, Speed};
use super::sustained::Sustained;
use super::{Case, Experiment, Metric, Must};
use crate::distribution::Popularity;
use crate::lab::Contender;
use crate::server::node::Durability;

const NODE: Contender = Contender::Node(Durability::Interval);
const ROUNDS: usize = usize::MAX;

const MOSTLY_READS: &[Must] = &[
    Must(Metric::Throughput, AtLeast(1.0)),
    Must(Metric::CpuUs, AtMost(1.0)),
    Must(Metric::P50Us, Stated),
    Must(Metric::P99Us, Stated),
    Must(Metric::P999Us, AtMost(1.0)),
    Must(Metric::SteadyP99Us, Stated),
    Must(Metric::SteadyP999Us, AtMost(1.0)),
];
const HALF_WRITES: &[Must] = &[
    Must(Metric::Throughput, AtLeast(1.0)),
    Must(Metric::CpuUs, AtMost(1.25)),
    Must(Metric::P50Us, Stated),
    Must(Metric::P99Us, Stated),
    Must(Metric::P999Us, AtMost(1.0)),
    Must(Metric::SteadyP99Us, Stated),
    Must(Metric::SteadyP999Us, AtMost(1.0)),
];
const PIPELINED_READS: &[Must] = &[
    Must(Metric::Throughput, AtLeast(1.2)),
    Must(Metric::CpuUs, AtMost(0.9)),
    Must(Metric::P999Us, Stated),
];
const PIPELINED_WRITES: &[Must] = &[
    Must(Metric::Throughput, AtLeast(1.0)),
    Must(Metric::CpuUs, AtMost(1.25)),
    Must(Metric::P999Us, Stated),
];
const AS_FAST: &[Must] = &[
    Must(Metric::Throughput, AtLeast(1.0)),
    Must(Metric::CpuUs, Stated),
    Must(Metric::P999Us, Stated),
];
const NEARLY_AS_FAST: &[Must] = &[
    Must(Metric::Throughput, AtLeast(0.9)),
    Must(Metric::CpuUs, Stated),
    Must(Metric::P999Us, Stated),
];
const HALF_AS_FAST: &[Must] = &[
    Must(Metric::Throughput, AtLeast(0.5)),
    Must(Metric::CpuUs, Stated),
    Must(Metric::P999Us, Stated),
];
const ON_DISK: &[Must] = &[
    Must(Metric::Throughput, AtLeast(1.0)),
    Must(Metric::P999Us, AtMost(1.0)),
    Must(Metric::SteadyP999Us, AtMost(1.0)),
    Must(Metric::CpuUs, Stated),
    Must(Metric::HitRatio, Stated),
];
const EVENLY: &[Must] = &[
    Must(Metric::WorstSecond, AtLeast(0.5)),
    Must(Metric::WriteAmplification, Stated),
    Must(Metric::Throughput, Stated),
    Must(Metric::P999Us, Stated),
];
const SMALL: &[Must] = &[Must(Metric::BytesPerItem, AtMost(1.1))];
const AS_MANY_HITS: &[Must] = &[Must(Metric::HitRatio, AtLeast(1.0))];

const MANY_CONNECTIONS: Speed = Speed {
    connections: 1000,
    ..SEED
};
const PIPELINE: Speed = Speed {
    value_len: 100,
    depth: 16,
    steady: false,
    ..SEED
};
const MULTI_GET: Speed = Speed {
    mix: "get",
    value_len: 100,
    keys_per_get: 10,
    steady: false,
    ..SEED
};
const SMALL_CHANGES: Speed = Speed {
    mix: "incr",
    value_len: 100,
    steady: false,
    ..SEED
};
/// 4,000-byte values: memcached keeps some 100 bytes in memory for each item on the disk, so ten times the memory
/// in values of 1,000 bytes would leave it nothing but those.
const LARGER_THAN_MEMORY: Speed = Speed {
    mix: "get=95,set=5",
    popularity: Popularity::Zipf(0.99),
    items: 320_000,
    value_len: 4000,
    read_through: true,
    memory_mb: 128,
    disk_mb: Some(4096),
    steady: true,
    warm_ups: 5,
    ..SEED
};
/// Nine times as much as the bytes hold.
const TRACE: Trace = Trace {
    popularity: Popularity::Zipf(0.99),
    items: 1_000_000,
    value_len: 500,
    bytes_mb: 64,
    warm_up: 1_500_000,
    requests: 700_000,
};

const fn with_memcached(
    name: &'static str,
    title: &'static str,
    speed: Speed,
    must: &'static [Must],
) -> Case {
    Case {
        name,
        title,
        baseline: Some(Contender::Memcached),
        node: NODE,
        experiment: Experiment::Speed(speed),
        must,
        max_rounds: ROUNDS,
    }
}

const fn hits(name: &'static str, title: &'static str, popularity: Popularity) -> Case {
    Case {
        name,
        title,
        baseline: Some(Contender::Memcached),
        node: NODE,
        experiment: Experiment::HitRatio(Trace {
            popularity,
            ..TRACE
        }),
        must: AS_MANY_HITS,
        max_rounds: 1,
    }
}

/// Every case, in the order of the report.
pub const CASES: &[Case] = &[
    with_memcached(
        "seed",
        "1,000 bytes, 20 connections, one at a time, 9:1",
        SEED,
        MOSTLY_READS,
    ),
    with_memcached(
        "seed-writes",
        "1,000 bytes, 20 connections, one at a time, 1:1",
        Speed {
            mix: "get=1,set=1",
            ..SEED
        },
        HALF_WRITES,
    ),
    with_memcached(
        "connections",
        "1,000 bytes, 1,000 connections, 9:1",
        MANY_CONNECTIONS,
        MOSTLY_READS,
    ),
    with_memcached(
        "connections-writes",
        "1,000 bytes, 1,000 connections, 1:1",
        Speed {
            mix: "get=1,set=1",
            ..MANY_CONNECTIONS
        },
        HALF_WRITES,
    ),
    with_memcached(
        "pipeline-16",
        "100 bytes, pipeline of 16, 9:1",
        PIPELINE,
        PIPELINED_READS,
    ),
    with_memcached(
        "pipeline-64",
        "100 bytes, pipeline of 64, 9:1",
        Speed {
            depth: 64,
            ..PIPELINE
        },
        PIPELINED_READS,
    ),
    with_memcached(
        "pipeline-16-writes",
        "100 bytes, pipeline of 16, 1:1",
        Speed {
            mix: "get=1,set=1",
            ..PIPELINE
        },
        PIPELINED_WRITES,
    ),
    with_memcached(
        "pipeline-64-writes",
        "100 bytes, pipeline of 64, 1:1",
        Speed {
            mix: "get=1,set=1",
            depth: 64,
            ..PIPELINE
        },
        PIPELINED_WRITES,
    ),
    with_memcached(
        "multi-get-10",
        "100 bytes, gets of 10 keys",
        MULTI_GET,
        AS_FAST,
    ),
    with_memcached(
        "multi-get-100",
        "100 bytes, gets of 100 keys",
        Speed {
            keys_per_get: 100,
            ..MULTI_GET
        },
        AS_FAST,
    ),
    with_memcached(
        "counters",
        "incr, 20 connections",
        SMALL_CHANGES,
        NEARLY_AS_FAST,
    ),
    with_memcached(
        "cas",
        "gets then cas, 20 connections",
        Speed {
            mix: "cas",
            ..SMALL_CHANGES
        },
        NEARLY_AS_FAST,
    ),
    with_memcached(
        "deletes",
        "delete and set 1:1, 20 connections",
        Speed {
            mix: "delete=1,set=1",
            ..SMALL_CHANGES
        },
        NEARLY_AS_FAST,
    ),
    Case {
        name: "always",
        title: "durability always against interval, 1:1, 100 connections",
        baseline: Some(Contender::Node(Durability::Interval)),
        node: Contender::Node(Durability::Always),
        experiment: Experiment::Speed(Speed {
            mix: "get=1,set=1",
            connections: 100,
            steady: false,
            ..SEED
        }),
        must: HALF_AS_FAST,
        max_rounds: ROUNDS,
    },
    Case {
        name: "larger-than-memory",
        title: "ten times the memory, Zipf 0.99, 95 % get, against extstore",
        baseline: Some(Contender::Extstore),
        node: NODE,
        experiment: Experiment::Speed(LARGER_THAN_MEMORY),
        must: ON_DISK,
        max_rounds: 2,
    },
    Case {
        name: "sustained",
        title: "fresh keys without end at half of the top rate",
        baseline: None,
        node: NODE,
        experiment: Experiment::Sustained(Sustained {
            value_len: 1000,
            connections: 20,
            memory_mb: 1024,
            quota_mb: 4096,
            times: 20,
        }),
        must: EVENLY,
        max_rounds: 1,
    },
    Case {
        name: "memory",
        title: "memory of 100-byte items, full",
        baseline: Some(Contender::Memcached),
        node: NODE,
        experiment: Experiment::Memory(Fill {
            value_len: 100,
            items: 2_500_000,
            memory_mb: 256,
        }),
        must: SMALL,
        max_rounds: 1,
    },
    hits(
        "hits-zipf-0.8",
        "hits with the same bytes, Zipf 0.8",
        Popularity::Zipf(0.8),
    ),
    hits(
        "hits-zipf-0.99",
        "hits with the same bytes, Zipf 0.99",
        Popularity::Zipf(0.99),
    ),
    hits(
        "hits-zipf-1.2",
        "hits with the same bytes, Zipf 1.2",
        Popularity::Zipf(1.2),
    ),
    hits(
        "hits-scan",
        "hits with the same bytes, Zipf 0.99 and a fifth of it a scan",
        Popularity::Scan {
            theta: 0.99,
            share: 0.2,
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::Mix;

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_mix_that_means_something() {
        let mut names = std::collections::HashSet::new();
        for case in CASES {
            assert!(names.insert(case.name), "{}", case.name);
            assert!(!case.must.is_empty(), "{}", case.name);
            if let Experiment::Speed(speed) = case.experiment {
                speed.mix.parse::<Mix>().unwrap();
            }
        }
    }
}
