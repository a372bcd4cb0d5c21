//! The command line.
//!
//! Owns the flags and their help. Values stay text here: what they mean is checked with those of the file and of
//! the environment. The one-letter flags are memcached's.

use std::path::PathBuf;

use clap::{ArgAction, Parser, ValueEnum};

use super::layers::{Layers, Origin, Setting};

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
    /// IP address to serve clients on, with or without a port
    #[arg(short = 'l', value_name = "IP", help_heading = "Serving")]
    listen_ip: Option<String>,
    /// TCP port to serve clients on; 0 takes a free one
    #[arg(short = 'p', value_name = "PORT", help_heading = "Serving")]
    port: Option<String>,
    /// UDP port: only 0, there is no UDP
    #[arg(short = 'U', value_name = "PORT", value_parser = ["0"], help_heading = "Serving")]
    udp_port: Option<String>,
    /// Clients that may be connected at a time [default: 10000]
    #[arg(short = 'c', long, value_name = "NUMBER", help_heading = "Serving")]
    max_connections: Option<String>,
    /// Worker threads [default: one per core]
    #[arg(short = 't', long, value_name = "NUMBER", help_heading = "Serving")]
    threads: Option<String>,
    /// Largest item, counted as memcached does: value, key and about 60 bytes [default: 1m]
    #[arg(short = 'I', long, value_name = "SIZE", help_heading = "Serving")]
    max_item_size: Option<String>,
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
    #[arg(short = 'm', long, value_name = "MEGABYTES", help_heading = "Storage")]
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
    #[arg(short = 'v', action = ArgAction::Count, help_heading = "Observing")]
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
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl Flags {
    pub(super) fn add_to(&self, layers: &mut Layers) {
        let given = [
            (Setting::ListenAddr, &self.listen_addr),
            (Setting::ListenIp, &self.listen_ip),
            (Setting::Port, &self.port),
            (Setting::MaxConnections, &self.max_connections),
            (Setting::Threads, &self.threads),
            (Setting::MaxItemSize, &self.max_item_size),
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
