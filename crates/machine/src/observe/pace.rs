//! How often a program may be looked at, so that looking costs less than a hundredth of a CPU.
//!
//! A look reads what the kernel counts of every thread; between two of them, passes see in which state those threads
//! are that do something. What either costs depends on the machine and on the number of threads, so it is measured as
//! it goes on, and the time between two of them follows from that.

use std::time::Duration;

/// The most of a CPU that observing may take.
pub const MOST_OWN_SHARE: f64 = 0.01;
/// What is aimed at: the rest is for what comes once, such as opening files.
const AIM: f64 = 0.008;
/// The least time between two passes, so that a program of a few threads is not looked at all the time.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// How much a new cost counts beside those before.
const NEW: f64 = 0.3;

/// What looks and passes cost here, smoothed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Pace {
    look_ns: Option<f64>,
    pass_ns: Option<f64>,
}

impl Pace {
    /// A look took so much CPU time.
    pub(super) fn looked(&mut self, took_ns: u64) {
        self.look_ns = Some(smoothed(self.look_ns, took_ns));
    }

    /// A pass did.
    pub(super) fn passed(&mut self, took_ns: u64) {
        self.pass_ns = Some(smoothed(self.pass_ns, took_ns));
    }

    /// The least time between two looks, at which they take no more than is aimed at.
    pub(super) fn least_interval(&self) -> Duration {
        of_ns(self.look_ns.unwrap_or(0.0) / AIM)
    }

    /// The time between two passes, where a look comes after each `interval`. As long as that where passes are more
    /// than there is CPU time for.
    pub(super) fn between_passes(&self, interval: Duration) -> Duration {
        let looks = self.look_ns.unwrap_or(0.0) / (interval.as_nanos().max(1) as f64);
        let left = AIM - looks;
        if left <= 0.0 {
            return interval;
        }
        let pause = of_ns(self.pass_ns.unwrap_or(0.0) / left);
        pause.max(LEAST_PAUSE).min(interval)
    }
}

fn smoothed(before: Option<f64>, new_ns: u64) -> f64 {
    let new = new_ns as f64;
    before.map_or(new, |before| before + NEW * (new - before))
}

fn of_ns(ns: f64) -> Duration {
    Duration::from_nanos(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace(look_us: u64, pass_us: u64) -> Pace {
        let mut pace = Pace::default();
        pace.looked(look_us * 1_000);
        pace.passed(pass_us * 1_000);
        pace
    }

    #[test]
    fn a_few_threads_are_looked_at_as_often_as_makes_sense() {
        assert_eq!(Pace::default().between_passes(SECOND), LEAST_PAUSE);
        assert_eq!(pace(50, 20).between_passes(SECOND), LEAST_PAUSE);
        assert_eq!(Pace::default().least_interval(), Duration::ZERO);
    }

    #[test]
    fn many_threads_have_fewer_passes_and_very_many_none_between_looks() {
        // Looks take 0.6 % of a CPU: 0.2 % are left for passes, of 1 ms one in half a second.
        let pause = pace(6_000, 1_000).between_passes(SECOND);
        assert!((pause.as_secs_f64() - 0.5).abs() < 1e-3, "{pause:?}");
        assert_eq!(pace(9_000, 1_000).between_passes(SECOND), SECOND);
        let least = pace(16_000, 0).least_interval();
        assert!((least.as_secs_f64() - 2.0).abs() < 1e-3, "{least:?}");
    }

    #[test]
    fn one_that_took_long_counts_in_part() {
        let mut pace = pace(1_000, 1_000);
        pace.looked(2_000_000);
        assert_eq!(pace.look_ns, Some(1_300_000.0));
    }

    proptest! {
        #[test]
        fn looks_and_passes_together_stay_below_the_most(look_us in 0_u64..7_900, pass_us in 0_u64..100_000) {
            let pace = pace(look_us, pass_us);
            let pause = pace.between_passes(SECOND);
            prop_assert!(pause <= SECOND && pause >= LEAST_PAUSE);
            let share = (look_us as f64 + pass_us as f64 / pause.as_secs_f64()) / 1e6;
            // Where not even one pass a look fits, the command looks less often.
            prop_assert!(share <= MOST_OWN_SHARE || pause == SECOND, "{share}");
        }
    }
}
