//! The noise probe: how long and how often a busy loop is interrupted, on every CPU at once.
//!
//! Each CPU gets a thread that does nothing but look at the clock. Where two looks lie further apart than
//! [`GAP_NS`], something else had the CPU: an interrupt, another program, the kernel, or the hypervisor.
//! Read-only: it changes nothing but its own threads' affinity.

use crate::affinity::{allowed_cpus, pin_thread};
use crate::clock::{clock_quality, monotonic_ns};
use crate::cpulist::CpuList;
use crate::noise::{Noise, Reading, noise_between};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Two looks at the clock further apart than this are an interruption, in nanoseconds.
pub const GAP_NS: u64 = 10_000;

/// What the probe saw.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NoiseProbe {
    /// How long it looked.
    pub duration: Duration,
    /// On how many CPUs.
    pub cpus: usize,
    /// The longest interruption, in nanoseconds.
    pub longest_gap_ns: u64,
    /// Time lost to interruptions, as a share of all time of the CPUs looked at: 0 to 1.
    pub lost_share: f64,
    /// How many interruptions, over all CPUs.
    pub interruptions: u64,
    /// Interruptions longer than a millisecond, over all CPUs: others had a turn.
    pub long_interruptions: u64,
    /// Time taken by the hypervisor, as a share of all CPU time.
    pub steal_share: f64,
    /// CPUs' worth of foreign processes. Against a busy machine they get only a part of what they want.
    pub foreign_cpus: f64,
    /// Share of the time in which something waited for a CPU; `None` without PSI.
    pub pressure_share: Option<f64>,
    /// Time for which a quota of the cgroup or of one above it stopped the probe, added up over groups and CPUs.
    pub throttled: Duration,
    /// What could not be looked at.
    pub unknown: Vec<String>,
}

/// Looks at the noise for `d`. Blocks for that long and keeps every allowed CPU busy meanwhile.
pub fn noise_probe(d: Duration) -> NoiseProbe {
    let mut unknown = Vec::new();
    let cpus = allowed_cpus().unwrap_or_else(|error| {
        unknown.push(format!("the CPUs of this process: {error}"));
        CpuList::default()
    });
    let before = Reading::take();
    let watches = watch_all(&cpus, d, gap_ns(clock_quality().call_cost_ns));
    let after = Reading::take();
    let noise = match (&before, &after) {
        (Ok(before), Ok(after)) => noise_between(before, after, None),
        (Err(error), _) | (_, Err(error)) => {
            unknown.push(error.to_string());
            Default::default()
        }
    };
    seen(d, cpus.len(), &watches, noise, unknown)
}

/// From which gap on a clock whose call costs so many nanoseconds shows an interruption: one that is itself slow would
/// show them everywhere.
fn gap_ns(call_cost_ns: f64) -> u64 {
    GAP_NS.max((20.0 * call_cost_ns) as u64)
}

/// What was seen for `d`, of so many CPUs.
fn seen(d: Duration, cpus: usize, watches: &[Watch], noise: Noise, mut unknown: Vec<String>) -> NoiseProbe {
    if watches.len() < cpus {
        let missing = cpus - watches.len();
        unknown.push(format!("{missing} of {cpus} CPUs could not be watched"));
    }
    let watched_ns: u64 = watches.iter().map(|watch| watch.watched_ns).sum();
    let lost_ns: u64 = watches.iter().map(|watch| watch.lost_ns).sum();
    NoiseProbe {
        duration: d,
        cpus: watches.len(),
        longest_gap_ns: watches
            .iter()
            .map(|watch| watch.longest_gap_ns)
            .max()
            .unwrap_or(0),
        lost_share: if watched_ns > 0 {
            lost_ns as f64 / watched_ns as f64
        } else {
            0.0
        },
        interruptions: watches.iter().map(|watch| watch.gaps).sum(),
        long_interruptions: watches.iter().map(|watch| watch.long_gaps).sum(),
        steal_share: noise.steal_share,
        foreign_cpus: noise.foreign_cpus,
        pressure_share: noise.pressure_share,
        throttled: noise.throttled,
        unknown,
    }
}

/// What one CPU's busy loop saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Watch {
    watched_ns: u64,
    longest_gap_ns: u64,
    lost_ns: u64,
    gaps: u64,
    long_gaps: u64,
}

impl Watch {
    fn see(&mut self, gap_ns: u64, threshold_ns: u64) {
        self.watched_ns += gap_ns;
        if gap_ns > threshold_ns {
            self.gaps += 1;
            self.long_gaps += u64::from(gap_ns > 1_000_000);
            self.lost_ns += gap_ns;
            self.longest_gap_ns = self.longest_gap_ns.max(gap_ns);
        }
    }
}

/// One thread a CPU; a CPU whose thread cannot be started or pinned is left out.
fn watch_all(cpus: &CpuList, d: Duration, gap_ns: u64) -> Vec<Watch> {
    std::thread::scope(|scope| {
        let watch = |cpu| {
            let start = move || pin_thread(&CpuList::new([cpu])).ok().map(|()| watch(d, gap_ns));
            std::thread::Builder::new()
                .name(format!("probe-{cpu}"))
                .spawn_scoped(scope, start)
                .ok()
        };
        let threads: Vec<_> = cpus.iter().filter_map(watch).collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok().flatten())
            .collect()
    })
}

fn watch(d: Duration, threshold_ns: u64) -> Watch {
    let mut seen = Watch::default();
    let mut last = monotonic_ns();
    let end = last.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
    while last < end {
        let now = monotonic_ns();
        seen.see(now - last, threshold_ns);
        last = now;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gaps_above_the_threshold_are_interruptions() {
        let mut seen = Watch::default();
        for gap in [50, 10_000, 10_001, 1_000_000, 2_000_000, 3_000_000, 50] {
            seen.see(gap, 10_000);
        }
        assert_eq!(
            (seen.gaps, seen.long_gaps, seen.longest_gap_ns),
            (4, 2, 3_000_000)
        );
        assert_eq!((seen.lost_ns, seen.watched_ns), (6_010_001, 6_020_101));
    }

    #[test]
    fn a_slow_clock_has_a_larger_threshold() {
        assert_eq!([30.0, 500.0, 501.0].map(gap_ns), [10_000, 10_000, 10_020]);
    }

    #[test]
    fn the_time_lost_is_a_share_of_what_all_cpus_were_watched_and_a_missing_cpu_is_said() {
        let watch = |watched_ns, lost_ns| Watch {
            watched_ns,
            lost_ns,
            longest_gap_ns: lost_ns,
            gaps: 2,
            long_gaps: 1,
        };
        let of = |cpus, watches: &[Watch]| seen(Duration::ZERO, cpus, watches, Noise::default(), Vec::new());
        let two = of(2, &[watch(300, 30), watch(100, 70)]);
        assert_eq!((two.cpus, two.lost_share, two.longest_gap_ns), (2, 0.25, 70));
        assert_eq!((two.interruptions, two.long_interruptions), (4, 2));
        assert_eq!(two.unknown, [""; 0]);
        assert_eq!(
            of(3, &[watch(1, 1)]).unknown,
            ["2 of 3 CPUs could not be watched"]
        );
        let none = of(0, &[]);
        assert_eq!((none.cpus, none.lost_share), (0, 0.0));
    }

    #[test]
    fn a_watch_lasts_as_long_as_asked_and_sees_all_of_it() {
        let asked = Duration::from_millis(2);
        let before = monotonic_ns();
        let seen = watch(asked, u64::MAX);
        let whole = Duration::from_nanos(monotonic_ns() - before);
        let watched = Duration::from_nanos(seen.watched_ns);
        assert!(asked <= watched && watched <= whole, "{watched:?} of {whole:?}");
    }

    #[test]
    fn every_allowed_cpu_is_watched_for_the_time_asked() {
        let probe = noise_probe(Duration::from_millis(30));
        assert_eq!(probe.cpus, allowed_cpus().unwrap().len());
        assert!(
            (0.0..=1.0).contains(&probe.lost_share) && probe.unknown.is_empty(),
            "{probe:?}"
        );
    }
}
