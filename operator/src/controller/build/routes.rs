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
//! A region whose size changes has two layouts for a while, and a second pool, `pool.next`, `pool.warm` or `pool.last`. Who is
//! asked for what then, and why, is said in [`crate::controller::layout::used`]. What changes a value in place (`incr`, `append`,
//! ...) must not reach a node twice, so to the second layout it goes through a `HashRoute` over the larger of the two: of
//! the nodes that both have, which keep their keys, it knows nothing, and of the others it knows where the key is.
//!
//! What the route language cannot say:
//! - While a region has two layouts, a `delete` is answered NOT_FOUND when only one of them had the key, or when its node stays
//!   the same, because that is asked twice.
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
    Children, Failover, FailoverErrors, FailoverPolicy, Hash, HashRoute, ModifyExptime,
    OperationSelector, Pool, PoolRef, PoolRoute, RouteHandle, WarmUp,
};

use super::{Layouts, layout_of};
use crate::controller::layout::{Beside, Used};
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
        // A region that is new is used when its nodes are there.
        .filter(|region| layout_of(region, layouts).used.servers > 0)
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

/// What `config` uses of `region`.
pub fn used(config: &Config, region: &str) -> Used {
    let size = |pool: &str| {
        let pool = config.pools.get(pool)?;
        i32::try_from(pool.servers.len()).ok()
    };
    let beside = |beside: fn(i32) -> Beside| {
        let pool = second_pool(region, beside(0));
        size(&pool).map(beside)
    };
    Used {
        servers: size(region).unwrap_or(0),
        beside: beside(Beside::Next)
            .or_else(|| beside(Beside::Warm))
            .or_else(|| beside(Beside::Last)),
    }
}

/// The pool of the other layout. A region's name has no dot.
fn second_pool(region: &str, beside: Beside) -> String {
    let what = match beside {
        Beside::Next(_) => "next",
        Beside::Warm(_) => "warm",
        Beside::Last(_) => "last",
    };
    format!("{region}.{what}")
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
    let from_primary = failover(each(regions, |region| &region.reads));
    let mut operation_policies = std::collections::BTreeMap::from([
        ("set".to_owned(), set(routing.writes, regions)),
        ("delete".to_owned(), delete(routing.deletes, regions)),
        (
            "touch".to_owned(),
            all_initial(regions, |region| &region.touches),
        ),
    ]);
    let reads = reads(routing, own, regions);
    let primary_reads = reads_in_order(routing, regions.iter());
    let counts = failover(each(regions, |region| &region.counts));
    let adds = failover(each(regions, |region| &region.adds));
    let cas = failover(each(regions, |region| &region.cas));
    for (operation, route) in [
        ("append", &counts),
        ("prepend", &counts),
        ("replace", &counts),
        ("incr", &counts),
        ("decr", &counts),
        ("add", &adds),
        ("cas", &cas),
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
            .map(|region| region.reads.clone())
            .collect(),
    )
}

fn set(policy: WritePolicy, regions: &[RegionRoutes]) -> RouteHandle {
    match policy {
        WritePolicy::AllInitial => all_initial(regions, |region| &region.sets),
        WritePolicy::AllSync => one_or(RouteHandle::AllSync, each(regions, |region| &region.sets)),
        WritePolicy::PrimaryOnly => failover(each(regions, |region| &region.sets)),
    }
}

/// Each region at the key's own node, see the file's head.
fn delete(policy: DeletePolicy, regions: &[RegionRoutes]) -> RouteHandle {
    let handle = match policy {
        DeletePolicy::AllSync => RouteHandle::AllSync,
        DeletePolicy::AllInitial => RouteHandle::AllInitial,
    };
    one_or(handle, each(regions, |region| &region.deletes))
}

/// The primary, with failover inside so that a dead node is no error to the client, and every other region behind it.
fn all_initial(
    regions: &[RegionRoutes],
    route: impl Fn(&RegionRoutes) -> &RouteHandle,
) -> RouteHandle {
    let mut children = vec![failover(each(regions, &route))];
    children.extend(each(regions, &route).into_iter().skip(1));
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
    /// The region's own pool, that of its other layout, and one of a single server for each of its nodes where they stand
    /// in for each other, or where another layout does not have them.
    pools: Vec<(String, Pool)>,
    /// Also for every operation that is not named below.
    reads: RouteHandle,
    sets: RouteHandle,
    deletes: RouteHandle,
    touches: RouteHandle,
    /// What changes a value in place.
    counts: RouteHandle,
    adds: RouteHandle,
    cas: RouteHandle,
}

/// One layout of a region.
#[derive(Clone)]
struct LayoutRoutes {
    /// The key's own node.
    pool: RouteHandle,
    /// The key's own node, or another of the region while that is down.
    with_stand_ins: RouteHandle,
    /// The key's own node, if that is another one than in the other layout.
    if_moved: RouteHandle,
}

impl RegionRoutes {
    fn new(
        cluster: &ValidatedCluster,
        own: &ValidatedRegion,
        region: &ValidatedRegion,
        layouts: &Layouts,
    ) -> Self {
        let name = &region.names.region;
        let used = layout_of(region, layouts).used;
        let mut pools = Vec::new();
        let mut add = |pool: String, nodes: std::ops::Range<i32>| {
            let servers = nodes.map(|ordinal| region.server(ordinal)).collect();
            pools.push((pool, self::pool(cluster, own, region, servers)));
        };
        add(name.clone(), 0..used.servers);
        if let Some(beside) = used.beside {
            add(second_pool(name, beside), 0..beside.servers());
        }
        let in_both = used
            .beside
            .map_or(used.most(), |beside| used.servers.min(beside.servers()));
        let alone = match cluster.routing.pool_failover_exptime {
            Some(_) if used.most() > 1 => 0..used.most(),
            _ => in_both..used.most(),
        };
        for ordinal in alone {
            add(stand_in(name, ordinal), ordinal..ordinal + 1);
        }
        let layout = |pool: &str, servers, others| {
            LayoutRoutes::new(&cluster.routing, name, pool, servers, others)
        };
        let Some(beside) = used.beside else {
            let only = layout(name, used.servers, used.servers);
            return Self::settled(name.clone(), pools, only);
        };
        let main = layout(name, used.servers, beside.servers());
        let other = layout(&second_pool(name, beside), beside.servers(), used.servers);
        Self::with_both(
            beside,
            &main,
            &other,
            Self::settled(name.clone(), pools, main.clone()),
        )
    }

    fn settled(name: String, pools: Vec<(String, Pool)>, layout: LayoutRoutes) -> Self {
        let route = layout.with_stand_ins;
        Self {
            name,
            pools,
            sets: route.clone(),
            touches: route.clone(),
            counts: route.clone(),
            adds: route.clone(),
            cas: route.clone(),
            reads: route,
            deletes: layout.pool,
        }
    }

    /// What differs from `settled`, in which only `main` is used.
    fn with_both(beside: Beside, main: &LayoutRoutes, other: &LayoutRoutes, settled: Self) -> Self {
        let both = |first: &RouteHandle, second: &RouteHandle| Children {
            children: vec![first.clone(), second.clone()],
        };
        let routes = Self {
            sets: RouteHandle::AllSync(both(&main.with_stand_ins, &other.with_stand_ins)),
            deletes: RouteHandle::AllSync(both(&main.pool, &other.pool)),
            touches: RouteHandle::AllInitial(both(&main.with_stand_ins, &other.with_stand_ins)),
            ..settled
        };
        match beside {
            Beside::Next(_) => Self {
                counts: RouteHandle::AllInitial(both(&main.with_stand_ins, &other.if_moved)),
                cas: other.with_stand_ins.clone(),
                ..routes
            },
            Beside::Warm(_) => {
                let reads = RouteHandle::WarmUp(WarmUp {
                    cold: Box::new(main.with_stand_ins.clone()),
                    warm: Box::new(other.with_stand_ins.clone()),
                    exptime: None,
                    enable_metaget: Some(true),
                });
                Self {
                    // It has every item that was ever set.
                    touches: RouteHandle::AllInitial(both(
                        &other.with_stand_ins,
                        &main.with_stand_ins,
                    )),
                    counts: RouteHandle::AllInitial(both(&other.with_stand_ins, &main.if_moved)),
                    adds: other.with_stand_ins.clone(),
                    // Goes to the new layout, where `gets` took its number from.
                    cas: reads.clone(),
                    reads,
                    ..routes
                }
            }
            Beside::Last(_) => Self {
                adds: RouteHandle::AllInitial(both(&main.with_stand_ins, &other.if_moved)),
                ..routes
            },
        }
    }
}

impl LayoutRoutes {
    /// The layout of `nodes` nodes, beside which there is one of `others`.
    fn new(routing: &ValidatedRouting, region: &str, pool: &str, nodes: i32, others: i32) -> Self {
        let pool = hashed_pool(pool, &routing.salt);
        let with_stand_ins = match routing.pool_failover_exptime {
            Some(exptime) if nodes > 1 => {
                let stand_ins = (0..nodes).map(|ordinal| stand_in(region, ordinal));
                with_stand_ins(pool.clone(), stand_ins, exptime)
            }
            _ => pool.clone(),
        };
        let child = |index: i32| match index {
            _ if index < nodes.min(others) => RouteHandle::Null,
            _ if nodes > others => RouteHandle::pool(stand_in(region, index)),
            _ => pool.clone(),
        };
        let if_moved = RouteHandle::Hash(HashRoute {
            children: (0..nodes.max(others)).map(child).collect(),
            hash_func: Some("Ch3".to_owned()),
            salt: routing.salt.clone(),
        });
        Self {
            with_stand_ins,
            if_moved,
            pool,
        }
    }
}

/// The pool of one node by itself.
fn stand_in(region: &str, ordinal: i32) -> String {
    format!("{region}.{ordinal}")
}

/// A pool of `region` as the routers of `own` speak to it.
fn pool(
    cluster: &ValidatedCluster,
    own: &ValidatedRegion,
    region: &ValidatedRegion,
    servers: Vec<String>,
) -> Pool {
    let routing = &cluster.routing;
    // In the file and not on the command line, so that a change needs no restart of routers.
    let server_timeout_ms = if region.names.region == own.names.region {
        routing.server_timeout_ms
    } else {
        routing.cross_region_timeout_ms
    };
    // mcrouter's name for TLS. It is read with the file, while the certificates are arguments.
    let encrypted = cluster
        .tls
        .as_ref()
        .map(|_| ("security_mech".to_owned(), "ssl".into()));
    Pool {
        servers,
        server_timeout: Some(server_timeout_ms),
        connect_timeout: Some(routing.connect_timeout_ms),
        region: Some(region.names.region.clone()),
        cluster: Some(cluster.name.clone()),
        other: encrypted.into_iter().collect(),
        ..Pool::default()
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
