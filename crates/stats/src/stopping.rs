//! When enough has been measured.
//!
//! Whoever stops as soon as the figures please will be pleased by noise. So the looks are named
//! beforehand, each has its share of the error rate, and what is looked at is the *width* of the
//! intervals, never their place.

use crate::pocock::pocock_alpha;

/// When to look, and how narrow is narrow enough (METHOD rule 7).
#[derive(Debug, Clone, PartialEq)]
pub struct StoppingRule {
    /// The rounds after which to look, ascending. The last is the most there will be.
    pub looks: Vec<u32>,
    /// Narrow enough: the half-width of an interval as a share of its estimate, no unit. 0 means
    /// that precision never ends a run early.
    pub epsilon: f64,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_rounds_as_the_last_look_has() {
        let most = |rule: StoppingRule| rule.rounds();
        assert_eq!(most(StoppingRule::quick()), 14);
        assert_eq!(most(StoppingRule::custom(12)), 12);
        assert_eq!(
            most(StoppingRule {
                looks: vec![],
                epsilon: 0.0
            }),
            0
        );
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
