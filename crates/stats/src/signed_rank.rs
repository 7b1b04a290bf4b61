//! Paired values: the Hodges–Lehmann estimate and the exact signed-rank interval around it.
//!
//! The estimate is the median of the Walsh averages, the means of every pair of values, each value
//! paired with itself too. The signed-rank statistic counts the Walsh averages on one side of a
//! centre, so the same ordered list gives estimate, interval and p value, and they never disagree.
//!
//! Validity: the level is exact where the values are symmetric about their centre. Differences of
//! two measurements whose noise is alike, which is what a paired comparison has, are symmetric
//! whatever the noise. Ties count for both sides, which makes the interval conservative (Noether,
//! *Journal of the American Statistical Association* 62, 1967).
//!
//! Source: Hollander, Wolfe & Chicken, *Nonparametric Statistical Methods* (2014), sections
//! 3.1–3.3.

use std::sync::OnceLock;

use statrs::distribution::{ContinuousCDF, Normal};

use crate::StatsError;
use crate::error::{finite, paired, positive, rate};
use crate::interval::{Estimate, Interval, depth};
use crate::select::{kth, midpoint, sorted};

/// Up to this many values the distribution is exact; above, normal with continuity correction,
/// whose tails are off by less than 0.0004 there.
const EXACT_UP_TO: usize = 60;

/// Up to this many values the Walsh averages are written down (2,080 of them); above, counted.
const WRITTEN_UP_TO: usize = 64;

/// The Walsh averages of some values, in order, without necessarily writing them down.
pub(crate) struct WalshAverages {
    /// Half of each value, sorted: a Walsh average is the sum of two of them.
    halves: Vec<f64>,
    /// All averages, sorted, where they are few.
    written: Option<Vec<f64>>,
}

impl WalshAverages {
    /// Of finite values, at least one.
    pub(crate) fn of(values: &[f64]) -> Self {
        let halves: Vec<f64> = sorted(values).iter().map(|v| v * 0.5).collect();
        let written = (halves.len() <= WRITTEN_UP_TO).then(|| {
            let mut all = Vec::with_capacity(count(halves.len()));
            for (i, a) in halves.iter().enumerate() {
                all.extend(halves[i..].iter().map(|b| a + b));
            }
            all.sort_unstable_by(f64::total_cmp);
            all
        });
        Self { halves, written }
    }

    fn len(&self) -> usize {
        count(self.halves.len())
    }

    /// The `k`-th smallest, from 1.
    fn kth(&self, k: usize) -> f64 {
        if let Some(all) = &self.written {
            return all[k - 1];
        }
        let last = self.halves.len() - 1;
        let (low, high) = (self.halves[0] * 2.0, self.halves[last] * 2.0);
        kth(low, high, k, |t| {
            count_averages(&self.halves, |average| average <= t)
        })
    }

    /// The Hodges–Lehmann estimate.
    pub(crate) fn median(&self) -> f64 {
        let len = self.len();
        if len % 2 == 1 {
            self.kth(len / 2 + 1)
        } else {
            midpoint(self.kth(len / 2), self.kth(len / 2 + 1))
        }
    }

    /// The signed-rank interval; `None` where the level cannot be reached.
    pub(crate) fn interval(&self, alpha: f64) -> Option<Interval> {
        let n = self.halves.len();
        let (k, level) = depth(self.len(), alpha, |w| cumulative(n, w))?;
        Some(Interval {
            low: self.kth(k),
            high: self.kth(self.len() + 1 - k),
            level,
        })
    }
}

/// How many Walsh averages `n` values have.
fn count(n: usize) -> usize {
    n * (n + 1) / 2
}

/// How many averages are `below`, a predicate that is true up to some bound and false beyond it.
fn count_averages(halves: &[f64], below: impl Fn(f64) -> bool) -> usize {
    let mut total = 0;
    let mut end = halves.len(); // averages of i with indices before `end` are below
    for (i, a) in halves.iter().enumerate() {
        while end > i && !below(a + halves[end - 1]) {
            end -= 1;
        }
        if end <= i {
            break;
        }
        total += end - i;
    }
    total
}

/// `P(W <= w)` for the signed-rank statistic of `n` values.
fn cumulative(n: usize, w: usize) -> f64 {
    static TABLES: [OnceLock<Vec<f64>>; EXACT_UP_TO + 1] = [const { OnceLock::new() }; EXACT_UP_TO + 1];
    if w >= count(n) {
        return 1.0;
    }
    if n <= EXACT_UP_TO {
        return TABLES[n].get_or_init(|| exact(n))[w];
    }
    let n = n as f64;
    let mean = n * (n + 1.0) / 4.0;
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    Normal::standard().cdf((w as f64 + 0.5 - mean) / deviation)
}

/// The distribution function of the signed-rank statistic: each rank is in the sum or not, by a
/// fair coin.
fn exact(n: usize) -> Vec<f64> {
    let mut mass = vec![0.0; count(n) + 1];
    mass[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..=count(rank)).rev() {
            let with = if sum >= rank { mass[sum - rank] } else { 0.0 };
            mass[sum] = 0.5 * (mass[sum] + with);
        }
    }
    let mut total = 0.0;
    for m in &mut mass {
        total += *m;
        *m = total;
    }
    mass
}

/// The Hodges–Lehmann estimate of a centre, with its exact signed-rank interval, in the values'
/// unit.
///
/// Exact up to 60 values, normal with continuity correction above. [`Estimate::ci`] is `None` where
/// so few values cannot reach the level: below 6 at an `alpha` of 0.05. Time grows as n log n and
/// memory as n, so 10,000 values are no trouble.
///
/// Source: Hodges & Lehmann, *Annals of Mathematical Statistics* 34 (1963); the module's text says
/// when the level is exact.
///
/// # Errors
///
/// No values, a value that is not finite, or an `alpha` outside (0, 1).
///
/// ```
/// use threadgauge_stats::hodges_lehmann;
///
/// let e = hodges_lehmann(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 0.05)?;
/// let ci = e.ci.unwrap();
/// assert_eq!((e.estimate, ci.low, ci.high), (4.0, 2.0, 6.0));
/// assert_eq!(ci.level, 0.953125); // 1 - 2 · 3/128
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn hodges_lehmann(values: &[f64], alpha: f64) -> Result<Estimate, StatsError> {
    finite(values)?;
    rate(alpha)?;
    let averages = WalshAverages::of(values);
    Ok(Estimate {
        estimate: averages.median(),
        ci: averages.interval(alpha),
        n: values.len(),
    })
}

/// The ratio `b / a` of values paired by round (METHOD rule 5), no unit.
///
/// The logarithms of the ratios are estimated by [`hodges_lehmann`], and estimate and interval are
/// exponentiated. Above 1 means that `b` is the larger. Swapping `a` and `b` inverts it.
///
/// # Errors
///
/// Different lengths, no values, a value that is not finite and above 0, or a bad `alpha`.
///
/// ```
/// use threadgauge_stats::paired_ratio;
///
/// let a = [10.0, 12.0, 11.0, 10.0, 13.0, 9.0];
/// let b = a.map(|v| 2.0 * v);
/// assert!((paired_ratio(&a, &b, 0.05)?.estimate - 2.0).abs() < 1e-12);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn paired_ratio(a: &[f64], b: &[f64], alpha: f64) -> Result<Estimate, StatsError> {
    let logs = hodges_lehmann(&log_ratios(a, b)?, alpha)?;
    Ok(Estimate {
        estimate: logs.estimate.exp(),
        ci: logs.ci.map(|ci| ci.map(f64::exp)),
        n: logs.n,
    })
}

/// `ln(b / a)` by round.
pub(crate) fn log_ratios(a: &[f64], b: &[f64]) -> Result<Vec<f64>, StatsError> {
    paired(a, b)?;
    positive(a)?;
    positive(b)?;
    // A difference of logarithms, not the logarithm of a quotient: exactly antisymmetric, and it
    // cannot overflow.
    Ok(a.iter().zip(b).map(|(a, b)| b.ln() - a.ln()).collect())
}

/// The two-sided signed-rank p value of "the centre is `centre`" (no unit).
///
/// Exact up to 60 values. At most alpha exactly when the interval of [`hodges_lehmann`] leaves the
/// centre out: a Walsh average equal to the centre counts for both sides. No values give 1;
/// anything not finite gives NaN, which is below no threshold.
///
/// Source: Wilcoxon, *Biometrics Bulletin* 1 (1945).
///
/// ```
/// use threadgauge_stats::signed_rank_p;
///
/// assert_eq!(signed_rank_p(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.0), 0.03125); // 2 / 2^6
/// ```
#[must_use]
pub fn signed_rank_p(values: &[f64], centre: f64) -> f64 {
    if !centre.is_finite() || values.iter().any(|v| !v.is_finite()) {
        return f64::NAN;
    }
    let halves: Vec<f64> = sorted(values).iter().map(|v| v * 0.5).collect();
    let at_most = count_averages(&halves, |average| average <= centre);
    let at_least = count(halves.len()) - count_averages(&halves, |average| average < centre);
    (2.0 * cumulative(halves.len(), at_most.min(at_least))).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Wilcoxon's critical values, two-sided 5 % and 1 %, as in Hollander, Wolfe & Chicken (2014),
    /// table A.4, and most textbooks.
    #[test]
    fn critical_values_are_the_published_ones() {
        for (n, five, one) in [
            (6, Some(0), None),
            (7, Some(2), None),
            (8, Some(3), Some(0)),
            (9, Some(5), Some(1)),
            (10, Some(8), Some(3)),
            (12, Some(13), Some(7)),
            (15, Some(25), Some(15)),
            (20, Some(52), Some(37)),
            (25, Some(89), Some(68)),
        ] {
            let critical = |alpha| depth(count(n), alpha, |w| cumulative(n, w)).map(|(k, _)| k - 1);
            assert_eq!((critical(0.05), critical(0.01)), (five, one), "n = {n}");
        }
    }

    #[test]
    fn the_exact_distribution_meets_the_normal_one() {
        let exact = exact(61);
        let off = |upto: usize| {
            (0..upto)
                .map(|w| (exact[w] - cumulative(61, w)).abs())
                .fold(0.0, f64::max)
        };
        let tail = (0..count(61)).take_while(|w| exact[*w] < 0.05).count();
        assert!(
            off(tail) < 4e-4 && off(count(61)) < 1.5e-3,
            "{} and {}",
            off(tail),
            off(count(61))
        );
    }

    /// Darwin's maize: fifteen pairs, crossed minus self-fertilised, in eighths of an inch. R's
    /// `wilcox.test(..., conf.int = TRUE)` finds p = 0.04126 and the same pseudomedian.
    #[test]
    fn darwins_maize_has_its_known_p_value() {
        let maize = [
            49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0,
        ];
        assert!((signed_rank_p(&maize, 0.0) - 0.041_26).abs() < 5e-6);
        let e = hodges_lehmann(&maize, 0.05).expect("finite");
        assert!(
            e.ci.expect("n >= 6").low > 0.0 && e.estimate > 20.0 && e.estimate < 30.0,
            "{e:?}"
        );
    }

    #[test]
    fn counting_finds_what_writing_down_finds() {
        let mut rng = fastrand::Rng::with_seed(7);
        for n in [1, 2, 3, 10, 41] {
            let values: Vec<f64> = (0..n).map(|_| (rng.f64() * 20.0).round() - 10.0).collect();
            let written = WalshAverages::of(&values);
            let counted = WalshAverages {
                halves: written.halves.clone(),
                written: None,
            };
            for k in 1..=written.len() {
                assert_eq!(written.kth(k), counted.kth(k), "n = {n}, k = {k}");
            }
        }
    }

    #[test]
    fn few_averages_are_written_down() {
        let is_written = |n| WalshAverages::of(&vec![1.0; n]).written.is_some();
        assert!(is_written(64) && !is_written(65));
    }

    #[test]
    fn ten_thousand_values_need_no_list_of_fifty_million() {
        let values: Vec<f64> = (0..10_000).map(f64::from).collect();
        let e = hodges_lehmann(&values, 0.05).expect("finite");
        assert_eq!(e.estimate, 4999.5);
        // for a uniform, the asymptotic standard error is range / sqrt(12 n)
        let half = e.ci.expect("many").half_width();
        assert!(
            (half / (1.96 * 10_000.0 / 120_000.0_f64.sqrt()) - 1.0).abs() < 0.01,
            "{half}"
        );
    }

    #[test]
    fn few_values_have_an_estimate_and_no_interval() {
        for n in 1..6 {
            let e = hodges_lehmann(&vec![1.0; n], 0.05).expect("finite");
            assert_eq!((e.estimate, e.ci), (1.0, None));
        }
        assert_eq!(hodges_lehmann(&[], 0.05), Err(StatsError::Empty));
    }

    #[test]
    fn identical_sides_are_a_ratio_of_exactly_one() {
        let a = [3.0, 5.0, 7.0, 11.0, 13.0, 17.0];
        let ratio = paired_ratio(&a, &a, 0.05).expect("positive");
        let ci = ratio.ci.expect("n >= 6");
        assert_eq!((ratio.estimate, ci.low, ci.high), (1.0, 1.0, 1.0));
        assert_eq!(signed_rank_p(&[0.0; 6], 0.0), 1.0);
    }

    #[test]
    fn sides_that_cannot_be_paired_are_refused() {
        assert_eq!(
            paired_ratio(&[1.0], &[1.0, 2.0], 0.05),
            Err(StatsError::LengthMismatch { a: 1, b: 2 })
        );
        assert!(matches!(
            paired_ratio(&[1.0], &[-2.0], 0.05),
            Err(StatsError::NotPositive { .. })
        ));
        assert!(signed_rank_p(&[1.0, f64::NAN], 0.0).is_nan());
    }

    proptest! {
        #[test]
        fn the_interval_is_the_inverted_test(
            values in prop::collection::vec(-6_i32..6, 6..25),
            centre in -13_i32..13,
            alpha in 0.04..0.2_f64,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let centre = f64::from(centre) / 2.0;
            let ci = hodges_lehmann(&values, alpha).unwrap().ci.expect("n >= 6");
            prop_assert_eq!(ci.contains(centre), signed_rank_p(&values, centre) > alpha);
        }

        #[test]
        fn swapping_the_sides_inverts_the_ratio(
            pairs in prop::collection::vec((0.1..1e3_f64, 0.1..1e3_f64), 1..30),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let (ab, ba) = (paired_ratio(&a, &b, 0.05).unwrap(), paired_ratio(&b, &a, 0.05).unwrap());
            prop_assert!((ab.estimate * ba.estimate - 1.0).abs() < 1e-12);
            prop_assert_eq!(ab.ci.is_some(), a.len() >= 6);
            if let (Some(x), Some(y)) = (ab.ci, ba.ci) {
                prop_assert!((x.low * y.high - 1.0).abs() < 1e-12 && (x.high * y.low - 1.0).abs() < 1e-12);
                prop_assert!(x.contains(ab.estimate));
            }
        }

        #[test]
        fn a_change_of_unit_scales_the_estimate(
            values in prop::collection::vec(-1e3..1e3_f64, 1..80),
            power in -20_i32..20,
        ) {
            let unit = 2.0_f64.powi(power);
            let scaled: Vec<f64> = values.iter().map(|v| v * unit).collect();
            let (e, f) = (hodges_lehmann(&values, 0.05).unwrap(), hodges_lehmann(&scaled, 0.05).unwrap());
            prop_assert_eq!(e.estimate * unit, f.estimate);
            prop_assert_eq!(e.ci.map(|ci| ci.map(|v| v * unit)), f.ci);
        }

        #[test]
        fn the_order_of_the_rounds_does_not_matter(values in prop::collection::vec(-1e3..1e3_f64, 1..30)) {
            let mut turned = values.clone();
            turned.rotate_left(values.len() / 2);
            prop_assert_eq!(hodges_lehmann(&values, 0.05), hodges_lehmann(&turned, 0.05));
        }
    }
}
