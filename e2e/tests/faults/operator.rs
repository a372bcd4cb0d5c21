//! The operator is killed, or runs twice.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use petra_e2e::fixture::{is_ready, phase, pod_is_ready};
use petra_e2e::{Fixture, eventually, with_temp_ns};
use petra_operator::crd::{PetraCluster, ScalingPhase};
use petra_routing::Config;
use serde_json::json;

use crate::specs;
use crate::steady::{Incarnations, Steps};

const NAMESPACE: &str = "petracache-system";
const KEYS: usize = 60;

/// Up and down again, and in each phase of both the leader is killed: the end is the same, and the way is straight.
#[tokio::test]
async fn an_operator_that_is_killed_in_any_phase_of_a_scale_is_followed_by_one_that_goes_on() {
    use ScalingPhase::{
        Clearing, Draining, Mirroring, Provisioning, Purging, Shrinking, Switching, Turning,
        Warming,
    };
    with_temp_ns("killed", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", KEYS).await;
        let up = [
            Provisioning,
            Mirroring,
            Clearing,
            Warming,
            Turning,
            Switching,
            Purging,
        ];
        let down = [
            Mirroring, Clearing, Warming, Turning, Switching, Draining, Shrinking, Purging,
        ];
        for (from, to, phases) in [(2, 3, &up[..]), (3, 2, &down[..])] {
            let steps = Steps::watch(&fixture);
            let replicas = json!({"spec": {"replicas": to}});
            fixture.patch("shop", replicas).await.unwrap();
            let mut killed_in = BTreeSet::new();
            while let Some(phase) = next_phase(&fixture, &killed_in, to).await {
                kill_leader(&fixture).await;
                killed_in.insert(phase);
            }
            println!("from {from} to {to} nodes: killed in {killed_in:?}");
            assert_eq!(killed_in, phases.iter().copied().collect());
            settled(&fixture, to).await;
            // What nobody asked for within the window may be missed, but is no other value.
            fixture.hits("shop", "main", KEYS).await.unwrap();
            fixture.write("shop", "main", KEYS).await;
            fixture.serves_all("shop", "main", KEYS).await;
            steps.went_straight(from, to);
        }
    })
    .await;
}

/// The leader is frozen while nodes are told to forget, and wakes up when another one has gone on: it does not know that it no
/// longer leads, and has seen nothing of what happened. Nothing that it does then counts.
#[tokio::test]
async fn a_leader_that_slept_while_another_one_scaled_changes_nothing_when_it_wakes_up() {
    with_temp_ns("frozen", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", KEYS).await;
        for (from, to, asleep, awake) in [
            (2, 3, ScalingPhase::Clearing, ScalingPhase::Warming),
            (3, 2, ScalingPhase::Mirroring, ScalingPhase::Turning),
        ] {
            let window = if to == 3 { "20s" } else { "5s" };
            let patch = json!({"spec": {"replicas": to, "scaling": {"window": window}}});
            let steps = Steps::watch(&fixture);
            fixture.patch("shop", patch).await.unwrap();
            let in_phase = move |wanted: ScalingPhase| {
                move |cluster: Option<&PetraCluster>| {
                    phase(cluster).is_some_and(|now| now >= wanted)
                }
            };
            fixture
                .wait("it goes to sleep", "shop", in_phase(asleep))
                .await;
            let first = eventually("somebody leads", || leader(&fixture)).await;
            let frozen = Frozen::new(&first);
            eventually("another one leads", || async {
                let holder = leader(&fixture).await?;
                ensure!(holder != first, "{holder} still leads");
                anyhow::Ok(())
            })
            .await;
            fixture
                .wait("another one goes on", "shop", in_phase(awake))
                .await;
            if awake == ScalingPhase::Warming {
                fixture.wait_for_config("shop", "main").await;
                fixture.serves_all("shop", "main", KEYS).await;
            }
            drop(frozen);
            settled(&fixture, to).await;
            steps.went_straight(from, to);
            if to == 3 {
                fixture.serves_all("shop", "main", KEYS).await;
            }
            // What nobody asked for within the window may be missed, but is no other value.
            fixture.hits("shop", "main", KEYS).await.unwrap();
            fixture.write("shop", "main", KEYS).await;
        }
    })
    .await;
}

/// A pod template changes, and the leader is killed while a node goes, while the next one comes, and before the roll goes on:
/// every node is restarted once, and clients notice nothing.
#[tokio::test]
async fn an_operator_that_is_killed_in_any_phase_of_a_roll_changes_nothing_about_it() {
    with_temp_ns("killed-roll", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", KEYS).await;
        for (round, node) in ["shop-main-1", "shop-main-0"].into_iter().enumerate() {
            let pods = fixture.api::<Pod>();
            let old = pods.get(node).await.unwrap().metadata.uid;
            let incarnations = Incarnations::watch(&fixture);
            let cpu = format!("{}m", 11 + round);
            let requests = json!({"spec": {"node": {"resources": {"requests": {"cpu": cpu}}}}});
            fixture.patch("shop", requests).await.unwrap();
            let goes =
                |pod: Option<&Pod>| pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
            let comes = |pod: Option<&Pod>| pod.is_some_and(|pod| pod.metadata.uid != old);
            let is_back = |pod: Option<&Pod>| comes(pod) && pod.is_some_and(pod_is_ready);
            fixture.wait("a node goes", node, goes).await;
            kill_leader(&fixture).await;
            fixture.wait("another comes", node, comes).await;
            kill_leader(&fixture).await;
            fixture.wait("it is back", node, is_back).await;
            kill_leader(&fixture).await;
            let rolled =
                |cluster: Option<&PetraCluster>| is_ready(cluster) && incarnations.count() >= 4;
            fixture.wait("the roll ends", "shop", rolled).await;
            assert_eq!(incarnations.count(), 4, "two nodes, each restarted once");
            fixture.serves_all("shop", "main", KEYS).await;
        }
    })
    .await;
}

/// Two operators run, one of them writes; when it goes in peace the other takes over.
#[tokio::test]
async fn of_two_operators_one_leads_and_hands_over_when_it_ends() {
    with_temp_ns("two-operators", |fixture| async move {
        let first = eventually("somebody leads", || leader(&fixture)).await;
        let operators = operator_pods(&fixture).await.unwrap();
        assert!(operators.len() >= 2, "{} operators run", operators.len());
        let api: Api<Pod> = fixture.api_in(NAMESPACE);
        api.delete(&first, &DeleteParams::default()).await.unwrap();
        let second = eventually("another one leads", || async {
            let holder = leader(&fixture).await?;
            ensure!(holder != first, "{holder} still leads");
            anyhow::Ok(holder)
        })
        .await;
        assert_ne!(first, second);
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
    })
    .await;
}

/// The next phase of the way to `nodes` nodes, unless that is over.
async fn next_phase(
    fixture: &Fixture,
    seen: &BTreeSet<ScalingPhase>,
    nodes: i32,
) -> Option<ScalingPhase> {
    let seen = seen.clone();
    let is_new_or_over = move |cluster: Option<&PetraCluster>| {
        phase(cluster).is_some_and(|phase| !seen.contains(&phase)) || is_settled(cluster, nodes)
    };
    let cluster = fixture
        .wait("the next phase comes, or the end", "shop", is_new_or_over)
        .await;
    phase(cluster.as_ref())
}

fn is_settled(cluster: Option<&PetraCluster>, nodes: i32) -> bool {
    let status = cluster.and_then(|cluster| cluster.status.as_ref());
    is_ready(cluster)
        && status
            .is_some_and(|status| status.scaling.is_empty() && status.regions[0].nodes == nodes)
}

pub(crate) async fn settled(fixture: &Fixture, nodes: i32) {
    let settled = move |cluster: Option<&PetraCluster>| is_settled(cluster, nodes);
    fixture
        .wait("the change of size ends", "shop", settled)
        .await;
    let config = Config::from_json(&fixture.config_text("shop", "main").await.unwrap()).unwrap();
    assert_eq!(config.servers().len(), usize::try_from(nodes).unwrap());
    let set = fixture.api::<StatefulSet>().get("shop-main").await.unwrap();
    assert_eq!(set.spec.unwrap().replicas, Some(nodes));
}

/// Ends the leader without a chance to hand over, and what is left of its lease, so that nobody has to wait for that.
async fn kill_leader(fixture: &Fixture) {
    let leader = eventually("somebody leads", || leader(fixture)).await;
    let at_once = DeleteParams::default().grace_period(0);
    let api: Api<Pod> = fixture.api_in(NAMESPACE);
    // Its process would go on for a moment after its pod is gone, and finish what it is at.
    if let Some(process) = process_of(&leader) {
        signal("KILL", &process);
    }
    // It may be gone by itself.
    let _ = api.delete(&leader, &at_once).await;
    let leases: Api<Lease> = fixture.api_in(NAMESPACE);
    let over = Patch::Merge(json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}));
    leases
        .patch("petracache", &PatchParams::default(), &over)
        .await
        .unwrap();
}

/// The process of an operator's pod, which does nothing until this is dropped. It is not killed for that within half a minute.
struct Frozen(String);

impl Frozen {
    fn new(pod: &str) -> Self {
        let id = process_of(pod).unwrap_or_else(|| panic!("{pod} is no process of this machine"));
        signal("STOP", &id);
        Self(id)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal("CONT", &self.0);
    }
}

/// The operator's process in `pod`, which runs on this machine.
fn process_of(pod: &str) -> Option<String> {
    let name = format!("HOSTNAME={pod}");
    let is_of_pod = |process: &Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        let comm = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        comm.trim() == "petra-operator" && variables.any(|of| of == name.as_bytes())
    };
    let mut processes = std::fs::read_dir("/proc").unwrap();
    let process =
        processes.find_map(|entry| Some(entry.ok()?.path()).filter(|path| is_of_pod(path)));
    Some(process?.file_name()?.to_str()?.to_owned())
}

fn signal(name: &str, process: &str) {
    let status = Command::new("kill").args(["-s", name, process]).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{name} {process}"
    );
}

async fn leader(fixture: &Fixture) -> anyhow::Result<String> {
    let leases: Api<Lease> = fixture.api_in(NAMESPACE);
    let lease = leases.get("petracache").await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    let holder = holder.filter(|holder| !holder.is_empty());
    holder.ok_or_else(|| anyhow::anyhow!("nobody leads"))
}

async fn operator_pods(fixture: &Fixture) -> anyhow::Result<Vec<String>> {
    let parameters = ListParams::default().labels("app.kubernetes.io/name=petra-operator");
    let pods: Api<Pod> = fixture.api_in(NAMESPACE);
    Ok(pods
        .list(&parameters)
        .await?
        .items
        .iter()
        .map(ResourceExt::name_any)
        .collect())
}
