//! Encryption: the node's certificate, and what clients must show.
//!
//! Owns the files that they come from. They are read again when they have changed or a client asks for it
//! (`refresh_certs`); connections that are open go on with what they began with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::config::{Tls, VerifyClient};

/// How often the files are looked at. Whoever replaces them mostly has days left.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Sessions that can be resumed. One takes some hundred bytes.
const MAX_SESSIONS: usize = 4096;

#[derive(Debug, Error)]
pub enum TlsError {
    #[error("cannot read {what} in {}: {source}", path.display())]
    Read {
        what: &'static str,
        path: PathBuf,
        source: pem::Error,
    },
    #[error("cannot serve with {}: {source}", path.display())]
    Certificate {
        path: PathBuf,
        source: rustls::Error,
    },
    #[error("cannot verify clients with {}: {reason}", path.display())]
    Authorities { path: PathBuf, reason: String },
    #[error("cannot look at {}: {source}", path.display())]
    Look { path: PathBuf, source: io::Error },
}

/// What new connections are encrypted with.
pub struct TlsServer {
    options: Tls,
    current: Mutex<Current>,
    /// Connections that did not come to be encrypted, since the start.
    pub(crate) handshake_errors: AtomicU64,
}

struct Current {
    config: Arc<ServerConfig>,
    files: Vec<SystemTime>,
    read: Instant,
}

impl TlsServer {
    /// Reads the files that `options` name.
    pub(crate) fn open(options: Tls) -> Result<Self, TlsError> {
        let current = Current::read(&options)?;
        Ok(Self {
            options,
            current: Mutex::new(current),
            handshake_errors: AtomicU64::default(),
        })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.lock().config))
    }

    /// What may wait to be sent on one connection, in bytes.
    pub(crate) fn send_buffer(&self) -> usize {
        self.options.send_buffer
    }

    /// Reads the files again. If they are no good, everything stays as it was.
    pub(crate) fn refresh(&self) -> Result<(), TlsError> {
        let current = Current::read(&self.options)?;
        *self.lock() = current;
        info!("the certificate has been read");
        Ok(())
    }

    /// How long ago the files were read.
    pub(crate) fn age(&self) -> Duration {
        self.lock().read.elapsed()
    }

    pub(crate) fn count_handshake_error(&self) {
        self.handshake_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the files whenever they have changed. Never returns.
    pub(crate) async fn follow_files(&self) {
        // What was seen last, so that a mistake is reported once.
        let mut seen = self.lock().files.clone();
        loop {
            sleep(LOOK_INTERVAL).await;
            let Ok(found) = look(&self.options) else {
                // In the middle of being replaced.
                continue;
            };
            if found == seen {
                continue;
            }
            seen = found;
            if let Err(error) = self.refresh() {
                warn!(%error, "the certificate stays as it was");
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn read(options: &Tls) -> Result<Self, TlsError> {
        // Looked at first: what changes meanwhile is read once more.
        let files = look(options)?;
        Ok(Self {
            config: Arc::new(config(options)?),
            files,
            read: Instant::now(),
        })
    }
}

/// When each of the files was written.
fn look(options: &Tls) -> Result<Vec<SystemTime>, TlsError> {
    let paths = [
        Some(&options.chain_cert),
        options.key.as_ref(),
        options.ca_cert.as_ref(),
    ];
    let modified = |path: &PathBuf| {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        modified.map_err(|source| TlsError::Look {
            path: path.clone(),
            source,
        })
    };
    paths.into_iter().flatten().map(modified).collect()
}

fn config(options: &Tls) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions: &[_] = if options.only_1_3 {
        &[&rustls::version::TLS13]
    } else {
        rustls::ALL_VERSIONS
    };
    let unusable = |source| TlsError::Certificate {
        path: options.chain_cert.clone(),
        source,
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(unusable)?;
    let builder = match (options.verify, &options.ca_cert) {
        (VerifyClient::No, _) | (_, None) => builder.with_no_client_auth(),
        (verify, Some(path)) => {
            builder.with_client_cert_verifier(verifier(verify, path, provider)?)
        }
    };
    let chain = certificates("certificates", &options.chain_cert)?;
    let key = private_key(options.key.as_ref().unwrap_or(&options.chain_cert))?;
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    if options.session_cache {
        config.session_storage = ServerSessionMemoryCache::new(MAX_SESSIONS);
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

fn verifier(
    verify: VerifyClient,
    path: &Path,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let unusable = |reason: String| TlsError::Authorities {
        path: path.to_path_buf(),
        reason,
    };
    let mut authorities = RootCertStore::empty();
    for authority in certificates("authorities", path)? {
        authorities
            .add(authority)
            .map_err(|error| unusable(error.to_string()))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
    if verify == VerifyClient::Request {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|error| unusable(error.to_string()))
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|source| TlsError::Read {
            what,
            path: path.to_path_buf(),
            source,
        })
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::Read {
        what: "the private key",
        path: path.to_path_buf(),
        source,
    })
}
