//! Which estimate and interval a statistic gets: decided by what it is, not by who asks.

use crate::error::StatsError;
use crate::interval::{Estimate, Interval, sign_interval, sign_test};
use crate::signed_rank::{hodges_lehmann, paired_ratio, signed_rank_p};
use crate::summary::median;

/// What the values of a statistic, one a round, are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Estimator {
    /// Anything: the median and its sign interval (METHOD rule 4).
    Median,
    /// `scale · ratio + shift` of a paired ratio: Hodges–Lehmann on logarithms with the exact signed-rank interval
    /// (rule 5). An overhead is a ratio with a shift of −1; in per cent it has a scale of 100.
    Ratio {
        /// Not 0; below 0 for what falls with the ratio, such as a gain of 1 less the ratio.
        scale: f64,
        /// Any.
        shift: f64,
    },
    /// A paired difference: Hodges–Lehmann with the exact signed-rank interval (rule 11).
    Difference,
}

impl Estimator {
    /// A plain ratio.
    pub const RATIO: Self = Self::Ratio {
        scale: 1.0,
        shift: 0.0,
    };

    /// The estimate over rounds, in the values' unit. The interval's level is 1 − `alpha` or better.
    ///
    /// # Errors
    ///
    /// No values, a value that is not finite, a ratio that is not positive, or an `alpha` outside (0, 1).
    ///
    /// ```
    /// use threadgauge_stats::Estimator;
    ///
    /// let overheads = [0.50, 0.52, 0.49, 0.51, 0.50, 0.48, 0.50];
    /// let overhead = Estimator::Ratio { scale: 1.0, shift: -1.0 }.estimate(&overheads, 0.05)?;
    /// assert!((overhead.estimate - 0.50).abs() < 0.01 && overhead.ci.unwrap().low > 0.47);
    /// # Ok::<(), threadgauge_stats::StatsError>(())
    /// ```
    pub fn estimate(self, values: &[f64], alpha: f64) -> Result<Estimate, StatsError> {
        match self {
            Self::Median => Ok(Estimate {
                estimate: median(values)?,
                ci: sign_interval(values, alpha),
                n: values.len(),
            }),
            Self::Difference => hodges_lehmann(values, alpha),
            Self::Ratio { scale, shift } => {
                let ratios: Vec<f64> = values.iter().map(|v| (v - shift) / scale).collect();
                let of_ratio = paired_ratio(&vec![1.0; ratios.len()], &ratios, alpha)?;
                let back = |ratio: f64| scale * ratio + shift;
                // What falls with the ratio has its ends the other way round.
                let in_order = |ci: Interval| Interval {
                    low: ci.low.min(ci.high),
                    high: ci.low.max(ci.high),
                    level: ci.level,
                };
                Ok(Estimate {
                    estimate: back(of_ratio.estimate),
                    ci: of_ratio.ci.map(|ci| in_order(ci.map(back))),
                    n: of_ratio.n,
                })
            }
        }
    }

    /// The value on the scale on which rounds spread alike to both sides, rising with it: the logarithm of the ratio,
    /// or the difference itself. `None` for what has no such scale: anything that is neither, and a ratio that is not
    /// above 0.
    ///
    /// ```
    /// use threadgauge_stats::Estimator;
    ///
    /// let saving = Estimator::Ratio { scale: -1.0, shift: 1.0 };
    /// assert_eq!(saving.symmetric(0.0), Some(0.0)); // a ratio of 1
    /// assert!(saving.symmetric(0.5) > saving.symmetric(0.4)); // ratios of 0.5 and 0.6
    /// assert_eq!(Estimator::Median.symmetric(1.0), None);
    /// ```
    #[must_use]
    pub fn symmetric(self, value: f64) -> Option<f64> {
        let value = match self {
            Self::Median => None,
            Self::Difference => Some(value),
            Self::Ratio { scale, shift } => Some(((value - shift) / scale).ln() * scale.signum()),
        };
        value.filter(|v| v.is_finite())
    }

    /// How surprising these values would be if the statistic were `bound`: the two-sided p value of the test that
    /// belongs to the interval. No values give 1.
    #[must_use]
    pub fn p_value(self, values: &[f64], bound: f64) -> f64 {
        match self {
            Self::Median => sign_test(values, bound),
            Self::Difference | Self::Ratio { .. } => {
                let symmetric = |value: f64| self.symmetric(value).unwrap_or(f64::NAN);
                let values: Vec<f64> = values.iter().map(|v| symmetric(*v)).collect();
                signed_rank_p(&values, symmetric(bound))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISY: [f64; 7] = [1.9, 2.0, 2.1, 2.2, 2.4, 1.8, 2.0];

    #[test]
    fn an_overhead_in_per_cent_is_the_ratio_moved_and_stretched() {
        let plain = Estimator::RATIO.estimate(&NOISY, 0.05).unwrap();
        let percent = Estimator::Ratio {
            scale: 100.0,
            shift: -100.0,
        };
        let moved = percent.estimate(&NOISY.map(|r| 100.0 * r - 100.0), 0.05).unwrap();
        assert!((moved.estimate - (100.0 * plain.estimate - 100.0)).abs() < 1e-9);
        let (a, b) = (plain.ci.unwrap(), moved.ci.unwrap());
        assert!((b.low - (100.0 * a.low - 100.0)).abs() < 1e-9 && a.level == b.level);
    }

    #[test]
    fn a_gain_is_one_less_the_ratio_with_its_ends_in_order() {
        let plain = Estimator::RATIO.estimate(&NOISY, 0.05).unwrap();
        let gain = Estimator::Ratio {
            scale: -1.0,
            shift: 1.0,
        };
        let gained = gain.estimate(&NOISY.map(|r| 1.0 - r), 0.05).unwrap();
        let (a, b) = (plain.ci.unwrap(), gained.ci.unwrap());
        assert!((gained.estimate - (1.0 - plain.estimate)).abs() < 1e-12);
        assert!((b.low - (1.0 - a.high)).abs() < 1e-12 && (b.high - (1.0 - a.low)).abs() < 1e-12);
    }

    #[test]
    fn a_bound_is_excluded_exactly_where_the_interval_leaves_it_out() {
        for estimator in [Estimator::Median, Estimator::RATIO, Estimator::Difference] {
            let ci = estimator.estimate(&NOISY, 0.05).unwrap().ci.unwrap();
            for bound in [0.5, ci.low - 1e-6, ci.low + 1e-6, 2.05, ci.high + 1e-6, 9.0] {
                let excluded = estimator.p_value(&NOISY, bound) <= 0.05;
                assert_eq!(excluded, !ci.contains(bound), "{estimator:?} {bound} {ci:?}");
            }
        }
    }

    #[test]
    fn a_ratio_is_symmetric_on_its_logarithm_and_rises_with_the_value() {
        let near = |found: Option<f64>, expected: f64| {
            assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} {expected}");
        };
        let percent = Estimator::Ratio {
            scale: 100.0,
            shift: -100.0,
        };
        near(percent.symmetric(300.0), 4.0_f64.ln());
        let saving = Estimator::Ratio {
            scale: -1.0,
            shift: 1.0,
        };
        near(saving.symmetric(0.75), 4.0_f64.ln());
        near(Estimator::Difference.symmetric(-3.0), -3.0);
        assert_eq!(Estimator::Median.symmetric(3.0), None);
        assert_eq!(Estimator::RATIO.symmetric(0.0), None);
        assert_eq!(saving.symmetric(1.5), None);
    }
}
