//! What a node is told, checked.
//!
//! Owns the meaning of every setting: its default, its bounds and what it says when it is wrong. A setting may
//! come from a file, the environment or a flag, each overriding the one before; [`layers`] brings them together.
//! After [`Config::load`] nothing is checked again.

mod access;
mod extended;
mod file;
pub mod flags;
mod layers;
mod listen;
mod memory;
mod units;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use tracing::warn;

use crate::store::{DiskQuota, Durability, StorageOptions};

pub use access::{Access, Protocol, Tls, VerifyClient};
pub use file::FileError;
use flags::Flags;
use layers::{Layers, Origin, Setting};
pub use listen::{Endpoint, Host};
use memory::MemoryPlan;
pub use units::{ByteSize, UnitError};

const DEFAULT_METRICS_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090);
const DEFAULT_DB_PATH: &str = "./data/rocksdb";
/// memcached's defaults.
const DEFAULT_MAX_CONNECTIONS: u64 = 1024;
const DEFAULT_BACKLOG: u32 = 1024;
/// Many more than memcached's 20: a command that needs no disk takes a microsecond.
const DEFAULT_COMMANDS_PER_TURN: u32 = 128;
/// memcached's.
const DEFAULT_PREFIX_DELIMITER: u8 = b':';
const MAX_IDLE_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);
const DEFAULT_WATCHER_BUFFER_KIB: u32 = 256;
/// memcached's default; its bounds are below.
const DEFAULT_MAX_ITEM_SIZE: ByteSize = ByteSize::mib(1);
const MIN_MAX_ITEM_SIZE: ByteSize = ByteSize::kib(1);
const MAX_MAX_ITEM_SIZE: ByteSize = ByteSize::gib(1);
const MIN_MEMORY: ByteSize = ByteSize::mib(8);
const MIN_TIER: ByteSize = ByteSize::mib(1);
const DEFAULT_FLUSH_INTERVAL: Duration = Duration::from_secs(1);
const MAX_FLUSH_INTERVAL: Duration = Duration::from_secs(3600);
/// Routers send their next request well within this and learn to ask another node.
const DEFAULT_DRAIN: Duration = Duration::from_secs(1);
const MAX_DRAIN: Duration = Duration::from_secs(600);
/// Room is left for what other programs write to the same disk.
const DEFAULT_DISK_QUOTA: DiskQuota = DiskQuota::Percent(90);
/// With less, files would be too small to be worth it.
const MIN_DISK_QUOTA: ByteSize = ByteSize::mib(64);
/// A heartbeat has seconds.
const MIN_KEEP_FOR: Duration = Duration::from_secs(1);
const MAX_KEEP_FOR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Background jobs that RocksDB's own guide begins with.
const DEFAULT_BACKGROUND_JOBS: i32 = 4;
const DEFAULT_WRITE_BUFFERS: i32 = 3;

/// Everything a node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where clients are served.
    pub listen: Vec<Endpoint>,
    /// Connections that may wait to be accepted, per place.
    pub backlog: u32,
    pub access: Access,
    pub tls: Option<Tls>,
    /// Where `/health`, `/ready` and `/metrics` are served, if anywhere.
    pub metrics_addr: Option<SocketAddr>,
    /// Whether somebody asked for that address, so that it must be free.
    pub metrics_addr_is_set: bool,
    pub threads: usize,
    pub max_connections: u64,
    /// Whether one connection too many is told so; otherwise it waits to be accepted.
    pub refuse_connections: bool,
    /// After which silence a connection is closed.
    pub idle_timeout: Option<Duration>,
    /// Commands of one connection in a row before others get their turn.
    pub commands_per_turn: u32,
    /// Where the prefix of a key ends, for `stats detail`, ...
    pub prefix_delimiter: u8,
    /// ... and whether it counts from the start.
    pub count_prefixes: bool,
    /// Whether a delete with a time is refused, as memcached does; mcrouter sends them.
    pub strict_delete: bool,
    /// Whether items have a cas that clients see.
    pub cas: bool,
    /// What may wait for one `watch`, in bytes.
    pub watcher_buffer: usize,
    /// How long clients are told to go elsewhere before the node closes.
    pub drain: Duration,
    /// What block cache and memtables may take together.
    pub memory: ByteSize,
    pub storage: StorageOptions,
}

#[derive(Debug, Error)]
pub enum ConfigError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{setting} is {value:?} {origin}, but must be {allowed}")]
    Invalid {
        setting: Setting,
        value: String,
        origin: Origin,
        allowed: String,
    },
    #[error("-o {0} is unknown; -h lists what there is")]
    UnknownOption(String),
    #[error("-o {0} needs a value: -o {0}=VALUE")]
    NoValue(String),
    #[error("-S and -Y cannot be combined: users log in with SASL, or with the text protocol")]
    TwoWaysToLogIn,
    #[error(
        "-B must be binary with -S and ascii with -Y: the other protocol would ask for no user"
    )]
    ProtocolWithoutUsers,
    #[error("-U cannot be combined with -S or -Y: with UDP nobody can log in")]
    UdpWithUsers,
    #[error("-Z needs a certificate: -o ssl_chain_cert=FILE")]
    NoCertificate,
    #[error("-o ssl_verify_mode needs the authorities to verify with: -o ssl_ca_cert=FILE")]
    NoAuthorities,
}

impl Config {
    /// Brings together the file that `flags` name, the environment and the flags.
    pub fn load(
        flags: &Flags,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut layers = Layers::default();
        if let Some(path) = &flags.config {
            file::read(path, &mut layers)?;
        }
        layers.add_environment(environment);
        extended::add_to(&mut layers, &flags.memcached.extended)?;
        flags.add_to(&mut layers);
        for (flag, why) in flags.memcached.ignored() {
            warn!("{flag} is ignored: {why}");
        }
        Self::check(&layers)
    }

    fn check(layers: &Layers) -> Result<Self, ConfigError> {
        let memory = memory_budget(layers)?;
        let plan = MemoryPlan::within(memory);
        let storage = storage(layers, memory, &plan)?;
        let (access, tls) = (access::access(layers)?, access::tls(layers)?);
        let listen = listen::endpoints(layers, tls.is_some())?;
        check_datagrams(&listen, &access)?;
        Ok(Self {
            listen,
            backlog: number(layers, Setting::ListenBacklog, 1, 1 << 20)?.unwrap_or(DEFAULT_BACKLOG),
            access,
            tls,
            metrics_addr: metrics_addr(layers)?,
            metrics_addr_is_set: layers.get(Setting::MetricsAddr).is_some(),
            threads: number(layers, Setting::Threads, 1, 1024)?.unwrap_or_else(cores),
            max_connections: number(layers, Setting::MaxConnections, 1, 1_000_000)?
                .unwrap_or(DEFAULT_MAX_CONNECTIONS),
            refuse_connections: boolean(layers, Setting::MaxconnsFast)?.unwrap_or(true),
            idle_timeout: duration(
                layers,
                Setting::IdleTimeout,
                Duration::ZERO,
                MAX_IDLE_TIMEOUT,
            )?
            .filter(|timeout| !timeout.is_zero()),
            commands_per_turn: number(layers, Setting::MaxReqsPerEvent, 1, 1 << 20)?
                .unwrap_or(DEFAULT_COMMANDS_PER_TURN),
            prefix_delimiter: prefix_delimiter(layers)?.unwrap_or(DEFAULT_PREFIX_DELIMITER),
            count_prefixes: layers.get(Setting::PrefixDelimiter).is_some(),
            strict_delete: boolean(layers, Setting::StrictDelete)?.unwrap_or(false),
            cas: !boolean(layers, Setting::DisableCas)?.unwrap_or(false),
            watcher_buffer: watcher_buffer(layers)?,
            drain: duration(layers, Setting::Drain, Duration::ZERO, MAX_DRAIN)?
                .unwrap_or(DEFAULT_DRAIN),
            memory,
            storage,
        })
    }
}

/// Whoever must log in must not be gone around.
fn check_datagrams(listen: &[Endpoint], access: &Access) -> Result<(), ConfigError> {
    let users = access.sasl || access.auth_file.is_some();
    let has_datagrams = listen
        .iter()
        .any(|endpoint| matches!(endpoint, Endpoint::Udp { .. }));
    if users && has_datagrams {
        return Err(ConfigError::UdpWithUsers);
    }
    Ok(())
}

fn storage(
    layers: &Layers,
    memory: ByteSize,
    plan: &MemoryPlan,
) -> Result<StorageOptions, ConfigError> {
    let half_of_memory = ByteSize::bytes(memory.as_u64() / 2);
    let max_item = MAX_MAX_ITEM_SIZE.min(half_of_memory);
    let size = |setting, default: ByteSize, min, max| {
        layers
            .parse(setting, &format!("a size from {min} to {max}"), |text| {
                ByteSize::from_str(text)
                    .ok()
                    .filter(|size| (min..=max).contains(size))
            })
            .map(|size| size.unwrap_or(default).as_u64())
    };
    let buffer = |setting, default| size(setting, default, ByteSize::kib(64), ByteSize::gib(64));
    Ok(StorageOptions {
        db_path: text(layers, Setting::DbPath)
            .unwrap_or(DEFAULT_DB_PATH)
            .into(),
        durability: durability(layers)?,
        flush_interval: duration(
            layers,
            Setting::FlushInterval,
            Duration::from_millis(1),
            MAX_FLUSH_INTERVAL,
        )?
        .unwrap_or(DEFAULT_FLUSH_INTERVAL),
        max_item_size: size(
            Setting::MaxItemSize,
            DEFAULT_MAX_ITEM_SIZE,
            MIN_MAX_ITEM_SIZE,
            max_item,
        )?,
        tier_size: size(Setting::TierSize, plan.tier, MIN_TIER, ByteSize::gib(4096))?,
        block_cache_size: buffer(Setting::BlockCacheSize, plan.block_cache)?,
        write_buffer_size: buffer(Setting::WriteBufferSize, plan.write_buffer)?,
        max_write_buffer_number: number(layers, Setting::MaxWriteBufferNumber, 2, 64)?
            .unwrap_or(DEFAULT_WRITE_BUFFERS),
        disk_quota: disk_quota(layers)?,
        keep_for: duration(layers, Setting::KeepFor, MIN_KEEP_FOR, MAX_KEEP_FOR)?,
        max_background_jobs: number(layers, Setting::MaxBackgroundJobs, 2, 256)?
            .unwrap_or(DEFAULT_BACKGROUND_JOBS),
        enable_compression: boolean(layers, Setting::EnableCompression)?.unwrap_or(false),
        enable_ttl_compaction: boolean(layers, Setting::EnableTtlCompaction)?.unwrap_or(true),
    })
}

/// memcached's `-m` counts megabytes; everywhere else a size says its unit.
fn memory_budget(layers: &Layers) -> Result<ByteSize, ConfigError> {
    let given = layers.parse(
        Setting::Memory,
        "megabytes, or a size with a unit",
        |text| match text.parse::<u64>() {
            Ok(megabytes) => Some(ByteSize::bytes(megabytes.checked_mul(1 << 20)?)),
            Err(_) => text.parse().ok(),
        },
    )?;
    let Some(given) = given else {
        return Ok(memory::detected_budget().max(MIN_MEMORY));
    };
    if given < MIN_MEMORY {
        // memcached starts with any, so the node does too.
        warn!("a node takes {MIN_MEMORY} of memory at least, not {given}");
    }
    Ok(given.max(MIN_MEMORY))
}

fn prefix_delimiter(layers: &Layers) -> Result<Option<u8>, ConfigError> {
    layers.parse(
        Setting::PrefixDelimiter,
        "one character of ASCII that may stand in a key",
        |text| match *text.as_bytes() {
            [delimiter @ b'!'..=b'~'] => Some(delimiter),
            _ => None,
        },
    )
}

fn watcher_buffer(layers: &Layers) -> Result<usize, ConfigError> {
    let kib = number(layers, Setting::WatcherLogbufSize, 1, 1 << 20)?;
    Ok(kib.unwrap_or(DEFAULT_WATCHER_BUFFER_KIB) as usize * 1024)
}

fn metrics_addr(layers: &Layers) -> Result<Option<SocketAddr>, ConfigError> {
    let enabled = boolean(layers, Setting::MetricsEnabled)?.unwrap_or(true);
    let addr = socket_addr(layers, Setting::MetricsAddr)?.unwrap_or(DEFAULT_METRICS_ADDR);
    Ok(enabled.then_some(addr))
}

fn durability(layers: &Layers) -> Result<Durability, ConfigError> {
    let allowed = "none, interval, always or fsync";
    let given = layers.parse(Setting::Durability, allowed, |text| {
        Durability::ALL.into_iter().find(|mode| mode.name() == text)
    })?;
    Ok(given.unwrap_or_default())
}

fn disk_quota(layers: &Layers) -> Result<DiskQuota, ConfigError> {
    let allowed = format!("a size of at least {MIN_DISK_QUOTA}, or a share from 1% to 100%");
    let given = layers.parse(Setting::DiskQuota, &allowed, |text| {
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok();
            return percent
                .filter(|percent| (1..=100).contains(percent))
                .map(DiskQuota::Percent);
        }
        let size = ByteSize::from_str(text).ok()?;
        (size >= MIN_DISK_QUOTA).then_some(DiskQuota::Bytes(size.as_u64()))
    })?;
    Ok(given.unwrap_or(DEFAULT_DISK_QUOTA))
}

fn text(layers: &Layers, setting: Setting) -> Option<&str> {
    layers.get(setting).filter(|text| !text.is_empty())
}

fn boolean(layers: &Layers, setting: Setting) -> Result<Option<bool>, ConfigError> {
    layers.parse(setting, "true or false", |text| text.parse().ok())
}

fn number<T>(layers: &Layers, setting: Setting, min: T, max: T) -> Result<Option<T>, ConfigError>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let allowed = format!("a whole number from {min} to {max}");
    layers.parse(setting, &allowed, |text| {
        text.parse()
            .ok()
            .filter(|number| (&min..=&max).contains(&number))
    })
}

fn duration(
    layers: &Layers,
    setting: Setting,
    min: Duration,
    max: Duration,
) -> Result<Option<Duration>, ConfigError> {
    let allowed = format!("a time with a unit (500ms, 1s, 5m) from {min:?} to {max:?}");
    layers.parse(setting, &allowed, |text| {
        units::parse_duration(text).filter(|duration| (min..=max).contains(duration))
    })
}

fn socket_addr(layers: &Layers, setting: Setting) -> Result<Option<SocketAddr>, ConfigError> {
    layers.parse(
        setting,
        "an IP address or localhost, and a port (127.0.0.1:11211)",
        parse_socket_addr,
    )
}

fn parse_socket_addr(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::new(
            Ipv4Addr::LOCALHOST.into(),
            port.parse().ok()?,
        )),
        None => text.parse().ok(),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests;
