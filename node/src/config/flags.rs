//! The command line.
//!
//! Owns the flags and their help. Values stay text here: what they mean is checked with those of the file and of
//! the environment. The one-letter flags are memcached's, as are their long names; [`access`] and [`memcached`] have
//! those that are about nothing else.

mod access;
mod memcached;

use std::path::PathBuf;

use clap::{ArgAction, Parser, ValueEnum};

use super::layers::{Layers, Origin, Setting};
pub use access::AccessFlags;
pub use memcached::MemcachedFlags;

/// A memcached that remembers: serves memcached's protocol and keeps the items in RocksDB.
///
/// Every long flag can also be set in the file, and in the environment: --db-path is PETRACACHE_DB_PATH. Flags win
/// over the environment, the environment wins over the file. Sizes are bytes or have a unit (512k, 64m, 1g, 1Mi: all
/// powers of 1024), times have a unit (500ms, 1s, 5m).
#[derive(Debug, Default, Parser)]
#[command(
    name = "petracache",
    version,
    max_term_width = 100,
    args_override_self = true
)]
pub struct Flags {
    /// Configuration file (TOML)
    #[arg(value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Address to serve clients on [default: 127.0.0.1:11211]
    #[arg(long, value_name = "IP:PORT", help_heading = "Serving")]
    listen_addr: Option<String>,
    /// Addresses and names to serve clients on, with or without a port; * is all. With TLS, notls:ADDRESS is
    /// without. May be given several times
    #[arg(
        short = 'l',
        long,
        value_name = "ADDRESS,...",
        help_heading = "Serving"
    )]
    listen: Vec<String>,
    /// TCP port to serve clients on; 0 is none, -1 takes a free one
    #[arg(
        short = 'p',
        long,
        value_name = "PORT",
        allow_negative_numbers = true,
        help_heading = "Serving"
    )]
    port: Option<String>,
    /// UDP port to serve clients on; -1 takes a free one, and the TCP port is the same if no other is given. Anybody who
    /// can send to it can have answers sent to somebody else [default: 0, which is none]
    #[arg(
        short = 'U',
        long,
        value_name = "PORT",
        allow_negative_numbers = true,
        help_heading = "Serving"
    )]
    udp_port: Option<String>,
    /// Unix socket to serve clients on, instead of the network
    #[arg(short = 's', long, value_name = "FILE", help_heading = "Serving")]
    unix_socket: Option<String>,
    /// Access to the Unix socket, in octal [default: 700]
    #[arg(short = 'a', long, value_name = "MASK", help_heading = "Serving")]
    unix_mask: Option<String>,
    /// Connections that may wait to be accepted [default: 1024]
    #[arg(
        short = 'b',
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        help_heading = "Serving"
    )]
    listen_backlog: Option<String>,
    /// Clients that may be connected at a time [default: 1024]
    #[arg(
        short = 'c',
        long,
        alias = "conn-limit",
        value_name = "NUMBER",
        allow_negative_numbers = true,
        help_heading = "Serving"
    )]
    max_connections: Option<String>,
    /// Close connections that say nothing for so long; 0 is never [default: 0]
    #[arg(long, value_name = "TIME", help_heading = "Serving")]
    idle_timeout: Option<String>,
    /// Worker threads [default: one per core]
    #[arg(
        short = 't',
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        help_heading = "Serving"
    )]
    threads: Option<String>,
    /// Commands of one connection in a row before others get their turn [default: 128]
    #[arg(
        short = 'R',
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        help_heading = "Serving"
    )]
    max_reqs_per_event: Option<String>,
    /// What clients may speak: ascii, binary, or auto for both [default: auto]
    #[arg(short = 'B', long, value_name = "NAME", help_heading = "Serving")]
    protocol: Option<String>,
    /// Largest item, counted as memcached does: value, key and about 60 bytes [default: 1m]
    #[arg(short = 'I', long, value_name = "SIZE", help_heading = "Serving")]
    max_item_size: Option<String>,
    /// Count gets, hits, sets and deletes per prefix of the keys, which ends at this character: "stats detail dump" shows
    /// them. Without it "stats detail on" begins to count, with ":"
    #[arg(short = 'D', long, value_name = "CHAR", help_heading = "Serving")]
    prefix_delimiter: Option<String>,
    /// Show no cas numbers: all are 0 and none can be compared with. A flush_all then takes the rest of its second with it
    #[arg(short = 'C', long, help_heading = "Serving")]
    disable_cas: bool,
    /// Refuse a delete that names a time other than 0, as memcached does; mcrouter sends such
    #[arg(long, help_heading = "Serving")]
    strict_delete: bool,
    /// How long clients are answered "busy" before the node stops, so that routers move on [default: 1s]
    #[arg(long, value_name = "TIME", help_heading = "Serving")]
    drain: Option<String>,

    /// Directory of the database [default: ./data/rocksdb]
    #[arg(long, value_name = "DIR", help_heading = "Storage")]
    db_path: Option<String>,
    /// What an acknowledged write survives: none (a clean stop), interval (a crash, except for the last
    /// --flush-interval), always (a crash), fsync (a power failure) [default: interval]
    #[arg(long, value_name = "MODE", help_heading = "Storage")]
    durability: Option<String>,
    /// How often durability "interval" writes to the disk [default: 1s]
    #[arg(long, value_name = "TIME", help_heading = "Storage")]
    flush_interval: Option<String>,
    /// What the directory may take, as a size or as a share of its file system; the oldest items that are not used make
    /// room for new ones [default: 90%]
    #[arg(long, value_name = "SIZE", help_heading = "Storage")]
    disk_quota: Option<String>,
    /// A node that was away for longer starts empty, because it does not know what has changed [default: for ever]
    #[arg(long, value_name = "TIME", help_heading = "Storage")]
    keep_for: Option<String>,
    /// Memory for items, caches and write buffers, in megabytes or with a unit [default: half of the container's
    /// limit; without one a quarter of the machine's memory, at most 1g]
    #[arg(
        short = 'm',
        long,
        alias = "memory-limit",
        value_name = "MEGABYTES",
        help_heading = "Storage"
    )]
    memory: Option<String>,
    /// Items that are served without the disk [default: three quarters of the memory]
    #[arg(long, value_name = "SIZE", help_heading = "Storage")]
    tier_size: Option<String>,
    /// RocksDB: block cache [default: an eighth of the memory]
    #[arg(long, value_name = "SIZE", help_heading = "Storage")]
    block_cache_size: Option<String>,
    /// RocksDB: one write buffer [default: a 24th of the memory, at most 64m]
    #[arg(long, value_name = "SIZE", help_heading = "Storage")]
    write_buffer_size: Option<String>,
    /// RocksDB: write buffers [default: 3]
    #[arg(long, value_name = "NUMBER", help_heading = "Storage")]
    max_write_buffer_number: Option<String>,
    /// RocksDB: threads for flushes and compactions [default: 4]
    #[arg(long, value_name = "NUMBER", help_heading = "Storage")]
    max_background_jobs: Option<String>,
    /// RocksDB: compress table files with LZ4 [default: false]
    #[arg(long, value_name = "BOOL", help_heading = "Storage")]
    enable_compression: Option<String>,
    /// Remove expired items from the disk when RocksDB compacts [default: true]
    #[arg(long, value_name = "BOOL", help_heading = "Storage")]
    enable_ttl_compaction: Option<String>,

    /// Address of /health, /ready and /metrics [default: 127.0.0.1:9090]
    #[arg(long, value_name = "IP:PORT", help_heading = "Observing")]
    metrics_addr: Option<String>,
    /// Serve /health, /ready and /metrics [default: true]
    #[arg(long, value_name = "BOOL", help_heading = "Observing")]
    metrics_enabled: Option<String>,
    /// Log more: -v connections that are lost, -vv everything. RUST_LOG sets it in detail
    #[arg(short = 'v', long, action = ArgAction::Count, help_heading = "Observing")]
    pub verbose: u8,
    /// How log lines are written
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "PETRACACHE_LOG_FORMAT",
        help_heading = "Observing"
    )]
    pub log_format: LogFormat,

    #[command(flatten)]
    pub(super) access: AccessFlags,
    #[command(flatten)]
    pub memcached: MemcachedFlags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl Flags {
    pub(super) fn add_to(&self, layers: &mut Layers) {
        if !self.listen.is_empty() {
            let flag = Setting::Listen.flag();
            layers.put(Setting::Listen, self.listen.join(","), Origin::Flag(flag));
        }
        self.access.add_to(layers);
        let switches = [
            (Setting::DisableCas, self.disable_cas),
            (Setting::StrictDelete, self.strict_delete),
        ];
        for (setting, on) in switches {
            if on {
                layers.put(setting, "true".to_owned(), Origin::Flag(setting.flag()));
            }
        }
        let given = [
            (Setting::ListenAddr, &self.listen_addr),
            (Setting::Port, &self.port),
            (Setting::UdpPort, &self.udp_port),
            (Setting::UnixSocket, &self.unix_socket),
            (Setting::UnixMask, &self.unix_mask),
            (Setting::ListenBacklog, &self.listen_backlog),
            (Setting::IdleTimeout, &self.idle_timeout),
            (Setting::MaxReqsPerEvent, &self.max_reqs_per_event),
            (Setting::Protocol, &self.protocol),
            (Setting::MaxConnections, &self.max_connections),
            (Setting::Threads, &self.threads),
            (Setting::MaxItemSize, &self.max_item_size),
            (Setting::PrefixDelimiter, &self.prefix_delimiter),
            (Setting::Drain, &self.drain),
            (Setting::DbPath, &self.db_path),
            (Setting::Durability, &self.durability),
            (Setting::FlushInterval, &self.flush_interval),
            (Setting::Memory, &self.memory),
            (Setting::TierSize, &self.tier_size),
            (Setting::BlockCacheSize, &self.block_cache_size),
            (Setting::WriteBufferSize, &self.write_buffer_size),
            (Setting::MaxWriteBufferNumber, &self.max_write_buffer_number),
            (Setting::DiskQuota, &self.disk_quota),
            (Setting::KeepFor, &self.keep_for),
            (Setting::MaxBackgroundJobs, &self.max_background_jobs),
            (Setting::EnableCompression, &self.enable_compression),
            (Setting::EnableTtlCompaction, &self.enable_ttl_compaction),
            (Setting::MetricsEnabled, &self.metrics_enabled),
            (Setting::MetricsAddr, &self.metrics_addr),
        ];
        for (setting, value) in given {
            if let Some(value) = value {
                layers.put(setting, value.clone(), Origin::Flag(setting.flag()));
            }
        }
    }
}
