//! Every connection and listener, by its file descriptor.
//!
//! Owns what `stats conns` shows. A connection notes what it does in a few words that it alone writes; the list is
//! locked only when a connection comes or goes, or somebody asks.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::UnixSeconds;
use crate::listener::Address;

/// What a connection does, in memcached's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Activity {
    /// Waits for its client's next command.
    Read,
    /// Waits for the rest of a value.
    ReadValue,
    /// Carries out commands.
    Execute,
    /// Shows what others do.
    Watch,
}

impl Activity {
    const NAMES: [&str; 4] = ["conn_read", "conn_nread", "conn_parse_cmd", "conn_watch"];
}

/// A connection as others see it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) fd: RawFd,
    pub(crate) peer: Address,
    pub(crate) local: Address,
    activity: AtomicU8,
    last_command: AtomicU32,
    idle: AtomicBool,
}

impl Listed {
    pub(crate) fn new(fd: RawFd, peer: Address, local: Address, now: UnixSeconds) -> Self {
        Self {
            fd,
            peer,
            local,
            activity: AtomicU8::new(Activity::Read as u8),
            last_command: AtomicU32::new(now.0),
            idle: AtomicBool::new(false),
        }
    }

    pub(crate) fn does(&self, activity: Activity) {
        self.activity.store(activity as u8, Ordering::Relaxed);
    }

    /// Notes that a command has come.
    pub(crate) fn executes(&self, now: UnixSeconds) {
        self.does(Activity::Execute);
        self.last_command.store(now.0, Ordering::Relaxed);
    }

    /// Notes that the connection is closed because nothing has come.
    pub(crate) fn ends_idle(&self) {
        self.idle.store(true, Ordering::Relaxed);
    }

    pub(crate) fn ended_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    fn lines(&self, now: UnixSeconds) -> [(String, String); 4] {
        let activity = usize::from(self.activity.load(Ordering::Relaxed));
        let silent = now
            .0
            .saturating_sub(self.last_command.load(Ordering::Relaxed));
        [
            ("addr", self.peer.to_string()),
            ("listen_addr", self.local.to_string()),
            ("state", Activity::NAMES[activity].to_owned()),
            ("secs_since_last_cmd", silent.to_string()),
        ]
        .map(|(name, value)| (format!("{}:{name}", self.fd), value))
    }
}

/// All that are open.
#[derive(Debug, Default)]
pub struct Registry {
    listeners: Mutex<Vec<(RawFd, Address)>>,
    connections: Mutex<BTreeMap<RawFd, Arc<Listed>>>,
    /// Where datagrams come to, once per worker.
    datagrams: Mutex<Vec<Arc<Listed>>>,
}

impl Registry {
    pub(crate) fn add_listener(&self, fd: RawFd, address: Address) {
        lock(&self.listeners).push((fd, address));
    }

    pub(crate) fn add_datagrams(&self, socket: Arc<Listed>) {
        lock(&self.datagrams).push(socket);
    }

    pub(crate) fn add(&self, connection: Arc<Listed>) {
        lock(&self.connections).insert(connection.fd, connection);
    }

    /// The next connection may have got the same descriptor already.
    pub(crate) fn remove(&self, connection: &Arc<Listed>) {
        let mut connections = lock(&self.connections);
        let listed = connections.get(&connection.fd);
        if listed.is_some_and(|listed| Arc::ptr_eq(listed, connection)) {
            connections.remove(&connection.fd);
        }
    }

    /// Where clients are served.
    pub(crate) fn listeners(&self) -> Vec<Address> {
        let listeners = lock(&self.listeners);
        listeners
            .iter()
            .map(|(_, address)| address.clone())
            .collect()
    }

    /// Where datagrams come to.
    pub(crate) fn datagram_places(&self) -> Vec<Address> {
        let sockets = lock(&self.datagrams);
        let mut places: Vec<_> = sockets.iter().map(|socket| socket.local.clone()).collect();
        places.dedup();
        places
    }

    /// Names and values for `stats conns`.
    pub(crate) fn lines(&self, now: UnixSeconds) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        for (fd, address) in lock(&self.listeners).iter() {
            lines.push((format!("{fd}:addr"), address.to_string()));
            lines.push((format!("{fd}:state"), "conn_listening".to_owned()));
            lines.push((format!("{fd}:secs_since_last_cmd"), "0".to_owned()));
        }
        for socket in lock(&self.datagrams).iter() {
            lines.push((format!("{}:UDP", socket.fd), "UDP".to_owned()));
            // As long as nothing comes, it has no peer.
            let [addr, _, state, silent] = socket.lines(now);
            lines.extend([addr, state, silent]);
        }
        // Written without the lock: there may be many.
        let connections: Vec<_> = lock(&self.connections).values().cloned().collect();
        lines.extend(
            connections
                .iter()
                .flat_map(|connection| connection.lines(now)),
        );
        lines
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
