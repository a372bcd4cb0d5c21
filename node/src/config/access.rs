//! Who may connect and what they may do: encryption, users, and commands that can be switched off.

use std::path::PathBuf;

use super::layers::{Layers, Setting};
use super::{ConfigError, boolean, number, text};

/// memcached's default.
const DEFAULT_SEND_BUFFER_KIB: usize = 16;

/// What clients may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// What connections may speak.
    pub protocol: Protocol,
    /// The users of the text protocol; everybody if there is no file.
    pub auth_file: Option<PathBuf>,
    /// Whether the binary protocol asks for a user, with SASL.
    pub sasl: bool,
    pub shutdown: bool,
    pub flush_all: bool,
    pub dump: bool,
    pub watch: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Told apart by a connection's first byte.
    #[default]
    Auto,
    Ascii,
    Binary,
}

impl Protocol {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "ascii" => Some(Self::Ascii),
            "binary" => Some(Self::Binary),
            _ => None,
        }
    }

    /// memcached's name for it in its statistics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto-negotiate",
            Self::Ascii => "ascii",
            Self::Binary => "binary",
        }
    }
}

/// How connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM: the node's certificate, and those between it and an authority.
    pub chain_cert: PathBuf,
    /// PEM: the private key; in the file of the chain if not set.
    pub key: Option<PathBuf>,
    /// PEM: the authorities that clients' certificates come from.
    pub ca_cert: Option<PathBuf>,
    pub verify: VerifyClient,
    /// TLS 1.3 only; otherwise 1.2 too.
    pub only_1_3: bool,
    /// Whether clients may resume a session.
    pub session_cache: bool,
    /// What may wait to be sent, in bytes.
    pub send_buffer: usize,
}

/// Whether clients show a certificate, in memcached's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyClient {
    No,
    /// They may; a wrong one is refused.
    Request,
    /// 3, OpenSSL's "once", asks for no more than 2 where there is no renegotiation.
    Require,
}

pub(super) fn access(layers: &Layers) -> Result<Access, ConfigError> {
    let auth_file = text(layers, Setting::AuthFile).map(PathBuf::from);
    let sasl = is(layers, Setting::EnableSasl)?;
    let protocol = layers.parse(Setting::Protocol, "auto, ascii or binary", Protocol::parse)?;
    // A user that one protocol asks for must not be gone around with the other.
    let needed = match (sasl, auth_file.is_some()) {
        (true, true) => return Err(ConfigError::TwoWaysToLogIn),
        (true, false) => Some(Protocol::Binary),
        (false, true) => Some(Protocol::Ascii),
        (false, false) => None,
    };
    let protocol = match (needed, protocol) {
        (Some(needed), Some(protocol)) if needed != protocol => {
            return Err(ConfigError::ProtocolWithoutUsers);
        }
        (Some(needed), _) => needed,
        (None, protocol) => protocol.unwrap_or_default(),
    };
    Ok(Access {
        protocol,
        auth_file,
        sasl,
        shutdown: is(layers, Setting::EnableShutdown)?,
        flush_all: !is(layers, Setting::DisableFlushAll)?,
        dump: !is(layers, Setting::DisableDumping)?,
        watch: !is(layers, Setting::DisableWatch)?,
    })
}

pub(super) fn tls(layers: &Layers) -> Result<Option<Tls>, ConfigError> {
    if !is(layers, Setting::EnableSsl)? {
        return Ok(None);
    }
    let file = |setting| text(layers, setting).map(PathBuf::from);
    let verify = match number(layers, Setting::SslVerifyMode, 0, 3)?.unwrap_or(0) {
        0 => VerifyClient::No,
        1 => VerifyClient::Request,
        _ => VerifyClient::Require,
    };
    let ca_cert = file(Setting::SslCaCert);
    if verify != VerifyClient::No && ca_cert.is_none() {
        return Err(ConfigError::NoAuthorities);
    }
    Ok(Some(Tls {
        chain_cert: file(Setting::SslChainCert).ok_or(ConfigError::NoCertificate)?,
        key: file(Setting::SslKey),
        ca_cert,
        verify,
        // 0 and 1 are TLS 1.0 and 1.1, which are broken and not there.
        only_1_3: number(layers, Setting::SslMinVersion, 0, 3)? == Some(3),
        session_cache: is(layers, Setting::SslSessionCache)?,
        send_buffer: number(layers, Setting::SslWbufSize, 1, 1 << 20)?
            .unwrap_or(DEFAULT_SEND_BUFFER_KIB)
            * 1024,
    }))
}

fn is(layers: &Layers, setting: Setting) -> Result<bool, ConfigError> {
    Ok(boolean(layers, setting)?.unwrap_or(false))
}
