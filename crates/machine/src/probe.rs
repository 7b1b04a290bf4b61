//! The noise probe: how long and how often a busy loop is interrupted, on every CPU at once.
//!
//! Each CPU gets a thread that does nothing but look at the clock. Where two looks lie further apart than
//! [`GAP_NS`], something else had the CPU: an interrupt, another program, the kernel, or the hypervisor.
//! Read-only: it changes nothing but its own threads' affinity.

use crate::affinity::{allowed_cpus, pin_thread};
use crate::clock::{clock_quality, monotonic_ns};
use crate::cpulist::CpuList;
use crate::noise::{Reading, noise_between};
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
    // A clock that is itself slow would show gaps everywhere.
    let gap_ns = GAP_NS.max((20.0 * clock_quality().call_cost_ns) as u64);
    let before = Reading::take();
    let watches = watch_all(&cpus, d, gap_ns);
    let after = Reading::take();
    let noise = match (&before, &after) {
        (Ok(before), Ok(after)) => noise_between(before, after, None),
        (Err(error), _) | (_, Err(error)) => {
            unknown.push(error.to_string());
            Default::default()
        }
    };
    if watches.len() < cpus.len() {
        unknown.push(format!(
            "{} of {} CPUs could not be watched",
            cpus.len() - watches.len(),
            cpus.len()
        ));
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
        for gap in [50, 10_000, 10_001, 2_000_000, 50] {
            seen.see(gap, 10_000);
        }
        assert_eq!(
            (seen.gaps, seen.long_gaps, seen.longest_gap_ns),
            (2, 1, 2_000_000)
        );
        assert_eq!((seen.lost_ns, seen.watched_ns), (2_010_001, 2_020_101));
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
