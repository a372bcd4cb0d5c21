//! Answers about the server itself: `version`, `verbosity` and `stats`.
//!
//! Owns memcached's names for what is counted. A name appears only with a true number; what a node does not have
//! (slabs, LRU lists, hash table) is left out. Counts start at the last `stats reset`.

use std::process;
use std::sync::atomic::Ordering;

use crate::metrics::{Op, Outcome, Totals};
use crate::protocol::request::{Control, Stats};
use crate::protocol::response::Response;
use crate::server::Shared;

/// What `version` answers, and what routers probe for. Clients read from the number what a server can, so that it is
/// that of the memcached whose commands are spoken here.
pub(crate) const VERSION: &str = concat!("1.6.45-petracache-", env!("CARGO_PKG_VERSION"));

type Lines = Vec<(String, String)>;

/// The answer to `control`. [`Control::Quit`] has none.
pub(crate) fn answer(control: Control, shared: &Shared) -> Response {
    match control {
        Control::Version => Response::Version(VERSION),
        Control::Verbosity | Control::StatsDetail | Control::Noop | Control::Quit => Response::Ok,
        Control::Stats(Stats::Reset) => {
            shared.metrics.reset();
            Response::Reset
        }
        Control::Stats(group) => Response::Stats(lines(group, shared).unwrap_or_default()),
    }
}

fn lines(group: Stats, shared: &Shared) -> Option<Lines> {
    match group {
        Stats::General => Some(general(shared)),
        Stats::Settings => Some(settings(shared)),
        Stats::Sizes => Some(vec![("sizes_status".into(), "disabled".into())]),
        Stats::Conns => Some(conns(shared)),
        // There are no slab classes and no statistics per key prefix.
        Stats::Items | Stats::Slabs | Stats::Detail | Stats::Reset => None,
    }
}

fn general(shared: &Shared) -> Lines {
    let metrics = &shared.metrics;
    let totals = metrics.totals_since_reset();
    let store = shared.store.figures();
    // What was fetched is counted since the start.
    let all_gets = metrics.totals().sum(&[Op::Get, Op::Gat], Outcome::Hit);
    let mut lines = Vec::new();
    let mut push = |name: &str, value: u64| lines.push((name.to_owned(), value.to_string()));
    push("pid", process::id().into());
    push("uptime", metrics.uptime().as_secs());
    push("time", shared.clock.now().0.into());
    push("pointer_size", usize::BITS.into());
    push("max_connections", shared.config.max_connections);
    push(
        "curr_connections",
        metrics.connections_open.load(Ordering::Relaxed),
    );
    push("total_connections", totals.connections_accepted);
    push("rejected_connections", totals.connections_rejected);
    push_commands(&totals, &mut push);
    push("bytes_read", totals.bytes_read);
    push("bytes_written", totals.bytes_written);
    push("limit_maxbytes", shared.config.memory.as_u64());
    push("accepting_conns", 1);
    push("threads", shared.config.threads as u64);
    push("bytes", store.estimated_bytes());
    push("curr_items", store.estimated_items());
    push("total_items", totals.sum(&STORING, Outcome::Stored));
    push("evictions", 0);
    push("tier_items", store.memory.items);
    push("tier_bytes", store.memory.bytes);
    push("tier_limit", store.tier_limit);
    push("tier_hits", all_gets.saturating_sub(store.fetched));
    push(
        "tier_evictions",
        store.memory.evicted_read + store.memory.evicted_unread,
    );
    push("dirty_bytes", store.memory.dirty_bytes);
    push("flushed_items", store.flush.items);
    push("flushed_bytes", store.flush.bytes);
    push("flush_lag_ms", store.flush.lag.as_millis() as u64);
    push("flush_failing", store.flush.failing.into());
    push("disk_quota", store.disk_quota);
    push("disk_reads", store.disk_reads);
    push("rewritten_items", store.rewritten);
    lines.insert(3, ("version".to_owned(), VERSION.to_owned()));
    lines
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
fn push_commands(totals: &Totals, push: &mut impl FnMut(&str, u64)) {
    use Outcome::{Exists, Hit, Miss, NotStored, Ok, Stored, TooLarge};
    let stores = [Stored, NotStored, Exists, Miss].map(|outcome| totals.sum(&STORING, outcome));
    let get_hits = totals.count(Op::Get, Hit);
    let get_misses = totals.count(Op::Get, Miss);
    // memcached counts a gat as a touch.
    let touch_hits = totals.sum(&[Op::Touch, Op::Gat], Hit);
    let touch_misses = totals.sum(&[Op::Touch, Op::Gat], Miss);
    push("cmd_get", get_hits + get_misses);
    push("cmd_set", stores.iter().sum());
    push("cmd_flush", totals.count(Op::FlushAll, Ok));
    push("cmd_touch", touch_hits + touch_misses);
    push("get_hits", get_hits);
    push("get_misses", get_misses);
    push("delete_misses", totals.count(Op::Delete, Miss));
    push("delete_hits", totals.count(Op::Delete, Hit));
    push("incr_misses", totals.count(Op::Incr, Miss));
    push("incr_hits", totals.count(Op::Incr, Hit));
    push("decr_misses", totals.count(Op::Decr, Miss));
    push("decr_hits", totals.count(Op::Decr, Hit));
    push("cas_misses", totals.count(Op::Cas, Miss));
    push("cas_hits", totals.count(Op::Cas, Stored));
    push("cas_badval", totals.count(Op::Cas, Exists));
    push("touch_hits", touch_hits);
    push("touch_misses", touch_misses);
    push("store_too_large", totals.sum(&STORING, TooLarge));
}

fn settings(shared: &Shared) -> Lines {
    let config = &shared.config;
    let pairs = [
        ("maxbytes", config.memory.to_string()),
        ("maxconns", config.max_connections.to_string()),
        ("tcpport", config.listen_addr.port().to_string()),
        ("udpport", "0".into()),
        ("inter", config.listen_addr.ip().to_string()),
        ("num_threads", config.threads.to_string()),
        ("cas_enabled", "yes".into()),
        ("item_size_max", config.storage.max_item_size.to_string()),
        ("maxconns_fast", "yes".into()),
        ("flush_enabled", "yes".into()),
        ("shutdown_command", "no".into()),
        ("db_path", config.storage.db_path.display().to_string()),
        ("durability", config.storage.durability.name().into()),
        (
            "flush_interval_ms",
            config.storage.flush_interval.as_millis().to_string(),
        ),
        (
            "block_cache_size",
            config.storage.block_cache_size.to_string(),
        ),
        (
            "write_buffer_size",
            config.storage.write_buffer_size.to_string(),
        ),
    ];
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn conns(shared: &Shared) -> Lines {
    vec![
        (
            "0:addr".into(),
            format!("tcp:{}", shared.config.listen_addr),
        ),
        ("0:state".into(), "conn_listening".into()),
    ]
}
