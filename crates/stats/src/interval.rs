//! The interval, and the one that needs no assumption: the sign interval of a median.
//!
//! Whatever the distribution, each value lies below the median with probability one half. So the
//! j-th smallest and j-th largest values bracket it with a probability read off the binomial
//! distribution, exactly. No normality, no symmetry, no bootstrap.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

use crate::select::sorted;

/// How many standard deviations an interval of this level reaches to either side, of normal values.
pub(crate) fn two_sided(level: f64) -> f64 {
    Normal::standard().inverse_cdf(f64::midpoint(1.0, level))
}

/// A confidence interval, both ends included.
///
/// The unit is that of what it brackets: the samples' own, or none for a ratio.
///
/// ```
/// use threadgauge_stats::Interval;
///
/// let ci = Interval { low: 0.98, high: 1.02, level: 0.984375 };
/// assert!(ci.contains(1.0));
/// assert!((ci.half_width() - 0.02).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The confidence level it has, which is at least the one asked for: 0.984375, not 0.95, for
    /// the median of seven. Exact where an exact distribution was used.
    pub level: f64,
}

impl Interval {
    /// Half of the distance between the ends, in their unit.
    ///
    /// ```
    /// # use threadgauge_stats::Interval;
    /// assert_eq!(Interval { low: 1.0, high: 4.0, level: 0.95 }.half_width(), 1.5);
    /// ```
    #[must_use]
    pub fn half_width(&self) -> f64 {
        self.high * 0.5 - self.low * 0.5
    }

    /// The half-width as a share of `estimate` (no unit), which is what a stopping rule looks at.
    /// `None` when the estimate is 0 or not a finite number.
    ///
    /// ```
    /// # use threadgauge_stats::Interval;
    /// let ci = Interval { low: 98.0, high: 102.0, level: 0.95 };
    /// assert_eq!(ci.relative_half_width(100.0), Some(0.02));
    /// assert_eq!(ci.relative_half_width(0.0), None);
    /// ```
    #[must_use]
    pub fn relative_half_width(&self, estimate: f64) -> Option<f64> {
        let width = self.half_width() / estimate.abs();
        width.is_finite().then_some(width)
    }

    /// Whether `value` lies between the ends or on one. Never true of NaN.
    ///
    /// ```
    /// # use threadgauge_stats::Interval;
    /// let ci = Interval { low: 1.0, high: 2.0, level: 0.95 };
    /// assert!(ci.contains(2.0) && !ci.contains(2.1) && !ci.contains(f64::NAN));
    /// ```
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether the whole interval lies between `low` and `high`, ends included.
    ///
    /// ```
    /// # use threadgauge_stats::Interval;
    /// assert!(Interval { low: 0.99, high: 1.01, level: 0.9 }.lies_within(0.97, 1.03));
    /// ```
    #[must_use]
    pub fn lies_within(&self, low: f64, high: f64) -> bool {
        low <= self.low && self.high <= high
    }

    pub(crate) fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self {
            low: f(self.low),
            high: f(self.high),
            level: self.level,
        }
    }
}

/// An estimate with its interval.
///
/// ```
/// use threadgauge_stats::hodges_lehmann;
///
/// let shift = hodges_lehmann(&[1.0, 2.0, 3.0], 0.05)?;
/// assert_eq!((shift.estimate, shift.ci, shift.n), (2.0, None, 3)); // three values: no 95 % interval
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate itself, in the values' unit (none for a ratio).
    pub estimate: f64,
    /// Its interval; `None` where so few values cannot reach the level asked for.
    pub ci: Option<Interval>,
    /// Values it rests on: invocations or pairs; for two groups, those of the smaller one.
    pub n: usize,
}

impl Estimate {
    /// A figure that stands for itself, e.g. a published one.
    ///
    /// ```
    /// assert_eq!(threadgauge_stats::Estimate::of_one(2.0).ci, None);
    /// ```
    #[must_use]
    pub const fn of_one(figure: f64) -> Self {
        Self {
            estimate: figure,
            ci: None,
            n: 1,
        }
    }
}

/// How deep an interval may cut into `size` ordered candidates, given the cumulative distribution
/// of the counting statistic: the largest `depth` with `2·P(T <= depth - 1) <= alpha`, and the
/// level `1 - 2·P(T <= depth - 1)`. `None` if even the outermost candidates miss the level.
pub(crate) fn depth(size: usize, alpha: f64, cumulative: impl Fn(usize) -> f64) -> Option<(usize, f64)> {
    // Sums of halves are off by an ulp at most; 0.05 must still admit an exact 0.05.
    let admitted = |t: usize| 2.0 * cumulative(t) <= alpha * (1.0 + 1e-12);
    let (mut inside, mut beyond) = (0, size / 2 + 1); // depth `inside` is admitted, depth `beyond` is not
    while beyond - inside > 1 {
        let tried = inside + (beyond - inside) / 2;
        if admitted(tried - 1) {
            inside = tried;
        } else {
            beyond = tried;
        }
    }
    (inside > 0).then(|| (inside, 1.0 - 2.0 * cumulative(inside - 1)))
}

/// `P(Bin(n, 1/2) <= k)`.
fn fair_coin(n: usize, k: usize) -> f64 {
    if k >= n {
        return 1.0;
    }
    if n <= 1000 {
        // 2^-1000 is still a normal number, and the sum is exact while n <= 53.
        let mut term = 0.5_f64.powi(n as i32);
        let mut sum = term;
        for i in 1..=k {
            term *= (n - i + 1) as f64 / i as f64;
            sum += term;
        }
        return sum.min(1.0);
    }
    Binomial::new(0.5, n as u64).map_or(f64::NAN, |coin| coin.cdf(k as u64))
}

/// The exact interval of a median, `[x(j), x(n+1-j)]`, in the values' unit.
///
/// *j* is the largest with `2·P(Bin(n, ½) <= j-1) <= alpha`. Valid for any distribution;
/// conservative when values are tied. `None` when the level cannot be reached (n < 6 at 0.05), and
/// when a value is not finite or `alpha` is not in (0, 1).
///
/// Source: Conover, *Practical Nonparametric Statistics* (1999), section 3.2; METHOD rule 4.
///
/// ```
/// use threadgauge_stats::sign_interval;
///
/// let ci = sign_interval(&[5.0, 1.0, 4.0, 2.0, 7.0, 3.0, 6.0], 0.05).unwrap();
/// assert_eq!((ci.low, ci.high, ci.level), (1.0, 7.0, 0.984375));
/// assert_eq!(sign_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.05), None);
/// ```
#[must_use]
pub fn sign_interval(values: &[f64], alpha: f64) -> Option<Interval> {
    crate::error::finite(values)
        .and_then(|()| crate::error::rate(alpha))
        .ok()?;
    sign_interval_of_sorted(&sorted(values), alpha)
}

/// [`sign_interval`] of values known to be finite and sorted.
pub(crate) fn sign_interval_of_sorted(sorted: &[f64], alpha: f64) -> Option<Interval> {
    let n = sorted.len();
    let (j, level) = depth(n, alpha, |k| fair_coin(n, k))?;
    Some(Interval {
        low: sorted[j - 1],
        high: sorted[n - j],
        level,
    })
}

/// The exact two-sided p value of "the median is `bound`" (no unit).
///
/// A value equal to the bound counts for both sides, that is, against a finding; so the p value is
/// at most alpha exactly when [`sign_interval`] leaves the bound out. No values give 1: nothing is
/// known. A value or bound that is not a number gives NaN, which is below no threshold.
///
/// Source: Conover (1999), section 3.4, with ties counted conservatively.
///
/// ```
/// use threadgauge_stats::sign_test;
///
/// let seven_above = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
/// assert_eq!(sign_test(&seven_above, 0.0), 0.015625); // 2 / 2^7
/// assert_eq!(sign_test(&seven_above, 4.0), 1.0);
/// ```
#[must_use]
pub fn sign_test(values: &[f64], bound: f64) -> f64 {
    if bound.is_nan() || values.iter().any(|v| v.is_nan()) {
        return f64::NAN;
    }
    let at_most = values.iter().filter(|v| **v <= bound).count();
    let at_least = values.iter().filter(|v| **v >= bound).count();
    (2.0 * fair_coin(values.len(), at_most.min(at_least))).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_interval_has_its_half_width_and_knows_what_lies_within() {
        let ci = Interval {
            low: 96.0,
            high: 104.0,
            level: 0.95,
        };
        assert_eq!(ci.half_width(), 4.0);
        assert_eq!(ci.relative_half_width(-50.0), Some(0.08));
        assert_eq!(ci.relative_half_width(0.0), None);
        assert!(ci.lies_within(96.0, 104.0) && ci.lies_within(95.0, 105.0));
        assert!(!ci.lies_within(96.1, 105.0) && !ci.lies_within(95.0, 103.9));
        assert!(!ci.lies_within(97.0, 103.0));
        // The table in every textbook.
        assert!((two_sided(0.95) - 1.959_964).abs() < 1e-6 && (two_sided(0.9) - 1.644_854).abs() < 1e-6);
    }

    #[test]
    fn an_interval_cuts_as_deep_as_the_level_admits_and_no_further() {
        // Of the ends of ten candidates, a hundredth each.
        let hundredths = |t: usize| 0.01 * (t + 1) as f64;
        for (alpha, expected) in [
            (0.019, None),
            (0.02, Some(1)),
            (0.05, Some(2)),
            (0.06, Some(3)),
            (0.9, Some(5)),
        ] {
            let found = depth(10, alpha, hundredths);
            assert_eq!(found.map(|(depth, _)| depth), expected, "{alpha}");
            if let Some((depth, level)) = found {
                assert!((level - (1.0 - 0.02 * depth as f64)).abs() < 1e-12);
            }
        }
        // Off by an ulp is not off; by more it is.
        assert_eq!(
            depth(10, 0.02 * (1.0 - 1e-13), hundredths).map(|of| of.0),
            Some(1)
        );
        assert_eq!(depth(10, 0.02 * (1.0 - 1e-11), hundredths), None);
        assert_eq!(depth(1, 0.5, hundredths), None);
    }

    fn ranks(n: usize) -> Vec<f64> {
        (1..=n).map(|i| i as f64).collect()
    }

    /// Conover (1999), table A3, and David & Nagaraja, *Order Statistics*, table 7.1.
    #[test]
    fn the_interval_is_the_published_one() {
        for (n, j, level) in [
            (6, 1, 0.968_75),
            (7, 1, 0.984_375),
            (8, 1, 0.992_187_5),
            (9, 2, 0.960_937_5),
            (10, 2, 0.978_515_625),
            (15, 4, 0.964_843_75),
            (20, 6, 0.958_610_534_667_968_8),
            (30, 10, 0.957_226_0),
            (40, 14, 0.961_522_0),
        ] {
            let ci = sign_interval(&ranks(n), 0.05).expect("n >= 6");
            assert_eq!((ci.low, ci.high), (j as f64, (n + 1 - j) as f64), "n = {n}");
            assert!((ci.level - level).abs() < 5e-6, "n = {n}: {}", ci.level);
        }
    }

    #[test]
    fn fewer_than_six_values_have_no_interval() {
        for n in 0..6 {
            assert_eq!(sign_interval(&ranks(n), 0.05), None);
        }
        assert!(sign_interval(&ranks(5), 0.1).is_some());
        assert_eq!(
            sign_interval(&[1.0, 2.0, 3.0, f64::NAN, 5.0, 6.0, 7.0], 0.05),
            None
        );
    }

    #[test]
    fn constant_values_have_an_interval_of_width_nought() {
        let ci = sign_interval(&[3.0; 7], 0.05).expect("n >= 6");
        assert_eq!((ci.low, ci.high), (3.0, 3.0));
    }

    #[test]
    fn the_sum_and_the_incomplete_beta_function_meet() {
        let coin = Binomial::new(0.5, 1000).expect("a fair coin");
        for k in [400, 460, 469, 500, 530] {
            assert!((fair_coin(1000, k) - coin.cdf(k as u64)).abs() < 1e-9);
        }
        let ci = sign_interval(&ranks(10_000), 0.05).expect("many");
        assert!((ci.level - 0.95).abs() < 2e-3 && ci.level >= 0.95);
        assert!((ci.low - 4902.0).abs() <= 1.0, "{}", ci.low); // 5000 - 1.96 · 50
    }

    #[test]
    fn what_is_not_a_number_is_below_no_threshold() {
        assert!(sign_test(&[1.0, f64::NAN], 0.0).is_nan());
        assert!(sign_test(&[1.0, 2.0], f64::NAN).is_nan());
        assert_eq!(sign_test(&[], 0.0), 1.0);
    }

    proptest! {
        /// The test and the interval are one statement said twice, ties included.
        #[test]
        fn the_interval_is_the_inverted_test(
            values in prop::collection::vec(-5_i32..5, 6..40),
            bound in -6_i32..6,
            alpha in 0.04..0.2_f64,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let bound = f64::from(bound);
            let ci = sign_interval(&values, alpha).expect("n >= 6");
            prop_assert_eq!(ci.contains(bound), sign_test(&values, bound) > alpha);
            prop_assert!(ci.level >= 1.0 - alpha - 1e-12);
        }
    }
}
