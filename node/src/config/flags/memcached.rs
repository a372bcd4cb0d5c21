//! Flags that a node has because memcached has them: about the process, and those that mean nothing here.
//!
//! Owns what becomes of each of the latter: it is accepted, so that a command line of memcached works as it is, and
//! said to be ignored.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Process, as memcached")]
pub struct MemcachedFlags {
    /// Run in the background; returns when the node serves
    #[arg(short = 'd', long)]
    pub daemon: bool,
    /// Become this user, when started as root
    #[arg(short = 'u', long, value_name = "USER")]
    pub user: Option<String>,
    /// Write the process's number into this file
    #[arg(short = 'P', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// Allow core dumps
    #[arg(short = 'r', long)]
    pub enable_coredumps: bool,
    /// Keep all memory from being paged out
    #[arg(short = 'k', long)]
    pub lock_memory: bool,
    /// Print the licence and exit
    #[arg(short = 'i', long)]
    pub license: bool,
    /// memcached's further options; may be given several times:
    /// idle_timeout=SECONDS, [no_]maxconns_fast, watcher_logbuf_size=KIB, [no_]strict_delete,
    /// ssl_chain_cert=FILE, ssl_key=FILE, ssl_ca_cert=FILE, ssl_verify_mode=0|1|2|3, ssl_min_version=2|3,
    /// ssl_session_cache, ssl_wbuf_size=KIB; those about slabs, LRU and hash table are ignored
    #[arg(short = 'o', long, value_name = "OPTION,...")]
    pub(in crate::config) extended: Vec<String>,

    /// Ignored: what does not fit into memory is on the disk
    #[arg(short = 'M', long)]
    disable_evictions: bool,
    /// Ignored: the system decides about its pages
    #[arg(short = 'L', long)]
    enable_largepages: bool,
    /// Ignored: there are no slabs
    #[arg(short = 'f', long, value_name = "FACTOR")]
    slab_growth_factor: Option<String>,
    /// Ignored: there are no slabs
    #[arg(short = 'n', long, value_name = "BYTES")]
    slab_min_size: Option<String>,
    /// Ignored: items survive a restart in --db-path
    #[arg(short = 'e', long, value_name = "FILE")]
    memory_file: Option<String>,
    /// Ignored: connections go to the workers in turn
    #[arg(short = 'N', long = "napi_ids", value_name = "NUMBER")]
    napi_ids: Option<String>,
}

impl MemcachedFlags {
    /// Each flag that was given and has no effect, and why.
    pub(in crate::config) fn ignored(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        [
            (
                self.disable_evictions,
                "-M",
                "what does not fit into memory is on the disk",
            ),
            (
                self.enable_largepages,
                "-L",
                "the system decides about its pages",
            ),
            (
                self.slab_growth_factor.is_some(),
                "-f",
                "there are no slabs",
            ),
            (self.slab_min_size.is_some(), "-n", "there are no slabs"),
            (
                self.memory_file.is_some(),
                "-e",
                "items survive a restart in --db-path",
            ),
            (
                self.napi_ids.is_some(),
                "-N",
                "connections go to the workers in turn",
            ),
        ]
        .into_iter()
        .filter_map(|(given, flag, why)| given.then_some((flag, why)))
    }
}
