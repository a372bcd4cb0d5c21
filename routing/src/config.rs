//! mcrouter's configuration file as types, read and written exactly as mcrouter reads it.
//!
//! Owns the names of the route language and nothing of what they do: that is [`crate::route`].
//! Source: mcrouter's wiki "Config Files" and "List of Route Handles", and `McRouteHandleProvider`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod handle;

pub use handle::{
    Children, Failover, FailoverErrors, FailoverPolicy, Hash, HashRoute, InlinePool, ModifyExptime,
    OperationSelector, PoolRef, PoolRoute, PrefixSelector, RouteHandle, WarmUp,
};

/// A whole configuration file: pools, and one route or one route per routing prefix.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Pools by name. Sorted, so that equal configurations are equal bytes.
    #[serde(default)]
    pub pools: BTreeMap<String, Pool>,
    /// Where requests go; exclusive with `routes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteHandle>,
    /// Where requests go by the routing prefix of their key, `/region/cluster/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<PrefixedRoute>>,
}

/// The route of some routing prefixes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixedRoute {
    /// Routing prefixes, each of the form `/region/cluster/`.
    pub aliases: Vec<String>,
    /// Where requests with one of them go.
    pub route: RouteHandle,
}

/// Servers that share their keys by a hash.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pool {
    /// `host:port`. The order is the hash's index: inserting anywhere but at the end moves keys.
    pub servers: Vec<String>,
    /// Wait for an answer, in milliseconds; the process's `--server-timeout` when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_timeout: Option<u64>,
    /// Wait for a connection, in milliseconds; `server_timeout` when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<u64>,
    /// Region of the servers; with `cluster`, it lets `--cross-region-timeout-ms` apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Cluster of the servers within the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Whether the server sees the routing prefix of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_routing_prefix: Option<bool>,
    /// Everything that says how servers are spoken to and not which: `protocol`, `security_mech`, `tko_tracker`, ...
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl Pool {
    /// Whether its servers are spoken to over TLS as OpenSSL has it. mcrouter knows other ways, which nobody here uses.
    pub fn is_encrypted(&self) -> bool {
        self.other
            .get("security_mech")
            .is_some_and(|mech| mech == "ssl")
    }
}

/// Why a text is not a configuration.
#[derive(Debug, thiserror::Error)]
#[error("not a mcrouter configuration: {0}")]
pub struct ConfigError(#[from] serde_json::Error);

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    ///
    /// What is wrong, with line and column; comments, which mcrouter accepts, are errors here.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        Ok(serde_json::from_str(text)?)
    }

    /// The file's text: indented, ending with a newline, the same bytes for equal configurations.
    pub fn to_json(&self) -> String {
        // Maps have string keys and there are no non-finite numbers, the only things that JSON cannot hold.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Every server that is named anywhere, in pools and inline, once, sorted.
    pub fn servers(&self) -> Vec<String> {
        let mut servers: Vec<String> = self
            .pools
            .values()
            .flat_map(|pool| pool.servers.iter().cloned())
            .collect();
        for handle in self.handles() {
            handle.visit(&mut |handle| {
                if let RouteHandle::Pool(PoolRoute {
                    pool: PoolRef::Inline(inline),
                    ..
                }) = handle
                {
                    servers.extend(inline.pool.servers.iter().cloned());
                }
            });
        }
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// The handles at the top: `route`, or those of `routes`.
    pub fn handles(&self) -> impl Iterator<Item = &RouteHandle> {
        let prefixed = self.routes.iter().flatten().map(|prefixed| &prefixed.route);
        self.route.iter().chain(prefixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_forms_are_read_alike() {
        let short = r#"{"pools":{"a":{"servers":["h:1"]}},"route":"PoolRoute|a"}"#;
        let long = r#"{"pools":{"a":{"servers":["h:1"]}},"route":{"type":"PoolRoute","pool":"a"}}"#;
        assert_eq!(
            Config::from_json(short).unwrap(),
            Config::from_json(long).unwrap()
        );
    }

    #[test]
    fn an_unknown_route_is_named_in_the_error() {
        let error = Config::from_json(r#"{"route":{"type":"TeleportRoute"}}"#).unwrap_err();
        assert!(error.to_string().contains("TeleportRoute"), "{error}");
    }

    #[test]
    fn fields_that_are_not_about_routing_survive_a_round_trip() {
        let text =
            r#"{"pools":{"a":{"servers":["h:1"],"protocol":"ascii","security_mech":"ssl"}}}"#;
        let config = Config::from_json(text).unwrap();
        assert_eq!(Config::from_json(&config.to_json()).unwrap(), config);
        assert_eq!(config.pools["a"].other["security_mech"], "ssl");
    }

    #[test]
    fn servers_lists_inline_pools_too() {
        let text = r#"{"pools":{"a":{"servers":["h:2","h:1"]}},"route":{"type":"AllSyncRoute",
            "children":["PoolRoute|a",{"type":"PoolRoute","pool":{"name":"i","servers":["h:3"]}}]}}"#;
        assert_eq!(
            Config::from_json(text).unwrap().servers(),
            ["h:1", "h:2", "h:3"]
        );
    }
}
