//! Route handles: the nodes of the tree that a request walks. Names and fields are mcrouter's.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::Pool;

/// One route handle. Read from `{"type": "...", ...}` or from the short forms `"PoolRoute|name"`, `"NullRoute"` and
/// `"ErrorRoute|message"`; always written in the long form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "type")]
pub enum RouteHandle {
    /// The server of a pool that the key's hash picks.
    #[serde(rename = "PoolRoute")]
    Pool(PoolRoute),
    /// The first child whose answer is no error.
    #[serde(rename = "FailoverRoute")]
    Failover(Failover),
    /// The first child's answer; the others are sent to in the background.
    #[serde(rename = "AllInitialRoute")]
    AllInitial(Children),
    /// All children at once; the worst answer.
    #[serde(rename = "AllSyncRoute")]
    AllSync(Children),
    /// All children in the background; answered at once as if there were none.
    #[serde(rename = "AllAsyncRoute")]
    AllAsync(Children),
    /// The first child with a hit.
    #[serde(rename = "MissFailoverRoute")]
    MissFailover(Children),
    /// The child that the key's hash picks, as it picks a server of a pool.
    #[serde(rename = "HashRoute")]
    Hash(HashRoute),
    /// A cold pool that is filled from a warm one.
    #[serde(rename = "WarmUpRoute")]
    WarmUp(WarmUp),
    /// A route per operation.
    #[serde(rename = "OperationSelectorRoute")]
    OperationSelector(OperationSelector),
    /// A route per prefix of the key; the longest match wins.
    #[serde(rename = "PrefixSelectorRoute")]
    PrefixSelector(PrefixSelector),
    /// The target, with another expiration time.
    #[serde(rename = "ModifyExptimeRoute")]
    ModifyExptime(ModifyExptime),
    /// No server: a miss, or the least of answers.
    #[serde(rename = "NullRoute")]
    Null,
    /// No server: an error with this message.
    #[serde(rename = "ErrorRoute")]
    Error {
        /// What the client is told.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        response: String,
    },
}

/// The pool of a [`RouteHandle::Pool`], and how it is hashed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolRoute {
    /// A pool of the file, or one of its own.
    pub pool: PoolRef,
    /// How the server is picked; Ch3 without salt when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Hash>,
}

/// A pool by name, or in place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PoolRef {
    /// The name of a pool in [`super::Config::pools`].
    Name(String),
    /// A pool that only this route uses.
    Inline(Box<InlinePool>),
}

/// A pool written where it is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InlinePool {
    /// Its name, unique in the file.
    pub name: String,
    /// What it holds.
    #[serde(flatten)]
    pub pool: Pool,
}

/// How a key picks a server of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hash {
    /// `Ch3` when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_func: Option<String>,
    /// Appended to the key before hashing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub salt: String,
}

/// A [`RouteHandle::Hash`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashRoute {
    /// By their index in the hash.
    pub children: Vec<RouteHandle>,
    /// `Ch3` when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_func: Option<String>,
    /// Appended to the key before hashing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub salt: String,
}

/// Children, asked together or one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Children {
    /// In the order in which they are asked.
    pub children: Vec<RouteHandle>,
}

/// The children of a [`RouteHandle::Failover`], and when the next one is tried.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failover {
    /// The first is the normal route.
    pub children: Vec<RouteHandle>,
    /// Which answers make the next child be tried; all errors of servers when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover_errors: Option<FailoverErrors>,
    /// The order of the children after the first; as written when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover_policy: Option<FailoverPolicy>,
    /// `{"rate": ..., "burst": ...}`: how many requests may fail over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover_limit: Option<Value>,
    /// Whether the key is marked when it fails over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover_tag: Option<Value>,
}

/// Names of answers, such as `connect_error`, `timeout`, `tko`, `busy`, for all operations or by their kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FailoverErrors {
    /// The same for all operations.
    All(Vec<String>),
    /// By kind; a kind that is missing fails over on all errors of servers.
    ByKind {
        /// get, gets, gat, gats, lease-get, metaget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gets: Option<Vec<String>>,
        /// set, add, cas, incr, lease-set and the like.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        updates: Option<Vec<String>>,
        /// delete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deletes: Option<Vec<String>>,
    },
}

/// In which order the children after the first are tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum FailoverPolicy {
    /// An order of its own for each key, without the server that the normal route had picked: child `i + 1` must be
    /// server `i` of the pool that is child 0.
    DeterministicOrderPolicy {
        /// How many children are tried at most, the first included.
        max_tries: usize,
        /// How many errors other than a server that is known to be down end the search.
        max_error_tries: usize,
    },
    /// Those first that failed least of late.
    LeastFailuresPolicy {
        /// How many children are tried at most.
        max_tries: usize,
    },
}

/// A [`RouteHandle::WarmUp`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmUp {
    /// Where everything goes, and what is filled.
    pub cold: Box<RouteHandle>,
    /// Where a miss in `cold` is looked up.
    pub warm: Box<RouteHandle>,
    /// Seconds that a copied item lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exptime: Option<i64>,
    /// Whether the remaining time is asked of `warm` by `metaget`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_metaget: Option<bool>,
}

/// A [`RouteHandle::OperationSelector`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationSelector {
    /// For operations that are not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_policy: Option<Box<RouteHandle>>,
    /// By the name of the operation, `get`, `lease-set` and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operation_policies: BTreeMap<String, RouteHandle>,
}

/// A [`RouteHandle::PrefixSelector`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixSelector {
    /// By prefix.
    #[serde(default)]
    pub policies: BTreeMap<String, RouteHandle>,
    /// For keys without any of the prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wildcard: Option<Box<RouteHandle>>,
}

/// A [`RouteHandle::ModifyExptime`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModifyExptime {
    /// Where the request goes.
    pub target: Box<RouteHandle>,
    /// Seconds; 0 is for ever.
    pub exptime: i64,
    /// `set`: this time; `min`: this time or an earlier one that the request has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

impl RouteHandle {
    /// The pool of this name, hashed with Ch3.
    pub fn pool(name: impl Into<String>) -> Self {
        Self::Pool(PoolRoute {
            pool: PoolRef::Name(name.into()),
            hash: None,
        })
    }

    /// Calls `see` with this handle and every handle below it.
    pub fn visit<'a>(&'a self, see: &mut impl FnMut(&'a Self)) {
        see(self);
        match self {
            Self::Pool(_) | Self::Null | Self::Error { .. } => {}
            Self::Failover(Failover { children, .. })
            | Self::AllInitial(Children { children })
            | Self::AllSync(Children { children })
            | Self::AllAsync(Children { children })
            | Self::MissFailover(Children { children })
            | Self::Hash(HashRoute { children, .. }) => {
                children.iter().for_each(|child| child.visit(see));
            }
            Self::WarmUp(warm_up) => {
                warm_up.cold.visit(see);
                warm_up.warm.visit(see);
            }
            Self::OperationSelector(selector) => {
                selector
                    .default_policy
                    .iter()
                    .for_each(|child| child.visit(see));
                selector
                    .operation_policies
                    .values()
                    .for_each(|child| child.visit(see));
            }
            Self::PrefixSelector(selector) => {
                selector
                    .policies
                    .values()
                    .for_each(|child| child.visit(see));
                selector.wildcard.iter().for_each(|child| child.visit(see));
            }
            Self::ModifyExptime(modify) => modify.target.visit(see),
        }
    }

    fn from_short(text: &str) -> Option<Self> {
        match text.split_once('|') {
            Some(("PoolRoute", name)) => Some(Self::pool(name)),
            Some(("ErrorRoute", message)) => Some(Self::Error {
                response: message.to_owned(),
            }),
            None if text == "NullRoute" => Some(Self::Null),
            None if text == "ErrorRoute" => Some(Self::Error {
                response: String::new(),
            }),
            _ => None,
        }
    }
}

impl Serialize for RouteHandle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for RouteHandle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let Some(text) = value.as_str() else {
            return Self::deserialize(value).map_err(serde::de::Error::custom);
        };
        Self::from_short(text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "route {text:?} is not known: expected an object with a `type`, \"PoolRoute|NAME\", \"NullRoute\" or \"ErrorRoute|MESSAGE\""
            ))
        })
    }
}
