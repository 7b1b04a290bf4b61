//! Why the system refused another process or thread: which limit, what it is, and how it is raised.
//!
//! The kernel says "try again" whichever limit was reached. So every limit that can be the cause is read together with
//! its use, *while the units that were made still exist*. The one with the least left is named.

use std::path::Path;
use std::{fmt, fs, io};

use procfs::process::{Process, all_processes};
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
    let made = number.saturating_sub(1);
    CaseError::Refused { says, made, limit }
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
    /// How many units there may be, or of what they take.
    pub limit: u64,
    /// Of those.
    pub used: u64,
    fix: String,
}

impl Level {
    /// A limit of which so much is used; `fix` says how it is raised.
    #[must_use]
    pub fn new(name: impl Into<String>, [used, limit]: [u64; 2], fix: impl Into<String>) -> Self {
        let (name, fix) = (name.into(), fix.into());
        Self {
            name,
            limit,
            used,
            fix,
        }
    }
}

/// The limit with the least left, where that is little.
fn reached(levels: &[Level]) -> Option<&Level> {
    let left = |level: &&Level| level.limit.saturating_sub(level.used);
    let fullest = levels.iter().min_by_key(left);
    fullest.filter(|fullest| left(fullest) < NEAR)
}

/// The limit that was reached, in words; otherwise all that are known.
fn explain(levels: &[Level]) -> String {
    if let Some(full) = reached(levels) {
        let in_use = format!("{} and {} are in use", full.limit, full.used);
        return format!("; the limit {} is {in_use}; {}", full.name, full.fix);
    }
    if levels.is_empty() {
        return "; none of the limits behind it can be read here".to_owned();
    }
    let shown = |level: &Level| format!("{} {} of {}", level.name, level.used, level.limit);
    let known = levels.iter().map(shown).collect::<Vec<_>>().join(", ");
    format!("; no limit is reached ({known}), so memory may have been short")
}

/// Every limit on units that can be read here and that other processes have a part in.
#[must_use]
pub fn shared_levels() -> Vec<Level> {
    let tasks = LoadAverage::current().ok().map(|load| load.max.into());
    let of_tasks = ["threads-max", "pid_max"].map(|name| system(name, &format!("kernel/{name}"), tasks));
    let own = own_tasks().into_iter().chain(of_tasks.into_iter().flatten());
    own.chain(cgroup_levels()).collect()
}

/// These, and the limit on the memory mappings of the process of this name in `/proc`.
fn levels(process: &str) -> Vec<Level> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).ok();
    let mappings = maps.map(|text| text.lines().count() as u64);
    let of_process = system("max_map_count", "vm/max_map_count", mappings);
    shared_levels().into_iter().chain(of_process).collect()
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

/// The threads of all processes of a user.
fn tasks_of(uid: u32) -> Option<u64> {
    let processes = all_processes().ok()?;
    let status = processes.filter_map(|process| process.ok()?.status().ok());
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
            let name = format!("pids.max of the control group {}", folder.display());
            let fix = "raise it there, or with TasksMax= where systemd set it";
            levels.push(Level::new(name, [used, limit], fix));
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
