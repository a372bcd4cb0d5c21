//! memcached, in memory and with extstore.

use std::path::Path;
use std::process::Command;

use super::{Launch, MAX_CONNECTIONS, Settings, free_address};

/// memcached; with `disk_mb` set it is an extstore, which keeps values over 512 bytes on the disk.
///
/// # Errors
///
/// When there is no free port.
pub fn launch(program: &Path, settings: &Settings, directory: &Path) -> anyhow::Result<Launch> {
    let address = free_address()?;
    let mut command = Command::new(program);
    command
        .args(["-l", &address.ip().to_string()])
        .args(["-p", &address.port().to_string(), "-U", "0"])
        .args(["-t", &settings.threads.to_string()])
        .args(["-m", &settings.memory_mb.to_string()])
        .args(["-c", &MAX_CONNECTIONS.to_string()]);
    if rustix::process::geteuid().is_root() {
        command.args(["-u", "root"]);
    }
    if let Some(disk_mb) = settings.disk_mb {
        let file = directory.join("extstore");
        command.args(["-o", &format!("ext_path={}:{disk_mb}m", file.display())]);
    }
    Ok(Launch { command, address })
}
