//! Answers about the server itself: `version`, `verbosity` and `stats`.
//!
//! Owns memcached's names for what is counted. A name appears only with a true number; what a node does not have
//! (slabs, LRU lists, hash table) is left out. Counts start at the last `stats reset`.

mod settings;

use std::process;
use std::sync::atomic::Ordering;

use crate::metrics::{Op, Outcome, Totals};
use crate::protocol::request::{Control, Stats};
use crate::protocol::response::Response;
use crate::server::Shared;

/// What `version` answers, and what routers probe for.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

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
        Stats::Settings => Some(settings::lines(shared)),
        Stats::Sizes => Some(vec![("sizes_status".into(), "disabled".into())]),
        Stats::Conns => Some(shared.registry.lines(shared.clock.now())),
        // There are no slab classes and no statistics per key prefix.
        Stats::Items | Stats::Slabs | Stats::Detail | Stats::Reset => None,
    }
}

fn general(shared: &Shared) -> Lines {
    let metrics = &shared.metrics;
    let totals = metrics.totals_since_reset();
    let store = shared.store.figures();
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
    if shared.config.idle_timeout.is_some() {
        push("idle_kicks", totals.idle_kicks);
    }
    push_commands(&totals, &mut push);
    push("bytes_read", totals.bytes_read);
    push("bytes_written", totals.bytes_written);
    push("limit_maxbytes", shared.config.memory.as_u64());
    push("accepting_conns", 1);
    push("threads", shared.config.threads as u64);
    push("conn_yields", totals.yields);
    push("bytes", store.estimated_bytes());
    push("curr_items", store.estimated_items());
    push("total_items", totals.sum(&STORING, Outcome::Stored));
    push("evictions", 0);
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
