//! A single figure: the median over rounds, its exact interval, and what stands beside it.

use crate::StatsError;
use crate::error::{finite, positive, rate};
use crate::interval::{Interval, sign_interval_of_sorted};
use crate::select::{middle, sorted};

/// A metric of a case over all rounds. Everything but `n` and `cv` is in the samples' unit.
///
/// ```
/// use threadgauge_stats::summarise;
///
/// let five = summarise(&[10.0, 11.0, 12.0, 13.0, 1000.0], 0.05)?;
/// assert_eq!((five.median, five.trimmed_mean), (12.0, Some(12.0)));
/// assert_eq!(five.ci, None); // five values cannot give 95 %
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many values: one for each invocation.
    pub n: usize,
    /// The median, which is the figure to quote.
    pub median: f64,
    /// Its exact sign interval; `None` where so few values cannot reach the level asked for.
    pub ci: Option<Interval>,
    /// The arithmetic mean.
    pub mean: f64,
    /// The mean without the one largest and the one smallest value, as the sources report it;
    /// `None` below three values.
    pub trimmed_mean: Option<f64>,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The coefficient of variation: sample standard deviation over the mean's size, no unit.
    /// `None` below two values or at a mean of 0.
    pub cv: Option<f64>,
}

/// Summarises one metric of one case (METHOD rule 4).
///
/// `alpha` is the error rate of the interval: 0.05 asks for 95 %, and [`Interval::level`] says what
/// it became. The order of the values does not matter.
///
/// # Errors
///
/// No values, a value that is not finite, or an `alpha` outside (0, 1).
///
/// ```
/// use threadgauge_stats::summarise;
///
/// let s = summarise(&[3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0], 0.05)?;
/// assert_eq!((s.n, s.median, s.min, s.max), (7, 4.0, 1.0, 7.0));
/// assert_eq!(s.ci.unwrap().level, 0.984375);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn summarise(values: &[f64], alpha: f64) -> Result<Summary, StatsError> {
    finite(values)?;
    rate(alpha)?;
    let sorted = sorted(values);
    let n = sorted.len();
    let mean = mean(&sorted);
    Ok(Summary {
        n,
        median: middle(&sorted),
        ci: sign_interval_of_sorted(&sorted, alpha),
        mean,
        trimmed_mean: (n >= 3).then(|| self::mean(&sorted[1..n - 1])),
        min: sorted[0],
        max: sorted[n - 1],
        cv: coefficient_of_variation(&sorted, mean),
    })
}

/// The median: the middle value, or the mean of the middle two, in the values' unit.
///
/// # Errors
///
/// No values, or one that is not finite.
///
/// ```
/// use threadgauge_stats::median;
///
/// assert_eq!(median(&[3.0, 1.0, 2.0])?, 2.0);
/// assert_eq!(median(&[4.0, 1.0, 2.0, 3.0])?, 2.5);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn median(values: &[f64]) -> Result<f64, StatsError> {
    finite(values)?;
    Ok(middle(&sorted(values)))
}

/// The geometric mean, in the values' unit: the one mean that does not depend on which machine the
/// ratios were normalised to.
///
/// Source: Fleming & Wallace, *How not to lie with statistics* (CACM 29:3, 1986).
///
/// # Errors
///
/// No values, or one that is not finite and above 0.
///
/// ```
/// use threadgauge_stats::geometric_mean;
///
/// assert!((geometric_mean(&[1.0, 4.0])? - 2.0).abs() < 1e-12);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn geometric_mean(values: &[f64]) -> Result<f64, StatsError> {
    positive(values)?;
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    Ok(mean(&logs).exp())
}

/// The largest value, in the values' unit; −∞ where there is none.
///
/// ```
/// assert_eq!(threadgauge_stats::largest(&[2.0, 3.0, 1.0]), 3.0);
/// ```
#[must_use]
pub fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The smallest value, in the values' unit; ∞ where there is none.
///
/// ```
/// assert_eq!(threadgauge_stats::smallest(&[2.0, 3.0, 1.0]), 1.0);
/// ```
#[must_use]
pub fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The mean of at least one value. Divides before it adds only where the sum would overflow.
fn mean(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let sum: f64 = values.iter().sum();
    if sum.is_finite() {
        sum / n
    } else {
        values.iter().map(|v| v / n).sum()
    }
}

fn coefficient_of_variation(values: &[f64], mean: f64) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    // Relative deviations, so that squares of nanoseconds do not overflow.
    let squares: f64 = values.iter().map(|v| ((v - mean) / mean).powi(2)).sum();
    let cv = (squares / (values.len() - 1) as f64).sqrt();
    cv.is_finite().then_some(cv)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_sources_drop_the_largest_and_smallest_of_five() {
        let s = summarise(&[9.0, 1.0, 5.0, 4.0, 6.0], 0.05).expect("finite");
        assert_eq!((s.mean, s.trimmed_mean), (5.0, Some(5.0)));
        assert_eq!(summarise(&[1.0, 2.0], 0.05).expect("finite").trimmed_mean, None);
    }

    #[test]
    fn the_coefficient_of_variation_is_the_textbook_one() {
        // mean 5, sample variance 32/7
        let cv = summarise(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 0.05)
            .expect("finite")
            .cv;
        assert!((cv.expect("n >= 2") - (32.0_f64 / 7.0).sqrt() / 5.0).abs() < 1e-12);
        let two = summarise(&[1.0, 3.0], 0.05).expect("finite").cv;
        assert_eq!(two, Some(0.5_f64.sqrt()));
        assert_eq!(summarise(&[1.0], 0.05).expect("finite").cv, None);
        assert_eq!(summarise(&[-1.0, 1.0], 0.05).expect("finite").cv, None);
        assert_eq!(summarise(&[0.0, 0.0], 0.05).expect("finite").cv, None);
    }

    #[test]
    fn one_value_is_a_figure_without_an_interval() {
        let s = summarise(&[4.0], 0.05).expect("finite");
        assert_eq!((s.n, s.median, s.ci, s.trimmed_mean), (1, 4.0, None, None));
    }

    #[test]
    fn values_by_themselves_have_the_same_median_and_ends() {
        let values = [-3.0, 8.0, 2.0, 5.0];
        assert_eq!(median(&values), Ok(3.5));
        assert_eq!((smallest(&values), largest(&values)), (-3.0, 8.0));
        assert_eq!((smallest(&[]), largest(&[])), (f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!(median(&[]), Err(StatsError::Empty));
    }

    #[test]
    fn what_cannot_be_summarised_is_refused() {
        assert_eq!(summarise(&[], 0.05), Err(StatsError::Empty));
        assert!(summarise(&[1.0, f64::INFINITY], 0.05).is_err());
        assert!(summarise(&[1.0], 0.0).is_err());
        assert!(geometric_mean(&[1.0, 0.0]).is_err());
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let s = summarise(&[f64::MAX; 4], 0.05).expect("finite");
        assert_eq!((s.mean, s.median), (f64::MAX, f64::MAX));
    }

    proptest! {
        #[test]
        fn a_change_of_unit_changes_nothing_else(
            values in prop::collection::vec(1.0..1e6_f64, 1..30),
            power in -20_i32..20,
        ) {
            let unit = 2.0_f64.powi(power); // exact, so equality is
            let scaled: Vec<f64> = values.iter().map(|v| v * unit).collect();
            let (s, t) = (summarise(&values, 0.05).unwrap(), summarise(&scaled, 0.05).unwrap());
            prop_assert_eq!(s.median * unit, t.median);
            prop_assert_eq!(s.mean * unit, t.mean);
            prop_assert_eq!(s.ci.map(|ci| ci.map(|v| v * unit)), t.ci);
            prop_assert_eq!(s.cv, t.cv);
        }

        #[test]
        fn the_order_of_the_rounds_does_not_matter(values in prop::collection::vec(-1e3..1e3_f64, 1..30)) {
            let mut turned = values.clone();
            turned.reverse();
            prop_assert_eq!(summarise(&values, 0.05), summarise(&turned, 0.05));
        }

        #[test]
        fn the_interval_holds_the_median(values in prop::collection::vec(-1e3..1e3_f64, 6..60)) {
            let s = summarise(&values, 0.05).unwrap();
            prop_assert!(s.ci.unwrap().contains(s.median));
            prop_assert!(s.min <= s.median && s.median <= s.max);
        }
    }
}
