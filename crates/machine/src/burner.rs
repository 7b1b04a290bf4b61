//! The calibrated burner: computing for a stated CPU time.
//!
//! A burn is a chain of integer operations each of which needs the one before, so neither the compiler
//! nor the processor can shorten or overlap it, and a neighbour on the same core hardly slows it. Its
//! rate is found against the thread's CPU clock, in the process that uses it.
//!
//! On a crowded machine the same chain takes 2 to 6 % more CPU time than its minimum, because the clock
//! counts interrupts, a cache that others emptied and a core that others share. So a long burn looks at the thread's
//! CPU clock a few times on its way and corrects itself. A fixed amount of *work* is another thing: see
//! [`Burner::burn_units`]. Neither is moved by the time that others get meanwhile.

use crate::clock::{least_call_ns, thread_cpu_ns};
use std::hint::black_box;
use std::time::Duration;

/// How long one calibration run should take. Long against a clock call (0.3 µs), short against a tick.
const RUN_NS: f64 = 200_000.0;
/// How many runs the minimum is taken of: 30 × 200 µs = 6 ms.
const RUNS: usize = 30;
/// A burn at least this long looks at the clock on its way; in a shorter one the looks would weigh too much.
const STEERED_FROM: Duration = Duration::from_micros(100);

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
        // Doubling first, because nothing is known: a debug build is several times slower.
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
    /// the CPU gives to others meanwhile. From 100 µs on it makes about eight system calls to look at
    /// the thread's CPU clock and is right within 1 %; a shorter burn is as right as the rate is now.
    pub fn burn(&self, d: Duration) -> u64 {
        if d < STEERED_FROM {
            let iterations = self.iterations(d);
            Burner::burn_units(iterations);
            return iterations;
        }
        let wanted_ns = d.as_nanos() as f64;
        let start = thread_cpu_ns();
        let (mut done, mut used_ns, mut rate) = (0_u64, 0.0, self.ns_per_iteration);
        while wanted_ns - used_ns > wanted_ns / 500.0 {
            let left_ns = wanted_ns - used_ns;
            // Half of what is left at a time, so that even a machine that suddenly runs at half its speed cannot
            // overshoot; the last hundredth at once.
            let step_ns = if left_ns > wanted_ns / 100.0 {
                left_ns / 2.0
            } else {
                left_ns
            };
            let step = ((step_ns / rate) as u64).max(1);
            Burner::burn_units(step);
            done += step;
            let now_ns = (thread_cpu_ns() - start) as f64;
            rate = ((now_ns - used_ns) / step as f64).max(self.ns_per_iteration / 4.0);
            used_ns = now_ns;
        }
        done
    }

    /// Computes for exactly this many iterations, whatever time they take: a fixed amount of work, with
    /// [`iterations`](Burner::iterations) the work that takes `d` when nothing disturbs it.
    pub fn burn_units(iterations: u64) {
        black_box(chain(black_box(0x9E37_79B9_7F4A_7C15), iterations));
    }

    /// How many iterations use `d` of CPU time when nothing disturbs them, rounded to the nearest.
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
    let mut left = iterations;
    while left > 0 {
        state = state.wrapping_mul(0xD134_2543_DE82_EF95).rotate_left(23) ^ 0x5851_F42D;
        left -= 1;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_times_the_iterations_take_eight_times_the_cpu_time() {
        // A chain that the compiler had shortened would take the same, or nothing.
        let cpu_ns = |iterations| {
            let start = thread_cpu_ns();
            Burner::burn_units(iterations);
            thread_cpu_ns() - start
        };
        let n = Burner::calibrate().iterations(Duration::from_micros(100));
        // Interleaved, and the least of many, so that what disturbs one disturbs the other.
        let (mut once, mut eight) = (u64::MAX, u64::MAX);
        for _ in 0..100 {
            once = once.min(cpu_ns(n));
            eight = eight.min(cpu_ns(8 * n));
        }
        let ratio = eight as f64 / once as f64;
        // Wide, because a core that others share changes its rate by up to two within a millisecond.
        assert!((4.0..16.0).contains(&ratio), "ratio {ratio}");
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
