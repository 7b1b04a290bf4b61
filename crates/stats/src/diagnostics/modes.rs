//! Two figures in one: values that gather in several places.
//!
//! A median between two clusters describes no run that ever happened. A histogram of seven values
//! shows nothing, so the question is put as one of explanation: how much of the spread about the
//! median is left once the values are split in two, each part about its own median? A split of
//! uniform noise leaves one half, of rounder noise more, of two clusters next to nothing. By how
//! much chance alone falls short of one half depends on n, and was found by simulation for uniform
//! noise, which is the easiest to split of the single modes tried (normal, lognormal, exponential,
//! Laplace, Student's t).
//!
//! Options not taken: Hartigan's dip test says that there are modes but not where, and a kernel
//! estimate needs a bandwidth that seven values cannot give.
//!
//! Source: Engelman & Hartigan, *JASA* 64 (1969), with absolute deviations for squares, since noise
//! of benchmarks has long tails.

use crate::select::{middle, sorted};

/// Fewer values than this are not split.
const LEAST: usize = 6;

/// A place where values gather.
///
/// ```
/// use threadgauge_stats::diagnostics::modes;
///
/// let found = modes(&[10.0, 10.1, 20.0, 10.2, 20.2, 20.1, 9.9, 20.1]);
/// assert_eq!(found.len(), 2);
/// assert_eq!(found[0].share, 0.5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// The median of the values that gather here, in their unit.
    pub centre: f64,
    /// The share of all values that gather here, above 0 and up to 1.
    pub share: f64,
}

/// The modes of some values, ascending (METHOD rule 9). Their order does not matter.
///
/// Of series with a single mode at most 5 % are split by chance: uniform noise nearly that often,
/// bell shapes and long tails far less. A cluster is at least a fifth of the values and at least
/// two of them: one stray round is an outlier, not a mode. Two clusters of equal weight are found
/// in about half of the cases when they lie 8 standard deviations apart at n = 7, 5 at n = 20, and
/// 4 at n = 40; fewer than 6 values are never split. None for no values, or when one is not finite.
///
/// ```
/// use threadgauge_stats::diagnostics::modes;
///
/// let one = modes(&[9.7, 10.4, 10.1, 9.9, 10.0, 10.2, 9.8, 30.0]);
/// assert_eq!((one.len(), one[0].share), (1, 1.0)); // 30 is an outlier
/// ```
#[must_use]
pub fn modes(values: &[f64]) -> Vec<Mode> {
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
        return Vec::new();
    }
    let sorted = sorted(values);
    let mut parts = vec![&sorted[..]];
    let mut whole = Vec::new();
    while let Some(part) = parts.pop() {
        match split(part).as_slice() {
            [_] => whole.push(part),
            several => parts.extend(several.iter().rev()),
        }
    }
    whole
        .into_iter()
        .map(|part| Mode {
            centre: middle(part),
            share: part.len() as f64 / sorted.len() as f64,
        })
        .collect()
}

/// Splits sorted values in two, or in three where three equal clusters hide each other: then any
/// two parts explain no more than uniform noise would. A single part if there is nothing to split.
fn split(sorted: &[f64]) -> Vec<&[f64]> {
    let n = sorted.len();
    let spread = Spread::of(sorted);
    let all = spread.between(0, n);
    if n < LEAST || all <= 0.0 {
        return vec![sorted];
    }
    let least = n.div_ceil(5).max(2);
    let (first, in_two) = spread.best_cut(0, n, least);
    if in_two / all < 0.5 - chance(0.79, n) {
        return vec![&sorted[..first], &sorted[first..]];
    }
    let (_, high, in_three) = spread.best_two_cuts(n, least);
    if in_three / all < 1.0 / 3.0 - chance(0.75, n) {
        let low = spread.best_cut(0, high, least).0;
        let high = spread.best_cut(low, n, least).0;
        return vec![&sorted[..low], &sorted[low..high], &sorted[high..]];
    }
    vec![sorted]
}

/// By how much the best split of uniform noise falls short of its limit by chance. The factors make
/// the first test err in about 4 % of such series and the second in 1 %, at every n.
fn chance(factor: f64, n: usize) -> f64 {
    factor / (n as f64).sqrt()
}

/// Sums of absolute deviations of parts from their own medians, in constant time each.
struct Spread {
    /// Running sums of the sorted values, reckoned from their median so that small deviations from
    /// a large figure keep their digits.
    sums: Vec<f64>,
}

impl Spread {
    fn of(sorted: &[f64]) -> Self {
        let median = middle(sorted);
        let mut sums = Vec::with_capacity(sorted.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        for v in sorted {
            sum += v - median;
            sums.push(sum);
        }
        Self { sums }
    }

    /// Of the values from `from` to before `to`: their upper half less their lower half.
    fn between(&self, from: usize, to: usize) -> f64 {
        let half = (to - from) / 2;
        (self.sums[to] - self.sums[to - half]) - (self.sums[from + half] - self.sums[from])
    }

    /// The cut that leaves least spread, and what it leaves.
    fn best_cut(&self, from: usize, to: usize, least: usize) -> (usize, f64) {
        (from + least..=to - least)
            .map(|at| (at, self.between(from, at) + self.between(at, to)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((to, f64::INFINITY))
    }

    /// The two cuts that leave least spread, and what they leave. Every pair is tried, since
    /// cutting twice in turn may begin in the middle of a cluster; of many values, every hundredth
    /// is a candidate.
    fn best_two_cuts(&self, n: usize, least: usize) -> (usize, usize, f64) {
        let step = (n / 100).max(1);
        (least..n)
            .step_by(step)
            .flat_map(|low| {
                (low + least..=n - least)
                    .step_by(step)
                    .map(move |high| (low, high))
            })
            .map(|(low, high)| {
                (
                    low,
                    high,
                    self.between(0, low) + self.between(low, high) + self.between(high, n),
                )
            })
            .min_by(|a, b| a.2.total_cmp(&b.2))
            .unwrap_or((n, n, f64::INFINITY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_clusters_are_three_modes_in_order() {
        let values: Vec<f64> = (0..30)
            .map(|i| f64::from(i % 3) * 100.0 + f64::from(i) * 0.1)
            .collect();
        let found = modes(&values);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.is_sorted_by(|a, b| a.centre < b.centre));
        assert!(found.iter().all(|m| (m.share - 1.0 / 3.0).abs() < 1e-12));
    }

    #[test]
    fn seven_values_show_two_clear_clusters() {
        let found = modes(&[100.0, 101.0, 99.0, 100.5, 150.0, 151.0, 149.0]);
        assert_eq!(
            found.iter().map(|m| m.centre).collect::<Vec<_>>(),
            [100.25, 150.0]
        );
        let below_0 = modes(&[-100.0, -101.0, -99.0, -100.5, -150.0, -151.0, -149.0]);
        assert_eq!(
            below_0.iter().map(|m| m.centre).collect::<Vec<_>>(),
            [-150.0, -100.25]
        );
    }

    #[test]
    fn a_high_level_costs_no_digits() {
        let near: Vec<f64> = (0..40)
            .map(|i| f64::from(i % 2 * 10) + f64::from(i) * 0.125)
            .collect();
        let far: Vec<f64> = near.iter().map(|v| 2.0_f64.powi(49) + v).collect();
        let moved = |m: Mode| Mode {
            centre: 2.0_f64.powi(49) + m.centre,
            ..m
        };
        let found = modes(&near);
        assert_eq!(found.len(), 2);
        assert_eq!(modes(&far), found.into_iter().map(moved).collect::<Vec<_>>());
    }

    #[test]
    fn six_values_are_the_fewest_that_are_split() {
        assert_eq!(modes(&[1.0, 1.1, 1.2, 9.0, 9.1, 9.2]).len(), 2);
    }

    #[test]
    fn constant_few_and_broken_values_are_not_split() {
        assert_eq!(
            modes(&[2.0; 9]),
            [Mode {
                centre: 2.0,
                share: 1.0
            }]
        );
        assert_eq!(modes(&[1.0, 1.0, 9.0, 9.0, 9.0]).len(), 1);
        assert_eq!(modes(&[]), []);
        assert_eq!(modes(&[1.0, f64::NAN]), []);
    }

    #[test]
    fn one_mode_is_left_whole() {
        let uniform: fn(&mut fastrand::Rng) -> f64 = |rng| rng.f64();
        let exponential: fn(&mut fastrand::Rng) -> f64 = |rng| -(1.0 - rng.f64()).ln();
        let bell: fn(&mut fastrand::Rng) -> f64 = |rng| (0..6).map(|_| rng.f64()).sum();
        let mut rng = fastrand::Rng::with_seed(23);
        let series = 2_000;
        for n in [7, 10, 20, 40] {
            for (name, noise) in [("uniform", uniform), ("exponential", exponential), ("bell", bell)] {
                let split = (0..series)
                    .filter(|_| modes(&(0..n).map(|_| noise(&mut rng)).collect::<Vec<_>>()).len() > 1)
                    .count();
                assert!(split * 20 <= series, "{name}, n = {n}: {split} of {series} split");
            }
        }
    }
}
