//! Routers and nodes: keys are where `explain` says, and `render` says without a cluster what the cluster has.

use std::process::Command;

use anyhow::{Context, ensure};
use petra_e2e::{Fixture, with_temp_ns};

use crate::specs;

#[tokio::test]
async fn keys_written_through_the_router_are_where_explain_says() {
    with_temp_ns("explain", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 3)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", 60).await;

        let config = fixture.config_text("shop", "main").await.unwrap();
        let mut nodes_with_keys = std::collections::BTreeSet::new();
        for number in 0..60 {
            let key = format!("key-{number}");
            let owner = Fixture::owner(&config, &key).unwrap();
            for ordinal in 0..3 {
                let pod = fixture.names("shop", "main").pod(ordinal);
                let value = fixture
                    .connect(&pod)
                    .await
                    .unwrap()
                    .get(&key)
                    .await
                    .unwrap();
                let expected = (pod == owner).then(|| format!("value-{number}"));
                assert_eq!(
                    value, expected,
                    "{key} on {pod}, explained to be on {owner}"
                );
            }
            nodes_with_keys.insert(owner);
        }
        assert_eq!(nodes_with_keys.len(), 3, "keys are spread over all nodes");
    })
    .await;
}

#[tokio::test]
async fn render_prints_without_a_cluster_what_the_cluster_has() {
    with_temp_ns("render", |fixture| async move {
        let spec = specs::one_region("shop", 2).replacen(
            "{name: shop}",
            &format!("{{name: shop, namespace: {}}}", fixture.namespace()),
            1,
        );
        fixture.apply(&spec).await.unwrap();
        fixture.ready("shop").await;

        for object in render(&spec).unwrap() {
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            let name = object["metadata"]["name"].as_str().unwrap();
            let shown = fixture
                .kubectl(&["get", &kind, name, "-o", "json"])
                .unwrap();
            assert!(
                shown.status.success(),
                "{kind} {name} is not in the cluster"
            );
            let live: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
            for part in ["spec", "data"] {
                let difference = missing(&object[part], &live[part], part);
                assert_eq!(difference, Vec::<String>::new(), "{kind} {name}");
            }
        }
    })
    .await;
}

/// A node that is down is not an error to the application: its keys go to another node of the same region.
#[tokio::test]
async fn a_node_that_is_down_costs_no_errors() {
    with_temp_ns("node-down", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 3)).await.unwrap();
        fixture.ready("shop").await;
        fixture.take_nodes_away("shop", "main", 2).await.unwrap();

        // Every key can be written and read, those of the lost node too.
        fixture.write("shop", "main", 60).await;
        fixture.serves_all("shop", "main", 60).await;
    })
    .await;
}

/// The objects that `petra-operator render` prints.
fn render(spec: &str) -> anyhow::Result<Vec<serde_json::Value>> {
    let file = std::env::temp_dir().join(format!("petra-render-{}.yaml", std::process::id()));
    std::fs::write(&file, spec)?;
    let program =
        std::env::var("PETRA_OPERATOR").context("PETRA_OPERATOR: the operator's binary")?;
    let output = Command::new(&program)
        .args(["render", "-o", "json", "-f"])
        .arg(&file)
        .args(["--node-image", "docker.io/petracache/node:dev"])
        .args([
            "--router-image",
            "docker.io/petracache/mcrouter-stand-in:dev",
        ])
        .output()
        .with_context(|| format!("running {program}"))?;
    std::fs::remove_file(&file)?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let list: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok(list["items"].as_array().context("a list")?.clone())
}

/// Paths at which `wanted` has something that `live` has not: what the API server adds by default is no difference.
fn missing(wanted: &serde_json::Value, live: &serde_json::Value, path: &str) -> Vec<String> {
    use serde_json::Value;
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted
            .iter()
            .flat_map(|(key, value)| {
                missing(
                    value,
                    live.get(key).unwrap_or(&Value::Null),
                    &format!("{path}.{key}"),
                )
            })
            .collect(),
        (Value::Array(wanted), Value::Array(live)) if wanted.len() == live.len() => wanted
            .iter()
            .zip(live)
            .enumerate()
            .flat_map(|(index, (wanted, live))| missing(wanted, live, &format!("{path}[{index}]")))
            .collect(),
        (wanted, live) if wanted == live => Vec::new(),
        (wanted, live) => vec![format!("{path}: rendered {wanted}, live {live}")],
    }
}
