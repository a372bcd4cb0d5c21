//! The node from outside: real processes on free ports, real files, real signals.

mod admin;
mod client;
mod command_line;
mod crashes;
mod differential;
mod drain;
mod frames;
mod harness;
mod hostile;
mod limits;
mod mcrouter;
mod model;
mod restarts;
mod store;
mod transcripts;
