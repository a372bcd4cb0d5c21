//! What holds for the node whatever bytes a client sends.
//!
//! Owns the properties, one function per target. Each takes any bytes and panics when a property does not hold; that
//! nothing panics by itself, hangs or takes much memory is the first of them. libFuzzer looks for such bytes (`run.sh`,
//! `make fuzz`), and an ordinary test ([`corpus`], `tests/replay.rs`) tries those that are known.
//!
//! ```text
//!   text meta binary login   bytes ─► parser ─► command ─► answer          parser, reading
//!   connection               bytes ─► connection ─► store ─► answers       conversation, reading
//! ```

mod conversation;
pub mod corpus;
mod parser;
mod reading;

pub use conversation::connection;
pub use parser::{binary, login, meta, text};

/// A function of this crate, and the name of its corpus.
pub struct Target {
    pub name: &'static str,
    pub check: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 5] = [
    Target {
        name: "text",
        check: text,
    },
    Target {
        name: "meta",
        check: meta,
    },
    Target {
        name: "binary",
        check: binary,
    },
    Target {
        name: "login",
        check: login,
    },
    Target {
        name: "connection",
        check: connection,
    },
];
