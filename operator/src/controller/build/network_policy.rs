//! Who may connect to nodes and routers. Nothing is said about what they connect to.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{metadata, security};
use crate::controller::validate::{ValidatedCluster, ValidatedRegion};
use crate::names::{
    ADMIN_PORT, COMPONENT_LABEL, Component, INSTANCE_LABEL, MANAGER, MEMCACHED_PORT,
};

/// The nodes' policy: routers may ask them, monitoring may read their metrics, and the operator tells them their place. Probes
/// come from the machine itself, which no policy keeps out.
pub(super) fn nodes(cluster: &ValidatedCluster, region: &ValidatedRegion) -> NetworkPolicy {
    let routers = if cluster.has_unseen_routers {
        Vec::new()
    } else {
        vec![pods(BTreeMap::from([
            (INSTANCE_LABEL.to_owned(), cluster.name.clone()),
            (
                COMPONENT_LABEL.to_owned(),
                Component::Router.as_str().to_owned(),
            ),
        ]))]
    };
    policy(
        cluster,
        region,
        Component::Node,
        vec![
            rule(routers, &[MEMCACHED_PORT]),
            rule(
                and_operator(cluster.network.monitoring.clone()),
                &[ADMIN_PORT],
            ),
        ],
    )
}

/// The routers' policy: clients may ask them, and so may the operator, which asks what they run.
pub(super) fn routers(cluster: &ValidatedCluster, region: &ValidatedRegion) -> NetworkPolicy {
    let ports: Vec<i32> = security::router_ports(cluster.tls.as_ref())
        .into_iter()
        .map(|(_, number)| number)
        .collect();
    policy(
        cluster,
        region,
        Component::Router,
        vec![rule(and_operator(cluster.network.clients.clone()), &ports)],
    )
}

/// Nobody stays nobody, which means everybody.
fn and_operator(mut from: Vec<NetworkPolicyPeer>) -> Vec<NetworkPolicyPeer> {
    if !from.is_empty() {
        let operator = BTreeMap::from([("app.kubernetes.io/name".to_owned(), MANAGER.to_owned())]);
        from.push(NetworkPolicyPeer {
            namespace_selector: Some(LabelSelector::default()),
            ..pods(operator)
        });
    }
    from
}

fn policy(
    cluster: &ValidatedCluster,
    region: &ValidatedRegion,
    component: Component,
    ingress: Vec<NetworkPolicyIngressRule>,
) -> NetworkPolicy {
    let name = match component {
        Component::Node => region.names.node_set(),
        Component::Router => region.names.router(),
    };
    NetworkPolicy {
        metadata: metadata(cluster, region, component, name),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(region.names.selector(component))),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(ingress),
            ..NetworkPolicySpec::default()
        }),
    }
}

/// Everybody, when `from` is empty.
fn rule(from: Vec<NetworkPolicyPeer>, ports: &[i32]) -> NetworkPolicyIngressRule {
    let port = |number: &i32| NetworkPolicyPort {
        port: Some(IntOrString::Int(*number)),
        protocol: Some("TCP".to_owned()),
        ..NetworkPolicyPort::default()
    };
    NetworkPolicyIngressRule {
        from: Some(from).filter(|from| !from.is_empty()),
        ports: Some(ports.iter().map(port).collect()),
    }
}

fn pods(labels: BTreeMap<String, String>) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(selector(labels)),
        ..NetworkPolicyPeer::default()
    }
}

fn selector(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_is_let_in_where_not_everybody_is() {
        assert_eq!(and_operator(Vec::new()), []);
        let monitoring = pods(BTreeMap::from([(
            "app".to_owned(),
            "prometheus".to_owned(),
        )]));
        let both = and_operator(vec![monitoring.clone()]);
        assert_eq!(both[0], monitoring);
        let labels = both[1].pod_selector.clone().unwrap().match_labels.unwrap();
        assert_eq!(labels["app.kubernetes.io/name"], MANAGER);
        assert_eq!(both[1].namespace_selector, Some(LabelSelector::default()));
    }
}
