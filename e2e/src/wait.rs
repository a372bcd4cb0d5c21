//! Waiting for a condition. Knows nothing of what is waited for.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

/// How long a cluster on a busy machine may take for one step before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often a condition that cannot be watched is looked at again.
const INTERVAL: Duration = Duration::from_millis(100);

/// Tries `attempt` until it answers `Ok`.
///
/// # Panics
///
/// When [`PATIENCE`] is over, with `what` and the last reason that `attempt` gave.
pub async fn eventually<T, E, F>(what: &str, attempt: impl Fn() -> F) -> T
where
    E: Display,
    F: Future<Output = Result<T, E>>,
{
    let start = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(reason) if start.elapsed() > PATIENCE => {
                panic!("{what}: not within {PATIENCE:?}: {reason:#}")
            }
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    }
}
