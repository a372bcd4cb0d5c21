//! The node's process: arguments, log, run.

use std::process::ExitCode;

use clap::Parser;
use petra_node::config::flags::{Flags, LogFormat};
use petra_node::config::{Config, ConfigError};
use petra_node::process::{self, Role};
use tracing::error;
use tracing_subscriber::EnvFilter;

/// Also RocksDB's: sizes that come and go leave less unused memory behind than with the system's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What sysexits.h calls a configuration error.
const EXIT_CONFIG: u8 = 78;

fn main() -> ExitCode {
    let flags = Flags::parse();
    if flags.memcached.license {
        print!("{}", include_str!("../../LICENSE"));
        return ExitCode::SUCCESS;
    }
    start_log(&flags);
    match run(&flags) {
        Ok(code) => code,
        Err(failure) => {
            // Each says its source itself.
            error!("{failure}");
            if failure.is::<ConfigError>() {
                ExitCode::from(EXIT_CONFIG)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let config = Config::load(flags, |name| std::env::var(name).ok())?;
    match process::prepare(&flags.memcached, &config, flags.verbose > 0)? {
        Role::Serve(process) => petra_node::run(config, || process.ready())?,
        Role::Done(code) => return Ok(code),
    }
    Ok(ExitCode::SUCCESS)
}

/// Logs go to standard error, as memcached's do.
fn start_log(flags: &Flags) {
    let default = match flags.verbose {
        0 => "info",
        1 => "petra_node=debug,info",
        _ => "petra_node=trace,info",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match flags.log_format {
        LogFormat::Text => log.with_target(false).init(),
        LogFormat::Json => log.json().init(),
    }
}
