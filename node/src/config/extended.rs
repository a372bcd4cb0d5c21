//! memcached's `-o`: options that have no flag of their own.
//!
//! Owns which of them exist, which mean something here and what they are called among the settings. What they may be is
//! checked there.

use tracing::warn;

use super::ConfigError;
use super::layers::{Layers, Origin, Setting};

/// What becomes of an option.
enum Effect {
    /// Sets this, and needs a value.
    Sets(Setting),
    /// Sets this, to a number of seconds.
    SetsSeconds(Setting),
    /// Sets this to true or false, without a value.
    Switches(Setting, bool),
    /// Means nothing here.
    Ignored(&'static str),
}

const SLABS: Effect = Effect::Ignored("there are no slabs");
const LRU: Effect = Effect::Ignored("the memory tier tunes itself");
const HASH: Effect = Effect::Ignored("the hash tables grow by themselves");
const BUFFERS: Effect = Effect::Ignored("buffers are bounded per connection");
const EXTSTORE: Effect = Effect::Ignored("everything is kept on the disk, in --db-path");
const DEFAULTS: Effect = Effect::Ignored("there is one set of defaults");
const TLS: Effect = Effect::Ignored("rustls has its own, which are safe");

/// Adds what the arguments of all `-o` set. Unknown ones are refused, as memcached does.
pub(super) fn add_to(layers: &mut Layers, given: &[String]) -> Result<(), ConfigError> {
    let options = given.iter().flat_map(|list| list.split(','));
    for option in options.filter(|option| !option.is_empty()) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let value = || value.ok_or_else(|| ConfigError::NoValue(name.to_owned()));
        match effect(name).ok_or_else(|| ConfigError::UnknownOption(name.to_owned()))? {
            Effect::Sets(setting) => put(layers, setting, value()?.to_owned()),
            Effect::SetsSeconds(setting) => put(layers, setting, format!("{}s", value()?)),
            Effect::Switches(setting, on) => put(layers, setting, on.to_string()),
            Effect::Ignored(why) => warn!("-o {name} is ignored: {why}"),
        }
    }
    Ok(())
}

fn put(layers: &mut Layers, setting: Setting, value: String) {
    layers.put(setting, value, Origin::Flag("-o"));
}

fn effect(name: &str) -> Option<Effect> {
    Some(match name {
        "idle_timeout" => Effect::SetsSeconds(Setting::IdleTimeout),
        "maxconns_fast" => Effect::Switches(Setting::MaxconnsFast, true),
        "no_maxconns_fast" => Effect::Switches(Setting::MaxconnsFast, false),
        "strict_delete" => Effect::Switches(Setting::StrictDelete, true),
        "no_strict_delete" => Effect::Switches(Setting::StrictDelete, false),
        "watcher_logbuf_size" => Effect::Sets(Setting::WatcherLogbufSize),
        "ssl_chain_cert" => Effect::Sets(Setting::SslChainCert),
        "ssl_key" => Effect::Sets(Setting::SslKey),
        "ssl_ca_cert" => Effect::Sets(Setting::SslCaCert),
        "ssl_verify_mode" => Effect::Sets(Setting::SslVerifyMode),
        "ssl_min_version" => Effect::Sets(Setting::SslMinVersion),
        "ssl_wbuf_size" => Effect::Sets(Setting::SslWbufSize),
        "ssl_session_cache" => Effect::Switches(Setting::SslSessionCache, true),
        "ssl_ciphers" | "ssl_keyformat" | "ssl_kernel_tls" => TLS,
        "read_buf_mem_limit" | "resp_obj_mem_limit" | "worker_logbuf_size" => BUFFERS,
        "slab_reassign"
        | "no_slab_reassign"
        | "slab_automove"
        | "no_slab_automove"
        | "slab_automove_ratio"
        | "slab_automove_window"
        | "slab_automove_freeratio"
        | "slab_sizes"
        | "slab_chunk_max"
        | "no_chunked_items"
        | "track_sizes" => SLABS,
        "lru_crawler"
        | "no_lru_crawler"
        | "lru_crawler_sleep"
        | "lru_crawler_tocrawl"
        | "lru_maintainer"
        | "no_lru_maintainer"
        | "hot_lru_pct"
        | "warm_lru_pct"
        | "hot_max_factor"
        | "warm_max_factor"
        | "temporary_ttl"
        | "tail_repair_time" => LRU,
        "hashpower" | "no_hashexpand" | "hash_algorithm" => HASH,
        "ext_path" | "ext_page_size" | "ext_wbuf_size" | "ext_threads" | "ext_item_size"
        | "ext_item_age" | "ext_low_ttl" | "ext_drop_unread" | "ext_recache_rate"
        | "ext_compact_under" | "ext_drop_under" | "ext_max_frag" | "ext_max_sleep" => EXTSTORE,
        "modern" | "no_modern" | "inline_ascii_resp" | "no_inline_ascii_resp" => DEFAULTS,
        "drop_privileges" | "no_drop_privileges" => {
            Effect::Ignored("the system's own sandboxing does that")
        }
        "sock_cookie_id" => Effect::Ignored("sockets carry no cookie"),
        _ => return None,
    })
}
