//! When messages are to be sent under a fixed rate, whatever becomes of those before.

use std::time::Duration;

/// How messages follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Uniform,
    /// Independently of each other: exponential distances, as from many people.
    Poisson,
}

impl Arrivals {
    /// One distance, of this mean.
    pub(crate) fn distance(self, mean_ns: f64, dice: &mut fastrand::Rng) -> f64 {
        match self {
            Self::Uniform => mean_ns,
            // 1 − x lies in (0, 1], whose logarithm is finite.
            Self::Poisson => -mean_ns * (1.0 - dice.f64()).ln(),
        }
    }
}

/// How a load rises from nothing in a straight line, holds, and falls to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// From nothing to all of it.
    pub up: Duration,
    /// All of it; what is measured was to start within.
    pub hold: Duration,
    /// From all of it to nothing.
    pub down: Duration,
}

impl Ramp {
    /// All of it at once, for so long.
    pub const fn hold(hold: Duration) -> Self {
        Self {
            up: Duration::ZERO,
            hold,
            down: Duration::ZERO,
        }
    }

    /// In a closed loop, when one of so many clients comes: evenly while it rises.
    pub(crate) fn joins(&self, client: usize, of: usize) -> Duration {
        self.up.mul_f64(client as f64 / of as f64)
    }

    /// In a closed loop, when it asks no more: evenly while it falls. Those that come first stay longest.
    pub(crate) fn leaves(&self, client: usize, of: usize) -> Duration {
        self.up + self.hold + self.down.mul_f64((of - client) as f64 / of as f64)
    }

    /// From the beginning to the end.
    pub fn total(&self) -> Duration {
        self.up + self.hold + self.down
    }
}

/// Intended starts, in nanoseconds since the beginning.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    /// Mean distance at the full rate.
    mean_ns: f64,
    /// How long the full rate would take for what has come so far.
    at_ns: f64,
    up_ns: f64,
    /// Infinite for one without end.
    hold_ns: f64,
    down_ns: f64,
    dice: fastrand::Rng,
}

impl Schedule {
    /// So many a second without end, the first after one distance. The same seed gives the same starts.
    ///
    /// # Panics
    ///
    /// If the rate is not above 0.
    pub fn new(arrivals: Arrivals, per_second: f64, seed: u64) -> Self {
        assert!(
            per_second > 0.0 && per_second.is_finite(),
            "a rate is above 0, and {per_second} is not"
        );
        Self {
            arrivals,
            mean_ns: 1e9 / per_second,
            at_ns: 0.0,
            up_ns: 0.0,
            hold_ns: f64::INFINITY,
            down_ns: 0.0,
            dice: fastrand::Rng::with_seed(seed),
        }
    }

    /// As [`new`](Self::new), with a rate that rises, holds and falls, and then ends.
    ///
    /// # Panics
    ///
    /// If the rate is not above 0.
    pub fn ramped(arrivals: Arrivals, per_second: f64, ramp: Ramp, seed: u64) -> Self {
        Self {
            up_ns: ramp.up.as_nanos() as f64,
            hold_ns: ramp.hold.as_nanos() as f64,
            down_ns: ramp.down.as_nanos() as f64,
            ..Self::new(arrivals, per_second, seed)
        }
    }

    /// When as much has come as the full rate brings within `full_ns`: the inverse of the rate summed over time.
    fn when(&self, full_ns: f64) -> Option<f64> {
        let held = full_ns - self.up_ns / 2.0;
        if held < 0.0 {
            return Some((2.0 * full_ns * self.up_ns).sqrt());
        }
        if held < self.hold_ns {
            return Some(self.up_ns + held);
        }
        let share = 2.0 * (held - self.hold_ns) / self.down_ns;
        // Not a number, too, where nothing falls.
        (share < 1.0).then(|| self.up_ns + self.hold_ns + self.down_ns * (1.0 - (1.0 - share).sqrt()))
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.at_ns += self.arrivals.distance(self.mean_ns, &mut self.dice);
        self.when(self.at_ns).map(|at_ns| at_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_arrivals_are_at_equal_distances() {
        let starts: Vec<u64> = Schedule::new(Arrivals::Uniform, 1e6, 1).take(3).collect();
        assert_eq!(starts, [1_000, 2_000, 3_000]);
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_vary() {
        let starts: Vec<u64> = Schedule::new(Arrivals::Poisson, 1e6, 7).take(100_000).collect();
        assert!(starts.is_sorted());
        let mean_ns = starts[starts.len() - 1] as f64 / starts.len() as f64;
        assert!((mean_ns - 1_000.0).abs() < 20.0, "{mean_ns}");
        // Of exponential distances, e⁻² are over twice the mean.
        let long = starts.windows(2).filter(|pair| pair[1] - pair[0] > 2_000).count();
        assert!((12_500..14_500).contains(&long), "{long}");
    }

    #[test]
    fn a_rate_rises_holds_and_falls() {
        let ramp = Ramp {
            up: Duration::from_secs(2),
            hold: Duration::from_secs(3),
            down: Duration::from_secs(4),
        };
        let starts: Vec<u64> = Schedule::ramped(Arrivals::Uniform, 1_000.0, ramp, 1).collect();
        // Half of the full rate while it rises and falls.
        assert!((5_998..=6_000).contains(&starts.len()), "{}", starts.len());
        assert!(starts.is_sorted());
        let within = |from_s: f64, to_s: f64| {
            let span = (from_s * 1e9) as u64..(to_s * 1e9) as u64;
            starts.iter().filter(|at_ns| span.contains(at_ns)).count()
        };
        let expected = [
            ((0.0, 1.0), 250),
            ((1.0, 2.0), 750),
            ((2.0, 5.0), 3_000),
            ((5.0, 7.0), 1_500),
            ((7.0, 9.0), 500),
        ];
        for ((from_s, to_s), count) in expected {
            assert!(
                within(from_s, to_s).abs_diff(count) <= 2,
                "from {from_s} to {to_s}"
            );
        }
        assert!(starts.last().is_some_and(|&at_ns| at_ns < 9_000_000_000));
    }

    #[test]
    fn in_a_closed_loop_clients_come_and_go_evenly_and_the_first_stays_longest() {
        let seconds = Duration::from_secs;
        let ramp = Ramp {
            up: seconds(4),
            hold: seconds(10),
            down: seconds(8),
        };
        let stays = [0, 1, 2, 3].map(|client| (ramp.joins(client, 4), ramp.leaves(client, 4)));
        let expected = [(0, 22), (1, 20), (2, 18), (3, 16)];
        assert_eq!(stays, expected.map(|(from, to)| (seconds(from), seconds(to))));
        assert_eq!(ramp.total(), seconds(22));
    }

    #[test]
    fn what_neither_rises_nor_falls_ends_with_its_hold() {
        let ramp = Ramp::hold(Duration::from_secs(1));
        let starts: Vec<u64> = Schedule::ramped(Arrivals::Uniform, 10.0, ramp, 1).collect();
        assert_eq!(starts.len(), 9, "the tenth falls on the end");
    }
}
