//! Why the system refused another process or thread: which limit, what it is, and how it is raised.
//!
//! The kernel says "try again" or "no memory" whichever limit was reached. So every limit that can be the cause is read
//! together with its use, *while the units that were made still exist*. The one with the least left is named. Some
//! count units, some the memory that a unit takes; of memory the process's own limits and those of every control group
//! that it is in.

use std::path::Path;
use std::{fs, io};

use procfs::{Current, LoadAverage};
use rustix::process::{Resource, getrlimit, getuid};

use crate::cgroup::{GroupBound, group_memory_bounds, group_pids_bounds};
use crate::limits::parse_limits;
use crate::source::Source;
use crate::user::tasks_of;

/// A limit on units counts as reached when fewer than this many are left, since other processes take some meanwhile.
const NEAR: u64 = 32;
/// A limit on what a process maps counts as reached when it has no room for another stack, of this size or of the one
/// that is set, and for what the C library adds to it.
const STACK_KIB: u64 = 8 * 1024;
const BESIDE_STACK_KIB: u64 = 256;
/// A group's limit on memory counts as reached when it has no room for what the kernel keeps for a few units.
const NEAR_GROUP_KIB: u64 = 1024;

/// Why a process or thread was refused with this error, to stand behind it, and the name of the limit that was reached,
/// where one was; `process` is the name in `/proc` of the process that wanted it, `self` for this one. Call it before
/// the units that were made are ended: it looks at what is in use. Nothing is said of an error that no limit causes.
pub fn why_refused(process: &str, error: &io::Error) -> (String, Option<String>) {
    if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM)) {
        return (String::new(), None);
    }
    let levels = levels(process);
    let reached = reached(&levels).map(|level| level.name.clone());
    (explain(&levels), reached)
}

/// A limit and what is in use of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// As the system calls it.
    pub name: String,
    /// How many units there may be, or of what they take.
    pub limit: u64,
    /// Of those.
    pub used: u64,
    /// What limit and use are counted in, behind their number: nothing, or ` KiB`.
    unit: &'static str,
    /// With less than this left the limit counts as reached.
    near: u64,
    fix: String,
}

impl Level {
    /// A limit on units of which so many are in use; `fix` says how it is raised.
    #[must_use]
    pub fn new(name: impl Into<String>, [used, limit]: [u64; 2], fix: impl Into<String>) -> Self {
        let (name, fix) = (name.into(), fix.into());
        Self {
            name,
            limit,
            used,
            unit: "",
            near: NEAR,
            fix,
        }
    }

    /// A limit on memory, in KiB, that counts as reached with less than `near` left.
    fn kib(name: impl Into<String>, used_and_limit: [u64; 2], near: u64, fix: &str) -> Self {
        Self {
            unit: " KiB",
            near,
            ..Self::new(name, used_and_limit, fix)
        }
    }

    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// How many times what is near is left.
    fn room(&self) -> f64 {
        self.left() as f64 / self.near as f64
    }
}

/// The limit with the least room, where there is not enough for another unit.
fn reached(levels: &[Level]) -> Option<&Level> {
    let fullest = levels.iter().min_by(|a, b| a.room().total_cmp(&b.room()));
    fullest.filter(|fullest| fullest.left() < fullest.near)
}

/// The limit that was reached, in words; otherwise all that are known.
fn explain(levels: &[Level]) -> String {
    if let Some(full) = reached(levels) {
        let unit = full.unit;
        let in_use = format!("{}{unit} and {}{unit} are in use", full.limit, full.used);
        return format!("; the limit {} is {in_use}; {}", full.name, full.fix);
    }
    if levels.is_empty() {
        return "; none of the limits behind it can be read here".to_owned();
    }
    let shown = |level: &&Level| {
        let Level {
            name,
            used,
            limit,
            unit,
            ..
        } = level;
        format!("{name} {used} of {limit}{unit}")
    };
    let list = |levels: Vec<&Level>| levels.iter().map(shown).collect::<Vec<_>>().join(", ");
    let (of_units, of_memory): (Vec<_>, Vec<_>) = levels.iter().partition(|level| level.unit.is_empty());
    let known = match of_units.is_empty() {
        true => "; memory may have been short".to_owned(),
        false => format!(
            "; no limit on their number is reached ({}), so memory may have been short",
            list(of_units)
        ),
    };
    // How much was asked for at once is not known: it may be more than these leave.
    match of_memory.is_empty() {
        true => known,
        false => format!("{known}, which is limited too: {}", list(of_memory)),
    }
}

/// Every limit on units that can be read here and that other processes have a part in.
#[must_use]
pub fn shared_levels() -> Vec<Level> {
    let tasks = LoadAverage::current().ok().map(|load| load.max.into());
    let of_tasks = ["threads-max", "pid_max"].map(|name| system(name, &format!("kernel/{name}"), tasks));
    let own = own_tasks().into_iter().chain(of_tasks.into_iter().flatten());
    own.chain(of_groups("self")).collect()
}

/// These, and the limits that this process has by itself: `process` is its name in `/proc`.
fn levels(process: &str) -> Vec<Level> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).ok();
    let mappings = maps.map(|text| text.lines().count() as u64);
    let of_process = system("max_map_count", "vm/max_map_count", mappings);
    let of_memory = memory_levels(&Source::new(Path::new("/")), process);
    let shared = shared_levels().into_iter();
    shared.chain(of_process).chain(of_memory).collect()
}

/// Every limit on the memory of a process: its own, those of its control groups, and what the
/// kernel promises to all where it promises no more than it has.
fn memory_levels(source: &Source, process: &str) -> Vec<Level> {
    let limits = source
        .text(&format!("/proc/{process}/limits"))
        .unwrap_or_default();
    let status = source
        .text(&format!("/proc/{process}/status"))
        .unwrap_or_default();
    let soft_kib = |line: &str| Some(parse_limits(&limits, line)?.0.value()? / 1024);
    let stack_kib = soft_kib("Max stack size").map_or(STACK_KIB, |stack| stack.max(STACK_KIB));
    let near = stack_kib + BESIDE_STACK_KIB;
    let own = |name: &str, line: &str, counted: &str, fix: &str| {
        let (used, limit) = (of_lines(&status, counted)?, soft_kib(line)?);
        Some(Level::kib(name, [used, limit], near, fix))
    };
    let space = own(
        "address space (RLIMIT_AS)",
        "Max address space",
        "VmSize:",
        "raise it with `ulimit -v KIB`",
    );
    let data = own(
        "data (RLIMIT_DATA)",
        "Max data size",
        "VmData:",
        "raise it with `ulimit -d KIB`",
    );
    let promised = || {
        let strict = source.word("/proc/sys/vm/overcommit_memory").ok()? == "2";
        let meminfo = source.text("/proc/meminfo").ok().filter(|_| strict)?;
        let of = |line| of_lines(&meminfo, line);
        let fix = "raise it with `sysctl vm.overcommit_memory=0`, or vm.overcommit_ratio";
        Some(Level::kib(
            "CommitLimit",
            [of("Committed_AS:")?, of("CommitLimit:")?],
            near,
            fix,
        ))
    };
    // Above memory.high a group is slowed down, and refused nothing.
    let groups = group_memory_bounds(source, process).into_iter();
    let groups = groups.filter(|bound| bound.file != "memory.high").map(|bound| {
        let fix = "raise it there, or with MemoryMax= where systemd set it";
        Level::kib(of_group(&bound), [bound.used, bound.limit], NEAR_GROUP_KIB, fix)
    });
    space
        .into_iter()
        .chain(data)
        .chain(promised())
        .chain(groups)
        .collect()
}

/// The number of the line that begins so, in KiB as the kernel counts memory.
fn of_lines(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// The limit that is the setting `file` below `/proc/sys`.
fn system(name: &str, file: &str, used: Option<u64>) -> Option<Level> {
    let fix = format!("raise it with `sysctl {}=N`", file.replace('/', "."));
    let limit = number(format!("/proc/sys/{file}"))?;
    Some(Level::new(name, [used?, limit], fix))
}

/// `nproc`, which counts this user's tasks. The kernel does not hold the superuser to it.
fn own_tasks() -> Option<Level> {
    let uid = Some(getuid()).filter(|uid| !uid.is_root())?;
    let limit = getrlimit(Resource::Nproc).current?;
    let used = tasks_of(uid.as_raw())?;
    Some(Level::new("nproc", [used, limit], "raise it with `ulimit -u N`"))
}

/// The limits on units of a process's control group and those above it.
fn of_groups(process: &str) -> Vec<Level> {
    let level = |bound: GroupBound| {
        let fix = "raise it there, or with TasksMax= where systemd set it";
        Level::new(of_group(&bound), [bound.used, bound.limit], fix)
    };
    group_pids_bounds(&Source::new(Path::new("/")), process)
        .into_iter()
        .map(level)
        .collect()
}

fn of_group(bound: &GroupBound) -> String {
    format!("{} of the control group {}", bound.file, bound.folder)
}

/// The number in a file of one number.
fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str, limit: u64, used: u64) -> Level {
        Level::new(name, [used, limit], "raise it with `ulimit -u N`")
    }

    #[test]
    fn the_limit_that_was_reached_is_named_with_its_mend() {
        let levels = [level("threads-max", 190_000, 700), level("nproc", 500, 499)];
        assert_eq!(
            explain(&levels),
            "; the limit nproc is 500 and 499 are in use; raise it with `ulimit -u N`"
        );
    }

    #[test]
    fn without_a_limit_reached_those_known_are_shown() {
        let units = level("pid_max", 32_768, 300);
        assert_eq!(
            explain(std::slice::from_ref(&units)),
            "; no limit on their number is reached (pid_max 300 of 32768), so memory may have been short"
        );
        let space = Level::kib("address space (RLIMIT_AS)", [41_136, 60_000], 8_448, "");
        assert_eq!(
            explain(&[units, space]),
            "; no limit on their number is reached (pid_max 300 of 32768), so memory may have been short, which is limited too: \
             address space (RLIMIT_AS) 41136 of 60000 KiB"
        );
        assert!(explain(&[]).contains("can be read"));
    }

    #[test]
    fn no_limit_is_behind_another_error() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        assert_eq!(why_refused("self", &error), (String::new(), None));
        let error = io::Error::from_raw_os_error(libc::EAGAIN);
        assert!(!why_refused("self", &error).0.is_empty());
    }

    #[test]
    fn the_limits_of_this_machine_can_be_read_and_are_not_reached() {
        let levels = levels("self");
        for name in ["threads-max", "pid_max", "max_map_count"] {
            let level = levels.iter().find(|l| l.name == name).expect(name);
            assert!(level.used > 0 && level.used < level.limit, "{level:?}");
        }
    }

    /// A copy of a machine on which process 7 has such limits and uses so much memory, KiB.
    fn copy(limits: &str, status: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("proc/7/limits", limits), ("proc/7/status", status)] {
            write(&root, path, text);
        }
        root
    }

    fn write(root: &tempfile::TempDir, path: &str, text: &str) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn said(root: &tempfile::TempDir) -> String {
        explain(&memory_levels(&Source::new(root.path()), "7"))
    }

    #[test]
    fn a_limit_on_the_memory_that_a_process_maps_is_no_absence_of_limits() {
        // `ulimit -v 60000`, all but 4 MiB of it in use.
        let limits = "Max stack size            8388608    unlimited    bytes\n\
                      Max address space         61440000   unlimited    bytes\n\
                      Max data size             unlimited  unlimited    bytes\n";
        let root = copy(limits, "VmSize:\t   55904 kB\nVmData:\t   20000 kB\n");
        assert_eq!(
            said(&root),
            "; the limit address space (RLIMIT_AS) is 60000 KiB and 55904 KiB are in use; raise it with `ulimit -v KIB`"
        );
        let limits = "Max address space         unlimited  unlimited    bytes\n\
                      Max data size             30720000   unlimited    bytes\n";
        let root = copy(limits, "VmSize:\t   55904 kB\nVmData:\t   29000 kB\n");
        assert!(said(&root).starts_with("; the limit data (RLIMIT_DATA) is 30000 KiB"));
        // With room for ten more stacks it is not what refused one, and is named among those that were looked at.
        let root = copy(limits, "VmSize:\t   55904 kB\nVmData:\t   2000 kB\n");
        assert_eq!(
            said(&root),
            "; memory may have been short, which is limited too: data (RLIMIT_DATA) 2000 of 30000 KiB"
        );
    }

    #[test]
    fn a_limit_on_the_memory_of_any_group_on_the_way_is_named() {
        let v2 = copy("", "");
        write(&v2, "proc/7/cgroup", "0::/pod/job\n");
        write(
            &v2,
            "proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n",
        );
        write(&v2, "sys/fs/cgroup/pod/memory.max", "268435456\n");
        write(&v2, "sys/fs/cgroup/pod/memory.current", "268000000\n");
        write(&v2, "sys/fs/cgroup/pod/job/memory.max", "max\n");
        assert!(
            said(&v2)
                .starts_with("; the limit memory.max of the control group /sys/fs/cgroup/pod is 262144 KiB"),
            "{}",
            said(&v2)
        );
        let v1 = copy("", "");
        write(&v1, "proc/7/cgroup", "4:memory:/pod/job\n");
        write(
            &v1,
            "proc/self/mountinfo",
            "36 32 0:33 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
        );
        write(
            &v1,
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        write(
            &v1,
            "sys/fs/cgroup/memory/pod/memory.limit_in_bytes",
            "268435456\n",
        );
        write(
            &v1,
            "sys/fs/cgroup/memory/pod/memory.usage_in_bytes",
            "268400000\n",
        );
        assert!(
            said(&v1).starts_with(
                "; the limit memory.limit_in_bytes of the control group /sys/fs/cgroup/memory/pod is"
            ),
            "{}",
            said(&v1)
        );
    }

    #[test]
    fn what_the_kernel_promises_to_all_is_a_limit_where_it_promises_no_more_than_it_has() {
        let root = copy("", "");
        write(
            &root,
            "proc/meminfo",
            "CommitLimit:     1000000 kB\nCommitted_AS:     999000 kB\n",
        );
        write(&root, "proc/sys/vm/overcommit_memory", "0\n");
        assert!(said(&root).contains("none of the limits"));
        write(&root, "proc/sys/vm/overcommit_memory", "2\n");
        assert!(said(&root).starts_with("; the limit CommitLimit is 1000000 KiB and 999000 KiB are in use"));
    }

    #[test]
    fn every_thread_of_a_user_is_counted_and_none_of_another() {
        let ended = std::sync::Barrier::new(4);
        let counted = std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| ended.wait());
            }
            let counted = tasks_of(getuid().as_raw());
            ended.wait();
            counted
        });
        assert!(counted >= Some(4), "{counted:?}");
        assert_eq!(tasks_of(u32::MAX - 1), Some(0));
    }
}
