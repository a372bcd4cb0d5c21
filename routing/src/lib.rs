//! What a mcrouter configuration means.
//!
//! ```text
//!  mcrouter.json ─► Config ─► check ─► problems                    what a router would suffer from
//!                     │
//!                     └─► Router ─► route(Servers, Request) ─► Reply
//!                           │             │
//!                           │             ├─ explain: servers that are only imagined
//!                           │             └─ a proxy: real ones
//!                           └─ ch3: which server of a pool has a key
//! ```
//!
//! What always holds:
//! - No I/O, no clock, no runtime and no Kubernetes: everything from outside comes in through [`Servers`].
//! - There is one evaluation of routes. What `explain` says is what a proxy built on this crate does.
//! - It agrees with 2,000 recorded requests through a real mcrouter (`tests/recorded.rs`).

pub mod ch3;
pub mod check;
pub mod config;
pub mod explain;
pub mod place;
pub mod reply;
pub mod request;
pub mod route;

pub use check::check;
pub use config::Config;
pub use explain::{Explanation, Question, explain};
pub use place::Place;
pub use reply::{Outcome, Parsed, Reply};
pub use request::{Operation, Request};
pub use route::{Destination, Router, Servers};
