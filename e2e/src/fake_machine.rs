//! A machine that is none, as a stand-in for many: it takes every pod that the operator's StatefulSets make, and says that it
//! runs and is ready. For tests of the operator with thousands of nodes, on an API server without kubelets.
//!
//! No scheduler is asked and no container, volume or network is there: what needs those cannot be tested with it.

use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use petra_operator::names::OURS;
use serde_json::{Value, json};

/// The machine's name.
const NAME: &str = "fake";

/// Kubernetes calls a machine dead that is silent for 40 seconds.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Pods that are started at the same time.
const CONCURRENCY: usize = 16;

/// Starts the machine and runs whatever is made, until it is dropped or the API server refuses something.
///
/// # Errors
///
/// What the API server has against it.
pub async fn run(client: Client) -> anyhow::Result<()> {
    register(&client).await?;
    tokio::try_join!(beat(client.clone()), start_pods(client))?;
    Ok(())
}

/// The machine as an object. It is cordoned, so that the scheduler leaves it alone.
async fn register(client: &Client) -> anyhow::Result<()> {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NAME, "labels": {"petracache.io/fake": "true"}},
        "spec": {"unschedulable": true},
    });
    let status = json!({"status": {
        "capacity": {"pods": "10000"}, "allocatable": {"pods": "10000"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Fake",
            "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
    }});
    let nodes = Api::<Node>::all(client.clone());
    let ours = PatchParams::apply("fake-machine").force();
    nodes.patch(NAME, &ours, &Patch::Apply(&node)).await?;
    let parameters = PatchParams::default();
    nodes
        .patch_status(NAME, &parameters, &Patch::Merge(&status))
        .await?;
    Ok(())
}

async fn beat(client: Client) -> anyhow::Result<()> {
    let leases = Api::<Lease>::namespaced(client, "kube-node-lease");
    let ours = PatchParams::apply("fake-machine").force();
    loop {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": NAME},
            "spec": {"holderIdentity": NAME, "leaseDurationSeconds": 40,
                "renewTime": format!("{:.6}", Timestamp::now())},
        });
        leases.patch(NAME, &ours, &Patch::Apply(&lease)).await?;
        tokio::time::sleep(HEARTBEAT).await;
    }
}

async fn start_pods(client: Client) -> anyhow::Result<()> {
    let pods = watcher(
        Api::<Pod>::all(client.clone()),
        watcher::Config::default().labels(OURS),
    );
    pods.default_backoff()
        .touched_objects()
        .map_err(anyhow::Error::from)
        .try_for_each_concurrent(CONCURRENCY, |pod| start(client.clone(), pod))
        .await
}

/// One step of a pod's life. The change that it makes announces the next one.
async fn start(client: Client, pod: Pod) -> anyhow::Result<()> {
    let pods = Api::<Pod>::namespaced(client, &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    let spec = pod.spec.as_ref();
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let done = if pod.metadata.deletion_timestamp.is_some() {
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete(&name, &at_once).await.map(drop)
    } else if spec.is_some_and(|spec| spec.node_name.is_none()) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NAME},
        });
        let parameters = PostParams::default();
        pods.create_subresource::<_, Value>("binding", &name, &parameters, &binding)
            .await
            .map(drop)
    } else if phase != Some("Running") {
        let parameters = PatchParams::default();
        pods.patch_status(&name, &parameters, &Patch::Merge(&running()))
            .await
            .map(drop)
    } else {
        return Ok(());
    };
    match done {
        // Gone, or changed by somebody else: then there is news of it.
        Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(()),
        other => Ok(other?),
    }
}

/// Nobody listens at its address: who connects is refused at once.
fn running() -> Value {
    let condition = |kind| json!({"type": kind, "status": "True", "lastTransitionTime": now()});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    json!({"status": {
        "phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "startTime": now(),
        "conditions": conditions,
    }})
}

fn now() -> String {
    format!("{:.0}", Timestamp::now())
}
