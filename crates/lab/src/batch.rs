//! Timing an operation too short for the clock: many of them in a batch, batches until the figure is steady.
//!
//! Owns METHOD rules 1 and 2: how long a batch must be, which batches are warm-up, and when to give up waiting
//! for steadiness. It reads no clock itself: the caller's closure does the operations and says how long they
//! took, so the rules are tested on a simulated clock.

use std::time::Duration;

/// The clock's resolution, and the cost of reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockCost {
    /// The smallest step, ns.
    pub resolution_ns: u64,
    /// One call, ns.
    pub call_ns: u64,
}

/// The shortest batch of an operation that can be repeated, where the clock does not ask for more.
pub const SHORTEST: Duration = Duration::from_millis(10);

/// Batches dropped at least.
const WARM_UP: usize = 3;
/// Batches in each of the two windows that must agree.
const WINDOW: usize = 5;
/// By how much their medians may differ.
const AGREEMENT: f64 = 0.02;
/// The share of the budget that may be spent on batches that are dropped.
const WARM_UP_SHARE: f64 = 0.2;
/// A batch shorter than this share of the shortest allowed is made longer, while warming up.
const TOO_SHORT: f64 = 0.9;
/// A batch that is too short grows by this factor at most, since its first operations may be slow ones.
const GROWTH_LIMIT: f64 = 16.0;

impl ClockCost {
    /// How long a batch must last for the clock's own error to be under a thousandth of it, and at least
    /// [`SHORTEST`].
    #[must_use]
    pub fn shortest_batch(self) -> Duration {
        let by_clock = (1_000 * self.resolution_ns).max(2_000 * self.call_ns);
        SHORTEST.max(Duration::from_nanos(by_clock))
    }
}

/// The batches of one measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Batches {
    /// Operations in each batch.
    pub operations: u64,
    /// Batches dropped as warm-up, without those that determined the number of operations.
    pub dropped: usize,
    /// Whether the windows agreed. If not, the caller tags the sample `no-steady-state`.
    pub steady: bool,
    /// The kept batches, ns, in order.
    pub kept_ns: Vec<f64>,
}

impl Batches {
    /// The median batch divided by its number of operations.
    #[must_use]
    pub fn ns_per_operation(&self) -> f64 {
        median(&self.kept_ns) / self.operations as f64
    }

    /// The median batch, ns.
    #[must_use]
    pub fn batch_ns(&self) -> f64 {
        median(&self.kept_ns)
    }
}

/// Runs batches until `budget` is spent. `batch` does as many operations as it is told and returns how long they took,
/// ns.
///
/// First the number of operations grows until a batch lasts `shortest`. Then batches are dropped, at least 3, until two
/// adjacent windows of 5 have medians within 2 % of each other. Those ten batches are the first that are kept. When
/// dropped batches have used a fifth of the budget, all later batches are kept, steady or not.
///
/// ```
/// use std::time::Duration;
/// use threadgauge_lab::batch::measure;
///
/// // An operation of exactly 100 ns.
/// let batches = measure(Duration::from_millis(10), Duration::from_millis(300), |n| n as f64 * 100.0);
/// assert!(batches.steady && (batches.ns_per_operation() - 100.0).abs() < 1e-9);
/// ```
pub fn measure(shortest: Duration, budget: Duration, mut batch: impl FnMut(u64) -> f64) -> Batches {
    let shortest_ns = shortest.as_nanos() as f64;
    let budget_ns = budget.as_nanos() as f64;
    let (mut operations, mut spent_ns) = size(1, shortest_ns, &mut batch);
    let mut all: Vec<f64> = Vec::new();
    let mut outgrown = 0;
    let mut first = WARM_UP;
    let mut dropped_ns = 0.0;
    let mut steady = None;
    loop {
        let may_drop = dropped_ns <= WARM_UP_SHARE * budget_ns;
        // The operation has become so much faster that batches are too short: begin again with larger ones.
        if steady.is_none() && may_drop && all.last().is_some_and(|&last| last < TOO_SHORT * shortest_ns) {
            dropped_ns += all.iter().sum::<f64>();
            outgrown += all.len();
            all.clear();
            first = WARM_UP;
            let sizing_ns;
            (operations, sizing_ns) = size(operations, shortest_ns, &mut batch);
            spent_ns += sizing_ns;
        }
        if all.len() >= first + 2 * WINDOW {
            if steady.is_none() {
                if agree(&all[first..]) {
                    steady = Some(true);
                } else if dropped_ns + all[..=first].iter().sum::<f64>() > WARM_UP_SHARE * budget_ns {
                    steady = Some(false);
                } else {
                    first += 1;
                }
                continue;
            }
            if spent_ns >= budget_ns {
                break;
            }
        }
        let took_ns = batch(operations);
        spent_ns += took_ns;
        all.push(took_ns);
    }
    Batches {
        operations,
        dropped: outgrown + first,
        steady: steady == Some(true),
        kept_ns: all.split_off(first),
    }
}

/// A number of operations, from `operations` up, that takes at least `shortest_ns`; and the time spent on finding it.
fn size(mut operations: u64, shortest_ns: f64, batch: &mut impl FnMut(u64) -> f64) -> (u64, f64) {
    let mut spent_ns = 0.0;
    loop {
        let took_ns = batch(operations);
        spent_ns += took_ns;
        if took_ns >= shortest_ns || operations >= u64::MAX / 32 {
            return (operations, spent_ns);
        }
        // A tenth more than needed, so that small changes do not fall short again.
        let factor = (1.1 * shortest_ns / took_ns.max(1.0)).clamp(1.1, GROWTH_LIMIT);
        operations = (operations as f64 * factor).ceil() as u64;
    }
}

/// Whether the first two windows have the same median.
fn agree(batches: &[f64]) -> bool {
    let (earlier, later) = (median(&batches[..WINDOW]), median(&batches[WINDOW..2 * WINDOW]));
    (later - earlier).abs() < AGREEMENT * earlier
}

fn median(values: &[f64]) -> f64 {
    threadgauge_stats::median(values).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(10);
    const BUDGET: Duration = Duration::from_millis(500);

    /// Batches of an operation whose cost depends on how many batches of full size there were before.
    fn simulated(cost_ns: impl Fn(usize) -> f64) -> (Batches, usize) {
        let mut full = 0;
        let batches = measure(SHORT, BUDGET, |operations| {
            let took = operations as f64 * cost_ns(full);
            full += usize::from(took >= 0.6e7);
            took
        });
        (batches, full)
    }

    #[test]
    fn a_steady_operation_drops_three_batches_and_fills_the_budget() {
        let (batches, full) = simulated(|_| 50.0);
        assert!(batches.steady);
        assert_eq!(batches.dropped, 3);
        assert!(
            batches.kept_ns.iter().all(|ns| (1e7..1.3e7).contains(ns)),
            "{batches:?}"
        );
        assert!((batches.ns_per_operation() - 50.0).abs() < 1e-9);
        // All batches of full size are accounted for; the first of them ended the sizing.
        assert_eq!(batches.kept_ns.len() + batches.dropped + 1, full);
        let spent: f64 = batches.kept_ns.iter().sum();
        assert!(spent > 0.85 * 5e8 && spent < 5e8 + 1.3e7, "{spent}");
    }

    #[test]
    fn a_drift_that_ends_is_dropped_as_warm_up() {
        // A sixth slower at first, settled after the seventh batch.
        let (batches, _) = simulated(|n| if n < 7 { 58.0 - n as f64 } else { 50.0 });
        assert!(batches.steady);
        assert!(batches.dropped > 3, "{batches:?}");
        assert!((batches.ns_per_operation() - 50.0).abs() < 1.0, "{batches:?}");
    }

    #[test]
    fn an_operation_that_becomes_much_faster_gets_larger_batches() {
        let (batches, _) = simulated(|n| if n < 2 { 100.0 } else { 25.0 });
        assert!(batches.steady);
        assert!(batches.kept_ns.iter().all(|&ns| ns >= 0.9e7), "{batches:?}");
        assert!((batches.ns_per_operation() - 25.0).abs() < 1e-9);
    }

    #[test]
    fn what_never_settles_is_kept_after_a_fifth_of_the_budget_and_says_so() {
        // Every batch 1 % dearer than the one before: windows five apart differ by 5 %.
        let (batches, _) = simulated(|n| 50.0 * 1.01_f64.powi(i32::try_from(n).unwrap()));
        assert!(!batches.steady);
        let dropped_ns = batches.dropped as f64 * 1.1e7;
        assert!(dropped_ns <= 0.2 * 5e8 + 1.3e7, "dropped {}", batches.dropped);
        assert!(batches.kept_ns.len() >= 2 * WINDOW);
    }

    #[test]
    fn noise_around_a_level_is_steady() {
        // One batch in five is 10 % slow: medians do not care.
        let (batches, _) = simulated(|n| if n % 5 == 2 { 55.0 } else { 50.0 });
        assert!(batches.steady && batches.dropped == 3, "{batches:?}");
    }

    #[test]
    fn an_operation_longer_than_the_batch_is_timed_one_by_one() {
        let batches = measure(SHORT, Duration::ZERO, |n| n as f64 * 3e7);
        assert_eq!((batches.operations, batches.kept_ns.len()), (1, 10));
    }

    /// Batches of at least 1,000 ns. Each pair is for how many calls an operation takes so many ns; the last is for all
    /// that follow. With what every call took.
    fn scripted(budget_ns: u64, costs: &[(usize, f64)]) -> (Batches, Vec<f64>) {
        let all = costs
            .iter()
            .flat_map(|&(calls, cost)| std::iter::repeat_n(cost, calls));
        let mut costs = all.chain(std::iter::repeat(costs[costs.len() - 1].1));
        let mut took = Vec::new();
        let budget = Duration::from_nanos(budget_ns);
        let batches = measure(Duration::from_nanos(1_000), budget, |operations| {
            took.push(operations as f64 * costs.next().unwrap());
            took[took.len() - 1]
        });
        (batches, took)
    }

    #[test]
    fn a_budget_of_twenty_batches_has_twenty_with_the_one_that_ended_the_sizing() {
        let (batches, took) = scripted(20_000, &[(1, 1_000.0)]);
        assert_eq!(took, [1_000.0; 20]);
        assert_eq!((batches.dropped, batches.kept_ns.len()), (3, 16));
        assert_eq!(
            (batches.batch_ns(), batches.ns_per_operation()),
            (1_000.0, 1_000.0)
        );
        // Three operations to a batch.
        let (batches, _) = scripted(20_000, &[(1, 400.0)]);
        assert_eq!((batches.operations, batches.batch_ns()), (3, 1_200.0));
        assert_eq!(batches.ns_per_operation(), 400.0);
        // Sixteen times as many at most, then a tenth more than are needed.
        assert_eq!(scripted(20_000, &[(1, 10.0)]).0.operations, 110);
    }

    #[test]
    fn what_was_dropped_for_larger_batches_is_spent_and_counted() {
        // Sized by one call; of three batches the third is too short; two calls size anew.
        let (batches, took) = scripted(20_000, &[(3, 1_000.0), (1, 100.0)]);
        assert_eq!((batches.operations, batches.dropped), (11, 3 + 3));
        let before: f64 = [1_000.0, 1_000.0, 1_000.0, 100.0, 100.0, 1_100.0].iter().sum();
        let later = ((20_000.0 - before) / 1_100.0_f64).ceil() as usize;
        assert_eq!((took.len(), batches.kept_ns.len()), (6 + later, later - 3));
    }

    #[test]
    fn batches_become_larger_only_while_a_fifth_of_the_budget_is_not_exceeded_by_what_was_dropped() {
        // Two batches are dropped, then an operation takes half as long as the new size was made for.
        let operations = |first: f64| {
            let costs = [(1, 1_000.0), (1, first), (3, 500.0), (1, 250.0)];
            scripted(10_000, &costs).0.operations
        };
        assert_eq!([1_500.0, 1_501.0].map(operations), [5, 3]);
    }

    #[test]
    fn a_batch_of_nine_tenths_is_long_enough() {
        let operations = |cost| scripted(20_000, &[(1, 1_000.0), (1, cost)]).0.operations;
        assert_eq!([900.0, 899.0].map(operations), [1, 2]);
        // Once it is steady nothing is dropped.
        let (batches, _) = scripted(100_000, &[(14, 1_000.0), (1, 100.0)]);
        assert_eq!((batches.operations, batches.dropped), (1, 3));
    }

    #[test]
    fn warm_up_ends_where_one_more_batch_exceeds_a_fifth_of_the_budget() {
        // Ten batches after the first three differ by half; the first four take just a fifth of 20,000.
        let (batches, _) = scripted(20_000, &[(9, 1_000.0), (1, 2_000.0)]);
        assert_eq!((batches.steady, batches.dropped), (false, 4));
        let (batches, _) = scripted(19_999, &[(9, 1_000.0), (1, 2_000.0)]);
        assert_eq!((batches.steady, batches.dropped), (false, 3));
    }

    #[test]
    fn two_windows_of_five_agree_whose_medians_differ_by_less_than_a_fiftieth() {
        let agrees = |later: f64| {
            let (low, high) = (0.0, 1e9);
            agree(&[
                low, high, 100.0, high, low, high, high, later, low, low, later, later,
            ])
        };
        assert_eq!([101.9, 98.1].map(agrees), [true; 2]);
        assert_eq!([102.0, 98.0].map(agrees), [false; 2]);
    }

    #[test]
    fn the_clock_decides_where_it_is_coarse() {
        let fine = ClockCost {
            resolution_ns: 1,
            call_ns: 25,
        };
        assert_eq!(fine.shortest_batch(), SHORTEST);
        let slow = ClockCost {
            call_ns: 8_000,
            ..fine
        };
        assert_eq!(slow.shortest_batch(), Duration::from_millis(16));
        let coarse = ClockCost {
            resolution_ns: 4_000_000,
            ..fine
        };
        assert_eq!(coarse.shortest_batch(), Duration::from_secs(4));
    }
}
