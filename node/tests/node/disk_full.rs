//! A disk that somebody else fills.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::Client;
use crate::harness::{Node, wait_until};

/// A file system in memory with a size of its own. Needs the right to mount.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let status = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size}"),
                "petracache-test",
            ])
            .arg(dir.path())
            .status()
            .expect("mount runs");
        assert!(status.success(), "cannot mount a tmpfs: is this root?");
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills what is left, and says with which file.
    fn fill(&self) -> PathBuf {
        let path = self.path().join("somebody-elses");
        let block = vec![0; 64 << 10];
        let mut file = fs::File::create(&path).expect("created");
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a node that is being killed may still have files open.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn stat(client: &mut Client, name: &str) -> u64 {
    client.stat(name).parse().expect("a number")
}

#[test]
fn a_full_disk_is_served_around_said_and_recovered_from() {
    let disk = SmallDisk::new("128m");
    let flags = ["--disk-quota", "64m", "--flush-interval", "100ms"];
    let node = Node::start(&disk.path().join("db"), &flags);
    let mut client = node.connect();
    client.set("before", "1");
    wait_until("it is on the disk", || {
        stat(&mut client, "dirty_bytes") == 0
    });

    let fill = disk.fill();
    let value = "x".repeat(100_000);
    for number in 0..20 {
        client.set(&format!("during-{number}"), &value);
    }
    wait_until("the failure is seen", || {
        stat(&mut client, "flush_failing") == 1
    });
    wait_until("the failure is said", || {
        node.log().contains("cannot write to the disk")
    });
    assert_eq!(client.get("before").as_deref(), Some("1"));
    assert_eq!(client.get("during-0").as_deref(), Some(&*value));
    let mut refused = false;
    for number in 0..1000 {
        let answer = client.set(&format!("more-{number}"), &value);
        refused |= answer == "SERVER_ERROR out of memory storing object";
        assert!(refused || answer == "STORED", "{answer}");
    }
    assert!(
        refused,
        "what the disk does not take is not acknowledged for ever"
    );
    assert_eq!(client.get("during-0").as_deref(), Some(&*value));

    fs::remove_file(fill).expect("removed");
    wait_until("the disk is used again", || {
        stat(&mut client, "flush_failing") == 0 && stat(&mut client, "dirty_bytes") == 0
    });
    client.set("after", "2");
    wait_until("it is on the disk", || {
        stat(&mut client, "dirty_bytes") == 0
    });
    node.kill();
    let node = Node::start(&disk.path().join("db"), &flags);
    let mut client = node.connect();
    assert_eq!(client.get("after").as_deref(), Some("2"));
    assert_eq!(client.get("during-19").as_deref(), Some(&*value));
}

#[test]
fn a_disk_that_is_full_at_the_end_does_not_keep_the_node_from_ending() {
    let disk = SmallDisk::new("128m");
    let path = disk.path().join("db");
    let flags = ["--disk-quota", "64m", "--flush-interval", "1h"];
    let mut node = Node::start(&path, &flags);
    let mut client = node.connect();
    client.set("key", &"x".repeat(500_000));
    let fill = disk.fill();
    node.signal("TERM");
    let status = node.wait();
    assert_eq!(status.code(), Some(1), "{}", node.log());
    fs::remove_file(fill).expect("removed");
    let node = Node::start(&path, &flags);
    let value = node.connect().get("key");
    assert!(
        value.is_none_or(|value| value.len() == 500_000),
        "lost, or whole"
    );
    node.stop();
}
