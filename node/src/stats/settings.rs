//! `stats settings`: how the node was started.
//!
//! Owns memcached's names for settings, as far as a node has them, and the node's own behind them.

use std::net::SocketAddr;
use std::path::Path;

use super::Lines;
use crate::config::{Access, Config, Endpoint, Tls, VerifyClient};
use crate::listener::Address;
use crate::registry::Registry;
use crate::server::Shared;
use crate::store::StorageOptions;

pub(super) fn lines(shared: &Shared) -> Lines {
    let config = &shared.config;
    let mut lines = Writer(Vec::new());
    lines.put("maxbytes", config.memory.as_u64());
    lines.put("maxconns", config.max_connections);
    places(config, &shared.registry, &mut lines);
    lines.put("evictions", "on");
    lines.put("num_threads", config.threads);
    lines.put("reqs_per_event", config.commands_per_turn);
    lines.put("stat_key_prefix", char::from(config.prefix_delimiter));
    lines.put("detail_enabled", yes(shared.prefixes.are_counted()));
    lines.put("cas_enabled", yes(config.cas));
    lines.put("tcp_backlog", config.backlog);
    access(&config.access, &mut lines);
    lines.put("item_size_max", config.storage.max_item_size);
    lines.put("maxconns_fast", yes(config.refuse_connections));
    lines.put(
        "idle_timeout",
        config.idle_timeout.map_or(0, |timeout| timeout.as_secs()),
    );
    lines.put("watcher_logbuf_size", config.watcher_buffer);
    lines.put("track_sizes", "no");
    lines.put("strict_delete", yes(config.strict_delete));
    lines.put("ssl_enabled", yes(config.tls.is_some()));
    if let Some(options) = &config.tls {
        tls(options, &mut lines);
    }
    storage(&config.storage, &mut lines);
    lines.0
}

struct Writer(Lines);

impl Writer {
    fn put(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.to_owned(), value.to_string()));
    }
}

/// The ports are those that were got, where a free one was asked for.
fn places(config: &Config, registry: &Registry, lines: &mut Writer) {
    let listening = registry.listeners();
    let tcp = |address: &Address| match address {
        Address::Tcp(addr) => Some(*addr),
        Address::Udp(_) | Address::Unix(_) | Address::Unnamed => None,
    };
    let datagrams = registry.datagram_places();
    let udp_port = datagrams.iter().find_map(|address| match address {
        Address::Udp(addr) => Some(addr.port()),
        _ => None,
    });
    let hosts: Vec<_> = listening
        .iter()
        .filter_map(tcp)
        .map(|addr| addr.ip().to_string())
        .collect();
    let socket = config.listen.iter().find_map(|endpoint| match endpoint {
        Endpoint::Unix { path, mask } => Some((path, mask)),
        Endpoint::Tcp { .. } | Endpoint::Udp { .. } => None,
    });
    lines.put(
        "tcpport",
        listening
            .iter()
            .find_map(tcp)
            .map_or(0, |addr: SocketAddr| addr.port()),
    );
    lines.put("udpport", udp_port.unwrap_or(0));
    lines.put(
        "inter",
        if hosts.is_empty() {
            "NULL".to_owned()
        } else {
            hosts.join(",")
        },
    );
    lines.put(
        "domain_socket",
        path_or_null(socket.map(|(path, _)| path.as_path())),
    );
    if let Some((_, mask)) = socket {
        lines.put("umask", format!("{mask:o}"));
    }
}

fn access(access: &Access, lines: &mut Writer) {
    let auth_file = access
        .auth_file
        .as_ref()
        .map(|path| path.display().to_string());
    lines.put("shutdown_command", yes(access.shutdown));
    lines.put("binding_protocol", access.protocol.name());
    lines.put("auth_enabled_sasl", yes(access.sasl));
    lines.put(
        "auth_enabled_ascii",
        auth_file.unwrap_or_else(|| "no".to_owned()),
    );
    lines.put("flush_enabled", yes(access.flush_all));
    lines.put("dump_enabled", yes(access.dump));
    lines.put("watch_enabled", yes(access.watch));
}

fn tls(tls: &Tls, lines: &mut Writer) {
    let verify = match tls.verify {
        VerifyClient::No => 0,
        VerifyClient::Request => 1,
        VerifyClient::Require => 2,
    };
    lines.put("ssl_chain_cert", tls.chain_cert.display());
    lines.put("ssl_key", path_or_null(tls.key.as_deref()));
    lines.put("ssl_verify_mode", verify);
    // PEM, in OpenSSL's numbers.
    lines.put("ssl_keyformat", 1);
    lines.put("ssl_ciphers", "NULL");
    lines.put("ssl_ca_cert", path_or_null(tls.ca_cert.as_deref()));
    lines.put("ssl_wbuf_size", tls.send_buffer);
    lines.put("ssl_session_cache", yes(tls.session_cache));
    lines.put("ssl_kernel_tls", "no");
    lines.put(
        "ssl_min_version",
        if tls.only_1_3 { "tlsv1.3" } else { "tlsv1.2" },
    );
}

fn storage(storage: &StorageOptions, lines: &mut Writer) {
    lines.put("db_path", storage.db_path.display());
    lines.put("durability", storage.durability.name());
    lines.put("flush_interval_ms", storage.flush_interval.as_millis());
    lines.put("tier_size", storage.tier_size);
    lines.put("block_cache_size", storage.block_cache_size);
    lines.put("write_buffer_size", storage.write_buffer_size);
}

fn path_or_null(path: Option<&Path>) -> String {
    path.map_or_else(|| "NULL".to_owned(), |path| path.display().to_string())
}

fn yes(condition: bool) -> &'static str {
    if condition { "yes" } else { "no" }
}
