//! The routers of a region.
//!
//! Nothing here depends on the configuration's content: routers read a new one while they run, so no hash of it
//! stands in the pod template.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, ContainerPort, Lifecycle, LifecycleHandler, PodTemplateSpec,
    Probe, SleepAction, TCPSocketAction, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Workload, metadata, pod, security};
use crate::controller::validate::{Place, ValidatedCluster, ValidatedRegion};
use crate::crd::RouterMode;
use crate::names::{CONFIG_KEY, Component};

/// Where the `ConfigMap` is mounted, as a directory: a single file of it would never change.
const CONFIG_DIR: &str = "/etc/mcrouter";

/// Time for every machine to learn that a router is going before it goes.
const DEREGISTER_S: i64 = 5;

/// The Deployment or `DaemonSet` of `region`.
pub(super) fn workload(cluster: &ValidatedCluster, region: &ValidatedRegion) -> Workload {
    let names = &region.names;
    let metadata = metadata(cluster, region, Component::Router, names.router());
    let selector = LabelSelector {
        match_labels: Some(names.selector(Component::Router)),
        ..LabelSelector::default()
    };
    let template = template(cluster, region);
    match cluster.router.mode {
        RouterMode::Daemonset => Workload::DaemonSet(Box::new(DaemonSet {
            metadata,
            spec: Some(DaemonSetSpec {
                selector,
                template,
                ..DaemonSetSpec::default()
            }),
            status: None,
        })),
        RouterMode::Deployment | RouterMode::None => Workload::Deployment(Box::new(Deployment {
            metadata,
            spec: Some(DeploymentSpec {
                replicas: Some(cluster.router.replicas),
                selector,
                template,
                ..DeploymentSpec::default()
            }),
            status: None,
        })),
    }
}

fn template(cluster: &ValidatedCluster, region: &ValidatedRegion) -> PodTemplateSpec {
    let names = &region.names;
    let scheduling = match &region.place {
        Place::Here(scheduling) => scheduling.clone(),
        Place::Elsewhere(_) => Default::default(),
    };
    let container = container(cluster, region);
    let mut spec = pod::pod(container, &scheduling, &names.selector(Component::Router));
    spec.volumes = Some(vec![Volume {
        name: "config".to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: names.config_map(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }]);
    if let Some(tls) = &cluster.tls {
        security::secure_router(&mut spec, tls, names);
    }
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(names.labels(Component::Router)),
            ..ObjectMeta::default()
        }),
        spec: Some(spec),
    }
}

fn container(cluster: &ValidatedCluster, region: &ValidatedRegion) -> Container {
    let router = &cluster.router;
    let ports = security::router_ports(cluster.tls.as_ref());
    let (probed, _) = ports[0];
    Container {
        name: "mcrouter".to_owned(),
        image: Some(router.image.clone()),
        image_pull_policy: router.image_pull_policy.clone(),
        // Images of mcrouter differ in their entry point; what they have in common is the program on their PATH.
        command: Some(vec!["mcrouter".to_owned()]),
        args: Some(arguments(cluster, region)),
        ports: Some(ports.into_iter().map(port).collect()),
        resources: router.resources.clone(),
        readiness_probe: Some(probe(probed, 2)),
        liveness_probe: Some(probe(probed, 10)),
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction {
                    seconds: DEREGISTER_S,
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        volume_mounts: Some(vec![VolumeMount {
            name: "config".to_owned(),
            mount_path: CONFIG_DIR.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

fn arguments(cluster: &ValidatedCluster, region: &ValidatedRegion) -> Vec<String> {
    let mut arguments = vec![format!("--config=file:{CONFIG_DIR}/{CONFIG_KEY}")];
    arguments.extend(security::router_arguments(cluster.tls.as_ref()));
    arguments.extend([
        format!(
            "--route-prefix=/{}/{}/",
            region.names.region, region.names.cluster
        ),
        "--proxy-threads=auto".to_owned(),
        // The defaults, 10 s and 60 s, are far too slow for pods that are back within seconds.
        "--probe-timeout-initial=500".to_owned(),
        "--probe-timeout-max=3000".to_owned(),
        // Nothing replays its spool, and it answers deletes that failed as if they had not.
        "--asynclog-disable".to_owned(),
        // Off: they are files below /var, which is read-only.
        "--stats-root=".to_owned(),
        "--debug-fifo-root=".to_owned(),
        "--config-dump-root=".to_owned(),
    ]);
    arguments.extend(cluster.router.extra_args.iter().cloned());
    arguments
}

fn port((name, number): (&str, i32)) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

fn probe(port: &str, period_s: i32) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::String(port.to_owned()),
            ..TCPSocketAction::default()
        }),
        period_seconds: Some(period_s),
        ..Probe::default()
    }
}
