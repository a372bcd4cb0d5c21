//! What clients ask and what they are answered.
//!
//! Owns the commands and answers as types ([`request`], [`response`]) and their encodings: each encoding turns
//! bytes into the same [`request::Request`] and the same [`response::Response`] into bytes. Nothing here touches
//! a socket, the store or a clock, and input that is not complete yet is a value, not an error.
//!
//! ```text
//!   bytes ─► text ─► meta ─┬─► command: a request, and the reply that says how its answer is written
//!         └► binary ───────┘
//! ```

pub mod binary;
pub mod command;
pub mod meta;
pub mod reply;
pub mod request;
pub mod response;
pub mod text;
