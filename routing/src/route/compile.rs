//! From the configuration's types to handles that can route: names become destinations, words become enums.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::failover::{Errors, Order};
use super::{Destination, Handle, Router};
use crate::config::{
    Config, Failover, FailoverErrors, FailoverPolicy, ModifyExptime, OperationSelector, Pool,
    PoolRef, PoolRoute, PrefixSelector, RouteHandle, WarmUp,
};
use crate::request::Operation;

/// Why a configuration cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Neither `route` nor `routes`.
    #[error("the configuration has neither `route` nor `routes`")]
    NoRoute,
    /// A route names a pool that the configuration does not have.
    #[error("a route names pool {0:?}, which is not among the configuration's pools")]
    UnknownPool(String),
    /// A pool without servers.
    #[error("pool {0:?} has no servers")]
    EmptyPool(String),
    /// A route handle that needs children has none.
    #[error("a {0} has no children")]
    NoChildren(&'static str),
    /// An operation that does not exist.
    #[error("operation_policies names {0:?}, which is no operation")]
    UnknownOperation(String),
    /// A part of the route language that this crate does not evaluate.
    #[error("{0} cannot be evaluated here")]
    Unsupported(String),
}

pub(super) fn router(config: &Config) -> Result<Router, RouteError> {
    let mut routes = Vec::new();
    for prefixed in config.routes.iter().flatten() {
        let handle = handle(&config.pools, &prefixed.route)?;
        for alias in &prefixed.aliases {
            routes.push((Some(alias.clone()), Arc::clone(&handle)));
        }
    }
    if let Some(route) = &config.route {
        routes.push((None, handle(&config.pools, route)?));
    }
    if routes.is_empty() {
        Err(RouteError::NoRoute)
    } else {
        Ok(Router { routes })
    }
}

type Pools = BTreeMap<String, Pool>;

fn handle(pools: &Pools, route: &RouteHandle) -> Result<Arc<Handle>, RouteError> {
    let all = |children: &[RouteHandle], name| {
        if children.is_empty() {
            return Err(RouteError::NoChildren(name));
        }
        children
            .iter()
            .map(|child| handle(pools, child))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(Arc::new(match route {
        RouteHandle::Pool(route) => pool(pools, route)?,
        RouteHandle::Failover(failover) => Handle::Failover {
            children: all(&failover.children, "FailoverRoute")?,
            errors: errors(failover),
            order: order(failover)?,
        },
        RouteHandle::AllInitial(c) => Handle::AllInitial(all(&c.children, "AllInitialRoute")?),
        RouteHandle::AllSync(c) => Handle::AllSync(all(&c.children, "AllSyncRoute")?),
        RouteHandle::AllAsync(c) => Handle::AllAsync(all(&c.children, "AllAsyncRoute")?),
        RouteHandle::MissFailover(c) => {
            Handle::MissFailover(all(&c.children, "MissFailoverRoute")?)
        }
        RouteHandle::Hash(hash) => {
            only_ch3(hash.hash_func.as_deref())?;
            Handle::Hash {
                children: all(&hash.children, "HashRoute")?,
                salt: hash.salt.clone(),
            }
        }
        RouteHandle::WarmUp(WarmUp {
            cold,
            warm,
            exptime,
            enable_metaget,
        }) => Handle::WarmUp {
            cold: handle(pools, cold)?,
            warm: handle(pools, warm)?,
            exptime: *exptime,
            metaget: enable_metaget.unwrap_or(false),
        },
        RouteHandle::OperationSelector(selector) => operations(pools, selector)?,
        RouteHandle::PrefixSelector(selector) => prefixes(pools, selector)?,
        RouteHandle::ModifyExptime(modify) => modify_exptime(pools, modify)?,
        RouteHandle::Null => Handle::Null,
        RouteHandle::Error { response } => Handle::Error(response.clone()),
    }))
}

fn pool(pools: &Pools, route: &PoolRoute) -> Result<Handle, RouteError> {
    let (name, pool) = match &route.pool {
        PoolRef::Name(name) => {
            let pool = pools
                .get(name)
                .ok_or_else(|| RouteError::UnknownPool(name.clone()))?;
            (name, pool)
        }
        PoolRef::Inline(inline) => (&inline.name, &inline.pool),
    };
    if pool.servers.is_empty() {
        return Err(RouteError::EmptyPool(name.clone()));
    }
    let hash = route.hash.clone().unwrap_or_default();
    only_ch3(hash.hash_func.as_deref())?;
    let destination = |server: &String| {
        Arc::new(Destination {
            server: server.clone(),
            pool: name.clone(),
            server_timeout_ms: pool.server_timeout,
            connect_timeout_ms: pool.connect_timeout,
            tls: pool.is_encrypted(),
        })
    };
    Ok(Handle::Pool {
        destinations: pool.servers.iter().map(destination).collect(),
        salt: hash.salt,
        keep_prefix: pool.keep_routing_prefix.unwrap_or(false),
    })
}

fn only_ch3(hash_func: Option<&str>) -> Result<(), RouteError> {
    match hash_func {
        None | Some("Ch3") => Ok(()),
        Some(other) => Err(RouteError::Unsupported(format!("hash_func {other}"))),
    }
}

fn errors(failover: &Failover) -> Errors {
    match failover.failover_errors.clone() {
        None => Errors::default(),
        Some(FailoverErrors::All(names)) => Errors {
            gets: Some(names.clone()),
            updates: Some(names.clone()),
            deletes: Some(names),
        },
        Some(FailoverErrors::ByKind {
            gets,
            updates,
            deletes,
        }) => Errors {
            gets,
            updates,
            deletes,
        },
    }
}

fn order(failover: &Failover) -> Result<Order, RouteError> {
    if failover.failover_limit.is_some() {
        return Err(RouteError::Unsupported(
            "failover_limit, which depends on time,".to_owned(),
        ));
    }
    match failover.failover_policy {
        None => Ok(Order::AsWritten),
        Some(FailoverPolicy::DeterministicOrderPolicy {
            max_tries,
            max_error_tries,
        }) => {
            let max_tries = max_tries.min(failover.children.len());
            Ok(Order::Deterministic {
                max_tries,
                max_error_tries: max_error_tries.min(max_tries),
            })
        }
        Some(FailoverPolicy::LeastFailuresPolicy { .. }) => Err(RouteError::Unsupported(
            "LeastFailuresPolicy, which depends on the past,".to_owned(),
        )),
    }
}

fn operations(pools: &Pools, selector: &OperationSelector) -> Result<Handle, RouteError> {
    let mut by_operation = BTreeMap::new();
    for (name, route) in &selector.operation_policies {
        let operation =
            Operation::from_name(name).ok_or_else(|| RouteError::UnknownOperation(name.clone()))?;
        by_operation.insert(operation, handle(pools, route)?);
    }
    let default = selector
        .default_policy
        .as_deref()
        .unwrap_or(&RouteHandle::Null);
    Ok(Handle::OperationSelector {
        by_operation,
        default: handle(pools, default)?,
    })
}

fn prefixes(pools: &Pools, selector: &PrefixSelector) -> Result<Handle, RouteError> {
    let mut by_prefix = Vec::new();
    for (prefix, route) in &selector.policies {
        by_prefix.push((prefix.clone(), handle(pools, route)?));
    }
    let wildcard = selector.wildcard.as_deref().unwrap_or(&RouteHandle::Null);
    Ok(Handle::PrefixSelector {
        by_prefix,
        wildcard: handle(pools, wildcard)?,
    })
}

fn modify_exptime(pools: &Pools, modify: &ModifyExptime) -> Result<Handle, RouteError> {
    let only_shorten = match modify.action.as_deref() {
        None | Some("set") => false,
        Some("min") => true,
        Some(other) => {
            return Err(RouteError::Unsupported(format!(
                "ModifyExptimeRoute's action {other:?}"
            )));
        }
    };
    Ok(Handle::ModifyExptime {
        target: handle(pools, &modify.target)?,
        exptime: modify.exptime,
        only_shorten,
    })
}
