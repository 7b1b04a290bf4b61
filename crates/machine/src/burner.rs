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
//!
//! Where the thread's CPU clock moves in steps of milliseconds (gVisor's by 10 ms), neither is possible: the rate is
//! then the least by the wall clock, and a burn is as much work as that makes it.

use crate::clock::{least_call_ns, monotonic_ns, thread_cpu_ns};
use std::hint::black_box;
use std::time::Duration;

/// How long one calibration run should take. Long against a clock call (0.3 µs), short against a tick.
const RUN_NS: f64 = 200_000.0;
/// How many runs the minimum is taken of: 30 × 200 µs = 6 ms.
const RUNS: usize = 30;
/// The first run has so many iterations, and no run that looks for their number has more than so many: a clock that
/// stands still would never have enough.
const FEWEST_ITERATIONS: u64 = 1_000;
const MOST_ITERATIONS: u64 = FEWEST_ITERATIONS << 30;
/// A burn at least this long looks at the clock on its way; in a shorter one the looks would weigh too much.
const STEERED_FROM: Duration = Duration::from_micros(100);
/// A CPU clock that does not move in so much computing is too coarse for runs of 200 µs.
const COARSE_NS: u64 = 1_000_000;

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
    /// Whether the thread's CPU clock tells how far a burn is.
    is_steered: bool,
}

impl Burner {
    /// Finds the rate of the calling thread's CPU: the minimum of many short runs, about 7 ms of CPU time.
    pub fn calibrate() -> Burner {
        let is_steered = !is_coarse(thread_cpu_ns, monotonic_ns);
        let clock = if is_steered { thread_cpu_ns } else { monotonic_ns };
        let clock_ns = least_call_ns(clock);
        let burner = Burner::calibrated(|iterations| {
            let start = clock();
            Burner::burn_units(iterations);
            (clock() - start).saturating_sub(clock_ns).max(1)
        });
        Burner { is_steered, ..burner }
    }

    /// By runs of so many iterations, and what each took.
    fn calibrated(mut run_ns: impl FnMut(u64) -> u64) -> Burner {
        // Doubling first, because nothing is known: a debug build is several times slower.
        let mut iterations = FEWEST_ITERATIONS;
        let mut last_ns = run_ns(iterations);
        while (last_ns as f64) < RUN_NS / 2.0 && iterations < MOST_ITERATIONS {
            iterations *= 2;
            last_ns = run_ns(iterations);
        }
        iterations = ((iterations as f64 * RUN_NS / last_ns as f64) as u64).max(1);
        let least_ns = (0..RUNS).map(|_| run_ns(iterations)).min().unwrap_or(1);
        Burner {
            ns_per_iteration: least_ns as f64 / iterations as f64,
            is_steered: true,
        }
    }

    /// Computes for `d` of CPU time and returns the iterations done. Blocks for at least `d`: longer by what
    /// the CPU gives to others meanwhile. From 100 µs on it makes about eight system calls to look at
    /// the thread's CPU clock and is right within 1 %; a shorter burn is as right as the rate is now.
    pub fn burn(&self, d: Duration) -> u64 {
        if d < STEERED_FROM || !self.is_steered {
            let iterations = self.iterations(d);
            Burner::burn_units(iterations);
            return iterations;
        }
        self.steered(d, thread_cpu_ns, Burner::burn_units)
    }

    /// Does work until this clock has moved by `d`, and returns the iterations done.
    fn steered(&self, d: Duration, cpu_ns: impl Fn() -> u64, work: impl Fn(u64)) -> u64 {
        let wanted_ns = d.as_nanos() as f64;
        let start = cpu_ns();
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
            work(step);
            done += step;
            let now_ns = (cpu_ns() - start) as f64;
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

/// Whether this CPU clock stands still while its thread computes, by a clock of time that goes by.
fn is_coarse(cpu_ns: impl Fn() -> u64, wall_ns: impl Fn() -> u64) -> bool {
    let (used, begun) = (cpu_ns(), wall_ns());
    // The CPU clock is asked after the other: a thread that had no CPU meanwhile is no sign.
    loop {
        let is_over = wall_ns() - begun >= COARSE_NS;
        if cpu_ns() != used {
            return false;
        }
        if is_over {
            return true;
        }
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
    use std::cell::{Cell, RefCell};

    #[test]
    fn eight_times_the_iterations_take_eight_times_the_cpu_time() {
        // A chain that the compiler had shortened would take the same, or nothing.
        let cpu_ns = |iterations| {
            let start = thread_cpu_ns();
            Burner::burn_units(iterations);
            thread_cpu_ns() - start
        };
        // What a thread has used before is no part of a run.
        Burner::burn_units(5_000_000);
        let asked = Duration::from_micros(100);
        let n = Burner::calibrate().iterations(asked);
        // Interleaved, and the least of many, so that what disturbs one disturbs the other.
        let (mut once, mut eight) = (u64::MAX, u64::MAX);
        for _ in 0..100 {
            once = once.min(cpu_ns(n));
            eight = eight.min(cpu_ns(8 * n));
        }
        let ratio = eight as f64 / once as f64;
        // Wide, because a core that others share changes its rate by up to two within a millisecond.
        assert!((4.0..16.0).contains(&ratio), "ratio {ratio}");
        let of_asked = once as f64 / asked.as_nanos() as f64;
        assert!((0.25..4.0).contains(&of_asked), "{of_asked} of {asked:?}");
    }

    #[test]
    fn the_chain_depends_on_its_seed_and_its_length() {
        assert_ne!(chain(1, 1_000), chain(2, 1_000));
        assert_ne!(chain(1, 1_000), chain(1, 1_001));
        assert_eq!(chain(7, 0), 7);
        // The multiplier, turned by 23 bits, with some of them changed.
        assert_eq!(chain(1, 1), 0xA1EF_4177_92B9_6E3F);
    }

    #[test]
    fn nothing_to_burn_burns_nothing() {
        let burner = Burner {
            ns_per_iteration: 1.5,
            is_steered: true,
        };
        assert_eq!(burner.burn(Duration::ZERO), 0);
        assert_eq!(burner.error(Duration::ZERO), 0.0);
        assert_eq!(burner.iterations(Duration::from_nanos(15)), 10);
        assert_eq!(burner.ns_per_iteration(), 1.5);
    }

    #[test]
    fn the_rate_is_the_least_of_thirty_runs_of_the_same_length() {
        // Runs that take so many nanoseconds an iteration, the last of them half as many.
        let calibrated = |ns: u64| {
            let mut runs = Vec::new();
            let burner = Burner::calibrated(|iterations| {
                runs.push(iterations);
                let last =
                    runs.len() > RUNS && runs[runs.len() - RUNS..].iter().all(|run| *run == iterations);
                iterations * ns / if last { 2 } else { 1 }
            });
            (runs, burner.ns_per_iteration)
        };
        let (runs, rate) = calibrated(10);
        let doubled = [1_000, 2_000, 4_000, 8_000, 16_000];
        assert_eq!(runs, [&doubled[..], &[20_000; RUNS]].concat());
        assert_eq!(rate, 5.0);
        // Half of the length is long enough to tell it.
        let (runs, rate) = calibrated(100);
        assert_eq!(runs, [&[1_000][..], &[2_000; RUNS]].concat());
        assert_eq!(rate, 50.0);
    }

    #[test]
    fn a_clock_that_stands_still_is_not_looked_at_without_end() {
        let mut runs = Vec::new();
        Burner::calibrated(|iterations| {
            runs.push(iterations);
            1
        });
        let doubled = (0..=30).map(|doublings| 1_000 << doublings);
        assert!(runs[..runs.len() - RUNS].iter().copied().eq(doubled), "{runs:?}");
    }

    #[test]
    fn a_burn_corrects_itself_on_its_way() {
        // The steps of a burn of 100 µs at one nanosecond an iteration, where they take so many thousandths of one,
        // one after the other, and the last for ever.
        let steps = |thousandths: &[u64]| {
            let (now, steps) = (Cell::new(7), RefCell::new(Vec::new()));
            let burner = Burner {
                ns_per_iteration: 1.0,
                is_steered: true,
            };
            let work = |step| {
                let mut steps = steps.borrow_mut();
                let takes = thousandths.get(steps.len()).or(thousandths.last()).unwrap();
                now.set(now.get() + step * takes / 1_000);
                steps.push(step);
            };
            let done = burner.steered(Duration::from_micros(100), || now.get(), work);
            assert_eq!(done, steps.borrow().iter().sum::<u64>());
            steps.into_inner()
        };
        // Half of what is left each time, and the last hundredth at once.
        assert_eq!(
            steps(&[1_000]),
            [50_000, 25_000, 12_500, 6_250, 3_125, 1_562, 781, 782]
        );
        // Just a hundredth is left, at the rate found; and just as much as may be.
        assert_eq!(steps(&[1_980]), [50_000, 505]);
        assert_eq!(steps(&[1_996]), [50_000]);
        // Where it goes on at half of the speed, half of what is left takes all of it.
        assert_eq!(steps(&[1_000, 2_000]), [50_000, 25_000]);
        // A clock that does not move makes the next step four times as long, and no longer.
        assert_eq!(steps(&[0, 1_000]), [50_000, 200_000]);
    }

    #[test]
    fn a_short_burn_is_not_steered() {
        // A rate so slow that steering would find it wrong.
        let burner = Burner {
            ns_per_iteration: 1_000.0,
            is_steered: true,
        };
        assert_eq!(burner.burn(STEERED_FROM - Duration::from_nanos(1)), 100);
        assert!(burner.burn(STEERED_FROM) > 100);
        let by_rate = Burner {
            is_steered: false,
            ..burner
        };
        assert_eq!(by_rate.burn(STEERED_FROM), 100);
    }

    #[test]
    fn a_cpu_clock_is_coarse_that_stands_still_while_time_goes_by() {
        let wall = Cell::new(5);
        let passes = || {
            wall.set(wall.get() + 1_000);
            wall.get()
        };
        assert!(is_coarse(|| 7, passes));
        assert!(wall.get() >= COARSE_NS, "{}", wall.get());
        // Just before the time is over is soon enough.
        let looks = Cell::new(0_u64);
        let late = || {
            looks.set(looks.get() + 1);
            looks.get() / 900
        };
        assert!(!is_coarse(late, passes));
        assert!(!is_coarse(thread_cpu_ns, monotonic_ns));
        assert!(Burner::calibrate().is_steered);
    }

    #[test]
    fn an_error_is_what_was_used_beyond_what_was_asked() {
        let burner = Burner::calibrate();
        let asked = Duration::from_millis(2);
        burner.burn(asked);
        let before = thread_cpu_ns();
        let used = (1.0 + burner.error(asked)) * asked.as_nanos() as f64;
        let whole = (thread_cpu_ns() - before) as f64;
        assert!(
            0.99 * asked.as_nanos() as f64 <= used && used <= whole,
            "{used} of {whole}"
        );
    }
}
