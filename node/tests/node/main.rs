//! The node from outside: real processes on free ports, real files, real signals.

mod access;
mod admin;
mod client;
mod command_line;
mod crashes;
mod differential;
mod disk_full;
mod drain;
mod frames;
mod harness;
mod hostile;
mod limits;
mod listening;
mod mcrouter;
mod model;
mod places;
mod process;
mod restarts;
mod store;
mod tls;
mod transcripts;
mod watching;
