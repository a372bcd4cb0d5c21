//! No client. The routers' configuration of one region: pools, and who is asked for what.
//!
//! ```text
//!  get, metaget, gat        failover: own region first with `reads: local`, else the primary; then the other regions
//!  lease-get, lease-set     the same, so that a lease's token goes back to the node that gave it
//!  set                      every region (or the primary): answered by the primary, or when all have it
//!  delete                   every region, each at the key's own node: answered when all did, or by the primary
//!  touch                    every region, answered by the primary
//!  everything else          failover from the primary
//! ```
//!
//! A region is `pool` (its nodes), wrapped so that the keys of a node that is down go to the others of the pool, each
//! key to another one, with a short exptime: a `FailoverRoute` whose children are the pool and then each of its nodes
//! by itself (`pool.0`, `pool.1`, ...), in the order of [`FailoverPolicy::DeterministicOrderPolicy`].
//!
//! What the route language cannot say:
//! - `add`, `replace`, `append`, `prepend`, `incr`, `decr` and `cas` change only the region that answers, because no
//!   route handle turns one operation into another (a `delete` elsewhere) or sends on the result. Other regions keep
//!   what they had until it expires, is set or is deleted. A `set` or `delete` of the key puts all right again.
//! - `gets` and `gats` always start at the primary: a cas token is only good on the node that gave it, and `cas` goes
//!   there.
//! - `lease-set` fills only the region that gave the lease: with `reads: local` the primary does not get that value.
//! - While a node is down its keys' deletes fail, and say so. They do not go to the node that stands in for it,
//!   because the one that is down would keep the old value and nobody would know. The stand-in's copy ends with its
//!   short exptime.

use petra_routing::Config;
use petra_routing::config::{
    Children, Failover, FailoverErrors, FailoverPolicy, Hash, ModifyExptime, OperationSelector,
    Pool, PoolRef, PoolRoute, RouteHandle,
};

use super::{Layouts, layout_of};
use crate::controller::validate::{ValidatedCluster, ValidatedRegion, ValidatedRouting};
use crate::crd::{DeletePolicy, ReadPolicy, WritePolicy};

/// Answers on which another node is asked: those that say that a node is away, not that it refuses a request.
const FAILOVER_ERRORS: [&str; 5] = ["connect_error", "connect_timeout", "timeout", "tko", "busy"];

/// The configuration as the routers of `own` need it.
pub(super) fn config(
    cluster: &ValidatedCluster,
    own: &ValidatedRegion,
    layouts: &Layouts,
) -> Config {
    let regions: Vec<RegionRoutes> = cluster
        .regions
        .iter()
        .map(|region| RegionRoutes::new(cluster, own, region, layouts))
        .collect();
    let pools = regions
        .iter()
        .flat_map(|region| region.pools.clone())
        .collect();
    Config {
        pools,
        route: Some(route(&cluster.routing, own, &regions)),
        routes: None,
    }
}

/// How many servers the pool of `region` has in `config`; none where there is no such pool.
pub fn pool_size(config: &Config, region: &str) -> Option<i32> {
    config
        .pools
        .get(region)
        .and_then(|pool| i32::try_from(pool.servers.len()).ok())
}

/// `host:port` of the servers that keys of `region` are hashed to.
pub fn servers(config: &Config, region: &str) -> Vec<String> {
    config
        .pools
        .get(region)
        .map(|pool| pool.servers.clone())
        .unwrap_or_default()
}

fn route(
    routing: &ValidatedRouting,
    own: &ValidatedRegion,
    regions: &[RegionRoutes],
) -> RouteHandle {
    let from_primary = failover(
        regions
            .iter()
            .map(|region| region.with_stand_ins.clone())
            .collect(),
    );
    let mut operation_policies = std::collections::BTreeMap::from([
        (
            "set".to_owned(),
            set(routing.writes, &from_primary, regions),
        ),
        ("delete".to_owned(), delete(routing.deletes, regions)),
        ("touch".to_owned(), all_initial(&from_primary, regions)),
    ]);
    let reads = reads(routing, own, regions);
    let primary_reads = reads_in_order(routing, regions.iter());
    for (operation, route) in [
        ("get", &reads),
        ("gat", &reads),
        ("metaget", &reads),
        ("lease-get", &reads),
        ("lease-set", &reads),
        ("gets", &primary_reads),
        ("gats", &primary_reads),
    ] {
        // What is as the default needs no line of its own: the file stays a third as long.
        if *route != from_primary {
            operation_policies.insert(operation.to_owned(), route.clone());
        }
    }
    RouteHandle::OperationSelector(OperationSelector {
        default_policy: Some(Box::new(from_primary)),
        operation_policies,
    })
}

fn reads(
    routing: &ValidatedRouting,
    own: &ValidatedRegion,
    regions: &[RegionRoutes],
) -> RouteHandle {
    let is_own = |region: &&RegionRoutes| region.name == own.names.region;
    match routing.reads {
        ReadPolicy::Primary => reads_in_order(routing, regions.iter()),
        ReadPolicy::Local => {
            let others = regions.iter().filter(|region| !is_own(region));
            reads_in_order(routing, regions.iter().filter(is_own).chain(others))
        }
    }
}

fn reads_in_order<'a>(
    routing: &ValidatedRouting,
    regions: impl Iterator<Item = &'a RegionRoutes>,
) -> RouteHandle {
    let asked = if routing.read_failover { usize::MAX } else { 1 };
    failover(
        regions
            .take(asked)
            .map(|region| region.with_stand_ins.clone())
            .collect(),
    )
}

fn set(policy: WritePolicy, from_primary: &RouteHandle, regions: &[RegionRoutes]) -> RouteHandle {
    match policy {
        WritePolicy::AllInitial => all_initial(from_primary, regions),
        WritePolicy::AllSync => one_or(
            RouteHandle::AllSync,
            each(regions, |region| &region.with_stand_ins),
        ),
        WritePolicy::PrimaryOnly => from_primary.clone(),
    }
}

/// Each region at the key's own node, see the file's head.
fn delete(policy: DeletePolicy, regions: &[RegionRoutes]) -> RouteHandle {
    let handle = match policy {
        DeletePolicy::AllSync => RouteHandle::AllSync,
        DeletePolicy::AllInitial => RouteHandle::AllInitial,
    };
    one_or(handle, each(regions, |region| &region.pool))
}

/// The primary, with failover inside so that a dead node is no error to the client, and every other region behind it.
fn all_initial(from_primary: &RouteHandle, regions: &[RegionRoutes]) -> RouteHandle {
    let mut children = vec![from_primary.clone()];
    children.extend(each(&regions[1..], |region| &region.with_stand_ins));
    one_or(RouteHandle::AllInitial, children)
}

fn each(
    regions: &[RegionRoutes],
    route: impl Fn(&RegionRoutes) -> &RouteHandle,
) -> Vec<RouteHandle> {
    regions.iter().map(|region| route(region).clone()).collect()
}

fn failover(children: Vec<RouteHandle>) -> RouteHandle {
    one_or(
        |Children { children }| {
            RouteHandle::Failover(Failover {
                children,
                failover_errors: Some(failover_errors()),
                ..Failover::default()
            })
        },
        children,
    )
}

/// `handle` over the children, or the only child by itself.
fn one_or(handle: impl Fn(Children) -> RouteHandle, mut children: Vec<RouteHandle>) -> RouteHandle {
    if children.len() == 1 {
        children.remove(0)
    } else {
        handle(Children { children })
    }
}

fn failover_errors() -> FailoverErrors {
    FailoverErrors::All(FAILOVER_ERRORS.map(str::to_owned).to_vec())
}

/// One region's pools and the routes to it.
struct RegionRoutes {
    name: String,
    /// The region's own pool, and one of a single server for each of its nodes where they stand in for each other.
    pools: Vec<(String, Pool)>,
    /// The key's own node.
    pool: RouteHandle,
    /// The key's own node, or another of the region while that is down.
    with_stand_ins: RouteHandle,
}

impl RegionRoutes {
    fn new(
        cluster: &ValidatedCluster,
        own: &ValidatedRegion,
        region: &ValidatedRegion,
        layouts: &Layouts,
    ) -> Self {
        let routing = &cluster.routing;
        let name = region.names.region.clone();
        let is_own = name == own.names.region;
        // In the file and not on the command line, so that a change needs no restart of routers.
        let server_timeout_ms = if is_own {
            routing.server_timeout_ms
        } else {
            routing.cross_region_timeout_ms
        };
        let pool_of = |servers: Vec<String>| Pool {
            servers,
            server_timeout: Some(server_timeout_ms),
            connect_timeout: Some(routing.connect_timeout_ms),
            region: Some(name.clone()),
            cluster: Some(cluster.name.clone()),
            ..Pool::default()
        };
        let servers: Vec<String> = (0..layout_of(region, layouts).servers)
            .map(|ordinal| region.server(ordinal))
            .collect();
        let pool = hashed_pool(&name, &routing.salt);
        let mut pools = vec![(name.clone(), pool_of(servers.clone()))];
        let with_stand_ins = match routing.pool_failover_exptime {
            Some(exptime) if servers.len() > 1 => {
                let stand_ins = (0..servers.len()).map(|ordinal| format!("{name}.{ordinal}"));
                let route = with_stand_ins(pool.clone(), stand_ins.clone(), exptime);
                pools
                    .extend(stand_ins.zip(servers.into_iter().map(|server| pool_of(vec![server]))));
                route
            }
            _ => pool.clone(),
        };
        Self {
            name,
            pools,
            pool,
            with_stand_ins,
        }
    }
}

fn hashed_pool(name: &str, salt: &str) -> RouteHandle {
    let hash = Hash {
        hash_func: Some("Ch3".to_owned()),
        salt: salt.to_owned(),
    };
    RouteHandle::Pool(PoolRoute {
        pool: PoolRef::Name(name.to_owned()),
        hash: Some(hash).filter(|_| !salt.is_empty()),
    })
}

/// `pool`, and each of its nodes by itself in an order of its own for each key.
///
/// The policy skips the node that the pool picked, so that as many tries as nodes reach every one of them, and a
/// single one that is left still gets every key. It draws by hashing, at most a hundred times per try: where all but
/// one of dozens of nodes are down, some keys do not find it and go to the next region.
fn with_stand_ins(
    pool: RouteHandle,
    stand_ins: impl Iterator<Item = String>,
    exptime: i64,
) -> RouteHandle {
    let stand_in = |name| {
        RouteHandle::ModifyExptime(ModifyExptime {
            target: Box::new(RouteHandle::pool(name)),
            exptime,
            // The shorter of the two, so that a write never lives longer than its client wanted.
            action: Some("min".to_owned()),
        })
    };
    let mut children = vec![pool];
    children.extend(stand_ins.map(stand_in));
    let nodes = children.len() - 1;
    RouteHandle::Failover(Failover {
        children,
        failover_errors: Some(failover_errors()),
        failover_policy: Some(FailoverPolicy::DeterministicOrderPolicy {
            max_tries: nodes,
            max_error_tries: nodes,
        }),
        ..Failover::default()
    })
}

#[cfg(test)]
mod tests;
