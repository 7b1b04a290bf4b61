//! When messages are to be sent under a fixed rate, whatever becomes of those before.

/// How messages follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Uniform,
    /// Independently of each other: exponential distances, as from many people.
    Poisson,
}

/// Intended starts, in nanoseconds since the beginning, without end.
#[derive(Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    /// Mean distance.
    mean_ns: f64,
    at_ns: f64,
    dice: fastrand::Rng,
}

impl Schedule {
    /// So many a second, the first after one distance. The same seed gives the same starts.
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
            dice: fastrand::Rng::with_seed(seed),
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.at_ns += match self.arrivals {
            Arrivals::Uniform => self.mean_ns,
            // 1 − x lies in (0, 1], whose logarithm is finite.
            Arrivals::Poisson => -self.mean_ns * (1.0 - self.dice.f64()).ln(),
        };
        Some(self.at_ns as u64)
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
}
