//! Client: the nodes themselves, over HTTP. Tells them their place in the pool, and remembers who has confirmed what.
//!
//! A node that has confirmed a place serves nothing any more that was another node's, and will not after a crash either. So
//! a confirmation is good for as long as the pod is this very pod; another one may have another volume. Nothing of this
//! needs to be kept when the operator ends: to be told the same again changes nothing.
//!
//! Nobody waits for nodes: they are told beside the reconciliations, and what they have confirmed is seen by the next one. A node
//! that is ready and cannot be reached costs one of many connections for a second, ever more seldom, and no cluster any time.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use petra_routing::Place;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::plan::Untold;
use crate::names::ADMIN_PORT;

/// A node answers when its disk has the place. One that takes longer is told again in a second.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Longest refusal that is read.
const MAX_ANSWER: usize = 1024;

/// Nodes that are told at the same time. Whoever finds no room is told when it is looked at next.
const MAX_AT_ONCE: usize = 128;

/// Pause after the first attempt that failed; each further one doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// Longest pause between two attempts.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Tells nodes where they stand.
#[derive(Clone)]
pub struct Places {
    memory: Arc<Mutex<HashMap<Name, Node>>>,
    room: Arc<Semaphore>,
    port: i32,
}

/// Namespace and name of a pod.
type Name = (String, String);

/// What is known of the pod of a name.
struct Node {
    /// Which pod that is.
    uid: String,
    confirmed: Option<Place>,
    attempts: Attempts,
}

/// How it goes with telling a node.
#[derive(Clone, Copy, Default)]
enum Attempts {
    #[default]
    None,
    UnderWay,
    Failed {
        times: u32,
        at: Instant,
    },
}

/// Why a node has not confirmed its place.
#[derive(Debug, thiserror::Error)]
enum TellError {
    #[error("it cannot be reached: {0}")]
    Connect(#[from] io::Error),
    #[error("it does not answer: {0}")]
    Http(#[from] hyper::Error),
    #[error("it took longer than {TIMEOUT:?}")]
    TooLate,
    #[error("it refuses ({status}): {reason}")]
    Refused { status: StatusCode, reason: String },
    #[error("the request cannot be made: {0}")]
    Request(String),
}

impl Default for Places {
    fn default() -> Self {
        Self {
            memory: Arc::default(),
            room: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            port: ADMIN_PORT,
        }
    }
}

impl Places {
    /// What this very pod has confirmed last.
    pub fn confirmed(&self, pod: &Pod) -> Option<Place> {
        let key = (pod.namespace()?, pod.name_any());
        let memory = self.lock();
        let node = memory.get(&key)?;
        let is_this_one = Some(&node.uid) == pod.metadata.uid.as_ref();
        node.confirmed.clone().filter(|_| is_this_one)
    }

    /// Begins to tell all of them at the same time, and does not wait for it. One that cannot be told now is only late: it is
    /// logged, shows in the status while somebody waits for it, and is tried again when it is looked at again.
    pub fn tell_all(&self, namespace: &str, nodes: &[Untold]) {
        for node in nodes {
            let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
                return;
            };
            let name = (namespace.to_owned(), node.pod.clone());
            if let Some(failed) = self.begin(&name, &node.uid, Instant::now()) {
                let (places, node) = (self.clone(), node.clone());
                tokio::spawn(async move { places.tell(name, node, failed, room).await });
            }
        }
    }

    /// How often it failed before, if it is time for an attempt, which is under way then.
    fn begin(&self, name: &Name, uid: &str, now: Instant) -> Option<u32> {
        let mut memory = self.lock();
        let node = memory.entry(name.clone()).or_insert_with(|| Node::new(uid));
        if node.uid != uid {
            *node = Node::new(uid);
        }
        let failed = match node.attempts {
            Attempts::None => 0,
            Attempts::UnderWay => return None,
            Attempts::Failed { times, at } if now < at + pause(times) => return None,
            Attempts::Failed { times, .. } => times,
        };
        node.attempts = Attempts::UnderWay;
        Some(failed)
    }

    async fn tell(self, name: Name, node: Untold, failed: u32, _room: OwnedSemaphorePermit) {
        let told = tokio::time::timeout(TIMEOUT, put(&node.address, self.port, &node.place));
        let told = told.await.unwrap_or(Err(TellError::TooLate));
        let (namespace, pod) = (&name.0, &name.1);
        match &told {
            Ok(()) => tracing::info!(namespace, pod, place = ?node.place, "a node knows its place"),
            Err(error) => tracing::warn!(namespace, pod, %error, "a node cannot be told its place"),
        }
        let mut memory = self.lock();
        // Another pod may have taken the name.
        let Some(known) = memory.get_mut(&name).filter(|known| known.uid == node.uid) else {
            return;
        };
        match told {
            Ok(()) => {
                known.confirmed = Some(node.place);
                known.attempts = Attempts::None;
            }
            Err(_) => {
                let (times, at) = (failed + 1, Instant::now());
                known.attempts = Attempts::Failed { times, at };
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Node>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    fn new(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            confirmed: None,
            attempts: Attempts::None,
        }
    }
}

/// The pause after so many attempts that failed.
fn pause(failed: u32) -> Duration {
    FIRST_RETRY
        .saturating_mul(1 << (failed.clamp(1, 10) - 1))
        .min(LAST_RETRY)
}

/// Returns when the node at `address` has confirmed `place`.
async fn put(address: &str, port: i32, place: &Place) -> Result<(), TellError> {
    let port = u16::try_from(port).map_err(|error| TellError::Request(error.to_string()))?;
    let body = serde_json::to_vec(place).map_err(|error| TellError::Request(error.to_string()))?;
    let request = Request::put("/place")
        .header(HOST, address)
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| TellError::Request(error.to_string()))?;
    let stream = TcpStream::connect((address, port)).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends when the sender does; what goes wrong with it shows there.
    tokio::spawn(connection);
    confirmation(sender.send_request(request).await?).await
}

async fn confirmation(response: Response<Incoming>) -> Result<(), TellError> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let body = Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await;
    let reason = body.map_or_else(
        |error| error.to_string(),
        |body| String::from_utf8_lossy(&body.to_bytes()).trim().to_owned(),
    );
    Err(TellError::Refused { status, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn place() -> Place {
        Place {
            index: 1,
            size: 3,
            hash: Default::default(),
            salt: String::new(),
            epoch: Some(7),
        }
    }

    /// A node that gives one answer. What it was asked.
    async fn node(answer: &'static str) -> (i32, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1024];
            let mut length = 0;
            while !request[..length].ends_with(b"}") {
                length += stream.read(&mut request[length..]).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(request[..length].to_vec()).unwrap()
        });
        (i32::from(port), asked)
    }

    #[tokio::test]
    async fn a_node_is_told_its_place_and_its_confirmation_is_believed() {
        let (port, asked) = node("HTTP/1.1 204 No Content\r\n\r\n").await;
        put("127.0.0.1", port, &place()).await.unwrap();
        let asked = asked.await.unwrap();
        assert!(asked.starts_with("PUT /place HTTP/1.1\r\n"), "{asked}");
        let body = asked.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(serde_json::from_str::<Place>(body).unwrap(), place());
    }

    #[tokio::test]
    async fn a_refusal_says_why_and_a_connection_that_ends_is_no_confirmation() {
        let refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 10\r\n\r\ndisk full\n";
        let (port, _asked) = node(refusal).await;
        let error = put("127.0.0.1", port, &place()).await.unwrap_err();
        assert!(error.to_string().ends_with("disk full"), "{error}");
        let (port, _asked) = node("").await;
        assert!(put("127.0.0.1", port, &place()).await.is_err());
    }

    #[tokio::test]
    async fn only_the_pod_that_has_confirmed_is_taken_to_have_confirmed() {
        let pod = |uid: &str| -> Pod {
            let metadata = serde_json::json!({"name": "c-r-1", "namespace": "n", "uid": uid});
            serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap()
        };
        let places = Places::default();
        let key = ("n".to_owned(), "c-r-1".to_owned());
        let this = Node {
            confirmed: Some(place()),
            ..Node::new("this")
        };
        places.lock().insert(key, this);
        assert_eq!(places.confirmed(&pod("this")), Some(place()));
        assert_eq!(places.confirmed(&pod("another")), None);
    }

    fn untold(number: usize, address: &str) -> Untold {
        Untold {
            pod: format!("pod-{number}"),
            uid: number.to_string(),
            address: address.to_owned(),
            place: place(),
        }
    }

    async fn eventually(is_so: impl Fn() -> bool) {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn nodes_that_do_not_answer_hold_up_nobody() {
        let silent = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let places = Places {
            port: i32::from(port),
            ..Places::default()
        };
        let many: Vec<Untold> = (0..MAX_AT_ONCE - 1)
            .map(|number| untold(number, "127.0.0.2"))
            .collect();
        places.tell_all("n", &many);
        assert_eq!(places.room.available_permits(), 1);
        // They are under way, and take no more room when they are looked at again.
        places.tell_all("n", &many);
        assert_eq!(places.room.available_permits(), 1);

        let good = TcpListener::bind(("127.0.0.3", port)).await.unwrap();
        places.tell_all("other", &[untold(0, "127.0.0.3")]);
        let (mut stream, _) = good.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            stream.read_buf(&mut request).await.unwrap();
        }
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .await
            .unwrap();
        let name = ("other".to_owned(), "pod-0".to_owned());
        let confirmed = || places.lock()[&name].confirmed.clone();
        eventually(|| confirmed() == Some(place())).await;
        assert_eq!(places.room.available_permits(), 1, "the others still are");
        eventually(|| places.room.available_permits() == MAX_AT_ONCE).await;
    }

    #[tokio::test]
    async fn a_node_that_cannot_be_told_is_tried_ever_more_seldom_until_it_is_another_one() {
        let places = Places::default();
        let name = ("n".to_owned(), "pod".to_owned());
        let start = Instant::now();
        assert_eq!(places.begin(&name, "a", start), Some(0));
        assert_eq!(places.begin(&name, "a", start + LAST_RETRY), None);
        let fail = |times| {
            let attempts = Attempts::Failed { times, at: start };
            places.lock().get_mut(&name).unwrap().attempts = attempts;
        };
        for (times, milliseconds) in [(1, 500), (2, 1000), (5, 8000), (50, 30_000)] {
            fail(times);
            let then = start + Duration::from_millis(milliseconds);
            let before = then.checked_sub(Duration::from_millis(1)).unwrap();
            assert_eq!(places.begin(&name, "a", before), None, "{times}");
            assert_eq!(places.begin(&name, "a", then), Some(times));
        }
        fail(50);
        assert_eq!(places.begin(&name, "b", start), Some(0));
    }
}
