//! Settings from several places, as the text they were given in.
//!
//! Owns the names of each setting (in the file, in the environment, as a flag), which place wins, and how a
//! wrong value is reported. What is right and what it means is decided in [`super`].

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use super::ConfigError;

macro_rules! settings {
    ($($variant:ident { $toml:expr, $env:expr, $flag:literal })*) => {
        /// One thing that can be set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Setting { $($variant,)* }

        impl Setting {
            pub(super) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Section and key in the file.
            pub(super) fn toml(self) -> Option<(&'static str, &'static str)> {
                match self { $(Self::$variant => $toml,)* }
            }

            /// Name in the environment.
            pub(super) fn env(self) -> Option<&'static str> {
                match self { $(Self::$variant => $env,)* }
            }

            pub(super) fn flag(self) -> &'static str {
                match self { $(Self::$variant => $flag,)* }
            }
        }
    };
}

// Port has no name in the environment: Kubernetes puts PETRACACHE_PORT=tcp://... into every pod beside a Service named
// petracache. Listen takes everything that the address of ListenAddr can say, and more.
settings! {
    ListenAddr { Some(("server", "listen_addr")), Some("PETRACACHE_LISTEN_ADDR"), "--listen-addr" }
    Listen { Some(("server", "listen")), Some("PETRACACHE_LISTEN"), "--listen" }
    Port { None, None, "-p" }
    UdpPort { Some(("server", "udp_port")), Some("PETRACACHE_UDP_PORT"), "--udp-port" }
    UnixSocket { Some(("server", "unix_socket")), Some("PETRACACHE_UNIX_SOCKET"), "--unix-socket" }
    UnixMask { Some(("server", "unix_mask")), Some("PETRACACHE_UNIX_MASK"), "--unix-mask" }
    ListenBacklog { Some(("server", "listen_backlog")), Some("PETRACACHE_LISTEN_BACKLOG"), "--listen-backlog" }
    IdleTimeout { Some(("server", "idle_timeout")), Some("PETRACACHE_IDLE_TIMEOUT"), "--idle-timeout" }
    MaxReqsPerEvent {
        Some(("server", "max_reqs_per_event")),
        Some("PETRACACHE_MAX_REQS_PER_EVENT"),
        "--max-reqs-per-event"
    }
    Protocol { Some(("server", "protocol")), Some("PETRACACHE_PROTOCOL"), "--protocol" }
    MaxconnsFast { Some(("server", "maxconns_fast")), None, "-o maxconns_fast" }
    WatcherLogbufSize { Some(("server", "watcher_logbuf_size")), None, "-o watcher_logbuf_size" }
    PrefixDelimiter {
        Some(("server", "prefix_delimiter")),
        Some("PETRACACHE_PREFIX_DELIMITER"),
        "--prefix-delimiter"
    }
    StrictDelete { Some(("server", "strict_delete")), Some("PETRACACHE_STRICT_DELETE"), "--strict-delete" }
    DisableCas { Some(("server", "disable_cas")), Some("PETRACACHE_DISABLE_CAS"), "--disable-cas" }
    Threads { Some(("server", "threads")), Some("PETRACACHE_THREADS"), "--threads" }
    MaxConnections { Some(("server", "max_connections")), Some("PETRACACHE_MAX_CONNECTIONS"), "--max-connections" }
    MaxItemSize { Some(("server", "max_item_size")), Some("PETRACACHE_MAX_ITEM_SIZE"), "--max-item-size" }
    Drain { Some(("server", "drain")), Some("PETRACACHE_DRAIN"), "--drain" }
    EnableShutdown { Some(("access", "enable_shutdown")), Some("PETRACACHE_ENABLE_SHUTDOWN"), "--enable-shutdown" }
    DisableFlushAll {
        Some(("access", "disable_flush_all")),
        Some("PETRACACHE_DISABLE_FLUSH_ALL"),
        "--disable-flush-all"
    }
    DisableDumping { Some(("access", "disable_dumping")), Some("PETRACACHE_DISABLE_DUMPING"), "--disable-dumping" }
    DisableWatch { Some(("access", "disable_watch")), Some("PETRACACHE_DISABLE_WATCH"), "--disable-watch" }
    AuthFile { Some(("access", "auth_file")), Some("PETRACACHE_AUTH_FILE"), "--auth-file" }
    EnableSasl { Some(("access", "enable_sasl")), Some("PETRACACHE_ENABLE_SASL"), "--enable-sasl" }
    EnableSsl { Some(("tls", "enable_ssl")), Some("PETRACACHE_ENABLE_SSL"), "--enable-ssl" }
    SslChainCert { Some(("tls", "ssl_chain_cert")), None, "-o ssl_chain_cert" }
    SslKey { Some(("tls", "ssl_key")), None, "-o ssl_key" }
    SslCaCert { Some(("tls", "ssl_ca_cert")), None, "-o ssl_ca_cert" }
    SslVerifyMode { Some(("tls", "ssl_verify_mode")), None, "-o ssl_verify_mode" }
    SslMinVersion { Some(("tls", "ssl_min_version")), None, "-o ssl_min_version" }
    SslWbufSize { Some(("tls", "ssl_wbuf_size")), None, "-o ssl_wbuf_size" }
    SslSessionCache { Some(("tls", "ssl_session_cache")), None, "-o ssl_session_cache" }
    DbPath { Some(("storage", "db_path")), Some("PETRACACHE_DB_PATH"), "--db-path" }
    Durability { Some(("storage", "durability")), Some("PETRACACHE_DURABILITY"), "--durability" }
    FlushInterval { Some(("storage", "flush_interval")), Some("PETRACACHE_FLUSH_INTERVAL"), "--flush-interval" }
    Memory { Some(("storage", "memory")), Some("PETRACACHE_MEMORY"), "--memory" }
    TierSize { Some(("storage", "tier_size")), Some("PETRACACHE_TIER_SIZE"), "--tier-size" }
    BlockCacheSize { Some(("storage", "block_cache_size")), Some("PETRACACHE_BLOCK_CACHE_SIZE"), "--block-cache-size" }
    WriteBufferSize { Some(("storage", "write_buffer_size")), Some("PETRACACHE_WRITE_BUFFER_SIZE"), "--write-buffer-size" }
    MaxWriteBufferNumber {
        Some(("storage", "max_write_buffer_number")),
        Some("PETRACACHE_MAX_WRITE_BUFFER_NUMBER"),
        "--max-write-buffer-number"
    }
    DiskQuota { Some(("storage", "disk_quota")), Some("PETRACACHE_DISK_QUOTA"), "--disk-quota" }
    KeepFor { Some(("storage", "keep_for")), Some("PETRACACHE_KEEP_FOR"), "--keep-for" }
    MaxBackgroundJobs {
        Some(("storage", "max_background_jobs")),
        Some("PETRACACHE_MAX_BACKGROUND_JOBS"),
        "--max-background-jobs"
    }
    EnableCompression {
        Some(("storage", "enable_compression")),
        Some("PETRACACHE_ENABLE_COMPRESSION"),
        "--enable-compression"
    }
    EnableTtlCompaction {
        Some(("storage", "enable_ttl_compaction")),
        Some("PETRACACHE_ENABLE_TTL_COMPACTION"),
        "--enable-ttl-compaction"
    }
    MetricsEnabled { Some(("metrics", "enabled")), Some("PETRACACHE_METRICS_ENABLED"), "--metrics-enabled" }
    MetricsAddr { Some(("metrics", "listen_addr")), Some("PETRACACHE_METRICS_ADDR"), "--metrics-addr" }
}

impl fmt::Display for Setting {
    /// The name in the file, which is the most telling one, else the flag.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.toml() {
            Some((section, key)) => write!(f, "{section}.{key}"),
            None => f.write_str(self.flag()),
        }
    }
}

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    File(PathBuf),
    Environment(&'static str),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "in the file {}", path.display()),
            Self::Environment(name) => write!(f, "in the environment ({name})"),
            Self::Flag(flag) => write!(f, "on the command line ({flag})"),
        }
    }
}

/// What was given for each setting, by the place that counts.
#[derive(Debug, Default)]
pub(super) struct Layers(HashMap<Setting, (String, Origin)>);

impl Layers {
    /// Overrides what was given before.
    pub(super) fn put(&mut self, setting: Setting, value: String, origin: Origin) {
        self.0.insert(setting, (value, origin));
    }

    pub(super) fn add_environment(&mut self, variable: impl Fn(&str) -> Option<String>) {
        for setting in Setting::ALL {
            if let Some(name) = setting.env()
                && let Some(value) = variable(name)
            {
                self.put(*setting, value, Origin::Environment(name));
            }
        }
    }

    pub(super) fn get(&self, setting: Setting) -> Option<&str> {
        self.0.get(&setting).map(|(value, _)| value.as_str())
    }

    /// The value that `parse` makes of what was given, if anything was. What it makes nothing of is an error
    /// that says what is `allowed`.
    pub(super) fn parse<T>(
        &self,
        setting: Setting,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some((value, origin)) = self.0.get(&setting) else {
            return Ok(None);
        };
        parse(value.trim())
            .map(Some)
            .ok_or_else(|| ConfigError::Invalid {
                setting,
                value: value.clone(),
                origin: origin.clone(),
                allowed: allowed.to_owned(),
            })
    }
}
