//! No client. The spec, parsed once into values that need no further check.
//!
//! What the custom resource's own rules refuse does not get here from a real API server; what only the operator
//! can see (its region, its images, who owns a name) is refused here, and `SpecValid` says why.

use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};

use super::layout::Pace;
use crate::crd::{
    Auth, ByteSize, DeletePolicy, DurabilityMode, NetworkPolicy, PetraCluster, ReadPolicy,
    RouterMode, ScalingMode, Scheduling, UnitError, VolumePolicy, WritePolicy,
};
use crate::names::RegionNames;

mod security;

pub use security::{Certificates, ValidatedTls};

/// The shortest `--keep-for` that a node takes.
const MIN_KEEP_FOR: Duration = Duration::from_secs(1);
/// The longest `--flush-interval` that a node takes.
const MAX_FLUSH_INTERVAL: Duration = Duration::from_secs(3600);

/// The smallest and the largest `--max-item-size` that a node takes.
const MIN_ITEM_SIZE: u64 = 1 << 10;
const MAX_ITEM_SIZE: u64 = 1 << 30;

/// What the operator was started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The one region to build; all of them when missing.
    pub region: Option<String>,
    /// Domain of the Kubernetes cluster's Services.
    pub cluster_domain: String,
    /// Image of nodes whose spec names none.
    pub node_image: String,
    /// Image of routers whose spec names none.
    pub router_image: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            region: None,
            cluster_domain: "cluster.local".to_owned(),
            node_image: concat!("docker.io/petracache/node:", env!("CARGO_PKG_VERSION")).to_owned(),
            router_image: None,
        }
    }
}

/// A `PetraCluster` that can be built.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidatedCluster {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// What everything that is built is owned by; missing for a file that no API server has seen.
    pub owner: Option<OwnerReference>,
    /// Whether nothing may be written.
    pub paused: bool,
    /// In failover order, at least one.
    pub regions: Vec<ValidatedRegion>,
    /// What a node is.
    pub node: ValidatedNode,
    /// What the routers' configuration says.
    pub routing: ValidatedRouting,
    /// How routers are run.
    pub router: ValidatedRouter,
    /// How regions grow and shrink.
    pub scaling: Pace,
    /// Who may connect.
    pub network: NetworkPolicy,
    /// How connections are encrypted, if they are.
    pub tls: Option<ValidatedTls>,
    /// The users of nodes, if anybody needs to log in.
    pub auth: Option<Auth>,
    /// Whether there are routers that the operator does not run: beside applications, or in other Kubernetes clusters.
    pub has_unseen_routers: bool,
}

/// A region.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidatedRegion {
    /// Names of its objects.
    pub names: RegionNames,
    /// Nodes that are wanted.
    pub replicas: i32,
    /// Who builds it.
    pub place: Place,
}

/// Where a region is built.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// Here, on these machines.
    Here(Scheduling),
    /// In another Kubernetes cluster; `host:port` with `{ordinal}`.
    Elsewhere(String),
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidatedNode {
    /// Its image.
    pub image: String,
    /// When that is pulled.
    pub image_pull_policy: Option<String>,
    /// Processor and memory.
    pub resources: Option<ResourceRequirements>,
    /// Size of its volume, as written.
    pub storage_size: ByteSize,
    /// Class of its volume.
    pub storage_class_name: Option<String>,
    /// What becomes of volumes with the region.
    pub when_deleted: VolumePolicy,
    /// What becomes of volumes of nodes that are scaled away.
    pub when_scaled: VolumePolicy,
    /// When an acknowledged write is safe.
    pub durability: DurabilityMode,
    /// How often the log is written, as written.
    pub flush_interval: String,
    /// The largest item in bytes.
    pub max_item_size: u64,
    /// What a node may take of its volume, as written.
    pub disk_quota: String,
    /// How long a node may be away without starting empty, as written.
    pub keep_for: String,
}

/// What the routers' configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatedRouting {
    /// Which region is read first.
    pub reads: ReadPolicy,
    /// Whether the others are read after it.
    pub read_failover: bool,
    /// Which regions `set` waits for.
    pub writes: WritePolicy,
    /// Which regions `delete` waits for.
    pub deletes: DeletePolicy,
    /// Seconds that an item lives on a node in place of another; no failover within a region when missing.
    pub pool_failover_exptime: Option<i64>,
    /// Wait for a connection.
    pub connect_timeout_ms: u64,
    /// Wait for an answer within the region.
    pub server_timeout_ms: u64,
    /// Wait for an answer from another region.
    pub cross_region_timeout_ms: u64,
    /// Appended to keys before hashing.
    pub salt: String,
}

/// How routers are run.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidatedRouter {
    /// What runs them; with its image where something does.
    pub mode: RouterMode,
    /// Image; empty in mode none.
    pub image: String,
    /// When that is pulled.
    pub image_pull_policy: Option<String>,
    /// How many in mode deployment.
    pub replicas: i32,
    /// Processor and memory.
    pub resources: Option<ResourceRequirements>,
    /// Further arguments.
    pub extra_args: Vec<String>,
}

/// Why a spec cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSpec {
    /// No region at all.
    #[error("spec.regions is empty: add at least one region, for instance {{name: main}}")]
    NoRegions,
    /// The operator's region is not among them.
    #[error(
        "this operator builds region {region:?}, which spec.regions does not have ({known}): add it, or start the operator with the --region of one of them"
    )]
    RegionMissing {
        /// Region that the operator builds.
        region: String,
        /// Regions of the spec.
        known: String,
    },
    /// A region that is built elsewhere cannot be reached.
    #[error(
        "region {0:?} is built in another Kubernetes cluster and needs spec.regions[].remote.address to be reached: add it, with {{ordinal}} in place of a node's number"
    )]
    RemoteMissing(String),
    /// There is nothing to build.
    #[error(
        "every region has `remote`, so that none is built here: remove `remote` from the region of this Kubernetes cluster, or start the operator with --region"
    )]
    NothingToBuild,
    /// A quantity that cannot be read.
    #[error("{field}: {source}")]
    Unit {
        /// Field of the spec.
        field: &'static str,
        /// What is wrong with it.
        source: UnitError,
    },
    /// A quantity that a node refuses.
    #[error("{field} must be {allowed}, which is what a node takes: write such a value")]
    OutOfRange {
        /// Field of the spec.
        field: &'static str,
        /// What a node takes.
        allowed: &'static str,
    },
    /// Routers without an image.
    #[error(
        "spec.router.image is missing and the operator has no default: set it, start the operator with --router-image, or set spec.router.mode to none"
    )]
    RouterImageMissing,
    /// No source of certificates, or two.
    #[error(
        "spec.tls must name one source of certificates: set either spec.tls.secretName or spec.tls.certManager.issuerRef"
    )]
    CertificatesUnclear,
    /// Users of nodes that mcrouter would have to be.
    #[error(
        "spec.auth needs spec.router.mode none, because mcrouter cannot log in: set it, or remove spec.auth and set spec.tls, whose client certificates let routers in and nobody else"
    )]
    RoutersCannotLogIn,
    /// Too large for a `ConfigMap`.
    #[error(
        "the routers' configuration would have {bytes} bytes, more than the {limit} that a ConfigMap holds: use fewer nodes or regions, or turn off spec.routing.poolFailover"
    )]
    ConfigTooLarge {
        /// Its size.
        bytes: usize,
        /// The most that is possible.
        limit: usize,
    },
}

/// Checks and parses `cluster`.
///
/// # Errors
///
/// The first thing that keeps the cluster from being built.
pub fn validate(
    cluster: &PetraCluster,
    settings: &Settings,
) -> Result<ValidatedCluster, InvalidSpec> {
    let name = cluster.name_any();
    let namespace = cluster.namespace().unwrap_or_else(|| "default".to_owned());
    let regions = regions(cluster, settings, &name, &namespace)?;
    Ok(ValidatedCluster {
        owner: cluster.controller_owner_ref(&()),
        paused: cluster.spec.paused,
        regions,
        node: node(cluster, settings)?,
        routing: routing(cluster)?,
        router: router(cluster, settings)?,
        scaling: scaling(cluster)?,
        network: cluster.spec.network_policy.clone(),
        tls: security::tls(&cluster.spec)?,
        auth: security::auth(&cluster.spec)?,
        has_unseen_routers: has_unseen_routers(cluster),
        name,
        namespace,
    })
}

impl ValidatedCluster {
    /// Regions that are built here.
    pub fn built(&self) -> impl Iterator<Item = &ValidatedRegion> {
        self.regions.iter().filter(|region| region.is_built())
    }
}

impl ValidatedRegion {
    /// Whether it is built here.
    pub fn is_built(&self) -> bool {
        matches!(self.place, Place::Here(_))
    }

    /// `host:port` of a node.
    pub fn server(&self, ordinal: i32) -> String {
        match &self.place {
            Place::Here(_) => self.names.server(ordinal),
            Place::Elsewhere(address) => address.replace("{ordinal}", &ordinal.to_string()),
        }
    }
}

fn regions(
    cluster: &PetraCluster,
    settings: &Settings,
    name: &str,
    namespace: &str,
) -> Result<Vec<ValidatedRegion>, InvalidSpec> {
    let spec = &cluster.spec;
    if spec.regions.is_empty() {
        return Err(InvalidSpec::NoRegions);
    }
    if let Some(ours) = &settings.region
        && !spec.regions.iter().any(|region| region.name == *ours)
    {
        let known: Vec<&str> = spec
            .regions
            .iter()
            .map(|region| region.name.as_str())
            .collect();
        return Err(InvalidSpec::RegionMissing {
            region: ours.clone(),
            known: known.join(", "),
        });
    }
    let mut regions = Vec::new();
    for region in &spec.regions {
        let here = settings
            .region
            .as_ref()
            .map_or(region.remote.is_none(), |ours| *ours == region.name);
        let place = match &region.remote {
            _ if here => Place::Here(region.scheduling.clone().unwrap_or_default()),
            Some(remote) => Place::Elsewhere(remote.address.clone()),
            None => return Err(InvalidSpec::RemoteMissing(region.name.clone())),
        };
        regions.push(ValidatedRegion {
            names: RegionNames {
                cluster: name.to_owned(),
                namespace: namespace.to_owned(),
                region: region.name.clone(),
                cluster_domain: settings.cluster_domain.clone(),
            },
            replicas: region.replicas.unwrap_or(spec.replicas),
            place,
        });
    }
    if regions.iter().any(ValidatedRegion::is_built) {
        Ok(regions)
    } else {
        Err(InvalidSpec::NothingToBuild)
    }
}

fn node(cluster: &PetraCluster, settings: &Settings) -> Result<ValidatedNode, InvalidSpec> {
    let node = &cluster.spec.node;
    let interval = node
        .durability
        .interval
        .parse()
        .map_err(in_field("spec.node.durability.interval"))?;
    if interval > MAX_FLUSH_INTERVAL {
        let field = "spec.node.durability.interval";
        return Err(InvalidSpec::OutOfRange {
            field,
            allowed: "at most 1h",
        });
    }
    let max_item_size = node
        .max_item_size
        .parse()
        .map_err(in_field("spec.node.maxItemSize"))?;
    if !(MIN_ITEM_SIZE..=MAX_ITEM_SIZE).contains(&max_item_size) {
        let field = "spec.node.maxItemSize";
        return Err(InvalidSpec::OutOfRange {
            field,
            allowed: "between 1Ki and 1Gi",
        });
    }
    node.storage
        .size
        .parse()
        .map_err(in_field("spec.node.storage.size"))?;
    let keep_for = node
        .rejoin
        .keep_for
        .parse()
        .map_err(in_field("spec.node.rejoin.keepFor"))?;
    if keep_for < MIN_KEEP_FOR {
        let field = "spec.node.rejoin.keepFor";
        return Err(InvalidSpec::OutOfRange {
            field,
            allowed: "at least 1s",
        });
    }
    Ok(ValidatedNode {
        image: node
            .image
            .clone()
            .unwrap_or_else(|| settings.node_image.clone()),
        image_pull_policy: node.image_pull_policy.clone(),
        resources: node.resources.clone(),
        storage_size: node.storage.size.clone(),
        storage_class_name: node.storage.storage_class_name.clone(),
        when_deleted: node.storage.when_deleted,
        when_scaled: node.storage.when_scaled,
        durability: node.durability.mode,
        flush_interval: node.durability.interval.0.clone(),
        max_item_size,
        disk_quota: node.disk_quota.clone(),
        keep_for: node.rejoin.keep_for.0.clone(),
    })
}

fn routing(cluster: &PetraCluster) -> Result<ValidatedRouting, InvalidSpec> {
    let routing = &cluster.spec.routing;
    let ms = |period: &crate::crd::Period, field| {
        period
            .parse()
            .map(|period| u64::try_from(period.as_millis()).unwrap_or(u64::MAX))
            .map_err(in_field(field))
    };
    let exptime_ms = ms(
        &routing.pool_failover.exptime,
        "spec.routing.poolFailover.exptime",
    )?;
    // memcached reads more than 30 days as a date; whole seconds, because 0 would be for ever.
    let exptime = i64::try_from(exptime_ms.div_ceil(1000).min(30 * 24 * 3600)).unwrap_or(1);
    Ok(ValidatedRouting {
        reads: routing.reads.policy,
        read_failover: routing.reads.failover,
        writes: routing.writes.policy,
        deletes: routing.deletes.policy,
        pool_failover_exptime: routing.pool_failover.enabled.then_some(exptime),
        connect_timeout_ms: ms(&routing.timeouts.connect, "spec.routing.timeouts.connect")?,
        server_timeout_ms: ms(&routing.timeouts.server, "spec.routing.timeouts.server")?,
        cross_region_timeout_ms: ms(
            &routing.timeouts.cross_region,
            "spec.routing.timeouts.crossRegion",
        )?,
        salt: routing.hash.salt.clone(),
    })
}

fn router(cluster: &PetraCluster, settings: &Settings) -> Result<ValidatedRouter, InvalidSpec> {
    let router = &cluster.spec.router;
    let image = router
        .image
        .clone()
        .or_else(|| settings.router_image.clone());
    let image = match router.mode {
        RouterMode::None => String::new(),
        RouterMode::Deployment | RouterMode::Daemonset => {
            image.ok_or(InvalidSpec::RouterImageMissing)?
        }
    };
    Ok(ValidatedRouter {
        mode: router.mode,
        image,
        image_pull_policy: router.image_pull_policy.clone(),
        replicas: router.replicas,
        resources: router.resources.clone(),
        extra_args: router.extra_args.clone(),
    })
}

/// The time that a router needs at most to learn of a new configuration from a kubelet, when nobody makes it look.
const UNSEEN_ROUTERS: Duration = Duration::from_secs(120);

fn scaling(cluster: &PetraCluster) -> Result<Pace, InvalidSpec> {
    let spec = &cluster.spec;
    let window = spec
        .scaling
        .window
        .parse()
        .map_err(in_field("spec.scaling.window"))?;
    let slowest_answer = spec
        .routing
        .timeouts
        .cross_region
        .parse()
        .map_err(in_field("spec.routing.timeouts.crossRegion"))?;
    Ok(Pace {
        window: match spec.scaling.mode {
            ScalingMode::Warm => Some(window),
            ScalingMode::Immediate => Some(Duration::ZERO),
        },
        drain: slowest_answer
            + if has_unseen_routers(cluster) {
                UNSEEN_ROUTERS
            } else {
                Duration::ZERO
            },
    })
}

/// Routers that cannot be asked what they run.
fn has_unseen_routers(cluster: &PetraCluster) -> bool {
    let spec = &cluster.spec;
    spec.router.mode == RouterMode::None
        || spec.regions.iter().any(|region| region.remote.is_some())
}

fn in_field(field: &'static str) -> impl Fn(UnitError) -> InvalidSpec {
    move |source| InvalidSpec::Unit { field, source }
}

#[cfg(test)]
mod tests;
