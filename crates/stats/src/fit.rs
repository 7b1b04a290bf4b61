//! Lines: how a cost grows, and how two orders agree.

use crate::StatsError;
use crate::error::{finite, paired};

/// The least-squares slope of `y` over `x`, in units of `y` for each unit of `x`.
///
/// # Errors
///
/// Different lengths, fewer than two points, a value that is not finite, or a single `x`.
///
/// ```
/// use threadgauge_stats::slope;
///
/// let threads = [1.0, 2.0, 4.0, 8.0];
/// let ns = [110.0, 120.0, 140.0, 180.0];
/// assert!((slope(&threads, &ns)? - 10.0).abs() < 1e-12); // 10 ns for each thread
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn slope(x: &[f64], y: &[f64]) -> Result<f64, StatsError> {
    paired(x, y)?;
    finite(x)?;
    finite(y)?;
    let n = x.len();
    if n < 2 {
        return Err(StatsError::TooFew { n, needed: 2 });
    }
    let mean = |v: &[f64]| v.iter().sum::<f64>() / n as f64;
    let (centre_x, centre_y) = (mean(x), mean(y));
    let spread: f64 = x.iter().map(|x| (x - centre_x).powi(2)).sum();
    if x.iter().all(|v| *v == x[0]) || spread == 0.0 {
        return Err(StatsError::NoSpread { x: x[0] });
    }
    let together: f64 = x
        .iter()
        .zip(y)
        .map(|(x, y)| (x - centre_x) * (y - centre_y))
        .sum();
    Ok(together / spread)
}

/// How the pairs of positions agree.
pub(crate) struct Agreement {
    /// All pairs of positions.
    pub(crate) pairs: i64,
    /// Those with equal `b`.
    pub(crate) tied_b: i64,
    /// Concordant pairs minus discordant ones: Kendall's S.
    pub(crate) score: i64,
}

impl Agreement {
    /// Of finite values, equally many.
    pub(crate) fn of(a: &[f64], b: &[f64]) -> Self {
        // + 0.0 makes the zeros equal, which the total order tells apart
        let mut points: Vec<(f64, f64)> = a.iter().zip(b).map(|(a, b)| (a + 0.0, b + 0.0)).collect();
        points.sort_unstable_by(|x, y| x.0.total_cmp(&y.0).then(x.1.total_cmp(&y.1)));
        let tied_a = tied(&points, |x, y| x.0 == y.0);
        let tied_both = tied(&points, |x, y| x == y);
        let mut by_b: Vec<f64> = points.iter().map(|p| p.1).collect();
        let discordant = exchanges(&mut by_b, &mut vec![0.0; b.len()]);
        let tied_b = tied(&by_b, |x, y| x == y);
        let n = a.len() as i64;
        let pairs = n * (n - 1) / 2;
        Self {
            pairs,
            tied_b,
            score: pairs - tied_a - tied_b + tied_both - 2 * discordant,
        }
    }
}

/// Pairs of equal neighbours in sorted items.
fn tied<T>(items: &[T], equal: impl Fn(&T, &T) -> bool) -> i64 {
    items
        .chunk_by(equal)
        .map(|run| run.len() as i64 * (run.len() as i64 - 1) / 2)
        .sum()
}

/// Sorts by merging and returns how many pairs were in the wrong order.
fn exchanges(values: &mut [f64], spare: &mut [f64]) -> i64 {
    let n = values.len();
    if n < 2 {
        return 0;
    }
    let half = n / 2;
    let mut wrong = exchanges(&mut values[..half], &mut spare[..half])
        + exchanges(&mut values[half..], &mut spare[half..]);
    let (mut left, mut right) = (0, half);
    for slot in spare.iter_mut() {
        if left < half && (right == n || values[left] <= values[right]) {
            *slot = values[left];
            left += 1;
        } else {
            *slot = values[right];
            right += 1;
            wrong += (half - left) as i64;
        }
    }
    values.copy_from_slice(spare);
    wrong
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_needs_two_different_x() {
        assert_eq!(
            slope(&[2.0, 2.0], &[1.0, 5.0]),
            Err(StatsError::NoSpread { x: 2.0 })
        );
        assert_eq!(slope(&[2.0], &[1.0]), Err(StatsError::TooFew { n: 1, needed: 2 }));
        assert!(slope(&[1.0, 2.0], &[1.0]).is_err());
    }

    /// Anscombe's first quartet: slope 0.500.
    #[test]
    fn anscombes_line_has_its_slope() {
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        assert!((slope(&x, &y).expect("finite") - 0.500_09).abs() < 1e-5);
    }

    proptest! {
        #[test]
        fn counting_by_merging_is_counting_by_hand(
            points in prop::collection::vec((-4_i32..4, -4_i32..4), 2..40),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) =
                points.into_iter().map(|(a, b)| (f64::from(a), f64::from(b))).unzip();
            let mut by_hand = 0;
            for i in 0..a.len() {
                for j in 0..i {
                    let product = (a[i] - a[j]) * (b[i] - b[j]);
                    by_hand += i64::from(product > 0.0) - i64::from(product < 0.0);
                }
            }
            prop_assert_eq!(Agreement::of(&a, &b).score, by_hand);
        }

        #[test]
        fn a_steeper_y_is_a_steeper_slope(y in prop::collection::vec(-1e3..1e3_f64, 2..20)) {
            let x: Vec<f64> = (0..y.len()).map(|i| i as f64).collect();
            let doubled: Vec<f64> = y.iter().map(|v| 2.0 * v).collect();
            prop_assert_eq!(2.0 * slope(&x, &y).unwrap(), slope(&x, &doubled).unwrap());
        }
    }
}
