//! Flags about who may do what: users, encryption and commands that are not for everybody.

use clap::Args;

use crate::config::layers::{Layers, Origin, Setting};

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessFlags {
    /// Encrypt connections with TLS: see -o ssl_chain_cert
    #[arg(short = 'Z', long)]
    enable_ssl: bool,
    /// File of users of the text protocol, a line user:password each; read again when it changes
    #[arg(short = 'Y', long, value_name = "FILE")]
    auth_file: Option<String>,
    /// Users of the binary protocol log in with SASL, PLAIN or CRAM-MD5; MEMCACHED_SASL_PWDB names their file
    #[arg(short = 'S', long)]
    enable_sasl: bool,
    /// Clients may stop the node with "shutdown"
    #[arg(short = 'A', long)]
    enable_shutdown: bool,
    /// Clients may not "flush_all"
    #[arg(short = 'F', long)]
    disable_flush_all: bool,
    /// Clients may not list keys with "lru_crawler metadump"
    #[arg(short = 'X', long)]
    disable_dumping: bool,
    /// Clients may not "watch"
    #[arg(short = 'W', long)]
    disable_watch: bool,
}

impl AccessFlags {
    pub(super) fn add_to(&self, layers: &mut Layers) {
        let switches = [
            (Setting::EnableSsl, self.enable_ssl),
            (Setting::EnableSasl, self.enable_sasl),
            (Setting::EnableShutdown, self.enable_shutdown),
            (Setting::DisableFlushAll, self.disable_flush_all),
            (Setting::DisableDumping, self.disable_dumping),
            (Setting::DisableWatch, self.disable_watch),
        ];
        for (setting, on) in switches {
            if on {
                layers.put(setting, "true".to_owned(), Origin::Flag(setting.flag()));
            }
        }
        if let Some(file) = &self.auth_file {
            layers.put(
                Setting::AuthFile,
                file.clone(),
                Origin::Flag(Setting::AuthFile.flag()),
            );
        }
    }
}
