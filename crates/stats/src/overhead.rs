//! What is left once a cost is taken away.
//!
//! An overhead is small beside what it is measured with, so the difference of two medians is mostly
//! noise, and a negative one is nonsense in print. Here it is estimated from interleaved pairs, and
//! where the interval spans 0 the answer is "below resolution", whatever the estimate.

use crate::StatsError;
use crate::error::paired;
use crate::interval::Interval;
use crate::signed_rank::hodges_lehmann;

/// A paired difference, in the values' unit.
///
/// ```
/// use threadgauge_stats::paired_difference;
///
/// let d = paired_difference(&[5.0, 6.0, 7.0], &[4.0, 5.0, 6.0], 0.05)?;
/// assert!(d.below_resolution); // three rounds resolve nothing at 95 %
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The Hodges–Lehmann estimate of `with - without`. Not to be printed when below resolution.
    pub estimate: f64,
    /// Its exact signed-rank interval; `None` where so few rounds cannot reach the level.
    pub ci: Option<Interval>,
    /// Rounds it rests on.
    pub n: usize,
    /// Whether the interval spans 0 or is missing: print "below resolution", never the number.
    pub below_resolution: bool,
}

/// The cost of doing something: `with` it minus `without` it, paired by round (METHOD rule 11).
///
/// # Errors
///
/// Different lengths, no values, a value that is not finite, or an `alpha` outside (0, 1).
///
/// ```
/// use threadgauge_stats::paired_difference;
///
/// let with = [12.1, 12.0, 12.3, 11.9, 12.2, 12.0];
/// let without = [10.0, 10.1, 10.2, 9.8, 10.1, 10.0];
/// let cost = paired_difference(&with, &without, 0.05)?;
/// assert!(!cost.below_resolution && (cost.estimate - 2.05).abs() < 0.1);
///
/// let nothing = paired_difference(&without, &[10.1, 10.0, 10.1, 9.9, 10.0, 10.1], 0.05)?;
/// assert!(nothing.below_resolution);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn paired_difference(with: &[f64], without: &[f64], alpha: f64) -> Result<Difference, StatsError> {
    paired(with, without)?;
    crate::error::finite(with)?;
    crate::error::finite(without)?;
    let differences: Vec<f64> = with.iter().zip(without).map(|(w, o)| w - o).collect();
    let shift = hodges_lehmann(&differences, alpha)?;
    Ok(Difference {
        estimate: shift.estimate,
        ci: shift.ci,
        n: shift.n,
        below_resolution: shift.ci.is_none_or(|ci| ci.contains(0.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_touches_nought_is_below_resolution() {
        let with = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let same = paired_difference(&with, &with, 0.05).expect("finite");
        assert!(same.below_resolution);
        assert_eq!((same.estimate, same.n), (0.0, 6));
    }

    #[test]
    fn a_saving_is_resolved_too() {
        let d = paired_difference(&[1.0; 6], &[2.0; 6], 0.05).expect("finite");
        assert!(!d.below_resolution && d.estimate == -1.0);
    }

    #[test]
    fn rounds_that_lack_a_side_are_refused() {
        assert!(matches!(
            paired_difference(&[1.0], &[], 0.05),
            Err(StatsError::LengthMismatch { a: 1, b: 0 })
        ));
    }
}
