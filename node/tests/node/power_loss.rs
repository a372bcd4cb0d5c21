//! A machine that dies: the disk has only what was synced.
//!
//! The node runs on a file system in a file. What the file system has not written to that file yet is missing in a copy of
//! it, as it would be missing on the disk of a machine without power.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::Client;
use crate::harness::Node;

const KEYS: usize = 100;
/// So much at once becomes a table file past the log.
const LARGE: usize = 100_000;

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "{program} {arguments:?}: {status:?}; is this root?"
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A mounted file system in a file.
struct Disk {
    image: PathBuf,
    mounted: tempfile::TempDir,
}

impl Disk {
    fn create(image: PathBuf) -> Self {
        let file = File::create(&image).expect("created");
        file.set_len(256 << 20).expect("sized");
        run("mkfs.ext4", &["-q", "-F", text(&image)]);
        Self::mount(image)
    }

    /// The file system itself would sync everything after five seconds; with this option it does not.
    fn mount(image: PathBuf) -> Self {
        let mounted = tempfile::tempdir().expect("temporary directory");
        let options = ["-o", "loop,commit=300"];
        run(
            "mount",
            &[options[0], options[1], text(&image), text(mounted.path())],
        );
        Self { image, mounted }
    }

    fn database(&self) -> PathBuf {
        self.mounted.path().join("db")
    }

    /// What the disk has at this moment.
    fn after_power_loss(&self) -> Self {
        let image = self.image.with_extension("copy");
        fs::copy(&self.image, &image).expect("copied");
        Self::mount(image)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a node that is being killed may still have files open.
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.mounted.path())
            .status();
    }
}

fn has(client: &mut Client, number: usize) -> bool {
    client.get(&format!("key-{number}")).is_some()
}

/// How many of [`KEYS`] acknowledged items a node has after the machine has died.
fn kept(durability: &str, data: &str) -> usize {
    let dir = tempfile::tempdir().expect("temporary directory");
    let disk = Disk::create(dir.path().join("disk"));
    let node = Node::start(&disk.database(), &["--durability", durability]);
    let mut client = node.connect();
    // The first write is followed by marks of the node's own, which are synced in every mode.
    assert_eq!(client.set("first", "data"), "STORED");
    let length = data.len();
    let requests = (0..KEYS).map(|number| format!("set key-{number} 0 0 {length}\r\n{data}\r\n"));
    client.send(requests.collect::<String>().as_bytes());
    for _ in 0..KEYS {
        assert_eq!(client.line(), "STORED");
    }
    let found = disk.after_power_loss();
    node.kill();
    let node = Node::start(&found.database(), &[]);
    let mut client = node.connect();
    (0..KEYS).filter(|number| has(&mut client, *number)).count()
}

#[test]
fn a_machine_that_dies_loses_nothing_acknowledged_in_mode_fsync() {
    assert_eq!(kept("fsync", "data"), KEYS);
    assert_eq!(kept("fsync", &"x".repeat(LARGE)), KEYS);
}

/// Or the other test would show nothing. Another process may sync all disks of the machine at the wrong moment.
#[test]
fn a_machine_that_dies_loses_what_was_not_synced() {
    assert!((0..5).any(|_| kept("always", "data") < KEYS));
}
