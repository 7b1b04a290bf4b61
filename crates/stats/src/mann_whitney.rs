//! Unpaired values: the Hodges–Lehmann shift and the Mann–Whitney interval around it.
//!
//! Two result folders have no rounds in common, so every value of one is set against every value of
//! the other. The shift is the median of those differences, and the Mann–Whitney statistic counts
//! them on one side of a bound, so the interval is again a pair of order statistics.
//!
//! Validity: exact where the two sides differ by a shift (here: of logarithms, so by a factor) and
//! in nothing else. Ties count for both sides, which is conservative.
//!
//! Source: Hollander, Wolfe & Chicken, *Nonparametric Statistical Methods* (2014), sections
//! 4.1–4.3.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::StatsError;
use crate::error::{positive, rate};
use crate::interval::{Estimate, Interval, depth};
use crate::select::{kth, midpoint, sorted};

/// Up to this many values on both sides together the distribution is exact (its counts fit 127
/// bits); above, normal with continuity correction.
const EXACT_UP_TO: usize = 120;

/// Up to this many differences they are written down; above, counted.
const WRITTEN_UP_TO: usize = 2_048;

/// The differences `b - a` of every pair, in order, without necessarily writing them down.
pub(crate) struct Differences {
    a: Vec<f64>,
    b: Vec<f64>,
    written: Option<Vec<f64>>,
    distribution: Distribution,
}

impl Differences {
    /// Of finite values, at least one a side.
    pub(crate) fn of(a: &[f64], b: &[f64]) -> Self {
        let (a, b) = (sorted(a), sorted(b));
        let written = (a.len() * b.len() <= WRITTEN_UP_TO).then(|| {
            let mut all: Vec<f64> = a.iter().flat_map(|a| b.iter().map(move |b| b - a)).collect();
            all.sort_unstable_by(f64::total_cmp);
            all
        });
        let distribution = Distribution::of(a.len(), b.len());
        Self {
            a,
            b,
            written,
            distribution,
        }
    }

    fn len(&self) -> usize {
        self.a.len() * self.b.len()
    }

    /// The `k`-th smallest, from 1.
    fn kth(&self, k: usize) -> f64 {
        if let Some(all) = &self.written {
            return all[k - 1];
        }
        let low = self.b[0] - self.a[self.a.len() - 1];
        let high = self.b[self.b.len() - 1] - self.a[0];
        kth(low, high, k, |t| self.count(|difference| difference <= t))
    }

    /// How many differences are `below`, a predicate that is true up to some bound and false
    /// beyond.
    fn count(&self, below: impl Fn(f64) -> bool) -> usize {
        let mut end = 0; // as a grows, more of b is below
        self.a
            .iter()
            .map(|a| {
                while end < self.b.len() && below(self.b[end] - a) {
                    end += 1;
                }
                end
            })
            .sum()
    }

    /// The Hodges–Lehmann shift.
    pub(crate) fn median(&self) -> f64 {
        let len = self.len();
        if len % 2 == 1 {
            self.kth(len / 2 + 1)
        } else {
            midpoint(self.kth(len / 2), self.kth(len / 2 + 1))
        }
    }

    /// The Mann–Whitney interval; `None` where the level cannot be reached.
    pub(crate) fn interval(&self, alpha: f64) -> Option<Interval> {
        let (k, level) = depth(self.len(), alpha, |u| self.distribution.cumulative(u))?;
        Some(Interval {
            low: self.kth(k),
            high: self.kth(self.len() + 1 - k),
            level,
        })
    }

    /// Values of the smaller side.
    pub(crate) fn smaller(&self) -> usize {
        self.a.len().min(self.b.len())
    }
}

/// The distribution of the Mann–Whitney statistic.
enum Distribution {
    /// `P(U <= u)` for the lower half of the range, which is all that is asked for.
    Exact(Vec<f64>),
    Normal {
        mean: f64,
        deviation: f64,
    },
}

impl Distribution {
    fn of(n: usize, m: usize) -> Self {
        if n + m <= EXACT_UP_TO {
            return Self::Exact(exact(n, m));
        }
        let (n, m) = (n as f64, m as f64);
        Self::Normal {
            mean: n * m / 2.0,
            deviation: (n * m * (n + m + 1.0) / 12.0).sqrt(),
        }
    }

    fn cumulative(&self, u: usize) -> f64 {
        match self {
            Self::Exact(table) => table[u],
            Self::Normal { mean, deviation } => Normal::standard().cdf((u as f64 + 0.5 - mean) / deviation),
        }
    }
}

/// `P(U <= u)` for `u` up to half of `n·m`.
///
/// The counts are the coefficients of the Gaussian binomial, the product over `i` of `(1 - x^(m+i))
/// / (1 - x^i)`, multiplied out as power series. Every partial product is a Gaussian binomial
/// itself, so no count exceeds `C(n+m, n) < 2^127`.
fn exact(n: usize, m: usize) -> Vec<f64> {
    let half = n * m / 2;
    let mut ways = vec![0_i128; half + 1];
    ways[0] = 1;
    for i in 1..=n {
        for u in (m + i..=half).rev() {
            ways[u] -= ways[u - m - i];
        }
        for u in i..=half {
            ways[u] += ways[u - i];
        }
    }
    let all = (1..=n).fold(1_i128, |c, i| c * (m + i) as i128 / i as i128) as f64;
    let mut total = 0_i128;
    ways.iter()
        .map(|w| {
            total += w;
            total as f64 / all
        })
        .collect()
}

/// The ratio `b / a` of values that have no rounds in common, such as two result folders (METHOD
/// rule 5), no unit.
///
/// The shift of the logarithms is the median of all `ln b - ln a`; estimate and interval are
/// exponentiated. The interval is exact up to 120 values on both sides together, above that normal
/// with continuity correction. [`Estimate::n`] is the size of the smaller side. Swapping the sides
/// inverts the ratio.
///
/// # Errors
///
/// A side without values, a value that is not finite and above 0, or a bad `alpha`.
///
/// ```
/// use threadgauge_stats::unpaired_ratio;
///
/// let before = [10.0, 10.1, 9.9, 10.2, 9.8];
/// let after = [20.0, 20.1, 19.9, 20.2];
/// let ratio = unpaired_ratio(&before, &after, 0.05)?;
/// assert!((ratio.estimate - 2.0).abs() < 0.02 && ratio.n == 4);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn unpaired_ratio(a: &[f64], b: &[f64], alpha: f64) -> Result<Estimate, StatsError> {
    rate(alpha)?;
    let shift = log_differences(a, b)?;
    Ok(Estimate {
        estimate: shift.median().exp(),
        ci: shift.interval(alpha).map(|ci| ci.map(f64::exp)),
        n: shift.smaller(),
    })
}

/// The differences of logarithms of every pair.
pub(crate) fn log_differences(a: &[f64], b: &[f64]) -> Result<Differences, StatsError> {
    positive(a)?;
    positive(b)?;
    let logs = |side: &[f64]| side.iter().map(|v| v.ln()).collect::<Vec<_>>();
    Ok(Differences::of(&logs(a), &logs(b)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Mann–Whitney critical values, two-sided 5 %: Hollander, Wolfe & Chicken (2014), table A.6,
    /// and most textbooks.
    #[test]
    fn critical_values_are_the_published_ones() {
        for (n, m, critical) in [
            (3, 5, Some(0)),
            (4, 4, Some(0)),
            (5, 5, Some(2)),
            (7, 7, Some(8)),
            (8, 10, Some(17)),
            (10, 10, Some(23)),
            (15, 15, Some(64)),
            (20, 20, Some(127)),
            (3, 4, None),
            (1, 20, None),
        ] {
            let table = exact(n, m);
            let found = depth(n * m, 0.05, |u| table[u]).map(|(k, _)| k - 1);
            assert_eq!(found, critical, "n = {n}, m = {m}");
        }
    }

    /// The six orders of two and two values have 0, 1, 2, 2, 3 and 4 pairs in the other order.
    #[test]
    fn the_lower_half_of_the_distribution_is_counted() {
        assert_eq!(exact(2, 2), [1, 2, 4].map(|orders| f64::from(orders) / 6.0));
    }

    #[test]
    fn the_largest_exact_distribution_fits_and_meets_the_normal_one() {
        let Distribution::Exact(table) = Distribution::of(60, 60) else {
            panic!("120 values have an exact distribution")
        };
        assert!(table.is_sorted() && table[1800] > 0.5 && table[1800] < 0.51);
        let (one_more, normal) = (exact(60, 61), Distribution::of(60, 61));
        assert!(matches!(normal, Distribution::Normal { .. }));
        let worst = (0..one_more.len())
            .map(|u| (one_more[u] - normal.cumulative(u)).abs())
            .fold(0.0, f64::max);
        assert!(worst < 1e-3, "{worst}");
    }

    #[test]
    fn counting_finds_what_writing_down_finds() {
        let mut rng = fastrand::Rng::with_seed(11);
        let mut side = |n| {
            (0..n)
                .map(|_| (rng.f64() * 9.0).round() - 4.0)
                .collect::<Vec<_>>()
        };
        let written = Differences::of(&side(9), &side(14));
        let counted = Differences {
            a: written.a.clone(),
            b: written.b.clone(),
            written: None,
            distribution: Distribution::of(9, 14),
        };
        for k in 1..=written.len() {
            assert_eq!(written.kth(k), counted.kth(k), "k = {k}");
        }
    }

    #[test]
    fn few_differences_are_written_down() {
        let is_written = |n, m| Differences::of(&vec![1.0; n], &vec![2.0; m]).written.is_some();
        assert!(is_written(32, 64) && is_written(1, 2_048));
        assert!(!is_written(33, 64) && !is_written(1, 2_049));
    }

    #[test]
    fn three_against_four_have_no_interval() {
        let ratio = unpaired_ratio(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0], 0.05).expect("positive");
        assert_eq!((ratio.ci, ratio.n), (None, 3));
        assert!(matches!(
            unpaired_ratio(&[], &[1.0], 0.05),
            Err(StatsError::Empty)
        ));
        assert!(matches!(
            unpaired_ratio(&[1.0], &[0.0], 0.05),
            Err(StatsError::NotPositive { .. })
        ));
    }

    proptest! {
        #[test]
        fn swapping_the_sides_inverts_the_ratio(
            a in prop::collection::vec(0.1..1e3_f64, 1..20),
            b in prop::collection::vec(0.1..1e3_f64, 1..20),
        ) {
            let (ab, ba) = (unpaired_ratio(&a, &b, 0.05).unwrap(), unpaired_ratio(&b, &a, 0.05).unwrap());
            prop_assert!((ab.estimate * ba.estimate - 1.0).abs() < 1e-12);
            prop_assert_eq!(ab.ci.is_some(), ba.ci.is_some());
            if let (Some(x), Some(y)) = (ab.ci, ba.ci) {
                prop_assert!((x.low * y.high - 1.0).abs() < 1e-12 && (x.high * y.low - 1.0).abs() < 1e-12);
                prop_assert!(x.contains(ab.estimate));
                prop_assert!(x.level >= 0.95 - 1e-12);
            }
        }
    }
}
