//! A comparison and its word.
//!
//! Two bands, because "different" and "equal" are two claims and each needs its own evidence.
//! Outside the wide band (δ, at least 3 %, widened by what the null control shows) lie *faster* and
//! *slower*; inside the fixed band (3 %, which noise never widens) lies *same*. An interval that
//! settles neither is *unknown*, and says how many rounds would settle it.
//!
//! ```text
//!          faster   |  ·  ·  small  ·  [ same ]  ·  small  ·  ·  |   slower        (lower is better)
//!                 1 - δ              0.97  1  1.03             1 + δ
//! ```

use std::fmt;

use crate::StatsError;
use crate::error::rate;
use crate::interval::{Estimate, Interval};
use crate::mann_whitney::log_differences;
use crate::signed_rank::{WalshAverages, log_ratios};

/// The fixed band of *same*, ±3 %, and the least δ of *faster* and *slower*. No unit.
///
/// ```
/// assert_eq!(threadgauge_stats::SAME_BAND, 0.03);
/// ```
pub const SAME_BAND: f64 = 0.03;

/// More rounds than this are no plan, and none is proposed.
const MOST_ROUNDS: f64 = 1e6;

/// Which direction of a metric is the good one.
///
/// ```
/// use threadgauge_stats::{Better, Outcome, compare_paired};
///
/// let (a, b) = ([100.0; 7], [200.0; 7]);
/// assert_eq!(compare_paired(&a, &b, Better::Lower, 0.03)?.outcome, Outcome::Slower); // a time
/// assert_eq!(compare_paired(&a, &b, Better::Higher, 0.03)?.outcome, Outcome::Faster); // a throughput
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Better {
    /// Times, sizes, costs.
    Lower,
    /// Rates.
    Higher,
}

/// The word for a comparison of `b` with `a` (METHOD rule 6). `Display` gives the word alone.
///
/// ```
/// use threadgauge_stats::Outcome;
///
/// assert_eq!(Outcome::Faster.to_string(), "faster");
/// assert_eq!(Outcome::Unknown { rounds_needed: Some(31) }.to_string(), "unknown");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// `b` is better than `a` by more than δ, with the whole 95 % interval.
    Faster,
    /// `b` is worse than `a` by more than δ, with the whole 95 % interval.
    Slower,
    /// The 90 % interval lies within ±3 %: the two are equal for every practical purpose.
    Same,
    /// The 95 % interval leaves 1 out, but lies within δ: there is a difference, and this machine's
    /// noise does not let it count.
    Small,
    /// The interval settles nothing.
    Unknown {
        /// Rounds in all that would settle it, if the estimate holds: `n·(h/h_target)²`. `None`
        /// when there is no interval to reckon from, or no practical number would do.
        rounds_needed: Option<u64>,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Small => "small",
            Self::Unknown { .. } => "unknown",
        })
    }
}

/// Two cases, set against each other.
///
/// ```
/// use threadgauge_stats::{Better, compare_paired};
///
/// let a = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.1];
/// let c = compare_paired(&a, &a, Better::Lower, 0.03)?;
/// assert_eq!((c.ratio, c.n, c.outcome.to_string().as_str()), (1.0, 7, "same"));
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The estimate of `b / a`, no unit.
    pub ratio: f64,
    /// Its interval at 95 %, or at the level of the look it was made at; `None` where n is too
    /// small.
    pub ci95: Option<Interval>,
    /// Its interval at twice the error rate, which decides on *same*.
    pub ci90: Option<Interval>,
    /// Rounds in common; of unpaired sides, the values of the smaller one.
    pub n: usize,
    /// The word for it.
    pub outcome: Outcome,
}

/// Whether the values have rounds in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// The i-th values of both sides come from one round.
    Paired,
    /// The sides come from different runs.
    Unpaired,
}

/// The terms of a comparison, fixed before it is made.
///
/// ```
/// use threadgauge_stats::{Better, Pairing, StoppingRule, Terms, compare_with};
///
/// // At one of several looks the error rate is that of the look, not 5 %.
/// let terms = Terms { alpha: StoppingRule::standard().alpha_per_look(), ..Terms::paired(Better::Lower, 0.03) };
/// let a = [10.0; 15];
/// assert!(compare_with(&a, &a, terms)?.ci95.unwrap().level >= 0.977);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Whether the values have rounds in common.
    pub pairing: Pairing,
    /// Which direction is the good one.
    pub better: Better,
    /// δ: what *faster* and *slower* must exceed, no unit; from [`null_band`].
    pub delta: f64,
    /// Error rate of the interval that decides on *faster* and *slower*; twice it decides on
    /// *same*.
    pub alpha: f64,
}

impl Terms {
    /// Paired by round, at 95 %.
    ///
    /// ```
    /// # use threadgauge_stats::{Better, Terms};
    /// assert_eq!(Terms::paired(Better::Lower, 0.03).alpha, 0.05);
    /// ```
    #[must_use]
    pub fn paired(better: Better, delta: f64) -> Self {
        Self {
            pairing: Pairing::Paired,
            better,
            delta,
            alpha: 0.05,
        }
    }

    /// Without rounds in common, at 95 %.
    ///
    /// ```
    /// # use threadgauge_stats::{Better, Pairing, Terms};
    /// assert_eq!(Terms::unpaired(Better::Lower, 0.03).pairing, Pairing::Unpaired);
    /// ```
    #[must_use]
    pub fn unpaired(better: Better, delta: f64) -> Self {
        Self {
            pairing: Pairing::Unpaired,
            ..Self::paired(better, delta)
        }
    }
}

/// δ, the band that *faster* and *slower* must leave: 3 %, or the half-width of the interval of
/// A′/A where that is larger (METHOD rule 6). No unit. Of two folders, the caller takes the larger.
///
/// Without an interval nothing is known of the noise, and δ is infinite: no comparison is then
/// *faster*, *slower* or *small*.
///
/// ```
/// use threadgauge_stats::{SAME_BAND, null_band, paired_ratio};
///
/// let a = [10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0];
/// assert_eq!(null_band(&paired_ratio(&a, &a, 0.05)?), SAME_BAND);
/// assert_eq!(null_band(&paired_ratio(&a[..3], &a[..3], 0.05)?), f64::INFINITY);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[must_use]
pub fn null_band(null: &Estimate) -> f64 {
    match null.ci.map(|ci| ci.half_width()) {
        Some(half) if half.is_finite() => half.max(SAME_BAND),
        _ => f64::INFINITY,
    }
}

/// Compares `b` with `a`, paired by round, at 95 % (METHOD rules 5 and 6).
///
/// # Errors
///
/// Different lengths, no values, a value that is not finite and above 0, or a `delta` that is
/// negative or NaN.
///
/// ```
/// use threadgauge_stats::{Better, Outcome, compare_paired};
///
/// let a = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.1];
/// let b = a.map(|v| v * 0.8);
/// assert_eq!(compare_paired(&a, &b, Better::Lower, 0.03)?.outcome, Outcome::Faster);
///
/// let few = compare_paired(&a[..4], &b[..4], Better::Lower, 0.03)?;
/// assert_eq!(few.outcome, Outcome::Unknown { rounds_needed: None });
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn compare_paired(a: &[f64], b: &[f64], better: Better, delta: f64) -> Result<Comparison, StatsError> {
    compare_with(a, b, Terms::paired(better, delta))
}

/// Compares `b` with `a`, which have no rounds in common, at 95 % (METHOD rules 5 and 6).
///
/// # Errors
///
/// A side without values, a value that is not finite and above 0, or a `delta` that is negative or
/// NaN.
///
/// ```
/// use threadgauge_stats::{Better, Outcome, compare_unpaired};
///
/// let monday = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.1];
/// let tuesday = [12.0, 12.1, 11.9, 12.2, 12.0];
/// assert_eq!(compare_unpaired(&monday, &tuesday, Better::Lower, 0.03)?.outcome, Outcome::Slower);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn compare_unpaired(a: &[f64], b: &[f64], better: Better, delta: f64) -> Result<Comparison, StatsError> {
    compare_with(a, b, Terms::unpaired(better, delta))
}

/// Compares `b` with `a` on the terms given, such as the error rate of one look of several.
///
/// # Errors
///
/// Those of [`compare_paired`] or [`compare_unpaired`], and an `alpha` outside (0, ½), since twice
/// of it must still be an error rate.
///
/// ```
/// use threadgauge_stats::{Better, Terms, compare_paired, compare_with};
///
/// let (a, b) = ([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]);
/// assert_eq!(
///     compare_with(&a, &b, Terms::paired(Better::Lower, 0.03))?,
///     compare_paired(&a, &b, Better::Lower, 0.03)?
/// );
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn compare_with(a: &[f64], b: &[f64], terms: Terms) -> Result<Comparison, StatsError> {
    let Terms {
        pairing,
        better,
        delta,
        alpha,
    } = terms;
    rate(alpha)?;
    if alpha >= 0.5 {
        return Err(StatsError::BadAlpha { alpha });
    }
    if delta.is_nan() || delta < 0.0 {
        return Err(StatsError::BadBand { delta });
    }
    let (log_ratio, narrow, wide, n) = match pairing {
        Pairing::Paired => {
            let logs = log_ratios(a, b)?;
            let averages = WalshAverages::of(&logs);
            (
                averages.median(),
                averages.interval(2.0 * alpha),
                averages.interval(alpha),
                logs.len(),
            )
        }
        Pairing::Unpaired => {
            let shift = log_differences(a, b)?;
            (
                shift.median(),
                shift.interval(2.0 * alpha),
                shift.interval(alpha),
                shift.smaller(),
            )
        }
    };
    let ratio = log_ratio.exp();
    let ci95 = wide.map(|ci| ci.map(f64::exp));
    let ci90 = narrow.map(|ci| ci.map(f64::exp));
    Ok(Comparison {
        ratio,
        ci95,
        ci90,
        n,
        outcome: word(ratio, ci95, ci90, n, better, delta),
    })
}

/// Rule 6, from the strongest statement to none.
fn word(
    ratio: f64,
    ci95: Option<Interval>,
    ci90: Option<Interval>,
    n: usize,
    better: Better,
    delta: f64,
) -> Outcome {
    let (below, above) = match better {
        Better::Lower => (Outcome::Faster, Outcome::Slower),
        Better::Higher => (Outcome::Slower, Outcome::Faster),
    };
    if let Some(ci) = ci95 {
        if ci.high < 1.0 - delta {
            return below;
        }
        if ci.low > 1.0 + delta {
            return above;
        }
    }
    if ci90.is_some_and(|ci| ci.lies_within(1.0 - SAME_BAND, 1.0 + SAME_BAND)) {
        return Outcome::Same;
    }
    if delta.is_finite()
        && ci95.is_some_and(|ci| !ci.contains(1.0) && ci.lies_within(1.0 - delta, 1.0 + delta))
    {
        return Outcome::Small;
    }
    Outcome::Unknown {
        rounds_needed: rounds_needed(ratio, ci95, ci90, n, delta),
    }
}

/// The rounds that would settle it: an interval shrinks as the root of n, and must shrink to the
/// nearest bound of whichever word is cheapest to reach. `n·(h/h_target)²`.
fn rounds_needed(
    ratio: f64,
    ci95: Option<Interval>,
    ci90: Option<Interval>,
    n: usize,
    delta: f64,
) -> Option<u64> {
    let off = (ratio - 1.0).abs();
    let rounds = |ci: Option<Interval>, target: f64| match ci {
        Some(ci) if target > 0.0 && target.is_finite() => n as f64 * (ci.half_width() / target).powi(2),
        _ => f64::INFINITY,
    };
    let beyond = rounds(ci95, off - delta);
    let same = rounds(ci90, SAME_BAND - off);
    let small = if delta.is_finite() {
        rounds(ci95, off.min(delta - off))
    } else {
        f64::INFINITY
    };
    let least = beyond.min(same).min(small);
    // The interval is not symmetric about the estimate, so the reckoning may say "as many as now".
    (least <= MOST_ROUNDS).then(|| (least.ceil() as u64).max(n as u64 + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ci(low: f64, high: f64) -> Option<Interval> {
        Some(Interval {
            low,
            high,
            level: 0.95,
        })
    }

    fn said(low: f64, high: f64, delta: f64) -> &'static str {
        let (ratio, ci) = (f64::midpoint(low, high), ci(low, high));
        match word(ratio, ci, ci, 10, Better::Lower, delta) {
            Outcome::Faster => "faster",
            Outcome::Slower => "slower",
            Outcome::Same => "same",
            Outcome::Small => "small",
            Outcome::Unknown { .. } => "unknown",
        }
    }

    #[test]
    fn every_place_of_the_interval_has_its_word() {
        assert_eq!(said(0.80, 0.90, 0.03), "faster");
        assert_eq!(said(1.04, 1.20, 0.03), "slower");
        assert_eq!(said(0.98, 1.02, 0.03), "same");
        assert_eq!(said(1.01, 1.02, 0.03), "same"); // off 1, but equal in practice
        assert_eq!(said(1.02, 1.05, 0.06), "small"); // off 1, within the machine's noise
        assert_eq!(said(1.01, 1.06, 0.03), "unknown"); // off 1, but how far?
        assert_eq!(said(0.90, 1.10, 0.03), "unknown");
    }

    /// Of six rounds one is off: the 95 % interval reaches it, the 90 % interval does not.
    fn one_off(b: f64, off: f64) -> Comparison {
        let c = compare_paired(&[100.0; 6], &[b, b, b, off, b, b], Better::Lower, 0.03).unwrap();
        let near_it = (0.9 * off + 0.1 * b) / 100.0;
        assert!(c.ci95.unwrap().contains(near_it) && !c.ci90.unwrap().contains(near_it));
        c
    }

    #[test]
    fn equality_is_decided_on_the_90_per_cent_interval() {
        assert_eq!(one_off(100.0, 104.0).outcome, Outcome::Same);
        assert_eq!(one_off(100.0, 96.0).outcome, Outcome::Same);
    }

    #[test]
    fn a_difference_is_decided_on_the_95_per_cent_interval() {
        for c in [one_off(110.0, 101.0), one_off(90.0, 99.0)] {
            assert!(matches!(c.outcome, Outcome::Unknown { .. }), "{c:?}");
        }
    }

    #[test]
    fn noise_widens_the_band_of_difference_but_never_that_of_equality() {
        assert_eq!(said(0.95, 1.05, 0.03), "unknown");
        assert_eq!(said(0.95, 1.05, 0.20), "unknown");
        assert_eq!(said(1.10, 1.15, 0.03), "slower");
        assert_eq!(said(1.10, 1.15, 0.20), "small");
    }

    #[test]
    fn an_unknown_band_allows_equality_and_nothing_else() {
        assert_eq!(said(0.99, 1.01, f64::INFINITY), "same");
        assert_eq!(said(2.00, 2.10, f64::INFINITY), "unknown");
        assert_eq!(said(0.10, 0.20, f64::INFINITY), "unknown");
    }

    #[test]
    fn without_an_interval_nothing_is_known() {
        assert_eq!(
            word(2.0, None, None, 4, Better::Lower, 0.03),
            Outcome::Unknown { rounds_needed: None }
        );
    }

    #[test]
    fn the_rounds_needed_are_those_of_the_nearest_word() {
        // h = 0.05 must shrink to 0.03 around 1: 10 · (5/3)² = 27.8
        assert_eq!(
            rounds_needed(1.0, ci(0.95, 1.05), ci(0.95, 1.05), 10, 0.03),
            Some(28)
        );
        // h = 0.10 must shrink to 0.02 beyond 1.03: 10 · 25
        assert_eq!(
            rounds_needed(1.05, ci(0.95, 1.15), ci(0.95, 1.15), 10, 0.03),
            Some(250)
        );
        // exactly on the bound, no number of rounds will do
        assert_eq!(
            rounds_needed(1.03, ci(0.95, 1.15), ci(0.95, 1.15), 10, 0.03),
            None
        );
    }

    #[test]
    fn a_band_that_is_none_is_refused() {
        assert!(matches!(
            compare_paired(&[1.0], &[1.0], Better::Lower, f64::NAN),
            Err(StatsError::BadBand { .. })
        ));
        let half = Terms {
            alpha: 0.5,
            ..Terms::paired(Better::Lower, 0.03)
        };
        assert!(matches!(
            compare_with(&[1.0], &[1.0], half),
            Err(StatsError::BadAlpha { .. })
        ));
        assert!(compare_paired(&[1.0], &[f64::NAN], Better::Lower, 0.03).is_err());
    }

    proptest! {
        #[test]
        fn swapping_the_direction_swaps_the_word(
            pairs in prop::collection::vec((90.0..110.0_f64, 90.0..130.0_f64), 1..20),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let lower = compare_paired(&a, &b, Better::Lower, 0.03).unwrap();
            let higher = compare_paired(&a, &b, Better::Higher, 0.03).unwrap();
            let swapped = match lower.outcome {
                Outcome::Faster => Outcome::Slower,
                Outcome::Slower => Outcome::Faster,
                other => other,
            };
            prop_assert_eq!(higher.outcome, swapped);
        }

        #[test]
        fn the_narrower_interval_lies_in_the_wider(
            a in prop::collection::vec(1.0..9.0_f64, 6..20),
            b in prop::collection::vec(1.0..9.0_f64, 6..20),
        ) {
            let c = compare_unpaired(&a, &b, Better::Lower, 0.03).unwrap();
            let (wide, narrow) = (c.ci95.unwrap(), c.ci90.unwrap());
            prop_assert!(narrow.lies_within(wide.low, wide.high) && narrow.contains(c.ratio));
        }
    }
}
