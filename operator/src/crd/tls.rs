//! Encryption and certificates: between routers and nodes, and between applications and routers.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TLS between routers and nodes, and between applications and routers. Name either `secretName` or `certManager`.
///
/// Certificates are renewed without a restart: a node reads them again within seconds of the kubelet's delivery, mcrouter
/// for connections that begin later than half an hour after. Replace a certificate an hour or more before it ends; replace
/// an authority by first writing the old and the new one into ca.crt. Another `secretName` restarts nodes and routers one by one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    cel,
    validation = Rule::new("has(self.secretName) != has(self.certManager)")
        .message("tls needs one source of certificates: set either tls.secretName, to use a Secret that is there, or tls.certManager.issuerRef, to have cert-manager make one, and remove the other")
)]
pub struct Tls {
    /// Name of a Secret of type kubernetes.io/tls in the cluster's namespace, with tls.crt, tls.key and ca.crt, as cert-manager
    /// writes it. Nodes and routers of every region that is built here show this certificate, to each other too. Whoever has a
    /// certificate of an authority in ca.crt is let in: use an authority of the cache's own, not one of the whole company.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
    /// Has cert-manager make the certificate of each region, into the Secret CLUSTER-REGION-tls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<CertManager>,
    /// What nodes ask of those that connect to them.
    #[serde(default)]
    pub nodes: NodeTls,
    /// What routers ask of applications.
    #[serde(default)]
    pub routers: RouterTls,
}

/// Certificates that cert-manager makes and renews.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CertManager {
    /// Who signs. An issuer that writes no ca.crt into the Secret (ACME for one) will not do: routers and nodes know each
    /// other by it.
    pub issuer_ref: IssuerRef,
}

/// An issuer of cert-manager.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct IssuerRef {
    /// Name of the issuer.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Issuer, which is of the cluster's namespace, or ClusterIssuer, or an external issuer's own kind.
    #[serde(default = "default_kind")]
    pub kind: String,
    /// API group of the kind.
    #[serde(default = "default_group")]
    pub group: String,
}

/// What nodes ask of those that connect to them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeTls {
    /// required: whoever connects to a node must show a certificate of an authority in ca.crt, as routers do. It is how nodes
    /// know their routers, because mcrouter cannot log in with a password. none: connections are encrypted, and anybody may ask.
    #[serde(default)]
    pub client_certificates: ClientCertificates,
}

/// Whether nodes demand certificates.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// Nobody is served without one.
    #[default]
    Required,
    /// They are not asked for.
    None,
}

/// What routers ask of applications.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RouterTls {
    /// Applications speak TLS to port 11212 of the routers' Service. refused: there is no other port. allowed: port 11211 takes
    /// plain connections as well, for applications that cannot speak TLS yet.
    #[serde(default)]
    pub plain_connections: PlainConnections,
}

/// Whether routers take connections without TLS.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum PlainConnections {
    /// There is no port for them.
    #[default]
    Refused,
    /// They have a port of their own.
    Allowed,
}

fn default_kind() -> String {
    "Issuer".to_owned()
}

fn default_group() -> String {
    "cert-manager.io".to_owned()
}
