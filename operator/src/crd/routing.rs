//! Routing: which servers an operation goes to, in mcrouter's terms.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where routers send operations, and what they do when a server does not answer. Changes reach the routers without a
/// restart. `petra-operator explain KEY -f FILE` says what a spec means for a key.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// Where get and the like are answered.
    #[serde(default)]
    pub reads: Reads,
    /// Where `set` goes. add, replace, append, prepend, incr, decr, cas and lease-set depend on what the server has and
    /// go to the primary only: other regions keep an older value until the next `set` or `delete` of the key.
    #[serde(default)]
    pub writes: Writes,
    /// Where `delete` goes.
    #[serde(default)]
    pub deletes: Deletes,
    /// What becomes of a node's keys while it is down.
    #[serde(default)]
    pub pool_failover: PoolFailover,
    /// How long a router waits for a server.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// How a key picks a server of a region.
    #[serde(default)]
    pub hash: Hash,
}

/// Where get and the like are answered.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reads {
    /// Which region is asked first.
    #[serde(default)]
    pub policy: ReadPolicy,
    /// Whether the other regions are asked, in failover order, when the first one does not answer. A miss is an answer.
    #[serde(default = "default_true")]
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

fn default_true() -> bool {
    true
}

/// Which region is asked first.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadPolicy {
    /// The primary: every router sees what was written last.
    #[default]
    Primary,
    /// The router's own region: fast, and it may see an older value for a moment, or for longer after an operation that
    /// only the primary gets (see `writes`). gets, gats and lease-get still ask the primary, because their tokens are
    /// only good there.
    Local,
}

/// Where `set` goes.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Writes {
    /// Which regions get a `set`, and which of them are waited for.
    #[serde(default)]
    pub policy: WritePolicy,
}

/// Which regions get a `set`.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WritePolicy {
    /// All: the primary answers, the others are written in the background.
    #[default]
    AllInitial,
    /// All, and the worst answer counts: a `set` fails when a region is away.
    AllSync,
    /// The primary only: other regions hold nothing but what failed over to them.
    PrimaryOnly,
}

/// Where `delete` goes.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deletes {
    /// Which answers of a `delete` are waited for. Every region gets it in any case.
    #[serde(default)]
    pub policy: DeletePolicy,
}

/// Which answers of a `delete` are waited for.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeletePolicy {
    /// All: a delete that did not reach every region is an error, so that the application can repeat it. What a server
    /// remembers would otherwise be served when it is back.
    #[default]
    AllSync,
    /// The primary's: other regions may miss a delete, unseen.
    AllInitial,
}

/// What becomes of a node's keys while it is down.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolFailover {
    /// Whether other nodes of the same region take them over, a different one per key, before another region is asked.
    #[serde(default = "default_true")]
    pub enabled: bool,
    /// How long an item lives at most on a node that took it over, such as `60s`. It bounds how old a value can be that
    /// is found there when the same node is down again.
    #[serde(default = "default_exptime")]
    #[schemars(length(min = 1, max = 8))]
    #[x_kube(validation = Rule::new("self.matches('^[1-9][0-9]{0,4}(s|m|h)$')")
        .message("write a duration in whole seconds, such as 60s or 5m"))]
    pub exptime: String,
}

impl Default for PoolFailover {
    fn default() -> Self {
        Self {
            enabled: true,
            exptime: default_exptime(),
        }
    }
}

fn default_exptime() -> String {
    "60s".into()
}

/// How long a router waits for a server before it asks another one.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// For a connection, such as `100ms`.
    #[serde(default = "default_connect")]
    #[schemars(length(min = 1, max = 10))]
    #[x_kube(validation = Rule::new("self.matches('^[1-9][0-9]{0,5}(ms|s|m|h)$')")
        .message("write a duration such as 100ms or 1s"))]
    pub connect: String,
    /// For an answer of a server in the router's own region.
    #[serde(default = "default_server")]
    #[schemars(length(min = 1, max = 10))]
    #[x_kube(validation = Rule::new("self.matches('^[1-9][0-9]{0,5}(ms|s|m|h)$')")
        .message("write a duration such as 200ms or 1s"))]
    pub server: String,
    /// For an answer, and for a connection, of a server in another region.
    #[serde(default = "default_cross_region")]
    #[schemars(length(min = 1, max = 10))]
    #[x_kube(validation = Rule::new("self.matches('^[1-9][0-9]{0,5}(ms|s|m|h)$')")
        .message("write a duration such as 600ms or 1s"))]
    pub cross_region: String,
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

fn default_connect() -> String {
    "100ms".into()
}

fn default_server() -> String {
    "200ms".into()
}

fn default_cross_region() -> String {
    "600ms".into()
}

/// How a key picks a server of a region. A change sends almost every key to another server.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hash {
    /// The hash function. Growing a region by Ch3 moves keys to the new nodes only.
    #[serde(default)]
    pub function: HashFunction,
    /// Appended to the key before it is hashed.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub salt: String,
}

/// A hash function of mcrouter.
#[derive(JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum HashFunction {
    /// mcrouter's consistent hash.
    #[default]
    Ch3,
}
