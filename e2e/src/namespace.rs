//! A namespace for one test: made before it, removed after it, dumped when it fails.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use anyhow::Context;
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::{Fixture, dump, eventually};

/// Runs `test` in a namespace that nothing else uses.
///
/// The namespace is deleted when the test is over. When the test panicked, the state of everything in the namespace
/// is first written to the folder that `PETRA_E2E_OUT` names, and the panic goes on.
pub async fn with_temp_ns<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Fixture) -> F) {
    let client = client().await.expect("a lab to test on");
    let namespace = create(&client, name)
        .await
        .expect("a namespace for the test");
    let fixture = Fixture::new(client.clone(), namespace.clone());

    let outcome = AssertUnwindSafe(test(fixture)).catch_unwind().await;
    if let Err(panic) = outcome {
        let folder = out().join(name);
        match dump::namespace(&client, &namespace, &folder).await {
            Ok(()) => eprintln!(
                "{name}: pod states, events and logs are in {}",
                folder.display()
            ),
            Err(error) => eprintln!("{name}: could not write {}: {error:#}", folder.display()),
        }
        delete(&client, &namespace).await;
        std::panic::resume_unwind(panic);
    }
    delete(&client, &namespace).await;
}

/// A client for the lab that `PETRA_E2E_KUBECONFIG` names.
pub async fn client() -> anyhow::Result<Client> {
    let path = std::env::var("PETRA_E2E_KUBECONFIG").context(
        "PETRA_E2E_KUBECONFIG is not set: run the cluster tests with `make test-cluster`, which starts a lab for them",
    )?;
    let kubeconfig = Kubeconfig::read_from(&path).with_context(|| format!("reading {path}"))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// The folder that failures are written to.
fn out() -> PathBuf {
    std::env::var_os("PETRA_E2E_OUT").map_or_else(
        || std::env::temp_dir().join("petracache-e2e"),
        PathBuf::from,
    )
}

/// Makes a namespace whose name begins with `name`.
///
/// # Errors
///
/// What the API server has against it.
pub async fn create(client: &Client, name: &str) -> anyhow::Result<String> {
    // Two runs on one lab must not meet: the process id tells them apart.
    let namespace = format!("{name}-{}", std::process::id());
    let object = serde_json::from_value(serde_json::json!({
        "metadata": {
            "name": namespace,
            // Every pod of ours must pass the strictest of the Pod Security Standards.
            "labels": {"pod-security.kubernetes.io/enforce": "restricted", "petracache.io/test": name},
        }
    }))?;
    Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &object)
        .await?;
    // Pods are refused until the controller manager has made the namespace's default ServiceAccount.
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &namespace);
    eventually("the default ServiceAccount", || accounts.get("default")).await;
    Ok(namespace)
}

async fn delete(client: &Client, namespace: &str) {
    let result = Api::<Namespace>::all(client.clone())
        .delete(namespace, &DeleteParams::default())
        .await;
    if let Err(error) = result {
        eprintln!("namespace {namespace} was left behind: {error}");
    }
}
