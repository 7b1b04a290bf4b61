//! How much memory a program can take now: what the machine has, and what the control groups of this process grant.
//!
//! What sizes itself by free memory asks here, so that it is not ended where a group grants less than the machine has.

use crate::cgroup;
use crate::platform::meminfo_kib;
use crate::source::{Fact, Source};
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

fn available_kib(source: &Source) -> Fact<u64> {
    let machine = meminfo_kib(source, "MemAvailable")?;
    let granted = cgroup::memory_left_kib(source)?;
    Ok(granted.map_or(machine, |granted| granted.min(machine)))
}
