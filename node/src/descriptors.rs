//! File descriptors: one for each connection and each open file.
//!
//! Owns the process's limit on them. Running out would leave clients waiting to be accepted instead of being told
//! that there are too many.

use rustix::io;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Listeners, event queues, logs, locks and the admin endpoints' connections.
const OWN_DESCRIPTORS: u64 = 128;

/// Raises the limit so that `connections` and `files` fit, as far as the system allows, and returns how many
/// connections do.
pub(crate) fn make_room(connections: u64, files: u64) -> u64 {
    let others = files + OWN_DESCRIPTORS;
    let allowed = raise_limit(connections + others).unwrap_or_else(|error| {
        warn!(%error, "cannot raise the limit on open files");
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
    });
    let fitting = allowed.saturating_sub(others).clamp(1, connections);
    if fitting < connections {
        warn!(
            asked = connections,
            fitting, "fewer connections than asked for: raise the limit on open files (ulimit -n)"
        );
    }
    fitting
}

/// The limit afterwards, which is `wanted` unless the hard limit is lower.
fn raise_limit(wanted: u64) -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return Ok(current);
    }
    let raised = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(raised),
            maximum: limit.maximum,
        },
    )?;
    Ok(raised)
}
