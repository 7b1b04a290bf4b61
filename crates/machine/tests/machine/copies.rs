//! A vocabulary for copies of machines: the few files of `/proc` and `/sys` that a fingerprint reads.

use std::path::PathBuf;
use threadgauge_machine::{Fingerprint, available_memory_mib_below};

/// A folder that looks like the root of another machine.
pub struct Copy {
    root: tempfile::TempDir,
}

impl Copy {
    pub fn empty() -> Copy {
        Copy {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub fn with(self, path: &str, text: &str) -> Copy {
        let path: PathBuf = self.root.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub fn available_memory_mib(&self) -> Option<u64> {
        available_memory_mib_below(self.root.path())
    }

    pub fn read(&self) -> Fingerprint {
        Fingerprint::read(self.root.path())
    }

    /// `count` CPUs in one package, `threads` to a core, numbered as Linux does: first all cores' first.
    fn with_cpus(self, count: usize, threads: usize, flags: &str) -> Copy {
        let cores = count / threads;
        let info: String = (0..count)
            .map(|cpu| {
                format!("processor\t: {cpu}\nmodel name\t: Example CPU\ncpu MHz\t\t: 3000.5\nflags\t\t: {flags}\n\n")
            })
            .collect();
        let all = format!("0-{}\n", count - 1);
        let mut copy = self
            .with("/proc/cpuinfo", &info)
            .with("/sys/devices/system/cpu/online", &all)
            .with("/sys/devices/system/node/node0/cpulist", &all);
        for cpu in 0..count {
            let siblings: Vec<String> = (0..threads)
                .map(|t| (cpu % cores + t * cores).to_string())
                .collect();
            let siblings = siblings.join(",");
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
            copy = copy
                .with(&format!("{folder}/topology/core_cpus_list"), &siblings)
                .with(&format!("{folder}/topology/physical_package_id"), "0\n");
            for (index, level, kind, size, shared) in [
                (0, 1, "Data", "48K", siblings.as_str()),
                (1, 3, "Unified", "32M", all.as_str()),
            ] {
                let cache = format!("{folder}/cache/index{index}");
                copy = copy
                    .with(&format!("{cache}/level"), &level.to_string())
                    .with(&format!("{cache}/type"), kind)
                    .with(&format!("{cache}/size"), size)
                    .with(&format!("{cache}/shared_cpu_list"), shared);
            }
        }
        copy
    }

    fn with_kernel(self, release: &str, version: &str) -> Copy {
        self.with("/proc/sys/kernel/osrelease", release)
            .with("/proc/sys/kernel/version", version)
            .with("/proc/sys/kernel/threads-max", "192731\n")
            .with("/proc/sys/kernel/pid_max", "32768\n")
            .with("/proc/sys/vm/max_map_count", "65530\n")
            .with("/proc/sys/kernel/sched_autogroup_enabled", "1\n")
            .with(
                "/proc/meminfo",
                "MemTotal:       24684100 kB\nSwapTotal:             0 kB\n",
            )
            .with(
                "/proc/pressure/cpu",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
            )
            .with(
                "/sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            )
            .with(
                "/sys/devices/system/cpu/vulnerabilities/meltdown",
                "Not affected\n",
            )
            .with(
                "/sys/devices/system/cpu/vulnerabilities/spectre_v2",
                "Mitigation: Retpolines\n",
            )
            .with(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                "tsc\n",
            )
            .with("/proc/self/autogroup", "/autogroup-10 nice 0\n")
            .with("/proc/self/timerslack_ns", "50000\n")
            .with("/proc/self/personality", "00000000\n")
            .with("/proc/sys/kernel/randomize_va_space", "2\n")
            .with("/sys/devices/system/cpu/isolated", "\n")
            .with("/sys/devices/system/cpu/nohz_full", "(null)\n")
            .with_limits("20000", "20000")
            .scheduled(0, 0)
    }

    /// With the niceness and the policy (`SCHED_…`) of the process.
    pub fn scheduled(self, niceness: i32, policy: u32) -> Copy {
        let before: String = (0..16).map(|i| format!("{i} ")).collect();
        let between: String = (17..37).map(|i| format!("{i} ")).collect();
        let stat = format!("7 (a ) name) {before}{niceness} {between}0 {policy} 0 0 0\n");
        self.with("/proc/self/stat", &stat)
    }

    fn with_limits(self, soft_files: &str, hard_files: &str) -> Copy {
        let text = format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max stack size            8388608              unlimited            bytes     \n\
             Max processes             96365                96365                processes \n\
             Max open files            {soft_files:<20} {hard_files:<20} files     \n\
             Max address space         unlimited            unlimited            bytes     \n\
             Max data size             unlimited            unlimited            bytes     \n"
        );
        self.with("/proc/self/limits", &text)
    }

    fn with_allowed(self, list: &str) -> Copy {
        self.with(
            "/proc/self/status",
            &format!("Name:\tx\nCpus_allowed_list:\t{list}\n"),
        )
    }
}

/// A small virtual machine without DMI, cpufreq and debugfs, with both kinds of control groups.
pub fn small_virtual_machine() -> Copy {
    Copy::empty()
        .with_cpus(2, 1, "fpu hypervisor sse")
        .with_kernel("6.18.44", "#1 SMP PREEMPT_DYNAMIC @0")
        .with("/proc/cmdline", "quiet mitigations=auto -- preempt=full\n")
        .with(
            "/boot/config-6.18.44",
            "CONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HZ=250\n",
        )
        .with_allowed("0-1")
        .with("/proc/self/cgroup", "8:pids:/\n3:cpuset:/\n1:cpu:/\n0::/\n")
        .with(
            "/proc/self/mountinfo",
            "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
             34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
        )
        .with("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
        .with("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
        .with("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-1\n")
}

/// A desktop: eight CPUs on four cores, a governor that saves power, debugfs mounted, no control groups' bounds.
pub fn bare_metal() -> Copy {
    let mut copy = Copy::empty()
        .with_cpus(8, 2, "fpu sse")
        .with_kernel("6.5.13", "#1 SMP PREEMPT_DYNAMIC Debian")
        .with("/sys/kernel/debug/sched/preempt", "none (voluntary) full\n")
        .with("/sys/kernel/debug/sched/base_slice_ns", "3000000\n")
        .with("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")
        .with("/sys/class/dmi/id/product_name", "Workstation 9000\n")
        .with("/sys/class/dmi/id/sys_vendor", "Example Computers\n")
        .with("/sys/class/dmi/id/product_serial", "SECRET-SERIAL\n")
        .with_allowed("0-7")
        .with_limits("1024", "524288")
        .with("/proc/self/cgroup", "0::/user.slice/user-1000.slice\n")
        .with(
            "/proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        )
        .with("/sys/fs/cgroup/user.slice/pids.max", "max\n")
        .with("/sys/fs/cgroup/user.slice/user-1000.slice/pids.max", "5000\n");
    for cpu in 0..8 {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        copy = copy.with(&file, "powersave\n");
    }
    copy
}

/// A container of cgroup v1, whose mounts begin at the container's own group.
pub fn container_v1() -> Copy {
    Copy::empty()
        .with_cpus(4, 1, "fpu hypervisor")
        .with_kernel("5.4.0", "#1 SMP Debian")
        .with_allowed("0-3")
        .with(
            "/proc/self/cgroup",
            "4:cpu,cpuacct:/docker/abc\n5:cpuset:/docker/abc\n",
        )
        .with(
            "/proc/self/mountinfo",
            "36 32 0:33 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
             37 32 0:34 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n",
        )
        .with("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n")
        .with("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
        .with("/sys/fs/cgroup/cpu,cpuacct/cpu.shares", "2048\n")
        .with("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n")
}

/// A group of cgroup v2 with a quota of its own, wider than that of the group above it, and a cpuset.
pub fn container_v2() -> Copy {
    Copy::empty()
        .with_cpus(4, 1, "fpu hypervisor")
        .with_kernel("6.8.0", "#1 SMP PREEMPT_RT")
        .with_allowed("0-3")
        .with("/sys/class/dmi/id/product_name", "Google Compute Engine\n")
        .with("/proc/self/cgroup", "0::/pod/job\n")
        .with(
            "/proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n",
        )
        .with("/sys/fs/cgroup/pod/cpu.max", "50000 100000\n")
        .with("/sys/fs/cgroup/pod/job/cpu.max", "300000 100000\n")
        .with("/sys/fs/cgroup/pod/job/cpuset.cpus.effective", "1-2\n")
        .with("/sys/fs/cgroup/pod/job/pids.max", "700\n")
        .with("/sys/fs/cgroup/pod/cpu.weight", "20\n")
        .with("/sys/fs/cgroup/pod/job/cpu.weight", "100\n")
        .with("/sys/fs/cgroup/pod/cpu.idle", "0\n")
        .with("/sys/fs/cgroup/pod/memory.max", "268435456\n")
        .with("/sys/fs/cgroup/pod/memory.current", "1048576\n")
}

/// Every file is there and holds nonsense.
pub fn nonsense() -> Copy {
    let paths = [
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/cmdline",
        "/proc/pressure/cpu",
        "/proc/self/cgroup",
        "/proc/self/mountinfo",
        "/proc/self/status",
        "/proc/self/limits",
        "/proc/self/stat",
        "/proc/self/autogroup",
        "/proc/self/timerslack_ns",
        "/proc/self/personality",
        "/proc/sys/kernel/randomize_va_space",
        "/sys/kernel/sched_ext/state",
        "/sys/devices/system/cpu/isolated",
        "/proc/sys/kernel/osrelease",
        "/proc/sys/kernel/threads-max",
        "/proc/sys/kernel/pid_max",
        "/proc/sys/kernel/sched_autogroup_enabled",
        "/proc/sys/vm/max_map_count",
        "/proc/config.gz",
        "/sys/kernel/debug/sched/preempt",
        "/sys/kernel/debug/sched/base_slice_ns",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/node/node0/cpulist",
    ];
    paths.iter().fold(Copy::empty(), |copy, path| {
        copy.with(path, "4294967299-: ) ( 0:: , \u{fffd}\n")
    })
}
