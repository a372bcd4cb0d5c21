//! Against an API server that knows one `ConfigMap`, and refuses what was written over another version as the real one does.

use std::sync::{Arc, Mutex};

use http_body_util::BodyExt;
use hyper::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::object::Kind;

const VERSION: u64 = 7;

/// The server, and the version that its object has.
fn server() -> (Client, Arc<Mutex<u64>>) {
    let version = Arc::new(Mutex::new(VERSION));
    let shared = Arc::clone(&version);
    let answer = move |request: Request<Body>| {
        let shared = Arc::clone(&shared);
        async move {
            let bytes = request.into_body().collect().await.unwrap().to_bytes();
            let mut body: Value = serde_json::from_slice(&bytes).unwrap();
            let mut version = shared.lock().unwrap();
            let expected = body["metadata"]["resourceVersion"].as_str();
            let (code, body) = if expected.is_some_and(|expected| expected != version.to_string()) {
                let conflict = json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409});
                (StatusCode::CONFLICT, conflict)
            } else {
                *version += 1;
                body["metadata"]["resourceVersion"] = json!(version.to_string());
                (StatusCode::OK, body)
            };
            let body = Body::from(body.to_string().into_bytes());
            let response = Response::builder().status(code).body(body).unwrap();
            Ok::<_, std::convert::Infallible>(response)
        }
    };
    (Client::new(tower::service_fn(answer), "default"), version)
}

fn wanted(data: &str) -> Wanted {
    Wanted {
        key: ObjectKey {
            kind: Kind::ConfigMap,
            name: "shop".to_owned(),
        },
        body: json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "shop"},
            "data": {"config.json": data},
        }),
    }
}

fn reference() -> OwnerReference {
    OwnerReference {
        uid: "1".to_owned(),
        ..OwnerReference::default()
    }
}

/// What a watch shows: an object of our own in version [`VERSION`].
fn observed() -> Observed {
    let content = wanted("old").body;
    let live = LiveObject {
        uid: "2".to_owned(),
        resource_version: Some(VERSION.to_string()),
        owner: Some(reference()),
        digest: content_digest(&content),
        content,
        deleting: false,
    };
    Observed {
        objects: [(wanted("old").key, live)].into(),
        ..Observed::default()
    }
}

async fn apply(applier: &Applier, data: &str) -> Result<Applied, ApplyError> {
    let owner = Owner {
        namespace: "default",
        reference: &reference(),
        may_remove_nodes: true,
    };
    applier.apply(owner, &[wanted(data)], &observed()).await
}

#[tokio::test]
async fn what_another_operator_has_written_meanwhile_is_not_overwritten() {
    let (client, version) = server();
    *version.lock().unwrap() += 1;
    let result = apply(&Applier::new(client), "new").await;
    assert!(
        matches!(result, Err(ApplyError::Overtaken { .. })),
        "{result:?}"
    );
    assert_eq!(*version.lock().unwrap(), VERSION + 1, "nothing was written");
}

#[tokio::test]
async fn what_was_written_here_may_be_written_over_before_the_watch_shows_it() {
    let (client, version) = server();
    let applier = Applier::new(client);
    apply(&applier, "new").await.expect("the first write");
    apply(&applier, "newer").await.expect("the second write");
    assert_eq!(*version.lock().unwrap(), VERSION + 2);
}
