//! Lines and curves: how a cost grows, how throughput scales, and how two orders agree.

use crate::StatsError;
use crate::error::{finite, paired, positive};

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

/// The universal scalability law: what so many units reach together (Gunther, *Guerrilla Capacity Planning*, 2007).
///
/// throughput(n) = alone · n / (1 + contention · (n − 1) + coherency · n · (n − 1))
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalability {
    /// The throughput of one unit, in the unit of those it was fitted to.
    pub alone: f64,
    /// The share of the work that goes one unit at a time (σ). Signed: below 0 where units speed each other up, or by
    /// noise.
    pub contention: f64,
    /// What each pair of units costs by bringing its data to agree, in the same shares (κ). Signed as well.
    pub coherency: f64,
}

impl Scalability {
    /// The law that fits throughputs of several numbers of units best: least squares of their ratio to the law's. It is
    /// solved as a straight-line problem for units / throughput, and nothing is held to be above 0, so that noise
    /// moves the parameters to both sides alike.
    ///
    /// # Errors
    ///
    /// Different lengths, a number or a throughput that is not above 0, or fewer than three different numbers. Not a
    /// number above 0 for the throughput of one unit, where no such law fits.
    ///
    /// ```
    /// use threadgauge_stats::Scalability;
    ///
    /// let units = [1.0, 2.0, 4.0, 8.0];
    /// let per_s = units.map(|n| 100.0 * n / (1.0 + 0.1 * (n - 1.0))); // a tenth goes one at a time
    /// let law = Scalability::fit(&units, &per_s)?;
    /// assert!((law.alone - 100.0).abs() < 1e-6 && (law.contention - 0.1).abs() < 1e-9 && law.coherency.abs() < 1e-9);
    /// # Ok::<(), threadgauge_stats::StatsError>(())
    /// ```
    pub fn fit(units: &[f64], throughput: &[f64]) -> Result<Self, StatsError> {
        paired(units, throughput)?;
        positive(units)?;
        positive(throughput)?;
        let mut different = units.to_vec();
        different.sort_unstable_by(f64::total_cmp);
        different.dedup();
        if different.len() < 3 {
            let n = different.len();
            return Err(StatsError::TooFew { n, needed: 3 });
        }
        let weighed = |of: fn(f64) -> f64| {
            let each = units.iter().zip(throughput);
            each.map(|(n, x)| of(*n) * x / n).collect::<Vec<f64>>()
        };
        let columns = [weighed(|_| 1.0), weighed(|n| n - 1.0), weighed(|n| n * (n - 1.0))];
        let [each, contention, coherency] = least_squares(columns, vec![1.0; units.len()]);
        let alone = 1.0 / each;
        positive(&[alone])?;
        Ok(Self {
            alone,
            contention: contention / each,
            coherency: coherency / each,
        })
    }

    /// The throughput of so many units.
    #[must_use]
    pub fn at(self, units: f64) -> f64 {
        let more = units - 1.0;
        self.alone * units / (1.0 + self.contention * more + self.coherency * units * more)
    }

    /// The number of units with the most throughput, at least one. `None` where more units always have more, or always
    /// less, without a cost of coherency.
    #[must_use]
    pub fn peak(self) -> Option<f64> {
        let square = (1.0 - self.contention) / self.coherency;
        (self.coherency > 0.0).then(|| square.max(1.0).sqrt())
    }
}

/// The factors with which columns sum up best to `target`, by modified Gram–Schmidt. The columns are independent.
fn least_squares<const K: usize>(mut columns: [Vec<f64>; K], mut target: Vec<f64>) -> [f64; K] {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let take_off = |from: &mut [f64], factor: f64, column: &[f64]| {
        from.iter_mut()
            .zip(column)
            .for_each(|(from, value)| *from -= factor * value);
    };
    let (mut triangle, mut factors) = ([[0.0; K]; K], [0.0; K]);
    for k in 0..K {
        let length = dot(&columns[k], &columns[k]).sqrt();
        columns[k].iter_mut().for_each(|value| *value /= length);
        let column = columns[k].clone();
        triangle[k][k] = length;
        for j in k + 1..K {
            triangle[k][j] = dot(&column, &columns[j]);
            take_off(&mut columns[j], triangle[k][j], &column);
        }
        factors[k] = dot(&column, &target);
        take_off(&mut target, factors[k], &column);
    }
    for k in (0..K).rev() {
        let known: f64 = (k + 1..K).map(|j| triangle[k][j] * factors[j]).sum();
        factors[k] = (factors[k] - known) / triangle[k][k];
    }
    factors
}

/// How the pairs of positions agree.
pub(crate) struct Agreement {
    /// All pairs of positions.
    pub(crate) pairs: i64,
    /// Those with equal `a`.
    pub(crate) tied_a: i64,
    /// Those with equal `b`.
    pub(crate) tied_b: i64,
    /// Concordant pairs minus discordant ones: Kendall's S.
    pub(crate) score: i64,
}

impl Agreement {
    /// Of finite values, equally many.
    pub(crate) fn of(a: &[f64], b: &[f64]) -> Self {
        // + 0.0 makes the zeros of `a` equal, which the total order tells apart
        let mut points: Vec<(f64, f64)> = a.iter().zip(b).map(|(a, b)| (a + 0.0, *b)).collect();
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
            tied_a,
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
        // Their mean is another number.
        assert_eq!(slope(&[0.1; 3], &[1.0; 3]), Err(StatsError::NoSpread { x: 0.1 }));
        // Their squares are 0.
        assert_eq!(
            slope(&[0.0, 1e-200], &[1.0, 2.0]),
            Err(StatsError::NoSpread { x: 0.0 })
        );
    }

    #[test]
    fn a_line_far_from_the_origin_keeps_its_digits() {
        let x = [0.0, 1.0, 2.0, 3.0].map(|x| 2.0_f64.powi(50) + x);
        let y = [0.0, 2.0, 8.0, 14.0].map(|y| 2.0_f64.powi(52) + y);
        assert_eq!(slope(&x, &y), Ok(4.8));
    }

    #[test]
    fn zeros_are_equal_whatever_their_sign() {
        for (a, b) in [([-0.0, 0.0], [2.0, 1.0]), ([2.0, 1.0], [-0.0, 0.0])] {
            let agreement = Agreement::of(&a, &b);
            assert_eq!((agreement.score, agreement.tied_a + agreement.tied_b), (0, 1));
        }
        assert_eq!(Agreement::of(&[1.0; 2], &[-0.0, 0.0]).score, 0);
    }

    /// Anscombe's first quartet: slope 0.500.
    #[test]
    fn anscombes_line_has_its_slope() {
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        assert!((slope(&x, &y).expect("finite") - 0.500_09).abs() < 1e-5);
    }

    #[test]
    fn a_law_needs_three_numbers_of_units_and_throughputs_above_0() {
        let fit = Scalability::fit;
        let too_few = Err(StatsError::TooFew { n: 2, needed: 3 });
        assert_eq!(fit(&[1.0, 2.0, 2.0, 1.0], &[1.0, 2.0, 2.1, 1.1]), too_few);
        assert!(matches!(
            fit(&[1.0, 2.0, 3.0], &[1.0, 0.0, 3.0]),
            Err(StatsError::NotPositive { index: 1, .. })
        ));
        assert!(fit(&[1.0, 2.0, 3.0], &[1.0, 2.0]).is_err());
        // One unit would have to have less than nothing.
        assert!(matches!(
            fit(&[2.0, 3.0, 4.0], &[2.0, 0.3, 0.2]),
            Err(StatsError::NotPositive { .. })
        ));
    }

    #[test]
    fn a_law_with_coherency_has_a_peak_and_one_without_has_none() {
        let law = Scalability {
            alone: 10.0,
            contention: 0.19,
            coherency: 0.01,
        };
        assert_eq!(law.peak(), Some(9.0));
        assert!(law.at(9.0) > law.at(8.0) && law.at(9.0) > law.at(10.0));
        let without = Scalability {
            coherency: 0.0,
            ..law
        };
        assert_eq!(without.peak(), None);
        // Where more units have less from the first on.
        let steep = Scalability {
            coherency: 5.0,
            ..law
        };
        assert_eq!(steep.peak(), Some(1.0));
        // Where a second unit already has less, as two threads at one short lock may.
        let worse = Scalability {
            contention: 1.5,
            ..law
        };
        assert_eq!(worse.peak(), Some(1.0));
        assert!(worse.at(1.0) > worse.at(2.0));
        let less_than_nothing = Scalability {
            coherency: -0.01,
            ..law
        };
        assert_eq!(less_than_nothing.peak(), None);
    }

    const COUNTS: [f64; 6] = [1.0, 2.0, 3.0, 4.0, 8.0, 16.0];

    fn misfit(law: Scalability, throughput: &[f64]) -> f64 {
        let each = COUNTS.iter().zip(throughput);
        each.map(|(n, x)| (1.0 - x / law.at(*n)).powi(2)).sum()
    }

    proptest! {
        #[test]
        fn a_law_is_found_from_its_throughputs(
            alone in 1e-3..1e9_f64, contention in -0.05..1.0_f64, coherency in 0.0..0.5_f64,
        ) {
            let law = Scalability { alone, contention, coherency };
            let found = Scalability::fit(&COUNTS, &COUNTS.map(|n| law.at(n))).unwrap();
            prop_assert!((found.alone / alone - 1.0).abs() < 1e-9, "{found:?}");
            prop_assert!((found.contention - contention).abs() < 1e-9, "{found:?}");
            prop_assert!((found.coherency - coherency).abs() < 1e-9, "{found:?}");
        }

        #[test]
        fn no_law_beside_the_one_found_fits_better(
            contention in 0.0..0.5_f64, coherency in 0.0..0.05_f64,
            noise in prop::array::uniform6(0.9..1.1_f64), factors in prop::array::uniform3(0.98..1.02_f64),
        ) {
            let law = Scalability { alone: 1.0, contention, coherency };
            let noisy: Vec<f64> = COUNTS.iter().zip(noise).map(|(n, noise)| law.at(*n) * noise).collect();
            let found = Scalability::fit(&COUNTS, &noisy).unwrap();
            let [a, b, c] = factors;
            let beside = Scalability {
                alone: found.alone * a,
                contention: found.contention * b,
                coherency: found.coherency * c,
            };
            prop_assert!(misfit(found, &noisy) <= misfit(beside, &noisy) + 1e-12);
        }

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
