//! mcrouter's command line, as far as the stand-in obeys it. Names, units and defaults are mcrouter's own
//! (`mcrouter_options_list.h`, `standalone_options_list.h`).

use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory, Parser};

/// A stand-in for mcrouter, for tests and demos of PetraCache only: it reads the same configuration, answers the same
/// admin keys, and routes with the project's own reading of the route language. Never run it in production.
#[derive(Debug, Clone, Parser)]
// As with mcrouter, the last of several counts.
#[command(name = "mcrouter-stand-in", version, args_override_self = true)]
pub struct Options {
    /// Where the configuration is: `file:PATH`.
    #[arg(long, value_parser = config_path, required_unless_present = "config_file")]
    pub config: Option<PathBuf>,
    /// Where the configuration is, as a plain path.
    #[arg(long, visible_short_alias = 'f')]
    pub config_file: Option<PathBuf>,
    /// Port to listen on.
    #[arg(short, long)]
    pub port: Option<u16>,
    /// Port to listen on with TLS.
    #[arg(long)]
    pub ssl_port: Option<u16>,
    /// Certificate that clients are shown, in PEM.
    #[arg(long, requires = "ssl_port")]
    pub server_pem_cert_path: Option<PathBuf>,
    /// Its key, in PEM.
    #[arg(long, requires = "ssl_port")]
    pub server_pem_key_path: Option<PathBuf>,
    /// Authorities of clients' certificates, in PEM. A client that shows another one is refused.
    #[arg(long, requires = "ssl_port")]
    pub server_pem_ca_path: Option<PathBuf>,
    /// Refuse clients that show no certificate.
    #[arg(long)]
    pub ssl_require_peer_certs: bool,
    /// Certificate that servers of pools with `security_mech` ssl are shown, in PEM.
    #[arg(long)]
    pub pem_cert_path: Option<PathBuf>,
    /// Its key, in PEM.
    #[arg(long)]
    pub pem_key_path: Option<PathBuf>,
    /// Authorities of servers' certificates, in PEM.
    #[arg(long)]
    pub pem_ca_path: Option<PathBuf>,
    /// Refuse servers whose certificate is of no such authority. Names in it are not looked at.
    #[arg(long)]
    pub ssl_verify_peers: bool,
    /// Addresses to listen on, with commas between them.
    #[arg(long, value_delimiter = ',', default_value = "0.0.0.0")]
    pub listen_addresses: Vec<String>,
    /// How long to wait for a server's answer, in milliseconds, where the pool does not say.
    #[arg(short = 't', long = "server-timeout", default_value_t = 1000)]
    pub server_timeout_ms: u64,
    /// First wait before a server that was taken out is probed, in milliseconds.
    #[arg(long = "probe-timeout-initial", default_value_t = 10_000)]
    pub probe_timeout_initial_ms: u64,
    /// Longest wait between two probes, in milliseconds.
    #[arg(long = "probe-timeout-max", default_value_t = 60_000)]
    pub probe_timeout_max_ms: u64,
    /// How many timeouts in a row take a server out.
    #[arg(long, default_value_t = 3)]
    pub timeouts_until_tko: u32,
    /// How long to wait after a change of the file before it is read, in milliseconds.
    #[arg(long = "reconfiguration-delay-ms", default_value_t = 1000)]
    pub reconfiguration_delay_ms: u64,
    /// Only check the configuration: exit 0 when it is valid, 3 when it is not.
    #[arg(long, value_name = "exit")]
    pub validate_config: Option<String>,
}

impl Options {
    /// Reads the command line like mcrouter: options that it does not know are only reported.
    ///
    /// # Errors
    ///
    /// A value that an option cannot take, or no configuration.
    pub fn from_arguments(
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<(Self, Vec<String>), clap::Error> {
        let command = Self::command();
        let known = |name: &str| {
            name == "help"
                || name == "version"
                || command
                    .get_arguments()
                    .any(|argument| argument.get_long() == Some(name))
        };
        let mut kept = Vec::new();
        let mut unknown = Vec::new();
        let mut last_was_unknown = false;
        for argument in arguments {
            let name = argument
                .strip_prefix("--")
                .map(|rest| rest.split('=').next().unwrap_or(rest));
            match name {
                Some(name) if !known(name) => {
                    last_was_unknown = !argument.contains('=');
                    unknown.push(argument);
                }
                // The value of an unknown option, in a word of its own.
                None if last_was_unknown && !argument.starts_with('-') => last_was_unknown = false,
                _ => {
                    last_was_unknown = false;
                    kept.push(argument);
                }
            }
        }
        Ok((Self::try_parse_from(kept)?, unknown))
    }

    /// The file that holds the configuration.
    pub fn path(&self) -> PathBuf {
        self.config
            .clone()
            .or_else(|| self.config_file.clone())
            .unwrap_or_default()
    }

    pub(super) fn reconfiguration_delay(&self) -> Duration {
        Duration::from_millis(self.reconfiguration_delay_ms)
    }

    pub(super) fn server_timeout(&self) -> Duration {
        Duration::from_millis(self.server_timeout_ms)
    }
}

fn config_path(text: &str) -> Result<PathBuf, String> {
    text.strip_prefix("file:")
        .map(PathBuf::from)
        .ok_or_else(|| format!("only file:PATH is supported, not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> (Options, Vec<String>) {
        let words = format!("mcrouter {line}");
        Options::from_arguments(words.split(' ').map(String::from)).unwrap()
    }

    #[test]
    fn unknown_options_are_reported_and_change_nothing() {
        let (options, unknown) =
            parse("--asynclog-disable --num-proxies 2 --stats-root= --config file:/c.json -p 5000");
        assert_eq!(options.path(), PathBuf::from("/c.json"));
        assert_eq!(options.port, Some(5000));
        assert_eq!(
            unknown,
            ["--asynclog-disable", "--num-proxies", "--stats-root="]
        );
    }

    #[test]
    fn an_option_after_an_unknown_flag_is_not_taken_for_its_value() {
        let (options, _) = parse("--asynclog-disable -p 5000 --config-file /c.json");
        assert_eq!(options.port, Some(5000));
    }
}
