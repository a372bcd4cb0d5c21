//! Encryption on both sides of the router, as mcrouter has it: clients' certificates are verified if they show some, of servers
//! only that an authority has signed for them, whatever their names.
//!
//! The files are read for every new connection. mcrouter keeps what it has read for half an hour, which no test can wait for.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::options::Options;

/// A connection, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// What clients are shown and must show.
#[derive(Clone)]
pub(super) struct ServerFiles {
    certificate: PathBuf,
    key: PathBuf,
    authorities: PathBuf,
    demanded: bool,
}

impl ServerFiles {
    /// mcrouter refuses to start without any of the three.
    pub(super) fn of(options: &Options) -> anyhow::Result<Self> {
        let needed = |path: &Option<PathBuf>, option: &str| {
            let path = path.clone();
            path.with_context(|| format!("--ssl-port needs --server-pem-{option}-path"))
        };
        Ok(Self {
            certificate: needed(&options.server_pem_cert_path, "cert")?,
            key: needed(&options.server_pem_key_path, "key")?,
            authorities: needed(&options.server_pem_ca_path, "ca")?,
            demanded: options.ssl_require_peer_certs,
        })
    }

    pub(super) async fn encrypt(&self, stream: TcpStream) -> io::Result<impl Stream> {
        let config = self.config().map_err(io::Error::other)?;
        TlsAcceptor::from(Arc::new(config)).accept(stream).await
    }

    fn config(&self) -> anyhow::Result<ServerConfig> {
        let authorities = Arc::new(authorities(&self.authorities)?);
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(authorities, Arc::clone(&provider));
        let verifier = if self.demanded {
            verifier
        } else {
            verifier.allow_unauthenticated()
        };
        let (chain, key) = identity(&self.certificate, &self.key)?;
        Ok(ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier.build()?)
            .with_single_cert(chain, key)?)
    }
}

/// What servers are shown and must show.
pub(super) struct ClientFiles {
    identity: Option<(PathBuf, PathBuf)>,
    /// Anybody's certificate will do when missing.
    authorities: Option<PathBuf>,
}

impl ClientFiles {
    pub(super) fn of(options: &Options) -> Self {
        let authorities = options.pem_ca_path.clone();
        Self {
            identity: options
                .pem_cert_path
                .clone()
                .zip(options.pem_key_path.clone()),
            authorities: authorities.filter(|_| options.ssl_verify_peers),
        }
    }

    /// Encrypts the connection to `server`, which is `host:port`.
    pub(super) async fn encrypt(
        &self,
        server: &str,
        stream: TcpStream,
    ) -> io::Result<Box<dyn Stream>> {
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        let name = ServerName::try_from(host.trim_end_matches('.').to_owned())
            .map_err(io::Error::other)?;
        let config = self.config().map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Box::new(connector.connect(name, stream).await?))
    }

    fn config(&self) -> anyhow::Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            // mcrouter's `ssl` is TLS 1.2 and nothing else.
            .with_protocol_versions(&[&rustls::version::TLS12])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ChainOnly::new(
                self.authorities.as_deref(),
                provider,
            )?));
        Ok(match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let (chain, key) = identity(certificate, key)?;
                builder.with_client_auth_cert(chain, key)?
            }
        })
    }
}

/// Verifies who has signed a certificate, and not for whom.
#[derive(Debug)]
struct ChainOnly {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ChainOnly {
    fn new(path: Option<&Path>, provider: Arc<CryptoProvider>) -> anyhow::Result<Self> {
        let chain = match path {
            None => None,
            Some(path) => {
                let authorities = Arc::new(authorities(path)?);
                let builder =
                    WebPkiServerVerifier::builder_with_provider(authorities, Arc::clone(&provider));
                Some(builder.build()?)
            }
        };
        Ok(Self { chain, provider })
    }
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        match chain.verify_server_cert(certificate, others, name, ocsp, now) {
            // The last of all checks.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut authorities = RootCertStore::empty();
    for authority in certificates(path)? {
        let added = authorities.add(authority);
        added.with_context(|| path.display().to_string())?;
    }
    Ok(authorities)
}

fn identity(
    certificate: &Path,
    key: &Path,
) -> anyhow::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| key.display().to_string())?;
    Ok((certificates(certificate)?, key))
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .with_context(|| path.display().to_string())
}
