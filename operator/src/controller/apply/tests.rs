//! Against an API server that knows one object, and refuses what was written over another version as the real one does.

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
            let is_dry_run = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("dryRun"));
            let bytes = request.into_body().collect().await.unwrap().to_bytes();
            let mut body: Value = serde_json::from_slice(&bytes).unwrap();
            let mut version = shared.lock().unwrap();
            let expected = body["metadata"]["resourceVersion"].as_str();
            let (code, body) = if expected.is_some_and(|expected| expected != version.to_string()) {
                let conflict = json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409});
                (StatusCode::CONFLICT, conflict)
            } else {
                *version += u64::from(!is_dry_run);
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
fn observed(object: Wanted) -> Observed {
    let content = object.body;
    let live = LiveObject {
        uid: "2".to_owned(),
        resource_version: Some(VERSION.to_string()),
        owner: Some(reference()),
        digest: content_digest(&content),
        content,
        deleting: false,
    };
    Observed {
        objects: [(object.key, live)].into(),
        ..Observed::default()
    }
}

async fn apply(applier: &Applier, data: &str) -> Result<Applied, ApplyError> {
    let owner = Owner {
        namespace: "default",
        reference: &reference(),
        may_remove_nodes: true,
    };
    applier
        .apply(owner, &[wanted(data)], &observed(wanted("old")))
        .await
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

/// A `StatefulSet` with an image, in the middle of a roll.
fn node_set(image: &str, partition: i32) -> Wanted {
    Wanted {
        key: ObjectKey {
            kind: Kind::StatefulSet,
            name: "shop".to_owned(),
        },
        body: json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "shop"},
            "spec": {
                "replicas": 3,
                "selector": {},
                "serviceName": "shop",
                "template": {"spec": {"containers": [{"name": "node", "image": image}]}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
            },
        }),
    }
}

#[tokio::test]
async fn a_template_that_was_held_back_is_let_go_on_afterwards() {
    let (client, _) = server();
    let (applier, reference) = (Applier::new(client), reference());
    let owner = Owner {
        namespace: "default",
        reference: &reference,
        may_remove_nodes: true,
    };
    // A roll has come to node 2 when its template is put right.
    let right = [node_set("right", 2)];
    let broken = observed(node_set("broken", 2));
    let first = applier.apply(owner, &right, &broken).await;
    assert_eq!(first.expect("written").written.len(), 1);
    let held_back = observed(node_set("right", 3));
    let second = applier.apply(owner, &right, &held_back).await;
    assert_eq!(
        second.expect("written").written.len(),
        1,
        "the roll begins anew with node 2"
    );
}
