//! Names and labels, as types: every name that the operator gives is made here and nowhere else.
//!
//! For cluster `C` and region `R`: `C-R` (StatefulSet, headless Service, PodDisruptionBudget; pods `C-R-0`, `C-R-1`, ...),
//! `C-R-mcrouter` (ConfigMap), `C-R-router` (Deployment or DaemonSet, Service, PodDisruptionBudget).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// The port on which nodes and routers speak memcached's protocol.
pub const MEMCACHED_PORT: i32 = 11211;
/// Name of that port.
pub const MEMCACHED_PORT_NAME: &str = "memcached";
/// The port on which a node answers /health, /ready and /metrics.
pub const ADMIN_PORT: i32 = 9090;
/// Name of that port.
pub const ADMIN_PORT_NAME: &str = "admin";
/// The ConfigMap's key, and the file's name in a router.
pub const CONFIG_KEY: &str = "mcrouter.json";
/// Field manager of server-side apply, and value of `app.kubernetes.io/managed-by`.
pub const MANAGER: &str = "petra-operator";

/// Which cluster an object belongs to.
pub const LABEL_INSTANCE: &str = "app.kubernetes.io/instance";
/// Who made an object.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// What an object is for: `node` or `router`.
pub const LABEL_COMPONENT: &str = "app.kubernetes.io/component";
/// Which region an object belongs to.
pub const LABEL_REGION: &str = "petracache.io/region";
/// The configuration that a router pod should run: changing it makes the kubelet deliver the ConfigMap at once.
pub const ANNOTATION_CONFIG_HASH: &str = "petracache.io/config-hash";

const LABEL_NAME: &str = "app.kubernetes.io/name";
const LABEL_PART_OF: &str = "app.kubernetes.io/part-of";
const PRODUCT: &str = "petracache";

/// What an object is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Nodes.
    Node,
    /// Routers.
    Router,
}

impl Component {
    /// Value of the component label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Router => "router",
        }
    }
}

/// The names of one region's objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionNames {
    cluster: String,
    region: String,
}

impl RegionNames {
    /// The names for `region` of the PetraCluster `cluster`.
    pub fn new(cluster: &str, region: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            region: region.to_owned(),
        }
    }

    /// Name of the region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Name of the cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// StatefulSet, headless Service and PodDisruptionBudget of the nodes.
    pub fn nodes(&self) -> String {
        format!("{}-{}", self.cluster, self.region)
    }

    /// ConfigMap of the router configuration.
    pub fn config_map(&self) -> String {
        format!("{}-mcrouter", self.nodes())
    }

    /// Deployment or DaemonSet, Service and PodDisruptionBudget of the routers.
    pub fn router(&self) -> String {
        format!("{}-router", self.nodes())
    }

    /// The server that routers know node `ordinal` by: an absolute name, so that no search list is tried.
    pub fn server(&self, ordinal: usize, namespace: &str, cluster_domain: &str) -> String {
        let nodes = self.nodes();
        format!("{nodes}-{ordinal}.{nodes}.{namespace}.svc.{cluster_domain}.:{MEMCACHED_PORT}")
    }

    /// Labels of every object of `component`, and of its pods.
    pub fn labels(&self, component: Component) -> BTreeMap<String, String> {
        let mut labels = self.selector_labels(component);
        labels.insert(LABEL_MANAGED_BY.into(), MANAGER.into());
        labels.insert(LABEL_PART_OF.into(), PRODUCT.into());
        labels
    }

    /// The labels that tell the pods of `component` from all others.
    pub fn selector_labels(&self, component: Component) -> BTreeMap<String, String> {
        [
            (LABEL_NAME, PRODUCT),
            (LABEL_INSTANCE, &self.cluster),
            (LABEL_COMPONENT, component.as_str()),
            (LABEL_REGION, &self.region),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    /// Selects the pods of `component`.
    pub fn selector(&self, component: Component) -> LabelSelector {
        LabelSelector {
            match_labels: Some(self.selector_labels(component)),
            ..LabelSelector::default()
        }
    }
}

/// A selector as text, as the scale subresource wants it.
pub fn selector_text(labels: &BTreeMap<String, String>) -> String {
    labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_cluster_and_region() {
        let names = RegionNames::new("sessions", "istanbul");
        assert_eq!(names.nodes(), "sessions-istanbul");
        assert_eq!(names.config_map(), "sessions-istanbul-mcrouter");
        assert_eq!(names.router(), "sessions-istanbul-router");
    }

    #[test]
    fn a_server_is_an_absolute_name() {
        let names = RegionNames::new("sessions", "istanbul");
        assert_eq!(
            names.server(2, "cache", "cluster.local"),
            "sessions-istanbul-2.sessions-istanbul.cache.svc.cluster.local.:11211"
        );
    }

    #[test]
    fn the_longest_names_that_the_api_server_accepts_fit_a_label() {
        // The rule in crd.rs: both names together are at most 51 characters.
        let names = RegionNames::new(&"c".repeat(25), &"r".repeat(26));
        assert_eq!(names.nodes().len(), 52);
        // controller-revision-hash is the StatefulSet's name, a dash and ten characters.
        assert!(names.nodes().len() + 11 <= 63);
        assert!(names.config_map().len() <= 63);
        assert!(names.router().len() <= 63);
        assert!(format!("{}-99", names.nodes()).len() <= 63);
    }

    #[test]
    fn nodes_and_routers_are_told_apart_by_their_selectors() {
        let names = RegionNames::new("sessions", "istanbul");
        assert_ne!(
            names.selector_labels(Component::Node),
            names.selector_labels(Component::Router)
        );
        assert_eq!(
            selector_text(&names.selector_labels(Component::Node)),
            "app.kubernetes.io/component=node,app.kubernetes.io/instance=sessions,\
             app.kubernetes.io/name=petracache,petracache.io/region=istanbul"
        );
    }
}
