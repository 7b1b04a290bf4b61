//! Rounds that remember each other.
//!
//! Every interval assumes that a round knows nothing of the one before. Where a hot machine stays
//! hot for a while, n rounds hold less than n rounds' worth of knowledge, and the intervals are too
//! short. The lag-1 autocorrelation shows it, though at 40 rounds it cannot be both sure and
//! sensitive: a test at the customary 5 % misses a correlation of 0.3 in more than half of the
//! cases. Missing it costs a false claim, a false alarm costs a sentence in the report. So the
//! warning is deliberately nervous.

use statrs::distribution::{ContinuousCDF, Normal};

/// False alarms of the warning: one in five.
const NERVOUS: f64 = 0.20;

/// The lag-1 autocorrelation of values in the order of their rounds, from -1 to 1, no unit.
///
/// `None` for fewer than 3 values, constant values, or a value that is not finite. The estimate is
/// biased downwards by about `(1 + 4·rho)/n`.
///
/// Source: Box, Jenkins & Reinsel, *Time Series Analysis* (2008), section 2.1.
///
/// ```
/// use threadgauge_stats::diagnostics::lag1;
///
/// assert!(lag1(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap() > 0.4); // a drift
/// assert!(lag1(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]).unwrap() < -0.8); // a see-saw
/// assert_eq!(lag1(&[1.0; 6]), None);
/// ```
#[must_use]
pub fn lag1(values: &[f64]) -> Option<f64> {
    if values.len() < 3 || values.iter().all(|v| *v == values[0]) {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    let lag1 = products / squares;
    lag1.is_finite().then_some(lag1)
}

/// How many independent values `n` correlated ones are worth: `n·(1 - rho)/(1 + rho)`, from 1 to n.
///
/// A negative `lag1` is not taken for a bonus. NaN gives 1: nothing is known.
///
/// Source: Bayley & Hammersley, *Supplement to JRSS* 8 (1946), for the first-order process.
///
/// ```
/// use threadgauge_stats::diagnostics::effective_n;
///
/// assert_eq!(effective_n(40, 0.6), 10.0);
/// assert_eq!(effective_n(40, -0.5), 40.0);
/// ```
#[must_use]
pub fn effective_n(n: usize, lag1: f64) -> f64 {
    let n = n as f64;
    if lag1.is_nan() {
        return n.min(1.0);
    }
    let rho = lag1.clamp(0.0, 1.0);
    (n * (1.0 - rho) / (1.0 + rho)).max(n.min(1.0))
}

/// The one-sided p value of "the rounds are independent" against a positive lag-1 autocorrelation
/// (no unit). `None` where [`lag1`] is.
///
/// Normal approximation with the exact mean and variance under normal noise; for a reader who wants
/// a verdict rather than a warning.
///
/// Source: Dufour & Roy, *Biometrika* 72 (1985).
///
/// ```
/// use threadgauge_stats::diagnostics::lag1_p;
///
/// let drift: Vec<f64> = (0..20).map(f64::from).collect();
/// assert!(lag1_p(&drift).unwrap() < 0.001);
/// ```
#[must_use]
pub fn lag1_p(values: &[f64]) -> Option<f64> {
    let lag1 = lag1(values)?;
    let n = values.len() as f64;
    let mean = -1.0 / n;
    let variance =
        (n.powi(4) - 4.0 * n.powi(3) + 3.0 * n * n + 4.0 * n - 4.0) / ((n + 1.0) * n * n * (n - 1.0).powi(2));
    Some(Normal::standard().cdf((mean - lag1) / variance.sqrt()))
}

/// Whether to warn that rounds remember each other.
///
/// Warns when [`lag1_p`] is below 0.20. So at any n **about one warning in five series of
/// independent rounds is false**; in return, at n = 40 it finds a first-order correlation of 0.3 in
/// over 80 % of the cases and one of 0.6 in over 98 %. `false` where there is too little to compute
/// it: below 3 values.
///
/// ```
/// use threadgauge_stats::diagnostics::warns_of_autocorrelation;
///
/// let drift: Vec<f64> = (0..20).map(f64::from).collect();
/// assert!(warns_of_autocorrelation(&drift));
/// assert!(!warns_of_autocorrelation(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]));
/// ```
#[must_use]
pub fn warns_of_autocorrelation(values: &[f64]) -> bool {
    lag1_p(values).is_some_and(|p| p < NERVOUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coefficient_is_the_textbook_one() {
        // mean 3; products (-2)(-1) + (-1)(0) + 0 + (1)(2) = 4; squares 10
        assert_eq!(lag1(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some(0.4));
    }

    #[test]
    fn the_p_value_is_that_of_the_exact_mean_and_variance() {
        // Expected -1/5 with a variance of 216/2400: two standard deviations. Φ(-2) from the tables.
        let rising = [1.0, 2.0, 3.0, 4.0, 5.0];
        // Expected -1/3 with a variance of 1/18: the root of two. The least that has a coefficient.
        let three = &rising[..3];
        for (values, p) in [(&rising[..], 0.022_750_131_9), (three, 0.078_649_603_5)] {
            assert!((lag1_p(values).unwrap() - p).abs() < 1e-9, "{values:?}");
            assert!(warns_of_autocorrelation(values), "{values:?}");
        }
        assert!(!warns_of_autocorrelation(&[1.0, 5.0, 2.0, 4.0, 3.0]));
    }

    #[test]
    fn too_little_gives_no_coefficient_and_no_warning() {
        assert_eq!(lag1(&[]), None);
        assert_eq!(lag1(&[1.0, 2.0]), None);
        assert_eq!(lag1(&[1.0, f64::NAN, 2.0, 3.0]), None);
        // Whose mean is another number.
        assert_eq!(lag1(&[0.1; 6]), None);
        assert!(!warns_of_autocorrelation(&[1.0, 2.0]));
    }

    #[test]
    fn correlation_never_leaves_less_than_one_value_or_more_than_all() {
        assert_eq!(effective_n(40, 0.6), 10.0);
        assert_eq!(effective_n(10, 0.0), 10.0);
        assert_eq!(effective_n(10, -0.5), 10.0);
        assert_eq!(effective_n(10, 1.0), 1.0);
        assert_eq!(effective_n(10, f64::NAN), 1.0);
        assert_eq!(effective_n(0, 0.3), 0.0);
    }
}
