//! Client: the nodes themselves, over HTTP. Tells them their place in the pool, and remembers who has confirmed what.
//!
//! A node that has confirmed a place serves nothing any more that was another node's, and will not after a crash either. So
//! a confirmation is good for as long as the pod is this very pod; another one may have another volume. Nothing of this
//! needs to be kept when the operator ends: to be told the same again changes nothing.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
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

use super::plan::Untold;
use crate::names::ADMIN_PORT;

/// A node answers when its disk has the place. One that takes longer is told again in a second.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Longest refusal that is read.
const MAX_ANSWER: usize = 1024;

/// Tells nodes where they stand.
#[derive(Default)]
pub struct Places {
    /// By namespace and name of the pod: which pod that was, and what it has confirmed.
    confirmed: Mutex<HashMap<(String, String), (String, Place)>>,
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

impl Places {
    /// What this very pod has confirmed last.
    pub fn confirmed(&self, pod: &Pod) -> Option<Place> {
        let key = (pod.namespace()?, pod.name_any());
        let confirmed = self.lock();
        let (uid, place) = confirmed.get(&key)?;
        (Some(uid) == pod.metadata.uid.as_ref()).then(|| place.clone())
    }

    /// Tells all of them at the same time. One that cannot be told now is only late: it is logged, shows in the status while
    /// somebody waits for it, and is tried again.
    pub async fn tell_all(&self, namespace: &str, nodes: &[Untold]) {
        join_all(nodes.iter().map(|node| self.tell(namespace, node))).await;
    }

    async fn tell(&self, namespace: &str, node: &Untold) {
        let told = tokio::time::timeout(TIMEOUT, put(&node.address, ADMIN_PORT, &node.place));
        match told.await.unwrap_or(Err(TellError::TooLate)) {
            Ok(()) => {
                tracing::info!(namespace, pod = node.pod, place = ?node.place, "a node knows its place");
                let key = (namespace.to_owned(), node.pod.clone());
                let entry = (node.uid.clone(), node.place.clone());
                self.lock().insert(key, entry);
            }
            Err(error) => {
                tracing::warn!(namespace, pod = node.pod, %error, "a node cannot be told its place");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), (String, Place)>> {
        self.confirmed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
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
        places.lock().insert(key, ("this".to_owned(), place()));
        assert_eq!(places.confirmed(&pod("this")), Some(place()));
        assert_eq!(places.confirmed(&pod("another")), None);
    }
}
