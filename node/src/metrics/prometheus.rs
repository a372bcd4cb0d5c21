//! The counters in Prometheus's text format.
//!
//! Owns the names, labels and help texts of what the node exports. Nothing is registered: a scrape reads the
//! counters where they are.

use std::sync::atomic::Ordering;

use prometheus::TextEncoder;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use super::{Metrics, Op, Outcome};
use crate::store::{RocksFigures, StoreFigures};

/// What a scrape looks at.
pub struct Scrape<'a> {
    pub metrics: &'a Metrics,
    pub store: StoreFigures,
    pub ready: bool,
    pub max_connections: u64,
    pub database_set_aside: bool,
}

/// The page of `/metrics`.
pub fn render(scrape: &Scrape<'_>) -> Result<String, prometheus::Error> {
    let mut families = command_families(scrape.metrics);
    families.extend(traffic_families(scrape));
    families.extend(store_families(&scrape.store));
    families.extend(rocks_families(&scrape.store.rocks));
    // The encoder refuses families without a series, which is what no command yet looks like.
    families.retain(|family| !family.get_metric().is_empty());
    TextEncoder::new().encode_to_string(&families)
}

fn command_families(metrics: &Metrics) -> Vec<MetricFamily> {
    let totals = metrics.totals();
    let mut counts = Vec::new();
    let mut latencies = Vec::new();
    for op in Op::ALL {
        for outcome in Outcome::ALL {
            let count = totals.count(*op, *outcome);
            // A series appears with its first count, so that impossible combinations never do.
            if count > 0 {
                counts.push(labelled(
                    counter_metric(count),
                    &[("command", op.label()), ("result", outcome.label())],
                ));
            }
        }
        latencies.push(latency_metric(metrics, *op));
    }
    vec![
        family(
            "petracache_commands_total",
            "Commands by result. Each key of a multi-get counts.",
            MetricType::COUNTER,
            counts,
        ),
        family(
            "petracache_command_duration_seconds",
            "Time to parse, carry out and answer a command, without waiting for the network.",
            MetricType::HISTOGRAM,
            latencies,
        ),
    ]
}

fn traffic_families(scrape: &Scrape<'_>) -> Vec<MetricFamily> {
    let totals = scrape.metrics.totals();
    let open = scrape.metrics.connections_open.load(Ordering::Relaxed);
    vec![
        gauge(
            "petracache_ready",
            "1 while clients are served.",
            scrape.ready.into(),
        ),
        gauge(
            "petracache_database_set_aside",
            "1 when this start found a database that did not open and began with an empty one.",
            scrape.database_set_aside.into(),
        ),
        gauge(
            "petracache_uptime_seconds",
            "Since the start.",
            scrape.metrics.uptime().as_secs(),
        ),
        gauge("petracache_connections", "Open client connections.", open),
        gauge(
            "petracache_connections_limit",
            "Client connections that may be open.",
            scrape.max_connections,
        ),
        counter(
            "petracache_connections_accepted_total",
            "Client connections since the start.",
            totals.connections_accepted,
        ),
        counter(
            "petracache_connections_rejected_total",
            "Client connections refused because too many were open.",
            totals.connections_rejected,
        ),
        counter(
            "petracache_read_bytes_total",
            "Read from clients.",
            totals.bytes_read,
        ),
        counter(
            "petracache_written_bytes_total",
            "Sent to clients.",
            totals.bytes_written,
        ),
    ]
}

fn store_families(store: &StoreFigures) -> Vec<MetricFamily> {
    let (memory, flush) = (&store.memory, &store.flush);
    let evictions = [
        ("unread", memory.evicted_unread),
        ("read", memory.evicted_read),
    ];
    vec![
        gauge(
            "petracache_tier_items",
            "Items in the memory tier.",
            memory.items,
        ),
        gauge(
            "petracache_tier_bytes",
            "Memory that the items in the memory tier take.",
            memory.bytes,
        ),
        gauge(
            "petracache_tier_limit_bytes",
            "Memory that the memory tier may take.",
            store.tier_limit,
        ),
        gauge(
            "petracache_dirty_bytes",
            "Written by clients and not by write-behind yet.",
            memory.dirty_bytes,
        ),
        family(
            "petracache_tier_evictions_total",
            "Items that left the memory tier to make room; they stay on the disk.",
            MetricType::COUNTER,
            evictions
                .map(|(reason, count)| labelled(counter_metric(count), &[("item", reason)]))
                .into(),
        ),
        gauge(
            "petracache_disk_quota_bytes",
            "What the database's directory may take.",
            store.disk_quota,
        ),
        counter(
            "petracache_rewritten_items_total",
            "Items in use that were written again before the oldest files are dropped.",
            store.rewritten,
        ),
        counter(
            "petracache_fetched_items_total",
            "Items that were not in the memory tier and were brought there from RocksDB.",
            store.fetched,
        ),
        counter(
            "petracache_disk_reads_total",
            "Items that were looked for on the disk.",
            store.disk_reads,
        ),
        gauge(
            "petracache_disk_reads_waiting",
            "Reads that wait for a thread.",
            store.disk_reads_waiting,
        ),
        counter(
            "petracache_flushed_items_total",
            "Items that write-behind has written.",
            flush.items,
        ),
        counter(
            "petracache_flushed_bytes_total",
            "Bytes that write-behind has written.",
            flush.bytes,
        ),
        gauge_f64(
            "petracache_flush_pass_seconds",
            "How long the last pass of write-behind took.",
            flush.last_pass.as_secs_f64(),
        ),
        gauge_f64(
            "petracache_flush_lag_seconds",
            "How old what is not on the disk is at most.",
            flush.lag.as_secs_f64(),
        ),
        gauge(
            "petracache_flush_failing",
            "1 while the disk takes no writes.",
            flush.failing.into(),
        ),
    ]
}

fn rocks_families(rocks: &RocksFigures) -> Vec<MetricFamily> {
    let figures = [
        (
            "items_estimated",
            "Items, including expired ones that were not compacted away yet.",
            rocks.estimated_items,
        ),
        (
            "live_data_bytes",
            "Estimated size of the live data.",
            rocks.live_data_bytes,
        ),
        ("file_bytes", "Size of the table files.", rocks.file_bytes),
        (
            "memtable_bytes",
            "Written data that is not in a file yet.",
            rocks.memtable_bytes,
        ),
        (
            "block_cache_bytes",
            "Cached blocks, indexes and filters.",
            rocks.block_cache_bytes,
        ),
        (
            "pending_compaction_bytes",
            "Left to compact.",
            rocks.pending_compaction_bytes,
        ),
        (
            "running_compactions",
            "Compactions at work.",
            rocks.running_compactions,
        ),
        (
            "running_flushes",
            "Memtables being written to files.",
            rocks.running_flushes,
        ),
        (
            "background_errors",
            "Errors of background work since the start.",
            rocks.background_errors,
        ),
        (
            "write_stopped",
            "1 while writes wait for compaction.",
            rocks.write_stopped,
        ),
    ];
    figures
        .into_iter()
        .map(|(name, help, value)| gauge(&format!("petracache_rocksdb_{name}"), help, value))
        .collect()
}

fn latency_metric(metrics: &Metrics, op: Op) -> Metric {
    let totals = metrics.latency(op);
    let buckets = totals.cumulative().map(|(bound, count)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(count);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(totals.count());
    histogram.set_sample_sum(totals.sum_seconds());
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    labelled(metric, &[("command", op.label())])
}

fn labelled(mut metric: Metric, labels: &[(&str, &str)]) -> Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    metric.set_label(pairs.collect());
    metric
}

fn counter_metric(count: u64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(count as f64);
    let mut metric = Metric::default();
    metric.set_counter(counter);
    metric
}

fn counter(name: &str, help: &str, count: u64) -> MetricFamily {
    family(name, help, MetricType::COUNTER, vec![counter_metric(count)])
}

fn gauge(name: &str, help: &str, value: u64) -> MetricFamily {
    gauge_f64(name, help, value as f64)
}

fn gauge_f64(name: &str, help: &str, value: f64) -> MetricFamily {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    family(
        name,
        help,
        MetricType::GAUGE,
        vec![Metric::from_gauge(gauge)],
    )
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}
