//! What holds for the node whatever bytes a client sends.
//!
//! Owns the properties, one function per target. Each takes any bytes and panics when a property does not hold; that
//! nothing panics by itself, hangs or takes a gigabyte is the first of them. libFuzzer looks for such bytes (`run.sh`,
//! `make fuzz`), and an ordinary test (`tests/replay.rs`) tries those that are known ([`corpus`]).
//!
//! - To look longer: `make fuzz TARGET=connection SECONDS=3600`. Stable Rust is enough: the node is compiled once more, with
//!   libFuzzer's counters, and what it depends on is not (`rustc.sh`). What was found before is where the next run begins.
//! - When it finds something it shows the input as a line. That goes to `regressions/TARGET.txt`, under a remark that says what
//!   was wrong; `cargo test` tries it from then on.
//! - After a change that reaches more: `node/fuzz/run.sh --merge` writes `corpus/` again, as few inputs as reach everything.
//!
//! ```text
//!   text meta binary login   bytes ─► parser ─► command ─► answer          parser, reading
//!   connection disk          bytes ─► connection ─► store ─► answers       conversation, disk, reading
//! ```

mod conversation;
pub mod corpus;
mod disk;
mod parser;
mod reading;

pub use conversation::connection;
pub use disk::disk;
pub use parser::{binary, login, meta, text};

/// A function of this crate, and the name of its corpus.
pub struct Target {
    pub name: &'static str,
    pub check: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 6] = [
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
    Target {
        name: "disk",
        check: disk,
    },
];
