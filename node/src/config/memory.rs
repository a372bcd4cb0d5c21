//! How much memory a node uses, and for what.
//!
//! Owns finding the limit this process lives under and dividing what may be used. Nothing is allocated here.
//!
//! ```text
//!   cgroup limit, or the machine's memory without one
//!   ├── half: the budget (what -m sets)
//!   │   ├── 3/4 the memory tier: items that are served without the disk
//!   │   ├── 1/8 memtables: what was written and is not in a file yet
//!   │   └── 1/8 block cache: recently read blocks, filters, indexes
//!   └── half: connections, compaction, the allocator's slack, the page cache of files being written
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::DEFAULT_WRITE_BUFFERS;
use super::units::ByteSize;

/// Without a container's limit a node is one of many programs on the machine, and stays modest.
const MAX_UNLIMITED_BUDGET: ByteSize = ByteSize::gib(1);
/// Used where nothing can be found out; memcached's default.
const FALLBACK_BUDGET: ByteSize = ByteSize::mib(64);
/// Larger memtables take longer to replay and to flush without gaining much.
const MAX_WRITE_BUFFER: ByteSize = ByteSize::mib(64);
/// cgroup v1 says "no limit" with a number near 2^63.
const UNLIMITED: u64 = 1 << 60;

/// The budget divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    pub(super) tier: ByteSize,
    pub(super) block_cache: ByteSize,
    /// One of [`DEFAULT_WRITE_BUFFERS`].
    pub(super) write_buffer: ByteSize,
}

impl MemoryPlan {
    pub(super) fn within(budget: ByteSize) -> Self {
        let buffers = u64::from(DEFAULT_WRITE_BUFFERS.unsigned_abs());
        let write_buffer = (budget.as_u64() / 8 / buffers).min(MAX_WRITE_BUFFER.as_u64());
        let block_cache = budget.as_u64() / 8;
        Self {
            tier: ByteSize::bytes(budget.as_u64() - write_buffer * buffers - block_cache),
            block_cache: ByteSize::bytes(block_cache),
            write_buffer: ByteSize::bytes(write_buffer),
        }
    }
}

/// The budget that this process's surroundings allow.
pub(super) fn detected_budget() -> ByteSize {
    budget_below(Path::new("/"))
}

/// `root` stands for `/`, so that tests can bring their own.
fn budget_below(root: &Path) -> ByteSize {
    let half = |limit: u64| ByteSize::bytes(limit / 2);
    match (cgroup_limit(root), machine_memory(root)) {
        (Some(limit), Some(machine)) if limit < machine => half(limit),
        (Some(limit), None) => half(limit),
        (_, Some(machine)) => ByteSize::bytes(machine / 4).min(MAX_UNLIMITED_BUDGET),
        (None, None) => FALLBACK_BUDGET,
    }
}

/// The smallest limit of the cgroups this process is in, version 1 or 2.
fn cgroup_limit(root: &Path) -> Option<u64> {
    let memberships = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = memberships.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers
                .split(',')
                .any(|controller| controller == "memory") =>
            {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        smallest_limit(
            &root.join(mount),
            Path::new(group.trim_start_matches('/')),
            file,
        )
    });
    limits.min()
}

/// A group is limited by its ancestors too. In a container the path may be the host's and not exist; the mount
/// is then the container's own group.
fn smallest_limit(mount: &Path, group: &Path, file: &str) -> Option<u64> {
    let groups: Vec<PathBuf> = group
        .ancestors()
        .map(|ancestor| mount.join(ancestor))
        .collect();
    let limits = groups.iter().filter_map(|group| {
        let text = fs::read_to_string(group.join(file)).ok()?;
        text.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
    });
    limits.min()
}

fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root directory with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("temporary directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
            fs::write(path, text).expect("file");
        }
        root
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree: 1 kB\n",
    );

    #[test]
    fn a_container_uses_half_of_its_limit_in_either_cgroup_version() {
        let v2 = root(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "536870912\n"),
        ]);
        assert_eq!(budget_below(v2.path()), ByteSize::mib(256));
        let v1 = root(&[
            MEMINFO,
            (
                "proc/self/cgroup",
                "9:cpu,cpuacct:/\n4:memory:/docker/abc\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
        ]);
        assert_eq!(budget_below(v1.path()), ByteSize::mib(128));
    }

    #[test]
    fn the_tightest_of_nested_groups_counts() {
        let nested = root(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/kubepods/pod1/app\n"),
            ("sys/fs/cgroup/kubepods/pod1/app/memory.max", "max\n"),
            ("sys/fs/cgroup/kubepods/pod1/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/kubepods/memory.max", "8589934592\n"),
        ]);
        assert_eq!(budget_below(nested.path()), ByteSize::mib(512));
    }

    #[test]
    fn without_a_limit_a_quarter_of_the_machine_is_used_and_at_most_a_gibibyte() {
        let unlimited = root(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ]);
        assert_eq!(budget_below(unlimited.path()), ByteSize::gib(1));
        let small = root(&[("proc/meminfo", "MemTotal: 1048576 kB\n")]);
        assert_eq!(budget_below(small.path()), ByteSize::mib(256));
        assert_eq!(budget_below(root(&[]).path()), FALLBACK_BUDGET);
    }

    #[test]
    fn the_parts_of_the_plan_are_the_budget() {
        for budget in [ByteSize::mib(8), ByteSize::mib(64), ByteSize::gib(64)] {
            let plan = MemoryPlan::within(budget);
            let sum =
                plan.tier.as_u64() + plan.block_cache.as_u64() + 3 * plan.write_buffer.as_u64();
            assert_eq!(sum, budget.as_u64());
            assert!(plan.write_buffer <= MAX_WRITE_BUFFER);
        }
    }
}
