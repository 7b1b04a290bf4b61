//! Where a ratio goes below 1: the count from which on one design stays ahead of another.
//!
//! Chosen in each round, such a count is biased: the first that is below 1 by chance is too low, the last that is
//! above by chance too high. So it is chosen once, from the estimates over all rounds.

use crate::StatsError;
use crate::error::positive;
use crate::interval::{Estimate, Interval};

/// What stands for a crossing between two counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Between {
    /// The count at which it would be 1 if the logarithm of the ratio were a straight line over that of the count.
    /// Outside of what was measured it is the nearest count.
    Interpolated,
    /// The next count that was measured; after the last, one that is larger by this.
    Next(f64),
}

/// The count from which on a ratio is below 1, given several counts, which rise, and its estimate at each.
///
/// The interval goes from the first count at which the ratio may be below 1 to the one from which on it surely is, by
/// its intervals. To miss the crossing, the interval of the ratio at the crossing itself must miss 1. So the level is
/// that of one of them, however many counts there are.
///
/// # Errors
///
/// No counts; a count or a ratio that is not finite and above 0.
///
/// ```
/// use threadgauge_stats::{Between, Estimate, Interval, crossing};
///
/// let ratio = |low, estimate, high| {
///     let ci = Some(Interval { low, high, level: 0.95 });
///     Estimate { estimate, ci, n: 10 }
/// };
/// let points = [(4.0, ratio(1.5, 2.0, 2.5)), (16.0, ratio(0.4, 0.5, 0.6))];
/// let at = crossing(&points, Between::Interpolated)?;
/// assert_eq!(at.estimate.round(), 8.0);
/// assert!(at.ci.unwrap().contains(8.0) && !at.ci.unwrap().contains(5.0));
/// assert_eq!(crossing(&points, Between::Next(12.0))?.estimate, 16.0);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn crossing(points: &[(f64, Estimate)], between: Between) -> Result<Estimate, StatsError> {
    let (x, ratios): (Vec<f64>, Vec<Estimate>) = points.iter().copied().unzip();
    let of = |end: fn(&Estimate) -> Option<f64>| ratios.iter().map(end).collect::<Option<Vec<f64>>>();
    let estimates: Vec<f64> = ratios.iter().map(|ratio| ratio.estimate).collect();
    positive(&x)?;
    positive(&estimates)?;
    let last_not_below = |ratios: &[f64]| ratios.iter().rposition(|ratio| *ratio >= 1.0);
    let low = of(|ratio| Some(ratio.ci?.low)).map(|low| {
        let first_below = low.iter().position(|low| *low < 1.0);
        place(
            &x,
            &low,
            first_below.map_or(Some(x.len() - 1), |i| i.checked_sub(1)),
            between,
        )
    });
    let high = of(|ratio| Some(ratio.ci?.high)).map(|high| place(&x, &high, last_not_below(&high), between));
    let level = ratios
        .iter()
        .filter_map(|ratio| Some(ratio.ci?.level))
        .fold(1.0, f64::min);
    Ok(Estimate {
        estimate: place(&x, &estimates, last_not_below(&estimates), between),
        ci: low.zip(high).map(|(low, high)| Interval { low, high, level }),
        n: ratios.iter().map(|ratio| ratio.n).min().unwrap_or(0),
    })
}

/// The place of a crossing after the count `last`, or before the first.
fn place(x: &[f64], ratios: &[f64], last: Option<usize>, between: Between) -> f64 {
    let Some(last) = last else { return x[0] };
    match (between, x.get(last + 1)) {
        (Between::Next(_), Some(next)) => *next,
        (Between::Next(step), None) => x[last] + step,
        (Between::Interpolated, None) => x[last],
        (Between::Interpolated, Some(next)) => {
            let [above, below] = [ratios[last].ln(), ratios[last + 1].ln()];
            x[last] * (next / x[last]).powf(above / (above - below))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At 2, 5, 8 and 11, with intervals from a tenth below to a tenth above.
    fn about(ratios: &[f64]) -> Vec<(f64, Estimate)> {
        let about = |&estimate: &f64| Estimate {
            estimate,
            ci: Some(Interval {
                low: 0.9 * estimate,
                high: 1.1 * estimate,
                level: 0.95,
            }),
            n: 7,
        };
        [2.0, 5.0, 8.0, 11.0]
            .into_iter()
            .zip(ratios.iter().map(about))
            .collect()
    }

    fn at(ratios: &[f64], between: Between) -> [f64; 3] {
        let at = crossing(&about(ratios), between).unwrap();
        let ci = at.ci.unwrap();
        [ci.low, at.estimate, ci.high]
    }

    #[test]
    fn the_interval_goes_from_where_it_may_be_to_where_it_surely_is() {
        let next = |ratios: &[f64]| at(ratios, Between::Next(3.0));
        assert_eq!(next(&[2.0, 1.5, 0.5, 0.4]), [8.0, 8.0, 8.0]);
        assert_eq!(next(&[2.0, 1.05, 0.95, 0.4]), [5.0, 8.0, 11.0]);
        assert_eq!(next(&[1.0; 4]), [2.0, 14.0, 14.0]);
        assert_eq!(next(&[0.5; 4]), [2.0, 2.0, 2.0]);
        assert_eq!(next(&[2.0; 4]), [14.0, 14.0, 14.0]);
        // Back and forth: all that may be the place.
        assert_eq!(next(&[0.95, 1.5, 0.5, 1.05]), [2.0, 14.0, 14.0]);
    }

    #[test]
    fn an_end_at_the_very_crossing_is_not_below_it() {
        let mut points = about(&[2.0, 1.5, 0.5, 0.4]);
        points[1].1.ci = points[1].1.ci.map(|ci| Interval { low: 1.0, ..ci });
        let low = |points: &[(f64, Estimate)]| crossing(points, Between::Next(3.0)).unwrap().ci.unwrap().low;
        assert_eq!(low(&points), 8.0);
        points[1].1.ci = points[1].1.ci.map(|ci| Interval { low: 0.999, ..ci });
        assert_eq!(low(&points), 5.0);
    }

    #[test]
    fn between_two_counts_it_is_interpolated_on_both_logarithms() {
        let [low, between, high] = at(&[4.0, 2.0, 0.5, 0.25], Between::Interpolated);
        assert!((between - 40.0_f64.sqrt()).abs() < 1e-9 && 5.0 < low && low < between);
        assert!(between < high && high < 8.0);
        for (ratios, expected) in [(&[2.0; 4], 11.0), (&[0.5; 4], 2.0)] {
            assert_eq!(at(ratios, Between::Interpolated), [expected; 3]);
        }
    }

    #[test]
    fn without_an_interval_everywhere_there_is_none() {
        let mut ratios = about(&[2.0, 1.5, 0.5, 0.4]);
        ratios[3].1.ci = None;
        let at = crossing(&ratios, Between::Interpolated).unwrap();
        assert!(at.ci.is_none() && 5.0 < at.estimate && at.estimate < 8.0);
        assert!(crossing(&[], Between::Interpolated).is_err());
    }
}
