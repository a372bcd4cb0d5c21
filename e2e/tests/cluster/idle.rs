//! An idle hour in miniature: while a cluster is settled the operator writes nothing to the API server.

use std::time::Duration;

use petra_e2e::with_temp_ns;
use serde_json::Value;

use crate::specs;

/// Longer than anything that the operator repeats while it waits for something.
const WHILE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_settled_cluster_causes_no_writes() {
    with_temp_ns("idle", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
        // The test's only wait for time: that nothing happens can only be seen by waiting. What is in flight when the
        // cluster becomes Ready, such as its last Event, may still arrive in the first second.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = writes(fixture.namespace());
        assert!(
            !before.is_empty(),
            "the audit log must show what the operator wrote to build the cluster"
        );
        tokio::time::sleep(WHILE).await;
        let after = writes(fixture.namespace());
        assert_eq!(
            after[before.len()..],
            Vec::<String>::new(),
            "writes while idle"
        );
    })
    .await;
}

/// Every writing request of the operator in a namespace, from the API server's audit log.
fn writes(namespace: &str) -> Vec<String> {
    let path = std::env::var("PETRA_E2E_AUDIT").expect("PETRA_E2E_AUDIT: the audit log");
    let log = std::fs::read_to_string(&path).expect(&path);
    let events = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter(|event| event["stage"] == "ResponseComplete")
        .filter(|event| {
            event["user"]["username"]
                .as_str()
                .is_some_and(|user| user.starts_with("system:serviceaccount:petracache-system:"))
        })
        .filter(|event| event["objectRef"]["namespace"] == namespace)
        .filter(|event| {
            ["create", "update", "patch", "delete"]
                .iter()
                .any(|verb| event["verb"] == *verb)
        })
        .map(|event| format!("{} {}", event["verb"], event["requestURI"]))
        .collect()
}
