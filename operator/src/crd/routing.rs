//! Which node is asked for what: policies, timeouts and the hash.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Period;

/// Which node is asked for what.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// Where items are read.
    #[serde(default)]
    pub reads: Reads,
    /// Where `set` writes.
    #[serde(default)]
    pub writes: Writes,
    /// Where `delete` deletes.
    #[serde(default)]
    pub deletes: Deletes,
    /// What happens within a region when one of its nodes is down.
    #[serde(default)]
    pub pool_failover: PoolFailover,
    /// How long routers wait.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// How a key finds its node.
    #[serde(default)]
    pub hash: HashSpec,
}

/// Where items are read.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Reads {
    /// primary: the primary region first. local: the router's own region first, which is nearer but may miss or be older.
    /// With local, `gets` still asks the primary, because a cas token is only good on the node that gave it.
    #[serde(default)]
    pub policy: ReadPolicy,
    /// Whether the next regions are asked when the first does not answer. A miss is an answer.
    #[serde(default = "yes")]
    pub failover: bool,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            policy: ReadPolicy::default(),
            failover: true,
        }
    }
}

/// Which region is read first.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum ReadPolicy {
    /// The first region of the list.
    #[default]
    Primary,
    /// The router's own.
    Local,
}

/// Where `set` writes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Writes {
    /// allInitial: every region, answered as soon as the primary has it. allSync: every region, answered when all have
    /// it, with the worst answer. primaryOnly: the primary alone, and the next region while it is down.
    #[serde(default)]
    pub policy: WritePolicy,
}

/// Which regions get a `set`, and which of them are waited for.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum WritePolicy {
    /// All; the primary is waited for.
    #[default]
    AllInitial,
    /// All are waited for.
    AllSync,
    /// The primary.
    PrimaryOnly,
}

/// Where `delete` deletes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Deletes {
    /// allSync: every region, answered when all did, so that a delete that failed somewhere is seen; a lost delete is an
    /// old value for ever in a cache that remembers. allInitial: every region, answered as soon as the primary did.
    #[serde(default)]
    pub policy: DeletePolicy,
}

/// Which regions are waited for when a key is deleted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum DeletePolicy {
    /// All.
    #[default]
    AllSync,
    /// The primary.
    AllInitial,
}

/// What happens within a region when one of its nodes is down.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PoolFailover {
    /// Whether the keys of a node that is down go to the other nodes of its region, evenly, before another region is asked.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How long at most an item lives on a node that holds it in place of another. Short, because it is not
    /// deleted or overwritten there once its own node is back.
    #[serde(default = "default_exptime")]
    pub exptime: Period,
}

impl Default for PoolFailover {
    fn default() -> Self {
        Self {
            enabled: true,
            exptime: default_exptime(),
        }
    }
}

/// How long routers wait.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// For a connection to a node.
    #[serde(default = "default_connect")]
    pub connect: Period,
    /// For an answer of a node of the router's own region.
    #[serde(default = "default_server")]
    pub server: Period,
    /// For an answer of a node of another region.
    #[serde(default = "default_cross_region")]
    pub cross_region: Period,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: default_connect(),
            server: default_server(),
            cross_region: default_cross_region(),
        }
    }
}

/// How a key finds its node.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HashSpec {
    /// The hash function, mcrouter's name for it.
    #[serde(default)]
    pub function: HashFunction,
    /// Appended to a key before it is hashed. Changing it moves nearly every key to another node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub salt: String,
}

/// mcrouter's hash functions that move few keys when a region grows or shrinks.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashFunction {
    /// mcrouter's default, a consistent hash.
    #[default]
    Ch3,
}

fn yes() -> bool {
    true
}

fn default_exptime() -> Period {
    "60s".into()
}

fn default_connect() -> Period {
    "100ms".into()
}

fn default_server() -> Period {
    "200ms".into()
}

fn default_cross_region() -> Period {
    "600ms".into()
}
