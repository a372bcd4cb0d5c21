//! Client: only through caches that watches keep, and through [`super::routers`]. What there is now of one cluster.
//!
//! Owns the reading of live objects. Must not know what is wanted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::reflector::Store;
use kube::{Resource, ResourceExt};
use petra_routing::{Config, Place};
use serde::Serialize;
use serde_json::Value;

use super::places::Places;
use super::roll::Revisions;
use super::routers::{RouterPod, Routers};
use super::volumes::Growth;
use crate::crd::PetraCluster;
use crate::names::{COMPONENT_LABEL, CONFIG_KEY, Component, INSTANCE_LABEL, REVISION_LABEL};
use crate::object::{ContentDigest, Kind, ObjectKey, content_digest};

/// Caches of everything that carries the operator's label.
#[derive(Clone)]
pub struct Stores {
    /// Nodes.
    pub stateful_sets: Store<StatefulSet>,
    /// Routers.
    pub deployments: Store<Deployment>,
    /// Routers.
    pub daemon_sets: Store<DaemonSet>,
    /// Both.
    pub services: Store<Service>,
    /// The routers' configurations.
    pub config_maps: Store<ConfigMap>,
    /// Both.
    pub network_policies: Store<NetworkPolicy>,
    /// Both.
    pub disruption_budgets: Store<PodDisruptionBudget>,
    /// Both, without what the operator does not look at.
    pub pods: Store<Pod>,
}

/// What there is of one cluster.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Every object with its label.
    pub objects: BTreeMap<ObjectKey, LiveObject>,
    /// Node sets by name.
    pub node_sets: BTreeMap<String, NodeSet>,
    /// Their templates, by the same names.
    pub revisions: BTreeMap<String, Revisions>,
    /// Node pods by the name of their set and their number.
    pub nodes: BTreeMap<String, BTreeMap<i32, NodePod>>,
    /// Sizes of the volumes of node sets, by the name of the set.
    pub volume_sizes: BTreeMap<String, String>,
    /// How far volumes are that are smaller than the spec wants, by the name of the set.
    pub growing: BTreeMap<String, Growth>,
    /// Why the certificates of node sets are not there yet, by the name of the set.
    pub uncertified: BTreeMap<String, String>,
    /// Texts of configurations by the name of their `ConfigMap`.
    pub configs: BTreeMap<String, String>,
    /// Router pods that `DaemonSet`s should have, by name.
    pub daemon_set_sizes: BTreeMap<String, i32>,
    /// Router pods, each with what it answered.
    pub routers: Vec<RouterPod>,
}

/// An object that exists.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveObject {
    /// Identity of this very object.
    pub uid: String,
    /// Version of what was seen.
    pub resource_version: Option<String>,
    /// Its controller.
    pub owner: Option<OwnerReference>,
    /// What was seen.
    pub content: Value,
    /// Digest of it.
    pub digest: ContentDigest,
    /// Whether it is on its way out.
    pub deleting: bool,
}

/// A `StatefulSet` as it reports itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeSet {
    /// Pods that it was told to have.
    pub pods: i32,
    /// Pods that are ready, of those that it was told to have.
    pub ready: i32,
    /// Pods that still run an older template.
    pub outdated: i32,
}

/// A node's pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePod {
    /// Whether it is ready to serve, and not on its way out.
    pub ready: bool,
    /// Why it does not run, in the words of who tried.
    pub trouble: Option<String>,
    /// Identity of this very pod.
    pub uid: String,
    /// The template that it was made from.
    pub revision: Option<String>,
    /// Where it answers.
    pub address: Option<String>,
    /// Its place in the pool, as this very pod has confirmed it.
    pub place: Option<Place>,
}

impl Observed {
    /// The pods of node set `name` that are ready, by their numbers.
    pub fn ready_nodes(&self, name: &str) -> BTreeSet<i32> {
        let nodes = self.nodes.get(name).into_iter().flatten();
        nodes
            .filter(|(_, node)| node.ready)
            .map(|(ordinal, _)| *ordinal)
            .collect()
    }

    /// What keeps the first pod of node set `name` among `nodes` from running, if anybody said so. A certificate that is missing
    /// keeps all of them from it, and no pod says so.
    pub fn trouble(&self, name: &str, nodes: std::ops::Range<i32>) -> Option<&str> {
        let pods = self.nodes.get(name)?;
        pods.range(nodes)
            .filter(|(_, pod)| !pod.ready)
            .find_map(|(_, pod)| pod.trouble.as_deref())
            .or_else(|| self.uncertified.get(name).map(String::as_str))
    }

    /// How many pods node set `name` has, if none were missing before its last.
    pub fn existing_nodes(&self, name: &str) -> i32 {
        let nodes = self.nodes.get(name);
        nodes
            .and_then(|nodes| nodes.last_key_value())
            .map_or(0, |(ordinal, _)| ordinal + 1)
    }

    /// The configuration in `ConfigMap` `name`, if there is one that can be read.
    pub fn config(&self, name: &str) -> Option<Config> {
        self.configs
            .get(name)
            .and_then(|text| Config::from_json(text).ok())
    }

    /// A `StatefulSet` that was told something new does not report for a moment how many of its pods are ready. They do.
    fn count_ready_nodes(&mut self) {
        for (name, set) in &mut self.node_sets {
            let nodes = self.nodes.get(name).into_iter().flatten();
            let ready = nodes.filter(|(ordinal, node)| **ordinal < set.pods && node.ready);
            set.ready = i32::try_from(ready.count()).unwrap_or(i32::MAX);
        }
    }

    fn add_node(&mut self, pod: &Pod, places: &Places) {
        let name = pod.name_any();
        let Some((set, ordinal)) = name.rsplit_once('-') else {
            return;
        };
        let Ok(ordinal) = ordinal.parse() else {
            return;
        };
        let node = NodePod {
            ready: is_ready(pod) && pod.metadata.deletion_timestamp.is_none(),
            trouble: trouble(pod),
            uid: pod.uid().unwrap_or_default(),
            revision: pod.labels().get(REVISION_LABEL).cloned(),
            address: pod.status.as_ref().and_then(|status| status.pod_ip.clone()),
            place: places.confirmed(pod),
        };
        self.nodes
            .entry(set.to_owned())
            .or_default()
            .insert(ordinal, node);
    }

    fn add<K: Resource<DynamicType = ()> + Clone + Serialize>(
        &mut self,
        kind: Kind,
        cluster: &PetraCluster,
        store: &Store<K>,
        mut also: impl FnMut(&mut Self, &K),
    ) {
        for object in store.state_filter(|object| belongs(object, cluster)) {
            let key = ObjectKey {
                kind,
                name: object.name_any(),
            };
            self.objects.insert(key, live(object.as_ref()));
            also(self, object.as_ref());
        }
    }
}

/// Collects what there is of `cluster`, and asks its routers what they run.
pub async fn dereference(
    cluster: &PetraCluster,
    stores: &Stores,
    routers: &Routers,
    places: &Places,
) -> Observed {
    let mut observed = Observed::default();
    observed.add(
        Kind::ConfigMap,
        cluster,
        &stores.config_maps,
        |observed, object| {
            let text = object
                .data
                .as_ref()
                .and_then(|data| data.get(CONFIG_KEY))
                .cloned();
            observed
                .configs
                .extend(text.map(|text| (object.name_any(), text)));
        },
    );
    observed.add(Kind::Service, cluster, &stores.services, |_, _| ());
    observed.add(
        Kind::NetworkPolicy,
        cluster,
        &stores.network_policies,
        |_, _| (),
    );
    observed.add(
        Kind::PodDisruptionBudget,
        cluster,
        &stores.disruption_budgets,
        |_, _| (),
    );
    observed.add(
        Kind::StatefulSet,
        cluster,
        &stores.stateful_sets,
        |observed, object| {
            observed
                .node_sets
                .insert(object.name_any(), node_set(object));
            observed
                .revisions
                .insert(object.name_any(), revisions(object));
            let size = volume_size(object).map(|size| (object.name_any(), size));
            observed.volume_sizes.extend(size);
        },
    );
    observed.add(Kind::Deployment, cluster, &stores.deployments, |_, _| ());
    observed.add(
        Kind::DaemonSet,
        cluster,
        &stores.daemon_sets,
        |observed, object| {
            let size = object
                .status
                .as_ref()
                .map_or(0, |status| status.desired_number_scheduled);
            observed.daemon_set_sizes.insert(object.name_any(), size);
        },
    );
    let pods = stores.pods.state_filter(|pod| belongs(pod, cluster));
    let (router_pods, node_pods): (Vec<_>, Vec<_>) = pods
        .into_iter()
        .partition(|pod| is_of(pod, Component::Router));
    for pod in node_pods {
        observed.add_node(&pod, places);
    }
    observed.count_ready_nodes();
    let encrypted = cluster.spec.tls.is_some();
    observed.routers = routers.ask_all(&router_pods, encrypted).await;
    observed
}

fn is_of(pod: &Pod, component: Component) -> bool {
    pod.labels()
        .get(COMPONENT_LABEL)
        .is_some_and(|value| value == component.as_str())
}

/// Why `pod` does not run: no machine takes it, or its container does not start.
fn trouble(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    if let Some(condition) = unscheduled {
        return condition
            .message
            .clone()
            .or_else(|| condition.reason.clone());
    }
    let waiting = status
        .container_statuses
        .iter()
        .flatten()
        .find_map(|container| container.state.as_ref()?.waiting.as_ref())?;
    // The message counts seconds, and would make every look a change.
    waiting
        .reason
        .clone()
        .filter(|reason| !["ContainerCreating", "PodInitializing"].contains(&reason.as_str()))
}

/// Whether `pod` reports itself ready.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

/// Whether `object` carries the labels of `cluster`. It is asked of every object of every cluster, and so copies nothing.
fn belongs<K: Resource>(object: &K, cluster: &PetraCluster) -> bool {
    object.meta().namespace == cluster.meta().namespace
        && object.labels().get(INSTANCE_LABEL) == cluster.meta().name.as_ref()
}

/// What is remembered of `object`.
pub(super) fn live<K: Resource + Serialize>(object: &K) -> LiveObject {
    let content = serde_json::to_value(object).unwrap_or_default();
    LiveObject {
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version(),
        owner: controller_of(object),
        digest: content_digest(&content),
        content,
        deleting: object.meta().deletion_timestamp.is_some(),
    }
}

/// The owner that controls `object`.
pub(super) fn controller_of<K: Resource>(object: &K) -> Option<OwnerReference> {
    object
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))
        .cloned()
}

fn node_set(object: &StatefulSet) -> NodeSet {
    let pods = object
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let status = object.status.as_ref();
    match status.filter(|status| status.observed_generation >= object.meta().generation) {
        Some(status) => {
            // Without an update under way both revisions are the same, and the counts say nothing.
            let updating = status.update_revision != status.current_revision;
            let updated = status.updated_replicas.unwrap_or(0);
            let outdated = if updating {
                status.replicas - updated
            } else {
                0
            };
            NodeSet {
                pods,
                ready: 0,
                outdated,
            }
        }
        None => NodeSet {
            pods,
            ready: 0,
            outdated: 0,
        },
    }
}

fn revisions(object: &StatefulSet) -> Revisions {
    let strategy = object
        .spec
        .as_ref()
        .and_then(|spec| spec.update_strategy.as_ref());
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let status = object.status.as_ref();
    let status = status.filter(|status| status.observed_generation >= object.meta().generation);
    Revisions {
        newest: status.and_then(|status| status.update_revision.clone()),
        partition: rolling.and_then(|rolling| rolling.partition).unwrap_or(0),
    }
}

/// Size of the volumes that the `StatefulSet` makes, as written. It cannot be changed in one that exists.
fn volume_size(object: &StatefulSet) -> Option<String> {
    let claims = object.spec.as_ref()?.volume_claim_templates.as_ref()?;
    let resources = claims.first()?.spec.as_ref()?.resources.as_ref()?;
    resources
        .requests
        .as_ref()?
        .get("storage")
        .map(|size| size.0.clone())
}
