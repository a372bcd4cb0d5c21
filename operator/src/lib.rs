//! Turns a `PetraCluster` into `StatefulSet`s, Services and mcrouter configurations, and keeps them true.
//!
//! ```text
//!  PetraCluster ─► dereference ─► validate ─► layout, build ─► apply ─► status
//!   crd             what there is   checked     objects, and     client,  conditions
//!                   (caches, TCP    spec        mcrouter.json    HTTP to  and one patch
//!                   to routers)     (pure)      (pure)           nodes    (pure)
//!                                      │            │
//!                                      └── render, explain: the same steps on a file, without a cluster
//! ```
//!
//! What always holds:
//! - Everything that is decided is decided by functions without a client, a socket or a clock.
//! - Nothing is written when nothing changed, not even a patch that would change nothing.
//! - No configuration names a server that does not exist; a pod that is merely unready changes none.
//! - No configuration gives a node keys of which it may have an old value: it was told to drop them, and has confirmed it.
//! - Nothing in a pod template depends on the routers' configuration, on sizes or on the operator's version.
//! - What cannot be built is reported and touches nothing that runs.
//! - Of several operators one writes. What it knows is in the API server, so that another goes on where it stopped.

pub mod admin;
pub mod api_requests;
pub mod check;
pub mod controller;
pub mod crd;
pub mod explain;
pub mod input;
pub mod leader;
pub mod metrics;
pub mod names;
pub mod object;
pub mod render;
