//! Clocks in nanoseconds, and how good they are here.
//!
//! Wall time is `CLOCK_MONOTONIC`, CPU time `CLOCK_THREAD_CPUTIME_ID` or `CLOCK_PROCESS_CPUTIME_ID`.
//! No call blocks; the CPU clocks are system calls, the monotonic one usually is not.

use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds since some fixed moment, the same for all processes.
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// For how long this machine has been suspended since it was started, in nanoseconds: what `CLOCK_BOOTTIME` counts and
/// `CLOCK_MONOTONIC` does not. Exact to the time between two looks at the clock, some microseconds where nothing comes
/// between them.
pub fn suspended_ns() -> u64 {
    suspended_by(monotonic_ns, || read(ClockId::Boottime))
}

/// By these two clocks.
fn suspended_by(mut monotonic: impl FnMut() -> u64, mut boot: impl FnMut() -> u64) -> u64 {
    const TRIES: usize = 5;
    let mut look = || {
        let before = monotonic();
        let boot = boot();
        let after = monotonic();
        (after - before, boot.saturating_sub(before.midpoint(after)))
    };
    // Something may come between the looks: the two that lie closest together count.
    let looks = (0..TRIES).map(|_| look());
    looks.min().map_or(0, |(_, suspended)| suspended)
}

/// `CLOCK_BOOTTIME`: nanoseconds since this machine was started, those in which it was suspended too. By it `/proc`
/// tells when a process began.
pub(crate) fn since_boot_ns() -> u64 {
    read(ClockId::Boottime)
}

/// CPU time of the calling thread, user and system, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of this process, all its threads, without its children, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// What the monotonic clock can resolve and what asking it costs, as measured.
///
/// A timed batch should last at least `max(1000 · resolution, 2000 · cost)`: see
/// [`shortest_batch_ns`](ClockQuality::shortest_batch_ns).
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ClockQuality {
    /// The smallest step above zero seen between two calls, in nanoseconds.
    pub resolution_ns: u64,
    /// What one call costs, in nanoseconds: the least mean over many runs of calls.
    pub call_cost_ns: f64,
}

impl ClockQuality {
    /// The shortest batch, in nanoseconds, whose timing error by clock stays below a thousandth.
    pub fn shortest_batch_ns(&self) -> u64 {
        (1_000 * self.resolution_ns).max((2_000.0 * self.call_cost_ns) as u64)
    }
}

/// Measures the monotonic clock, in about a millisecond of computing.
pub fn clock_quality() -> ClockQuality {
    quality_of(monotonic_ns)
}

fn quality_of(mut clock: impl FnMut() -> u64) -> ClockQuality {
    const CALLS: u32 = 200;
    const RUNS: u32 = 40;
    let mut resolution_ns = u64::MAX;
    let mut least_run_ns = u64::MAX;
    for _ in 0..RUNS {
        let start = clock();
        let mut before = start;
        for _ in 0..CALLS {
            let now = clock();
            if now > before {
                resolution_ns = resolution_ns.min(now - before);
            }
            before = now;
        }
        least_run_ns = least_run_ns.min(before - start);
    }
    // A clock so coarse that it never moved here: wait for its next step.
    if resolution_ns == u64::MAX {
        let start = clock();
        let mut now = start;
        while now == start {
            now = clock();
        }
        resolution_ns = now - start;
    }
    ClockQuality {
        resolution_ns,
        call_cost_ns: least_run_ns as f64 / f64::from(CALLS),
    }
}

/// What one call of `clock` costs, in nanoseconds: the least difference seen between two calls in a row.
pub(crate) fn least_call_ns(mut clock: impl FnMut() -> u64) -> u64 {
    (0..64)
        .map(|_| {
            let start = clock();
            clock() - start
        })
        .min()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_go_forward() {
        for clock in [monotonic_ns, thread_cpu_ns, process_cpu_ns] {
            let start = clock();
            while clock() == start {}
            assert!(clock() > start);
        }
    }

    #[test]
    fn each_clock_is_the_kernels_in_nanoseconds() {
        let kernels = |clock: ClockId| {
            let now = clock_gettime(clock);
            let (seconds, nanos) = (now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap());
            u64::try_from(std::time::Duration::new(seconds, nanos).as_nanos()).unwrap()
        };
        for (clock, ours) in [
            (ClockId::Monotonic, monotonic_ns as fn() -> u64),
            (ClockId::ThreadCPUTime, thread_cpu_ns),
            (ClockId::ProcessCPUTime, process_cpu_ns),
        ] {
            let (before, seen, after) = (kernels(clock), ours(), kernels(clock));
            assert!((before..=after).contains(&seen), "{before} {seen} {after}");
        }
        let clocks = || [ClockId::Boottime, ClockId::Monotonic].map(kernels);
        let (before, seen, after) = (clocks(), suspended_ns(), clocks());
        let least = before[0].saturating_sub(after[1]);
        let most = after[0].saturating_sub(before[1]);
        assert!((least..=most).contains(&seen), "{before:?} {seen} {after:?}");
    }

    /// A clock that moves on by these steps, one after the other, and then from the first again.
    fn stepping(steps: &[u64]) -> impl FnMut() -> u64 {
        let mut steps = steps.iter().cycle();
        let mut now = 1_000_000;
        move || {
            now += steps.next().unwrap();
            now
        }
    }

    #[test]
    fn a_clock_has_its_smallest_step_and_its_mean_cost() {
        let even = quality_of(stepping(&[25]));
        assert_eq!((even.resolution_ns, even.call_cost_ns), (25, 25.0));
        // Of 200 calls each third is 50 later.
        let coarse = quality_of(stepping(&[50, 0, 0]));
        assert_eq!((coarse.resolution_ns, coarse.call_cost_ns), (50, 16.5));
        // The step that comes next is not the smallest, and each run begins with it.
        let uneven = quality_of(stepping(&[30, 50, 70]));
        assert_eq!((uneven.resolution_ns, uneven.call_cost_ns), (30, 50.1));
        // One that moves only after all runs.
        let mut calls = 0;
        let still = quality_of(|| {
            calls += 1;
            if calls < 9_000 { 7 } else { 4_000_007 }
        });
        assert_eq!((still.resolution_ns, still.call_cost_ns), (4_000_000, 0.0));
        assert_eq!(least_call_ns(stepping(&[3, 9, 2, 5, 4, 7])), 5);
    }

    #[test]
    fn of_all_looks_at_two_clocks_those_closest_together_tell_the_suspension() {
        // Looks that are 40 and 10 apart; the other clock is read in their middle, and 300 ahead, or more.
        let boot = |ahead: [u64; 2]| {
            let mut at = [1_000_023 + ahead[0], 1_000_048 + ahead[1]].into_iter().cycle();
            move || at.next().unwrap()
        };
        let monotonic = || {
            let mut at = [1_000_003, 1_000_043, 1_000_043, 1_000_053].into_iter().cycle();
            move || at.next().unwrap()
        };
        assert_eq!(suspended_by(monotonic(), boot([900, 300])), 300);
        assert_eq!(suspended_by(monotonic(), boot([100, 300])), 300);
    }

    #[test]
    fn a_batch_is_long_enough_for_both_errors() {
        let coarse = ClockQuality {
            resolution_ns: 1_000,
            call_cost_ns: 20.0,
        };
        let slow = ClockQuality {
            resolution_ns: 1,
            call_cost_ns: 1_500.0,
        };
        assert_eq!(coarse.shortest_batch_ns(), 1_000_000);
        assert_eq!(slow.shortest_batch_ns(), 3_000_000);
    }

    #[test]
    fn the_measured_clock_has_a_resolution_and_a_cost() {
        let quality = clock_quality();
        assert!(
            quality.resolution_ns >= 1 && quality.call_cost_ns > 0.0,
            "{quality:?}"
        );
    }
}
