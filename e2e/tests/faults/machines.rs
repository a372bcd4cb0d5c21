//! A machine is replaced: cordoned, drained, deleted, gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use petra_e2e::{Fixture, with_temp_ns};
use petra_operator::names::Component;

use crate::lab::lab;
use crate::specs;

const KEYS: usize = 60;

/// The node of the machine goes to the other one with its volume. A client of the router there never gets an error.
#[tokio::test]
async fn a_machine_can_be_replaced_while_clients_are_served() {
    with_temp_ns("machine", |fixture| async move {
        let spec = specs::one_region("shop", 2)
            .replacen(
                "storage: {size",
                "storage: {storageClassName: lab-shared, size",
                1,
            )
            .replacen(
                "replicas: 1\n    resources",
                "replicas: 2\n    resources",
                1,
            );
        fixture.apply(&spec).await.unwrap();
        fixture.ready("shop").await;
        fixture.write("shop", "main", KEYS).await;
        let config = fixture.config_text("shop", "main").await.unwrap();
        let node = fixture.api::<Pod>().get("shop-main-1").await.unwrap();
        let going = machine_of(&node).to_owned();
        let staying = router_beside(&fixture, &going).await;

        let gone = Arc::new(AtomicBool::new(false));
        let client = tokio::spawn(work_until_ready_again(
            fixture.clone(),
            staying,
            going.clone(),
            Arc::clone(&gone),
        ));
        for arguments in [
            &["cordon", &going][..],
            &[
                "drain",
                &going,
                "--ignore-daemonsets",
                "--delete-emptydir-data",
                "--timeout=100s",
            ],
        ] {
            let output = fixture.kubectl(arguments).unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        lab(&["crash", &going]);
        let machines: Api<Node> = fixture.all();
        machines
            .delete(&going, &DeleteParams::default())
            .await
            .unwrap();
        gone.store(true, Ordering::Relaxed);
        let rounds = client.await.unwrap();
        println!("{rounds} rounds without an error");
        fixture.ready("shop").await;
        assert_eq!(fixture.config_text("shop", "main").await.unwrap(), config);
        fixture.serves_all("shop", "main", KEYS).await;
        lab(&["boot", &going]);
    })
    .await;
}

/// Sets and gets every key until the machine is gone, no pod is on the machine and all are ready elsewhere. How often that was.
async fn work_until_ready_again(
    fixture: Fixture,
    router: String,
    going: String,
    gone: Arc<AtomicBool>,
) -> usize {
    for round in 1.. {
        let mut router = fixture.connect(&router).await.unwrap();
        for number in 0..KEYS {
            let (key, value) = (format!("key-{number}"), format!("value-{number}"));
            assert_eq!(router.set(&key, &value).await.unwrap(), "STORED", "{key}");
            router.get(&key).await.unwrap();
        }
        let mut pods = Vec::new();
        for component in [Component::Node, Component::Router] {
            pods.extend(fixture.pods("shop", "main", component).await.unwrap());
        }
        let moved = |pod: &Pod| petra_e2e::fixture::pod_is_ready(pod) && machine_of(pod) != going;
        if gone.load(Ordering::Relaxed) && pods.len() == 4 && pods.iter().all(moved) {
            return round;
        }
    }
    unreachable!("the loop ends when all is well again")
}

/// A router on another machine than this one.
async fn router_beside(fixture: &Fixture, machine: &str) -> String {
    let routers = fixture
        .pods("shop", "main", Component::Router)
        .await
        .unwrap();
    let beside = routers.iter().find(|pod| machine_of(pod) != machine);
    beside
        .expect("routers are spread over the machines")
        .name_any()
}

fn machine_of(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}
