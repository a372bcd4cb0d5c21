//! `stats`: memcached's counters.
//!
//! Owns which of the node's counts is which of memcached's.

use std::fs;
use std::process;
use std::sync::atomic::Ordering;

use super::{Lines, VERSION};
use crate::metrics::{Op, Outcome, Totals};
use crate::server::Shared;
use crate::store::StoreFigures;

pub(super) fn lines(shared: &Shared) -> Lines {
    let totals = shared.metrics.totals_since_reset();
    let mut lines = Writer(Vec::new());
    about_process(shared, &mut lines);
    connections(shared, &totals, &mut lines);
    commands(&totals, &mut lines);
    lines.put("auth_cmds", totals.logins);
    lines.put("auth_errors", totals.login_failures);
    if shared.config.idle_timeout.is_some() {
        lines.put("idle_kicks", totals.idle_kicks);
    }
    lines.put("bytes_read", totals.bytes_read);
    lines.put("bytes_written", totals.bytes_written);
    lines.put("limit_maxbytes", shared.config.memory.as_u64());
    lines.put("threads", shared.config.threads);
    lines.put("conn_yields", totals.yields);
    watching(shared, &mut lines);
    encryption(shared, &mut lines);
    items(shared, &totals, &mut lines);
    lines.0
}

struct Writer(Lines);

impl Writer {
    fn put(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.to_owned(), value.to_string()));
    }
}

fn about_process(shared: &Shared, lines: &mut Writer) {
    lines.put("pid", process::id());
    lines.put("uptime", shared.metrics.uptime().as_secs());
    lines.put("time", shared.clock.now());
    lines.put("version", VERSION);
    lines.put("pointer_size", usize::BITS);
    if let Some((user, system)) = processor_time() {
        lines.put("rusage_user", format!("{user:.6}"));
        lines.put("rusage_system", format!("{system:.6}"));
    }
}

/// Seconds that the process has worked, by itself and in the system's calls. Only Linux says so in a file.
fn processor_time() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in parentheses and may have spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / ticks);
    Some((seconds()?, seconds()?))
}

fn connections(shared: &Shared, totals: &Totals, lines: &mut Writer) {
    let config = &shared.config;
    let open = shared.metrics.connections_open.load(Ordering::Relaxed);
    let accepting = config.refuse_connections || open < config.max_connections;
    lines.put("max_connections", config.max_connections);
    lines.put("curr_connections", open);
    lines.put("total_connections", totals.connections_accepted);
    lines.put("rejected_connections", totals.connections_rejected);
    lines.put("accepting_conns", u8::from(accepting));
    let pauses = shared.metrics.pauses.load(Ordering::Relaxed);
    let paused = shared.metrics.paused_micros.load(Ordering::Relaxed);
    lines.put("listen_disabled_num", pauses);
    lines.put("time_in_listen_disabled_us", paused);
}

fn watching(shared: &Shared, lines: &mut Writer) {
    let figures = shared.watchers.figures();
    lines.put("log_watcher_skipped", figures.skipped);
    lines.put("log_watcher_sent", figures.sent);
    lines.put("log_watchers", figures.watchers);
}

fn encryption(shared: &Shared, lines: &mut Writer) {
    if let Some(tls) = &shared.tls {
        let errors = tls.handshake_errors.load(Ordering::Relaxed);
        lines.put("ssl_handshake_errors", errors);
        lines.put("time_since_server_cert_refresh", tls.age().as_secs());
    }
}

fn items(shared: &Shared, totals: &Totals, lines: &mut Writer) {
    let store = shared.store.figures();
    lines.put("bytes", store.estimated_bytes());
    lines.put("curr_items", store.estimated_items());
    lines.put("total_items", totals.sum(&STORING, Outcome::Stored));
    let counts = shared.metrics.store_since_reset(store.counts);
    lines.put("get_expired", counts.found_expired);
    lines.put("get_flushed", counts.found_flushed);
    lines.put("evictions", counts.evicted);
    lines.put("reclaimed", counts.reclaimed);
    tier(shared, &store, lines);
    disk(&store, lines);
}

/// Names of our own: memcached has no such things.
fn tier(shared: &Shared, store: &StoreFigures, lines: &mut Writer) {
    // What was fetched is counted since the start.
    let hits = shared
        .metrics
        .totals()
        .sum(&[Op::Get, Op::Gat], Outcome::Hit);
    let evictions = store.memory.evicted_read + store.memory.evicted_unread;
    lines.put("tier_items", store.memory.items);
    lines.put("tier_bytes", store.memory.bytes);
    lines.put("tier_limit", store.tier_limit);
    lines.put("tier_hits", hits.saturating_sub(store.fetched));
    lines.put("tier_evictions", evictions);
}

fn disk(store: &StoreFigures, lines: &mut Writer) {
    lines.put("dirty_bytes", store.memory.dirty_bytes);
    lines.put("flushed_items", store.flush.items);
    lines.put("flushed_bytes", store.flush.bytes);
    lines.put("flush_lag_ms", store.flush.lag.as_millis());
    lines.put("flush_failing", u8::from(store.flush.failing));
    lines.put("disk_quota", store.disk_quota);
    lines.put("disk_reads", store.disk_reads);
    lines.put("rewritten_items", store.rewritten);
}

const STORING: [Op; 6] = [
    Op::Set,
    Op::Add,
    Op::Replace,
    Op::Append,
    Op::Prepend,
    Op::Cas,
];

/// memcached's counters, each of which is a sum over commands and outcomes.
fn commands(totals: &Totals, lines: &mut Writer) {
    use Outcome::{Exists, Hit, Miss, NotStored, Ok, ServerError, Stored, TooLarge};
    let stores = [Stored, NotStored, Exists, Miss].map(|outcome| totals.sum(&STORING, outcome));
    let get_hits = totals.count(Op::Get, Hit);
    let get_misses = totals.count(Op::Get, Miss);
    // memcached counts a gat as a touch.
    let touch_hits = totals.sum(&[Op::Touch, Op::Gat], Hit);
    let touch_misses = totals.sum(&[Op::Touch, Op::Gat], Miss);
    lines.put("cmd_get", get_hits + get_misses);
    lines.put("cmd_set", stores.iter().sum::<u64>());
    lines.put("cmd_flush", totals.count(Op::FlushAll, Ok));
    lines.put("cmd_touch", touch_hits + touch_misses);
    lines.put("cmd_meta", totals.meta_commands);
    lines.put("get_hits", get_hits);
    lines.put("get_misses", get_misses);
    lines.put("delete_misses", totals.count(Op::Delete, Miss));
    lines.put("delete_hits", totals.count(Op::Delete, Hit));
    lines.put("incr_misses", totals.count(Op::Incr, Miss));
    lines.put("incr_hits", totals.count(Op::Incr, Hit));
    lines.put("decr_misses", totals.count(Op::Decr, Miss));
    lines.put("decr_hits", totals.count(Op::Decr, Hit));
    lines.put("cas_misses", totals.count(Op::Cas, Miss));
    lines.put("cas_hits", totals.count(Op::Cas, Stored));
    lines.put("cas_badval", totals.count(Op::Cas, Exists));
    lines.put("touch_hits", touch_hits);
    lines.put("touch_misses", touch_misses);
    lines.put("store_too_large", totals.sum(&STORING, TooLarge));
    lines.put("store_no_memory", totals.sum(&STORING, ServerError));
}
