//! What is compared, and what is said of it: runs, sides of several, and a row a case.

use std::collections::BTreeMap;

use thiserror::Error;
use threadgauge_stats::{BAND, Level, Outcome, median};

use crate::{ComparisonResult, Results, StoredSample};

/// A run's document with the samples it was made from, by experiment.
#[derive(Debug, Clone)]
pub struct RunData {
    /// How the reader knows it: its folder.
    pub name: String,
    /// The document.
    pub results: Results,
    /// Experiment → its samples.
    pub samples: BTreeMap<String, Vec<StoredSample>>,
}

/// What differs between two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// What the first run is called.
    pub a_name: String,
    /// What the second is called.
    pub b_name: String,
    /// What makes the comparison doubtful: another machine, kernel, version; cases that only one has.
    pub warnings: Vec<String>,
    /// Whether the two took turns, so that their rounds are pairs.
    pub paired: bool,
    /// What all cases of two runs that took no turns have in common; none for runs in turns, and for too few cases.
    pub level: Option<Level>,
    /// Where a side has several runs: what they say of one another.
    pub between: Option<BetweenRuns>,
    /// The ids of cases that have figures in the first and none in the second.
    pub lost: Vec<String>,
    /// One row a case that both have: `b` against `a` by the experiment's first primary metric, over the level where
    /// there is one.
    pub rows: Vec<ComparisonResult>,
}

/// How many cases have which verdict. One that this version does not know counts as unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// Slower by more than 3 %.
    pub slower: usize,
    /// Faster by more than 3 %.
    pub faster: usize,
    /// They differ, by less than 3 %.
    pub small: usize,
    /// The same within 3 %.
    pub same: usize,
    /// Nothing is known.
    pub unknown: usize,
}

impl Known {
    /// Of these cases.
    #[must_use]
    pub fn of(rows: &[ComparisonResult]) -> Self {
        let mut known = Self::default();
        for row in rows {
            let count = match row.verdict.as_str() {
                "slower" => &mut known.slower,
                "faster" => &mut known.faster,
                "small" => &mut known.small,
                "same" => &mut known.same,
                _ => &mut known.unknown,
            };
            *count += 1;
        }
        known
    }

    /// All of them.
    #[must_use]
    pub const fn cases(&self) -> usize {
        self.slower + self.faster + self.small + self.same + self.unknown
    }

    /// Of what share of the cases nothing is known; all where there is no case.
    #[must_use]
    pub fn unknown_share(&self) -> f64 {
        match self.cases() {
            0 => 1.0,
            cases => self.unknown as f64 / cases as f64,
        }
    }
}

impl Compared {
    /// How many cases have which verdict.
    #[must_use]
    pub fn known(&self) -> Known {
        Known::of(&self.rows)
    }

    /// What all cases have in common, where that is beyond ± 3 %: whose it is, is unknown.
    #[must_use]
    pub fn level_apart(&self) -> Option<Level> {
        self.level.filter(|level| (level.ratio - 1.0).abs() > BAND)
    }

    /// The median over cases of their ratios. Where there is a level these are departures from it.
    #[must_use]
    pub fn median_ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> = self.rows.iter().filter_map(|row| row.ratio).collect();
        median(&ratios).ok()
    }

    /// Whether level and cells agree: every case is the same in both runs, and so is their level.
    #[must_use]
    pub fn nothing_differs(&self) -> bool {
        let same = self
            .rows
            .iter()
            .all(|row| row.verdict == Outcome::Same.to_string());
        same && self.level_apart().is_none()
    }
}

/// A side: runs that repeat one another.
#[derive(Debug, Clone)]
pub struct Repeated {
    /// How the reader knows it.
    pub name: String,
    /// At least one.
    pub runs: Vec<RunData>,
}

/// How the runs of two sides lie in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Each took turns with one of the other side, try by try.
    InTurns,
    /// One after the other, now of this side and now of that.
    Alternating,
    /// All of one side before all of the other, or nearly so.
    Apart,
}

/// What several runs a side say of one another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BetweenRuns {
    /// The runs of either side.
    pub runs: [usize; 2],
    /// How they lie in time.
    pub order: Order,
    /// How far runs of a side, or pairs of runs, lie apart: the standard deviation of logarithms, the median over cases
    /// (no unit). Over their level where they lie [`Order::Apart`].
    pub spread: Option<f64>,
    /// The second side over the first, all cases together, with its interval where the order tells it from the
    /// machine's own level; none of fewer than 10 cases.
    pub level: Option<(f64, Option<[f64; 2]>)>,
}

/// Why folders are no sides of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SideError {
    /// Runs of a side differ in more than chance.
    #[error(
        "{first} and {other} do not repeat one another: {what} is \"{of_first}\" in the one and \"{of_other}\" in the \
         other. Runs of a side must be alike; what differs belongs on the other side, or in a comparison of its own"
    )]
    Differ {
        /// What the first run of the side is called.
        first: String,
        /// What the one that differs is called.
        other: String,
        /// In what.
        what: &'static str,
        /// The first run's.
        of_first: String,
        /// The other's.
        of_other: String,
    },
    /// One run is there twice, under one path or two.
    #[error("{first} and {other} hold the same run, which would count twice; name it once")]
    Twice {
        /// Where it is first.
        first: String,
        /// Where it is again.
        other: String,
    },
    /// A side has no run.
    #[error("{name} has no run")]
    Empty {
        /// What the side is called.
        name: String,
    },
}

impl Repeated {
    /// A side of one run, which is called as that is.
    #[must_use]
    pub fn once(run: RunData) -> Self {
        Self {
            name: run.name.clone(),
            runs: vec![run],
        }
    }

    /// Whether its runs repeat one another.
    ///
    /// # Errors
    ///
    /// No run; or runs of several versions, profiles, options or sets of experiments.
    pub fn check(&self) -> Result<(), SideError> {
        let Some((first, others)) = self.runs.split_first() else {
            return Err(SideError::Empty {
                name: self.name.clone(),
            });
        };
        let facts = |of: &RunData| {
            let run = &of.results.run;
            let experiments: Vec<&str> = of.results.experiments.iter().map(|e| e.id.as_str()).collect();
            [
                ("version", run.version.clone()),
                ("profile", run.profile.clone()),
                ("experiments", experiments.join(" ")),
                ("options", run.options.join(" ")),
            ]
        };
        for other in others {
            for ((what, of_first), (_, of_other)) in facts(first).into_iter().zip(facts(other)) {
                if of_first != of_other {
                    return Err(SideError::Differ {
                        first: first.name.clone(),
                        other: other.name.clone(),
                        what,
                        of_first,
                        of_other,
                    });
                }
            }
        }
        Ok(())
    }
}
