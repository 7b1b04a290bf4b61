//! Two runs that did not take turns: what all cases share, and what one of them does beside the others.
//!
//! Between two runs the machine's level moves, all cases together, by more than the rounds of either show. Whether it
//! is the machine or the change that was made to everything cannot be told. So the median over cases is taken off, and
//! a case is judged by its departure from it. Departures of equal cases differ between runs too (memory layout, luck
//! with the hypervisor), and no null control within a run shows how much. They are seen in the departures of all the
//! cases of these two runs, most of which nothing happened to.

use crate::compare::{Better, Comparison};
use crate::interval::{Interval, two_sided};
use crate::select::{middle, sorted};

/// With fewer cases neither the median nor the spread around it says much of the machine.
pub(crate) const FEWEST_CASES: usize = 10;
/// The standard deviation of normal values over their median distance from the median.
const OVER_MAD: f64 = 1.4826;

/// What the cases of two runs have in common.
///
/// ```
/// use threadgauge_stats::{Better, Level, Outcome, compare_unpaired};
///
/// let times = |base: f64| [1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.001].map(|v| base * v);
/// // Twelve cases take 5 % longer in the second run, and the last 30 %.
/// let mut cells = Vec::new();
/// for case in 1..=13 {
///     let factor = if case == 13 { 1.30 } else { 1.05 };
///     cells.push(compare_unpaired(&times(f64::from(case)), &times(factor * f64::from(case)), Better::Lower)?);
/// }
/// let level = Level::of(&cells).unwrap();
/// assert!((level.ratio - 1.05).abs() < 0.001);
/// assert_eq!(level.departure(&cells[0], Better::Lower).outcome, Outcome::Same);
/// assert_eq!(level.departure(&cells[12], Better::Lower).outcome, Outcome::Slower);
/// # Ok::<(), threadgauge_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The median over cases of second over first, no unit: the machine's level or a change to all; which, is unknown.
    pub ratio: f64,
    /// The standard deviation of the logarithms of departures beyond what the rounds explain (no unit).
    pub spread: f64,
    /// How many cases it rests on.
    pub cases: usize,
}

impl Level {
    /// Of unpaired comparisons. `None` where fewer than 10 have an interval: then nothing can be told apart.
    #[must_use]
    pub fn of(cells: &[Comparison]) -> Option<Self> {
        let within = |c: &Comparison| {
            let ci = c.ci95?.map(f64::ln);
            Some((c.ratio.ln(), ci.half_width() / two_sided(ci.level)))
        };
        let (shifts, errors): (Vec<f64>, Vec<f64>) = cells.iter().filter_map(within).unzip();
        if shifts.len() < FEWEST_CASES {
            return None;
        }
        let median = |values: &[f64]| middle(&sorted(values));
        let shift = median(&shifts);
        let departures: Vec<f64> = shifts.iter().map(|s| (s - shift).abs()).collect();
        let found = OVER_MAD * median(&departures);
        let explained = median(&errors);
        Some(Self {
            ratio: shift.exp(),
            spread: (found.powi(2) - explained.powi(2)).max(0.0).sqrt(),
            cases: shifts.len(),
        })
    }

    /// A case against the others: its ratio over that of all, the interval widened by the spread of departures.
    #[must_use]
    pub fn departure(&self, cell: &Comparison, better: Better) -> Comparison {
        let ratio = cell.ratio / self.ratio;
        let widened = |ci: Interval| {
            let more = two_sided(ci.level) * self.spread;
            let end = |end: f64| (end / cell.ratio).ln().hypot(more);
            Interval {
                low: ratio * (-end(ci.low)).exp(),
                high: ratio * end(ci.high).exp(),
                level: ci.level,
            }
        };
        let both = [cell.ci95, cell.ci90].map(|ci| ci.map(widened));
        Comparison::new(ratio, both, cell.n, better, self.spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Outcome, compare_unpaired};

    fn shifted(factors: impl IntoIterator<Item = f64>) -> Vec<Comparison> {
        let base = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01];
        let compared = |factor: f64| compare_unpaired(&base, &base.map(|v| factor * v), Better::Lower);
        factors
            .into_iter()
            .map(|f| compared(f).expect("positive"))
            .collect()
    }

    #[test]
    fn few_cases_have_no_level() {
        assert_eq!(Level::of(&shifted([1.1; 9])), None);
        assert!(Level::of(&shifted([1.1; 10])).is_some());
    }

    #[test]
    fn what_the_rounds_explain_is_not_added_again() {
        assert_eq!(Level::of(&shifted([1.1; 12])).unwrap().spread, 0.0);
    }

    #[test]
    fn a_few_that_changed_do_not_widen_the_rest() {
        let quiet = || (0..20).map(|i| 1.0 + 0.001 * f64::from(i));
        let before = Level::of(&shifted(quiet())).unwrap();
        let after = Level::of(&shifted(quiet().chain([2.0, 2.0, 2.0]))).unwrap();
        assert!(
            (after.ratio / before.ratio - 1.0).abs() < 0.01 && after.spread < 0.01,
            "{after:?}"
        );
    }

    #[test]
    fn rounds_settle_nothing_that_differs_between_runs() {
        let scattered = shifted((0..20).map(|i| 0.8 + 0.02 * f64::from(i)));
        let level = Level::of(&scattered).unwrap();
        let of = |cell: &Comparison| level.departure(cell, Better::Lower).outcome;
        let unknown = scattered
            .iter()
            .map(of)
            .filter(|of| matches!(of, Outcome::Unknown { .. }));
        let unknown: Vec<Outcome> = unknown.collect();
        assert!(unknown.len() > 8, "{unknown:?}");
        assert!(
            unknown
                .iter()
                .all(|of| *of == Outcome::Unknown { rounds_needed: None }),
            "{unknown:?}"
        );
    }

    #[test]
    fn departures_that_scatter_widen_every_interval() {
        let scattered = shifted((0..20).map(|i| 0.8 + 0.02 * f64::from(i)));
        let level = Level::of(&scattered).unwrap();
        assert!(level.spread > 0.08, "{level:?}");
        let narrow = scattered[10].ci95.unwrap();
        let wide = level.departure(&scattered[10], Better::Lower).ci95.unwrap();
        assert!(wide.half_width() > 2.0 * narrow.half_width(), "{wide:?}");
    }

    /// A case with this ratio, whose interval reaches so far to either side, as a logarithm.
    fn about(ratio: f64, reach: f64) -> Comparison {
        let ci = |level: f64| {
            Some(Interval {
                low: ratio * (-reach).exp(),
                high: ratio * reach.exp(),
                level,
            })
        };
        Comparison::new(ratio, [ci(0.95), ci(0.9)], 7, Better::Lower, 0.0)
    }

    #[test]
    fn the_spread_is_what_departures_have_beyond_their_own_errors() {
        // Departures of 0.1 to either side, each with a standard error of 0.03.
        let ratio = |i: i32| f64::exp(0.2 + if i % 2 == 0 { 0.1 } else { -0.1 });
        let cells: Vec<Comparison> = (0..12).map(|i| about(ratio(i), 0.03 * 1.959_964)).collect();
        let level = Level::of(&cells).unwrap();
        let spread = ((OVER_MAD * 0.1).powi(2) - 0.03_f64.powi(2)).sqrt();
        assert!(
            (level.ratio - 0.2_f64.exp()).abs() < 1e-9 && level.cases == 12,
            "{level:?}"
        );
        assert!((level.spread - spread).abs() < 1e-6, "{level:?} {spread}");
    }

    #[test]
    fn a_departure_is_a_ratio_over_the_level_with_the_spread_in_both_its_intervals() {
        let level = Level {
            ratio: 1.25,
            spread: 0.1,
            cases: 12,
        };
        let departure = level.departure(&about(2.0, 0.3), Better::Lower);
        assert!((departure.ratio - 1.6).abs() < 1e-12);
        for (ci, sigmas) in [(departure.ci95, 1.959_964), (departure.ci90, 1.644_854)] {
            let (ci, reach) = (ci.unwrap(), 0.3_f64.hypot(0.1 * sigmas));
            assert!((ci.low - 1.6 * (-reach).exp()).abs() < 1e-6, "{ci:?}");
            assert!((ci.high - 1.6 * reach.exp()).abs() < 1e-6, "{ci:?}");
        }
    }
}
