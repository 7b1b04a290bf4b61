//! What one look at a program finds: counts since the start of each process and thread, and what was seen of their
//! states since the look before.

use super::wait::{Moment, WaitKind};
use crate::cgroup::QuotaCounts;
use crate::taskstat::IoCounts;
use crate::usage::Switches;

/// Why a program cannot be observed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObserveError {
    /// It has ended, or never was.
    #[error("there is no process {0}; `ps -e` lists those that there are")]
    NoSuchProcess(i32),
    /// It has ended; only its number is left until its parent asks how.
    #[error(
        "process {0} has ended and waits for its parent to notice (a zombie): there is nothing to observe"
    )]
    Zombie(i32),
    /// It is there, and `/proc` does not show it to this user.
    #[error(
        "process {0} is there, but /proc does not show it to this user (mounted with hidepid): observe it as its user, \
         or as root"
    )]
    Hidden(i32),
    /// It has ended while it was observed.
    #[error("process {0} has ended")]
    Ended(i32),
    /// Something else.
    #[error("process {0} cannot be observed: {1}")]
    Unreadable(i32, String),
}

/// Which thread: numbers are used again, and the start tells whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadKey {
    /// Its process.
    pub pid: i32,
    /// Itself.
    pub tid: i32,
    /// When it began, in ticks since the machine was started.
    pub start_ticks: u64,
}

/// How often a thread was seen in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// It ran, or was ready to.
    pub runnable: u32,
    /// It waited, by [`WaitKind::index`].
    pub waits: [u32; WaitKind::COUNT],
}

impl Seen {
    pub(super) fn add(&mut self, moment: Moment) {
        let count = match moment {
            Moment::Runnable => &mut self.runnable,
            Moment::Waits(kind) => &mut self.waits[kind.index()],
        };
        *count = count.saturating_add(1);
    }

    /// Only ever seen so.
    pub(super) fn only(moment: Moment) -> Self {
        let mut seen = Self::default();
        seen.add(moment);
        seen
    }

    /// How often it was seen waiting.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waits.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// A thread at a look.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ThreadLook {
    /// Which.
    pub key: ThreadKey,
    /// Its name now.
    pub name: String,
    /// Time on a CPU since its start.
    pub ran_ns: u64,
    /// Time for which it wanted a CPU, since its start; `None` where the kernel does not count it.
    pub waited_ns: Option<u64>,
    /// How often it was given a CPU; `None` where the kernel does not count it.
    pub slices: Option<u64>,
    /// CPU time in user space and in the kernel, ticks. May be of some looks before, where it did not run meanwhile.
    pub ticks: [u64; 2],
    /// Its context switches, as they were when they were read last: not at each look.
    pub switches: Option<Switches>,
    /// The CPU it was on last.
    pub cpu: Option<usize>,
    /// How long ago it began, ns.
    pub age_ns: u64,
    /// What it was seen doing since the look before.
    pub seen: Seen,
}

/// A program at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: u64,
    /// How many processes there are.
    pub processes: usize,
    /// CPU time of all since the first look, with that of processes and threads that ended meanwhile. From the kernel's
    /// ticks: exact to some 10 ms for each process.
    pub cpu_ns: u64,
    /// All threads, by number.
    pub threads: Vec<ThreadLook>,
    /// Resident memory of all processes, KiB: what they share counts with each.
    pub rss_kib: u64,
    /// Their proportional memory, KiB, when it was read last: it is dear.
    pub pss_kib: Option<u64>,
    /// What they read and wrote; `None` where it may not be read.
    pub io: Option<IoCounts>,
    /// The quotas that hold them back.
    pub quotas: Vec<QuotaCounts>,
    /// CPU time of all programs of the machine since it was started; `None` where it cannot be read.
    pub machine_ns: Option<u64>,
    /// CPU time that observing has taken until now.
    pub own_cpu_ns: u64,
}
