//! What the experiments share in which units wake each other: the words for units, means and placement
//! (`guests/c/channel.h`), and the programs.

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_machine::{CpuList, allowed_cpus, smt_siblings};

use crate::guests::{Guest, guest};

/// `guests/c/ring.c`.
pub const RING: Guest = guest!("ring");
/// `guests/c/wake.c`.
pub const WAKE: Guest = guest!("wake");
/// `guests/c/handover.c`.
pub const HANDOVER: Guest = guest!("handover");

words! {
    /// What is woken.
    pub enum Unit {
        /// By fork.
        Process = "process",
        /// By pthread_create.
        Thread = "thread",
        /// By clone with shared memory, but a process of its own: a thread as it was before NPTL.
        SharedProcess = "shared-process",
        /// A stack of its own in one thread, which the kernel knows nothing of.
        Coroutine = "coroutine",
    }
}

impl Unit {
    /// One of them, and how it is made, to follow a number.
    pub const fn made_by(self) -> &'static str {
        match self {
            Self::Process => "process by fork",
            Self::Thread => "thread by pthread_create",
            Self::SharedProcess => "process by clone with shared memory",
            Self::Coroutine => "coroutine by makecontext",
        }
    }

    /// Its column in the table of threads and processes.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::SharedProcess => "process in shared memory",
            _ => self.name(),
        }
    }
}

words! {
    /// By what one unit wakes another.
    pub enum Means {
        /// 8 bytes through a pipe.
        Pipe = "pipe",
        /// A counter in the kernel.
        Eventfd = "eventfd",
        /// A word in memory, and a system call only to sleep and to wake.
        Futex = "futex",
        /// An epoll instance, with the same counter in it.
        Epoll = "epoll",
        /// A mutex and a condition variable of the C library.
        Condvar = "condvar",
        /// 8 bytes through a pair of Unix sockets.
        Unix = "unix",
        /// 8 bytes through a TCP connection over the loopback address.
        Tcp = "tcp",
        /// Nobody sleeps: whoever waits looks at a word in memory again and again.
        Spin = "spin",
        /// A jump to the other stack, by coroutines alone.
        Jump = "jump",
    }
}

words! {
    /// On which CPUs units are that wake each other.
    pub enum Placement {
        /// All on one.
        Same = "same",
        /// In turns on two CPUs of different cores, where there are such: whoever wakes, wakes another CPU.
        Across = "across",
        /// In turns on two CPUs of one core, of all that the worker may use.
        Sibling = "sibling",
        /// Wherever the scheduler puts them, on all.
        Free = "free",
    }
}

impl Placement {
    /// Whether a case is on as many CPUs as its placement is about.
    ///
    /// # Errors
    ///
    /// Says how many it must be.
    pub fn check(self, params: &Params) -> Result<(), CaseError> {
        match (self, params.int("cpus")) {
            (Self::Same, Some(1)) | (Self::Across, Some(2)) | (Self::Sibling | Self::Free, _) => Ok(()),
            (Self::Same, _) => Err(refused(params, "cpus", "1, where placement is same")),
            (Self::Across, _) => Err(refused(params, "cpus", "2, where placement is across")),
        }
    }

    /// The CPUs that units are pinned to one after the other, for the program in C: those that this worker may use.
    ///
    /// # Errors
    ///
    /// Skipped where no core has two of them. Failed where they cannot be read.
    pub fn pinned(self) -> Result<String, CaseError> {
        match self {
            Self::Same | Self::Free => Ok("-".to_owned()),
            Self::Across => Ok(numbers(&allowed()?)),
            Self::Sibling => {
                let cores = cores_with_siblings()?;
                let pair = cores.first().map(|cpus| CpuList::new(cpus.iter().take(2)));
                let pair = pair.ok_or_else(|| CaseError::Skipped(Lack::new(Need::Cpus, NO_SIBLINGS)))?;
                Ok(numbers(&pair))
            }
        }
    }
}

/// Why there is no pair of siblings.
pub const NO_SIBLINGS: &str = "needs two CPUs of one core (SMT), and none of this run's CPUs are";

/// For each core that has several of the CPUs that this worker may use: these.
///
/// # Errors
///
/// Failed where they cannot be read.
pub fn cores_with_siblings() -> Result<Vec<CpuList>, CaseError> {
    let allowed = allowed()?;
    let of_core = smt_siblings().into_iter().map(|core| core.intersection(&allowed));
    Ok(of_core.filter(|cpus| cpus.len() > 1).collect())
}

fn allowed() -> Result<CpuList, CaseError> {
    allowed_cpus().map_err(|e| CaseError::failed("reading which CPUs may be used", e))
}

/// As the programs in C read them, one by one.
fn numbers(cpus: &CpuList) -> String {
    let numbers: Vec<String> = cpus.iter().map(|cpu| cpu.to_string()).collect();
    numbers.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_the_cpus_that_its_units_are_pinned_to_in_turns() {
        let all: Vec<String> = allowed_cpus()
            .unwrap()
            .iter()
            .map(|cpu| cpu.to_string())
            .collect();
        for (placement, told) in [
            (Placement::Same, "-"),
            (Placement::Free, "-"),
            (Placement::Across, &all.join(",")),
        ] {
            assert_eq!(placement.pinned().unwrap(), told, "{placement:?}");
        }
        assert_eq!(numbers(&CpuList::new([0, 2, 11])), "0,2,11");
    }
}
