//! `lru_crawler metadump` and `mgdump`: all keys, as a stream.
//!
//! Owns the thread that walks over the items, and memcached's lines about them. It is one at a time, and stops to work
//! while its client does not read.

use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use tracing::error;

use crate::protocol::meta;
use crate::protocol::reply::ShownCas;
use crate::protocol::request::Dump;
use crate::server::Shared;
use crate::store::Entry;
use crate::store::item::Expiry;
use crate::watch::UriEncoded;

/// What is sent at a time, and so many of these may wait.
const CHUNK: usize = 16 << 10;
const CHUNKS: usize = 4;

/// Whether somebody is listing the keys.
#[derive(Clone, Debug, Default)]
pub struct Dumping(Arc<AtomicBool>);

/// Somebody's turn to list the keys.
pub(crate) struct Turn(Dumping);

impl Dumping {
    /// Takes the turn, if it is nobody else's.
    pub(crate) fn begin(&self) -> Option<Turn> {
        let busy = self.0.swap(true, Ordering::AcqRel);
        (!busy).then(|| Turn(self.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// Starts to list all items, in chunks of lines. The walk ends when the receiver is dropped.
pub(crate) fn start(
    shared: &Arc<Shared>,
    dump: Dump,
    turn: Turn,
) -> io::Result<mpsc::Receiver<Bytes>> {
    let (chunks, receiver) = mpsc::channel(CHUNKS);
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name("dump".to_owned())
        .spawn(move || {
            walk(&shared, dump, &chunks);
            drop(turn);
        })?;
    Ok(receiver)
}

fn walk(shared: &Shared, dump: Dump, chunks: &mpsc::Sender<Bytes>) {
    let mut lines = BytesMut::with_capacity(CHUNK);
    let shown = match shared.config.cas {
        true => ShownCas::Cas,
        false => ShownCas::Zero,
    };
    let walked = shared.store.visit(
        || shared.clock.now(),
        |entry| {
            write_line(dump, entry, shown, &mut lines);
            lines.len() < CHUNK || chunks.blocking_send(lines.split().freeze()).is_ok()
        },
    );
    match walked {
        Ok(()) => {
            lines.extend_from_slice(match dump {
                Dump::Meta => b"END\r\n",
                Dump::Keys => b"EN\r\n",
            });
        }
        Err(error) => {
            error!(%error, "listing the keys has ended early");
            lines.extend_from_slice(b"SERVER_ERROR storage failed\r\n");
        }
    }
    // The client may have left.
    let _ = chunks.blocking_send(lines.freeze());
}

fn write_line(dump: Dump, entry: &Entry<'_>, cas: ShownCas, out: &mut BytesMut) {
    match dump {
        Dump::Meta => {
            let attributes = entry.attributes;
            let expires = match attributes.expiry {
                Expiry::NEVER => -1,
                expiry => i64::from(expiry.to_raw()),
            };
            // Writing into memory cannot fail.
            let _ = writeln!(
                out,
                "key={} exp={expires} la={} cas={} fetch={} cls=1 size={}",
                UriEncoded(entry.key),
                entry.accessed,
                cas.of(attributes.cas),
                if entry.fetched { "yes" } else { "no" },
                entry.size,
            );
        }
        Dump::Keys => {
            out.extend_from_slice(b"mg ");
            if entry.key.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
                meta::encode_key(entry.key, out);
                out.extend_from_slice(b" b\r\n");
            } else {
                out.extend_from_slice(entry.key);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
}
