//! A comparison and its word.
//!
//! "Different" and "equal" are two claims about one band of ±3 %, and each needs its own evidence: the whole 95 %
//! interval beyond the band, or the whole 90 % interval within. An interval that settles neither is *unknown*, and
//! says how many rounds would settle it.
//!
//! ```text
//!          faster   |  ·  unknown  ·  [ same or small ]  ·  unknown  ·  |   slower        (lower is better)
//!                                    0.97     1      1.03
//! ```

use std::fmt;

use crate::StatsError;
use crate::interval::{Estimate, Interval, two_sided};
use crate::mann_whitney::log_differences;
use crate::signed_rank::{WalshAverages, log_ratios};
use crate::stopping::StoppingRule;

/// The band of comparisons, ±3 %: within it two cases are the same for every practical purpose, and *faster* and
/// *slower* lie beyond it. No unit.
///
/// ```
/// assert_eq!(threadgauge_stats::BAND, 0.03);
/// ```
pub const BAND: f64 = 0.03;

/// Error rate of the interval that decides on *faster* and *slower*; twice it decides on *same*.
const ALPHA: f64 = 0.05;

/// From so many pairs on two cases may be called the same. The 90 % interval of five would exist.
const FEWEST_PAIRS: usize = 6;

/// Which direction of a metric is the good one.
///
/// ```
/// use threadgauge_stats::{Better, Outcome, compare_paired};
///
/// let (a, b) = ([100.0; 7], [200.0; 7]);
/// assert_eq!(compare_paired(&a, &b, Better::Lower)?.outcome, Outcome::Slower); // a time
/// assert_eq!(compare_paired(&a, &b, Better::Higher)?.outcome, Outcome::Faster); // a throughput
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
    /// `b` is better than `a` by more than 3 %, with the whole 95 % interval.
    Faster,
    /// `b` is worse than `a` by more than 3 %, with the whole 95 % interval.
    Slower,
    /// The 90 % interval lies within ±3 %: the two are equal for every practical purpose.
    Same,
    /// The 90 % interval lies within ±3 %, and the 95 % interval leaves 1 out: there is a difference, too small to
    /// count.
    Small,
    /// The interval settles nothing.
    Unknown {
        /// Rounds in all that would settle it, if the estimate holds: `n·(h/h_target)²`. `None` when there is no
        /// interval to reckon from, or it takes more rounds than a paper run has: then it cannot be settled here.
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
/// let c = compare_paired(&a, &a, Better::Lower)?;
/// assert_eq!((c.ratio, c.n, c.outcome.to_string().as_str()), (1.0, 7, "same"));
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The estimate of `b / a`, no unit.
    pub ratio: f64,
    /// Its interval at 95 %; `None` where n is too small.
    pub ci95: Option<Interval>,
    /// Its interval at twice the error rate, which decides on *same*.
    pub ci90: Option<Interval>,
    /// Rounds in common; of unpaired sides, the values of the smaller one; of sides of several runs, the runs of both.
    pub n: usize,
    /// The word for it.
    pub outcome: Outcome,
}

/// Whether A′/A, two copies of one case, lies wholly beyond ±3 %: then something disturbs the order, and no comparison
/// beside it means anything (METHOD rule 6).
///
/// ```
/// use threadgauge_stats::{null_misleads, paired_ratio};
///
/// let a = [10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.0];
/// assert!(!null_misleads(&paired_ratio(&a, &a.map(|v| 1.02 * v), 0.05)?));
/// assert!(null_misleads(&paired_ratio(&a, &a.map(|v| 1.05 * v), 0.05)?));
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[must_use]
pub fn null_misleads(null: &Estimate) -> bool {
    null.ci.is_some_and(|ci| beyond_band(&ci))
}

fn beyond_band(ci: &Interval) -> bool {
    ci.high < 1.0 - BAND || ci.low > 1.0 + BAND
}

/// Compares `b` with `a`, paired by round, at 95 % (METHOD rules 5 and 6).
///
/// # Errors
///
/// Different lengths, no values, or a value that is not finite and above 0.
///
/// ```
/// use threadgauge_stats::{Better, Outcome, compare_paired};
///
/// let a = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.1];
/// let b = a.map(|v| v * 0.8);
/// assert_eq!(compare_paired(&a, &b, Better::Lower)?.outcome, Outcome::Faster);
///
/// let few = compare_paired(&a[..4], &b[..4], Better::Lower)?;
/// assert_eq!(few.outcome, Outcome::Unknown { rounds_needed: None });
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn compare_paired(a: &[f64], b: &[f64], better: Better) -> Result<Comparison, StatsError> {
    let logs = log_ratios(a, b)?;
    let averages = WalshAverages::of(&logs);
    let interval = |alpha| averages.interval(alpha);
    Ok(Comparison::of_logs(
        averages.median(),
        interval,
        logs.len(),
        better,
    ))
}

/// Compares `b` with `a`, which have no rounds in common, at 95 % (METHOD rules 5 and 6).
///
/// # Errors
///
/// A side without values, or a value that is not finite and above 0.
///
/// ```
/// use threadgauge_stats::{Better, Outcome, compare_unpaired};
///
/// let monday = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.1];
/// let tuesday = [12.0, 12.1, 11.9, 12.2, 12.0];
/// assert_eq!(compare_unpaired(&monday, &tuesday, Better::Lower)?.outcome, Outcome::Slower);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
pub fn compare_unpaired(a: &[f64], b: &[f64], better: Better) -> Result<Comparison, StatsError> {
    let shift = log_differences(a, b)?;
    let interval = |alpha| shift.interval(alpha);
    Ok(Comparison::of_logs(
        shift.median(),
        interval,
        shift.smaller(),
        better,
    ))
}

impl Comparison {
    /// Of the logarithm of the ratio, and its interval at an error rate.
    fn of_logs(log_ratio: f64, interval: impl Fn(f64) -> Option<Interval>, n: usize, better: Better) -> Self {
        let [ci95, ci90] = [ALPHA, 2.0 * ALPHA].map(|alpha| Some(interval(alpha)?.map(f64::exp)));
        Self::new(log_ratio.exp(), [ci95, ci90], n, better, 0.0)
    }

    /// With the word for it. `between` is what differs between runs, the standard deviation of its logarithm: part of
    /// both intervals, and no round makes it less.
    pub(crate) fn new(
        ratio: f64,
        [ci95, ci90]: [Option<Interval>; 2],
        n: usize,
        better: Better,
        between: f64,
    ) -> Self {
        let settled = word([ci95, ci90], n, better);
        Self {
            ratio,
            ci95,
            ci90,
            n,
            outcome: settled.unwrap_or_else(|| Outcome::Unknown {
                rounds_needed: rounds_needed(ratio, [ci95, ci90], n, between),
            }),
        }
    }
}

/// Rule 6, from the strongest statement to none, which is unknown.
fn word([ci95, ci90]: [Option<Interval>; 2], n: usize, better: Better) -> Option<Outcome> {
    let (below, above) = match better {
        Better::Lower => (Outcome::Faster, Outcome::Slower),
        Better::Higher => (Outcome::Slower, Outcome::Faster),
    };
    if let Some(ci) = ci95.filter(beyond_band) {
        return Some(if ci.low > 1.0 { above } else { below });
    }
    let is_within = n >= FEWEST_PAIRS && ci90.is_some_and(|ci| ci.lies_within(1.0 - BAND, 1.0 + BAND));
    let off = ci95.is_some_and(|ci| !ci.contains(1.0));
    is_within.then_some(if off { Outcome::Small } else { Outcome::Same })
}

/// The rounds that would settle it: an interval shrinks as the root of n, but for what differs between runs, and must
/// shrink to the nearer bound of whichever word is cheaper to reach: `n·(h/h_target)²`, without that part of both.
/// `None` for more than a paper run takes.
fn rounds_needed(ratio: f64, [ci95, ci90]: [Option<Interval>; 2], n: usize, between: f64) -> Option<u64> {
    let off = (ratio - 1.0).abs();
    let rounds = |ci: Option<Interval>, target: f64| {
        let ci = ci?;
        let stays = (two_sided(ci.level) * between * ratio).powi(2);
        // What lies on the other side of the bound is no target.
        let may_stay = target.max(0.0).powi(2) - stays;
        (may_stay > 0.0).then(|| n as f64 * (ci.half_width().powi(2) - stays) / may_stay)
    };
    let both = [rounds(ci95, off - BAND), rounds(ci90, BAND - off)];
    let least = both.into_iter().flatten().min_by(f64::total_cmp)?;
    // The interval is not symmetric about the estimate, so the reckoning may say "as many as now".
    let rounds = (least.ceil() as u64).max(n as u64 + 1);
    (rounds <= StoppingRule::paper().rounds().into()).then_some(rounds)
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

    fn said(low: f64, high: f64) -> &'static str {
        let (ratio, ci) = (f64::midpoint(low, high), ci(low, high));
        match Comparison::new(ratio, [ci; 2], 10, Better::Lower, 0.0).outcome {
            Outcome::Faster => "faster",
            Outcome::Slower => "slower",
            Outcome::Same => "same",
            Outcome::Small => "small",
            Outcome::Unknown { .. } => "unknown",
        }
    }

    #[test]
    fn every_place_of_the_interval_has_its_word() {
        assert_eq!(said(0.80, 0.90), "faster");
        assert_eq!(said(1.04, 1.20), "slower");
        assert_eq!(said(0.98, 1.02), "same");
        assert_eq!(said(1.01, 1.02), "small"); // off 1, but equal in practice
        assert_eq!(said(1.01, 1.06), "unknown"); // off 1, but how far?
        assert_eq!(said(1.02, 1.05), "unknown");
        assert_eq!(said(0.90, 1.10), "unknown");
    }

    #[test]
    fn five_pairs_are_never_the_same() {
        let outcome = |n| {
            let a = &[100.0, 101.0, 99.0, 100.0, 100.5, 99.5][..n];
            compare_paired(a, a, Better::Lower).unwrap().outcome
        };
        assert!(matches!(outcome(5), Outcome::Unknown { .. }));
        assert_eq!(outcome(6), Outcome::Same);
    }

    /// Of six rounds one is off: the 95 % interval reaches it, the 90 % interval does not.
    fn one_off(b: f64, off: f64) -> Comparison {
        let c = compare_paired(&[100.0; 6], &[b, b, b, off, b, b], Better::Lower).unwrap();
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
    fn without_an_interval_nothing_is_known() {
        assert_eq!(
            Comparison::new(2.0, [None; 2], 4, Better::Lower, 0.0).outcome,
            Outcome::Unknown { rounds_needed: None }
        );
    }

    fn needed(ratio: f64, ci: Option<Interval>, n: usize) -> Option<u64> {
        rounds_needed(ratio, [ci; 2], n, 0.0)
    }

    #[test]
    fn the_rounds_needed_are_those_of_the_nearest_word() {
        // h = 0.05 must shrink to 0.03 around 1: 10 · (5/3)² = 27.8
        assert_eq!(needed(1.0, ci(0.95, 1.05), 10), Some(28));
        // h = 0.04 must shrink to 0.02 beyond 1.03: 10 · 4
        assert_eq!(needed(1.05, ci(1.01, 1.09), 10), Some(40));
        // exactly on the bound, no number of rounds will do
        assert_eq!(needed(1.03, ci(0.95, 1.15), 10), None);
    }

    #[test]
    fn more_rounds_than_a_paper_run_takes_are_no_advice() {
        // 10 · 4.2² and, near the bound, nearly a million.
        assert_eq!(needed(1.05, ci(0.966, 1.134), 10), None);
        assert_eq!(needed(1.0303, ci(0.95, 1.15), 10), None);
        // Of 40 rounds none is left.
        assert_eq!(needed(1.0, ci(0.95, 1.05), 40), None);
    }

    #[test]
    fn each_word_has_the_interval_of_its_own_level() {
        let [wide, narrow] = [ci(0.90, 1.10), ci(0.95, 1.05)];
        // To be the same the narrow one, 10 · (5/3)²; to differ the wide one: h = 0.1 must shrink to 0.05.
        assert_eq!(rounds_needed(1.0, [wide, narrow], 10, 0.0), Some(28));
        assert_eq!(rounds_needed(1.08, [wide, narrow], 10, 0.0), Some(40));
        let values: Vec<f64> = (1..=20).map(|i| 100.0 + f64::from(i)).collect();
        let compared = compare_paired(&[100.0; 20], &values, Better::Lower).unwrap();
        let [wide, narrow] = [compared.ci95, compared.ci90].map(|ci| ci.unwrap().level);
        assert!(wide >= 0.95 && (0.9..0.95).contains(&narrow), "{compared:?}");
    }

    #[test]
    fn what_differs_between_runs_stays_however_many_rounds_there_are() {
        // Of 0.6 and of the 0.47 that lie beyond the band 1.96 · 0.1 · 0.5 stays: 10 · 0.3504 / 0.2113.
        let far = rounds_needed(0.5, [ci(0.2, 1.4); 2], 10, 0.1);
        assert_eq!(far, Some(17));
        // Where it is wider than the target nothing settles it.
        assert_eq!(rounds_needed(1.0, [ci(0.95, 1.05); 2], 10, 0.02), None);
    }

    #[test]
    fn what_is_unknown_wants_at_least_one_round_more() {
        assert_eq!(needed(1.0, ci(0.999, 1.001), 10), Some(11));
    }

    #[test]
    fn an_interval_that_ends_at_the_band_is_not_beyond_it() {
        let is_beyond = |low: f64, high: f64| beyond_band(&ci(low, high).unwrap());
        assert!(!is_beyond(0.9, 1.0 - BAND) && is_beyond(0.9, 0.969));
        assert!(!is_beyond(1.0 + BAND, 1.2) && is_beyond(1.031, 1.2));
        let null = |ci| Estimate {
            estimate: 1.0,
            ci,
            n: 7,
        };
        assert!(null_misleads(&null(ci(1.04, 1.06))));
        assert!(!null_misleads(&null(ci(0.99, 1.02))) && !null_misleads(&null(None)));
    }

    #[test]
    fn each_outcome_has_its_word() {
        let unknown = Outcome::Unknown {
            rounds_needed: Some(9),
        };
        let all = [
            Outcome::Faster,
            Outcome::Slower,
            Outcome::Same,
            Outcome::Small,
            unknown,
        ];
        let words = all.map(|outcome| outcome.to_string());
        assert_eq!(words, ["faster", "slower", "same", "small", "unknown"]);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert!(compare_paired(&[1.0], &[f64::NAN], Better::Lower).is_err());
    }

    proptest! {
        #[test]
        fn swapping_the_direction_swaps_the_word(
            pairs in prop::collection::vec((90.0..110.0_f64, 90.0..130.0_f64), 1..20),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let lower = compare_paired(&a, &b, Better::Lower).unwrap();
            let higher = compare_paired(&a, &b, Better::Higher).unwrap();
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
            let c = compare_unpaired(&a, &b, Better::Lower).unwrap();
            let (wide, narrow) = (c.ci95.unwrap(), c.ci90.unwrap());
            prop_assert!(narrow.lies_within(wide.low, wide.high) && narrow.contains(c.ratio));
        }
    }
}
