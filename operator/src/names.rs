//! Names and labels of everything that a `PetraCluster` becomes, in one place, as types.
//!
//! The only file that knows how a name is put together. Lengths need no check here: the custom resource's rules keep
//! `CLUSTER-REGION` within 52 characters, so that pods, their labels and every suffix below fit in 63.

use std::collections::BTreeMap;

/// Name under which the operator writes: its field manager, its label, its events.
pub const MANAGER: &str = "petra-operator";

/// Port on which nodes and routers speak memcached's protocol.
pub const MEMCACHED_PORT: i32 = 11211;

/// Port on which routers speak it with TLS. Nodes have but one port, which is either plain or encrypted.
pub const MEMCACHED_TLS_PORT: i32 = 11212;

/// Port on which nodes answer `/health`, `/ready` and `/metrics`, and are told their `/place`.
pub const ADMIN_PORT: i32 = 9090;

/// Name of a node's volume, which begins the names of claims.
pub const VOLUME: &str = "data";

/// The one key of a region's `ConfigMap`.
pub const CONFIG_KEY: &str = "mcrouter.json";

/// On a router pod: the configuration that it should run. Changing it makes the kubelet deliver the `ConfigMap` at once.
pub const CONFIG_HASH_ANNOTATION: &str = "petracache.io/config-hash";

/// On every object that the operator makes: digest of what was applied. An operator that starts compares it with what it
/// wants, and need not apply everything again.
pub const APPLIED_ANNOTATION: &str = "petracache.io/applied";

/// Label that holds the region's name.
pub const REGION_LABEL: &str = "petracache.io/region";

/// Label that the controller of a `StatefulSet` writes: the template that the pod was made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// Label that holds the cluster's name.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// Label that tells nodes from routers.
pub const COMPONENT_LABEL: &str = "app.kubernetes.io/component";

/// Label selector of everything that the operator makes.
pub const OURS: &str = "app.kubernetes.io/managed-by=petra-operator";

/// What an object is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The nodes, which hold the items.
    Node,
    /// The routers, which applications talk to.
    Router,
}

impl Component {
    /// The value of [`COMPONENT_LABEL`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Router => "router",
        }
    }
}

/// Names of one region of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionNames {
    /// Name of the `PetraCluster`.
    pub cluster: String,
    /// Its namespace.
    pub namespace: String,
    /// Name of the region.
    pub region: String,
    /// Domain of the Kubernetes cluster's Services, `cluster.local` as a rule.
    pub cluster_domain: String,
}

impl RegionNames {
    /// The `StatefulSet`, its headless Service and its disruption budget.
    pub fn node_set(&self) -> String {
        format!("{}-{}", self.cluster, self.region)
    }

    /// A node's pod.
    pub fn pod(&self, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.node_set())
    }

    /// `host:port` of a node. The host is absolute, with its trailing dot, so that no search list is walked.
    pub fn server(&self, ordinal: i32) -> String {
        format!(
            "{}.{}.{}.svc.{}.:{MEMCACHED_PORT}",
            self.pod(ordinal),
            self.node_set(),
            self.namespace,
            self.cluster_domain
        )
    }

    /// The `ConfigMap` with the routers' configuration.
    pub fn config_map(&self) -> String {
        format!("{}-mcrouter", self.node_set())
    }

    /// The routers' Deployment or `DaemonSet`, Service and disruption budget.
    pub fn router(&self) -> String {
        format!("{}-router", self.node_set())
    }

    /// The Secret that cert-manager keeps the region's certificate in, and the `Certificate` that asks for it.
    pub fn certificate(&self) -> String {
        format!("{}-tls", self.node_set())
    }

    /// Names that the region's nodes and routers are connected to by, as certificates have them: without the dot at the end.
    pub fn dns_names(&self) -> Vec<String> {
        let (nodes, router) = (self.node_set(), self.router());
        let (namespace, domain) = (&self.namespace, &self.cluster_domain);
        vec![
            format!("*.{nodes}.{namespace}.svc.{domain}"),
            format!("{router}.{namespace}.svc.{domain}"),
            format!("{router}.{namespace}.svc"),
            format!("{router}.{namespace}"),
            router,
        ]
    }

    /// Labels that pods are selected by. They never change: selectors are immutable.
    pub fn selector(&self, component: Component) -> BTreeMap<String, String> {
        BTreeMap::from(
            [
                ("app.kubernetes.io/name", "petracache"),
                (INSTANCE_LABEL, &self.cluster),
                (COMPONENT_LABEL, component.as_str()),
                (REGION_LABEL, &self.region),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
        )
    }

    /// Labels of objects and pods: the selector, and who manages them. No version stands here, so that an upgrade of
    /// the operator restarts nothing.
    pub fn labels(&self, component: Component) -> BTreeMap<String, String> {
        let mut labels = self.selector(component);
        labels.insert(
            "app.kubernetes.io/part-of".to_owned(),
            "petracache".to_owned(),
        );
        labels.insert(
            "app.kubernetes.io/managed-by".to_owned(),
            MANAGER.to_owned(),
        );
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cluster: &str, region: &str) -> RegionNames {
        RegionNames {
            cluster: cluster.to_owned(),
            namespace: "cache".to_owned(),
            region: region.to_owned(),
            cluster_domain: "cluster.local".to_owned(),
        }
    }

    #[test]
    fn names_are_those_that_people_see() {
        let names = names("sessions", "ankara");
        let table = [
            (names.node_set(), "sessions-ankara"),
            (names.pod(1), "sessions-ankara-1"),
            (
                names.server(0),
                "sessions-ankara-0.sessions-ankara.cache.svc.cluster.local.:11211",
            ),
            (names.config_map(), "sessions-ankara-mcrouter"),
            (names.router(), "sessions-ankara-router"),
            (names.certificate(), "sessions-ankara-tls"),
        ];
        for (name, expected) in table {
            assert_eq!(name, expected);
        }
    }

    #[test]
    fn the_longest_names_that_the_rules_allow_fit_in_a_label() {
        let names = names(&"c".repeat(31), &"r".repeat(20));
        // The StatefulSet controller labels pods with NAME-HASH; ten characters of hash.
        let revision = format!("{}-{}", names.node_set(), "0".repeat(10));
        for name in [
            names.pod(99),
            names.config_map(),
            names.router(),
            names.certificate(),
            revision,
        ] {
            assert!(name.len() <= 63, "{name} has {} characters", name.len());
        }
    }

    #[test]
    fn a_selector_is_part_of_the_labels_and_tells_components_apart() {
        let names = names("c", "r");
        let labels = names.labels(Component::Node);
        assert!(
            names
                .selector(Component::Node)
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
        );
        assert_ne!(
            names.selector(Component::Node),
            names.selector(Component::Router)
        );
    }
}
