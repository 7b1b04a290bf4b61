//! When enough has been measured.
//!
//! Whoever stops as soon as the figures please will be pleased by noise. So the looks are named
//! beforehand, each has its share of the error rate, and what is looked at is the *width* of the
//! intervals, never their place.

use std::fmt;

use crate::pocock::pocock_alpha;

/// When to look, and how narrow is narrow enough (METHOD rule 7).
///
/// ```
/// use threadgauge_stats::{Reason, Step, StoppingRule};
///
/// let rule = StoppingRule::standard();
/// assert_eq!(rule.decide(10, &[Some(0.05)]), Step::Continue); // too wide
/// assert_eq!(rule.decide(12, &[Some(0.01)]), Step::Continue); // no look is due
/// assert_eq!(rule.decide(15, &[Some(0.01)]), Step::Stop(Reason::Precision));
/// assert_eq!(rule.decide(20, &[Some(0.05)]), Step::Stop(Reason::Rounds));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct StoppingRule {
    /// The rounds after which to look, ascending. The last is the most there will be.
    pub looks: Vec<u32>,
    /// Narrow enough: the half-width of an interval as a share of its estimate, no unit. 0 means
    /// that precision never ends a run early.
    pub epsilon: f64,
}

/// What to do after a round.
///
/// ```
/// use threadgauge_stats::{Step, StoppingRule};
///
/// assert_eq!(StoppingRule::quick().decide(3, &[]), Step::Continue);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Measure another round.
    Continue,
    /// Stop, and store the reason.
    Stop(Reason),
}

/// Why a run ended by its rule. (That its time was up, the rule cannot know.) `Display` gives the
/// word that is stored.
///
/// ```
/// assert_eq!(threadgauge_stats::Reason::Precision.to_string(), "precision");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// All rounds are done.
    Rounds,
    /// Every primary interval is narrow enough.
    Precision,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rounds => "rounds",
            Self::Precision => "precision",
        })
    }
}

impl StoppingRule {
    /// Looks at 7, 10 and 14 rounds. Precision ends nothing: what is open does not stay open for being known well.
    ///
    /// ```
    /// assert_eq!(threadgauge_stats::StoppingRule::quick().looks, [7, 10, 14]);
    /// ```
    #[must_use]
    pub fn quick() -> Self {
        Self {
            looks: vec![7, 10, 14],
            epsilon: 0.0,
        }
    }

    /// Looks at 10, 15 and 20 rounds, for a half-width of 2 %.
    ///
    /// ```
    /// assert_eq!(threadgauge_stats::StoppingRule::standard().epsilon, 0.02);
    /// ```
    #[must_use]
    pub fn standard() -> Self {
        Self {
            looks: vec![10, 15, 20],
            epsilon: 0.02,
        }
    }

    /// Looks at 10, 20, 30 and 40 rounds, for a half-width of 1 %.
    ///
    /// ```
    /// assert_eq!(threadgauge_stats::StoppingRule::paper().rounds(), 40);
    /// ```
    #[must_use]
    pub fn paper() -> Self {
        Self {
            looks: vec![10, 20, 30, 40],
            epsilon: 0.01,
        }
    }

    /// As many rounds as asked for, and one look, at the end.
    ///
    /// ```
    /// assert_eq!(threadgauge_stats::StoppingRule::custom(12).alpha_per_look(), 0.05);
    /// ```
    #[must_use]
    pub fn custom(rounds: u32) -> Self {
        Self {
            looks: vec![rounds],
            epsilon: 0.0,
        }
    }

    /// The most rounds there will be; 0 without a look.
    ///
    /// ```
    /// assert_eq!(threadgauge_stats::StoppingRule::standard().rounds(), 20);
    /// ```
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.looks.iter().copied().max().unwrap_or(0)
    }

    /// The error rate of the intervals at each look (no unit), such that all looks together keep 5
    /// %: Pocock's, see [`pocock_alpha`].
    ///
    /// ```
    /// use threadgauge_stats::StoppingRule;
    ///
    /// assert_eq!(StoppingRule::custom(7).alpha_per_look(), 0.05);
    /// assert!((StoppingRule::paper().alpha_per_look() - 0.0182).abs() < 5e-5);
    /// ```
    #[must_use]
    pub fn alpha_per_look(&self) -> f64 {
        pocock_alpha(self.looks.len())
    }

    /// What to do once `rounds` rounds are done, given the relative half-width of the interval of
    /// every primary metric ([`crate::Interval::relative_half_width`]).
    ///
    /// A `None` among them is an interval that does not exist, and a NaN one that cannot be
    /// trusted: neither is narrow. Without any metric, precision ends nothing.
    ///
    /// ```
    /// use threadgauge_stats::{Reason, Step, StoppingRule};
    ///
    /// let rule = StoppingRule::paper();
    /// assert_eq!(rule.decide(20, &[Some(0.009), None]), Step::Continue);
    /// assert_eq!(rule.decide(20, &[Some(0.009), Some(0.01)]), Step::Stop(Reason::Precision));
    /// ```
    #[must_use]
    pub fn decide(&self, rounds: u32, relative_half_widths: &[Option<f64>]) -> Step {
        let over = rounds >= self.rounds();
        let narrow = self.epsilon > 0.0
            && !relative_half_widths.is_empty()
            && relative_half_widths
                .iter()
                .all(|width| width.is_some_and(|w| w <= self.epsilon));
        if narrow && (over || self.looks.contains(&rounds)) {
            Step::Stop(Reason::Precision)
        } else if over {
            Step::Stop(Reason::Rounds)
        } else {
            Step::Continue
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_ends_after_its_last_look_whatever_it_found() {
        let quick = StoppingRule::quick();
        assert_eq!(quick.decide(7, &[Some(0.0)]), Step::Continue);
        assert_eq!(quick.decide(14, &[Some(0.0)]), Step::Stop(Reason::Rounds));
        assert_eq!(quick.decide(14, &[]), Step::Stop(Reason::Rounds));
    }

    #[test]
    fn what_is_not_known_is_not_narrow() {
        let standard = StoppingRule::standard();
        for widths in [
            &[][..],
            &[None],
            &[Some(f64::NAN)],
            &[Some(0.001), None],
            &[Some(0.001), Some(0.021)],
        ] {
            assert_eq!(standard.decide(10, widths), Step::Continue, "{widths:?}");
            assert_eq!(
                standard.decide(20, widths),
                Step::Stop(Reason::Rounds),
                "{widths:?}"
            );
        }
    }

    #[test]
    fn a_run_past_its_last_look_stops() {
        assert_eq!(
            StoppingRule::standard().decide(21, &[None]),
            Step::Stop(Reason::Rounds)
        );
        let none = StoppingRule {
            looks: vec![],
            epsilon: 0.01,
        };
        assert_eq!(none.decide(0, &[]), Step::Stop(Reason::Rounds));
    }

    #[test]
    fn more_looks_mean_a_smaller_share_each() {
        let [one, standard, paper] = [
            StoppingRule::custom(7),
            StoppingRule::standard(),
            StoppingRule::paper(),
        ]
        .map(|r| r.alpha_per_look());
        assert!(one > standard && standard > paper);
    }
}
