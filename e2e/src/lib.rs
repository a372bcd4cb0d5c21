//! What the cluster tests are made of, and the stand-in for mcrouter that they and the demo run.
//!
//! ```text
//!  e2e/test.sh ──► lab up ──► helm install ──► cargo test --test cluster
//!                                                 │
//!            tests/<boundary>.rs ── with_temp_ns ─┤  a namespace per test, dumped when the test fails
//!                                    eventually ──┤  wait on conditions, never for a time
//!                                     memcached ──┘  a plain client, from this machine to a pod's address
//! ```
//!
//! The tests talk to the cluster named by `PETRA_E2E_KUBECONFIG` and to no other: `KUBECONFIG` is not read, so that
//! no test can ever run against somebody's real cluster by accident.

pub mod authority;
pub mod dump;
pub mod fake_machine;
pub mod fixture;
pub mod memcached;
pub mod namespace;
pub mod operator_process;
pub mod stand_in;
pub mod wait;

pub use fixture::Fixture;
pub use namespace::with_temp_ns;
pub use wait::eventually;
