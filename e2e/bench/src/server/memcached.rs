//! memcached, in memory and with extstore.

use std::path::Path;
use std::process::Command;

use super::{Launch, MAX_CONNECTIONS, Settings, free_address};

/// Memory moves between classes of sizes in seconds instead of minutes. An extstore that is filled needs it: without,
/// it has no room for what it must remember of the items on the disk, and drops three quarters of them.
const QUICK_BALANCE: &str = "slab_automove_window=3";

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
        let options = format!("ext_path={}:{disk_mb}m,{QUICK_BALANCE}", file.display());
        command.args(["-o", &options]);
    }
    Ok(Launch { command, address })
}
