//! How much others disturbed a sample: the difference of two readings.
//!
//! Steal alone shows nothing on most virtual machines, so foreign processes are counted too: everything
//! that was busy but neither ours nor the kernel's own threads, which a sample itself sets to work.
//! What is too much, and what follows, is decided elsewhere.

use crate::cpulist::CpuList;
use crate::error::MachineError;
use crate::procstat::CpuTimes;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Of each thread's time the kernel charges to its process only what it had used when it last went to sleep or a tick
/// came: what it does from then to its end is in nobody's figures and would pass for a stranger's. 5 µs were found with
/// 8,192 threads (`runs/2026-11-21-harness.md`), and slower machines exist; a program that somebody starts takes a
/// hundred times as much.
const UNCHARGED: Duration = Duration::from_micros(10);

/// Two clocks are compared, with something between the looks at them now and then: a shorter suspension is none. Waking
/// a machine takes longer.
const SUSPENDED: Duration = Duration::from_millis(10);

/// The counters of one moment. Taken by [`Meter::read`](crate::Meter::read).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: u64,
    /// Each online CPU's counters.
    pub cpus: Vec<CpuTimes>,
    /// Clock ticks a second in `cpus`.
    pub ticks_per_second: u64,
    /// Threads and processes created on this machine so far, whoever did; `None` where the kernel's figures lack it.
    pub created: Option<u64>,
    /// CPU time of this process and of the children it has waited for.
    pub own_cpu: Duration,
    /// CPU time of the kernel's threads since the meter's first reading. Zero in a container that
    /// does not show them: their work then counts as foreign.
    pub kernel_threads: Duration,
    /// Microseconds in which something waited for a CPU, anywhere on the machine; `None` without PSI.
    pub pressure_cpu_some_us: Option<u64>,
    /// Time for which the cgroup and those above it were throttled, in nanoseconds, added up over groups and CPUs;
    /// `None` without a CPU controller.
    pub throttled_ns: Option<u64>,
    /// Periods in which they were throttled, added up over groups; `None` without a CPU controller.
    pub throttled_periods: Option<u64>,
    /// Time for which the machine was suspended since it was started, in nanoseconds. `at_ns` leaves it out.
    pub suspended_ns: u64,
}

impl Reading {
    /// Takes a reading with a meter kept for the whole process, so that kernel threads add up from one
    /// reading to the next. See [`Meter::read`](crate::Meter::read) for cost and errors.
    ///
    /// # Errors
    ///
    /// As [`Meter::read`](crate::Meter::read).
    pub fn take() -> Result<Reading, MachineError> {
        crate::meter::read_shared()
    }
}

/// What others did between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Noise {
    /// Time between the readings.
    pub wall: Duration,
    /// Time taken by the hypervisor, as a share of all time of the CPUs looked at: 0 to 1.
    pub steal_share: f64,
    /// How many CPUs' worth of time went to foreign processes: 0.05 is 5 % of one CPU. Counted in ticks of
    /// (usually) 10 ms, so only meaningful over a second or more.
    pub foreign_cpus: f64,
    /// Share of the time in which something waited for a CPU, ours or not; `None` without PSI.
    pub pressure_share: Option<f64>,
    /// Time for which a quota of the cgroup, or of one above it, stopped its processes, added up over groups and CPUs.
    pub throttled: Duration,
    /// Time for which the machine was suspended, which `wall` leaves out.
    #[serde(default)]
    pub suspended: Duration,
}

/// Compares reading `a` with the later reading `b`, on the given CPUs or on all that both know.
///
/// With `cpus`, busy time is that of these CPUs alone, while own and kernel time can only be known for
/// the whole machine: a process that also worked elsewhere makes foreign work look smaller, never larger.
pub fn noise_between(a: &Reading, b: &Reading, cpus: Option<&CpuList>) -> Noise {
    let wall = Duration::from_nanos(b.at_ns.saturating_sub(a.at_ns));
    let (mut busy, mut steal, mut total) = (0_u64, 0_u64, 0_u64);
    for now in &b.cpus {
        let wanted = cpus.is_none_or(|cpus| cpus.contains(now.cpu));
        // A CPU that was plugged in meanwhile has no earlier reading and is left out.
        if let Some(then) = a.cpus.iter().find(|then| wanted && then.cpu == now.cpu) {
            let part = now.since(then);
            busy = busy.saturating_add(part.busy());
            steal = steal.saturating_add(part.steal);
            total = total.saturating_add(part.total());
        }
    }
    let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let busy_s = ratio(busy as f64, b.ticks_per_second as f64);
    let own_s = b.own_cpu.saturating_sub(a.own_cpu).as_secs_f64();
    let kernel_s = b.kernel_threads.saturating_sub(a.kernel_threads).as_secs_f64();
    let created = a.created.zip(b.created).map_or(0, |(a, b)| b.saturating_sub(a));
    let uncharged_s = created as f64 * UNCHARGED.as_secs_f64();
    let pressure_us = a.pressure_cpu_some_us.zip(b.pressure_cpu_some_us);
    let throttled_ns = a.throttled_ns.zip(b.throttled_ns);
    let suspended = Duration::from_nanos(b.suspended_ns.saturating_sub(a.suspended_ns));
    Noise {
        wall,
        steal_share: ratio(steal as f64, total as f64),
        foreign_cpus: ratio(
            (busy_s - own_s - kernel_s - uncharged_s).max(0.0),
            wall.as_secs_f64(),
        ),
        pressure_share: pressure_us
            .map(|(a, b)| ratio(b.saturating_sub(a) as f64 / 1e6, wall.as_secs_f64()).min(1.0)),
        throttled: throttled_ns.map_or(Duration::ZERO, |(a, b)| Duration::from_nanos(b.saturating_sub(a))),
        suspended: Some(suspended)
            .filter(|suspended| *suspended >= SUSPENDED)
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_s: u64, cpus: &[(u64, u64, u64)]) -> Reading {
        let cpus = cpus.iter().enumerate();
        Reading {
            at_ns: at_s * 1_000_000_000,
            cpus: cpus
                .map(|(cpu, &(user, idle, steal))| CpuTimes {
                    cpu,
                    user,
                    idle,
                    steal,
                    ..Default::default()
                })
                .collect(),
            ticks_per_second: 100,
            ..Reading::default()
        }
    }

    #[test]
    fn what_is_neither_ours_nor_the_kernels_is_foreign() {
        let a = reading(10, &[(0, 0, 0), (0, 0, 0)]);
        let mut b = reading(12, &[(150, 50, 0), (50, 150, 0)]);
        b.own_cpu = Duration::from_millis(1_000);
        b.kernel_threads = Duration::from_millis(400);
        let noise = noise_between(&a, &b, None);
        assert_eq!(noise.wall, Duration::from_secs(2));
        assert!((noise.foreign_cpus - 0.3).abs() < 1e-9, "{noise:?}");
    }

    #[test]
    fn the_last_moments_of_many_threads_are_no_strangers_and_a_program_is_one() {
        let begun = Reading {
            created: Some(100),
            ..reading(0, &[(0, 0, 0)])
        };
        let after = |created: u64, busy_ticks: u64| Reading {
            created: Some(100 + created),
            ..reading(1, &[(busy_ticks, 100 - busy_ticks, 0)])
        };
        assert_eq!(noise_between(&begun, &after(8_000, 8), None).foreign_cpus, 0.0);
        let program = noise_between(&begun, &after(1, 8), None).foreign_cpus;
        assert!((program - 0.08).abs() < 1e-4, "{program}");
    }

    #[test]
    fn more_own_time_than_the_ticks_show_is_not_a_negative_load() {
        let a = reading(0, &[(0, 0, 0)]);
        let mut b = reading(1, &[(1, 99, 0)]);
        b.own_cpu = Duration::from_millis(15);
        assert_eq!(noise_between(&a, &b, None).foreign_cpus, 0.0);
    }

    #[test]
    fn only_the_cpus_asked_for_count() {
        let a = reading(0, &[(0, 0, 0), (0, 0, 0)]);
        let b = reading(1, &[(0, 90, 10), (100, 0, 0)]);
        let first = noise_between(&a, &b, Some(&CpuList::new([0])));
        assert_eq!((first.foreign_cpus, first.steal_share), (0.0, 0.1));
        let second = noise_between(&a, &b, Some(&CpuList::new([1])));
        assert_eq!((second.foreign_cpus, second.steal_share), (1.0, 0.0));
        assert_eq!(noise_between(&a, &b, None).steal_share, 0.05);
    }

    #[test]
    fn pressure_and_throttling_are_differences_and_stay_unknown_where_unknown() {
        let a = reading(0, &[]);
        let mut b = reading(2, &[]);
        assert_eq!(noise_between(&a, &b, None).pressure_share, None);
        let a = Reading {
            pressure_cpu_some_us: Some(100),
            throttled_ns: Some(5),
            ..a
        };
        b.pressure_cpu_some_us = Some(1_000_100);
        b.throttled_ns = Some(35);
        let noise = noise_between(&a, &b, None);
        assert_eq!(
            (noise.pressure_share, noise.throttled),
            (Some(0.5), Duration::from_nanos(30))
        );
    }

    #[test]
    fn what_is_shorter_than_it_takes_to_wake_a_machine_is_no_suspension() {
        let suspended = |ms: u64| {
            let after = Reading {
                suspended_ns: 7 + ms * 1_000_000,
                ..reading(1, &[])
            };
            let before = Reading {
                suspended_ns: 7,
                ..reading(0, &[])
            };
            noise_between(&before, &after, None).suspended
        };
        assert_eq!(suspended(9), Duration::ZERO);
        assert_eq!([10, 5_000].map(suspended), [10, 5_000].map(Duration::from_millis));
    }

    #[test]
    fn two_readings_of_the_same_moment_show_no_noise() {
        let a = reading(3, &[(1, 2, 3)]);
        assert_eq!(noise_between(&a, &a, None), Noise::default());
    }
}
