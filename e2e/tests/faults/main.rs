//! Fault tests: what happens to the operator, the API server and the machines while something is under way. They are in the way
//! of everybody, so they run one after the other and after the cluster tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod api_server;
mod lab;
mod machines;
mod operator;
#[path = "../cluster/specs.rs"]
mod specs;
mod steady;
mod volumes;
