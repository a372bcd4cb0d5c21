//! No client. Certificates and users, parsed once: where they come from, and what is demanded.

use super::InvalidSpec;
use crate::crd::{
    Auth, ClientCertificates, IssuerRef, PetraClusterSpec, PlainConnections, RouterMode, Tls,
};
use crate::names::RegionNames;

/// How connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatedTls {
    /// Where certificates come from.
    pub certificates: Certificates,
    /// Whether nodes serve nobody who has none.
    pub demanded_by_nodes: bool,
    /// Whether routers have a port without TLS.
    pub plain_port: bool,
}

/// Where certificates come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificates {
    /// A Secret that somebody else keeps, the same for all regions.
    Secret(String),
    /// cert-manager, which keeps a Secret for each region.
    Issuer(IssuerRef),
}

impl ValidatedTls {
    /// Name of the Secret with the certificate of a region.
    pub fn secret(&self, names: &RegionNames) -> String {
        match &self.certificates {
            Certificates::Secret(name) => name.clone(),
            Certificates::Issuer(_) => names.certificate(),
        }
    }
}

/// The checked `spec.tls`.
pub(super) fn tls(spec: &PetraClusterSpec) -> Result<Option<ValidatedTls>, InvalidSpec> {
    spec.tls.as_ref().map(parse).transpose()
}

fn parse(tls: &Tls) -> Result<ValidatedTls, InvalidSpec> {
    let certificates = match (&tls.secret_name, &tls.cert_manager) {
        (Some(name), None) => Certificates::Secret(name.clone()),
        (None, Some(cert_manager)) => Certificates::Issuer(cert_manager.issuer_ref.clone()),
        _ => return Err(InvalidSpec::CertificatesUnclear),
    };
    Ok(ValidatedTls {
        certificates,
        demanded_by_nodes: tls.nodes.client_certificates == ClientCertificates::Required,
        plain_port: tls.routers.plain_connections == PlainConnections::Allowed,
    })
}

/// The checked `spec.auth`.
pub(super) fn auth(spec: &PetraClusterSpec) -> Result<Option<Auth>, InvalidSpec> {
    match &spec.auth {
        Some(_) if spec.router.mode != RouterMode::None => Err(InvalidSpec::RoutersCannotLogIn),
        auth => Ok(auth.clone()),
    }
}
