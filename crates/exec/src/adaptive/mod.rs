//! The degree that a call finds by itself: [`controller`] decides, this file brings it what it needs.
//!
//! Every thread that carries meters its CPU time (processes and futures do not); the caller tells the [`Governor`] of
//! each result, and where the degree has changed, those who give out permits.

mod controller;
#[cfg(test)]
#[cfg(not(loom))]
mod regret;
#[cfg(test)]
#[cfg(not(loom))]
mod servers;
#[cfg(test)]
#[cfg(not(loom))]
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

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    const ADAPTIVE: Degree = Degree::Adaptive {
        least: NonZeroUsize::MIN,
        most: NonZeroUsize::MIN,
    };

    /// Until this thread has used so much since then.
    fn compute(since_ns: u64, ns: u64) {
        while thread_cpu_ns().unwrap() - since_ns < ns {
            std::hint::spin_loop();
        }
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn the_cpu_time_of_a_call_is_what_its_threads_have_used_since_they_are_metered() {
        let cpu = CpuTime::new(ADAPTIVE);
        let metered = |ns: u64| {
            let before_ns = thread_cpu_ns().unwrap();
            let mut meter = cpu.meter();
            let begun_ns = thread_cpu_ns().unwrap();
            compute(begun_ns, ns);
            let least_ns = thread_cpu_ns().unwrap() - begun_ns;
            meter.read();
            (least_ns, thread_cpu_ns().unwrap() - before_ns)
        };
        assert_eq!(cpu.total_ns(), 0);
        let first = metered(2_000_000);
        assert!((first.0..=first.1).contains(&cpu.total_ns()), "{first:?}");
        let second = std::thread::scope(|scope| scope.spawn(|| metered(1_000_000)).join().unwrap());
        let both = first.0 + second.0..=first.1 + second.1;
        assert!(both.contains(&cpu.total_ns()), "{both:?}");
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn the_clock_of_a_thread_is_read_now_and_then_and_only_where_the_degree_is_adaptive() {
        let cpu = CpuTime::new(ADAPTIVE);
        let mut meter = cpu.meter();
        meter.tick(READ_EVERY_NS - 1);
        assert_eq!(cpu.total_ns(), 0);
        let begun_ns = thread_cpu_ns().unwrap();
        compute(begun_ns, 10_000);
        meter.tick(READ_EVERY_NS);
        let total_ns = cpu.total_ns();
        assert!(total_ns >= 10_000);
        compute(begun_ns, 20_000);
        meter.tick(2 * READ_EVERY_NS - 1);
        assert_eq!(cpu.total_ns(), total_ns);
        meter.tick(2 * READ_EVERY_NS);
        assert!(cpu.total_ns() > total_ns);

        let unwanted = CpuTime::new(Degree::Fixed(NonZeroUsize::MIN));
        let mut meter = unwanted.meter();
        meter.tick(READ_EVERY_NS);
        meter.read();
        assert_eq!(unwanted.total_ns(), 0);
    }
}
