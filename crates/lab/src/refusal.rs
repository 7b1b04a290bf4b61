//! Why the system refused another process or thread: which limit, what it is, and how it is raised.
//!
//! The kernel says "try again" whichever limit was reached. So every limit that can be the cause is read together with
//! its use, *while the units that were made still exist*. The one with the least left is named.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use procfs::process::{LimitValue, Process, all_processes};
use procfs::{Current, LoadAverage, ProcessCGroups};
use rustix::process::{Resource, getrlimit, getuid};

use crate::worker::CaseError;

/// A limit counts as reached when fewer than this many are left, since other processes take some meanwhile.
const NEAR: u64 = 32;

/// The failure of a case in which `what` (say "thread 501 by pthread") was refused with `error`. Call it
/// before the units that were made are ended: it looks at what is in use.
pub fn refused(what: impl fmt::Display, error: &io::Error) -> CaseError {
    CaseError::Failed(told("self", what, error).0)
}

/// The same for the `number`th unit, counted from 1, of another process; `process` is its name in `/proc`.
pub fn refused_in(process: &str, unit: &str, number: u64, error: &io::Error) -> CaseError {
    let (says, limit) = told(process, format_args!("{unit} {number}"), error);
    CaseError::Refused {
        says,
        made: number.saturating_sub(1),
        limit,
    }
}

/// What to say of a refusal, and the limit that was reached.
fn told(process: &str, what: impl fmt::Display, error: &io::Error) -> (String, Option<String>) {
    let about_units = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM));
    let levels = about_units.then(|| levels(process));
    let why = levels.as_deref().map(explain).unwrap_or_default();
    let limit = levels.and_then(|levels| Some(reached(&levels)?.name.clone()));
    (format!("{what} was refused: {error}{why}"), limit)
}

/// A limit and what is in use of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// As the system calls it.
    pub name: String,
    /// Units, or what units take.
    pub limit: u64,
    /// Of those.
    pub used: u64,
    /// Whether other processes have a part in it.
    pub shared: bool,
    /// How it is raised.
    pub mend: String,
}

impl Level {
    const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// The limit with the least left, where that is little.
fn reached(levels: &[Level]) -> Option<&Level> {
    let fullest = levels.iter().min_by_key(|level| level.left());
    fullest.filter(|level| level.left() < NEAR)
}

/// The limit that was reached, in words; otherwise all that are known.
fn explain(levels: &[Level]) -> String {
    if let Some(fullest) = reached(levels) {
        return format!(
            "; the limit {} is {} and {} are in use; {}",
            fullest.name, fullest.limit, fullest.used, fullest.mend
        );
    }
    let known: Vec<String> = levels
        .iter()
        .map(|l| format!("{} {} of {}", l.name, l.used, l.limit))
        .collect();
    if known.is_empty() {
        return "; none of the limits behind it can be read here".to_owned();
    }
    format!(
        "; no limit is reached ({}), so memory may have been short",
        known.join(", ")
    )
}

/// Every limit on processes, threads and memory mappings that can be read here, for the process of this name in
/// `/proc`.
#[must_use]
pub fn levels(process: &str) -> Vec<Level> {
    let tasks = LoadAverage::current().ok().map(|load| load.max.into());
    let system = |name: &str, file: &str, used: Option<u64>| {
        Some(Level {
            name: name.to_owned(),
            limit: number(file)?,
            used: used?,
            shared: name != "max_map_count",
            mend: format!(
                "raise it with `sysctl {}=N`",
                file.trim_start_matches("/proc/sys/").replace('/', ".")
            ),
        })
    };
    let mappings = fs::read_to_string(format!("/proc/{process}/maps"))
        .ok()
        .map(|text| text.lines().count() as u64);
    [
        own_tasks(),
        system("threads-max", "/proc/sys/kernel/threads-max", tasks),
        system("pid_max", "/proc/sys/kernel/pid_max", tasks),
        system("max_map_count", "/proc/sys/vm/max_map_count", mappings),
        address_space(process),
    ]
    .into_iter()
    .flatten()
    .chain(cgroup_levels())
    .collect()
}

/// What a process may map, where that is limited.
fn address_space(process: &str) -> Option<Level> {
    let process = Process::new_with_root(Path::new("/proc").join(process)).ok()?;
    let LimitValue::Value(bytes) = process.limits().ok()?.max_address_space.soft_limit else {
        return None;
    };
    Some(Level {
        name: "address space (RLIMIT_AS) in MiB".to_owned(),
        limit: bytes >> 20,
        used: process.status().ok()?.vmsize? >> 10,
        shared: false,
        mend: "raise it with `ulimit -v N`, in KiB".to_owned(),
    })
}

/// `nproc`, which counts this user's tasks. The kernel does not hold the superuser to it.
fn own_tasks() -> Option<Level> {
    let uid = getuid();
    if uid.is_root() {
        return None;
    }
    let limit = getrlimit(Resource::Nproc).current?;
    Some(Level {
        name: "nproc".to_owned(),
        limit,
        used: tasks_of(uid.as_raw())?,
        shared: true,
        mend: "raise it with `ulimit -u N`".to_owned(),
    })
}

/// The threads of all processes of a user.
fn tasks_of(uid: u32) -> Option<u64> {
    let status = all_processes()
        .ok()?
        .filter_map(|process| process.ok()?.status().ok());
    Some(status.filter(|s| s.ruid == uid).map(|s| s.threads).sum())
}

/// The pids controller of this process's control group and those above it.
fn cgroup_levels() -> Vec<Level> {
    let groups = Process::myself().and_then(|process| process.cgroups());
    let Some((root, group)) = groups.ok().and_then(pids_group) else {
        return Vec::new();
    };
    let root = Path::new(root);
    let mut folder = root.join(group.trim_start_matches('/'));
    let mut levels = Vec::new();
    loop {
        let of_folder = |file: &str| number(folder.join(file));
        if let (Some(limit), Some(used)) = (of_folder("pids.max"), of_folder("pids.current")) {
            levels.push(Level {
                name: format!("pids.max of the control group {}", folder.display()),
                limit,
                used,
                shared: true,
                mend: "raise it there, or with TasksMax= where systemd set it".to_owned(),
            });
        }
        if folder == root || !folder.pop() {
            return levels;
        }
    }
}

/// The number in a file of one number.
fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Where the pids controller lies and the group in it: version 1 names it, version 2 has one tree.
fn pids_group(groups: ProcessCGroups) -> Option<(&'static str, String)> {
    let (named, whole): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.hierarchy > 0);
    let named = named
        .into_iter()
        .find(|group| group.controllers.iter().any(|c| c == "pids"));
    let of_version_1 = named.map(|group| ("/sys/fs/cgroup/pids", group.pathname));
    of_version_1.or_else(|| Some(("/sys/fs/cgroup", whole.into_iter().next()?.pathname)))
}

#[cfg(test)]
mod tests {
    use procfs::FromBufRead as _;

    use super::*;

    fn level(name: &str, limit: u64, used: u64) -> Level {
        Level {
            name: name.to_owned(),
            limit,
            used,
            shared: true,
            mend: "raise it with `ulimit -u N`".to_owned(),
        }
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
        let says = explain(&[level("pid_max", 32_768, 300)]);
        assert!(
            says.contains("pid_max 300 of 32768") && says.contains("memory"),
            "{says}"
        );
        assert!(explain(&[]).contains("can be read"));
    }

    #[test]
    fn another_error_is_told_as_it_is() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let says = refused("process 3 by fork", &error).to_string();
        assert_eq!(says, format!("process 3 by fork was refused: {error}"));
    }

    #[test]
    fn the_limits_of_this_machine_can_be_read_and_are_not_reached() {
        let levels = levels("self");
        for name in ["threads-max", "pid_max", "max_map_count"] {
            let level = levels.iter().find(|l| l.name == name).expect(name);
            assert!(level.used > 0 && level.used < level.limit, "{level:?}");
        }
    }

    #[test]
    fn the_control_group_of_the_pids_controller_is_found_in_both_versions() {
        let group = |text: &str| {
            ProcessCGroups::from_buf_read(text.as_bytes())
                .ok()
                .and_then(pids_group)
        };
        let v1 = "12:pids:/jobs/7\n3:cpu,cpuacct:/\n0::/x\n";
        assert_eq!(group(v1), Some(("/sys/fs/cgroup/pids", "/jobs/7".to_owned())));
        assert_eq!(
            group("3:cpu,cpuacct:/\n0::/user.slice\n"),
            Some(("/sys/fs/cgroup", "/user.slice".to_owned()))
        );
        assert_eq!(group("3:cpu,cpuacct:/\n"), None);
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
