//! What a process, its children or a thread used: CPU time, context switches, memory.
//!
//! Count switches with this, never assume them. A `sched_yield` that switches counts as *involuntary*,
//! a wait as *voluntary*.

use crate::sys::{Who, rusage};
use crate::taskstat::parse_schedstat;
use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};
use std::time::Duration;

/// Context switches that really happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Switches {
    /// The unit waited for something.
    pub voluntary: u64,
    /// The scheduler took the CPU away, or the unit yielded it.
    pub involuntary: u64,
}

impl Switches {
    /// Both kinds together.
    pub fn total(&self) -> u64 {
        self.voluntary + self.involuntary
    }
}

impl Add for Switches {
    type Output = Switches;

    /// Those of both.
    fn add(self, other: Switches) -> Switches {
        Switches {
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
        }
    }
}

impl Sub for Switches {
    type Output = Switches;

    /// What happened since `earlier`; never below zero.
    fn sub(self, earlier: Switches) -> Switches {
        Switches {
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

/// What `getrusage` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in user space.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Context switches.
    pub switches: Switches,
    /// The largest resident set so far, in KiB; for children that of the largest one.
    pub max_rss_kib: u64,
    /// Page faults served without reading from a disk.
    pub minor_faults: u64,
}

impl Usage {
    /// User and system time together.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// This process, all its threads, dead ones too.
pub fn usage_self() -> Usage {
    usage(Who::Process)
}

/// The children of this process that were waited for, and theirs.
pub fn usage_children() -> Usage {
    usage(Who::Children)
}

/// The calling thread.
pub fn usage_thread() -> Usage {
    usage(Who::Thread)
}

/// For how long the calling thread was ready to run and had no CPU, since it was started: others had them, or a quota
/// was used up. Time for which it was stopped is not in it. `None` where the kernel does not count it.
pub(crate) fn run_delay() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(parse_schedstat(&text)?.waited_ns))
}

/// Context switches of this process, all its threads.
pub fn switches_self() -> Switches {
    usage_self().switches
}

/// Context switches of the children that were waited for, and theirs.
pub fn switches_children() -> Switches {
    usage_children().switches
}

fn usage(who: Who) -> Usage {
    let raw = rusage(who);
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec.unsigned_abs()) + Duration::from_micros(value.tv_usec.unsigned_abs())
    };
    Usage {
        user: time(raw.ru_utime),
        system: time(raw.ru_stime),
        switches: Switches {
            voluntary: count(raw.ru_nvcsw),
            involuntary: count(raw.ru_nivcsw),
        },
        max_rss_kib: count(raw.ru_maxrss),
        minor_faults: count(raw.ru_minflt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_added_and_subtracted_each_kind_by_itself() {
        let switches = |voluntary, involuntary| Switches {
            voluntary,
            involuntary,
        };
        assert_eq!(switches(5, 7) + switches(10, 20), switches(15, 27));
        assert_eq!(switches(5, 7) - switches(1, 8), switches(4, 0));
        assert_eq!(switches(5, 7).total(), 12);
    }

    #[test]
    fn cpu_time_is_that_of_the_user_and_of_the_system() {
        let usage = Usage {
            user: Duration::from_secs(3),
            system: Duration::from_secs(2),
            ..Usage::default()
        };
        assert_eq!(usage.cpu(), Duration::from_secs(5));
    }

    #[test]
    fn the_time_for_which_a_thread_wanted_a_cpu_is_the_kernels() {
        let kernels = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
            let fields: Vec<u64> = text
                .split_whitespace()
                .map(|field| field.parse().unwrap())
                .collect();
            Some(Duration::from_nanos(fields[1]))
        };
        // Whoever wakes up waits for the CPU a little.
        while kernels() == Some(Duration::ZERO) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (before, seen, after) = (kernels(), run_delay(), kernels());
        assert!(before <= seen && seen <= after, "{before:?} {seen:?} {after:?}");
    }

    #[test]
    fn a_wait_is_a_voluntary_switch() {
        let before = usage_thread().switches;
        let of_process = switches_self();
        // Several: who loses the CPU while it lies down, and comes back when its time is over, has not waited.
        (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        assert!((usage_thread().switches - before).voluntary >= 1);
        assert!((switches_self() - of_process).voluntary >= 1);
    }

    #[test]
    fn a_thread_is_part_of_its_process_which_occupies_memory() {
        let thread = usage_thread();
        let process = usage_self();
        assert!(process.switches.total() >= thread.switches.total());
        assert!(process.max_rss_kib > 100, "{process:?}");
    }

    #[test]
    fn a_reaped_child_is_counted() {
        let before = usage_children();
        let mut waits = std::process::Command::new("sleep");
        assert!(waits.arg("0.02").status().unwrap().success());
        let after = usage_children();
        assert!((switches_children() - before.switches).voluntary >= 1);
        assert!(after.minor_faults > before.minor_faults && after.cpu() >= before.cpu());
    }
}
