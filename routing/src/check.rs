//! What `mcrouter --validate-config` accepts and a running router then suffers from.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Config, Pool, PoolRef, PoolRoute, RouteHandle};
use crate::route::Router;

/// Fields of a pool that mcrouter knows, other than those that [`Pool`] has by name.
const OTHER_POOL_FIELDS: [&str; 14] = [
    "protocol",
    "security_mech",
    "weights",
    "tags",
    "tko_tracker",
    "failure_domains",
    "inherit",
    "port",
    "qos",
    "ssl_service_identity",
    "shadows",
    "hash",
    "max_outstanding",
    "server_max_outstanding",
];

/// Ways to speak to servers that mcrouter knows; it refuses a file with any other.
const SECURITY_MECHS: [&str; 5] = ["plain", "ssl", "tls_to_plain", "fizz", "ktls12"];

/// Checks a configuration. Empty when nothing is wrong, else one sentence per problem, each naming its place.
pub fn check(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    if config.route.is_some() && config.routes.is_some() {
        problems.push("`route` and `routes` are both there: keep one".to_owned());
    }
    for alias in config
        .routes
        .iter()
        .flatten()
        .flat_map(|route| &route.aliases)
    {
        let parts: Vec<&str> = alias.split('/').collect();
        if !matches!(parts[..], ["", region, cluster, ""] if !region.is_empty() && !cluster.is_empty())
        {
            problems.push(format!(
                "alias {alias:?} is not of the form /region/cluster/"
            ));
        }
    }
    let inline = inline_pools(config);
    let named = config
        .pools
        .iter()
        .map(|(name, pool)| (name.as_str(), pool));
    for (name, pool) in named.chain(inline.iter().map(|(name, pool)| (*name, *pool))) {
        check_pool(name, pool, &mut problems);
    }
    let mut seen = BTreeMap::new();
    for (name, pool) in inline {
        let other = config.pools.get(name).or_else(|| seen.insert(name, pool));
        if other.is_some_and(|other| other != pool) {
            problems.push(format!("two pools that differ are both named {name:?}"));
        }
    }
    if let Err(error) = Router::new(config) {
        problems.push(error.to_string());
    }
    problems
}

fn inline_pools(config: &Config) -> Vec<(&str, &Pool)> {
    let mut pools = Vec::new();
    for handle in config.handles() {
        handle.visit(&mut |handle| {
            if let RouteHandle::Pool(PoolRoute {
                pool: PoolRef::Inline(inline),
                ..
            }) = handle
            {
                pools.push((inline.name.as_str(), &inline.pool));
            }
        });
    }
    pools
}

fn check_pool(name: &str, pool: &Pool, problems: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for server in &pool.servers {
        let port = server
            .rsplit_once(':')
            .map(|(host, port)| (host, port.parse::<u16>()));
        if !matches!(port, Some((host, Ok(1..))) if !host.is_empty()) {
            problems.push(format!("pool {name:?}: server {server:?} is not host:port"));
        }
        if !seen.insert(server) {
            problems.push(format!("pool {name:?} names server {server:?} twice"));
        }
    }
    for field in pool
        .other
        .keys()
        .filter(|field| !OTHER_POOL_FIELDS.contains(&field.as_str()))
    {
        problems.push(format!(
            "pool {name:?} has a field {field:?} that mcrouter does not know"
        ));
    }
    let mech = pool.other.get("security_mech");
    if mech.is_some_and(|mech| !SECURITY_MECHS.iter().any(|known| mech == known)) {
        problems.push(format!(
            "pool {name:?} has a security_mech that is none of {}",
            SECURITY_MECHS.join(", ")
        ));
    }
    let weights = pool
        .other
        .get("weights")
        .and_then(|weights| weights.as_array());
    if weights.is_some_and(|weights| weights.len() < pool.servers.len()) {
        problems.push(format!("pool {name:?} has fewer weights than servers"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        check(&Config::from_json(text).unwrap())
    }

    #[test]
    fn a_sound_configuration_has_no_problems() {
        let text =
            r#"{"pools":{"a":{"servers":["a0.svc.:1"],"protocol":"ascii"}},"route":"PoolRoute|a"}"#;
        assert_eq!(problems(text), Vec::<String>::new());
    }

    #[test]
    fn each_trap_is_found() {
        for (text, words) in [
            (r#"{"route":"PoolRoute|b"}"#, "\"b\""),
            (
                r#"{"pools":{"a":{"servers":[]}},"route":"PoolRoute|a"}"#,
                "no servers",
            ),
            (
                r#"{"pools":{"a":{"servers":["h"]}},"route":"PoolRoute|a"}"#,
                "host:port",
            ),
            (
                r#"{"pools":{"a":{"servers":["h:1","h:1"]}},"route":"PoolRoute|a"}"#,
                "twice",
            ),
            (
                r#"{"pools":{"a":{"servers":["h:1"],"timeout":1}},"route":"PoolRoute|a"}"#,
                "\"timeout\"",
            ),
            (
                r#"{"pools":{"a":{"servers":["h:1","i:1"],"weights":[1]}},"route":"PoolRoute|a"}"#,
                "weights",
            ),
            (
                r#"{"pools":{"a":{"servers":["h:1"],"security_mech":"tls"}},"route":"PoolRoute|a"}"#,
                "security_mech",
            ),
            (r#"{"pools":{}}"#, "neither"),
            (
                r#"{"route":{"type":"FailoverRoute","children":[]}}"#,
                "no children",
            ),
            (
                r#"{"routes":[{"aliases":["/eu/"],"route":"NullRoute"}]}"#,
                "/region/cluster/",
            ),
            (r#"{"route":"NullRoute","routes":[]}"#, "both"),
            (
                r#"{"route":{"type":"OperationSelectorRoute","operation_policies":{"fetch":"NullRoute"}}}"#,
                "fetch",
            ),
        ] {
            let found = problems(text);
            assert!(
                found.iter().any(|problem| problem.contains(words)),
                "{text}: {found:?}"
            );
        }
    }
}
