//! A node without listeners, whose clients live in the same thread.
//!
//! Owns what takes the place of the network: a socket pair for each client. Tests and fuzz targets hold many short
//! conversations with it, and everything that a worker does with a connection is done here too.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::RunError;
use crate::clock::Clock;
use crate::config::Config;
use crate::listener::{Address, Incoming};
use crate::server::Shared;
use crate::store::Store;
use crate::stream::Socket;
use crate::worker::Worker;

/// So often the client lets the node go on after each piece: to see it, to answer it, to wait for the next.
const TURNS: usize = 3;

/// A node of one worker, which runs when a client does.
pub struct Loopback {
    runtime: Runtime,
    worker: Rc<Worker>,
}

impl Loopback {
    /// Opens what `config` names. What it says about listening means nothing here.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, RunError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(RunError::Start)?;
        let shared = Arc::new(Shared::open(config, clock)?);
        Ok(Self {
            runtime,
            worker: Rc::new(Worker::new(shared, 0)),
        })
    }

    pub fn store(&self) -> &Store {
        self.worker.store()
    }

    /// Connects a client that sends `pieces`, each when the node has dealt with the one before, and then no more.
    /// Returns what it was answered until the node has closed the connection.
    pub fn converse(&self, pieces: &[&[u8]]) -> io::Result<Vec<u8>> {
        let (here, there) = StdUnixStream::pair()?;
        here.set_nonblocking(true)?;
        there.set_nonblocking(true)?;
        let incoming = Incoming {
            local: Address::Unix(format!("fd:{}", there.as_raw_fd()).into()),
            peer: Address::Unnamed,
            socket: Socket::Unix(there),
            tls: false,
        };
        let open = &self.worker.shared().metrics.connections_open;
        open.fetch_add(1, Ordering::Relaxed);
        self.runtime.block_on(async {
            let client = UnixStream::from_std(here)?;
            let (served, answers) =
                tokio::join!(self.worker.serve_one(incoming), talk(client, pieces));
            // To a node a client that goes away early is no failure.
            drop(served);
            answers
        })
    }
}

async fn talk(client: UnixStream, pieces: &[&[u8]]) -> io::Result<Vec<u8>> {
    let (mut from_node, mut to_node) = client.into_split();
    let sending = async move {
        for piece in pieces {
            if to_node.write_all(piece).await.is_err() {
                // The node wants no more.
                break;
            }
            for _ in 0..TURNS {
                yield_now().await;
            }
        }
    };
    let mut answers = Vec::new();
    let ((), received) = tokio::join!(sending, from_node.read_to_end(&mut answers));
    match received {
        Ok(_) => Ok(answers),
        // It closed without having read everything.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(answers),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::clock::SystemClock;
    use crate::config::flags::Flags;

    #[test]
    fn a_client_is_answered_in_order_whatever_pieces_its_requests_come_in() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let db_path = dir.path().to_str().expect("text");
        let flags = Flags::parse_from(["petracache", "-m", "8", "--db-path", db_path]);
        let config = Config::load(&flags, |_| None).expect("a good configuration");
        let node = Loopback::open(config, Arc::new(SystemClock)).expect("opens");
        let requests = b"set a 0 0 1\r\nx\r\nget a\r\nquit\r\nget a\r\n";
        let answers = b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n";
        assert_eq!(node.converse(&[requests]).expect("answers"), answers);
        let bytes: Vec<_> = requests.chunks(1).collect();
        assert_eq!(node.converse(&bytes).expect("answers"), answers);
        assert!(node.converse(&[]).expect("answers").is_empty());
    }
}
