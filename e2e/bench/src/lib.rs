//! Measures servers that speak memcached's text protocol, side by side.
//!
//! ```text
//!  mix + distribution ──► request bytes ──► connection ──► socket ──► server, on its own core
//!     (what is asked)       (prebuilt)         │  ▲                        │ CPU, memory: /proc
//!                                              ▼  │                        │
//!                         expectations ◄──── scanner: every answer is checked
//!                                              │
//!                     worker (one thread, one poller, one core) ──► histogram ──► summary
//! ```
//!
//! The value of a key follows from the key, so a value that belongs to another key, is cut short or is damaged
//! ends the run. Nothing here knows how a server stores anything.

pub mod answer;
pub mod answering;
pub mod case;
pub mod command;
pub mod connection;
pub mod cores;
pub mod distribution;
pub mod keys;
pub mod lab;
pub mod load;
pub mod mix;
pub mod process;
pub mod report;
pub mod rounds;
pub mod server;
pub mod summary;
pub mod worker;
