//! Fault tests: what happens to the operator itself while it works. They stop it for everybody, so they run one after the
//! other and after the cluster tests.
#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod operator;
#[path = "../cluster/specs.rs"]
mod specs;
