//! The bootstrap, for statistics that no exact interval knows.
//!
//! Below 20 values its intervals are too short by several points, so they are refused rather than
//! shown. Bias and skewness are corrected for (BCa).

use statrs::distribution::{ContinuousCDF, Normal};

use crate::StatsError;
use crate::error::{finite, rate};
use crate::interval::{Estimate, Interval};
use crate::select::sorted;

/// Fewer values than this have no bootstrap interval.
const LEAST: usize = 20;

/// The bias-corrected and accelerated bootstrap interval of any statistic of 20 values or more, in
/// the statistic's unit (METHOD rule 5: `resamples` is 10,000).
///
/// The same `seed` gives the same interval. Its level is nominal: the bootstrap is an
/// approximation. For medians and ratios use the exact intervals instead.
///
/// Source: Efron, *JASA* 82 (1987); Efron & Tibshirani, *An Introduction to the Bootstrap* (1993),
/// section 14.3.
///
/// # Errors
///
/// Fewer than 20 values or 2/alpha resamples ([`StatsError::TooFew`]), a value or a result of the
/// statistic that is not finite (then `index` is that of the resample), or an `alpha` outside (0,
/// 1).
///
/// ```
/// use threadgauge_stats::{StatsError, bca};
///
/// let values: Vec<f64> = (1..=40).map(f64::from).collect();
/// let largest_tenth = |v: &[f64]| {
///     let mut v = v.to_vec();
///     v.sort_by(f64::total_cmp);
///     v[v.len() * 9 / 10]
/// };
/// let e = bca(&values, largest_tenth, 0.05, 2_000, 1)?;
/// assert!(e.ci.unwrap().contains(e.estimate));
/// assert_eq!(bca(&values[..7], largest_tenth, 0.05, 2_000, 1), Err(StatsError::TooFew { n: 7, needed: 20 }));
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn bca(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    alpha: f64,
    resamples: usize,
    seed: u64,
) -> Result<Estimate, StatsError> {
    finite(values)?;
    rate(alpha)?;
    let n = values.len();
    if n < LEAST {
        return Err(StatsError::TooFew { n, needed: LEAST });
    }
    let needed = (2.0 / alpha).ceil() as usize;
    if resamples < needed {
        return Err(StatsError::TooFew { n: resamples, needed });
    }
    let estimate = statistic(values);
    finite(&[estimate])?;

    let mut rng = fastrand::Rng::with_seed(seed);
    let mut drawn = vec![0.0; n];
    let results: Vec<f64> = (0..resamples)
        .map(|_| {
            drawn.fill_with(|| values[rng.usize(..n)]);
            statistic(&drawn)
        })
        .collect();
    finite(&results)?;
    let results = sorted(&results);

    let normal = Normal::standard();
    let bias = normal.inverse_cdf(share_below(&results, estimate));
    let acceleration = acceleration(values, &statistic)?;
    let end = |z: f64| results[place(corrected(bias, acceleration, z), resamples)];
    let z = normal.inverse_cdf(1.0 - alpha / 2.0);
    let ci = Interval {
        low: end(-z),
        high: end(z),
        level: 1.0 - alpha,
    };
    Ok(Estimate {
        estimate,
        ci: Some(ci),
        n,
    })
}

/// The share of results below the end of an interval that lies at `z` where nothing is to be corrected.
fn corrected(bias: f64, acceleration: f64, z: f64) -> f64 {
    let shifted = bias + z;
    Normal::standard().cdf(bias + shifted / (1.0 - acceleration * shifted))
}

/// Which of so many sorted results has that share of them below.
fn place(share: f64, results: usize) -> usize {
    let place = (share * (results + 1) as f64).round() as usize;
    place.clamp(1, results) - 1
}

/// The share of results below the estimate, those equal to it counted half, kept off 0 and 1.
fn share_below(sorted: &[f64], estimate: f64) -> f64 {
    let below = sorted.partition_point(|r| *r < estimate) as f64;
    let at_most = sorted.partition_point(|r| *r <= estimate) as f64;
    let b = sorted.len() as f64;
    ((below + at_most) / 2.0 / b).clamp(0.5 / b, 1.0 - 0.5 / b)
}

/// How fast the standard error changes with the estimate, from leaving out each value once.
fn acceleration(values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> Result<f64, StatsError> {
    let left_out: Vec<f64> = (0..values.len())
        .map(|i| {
            let mut rest = values.to_vec();
            rest.swap_remove(i);
            statistic(&rest)
        })
        .collect();
    finite(&left_out)?;
    let mean = left_out.iter().sum::<f64>() / left_out.len() as f64;
    let squares: f64 = left_out.iter().map(|v| (mean - v).powi(2)).sum();
    let cubes: f64 = left_out.iter().map(|v| (mean - v).powi(3)).sum();
    let acceleration = cubes / (6.0 * squares.powf(1.5));
    Ok(if acceleration.is_finite() {
        acceleration
    } else {
        0.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn nineteen_values_are_too_few() {
        assert_eq!(
            bca(&[1.0; 19], mean, 0.05, 1_000, 1),
            Err(StatsError::TooFew { n: 19, needed: 20 })
        );
        assert_eq!(
            bca(&[1.0; 20], mean, 0.05, 10, 1),
            Err(StatsError::TooFew { n: 10, needed: 40 })
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values: Vec<f64> = (0..25).map(|i| f64::from(i * i)).collect();
        let with = |seed| bca(&values, mean, 0.05, 500, seed).expect("enough");
        assert_eq!(with(3), with(3));
        assert_ne!(with(3), with(4));
    }

    #[test]
    fn the_mean_of_a_normal_sample_has_the_interval_of_the_textbook() {
        let normal = Normal::standard();
        let values: Vec<f64> = (1..=100)
            .map(|i| normal.inverse_cdf((f64::from(i) - 0.5) / 100.0))
            .collect();
        let ci = bca(&values, mean, 0.05, 4_000, 5)
            .expect("enough")
            .ci
            .expect("always");
        assert!(
            (ci.low + 0.196).abs() < 0.015 && (ci.high - 0.196).abs() < 0.015,
            "{ci:?}"
        );
    }

    #[test]
    fn a_skewed_sample_has_a_lopsided_interval() {
        let values: Vec<f64> = (1..=30).map(|i| (f64::from(i) / 6.0).exp()).collect();
        let e = bca(&values, mean, 0.05, 2_000, 9).expect("enough");
        let ci = e.ci.expect("always");
        assert!(ci.high - e.estimate > e.estimate - ci.low);
    }

    #[test]
    fn constant_values_have_an_interval_of_width_nought() {
        let ci = bca(&[2.0; 20], mean, 0.05, 100, 1)
            .expect("enough")
            .ci
            .expect("always");
        assert_eq!((ci.low, ci.high), (2.0, 2.0));
    }

    #[test]
    fn a_statistic_that_gives_no_number_is_an_error() {
        let of_few = |v: &[f64]| if v.len() < 20 { f64::NAN } else { 1.0 };
        assert!(matches!(
            bca(&[1.0; 20], of_few, 0.05, 100, 1),
            Err(StatsError::NotFinite { .. })
        ));
    }

    /// Efron & Tibshirani (1993), section 14.3: the variance of the spatial data.
    #[test]
    fn the_corrected_ends_are_the_published_ones() {
        let ends = [-1.645, 1.645].map(|z| corrected(0.146, 0.061, z));
        for (end, published) in ends.into_iter().zip([0.110, 0.985]) {
            assert!((end - published).abs() < 0.001, "{ends:?}");
        }
        assert!((corrected(0.0, 0.0, 0.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_share_has_its_place_among_the_results() {
        assert_eq!([0.025, 0.5, 0.975].map(|share| place(share, 999)), [24, 499, 974]);
        assert_eq!([0.0, 1.0].map(|share| place(share, 999)), [0, 998]);
        // Half of those that are equal, and never none or all.
        assert_eq!(share_below(&[1.0, 2.0, 2.0, 3.0, 4.0], 2.0), 0.4);
        assert_eq!(share_below(&[1.0, 2.0, 3.0, 4.0], 0.0), 0.125);
        assert_eq!(share_below(&[1.0, 2.0, 3.0, 4.0], 5.0), 0.875);
    }

    /// Of a mean it is a sixth of the skewness over the root of n, as Efron & Tibshirani (1993), formula 14.15, has it.
    #[test]
    fn the_acceleration_of_a_mean_is_that_of_its_formula() {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        // 1, 2 and 6 are -2, -1 and 3 from 3: cubes of 18, squares of 14.
        let expected = 18.0 / (6.0 * 14.0_f64.powf(1.5));
        let found = acceleration(&[1.0, 2.0, 6.0], mean).unwrap();
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        assert_eq!(acceleration(&[1.0, 1.0], mean).unwrap(), 0.0);
    }

    #[test]
    fn twenty_values_are_enough_and_the_level_is_what_was_asked_for() {
        let values: Vec<f64> = (0..20).map(f64::from).collect();
        let ci = bca(&values, |v| v[0], 0.1, 20, 1).unwrap().ci.unwrap();
        assert!((ci.level - 0.9).abs() < 1e-12);
    }
}
