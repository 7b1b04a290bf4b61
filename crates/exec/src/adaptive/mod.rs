//! The degree that a call finds by itself: [`controller`] decides, this file brings it what it needs.
//!
//! Every thread that carries meters its CPU time (processes and futures do not); the caller tells the [`Governor`] of
//! each result, and where the degree has changed, those who give out permits.

mod controller;
#[cfg(all(test, not(loom)))]
mod regret;
#[cfg(all(test, not(loom)))]
mod servers;
#[cfg(all(test, not(loom)))]
mod simulation;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::degree::{Degree, cpus};
use controller::Controller;

/// The degree of a call, now.
pub(crate) enum Governor {
    Fixed(usize),
    Found(Box<Controller>),
}

impl Governor {
    /// `metered`: every carrier adds its CPU time.
    pub(crate) fn new(degree: Degree, metered: bool) -> Self {
        match degree {
            Degree::Fixed(degree) => Self::Fixed(degree.get()),
            Degree::Adaptive { least, most } => Self::Found(Box::new(Controller::new(
                &(least.get()..=most.get()),
                cpus(),
                metered && thread_cpu_ns().is_some(),
            ))),
        }
    }

    #[inline]
    pub(crate) fn degree(&self) -> usize {
        match self {
            Self::Fixed(degree) => *degree,
            Self::Found(controller) => controller.degree(),
        }
    }

    /// An object was processed between these times.
    #[inline]
    pub(crate) fn observe(&mut self, started_ns: u64, ended_ns: u64, cpu: &CpuTime) {
        if let Self::Found(controller) = self {
            controller.complete(started_ns, ended_ns, cpu.total_ns());
        }
    }
}

/// CPU time that the carriers of a call have used.
pub(crate) struct CpuTime {
    used_ns: AtomicU64,
    wanted: bool,
}

impl CpuTime {
    pub(crate) fn new(degree: Degree) -> Self {
        Self {
            used_ns: AtomicU64::new(0),
            wanted: matches!(degree, Degree::Adaptive { .. }),
        }
    }

    fn total_ns(&self) -> u64 {
        // Relaxed, here and below: a sum of its own; a moment's delay is a small error of the share.
        self.used_ns.load(Ordering::Relaxed)
    }

    /// A meter for this thread, from now on.
    pub(crate) fn meter(&self) -> Meter<'_> {
        Meter {
            cpu: self,
            last_ns: if self.wanted { thread_cpu_ns() } else { None },
            read_ns: 0,
        }
    }
}

/// Reads the CPU time of one thread.
pub(crate) struct Meter<'c> {
    cpu: &'c CpuTime,
    last_ns: Option<u64>,
    read_ns: u64,
}

/// The clock is a system call, so it is read at most so often.
const READ_EVERY_NS: u64 = 100_000;

impl Meter<'_> {
    /// Adds what this thread has used, now and then.
    #[inline]
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if self.last_ns.is_some() && now_ns.saturating_sub(self.read_ns) >= READ_EVERY_NS {
            self.read_ns = now_ns;
            self.read();
        }
    }

    /// Adds what this thread has used.
    pub(crate) fn read(&mut self) {
        if let (Some(last), Some(now)) = (self.last_ns, thread_cpu_ns()) {
            self.cpu
                .used_ns
                .fetch_add(now.saturating_sub(last), Ordering::Relaxed);
            self.last_ns = Some(now);
        }
    }
}

/// The CPU time that this thread has used, where there is a clock for it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn thread_cpu_ns() -> Option<u64> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).ok()?;
    Some(seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).ok()?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn thread_cpu_ns() -> Option<u64> {
    None
}
