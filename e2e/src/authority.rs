//! An authority of a test's own, the certificates that it signs, and clients that show them.

use std::sync::Arc;

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Who signs.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, in PEM.
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// An authority that nobody trusts yet.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let mut parameters = CertificateParams::new(vec![name.to_owned()])?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(
            parameters,
            KeyPair::generate()?,
        )?))
    }

    /// Its own certificate, in PEM: what `ca.crt` holds.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A new certificate for servers and clients of these names.
    ///
    /// # Errors
    ///
    /// A name that is none.
    pub fn issue(&self, names: &[&str]) -> anyhow::Result<Certificate> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        let certificate = CertificateParams::new(names)?.signed_by(&key, &self.0)?;
        Ok(Certificate {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// How a client speaks that trusts this authority, and shows `certificate` if it has one.
    ///
    /// # Errors
    ///
    /// A certificate that does not fit its key.
    pub fn client(&self, certificate: Option<&Certificate>) -> anyhow::Result<Arc<ClientConfig>> {
        let mut authorities = RootCertStore::empty();
        authorities.add(self.0.der().clone())?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(authorities);
        Ok(Arc::new(match certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes())?;
                builder.with_client_auth_cert(vec![certificate.der()?], key)?
            }
        }))
    }
}

impl Certificate {
    /// The certificate as it is sent.
    ///
    /// # Errors
    ///
    /// Text that is no certificate.
    pub fn der(&self) -> anyhow::Result<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).context("a certificate")
    }
}
