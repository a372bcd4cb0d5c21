//! The nodes of a region.

use k8s_openapi::api::apps::v1::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, HTTPGetAction, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PodTemplateSpec, Probe, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{metadata, pod, security};
use crate::controller::layout::Layout;
use crate::controller::validate::{Place, ValidatedCluster, ValidatedNode, ValidatedRegion};
use crate::crd::{DurabilityMode, VolumePolicy};
use crate::names::{ADMIN_PORT, Component, MEMCACHED_PORT, VOLUME};

/// Time for a node to drain, to write what memory holds to a slow disk, and to close.
const TERMINATION_GRACE_S: i64 = 120;

/// A roll goes on to the next node when routers use this one again: their probes are at most 3 s apart, and half of that
/// later at random.
const MIN_READY_S: i32 = 5;

/// Time for a node to replay its log: after this many seconds of starting it is restarted.
const STARTUP_S: i32 = 600;

/// The `StatefulSet` of `region`, with as many pods as `layout` says.
pub(super) fn stateful_set(
    cluster: &ValidatedCluster,
    region: &ValidatedRegion,
    layout: Layout,
) -> StatefulSet {
    let names = &region.names;
    let selector = names.selector(Component::Node);
    let scheduling = match &region.place {
        Place::Here(scheduling) => scheduling.clone(),
        Place::Elsewhere(_) => Default::default(),
    };
    let mut pod_spec = pod::pod(container(&cluster.node), &scheduling, &selector);
    pod_spec.termination_grace_period_seconds = Some(TERMINATION_GRACE_S);
    security::secure_node(&mut pod_spec, cluster, names);
    StatefulSet {
        metadata: metadata(cluster, region, Component::Node, names.node_set()),
        spec: Some(StatefulSetSpec {
            replicas: Some(layout.pods),
            service_name: Some(names.node_set()),
            selector: LabelSelector {
                match_labels: Some(selector),
                ..LabelSelector::default()
            },
            // A node needs no other node: all start at once, and one that is broken keeps none from starting.
            pod_management_policy: Some("Parallel".to_owned()),
            // One node at a time, the last first. That routers use it again as well is `roll`'s business.
            min_ready_seconds: Some(MIN_READY_S),
            persistent_volume_claim_retention_policy: Some(
                StatefulSetPersistentVolumeClaimRetentionPolicy {
                    when_deleted: Some(retention(cluster.node.when_deleted)),
                    when_scaled: Some(retention(cluster.node.when_scaled)),
                },
            ),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(names.labels(Component::Node)),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec),
            },
            volume_claim_templates: Some(vec![volume_claim(&cluster.node)]),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// Gives the claims of `set` the size that the live one has: the API server refuses any other.
pub fn keep_volume_size(set: &mut StatefulSet, size: &str) {
    let claims = set
        .spec
        .as_mut()
        .and_then(|spec| spec.volume_claim_templates.as_mut());
    for claim in claims.into_iter().flatten() {
        let resources = claim.spec.as_mut().and_then(|spec| spec.resources.as_mut());
        let requests = resources.and_then(|resources| resources.requests.as_mut());
        if let Some(requests) = requests {
            requests.insert("storage".to_owned(), Quantity(size.to_owned()));
        }
    }
}

/// Lets only the pods from number `partition` on have the template of `set`.
pub fn roll_from(set: &mut StatefulSet, partition: i32) {
    let Some(spec) = set.spec.as_mut().filter(|_| partition > 0) else {
        return;
    };
    spec.update_strategy = Some(StatefulSetUpdateStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateStatefulSetStrategy {
            partition: Some(partition),
            ..RollingUpdateStatefulSetStrategy::default()
        }),
    });
}

fn container(node: &ValidatedNode) -> Container {
    Container {
        name: "petracache".to_owned(),
        image: Some(node.image.clone()),
        image_pull_policy: node.image_pull_policy.clone(),
        args: Some(arguments(node)),
        ports: Some(vec![
            port("memcached", MEMCACHED_PORT),
            port("admin", ADMIN_PORT),
        ]),
        resources: node.resources.clone(),
        startup_probe: Some(Probe {
            failure_threshold: Some(STARTUP_S),
            ..probe("/health", 1)
        }),
        readiness_probe: Some(Probe {
            failure_threshold: Some(2),
            ..probe("/ready", 2)
        }),
        liveness_probe: Some(Probe {
            timeout_seconds: Some(5),
            ..probe("/health", 10)
        }),
        volume_mounts: Some(vec![VolumeMount {
            name: VOLUME.to_owned(),
            mount_path: "/data".to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

fn arguments(node: &ValidatedNode) -> Vec<String> {
    let mut arguments = vec![
        format!("--listen-addr=0.0.0.0:{MEMCACHED_PORT}"),
        format!("--metrics-addr=0.0.0.0:{ADMIN_PORT}"),
        "--db-path=/data/db".to_owned(),
        format!("--max-item-size={}", node.max_item_size),
        format!("--disk-quota={}", node.disk_quota),
        format!("--keep-for={}", node.keep_for),
        format!("--durability={}", node.durability.as_str()),
    ];
    if node.durability == DurabilityMode::Interval {
        arguments.push(format!("--flush-interval={}", node.flush_interval));
    }
    arguments
}

fn volume_claim(node: &ValidatedNode) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(VOLUME.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: node.storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(
                    [("storage".to_owned(), Quantity(node.storage_size.0.clone()))].into(),
                ),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

fn retention(policy: VolumePolicy) -> String {
    match policy {
        VolumePolicy::Retain => "Retain".to_owned(),
        VolumePolicy::Delete => "Delete".to_owned(),
    }
}

fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

fn probe(path: &str, period_s: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("admin".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_s),
        ..Probe::default()
    }
}
