//! Where clients are served: memcached's `-l`, `-p`, `-U`, `-s` and `-a`.
//!
//! Owns how those combine. Names are looked up when the node starts to listen, not here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::layers::{Layers, Setting};
use super::{ConfigError, number, socket_addr, text};

const DEFAULT_PORT: u16 = 11211;
/// Nobody but this machine, until told otherwise.
const DEFAULT_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT);
const DEFAULT_UNIX_MASK: u32 = 0o700;

/// One place to serve clients on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Tcp {
        host: Host,
        /// 0 takes a free one.
        port: u16,
        /// Whether connections are encrypted, if the node has TLS at all.
        tls: bool,
    },
    Udp {
        host: Host,
        /// 0 takes a free one.
        port: u16,
    },
    Unix {
        path: PathBuf,
        /// Who may connect, as file permissions.
        mask: u32,
    },
}

/// Which of the machine's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    All,
    /// An address or a name that has addresses.
    Named(String),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } => write!(f, "{host}, TCP port {port}"),
            Self::Udp { host, port } => write!(f, "{host}, UDP port {port}"),
            Self::Unix { path, .. } => write!(f, "{}", path.display()),
        }
    }
}

/// A port that was asked for.
#[derive(Clone, Copy)]
enum Port {
    None,
    Is(u16),
}

/// All places, in the order in which they were given.
pub(super) fn endpoints(layers: &Layers, has_tls: bool) -> Result<Vec<Endpoint>, ConfigError> {
    if let Some(path) = text(layers, Setting::UnixSocket) {
        return Ok(vec![Endpoint::Unix {
            path: path.into(),
            mask: unix_mask(layers)?,
        }]);
    }
    let base = socket_addr(layers, Setting::ListenAddr)?.unwrap_or(DEFAULT_ADDR);
    let udp = port(layers, Setting::UdpPort)?.unwrap_or(Port::None);
    let tcp = match (port(layers, Setting::Port)?, udp) {
        (Some(port), _) => port,
        // As memcached: whoever asks for a UDP port gets the same for TCP.
        (None, Port::Is(port)) => Port::Is(port),
        (None, Port::None) => Port::Is(base.port()),
    };
    let places = layers
        .parse(
            Setting::Listen,
            "addresses with or without a port",
            |list| {
                let places = list.split([',', ';']).filter(|place| !place.is_empty());
                places.map(|place| Place::parse(place, has_tls)).collect()
            },
        )?
        .unwrap_or_else(|| vec![Place::of(base.ip())]);
    let tcp = on_each(&places, tcp, |place, port| Endpoint::Tcp {
        host: place.host.clone(),
        port,
        tls: place.tls,
    });
    let udp = on_each(&places, udp, |place, port| Endpoint::Udp {
        host: place.host.clone(),
        port,
    });
    Ok([tcp, udp].concat())
}

fn on_each(
    places: &[Place],
    port: Port,
    endpoint: impl Fn(&Place, u16) -> Endpoint,
) -> Vec<Endpoint> {
    let Port::Is(default) = port else {
        return Vec::new();
    };
    let of = |place: &Place| endpoint(place, place.port.unwrap_or(default));
    places.iter().map(of).collect()
}

/// One entry of `-l`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    host: Host,
    port: Option<u16>,
    tls: bool,
}

impl Place {
    fn of(ip: IpAddr) -> Self {
        Self {
            host: Host::Named(ip.to_string()),
            port: None,
            tls: true,
        }
    }

    /// `[notls:]HOST[:PORT]`, where an IPv6 address with a port is in brackets and `*` is all addresses.
    fn parse(text: &str, has_tls: bool) -> Option<Self> {
        let (text, tls) = match text.trim().strip_prefix("notls:") {
            // Without TLS it would say something that is not so.
            Some(rest) => (has_tls.then_some(rest)?, false),
            None => (text.trim(), true),
        };
        let (host, port) = split_port(text)?;
        if host.is_empty() || host.contains(char::is_whitespace) {
            return None;
        }
        let host = match host {
            "*" => Host::All,
            name => Host::Named(name.to_owned()),
        };
        Some(Self { host, port, tls })
    }
}

fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        // Several colons: an IPv6 address.
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((text, None)),
    }
}

/// memcached's way to write it: -1 takes a free port, 0 is none.
fn port(layers: &Layers, setting: Setting) -> Result<Option<Port>, ConfigError> {
    let port = number(layers, setting, -1, i32::from(u16::MAX))?;
    Ok(port.map(|port| match port {
        0 => Port::None,
        port => Port::Is(u16::try_from(port).unwrap_or(0)),
    }))
}

fn unix_mask(layers: &Layers) -> Result<u32, ConfigError> {
    let mask = layers.parse(Setting::UnixMask, "permissions in octal (700)", |text| {
        u32::from_str_radix(text, 8)
            .ok()
            .filter(|mask| *mask <= 0o777)
    })?;
    Ok(mask.unwrap_or(DEFAULT_UNIX_MASK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_memcached_reads_it() {
        let place = |text| {
            let place = Place::parse(text, true).expect("a place");
            (place.host.to_string(), place.port, place.tls)
        };
        assert_eq!(place("10.0.0.1"), ("10.0.0.1".into(), None, true));
        assert_eq!(place("10.0.0.1:5"), ("10.0.0.1".into(), Some(5), true));
        assert_eq!(place("::1"), ("::1".into(), None, true));
        assert_eq!(place("[::1]"), ("::1".into(), None, true));
        assert_eq!(place("[::1]:5"), ("::1".into(), Some(5), true));
        assert_eq!(place("*:5"), ("*".into(), Some(5), true));
        assert_eq!(place("cache.local"), ("cache.local".into(), None, true));
        assert_eq!(place("notls:[::1]:5"), ("::1".into(), Some(5), false));
        for wrong in ["", ":5", "a:b", "[::1", "[::1]5", "a b", "10.0.0.1:70000"] {
            assert_eq!(Place::parse(wrong, true), None, "{wrong}");
        }
        assert_eq!(Place::parse("notls:10.0.0.1", false), None);
    }
}
