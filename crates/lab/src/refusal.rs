//! Why the system refused another process or thread: which limit, what it is, and how it is raised.
//!
//! The kernel says "try again" whatever it was that ran out. So the limits that can be behind it are read
//! beside what is in use of each, *while the units that were made are still there*; the fullest one is named.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit, getuid};

use crate::worker::CaseError;

/// A limit counts as reached when fewer than this many of it are left: others take some meanwhile.
const NEAR: u64 = 32;

/// The failure of a case in which `what` (say "thread 501 by pthread") was refused with `error`. Call it
/// before the units that were made are ended: it looks at what is in use.
pub fn refused(what: impl fmt::Display, error: &io::Error) -> CaseError {
    let about_units = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM));
    let why = if about_units {
        explain(&levels())
    } else {
        String::new()
    };
    CaseError::Failed(format!("{what} was refused: {error}{why}"))
}

/// A limit and what is in use of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Level {
    name: String,
    limit: u64,
    used: u64,
    mend: String,
}

impl Level {
    const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// The limit that was reached, in words; else those that are nearest.
fn explain(levels: &[Level]) -> String {
    let Some(fullest) = levels.iter().min_by_key(|l| l.left()) else {
        return "; none of the limits behind it can be read here".to_owned();
    };
    if fullest.left() < NEAR {
        return format!(
            "; the limit {} is {} and {} are in use; {}",
            fullest.name, fullest.limit, fullest.used, fullest.mend
        );
    }
    let known: Vec<String> = levels
        .iter()
        .map(|l| format!("{} {} of {}", l.name, l.used, l.limit))
        .collect();
    format!(
        "; no limit is reached ({}), so memory may have been short",
        known.join(", ")
    )
}

/// Every limit on processes, threads and mappings that can be read here.
fn levels() -> Vec<Level> {
    let tasks = read("/proc/loadavg").and_then(|text| tasks(&text));
    let system = |name: &str, file: &str, used: Option<u64>| {
        Some(Level {
            name: name.to_owned(),
            limit: read(file)?.trim().parse().ok()?,
            used: used?,
            mend: format!(
                "raise it with `sysctl {}=N`",
                file.trim_start_matches("/proc/sys/").replace('/', ".")
            ),
        })
    };
    let mappings = read("/proc/self/maps").map(|text| text.lines().count() as u64);
    [
        own_tasks(),
        system("threads-max", "/proc/sys/kernel/threads-max", tasks),
        system("pid_max", "/proc/sys/kernel/pid_max", tasks),
        system("max_map_count", "/proc/sys/vm/max_map_count", mappings),
    ]
    .into_iter()
    .flatten()
    .chain(cgroup_levels())
    .collect()
}

/// `nproc`, which counts this user's tasks. The kernel does not hold the superuser to it.
fn own_tasks() -> Option<Level> {
    let uid = getuid();
    if uid.is_root() {
        return None;
    }
    let limit = getrlimit(Resource::Nproc).current?;
    let used = fs::read_dir("/proc")
        .ok()?
        .flatten()
        // The others, such as `self`, are second names.
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .iter()
                .all(u8::is_ascii_digit)
        })
        .filter_map(|entry| read(entry.path().join("status")))
        .filter_map(|status| tasks_of(&status, uid.as_raw()))
        .sum();
    Some(Level {
        name: "nproc".to_owned(),
        limit,
        used,
        mend: "raise it with `ulimit -u N`".to_owned(),
    })
}

/// The pids controller of this process's control group and those above it.
fn cgroup_levels() -> Vec<Level> {
    let Some((root, group)) = read("/proc/self/cgroup").and_then(|text| pids_group(&text)) else {
        return Vec::new();
    };
    let mut folder = root.join(group.trim_start_matches('/'));
    let mut levels = Vec::new();
    loop {
        let number = |file: &str| read(folder.join(file))?.trim().parse().ok();
        if let (Some(limit), Some(used)) = (number("pids.max"), number("pids.current")) {
            levels.push(Level {
                name: format!("pids.max of the control group {}", folder.display()),
                limit,
                used,
                mend: "raise it there, or with TasksMax= where systemd set it".to_owned(),
            });
        }
        if folder == root || !folder.pop() {
            return levels;
        }
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// All tasks of the system, from `/proc/loadavg`: `0.1 0.2 0.3 1/345 678`.
fn tasks(loadavg: &str) -> Option<u64> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// The threads of a process of `uid`, from its `status`; `None` for another user's.
fn tasks_of(status: &str, uid: u32) -> Option<u64> {
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    (field("Uid:")? == u64::from(uid))
        .then(|| field("Threads:"))
        .flatten()
}

/// Where the pids controller lies and the group in it: version 1 names it, version 2 has one tree.
fn pids_group(cgroup: &str) -> Option<(PathBuf, String)> {
    let mut whole = None;
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers.split(',').any(|c| c == "pids") {
            return Some((PathBuf::from("/sys/fs/cgroup/pids"), group.to_owned()));
        }
        if controllers.is_empty() {
            whole = Some((PathBuf::from("/sys/fs/cgroup"), group.to_owned()));
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str, limit: u64, used: u64) -> Level {
        Level {
            name: name.to_owned(),
            limit,
            used,
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
        let levels = levels();
        for name in ["threads-max", "pid_max", "max_map_count"] {
            let level = levels.iter().find(|l| l.name == name).expect(name);
            assert!(level.used > 0 && level.used < level.limit, "{level:?}");
        }
    }

    #[test]
    fn the_kernels_texts_are_understood() {
        assert_eq!(tasks("0.10 0.20 0.30 1/345 678\n"), Some(345));
        assert_eq!(tasks("rubbish"), None);
        let status = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nThreads:\t17\n";
        assert_eq!(tasks_of(status, 1000), Some(17));
        assert_eq!(tasks_of(status, 0), None);
        assert_eq!(tasks_of("", 0), None);
        let group = |text: &str| pids_group(text).map(|(root, group)| (root.display().to_string(), group));
        let v1 = "12:pids:/jobs/7\n3:cpu,cpuacct:/\n0::/x\n";
        assert_eq!(group(v1), Some(("/sys/fs/cgroup/pids".into(), "/jobs/7".into())));
        assert_eq!(
            group("0::/user.slice\n"),
            Some(("/sys/fs/cgroup".into(), "/user.slice".into()))
        );
        assert_eq!(group("rubbish"), None);
    }
}
