//! Rounds that were different. They are marked, and stay in every figure.

use crate::select::{middle, sorted};

/// The limit of Iglewicz and Hoaglin.
const LIMIT: f64 = 3.5;

/// The positions of outliers, ascending: those with `|0.6745·(x - median)/MAD| > 3.5` (METHOD rule
/// 9). **Never deleted**: the caller marks them.
///
/// MAD is the median of the absolute deviations from the median. Where more than half of the values
/// are equal it is 0, and the mean absolute deviation takes its place, as the source advises. A
/// value that is not finite is always an outlier.
///
/// Source: Iglewicz & Hoaglin, *How to Detect and Handle Outliers* (1993).
///
/// ```
/// use threadgauge_stats::diagnostics::outliers;
///
/// assert_eq!(outliers(&[10.0, 10.1, 9.9, 30.0, 10.0, 10.2, 9.8]), [3]);
/// assert!(outliers(&[1.0; 7]).is_empty());
/// ```
#[must_use]
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let beyond = if finite.is_empty() { 0.0 } else { limit(&finite) };
    let median = if finite.is_empty() {
        0.0
    } else {
        middle(&sorted(&finite))
    };
    (0..values.len())
        .filter(|i| !values[*i].is_finite() || (values[*i] - median).abs() > beyond)
        .collect()
}

/// The distance from the median beyond which a value is an outlier, in the values' unit.
fn limit(finite: &[f64]) -> f64 {
    let median = middle(&sorted(finite));
    let deviations: Vec<f64> = finite.iter().map(|v| (v - median).abs()).collect();
    let mad = middle(&sorted(&deviations));
    if mad > 0.0 {
        return LIMIT * mad / 0.6745;
    }
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    LIMIT * mean * 1.253_314
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_with_one_stray_mark_the_stray() {
        let mut values = vec![5.0; 20];
        values[7] = 5.1;
        assert_eq!(outliers(&values), [7]);
    }

    #[test]
    fn the_limit_is_the_published_one() {
        // A median deviation of 0.6745 is a standard deviation of 1.
        assert_eq!(limit(&[-9.0, -0.6745, 0.0, 0.6745, 0.5]), 3.5);
        // Most are equal: 1.253314 mean deviations are a standard deviation.
        let mean = limit(&[0.0, 0.0, 0.0, 8.0]);
        assert!((mean - 3.5 * 2.0 * 1.253_314).abs() < 1e-12, "{mean}");
    }

    #[test]
    fn who_lies_at_the_limit_is_within_it() {
        assert_eq!(outliers(&[1.0; 7]), []);
        assert_eq!(outliers(&[-0.6745, 0.0, 0.6745, 3.5, -3.5]), []);
    }

    #[test]
    fn what_is_not_a_number_is_marked_and_spoils_nothing() {
        assert_eq!(outliers(&[1.0, f64::NAN, 1.1, 0.9, f64::INFINITY]), [1, 4]);
        assert_eq!(outliers(&[f64::NAN]), [0]);
        assert!(outliers(&[]).is_empty());
    }

    #[test]
    fn a_shift_and_a_scale_change_nothing() {
        let values = [10.0, 10.5, 9.5, 30.0, 10.25, 9.75, -20.0];
        let moved = values.map(|v| v * 4.0 + 64.0);
        assert_eq!(outliers(&values), [3, 6]);
        assert_eq!(outliers(&values), outliers(&moved));
    }
}
