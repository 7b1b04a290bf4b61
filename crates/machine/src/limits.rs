//! How much of a thing a process may have, and changing that for the calling process.
//!
//! The cgroup's own bound on processes is read here too, since "how many threads can I start" needs the
//! least of them all. A worker's deadline is not a resource limit and lives with the worker.

use crate::error::MachineError;
use crate::source::{Fact, Source};
use procfs::process::Process;
use rustix::process::{Pid, Resource as Raw, Rlimit, getrlimit, prlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// A bound, or none. In JSON a number or the word `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// At most this many.
    Of(u64),
    /// No bound.
    Unlimited,
}

impl Bound {
    /// The number, or `None` without a bound.
    pub fn value(self) -> Option<u64> {
        match self {
            Bound::Of(n) => Some(n),
            Bound::Unlimited => None,
        }
    }

    /// Are `n` allowed?
    pub fn allows(self, n: u64) -> bool {
        self.value().is_none_or(|most| n <= most)
    }
}

impl From<Option<u64>> for Bound {
    fn from(value: Option<u64>) -> Bound {
        value.map_or(Bound::Unlimited, Bound::Of)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Of(n) => n.fmt(f),
            Bound::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl std::str::FromStr for Bound {
    type Err = std::num::ParseIntError;

    /// A number, `unlimited`, or `max` as control groups write it.
    fn from_str(text: &str) -> Result<Bound, Self::Err> {
        match text {
            "unlimited" | "max" => Ok(Bound::Unlimited),
            number => number.parse().map(Bound::Of),
        }
    }
}

impl Serialize for Bound {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Bound::Of(n) => serializer.serialize_u64(*n),
            Bound::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Bound, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Text {
            Number(u64),
            Word(String),
        }
        match Text::deserialize(deserializer)? {
            Text::Number(n) => Ok(Bound::Of(n)),
            Text::Word(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// The limits that decide how many units can be alive. `None` where it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Open files a process may have: soft limit.
    pub nofile: Option<Bound>,
    /// Open files a process may have: hard limit.
    pub nofile_hard: Option<Bound>,
    /// Processes and threads of this user: soft limit. Does not bind root.
    pub nproc: Option<Bound>,
    /// Processes and threads of this user: hard limit.
    pub nproc_hard: Option<Bound>,
    /// Bytes of the main thread's stack, and of others by default: soft limit.
    pub stack: Option<Bound>,
    /// Bytes of a stack: hard limit.
    pub stack_hard: Option<Bound>,
    /// Bytes of address space: soft limit.
    #[serde(rename = "as")]
    pub as_: Option<Bound>,
    /// Bytes of address space: hard limit.
    pub as_hard: Option<Bound>,
    /// Bytes of data, in which all memory that a process writes to for itself counts: soft limit.
    pub data: Option<Bound>,
    /// Bytes of data: hard limit.
    pub data_hard: Option<Bound>,
    /// Threads on the whole machine.
    pub threads_max: Option<u64>,
    /// Process and thread ids lie below this number.
    pub pid_max: Option<u64>,
    /// Memory mappings a process may have; a thread's stack takes two.
    pub max_map_count: Option<u64>,
    /// Processes and threads of the control group.
    pub cgroup_pids_max: Option<Bound>,
}

/// Soft and hard limit of a line of `/proc/self/limits` such as
/// `Max open files            20000                20000                files`.
pub fn parse_limits(text: &str, line: &str) -> Option<(Bound, Bound)> {
    let values = text.lines().find_map(|candidate| candidate.strip_prefix(line))?;
    let mut words = values.split_ascii_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

impl Limits {
    /// Reads all of them; calls `unknown` with field and reason for each that cannot be read.
    pub(crate) fn read(
        source: &Source,
        pids_max: Fact<u64>,
        unknown: &mut dyn FnMut(&str, String),
    ) -> Limits {
        let text = source.text("/proc/self/limits");
        let mut pair = |field: &str, line: &str| -> (Option<Bound>, Option<Bound>) {
            let found = text.clone().and_then(|text| {
                parse_limits(&text, line).ok_or(format!("/proc/self/limits has no usable line {line:?}"))
            });
            match found {
                Ok((soft, hard)) => (Some(soft), Some(hard)),
                Err(reason) => {
                    unknown(&format!("limits.{field}"), reason.clone());
                    unknown(&format!("limits.{field}_hard"), reason);
                    (None, None)
                }
            }
        };
        let (nofile, nofile_hard) = pair("nofile", "Max open files");
        let (nproc, nproc_hard) = pair("nproc", "Max processes");
        let (stack, stack_hard) = pair("stack", "Max stack size");
        let (as_, as_hard) = pair("as", "Max address space");
        let (data, data_hard) = pair("data", "Max data size");
        let mut number = |field: &str, path: &str| {
            let found: Fact<u64> = source.value(path);
            found
                .map_err(|reason| unknown(&format!("limits.{field}"), reason))
                .ok()
        };
        let threads_max = number("threads_max", "/proc/sys/kernel/threads-max");
        let pid_max = number("pid_max", "/proc/sys/kernel/pid_max");
        let max_map_count = number("max_map_count", "/proc/sys/vm/max_map_count");
        let pids_max = pids_max
            .map_err(|reason| unknown("limits.cgroup_pids_max", reason))
            .ok();
        Limits {
            nofile,
            nofile_hard,
            nproc,
            nproc_hard,
            stack,
            stack_hard,
            as_,
            as_hard,
            data,
            data_hard,
            threads_max,
            pid_max,
            max_map_count,
            cgroup_pids_max: pids_max.map(Bound::Of),
        }
    }
}

/// A resource that the kernel limits a process in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Open files (`RLIMIT_NOFILE`).
    OpenFiles,
    /// Processes and threads of the user (`RLIMIT_NPROC`).
    Processes,
    /// Bytes of stack (`RLIMIT_STACK`).
    Stack,
    /// Bytes of address space (`RLIMIT_AS`).
    AddressSpace,
    /// Bytes of a core dump (`RLIMIT_CORE`).
    CoreDump,
    /// Seconds of CPU time (`RLIMIT_CPU`).
    CpuSeconds,
}

impl Resource {
    fn raw(self) -> Raw {
        match self {
            Resource::OpenFiles => Raw::Nofile,
            Resource::Processes => Raw::Nproc,
            Resource::Stack => Raw::Stack,
            Resource::AddressSpace => Raw::As,
            Resource::CoreDump => Raw::Core,
            Resource::CpuSeconds => Raw::Cpu,
        }
    }

    /// What raises it to this: the shell's command. Only root may raise a hard limit.
    pub fn fix(self, wanted: Bound) -> String {
        // The shell counts bytes in KiB.
        let (letter, unit) = match self {
            Resource::OpenFiles => ('n', 1),
            Resource::Processes => ('u', 1),
            Resource::Stack => ('s', 1024),
            Resource::AddressSpace => ('v', 1024),
            Resource::CoreDump => ('c', 1024),
            Resource::CpuSeconds => ('t', 1),
        };
        let value = Bound::from(wanted.value().map(|n| n.div_ceil(unit)));
        format!("`ulimit -{letter} {value}` as root, or in /etc/security/limits.conf")
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::OpenFiles => "nofile",
            Resource::Processes => "nproc",
            Resource::Stack => "stack",
            Resource::AddressSpace => "as",
            Resource::CoreDump => "core",
            Resource::CpuSeconds => "cpu",
        })
    }
}

/// How many descriptors a process has open and how many it may have, by its soft limit; of this process where none is
/// named. `None` where that cannot be read.
pub fn descriptors_of(pid: Option<i32>) -> Option<(u64, Bound)> {
    let process = match pid {
        Some(pid) => Process::new(pid).ok()?,
        None => Process::myself().ok()?,
    };
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.pid())).ok()?;
    let (most, _) = parse_limits(&limits, "Max open files")?;
    Some((process.fd_count().ok()? as u64, most))
}

/// Raises the soft limit of the calling process to the hard one and returns it. Children inherit it.
///
/// # Errors
///
/// [`MachineError::Limit`] if the kernel refuses, which it has no reason to.
pub fn raise_to_hard(resource: Resource) -> Result<Bound, MachineError> {
    let hard = Bound::from(getrlimit(resource.raw()).maximum);
    set_limit(resource, hard)?;
    Ok(hard)
}

/// Sets the soft limit of the calling process; the hard one stays, so it can be raised again. Children
/// inherit it.
///
/// # Errors
///
/// [`MachineError::Limit`] if `wanted` is above the hard limit, with the command that raises that.
pub fn set_limit(resource: Resource, wanted: Bound) -> Result<(), MachineError> {
    let hard = getrlimit(resource.raw()).maximum;
    let new = Rlimit {
        current: wanted.value(),
        maximum: hard,
    };
    setrlimit(resource.raw(), new).map_err(|error| MachineError::Limit {
        resource,
        wanted,
        hard: hard.into(),
        source: error.into(),
        fix: resource.fix(wanted),
    })
}

/// Lowers the soft and the hard limit of another process to this, for good: neither it nor what it starts can raise
/// them. The calling thread must be of the same user (see [`as_user`](crate::as_user)) or may do what the superuser
/// may.
///
/// # Errors
///
/// If there is no such process, or it may not be changed.
pub fn lower_limit_of(pid: i32, resource: Resource, most: u64) -> io::Result<()> {
    let process = (pid > 0).then(|| Pid::from_raw(pid)).flatten();
    // None would be the calling process itself.
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    let new = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    prlimit(Some(process), resource.raw(), new)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                        Max stack size            8388608              unlimited            bytes     \n\
                        Max processes             96365                96365                processes \n";

    #[test]
    fn soft_and_hard_limits_are_read_from_their_line() {
        assert_eq!(
            parse_limits(TEXT, "Max stack size"),
            Some((Bound::Of(8_388_608), Bound::Unlimited))
        );
        assert_eq!(parse_limits(TEXT, "Max open files"), None);
        assert_eq!(parse_limits("Max processes x y", "Max processes"), None);
    }

    #[test]
    fn a_bound_is_a_number_or_a_word_in_json() {
        assert_eq!(
            serde_json::to_string(&[Bound::Of(7), Bound::Unlimited]).unwrap(),
            r#"[7,"unlimited"]"#
        );
        assert_eq!(
            serde_json::from_str::<Bound>(r#""unlimited""#).unwrap(),
            Bound::Unlimited
        );
        assert!(serde_json::from_str::<Bound>(r#""much""#).is_err());
    }

    #[test]
    fn a_limit_of_another_process_is_lowered_and_of_no_process_refused() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        lower_limit_of(child.id().cast_signed(), Resource::OpenFiles, 17).unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let lowered = Some((Bound::Of(17), Bound::Of(17)));
        assert_eq!(parse_limits(&limits, "Max open files"), lowered);
        for pid in [0, -1] {
            let error = lower_limit_of(pid, Resource::OpenFiles, 17).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn unlimited_is_more_than_any_number() {
        assert!(Bound::Unlimited > Bound::Of(u64::MAX) && Bound::Unlimited.allows(u64::MAX));
        assert!(Bound::Of(5).allows(5) && !Bound::Of(5).allows(6));
    }

    #[test]
    fn a_limit_above_the_hard_one_says_how_to_raise_it() {
        let hard = Bound::from(getrlimit(Raw::Nofile).maximum);
        let Bound::Of(hard) = hard else { return };
        let error = set_limit(Resource::OpenFiles, Bound::Unlimited)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("nofile") && error.contains(&hard.to_string()),
            "{error}"
        );
        assert!(error.contains("ulimit -n unlimited"), "{error}");
    }

    #[test]
    fn open_descriptors_of_this_process_are_within_its_limit() {
        let (open, most) = descriptors_of(None).unwrap();
        assert!(open >= 3 && most.allows(open), "{open} of {most}");
        assert_eq!(
            descriptors_of(Some(std::process::id().cast_signed())).unwrap().1,
            most
        );
        assert_eq!(descriptors_of(Some(i32::MAX)), None);
    }

    #[test]
    fn raising_to_the_hard_limit_reaches_it() {
        let hard = raise_to_hard(Resource::CoreDump).unwrap();
        assert_eq!(Bound::from(getrlimit(Raw::Core).current), hard);
        set_limit(Resource::CoreDump, Bound::Of(0)).unwrap();
        assert_eq!(getrlimit(Raw::Core).current, Some(0));
    }
}
