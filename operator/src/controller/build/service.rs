//! Services: stable names for nodes, and the one address that applications use.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{metadata, security};
use crate::controller::validate::{ValidatedCluster, ValidatedRegion};
use crate::crd::RouterMode;
use crate::names::{ADMIN_PORT, Component, MEMCACHED_PORT};

/// The nodes' headless Service. Nodes that are not ready are published too: routers must find the name of a node that
/// restarts, and decide by themselves whether it answers.
pub(super) fn headless(cluster: &ValidatedCluster, region: &ValidatedRegion) -> Service {
    Service {
        metadata: metadata(cluster, region, Component::Node, region.names.node_set()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(region.names.selector(Component::Node)),
            ports: Some(vec![
                port("memcached", MEMCACHED_PORT),
                port("admin", ADMIN_PORT),
            ]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The routers' Service. With a router on every machine, clients use their own machine's.
pub(super) fn router(cluster: &ValidatedCluster, region: &ValidatedRegion) -> Service {
    let daemon_set = cluster.router.mode == RouterMode::Daemonset;
    Service {
        metadata: metadata(cluster, region, Component::Router, region.names.router()),
        spec: Some(ServiceSpec {
            selector: Some(region.names.selector(Component::Router)),
            ports: Some(
                security::router_ports(cluster.tls.as_ref())
                    .into_iter()
                    .map(|(name, number)| port(name, number))
                    .collect(),
            ),
            internal_traffic_policy: daemon_set.then(|| "Local".to_owned()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn port(name: &str, number: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number,
        target_port: Some(IntOrString::String(name.to_owned())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}
