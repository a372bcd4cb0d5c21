//! What a test does to its namespace: apply specs, wait for conditions, find pods and what they hold.

use std::fmt::Debug;
use std::process::Output;

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::NamespaceResourceScope;
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Client, Resource, ResourceExt};
use petra_operator::controller::build::config_map::config_hash;
use petra_operator::crd::{PetraCluster, ScalingPhase};
use petra_operator::names::{ADMIN_PORT, CONFIG_KEY, Component, MEMCACHED_PORT, RegionNames};
use petra_routing::{Config, Operation, Place, Question, Request};
use serde::de::DeserializeOwned;

use crate::eventually;
use crate::memcached::Connection;
use crate::wait::PATIENCE;

/// A namespace of the lab, and what tests do there.
#[derive(Clone)]
pub struct Fixture {
    client: Client,
    namespace: String,
}

impl Fixture {
    pub(crate) fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    /// The namespace's name.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The API of one kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The API of a kind in this namespace that is known by its name only.
    pub fn dynamic(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, kind)
    }

    /// The API of one kind in another namespace, such as the operator's.
    pub fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The API of one kind, in all namespaces or none.
    pub fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Applies the PetraCluster that `yaml` is, as `kubectl apply --server-side` does.
    ///
    /// # Errors
    ///
    /// What the API server has against it.
    pub async fn apply(&self, yaml: &str) -> anyhow::Result<PetraCluster> {
        let object: serde_json::Value = serde_saphyr::from_str(yaml).context("the test's YAML")?;
        let name = object["metadata"]["name"].as_str().context("a name")?;
        let parameters = PatchParams::apply("petra-e2e");
        Ok(self
            .api::<PetraCluster>()
            .patch(name, &parameters, &Patch::Apply(&object))
            .await?)
    }

    /// Creates the object that `object` is.
    ///
    /// # Errors
    ///
    /// What the API server has against it.
    pub async fn create(&self, object: &serde_json::Value) -> anyhow::Result<()> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let types = object.types.clone().context("apiVersion and kind")?;
        let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
        let api = self.dynamic(&kind);
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Changes a PetraCluster by a merge patch.
    pub async fn patch(
        &self,
        name: &str,
        patch: serde_json::Value,
    ) -> anyhow::Result<PetraCluster> {
        let parameters = PatchParams::default();
        Ok(self
            .api::<PetraCluster>()
            .patch(name, &parameters, &Patch::Merge(&patch))
            .await?)
    }

    /// Waits until an object fulfils a condition.
    ///
    /// # Panics
    ///
    /// With what was waited for, when it takes too long.
    pub async fn wait<K>(&self, what: &str, name: &str, condition: impl Condition<K>) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Send
            + DeserializeOwned
            + 'static,
    {
        match tokio::time::timeout(PATIENCE, await_condition(self.api(), name, condition)).await {
            Ok(object) => object.expect(what),
            Err(_) => panic!("{what}: not within {PATIENCE:?}"),
        }
    }

    /// Waits until the operator says of the newest spec that everything is ready.
    pub async fn ready(&self, name: &str) -> PetraCluster {
        let cluster = self.wait("the PetraCluster is Ready", name, is_ready).await;
        cluster.expect("a PetraCluster")
    }

    /// Names of a region's objects.
    pub fn names(&self, cluster: &str, region: &str) -> RegionNames {
        RegionNames {
            cluster: cluster.to_owned(),
            namespace: self.namespace.clone(),
            region: region.to_owned(),
            cluster_domain: "cluster.local".to_owned(),
        }
    }

    /// The text of a region's mcrouter.json.
    pub async fn config_text(&self, cluster: &str, region: &str) -> anyhow::Result<String> {
        let name = self.names(cluster, region).config_map();
        let config_map = self.api::<ConfigMap>().get(&name).await?;
        let mut data = config_map.data.unwrap_or_default();
        data.remove(CONFIG_KEY)
            .with_context(|| format!("{name} has no {CONFIG_KEY}"))
    }

    /// Waits until every router of a region runs the configuration that is in its ConfigMap.
    pub async fn wait_for_config(&self, cluster: &str, region: &str) {
        eventually("the routers run the live configuration", || async {
            let hash = config_hash(&self.config_text(cluster, region).await?);
            for pod in self.pods(cluster, region, Component::Router).await? {
                let mut router = self.connect(&pod.name_any()).await?;
                let running = router.get("__mcrouter__.config_md5_digest").await?;
                ensure!(
                    running.as_ref() == Some(&hash),
                    "{} runs {running:?}",
                    pod.name_any()
                );
            }
            anyhow::Ok(())
        })
        .await;
    }

    /// A connection to a pod's memcached port.
    pub async fn connect(&self, pod: &str) -> anyhow::Result<Connection> {
        Connection::open(&self.address(pod, MEMCACHED_PORT).await?).await
    }

    /// `address:port` of a pod.
    ///
    /// # Errors
    ///
    /// There is no such pod, or it has no address yet.
    pub async fn address(&self, pod: &str, port: i32) -> anyhow::Result<String> {
        let pod = self.api::<Pod>().get(pod).await?;
        let ip = pod.status.and_then(|status| status.pod_ip);
        Ok(format!("{}:{port}", ip.context("the pod has no address")?))
    }

    /// What a node answers when it is asked for its place in the pool; `None` when it was never told.
    pub async fn place(&self, pod: &str) -> anyhow::Result<Option<Place>> {
        let mut connection = Connection::open(&self.address(pod, ADMIN_PORT).await?).await?;
        let request = "GET /place HTTP/1.1\r\nHost: node\r\nConnection: close\r\n";
        let status = connection.line(request).await?;
        while !connection.read_line().await?.is_empty() {}
        if status.contains(" 404 ") {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&connection.read_line().await?)?))
    }

    /// A connection to one of a region's routers.
    pub async fn router(&self, cluster: &str, region: &str) -> anyhow::Result<Connection> {
        let pods = self.pods(cluster, region, Component::Router).await?;
        self.connect(&pods.first().context("there is no router")?.name_any())
            .await
    }

    /// The pods of a region.
    pub async fn pods(
        &self,
        cluster: &str,
        region: &str,
        component: Component,
    ) -> anyhow::Result<Vec<Pod>> {
        let selector = self.names(cluster, region).selector(component);
        let labels: Vec<String> = selector
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let parameters = ListParams::default().labels(&labels.join(","));
        Ok(self.api::<Pod>().list(&parameters).await?.items)
    }

    /// Writes `count` keys through the router, `key-0` with the value `value-0` and so on.
    pub async fn write(&self, cluster: &str, region: &str, count: usize) {
        self.write_values(cluster, region, "value", count).await;
    }

    /// Writes `count` keys through the router, `key-0` with the value `VALUE-0` and so on.
    pub async fn write_values(&self, cluster: &str, region: &str, value: &str, count: usize) {
        let write = || async {
            let mut router = self.router(cluster, region).await?;
            for number in 0..count {
                let answer = router
                    .set(&format!("key-{number}"), &format!("{value}-{number}"))
                    .await?;
                ensure!(answer == "STORED", "set key-{number} was answered {answer}");
            }
            anyhow::Ok(())
        };
        eventually("keys are written through the router", write).await;
    }

    /// How many of the keys that [`Self::write`] wrote the router answers with their value.
    pub async fn hits(&self, cluster: &str, region: &str, count: usize) -> anyhow::Result<usize> {
        self.hits_of(cluster, region, "value", count).await
    }

    /// How many of the keys that [`Self::write_values`] wrote the router answers with their value.
    ///
    /// # Errors
    ///
    /// Another value, or no answer.
    pub async fn hits_of(
        &self,
        cluster: &str,
        region: &str,
        value: &str,
        count: usize,
    ) -> anyhow::Result<usize> {
        let wanted = value;
        let mut router = self.router(cluster, region).await?;
        let mut hits = 0;
        for number in 0..count {
            match router.get(&format!("key-{number}")).await? {
                Some(value) if value == format!("{wanted}-{number}") => hits += 1,
                Some(value) => bail!("key-{number} has the value {value:?}"),
                None => {}
            }
        }
        Ok(hits)
    }

    /// Waits until the router answers every key that [`Self::write`] wrote with its value.
    pub async fn serves_all(&self, cluster: &str, region: &str, count: usize) {
        eventually("the router serves every key", || async {
            let hits = self.hits(cluster, region, count).await?;
            ensure!(hits == count, "{hits} of {count} keys");
            anyhow::Ok(())
        })
        .await;
    }

    /// Takes the last of a region's nodes away, so that `left` are left. The cluster is paused, so that the operator does
    /// not bring them back.
    pub async fn take_nodes_away(
        &self,
        cluster: &str,
        region: &str,
        left: i32,
    ) -> anyhow::Result<()> {
        self.patch(cluster, serde_json::json!({"spec": {"paused": true}}))
            .await?;
        let names = self.names(cluster, region);
        let replicas = Patch::Merge(serde_json::json!({"spec": {"replicas": left}}));
        let sets = self.api::<StatefulSet>();
        sets.patch(&names.node_set(), &PatchParams::default(), &replicas)
            .await?;
        let gone = |pod: Option<&Pod>| pod.is_none();
        self.wait("the pod is gone", &names.pod(left), gone).await;
        Ok(())
    }

    /// The pod that `explain` says a key is read from, while all servers are up.
    pub fn owner(config: &str, key: &str) -> anyhow::Result<String> {
        let question = Question {
            request: Request::new(Operation::Get, key),
            down: std::collections::BTreeSet::new(),
            present: true,
        };
        let explanation = petra_routing::explain(&Config::from_json(config)?, &question)?;
        let server = &explanation
            .steps
            .first()
            .context("no server is asked")?
            .server;
        Ok(server.split('.').next().unwrap_or(server).to_owned())
    }

    /// Runs kubectl on the lab, in this namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let kubeconfig = std::env::var("PETRA_E2E_KUBECONFIG").context("PETRA_E2E_KUBECONFIG")?;
        std::process::Command::new("kubectl")
            .args(["--kubeconfig", &kubeconfig, "--namespace", &self.namespace])
            .args(arguments)
            .output()
            .context("running kubectl, which `make test-cluster` puts on the PATH")
    }
}

/// Whether the operator has seen the newest spec and says Ready.
pub fn is_ready(cluster: Option<&PetraCluster>) -> bool {
    cluster.is_some_and(|cluster| condition(cluster, "Ready").0 == "True")
}

/// Whether a pod reports itself ready.
pub fn pod_is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

/// The step of the first region that is scaled.
pub fn phase(cluster: Option<&PetraCluster>) -> Option<ScalingPhase> {
    let status = cluster?.status.as_ref()?;
    status.scaling.first().map(|scaling| scaling.phase)
}

/// Status and message of a condition that is about the newest spec; `Unknown` when there is none.
pub fn condition(cluster: &PetraCluster, kind: &str) -> (String, String) {
    let status = cluster.status.as_ref();
    let is_new =
        status.is_some_and(|status| status.observed_generation == cluster.metadata.generation);
    status
        .and_then(|status| {
            status
                .conditions
                .iter()
                .find(|condition| condition.type_ == kind)
        })
        .filter(|_| is_new)
        .map_or(("Unknown".to_owned(), String::new()), |condition| {
            (condition.status.clone(), condition.message.clone())
        })
}
