//! A stand-in for mcrouter: a small proxy that reads the same file, takes the same flags and answers the same admin keys.
//!
//! It exists because mcrouter is in no package registry, and it is used by tests and the demo only. Routing itself is
//! [`petra_routing`]'s, which is held against a real mcrouter; here are the sockets around it. With `MCROUTER_BIN` set the
//! images hold the real mcrouter instead, and this module runs nowhere.
//!
//! ```text
//!  client ─► proxy ─► petra_routing::Router ─► destinations ─► servers
//!              │              ▲
//!              └─ admin keys  └── config_file (watched)
//! ```

use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;

mod admin;
mod config_file;
mod destinations;
pub mod options;
mod proxy;
mod tls;

use config_file::ConfigFile;
use destinations::Destinations;
use options::Options;
use tls::{ClientFiles, ServerFiles};

/// Runs the proxy until a client sends `shutdown` or the process is told to end.
///
/// # Errors
///
/// A configuration that cannot be read at the start, or an address that cannot be listened on.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let config = ConfigFile::watch(&options.path(), options.reconfiguration_delay())?;
    let servers = Destinations::new(&options, ClientFiles::of(&options));
    let shutdown = Arc::new(tokio::sync::Notify::new());
    for (address, port, files) in ports(&options)? {
        let listener = TcpListener::bind((address.as_str(), port))
            .await
            .with_context(|| format!("listening on {address}:{port}"))?;
        tracing::info!(address = %listener.local_addr()?, tls = files.is_some(), "listening");
        let proxy = proxy::Proxy {
            config: config.clone(),
            servers: servers.clone(),
            shutdown: Arc::clone(&shutdown),
        };
        tokio::spawn(proxy.run(listener, files));
    }
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        () = shutdown.notified() => tracing::info!("a client sent shutdown"),
        _ = terminate.recv() => tracing::info!("SIGTERM"),
        _ = tokio::signal::ctrl_c() => tracing::info!("SIGINT"),
    }
    Ok(())
}

/// Where clients are served: address, port, and with which certificate. mcrouter's port with TLS is open on every address, whatever
/// `--listen-addresses` says; a test's is not.
fn ports(options: &Options) -> anyhow::Result<Vec<(String, u16, Option<ServerFiles>)>> {
    let plain = options.port.map(|port| (port, None));
    let encrypted = match options.ssl_port {
        Some(port) => Some((port, Some(ServerFiles::of(options)?))),
        None => None,
    };
    let mut ports = Vec::new();
    for (port, files) in plain.into_iter().chain(encrypted) {
        for address in &options.listen_addresses {
            ports.push((address.clone(), port, files.clone()));
        }
    }
    anyhow::ensure!(
        !ports.is_empty(),
        "invalid ports: -p or --ssl-port is needed"
    );
    Ok(ports)
}

/// Whether the configuration that `options` name can be run, and if not, why.
///
/// # Errors
///
/// What is wrong with it.
pub fn validate(options: &Options) -> anyhow::Result<()> {
    config_file::load(&options.path()).map(|_| ())
}
