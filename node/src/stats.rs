//! Answers about the server itself: `version`, `verbosity` and `stats`.
//!
//! Owns memcached's names for what is counted. A name appears only with a true number; what a node does not have
//! (slabs, LRU lists, hash table) is left out. Counts start at the last `stats reset`.

mod general;
mod settings;

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
        Control::Stats(Stats::Reset) => {
            shared.metrics.reset(shared.store.figures().counts);
            shared.prefixes.reset();
            Response::Reset
        }
        Control::Stats(Stats::Detail) => Response::Details(shared.prefixes.dump()),
        Control::CountPrefixes(on) => {
            shared.prefixes.switch(on);
            Response::Ok
        }
        Control::Stats(group) => Response::Stats(lines(group, shared).unwrap_or_default()),
        // Those that do something to the connection or the process are carried out there.
        Control::Verbosity
        | Control::Noop
        | Control::Tune
        | Control::Shutdown(_)
        | Control::RefreshCerts
        | Control::Dump(..)
        | Control::Watch(_)
        | Control::Quit => Response::Ok,
    }
}

fn lines(group: Stats, shared: &Shared) -> Option<Lines> {
    match group {
        Stats::General => Some(general::lines(shared)),
        Stats::Settings => Some(settings::lines(shared)),
        Stats::Sizes => Some(vec![("sizes_status".into(), "disabled".into())]),
        Stats::Conns => Some(shared.registry.lines(shared.clock.now())),
        Stats::Items => Some(items(shared)),
        // There are none, and nothing is taken for them.
        Stats::Slabs => Some(vec![
            ("active_slabs".into(), "0".into()),
            ("total_malloced".into(), "0".into()),
        ]),
        // Not lines of this form.
        Stats::Detail | Stats::Reset => None,
    }
}

/// All items are of one class, which is also what `lru_crawler metadump` says.
fn items(shared: &Shared) -> Lines {
    let store = shared.store.figures();
    let counts = shared.metrics.store_since_reset(store.counts);
    if store.estimated_items() == 0 {
        return Vec::new();
    }
    [
        ("number", store.estimated_items()),
        ("mem_requested", store.estimated_bytes()),
        ("evicted", counts.evicted),
        ("reclaimed", counts.reclaimed),
    ]
    .map(|(name, value)| (format!("items:1:{name}"), value.to_string()))
    .to_vec()
}
