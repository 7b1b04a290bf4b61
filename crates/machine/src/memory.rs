//! How much memory a program can take now: what the machine has, and what the control groups of this process grant; and
//! when it gives memory back.
//!
//! What sizes itself by free memory asks here, so that it is not ended where a group grants less than the machine has.

use crate::cgroup;
use crate::platform::meminfo_kib;
use crate::source::{Fact, Source};
use crate::sys;
use std::path::Path;

/// Memory that a program could take now without driving anything out, MiB: what is available on the machine, or what
/// the control groups of this process still grant, whichever is less. `None` where it cannot be read.
#[must_use]
pub fn available_memory_mib() -> Option<u64> {
    available_memory_mib_below(Path::new("/"))
}

/// The same by the files below `root`: `/`, or a copy of another machine's `/proc` and `/sys`.
#[must_use]
pub fn available_memory_mib_below(root: &Path) -> Option<u64> {
    available_kib(&Source::new(root)).ok().map(|kib| kib / 1024)
}

/// Has what is freed go back to the kernel at once if it is of `bytes` or more, for the rest of this process and in its
/// children. glibc's malloc otherwise keeps up to 64 MiB for each of its arenas once it has seen large pieces come and
/// go, and what lies between pieces in use: hundreds of megabytes after a peak. Each such piece then costs two system
/// calls, and a page fault for each page that is written. Other C libraries go by their own rules, and nothing changes.
pub fn free_at_once_from(bytes: u16) {
    sys::map_from(bytes.into());
}

fn available_kib(source: &Source) -> Fact<u64> {
    let machine = meminfo_kib(source, "MemAvailable")?;
    let granted = cgroup::memory_left_kib(source)?;
    Ok(granted.map_or(machine, |granted| granted.min(machine)))
}
