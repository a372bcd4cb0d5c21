//! Users and passwords of nodes, for clients that do without mcrouter.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may log in to nodes. Only with router.mode none and clients that connect to nodes themselves: mcrouter cannot log in.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Auth {
    /// Name of a Secret in the cluster's namespace. A changed list of users counts from the next login on, as soon as the kubelet
    /// has delivered it; nothing restarts.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
    /// Key of the Secret whose value is the list: one user:password per line.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
    /// How clients log in. text: memcached's text protocol, whose first command is a `set` of user and password. sasl: the binary
    /// protocol with SASL's PLAIN or CRAM-MD5. A node speaks the chosen protocol only, so that none goes around the password.
    #[serde(default)]
    pub method: AuthMethod,
}

/// How clients log in.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AuthMethod {
    /// memcached's -Y.
    #[default]
    Text,
    /// memcached's -S.
    Sasl,
}

fn default_key() -> String {
    "users".to_owned()
}
