//! The calibrated burner: computing for a stated CPU time.
//!
//! A burn is a chain of integer operations each of which needs the one before, so neither the compiler
//! nor the processor can shorten or overlap it, and a neighbour on the same core hardly slows it. Its
//! rate is found against the thread's CPU clock, in the process that uses it. Looking at a clock while
//! burning would be the option not taken: on a crowded machine it would count the time of others.

use crate::clock::{least_call_ns, thread_cpu_ns};
use std::hint::black_box;
use std::time::Duration;

/// How long one calibration run should take. Long against a clock call (0.3 µs), short against a tick.
const RUN_NS: f64 = 200_000.0;
/// How many runs the minimum is taken of: 30 × 200 µs = 6 ms.
const RUNS: usize = 30;

/// Computes for a stated CPU time, within 1 %.
///
/// ```
/// use std::time::Duration;
/// use threadgauge_machine::Burner;
/// let burner = Burner::calibrate();
/// let iterations = burner.burn(Duration::from_micros(100));
/// assert!(iterations > 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burner {
    ns_per_iteration: f64,
}

impl Burner {
    /// Finds the rate of the calling thread's CPU: the minimum of many short runs, about 7 ms of CPU time.
    pub fn calibrate() -> Burner {
        let clock_ns = least_call_ns(thread_cpu_ns);
        let run_ns = |iterations: u64| {
            let start = thread_cpu_ns();
            Burner::burn_units(iterations);
            (thread_cpu_ns() - start).saturating_sub(clock_ns).max(1)
        };
        // Doubling first, because nothing is known: a debug build is fifty times slower.
        let mut iterations = 1_000;
        let mut last_ns = run_ns(iterations);
        while (last_ns as f64) < RUN_NS / 2.0 && iterations < 1 << 40 {
            iterations *= 2;
            last_ns = run_ns(iterations);
        }
        iterations = ((iterations as f64 * RUN_NS / last_ns as f64) as u64).max(1);
        let least_ns = (0..RUNS).map(|_| run_ns(iterations)).min().unwrap_or(1);
        Burner {
            ns_per_iteration: least_ns as f64 / iterations as f64,
        }
    }

    /// Computes for `d` of CPU time and returns the iterations done. Blocks for at least `d`: longer by what
    /// the CPU gives to others meanwhile.
    pub fn burn(&self, d: Duration) -> u64 {
        let iterations = self.iterations(d);
        Burner::burn_units(iterations);
        iterations
    }

    /// Computes for exactly this many iterations, whatever time they take.
    pub fn burn_units(iterations: u64) {
        black_box(chain(black_box(0x9E37_79B9_7F4A_7C15), iterations));
    }

    /// How many iterations use `d` of CPU time, rounded to the nearest.
    pub fn iterations(&self, d: Duration) -> u64 {
        (d.as_nanos() as f64 / self.ns_per_iteration).round() as u64
    }

    /// The relative error of one burn of `d` against the thread's CPU clock: 0.01 is 1 % too much, -0.01
    /// is 1 % too little. Burns `d`. Zero for a `d` of zero.
    pub fn error(&self, d: Duration) -> f64 {
        if d.is_zero() {
            return 0.0;
        }
        let clock_ns = least_call_ns(thread_cpu_ns);
        let start = thread_cpu_ns();
        self.burn(d);
        let used_ns = (thread_cpu_ns() - start).saturating_sub(clock_ns);
        used_ns as f64 / d.as_nanos() as f64 - 1.0
    }

    /// The calibrated rate, in nanoseconds of CPU time an iteration.
    pub fn ns_per_iteration(&self) -> f64 {
        self.ns_per_iteration
    }
}

/// A multiplication and a rotation, each waiting for the last: about four cycles an iteration. The multiplier
/// is odd, so the chain never collapses to zero; the rotation keeps a compiler from folding a power.
#[inline(never)]
fn chain(mut state: u64, iterations: u64) -> u64 {
    for _ in 0..iterations {
        state = state.wrapping_mul(0xD134_2543_DE82_EF95).rotate_left(23) ^ 0x5851_F42D;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The median of an odd number of ratios: single ones are disturbed by interrupts.
    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    #[test]
    fn twice_the_iterations_take_twice_the_cpu_time() {
        let cpu_ns = |iterations| {
            let start = thread_cpu_ns();
            Burner::burn_units(iterations);
            (thread_cpu_ns() - start) as f64
        };
        let n = Burner::calibrate().iterations(Duration::from_millis(2));
        let ratio = median((0..11).map(|_| cpu_ns(2 * n) / cpu_ns(n)).collect());
        assert!((1.9..2.1).contains(&ratio), "ratio {ratio}");
    }

    #[test]
    fn the_chain_depends_on_its_seed_and_its_length() {
        assert_ne!(chain(1, 1_000), chain(2, 1_000));
        assert_ne!(chain(1, 1_000), chain(1, 1_001));
        assert_eq!(chain(7, 0), 7);
    }

    #[test]
    fn nothing_to_burn_burns_nothing() {
        let burner = Burner {
            ns_per_iteration: 1.5,
        };
        assert_eq!(burner.burn(Duration::ZERO), 0);
        assert_eq!(burner.error(Duration::ZERO), 0.0);
        assert_eq!(burner.iterations(Duration::from_nanos(15)), 10);
    }
}
