//! What the groups of a process leave of processes and memory: every limit up to the top, with what is in use of it.

use super::place::{Place, bound, of_stat};
use crate::source::{Fact, Source};

/// A limit of a control group and what is in use of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupBound {
    /// The file that holds it, such as `pids.max` or `memory.max`.
    pub file: &'static str,
    /// The group's folder.
    pub folder: String,
    /// The limit: processes and threads, or KiB.
    pub limit: u64,
    /// What is in use of it. Of memory without what files keep there and nobody uses.
    pub used: u64,
}

impl GroupBound {
    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// The limits on processes and threads that the groups of a process have, own first; `process` is its name in `/proc`,
/// `self` for this one. None where they cannot be read.
pub(crate) fn group_pids_bounds(source: &Source, process: &str) -> Vec<GroupBound> {
    let of_place = |place: Place| {
        place.each(|folder| {
            let limit = bound(source, folder, "pids.max")?;
            let used = bound(source, folder, "pids.current")?;
            Ok(limit.zip(used).map(|(limit, used)| GroupBound {
                file: "pids.max",
                folder: folder.to_owned(),
                limit,
                used,
            }))
        })
    };
    let place = Place::of(source, process, "pids");
    place.and_then(of_place).unwrap_or_default()
}

/// The limits on memory that the groups of a process have, own first, in KiB; `process` is its name in `/proc`, `self`
/// for this one. None where they cannot be read.
pub(crate) fn group_memory_bounds(source: &Source, process: &str) -> Vec<GroupBound> {
    memory(source, process).unwrap_or_default()
}

/// The files of a version of control groups about memory: limits, what is in use, and what of that nobody needs.
struct Files {
    limits: &'static [&'static str],
    in_use: &'static str,
    unused: &'static str,
}

fn memory(source: &Source, process: &str) -> Fact<Vec<GroupBound>> {
    let place = Place::of(source, process, "memory")?;
    let files = if place.is_v2 {
        // Above `high` the group is slowed down until it has less: it binds as `max` does, and earlier.
        Files {
            limits: &["memory.max", "memory.high"],
            in_use: "memory.current",
            unused: "inactive_file",
        }
    } else {
        // The total: what is in use includes the groups below, too.
        Files {
            limits: &["memory.limit_in_bytes"],
            in_use: "memory.usage_in_bytes",
            unused: "total_inactive_file",
        }
    };
    let of_file = |file: &'static str| {
        place.each(|folder| {
            let Some(limit) = bound(source, folder, file)? else {
                return Ok(None);
            };
            let in_use: u64 = source.value(&format!("{folder}/{}", files.in_use))?;
            let stat = source.text(&format!("{folder}/memory.stat"));
            let unused = stat.ok().and_then(|stat| of_stat(&stat, files.unused));
            Ok(Some(GroupBound {
                file,
                folder: folder.to_owned(),
                limit: limit / 1024,
                used: in_use.saturating_sub(unused.unwrap_or(0)) / 1024,
            }))
        })
    };
    let all: Fact<Vec<Vec<GroupBound>>> = files.limits.iter().map(|file| of_file(file)).collect();
    Ok(all?.concat())
}

/// The memory that this process's control group and those above it still grant, KiB: of each its limit less what is in
/// use, and the least of these. What files keep in memory and nobody uses counts as free, as it does on the machine.
/// `None` where no group has a limit.
pub(crate) fn memory_left_kib(source: &Source) -> Fact<Option<u64>> {
    // Without the controller there is no limit.
    if Place::of(source, "self", "memory").is_err() {
        return Ok(None);
    }
    let bounds = memory(source, "self")?;
    Ok(bounds.iter().map(GroupBound::left).min())
}

/// The least limit on memory of a process's control group and those above it, KiB, or why there is none; `process` is
/// its name in `/proc`, `self` for this one.
pub(crate) fn memory_limit_kib(source: &Source, process: &str) -> Fact<u64> {
    let least = memory(source, process)?.iter().map(|of| of.limit).min();
    least.ok_or_else(|| "no control group limits memory".to_owned())
}

/// The most processes and threads in the control group, or why there is no such bound.
pub(crate) fn pids_max(source: &Source) -> Fact<u64> {
    let place = Place::of(source, "self", "pids")?;
    let least = place.lowest(|folder| bound(source, folder, "pids.max"))?;
    least.ok_or_else(|| "no control group bounds the number of processes".to_owned())
}
