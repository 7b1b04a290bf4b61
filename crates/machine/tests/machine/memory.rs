//! The memory that a program can take, on copies of machines and in groups of both versions.

use crate::copies::{Copy, small_virtual_machine};
use threadgauge_machine::available_memory_mib;

const MIB: u64 = 1024 * 1024;

/// A machine of which so much is available, in no control group.
fn machine(available_mib: u64) -> Copy {
    let text = format!(
        "MemTotal:       24684100 kB\nMemFree:           80000 kB\nMemAvailable:   {} kB\n",
        available_mib * 1024
    );
    Copy::empty().with("/proc/meminfo", &text)
}

/// Its group `/pod/job` of cgroup v2.
fn in_v2(machine: Copy) -> Copy {
    machine.with("/proc/self/cgroup", "0::/pod/job\n").with(
        "/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n",
    )
}

/// A container of cgroup v1, whose mount begins at its own group. A job in it has a group of its own.
fn in_v1(machine: Copy) -> Copy {
    machine
        .with(
            "/proc/self/cgroup",
            "5:cpuset:/docker/abc\n4:memory:/docker/abc/job\n",
        )
        .with(
            "/proc/self/mountinfo",
            "36 32 0:33 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
        )
}

trait Limited: Sized {
    /// Limit and use of a group of either version, MiB, and what of the use are pages of files that nobody needs.
    fn limited(self, folder: &str, files: [&str; 3], mib: [u64; 3]) -> Self;

    fn v2(self, group: &str, mib: [u64; 3]) -> Self {
        let folder = format!("/sys/fs/cgroup/{group}");
        self.limited(&folder, ["memory.max", "memory.current", "inactive_file"], mib)
    }

    fn v1(self, group: &str, mib: [u64; 3]) -> Self {
        let files = [
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ];
        self.limited(&format!("/sys/fs/cgroup/memory{group}"), files, mib)
    }
}

impl Limited for Copy {
    fn limited(self, folder: &str, [limit, in_use, unused]: [&str; 3], mib: [u64; 3]) -> Copy {
        let [most, used, files] = mib.map(|mib| mib * MIB);
        // Others of these names, which count another thing, are in the file as well.
        let stat = format!("cache {files}\n{unused} {files}\n{unused}_too 7\n");
        self.with(&format!("{folder}/{limit}"), &format!("{most}\n"))
            .with(&format!("{folder}/{in_use}"), &format!("{used}\n"))
            .with(&format!("{folder}/memory.stat"), &stat)
    }
}

#[test]
fn without_a_limit_it_is_what_the_machine_has() {
    assert_eq!(machine(20_000).available_memory_mib(), Some(20_000));
    let unlimited = in_v2(machine(20_000)).with("/sys/fs/cgroup/pod/memory.max", "max\n");
    assert_eq!(unlimited.available_memory_mib(), Some(20_000));
    // As v1 says that there is none.
    let unlimited = in_v1(machine(20_000))
        .with(
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        )
        .with("/sys/fs/cgroup/memory/memory.usage_in_bytes", "31195136\n");
    assert_eq!(unlimited.available_memory_mib(), Some(20_000));
}

#[test]
fn a_group_of_either_version_grants_its_limit_less_what_is_in_use() {
    let v2 = in_v2(machine(20_000)).v2("pod/job", [256, 100, 20]);
    assert_eq!(v2.available_memory_mib(), Some(256 - (100 - 20)));
    let v1 = in_v1(machine(20_000)).v1("/job", [256, 100, 20]);
    assert_eq!(v1.available_memory_mib(), Some(256 - (100 - 20)));
}

#[test]
fn the_group_along_the_path_that_grants_least_decides() {
    let above = in_v2(machine(20_000))
        .v2("pod", [512, 500, 0])
        .v2("pod/job", [256, 100, 0]);
    assert_eq!(above.available_memory_mib(), Some(12));
    let below = in_v2(machine(20_000))
        .v2("pod", [4_096, 500, 0])
        .v2("pod/job", [256, 100, 0]);
    assert_eq!(below.available_memory_mib(), Some(156));
    let container = in_v1(machine(20_000))
        .v1("", [256, 100, 0])
        .v1("/job", [4_096, 50, 0]);
    assert_eq!(container.available_memory_mib(), Some(156));
}

#[test]
fn a_group_that_is_slowed_down_above_a_limit_grants_no_more() {
    let slowed = in_v2(machine(20_000))
        .v2("pod/job", [256, 100, 0])
        .with("/sys/fs/cgroup/pod/job/memory.high", "167772160\n");
    assert_eq!(slowed.available_memory_mib(), Some(60));
}

#[test]
fn a_machine_with_less_than_its_group_grants_decides() {
    let copy = in_v2(machine(100)).v2("pod/job", [256, 0, 0]);
    assert_eq!(copy.available_memory_mib(), Some(100));
}

#[test]
fn a_full_group_grants_nothing() {
    for in_use in [256, 300] {
        let copy = in_v2(machine(20_000)).v2("pod/job", [256, in_use, 0]);
        assert_eq!(copy.available_memory_mib(), Some(0));
    }
}

#[test]
fn what_cannot_be_read_is_not_taken_for_no_limit() {
    let copy = in_v2(machine(20_000)).with("/sys/fs/cgroup/pod/memory.max", "plenty\n");
    assert_eq!(copy.available_memory_mib(), None);
    let copy = in_v2(machine(20_000)).with("/sys/fs/cgroup/pod/memory.max", "268435456\n");
    assert_eq!(copy.available_memory_mib(), None, "its use is not known");
    // It has no line about what is available.
    assert_eq!(small_virtual_machine().available_memory_mib(), None);
}

#[test]
fn this_machine_has_some() {
    assert!(available_memory_mib().is_some_and(|mib| mib > 0));
}
