//! The machine's load beside the latest tries: by it a try is judged, and whether repeating helps.

use std::collections::VecDeque;
use std::time::Duration;

use threadgauge_machine::{CpuList, Noise, Reading, noise_between};

/// A try at least this long is judged by the load while it ran.
const LONG: Duration = Duration::from_secs(1);
/// A shorter try is judged by the load in the time of this length that ends with it: `/proc/stat` counts in steps of
/// 10 ms, which are too coarse for the try alone.
pub(super) const WINDOW: Duration = Duration::from_secs(2);
/// If half of this many latest tries were disturbed, the machine is loaded throughout. Repeating does not help then.
const RECENT: usize = 20;

/// The machine's recent load.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// Readings of its counters, oldest first, over at least [`WINDOW`].
    readings: VecDeque<Reading>,
    /// Whether each of the last [`RECENT`] tries was disturbed.
    disturbed: VecDeque<bool>,
}

impl Surroundings {
    /// The load beside a worker that ran from `before` to `after`, by which its try is judged.
    pub(super) fn noise(&mut self, before: Reading, after: &Reading, cpus: &CpuList) -> Noise {
        let own = noise_between(&before, after, Some(cpus));
        self.readings.push_back(before);
        let reach = |earlier: &Reading| Duration::from_nanos(after.at_ns.saturating_sub(earlier.at_ns));
        while self.readings.len() > 1 && reach(&self.readings[1]) >= WINDOW {
            self.readings.pop_front();
        }
        if own.wall >= LONG {
            return own;
        }
        Noise {
            throttled: own.throttled,
            suspended: own.suspended,
            ..noise_between(&self.readings[0], after, Some(cpus))
        }
    }

    pub(super) fn note(&mut self, disturbed: bool) {
        self.disturbed.push_back(disturbed);
        if self.disturbed.len() > RECENT {
            self.disturbed.pop_front();
        }
    }

    /// Whether the machine is loaded throughout, so that repeating does not help.
    pub(super) fn is_loaded(&self) -> bool {
        2 * self.disturbed.iter().filter(|disturbed| **disturbed).count() >= RECENT
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_machine::CpuTimes;

    use super::*;

    /// After so many tenths of a second, of which so many were busy on one CPU, and throttled for as many ms.
    fn reading(at: u64, busy: u64, throttled_ms: u64) -> Reading {
        Reading {
            at_ns: at * 100_000_000,
            cpus: vec![CpuTimes {
                cpu: 0,
                user: busy * 10,
                idle: (at - busy) * 10,
                ..CpuTimes::default()
            }],
            ticks_per_second: 100,
            throttled_ns: Some(throttled_ms * 1_000_000),
            suspended_ns: throttled_ms * 1_000_000,
            ..Reading::default()
        }
    }

    fn cpus() -> CpuList {
        CpuList::new([0])
    }

    #[test]
    fn a_long_try_is_judged_by_itself_and_a_short_one_by_the_two_seconds_that_end_with_it() {
        let mut surroundings = Surroundings::default();
        let mut noise = |before: Reading, after: &Reading| surroundings.noise(before, after, &cpus());
        // A second, all of it busy.
        let long = noise(reading(0, 0, 0), &reading(10, 10, 0));
        assert_eq!((long.wall, long.foreign_cpus), (Duration::from_secs(1), 1.0));
        // A tenth without load: of the last 1.2 seconds ten twelfths are.
        let short = noise(reading(11, 10, 0), &reading(12, 10, 0));
        assert_eq!(short.wall, Duration::from_millis(1_200));
        assert!((short.foreign_cpus - 10.0 / 12.0).abs() < 1e-9, "{short:?}");
        // What is longer ago than two seconds counts no more; what reaches that far does.
        let later = noise(reading(30, 10, 0), &reading(31, 10, 0));
        assert_eq!((later.wall, later.foreign_cpus), (Duration::from_secs(2), 0.0));
        let last = noise(reading(33, 10, 0), &reading(34, 10, 0));
        assert_eq!(last.wall, Duration::from_millis(2_300));
        // A second alone is long, also beside earlier ones.
        let alone = noise(reading(35, 10, 0), &reading(45, 10, 0));
        assert_eq!(alone.wall, Duration::from_secs(1));
    }

    #[test]
    fn what_stopped_a_short_try_is_its_own() {
        let mut surroundings = Surroundings::default();
        let mut noise = |before: Reading, after: &Reading| surroundings.noise(before, after, &cpus());
        let first = noise(reading(0, 0, 0), &reading(1, 0, 50));
        let stopped = Duration::from_millis(50);
        assert_eq!((first.throttled, first.suspended), (stopped, stopped));
        // Within the two seconds, but before it.
        let second = noise(reading(2, 0, 50), &reading(3, 0, 50));
        assert_eq!(
            (second.throttled, second.suspended),
            (Duration::ZERO, Duration::ZERO)
        );
    }

    #[test]
    fn the_machine_is_loaded_where_half_of_the_latest_tries_were_disturbed() {
        let mut surroundings = Surroundings::default();
        for _ in 0..RECENT / 2 {
            assert!(!surroundings.is_loaded());
            surroundings.note(true);
        }
        assert!(surroundings.is_loaded());
        // As many that were not keep the first ten among the latest; one more does not.
        for _ in 0..RECENT / 2 {
            surroundings.note(false);
            assert!(surroundings.is_loaded());
        }
        surroundings.note(false);
        assert!(!surroundings.is_loaded());
        assert_eq!(surroundings.disturbed.len(), RECENT);
    }
}
