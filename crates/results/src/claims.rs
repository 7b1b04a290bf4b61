//! The published claims and the rules that decide them.
//!
//! The claims themselves are data (`published/claims.csv`, shipped inside the binary). An experiment
//! computes the [`Evidence`] from its samples by round; [`decide`] alone turns it into a verdict.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use threadgauge_stats::{Between, Estimate, Estimator, StatsError, crossing};

use crate::{Lack, WaitsFor};

/// One published claim and its rule.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Claim {
    /// Its name, unique.
    pub id: String,
    /// The document, e.g. `"003"`, or two joined by `+`.
    pub source: String,
    /// The lines it stands on.
    #[serde(rename = "where")]
    pub place: String,
    /// `core`, `secondary` or `platform`.
    pub tier: String,
    /// Whether it was stated, reported, implied or read off a table.
    pub basis: String,
    /// The claim in one sentence.
    pub claim: String,
    /// The same in a few words that stand in a list of sayings.
    pub short: String,
    /// What is measured, in words.
    pub quantity: String,
    /// Which cells decide it, in words.
    pub experiment: String,
    /// The statistic the rule is about, in words.
    pub statistic: String,
    /// The least value of the statistic at which it holds; none for no lower bound.
    pub holds_min: Option<f64>,
    /// The largest value of the statistic at which it holds; none for no upper bound.
    pub holds_max: Option<f64>,
    /// The rule in words.
    pub rule: String,
    /// What was published, in words.
    pub published_value: String,
    /// The published statistic's smallest value.
    pub published_statistic_low: Option<f64>,
    /// The published statistic's largest value.
    pub published_statistic_high: Option<f64>,
    /// Whether the published data satisfy the rule: `fits`, `contradicts`, `mixed`, `stated_only` (a figure without
    /// data) or `no_figure`.
    pub published_data_vs_rule: String,
    /// What a machine must have to test it, in words.
    pub precondition: String,
    /// What it waits for that not every run has.
    pub waits_for: WaitsFor,
    /// What to know before quoting it, for a reader.
    pub note: String,
    /// The id of the experiment that decides it, in the catalogue or still to come.
    pub decided_by: String,
    /// The unit of the statistic, e.g. `ratio`.
    pub unit: String,
}

impl Claim {
    /// The values at which the claim holds.
    #[must_use]
    pub fn range(&self) -> Range {
        Range {
            min: self.holds_min.unwrap_or(f64::NEG_INFINITY),
            max: self.holds_max.unwrap_or(f64::INFINITY),
        }
    }

    /// Its statistic in a person's words: of a ratio less 1, how much more one is than the other.
    #[must_use]
    pub fn measures(&self) -> String {
        let of = || {
            let (ratio, rest) = self.statistic.split_once(", less 1")?;
            let (this, other) = ratio.split_once(" / ")?;
            Some(format!("{this}, how much more than {other}{rest}"))
        };
        of().unwrap_or_else(|| self.statistic.clone())
    }
}

/// All claims, in the order of the sources.
///
/// # Panics
///
/// Never in a released binary: a test reads the shipped file.
#[must_use]
pub fn claims() -> &'static [Claim] {
    static CLAIMS: OnceLock<Vec<Claim>> = OnceLock::new();
    CLAIMS.get_or_init(|| {
        csv::Reader::from_reader(&include_bytes!("../published/claims.csv")[..])
            .deserialize()
            .collect::<Result<_, _>>()
            .expect("the shipped claims.csv is well-formed")
    })
}

/// The claim with this id.
#[must_use]
pub fn claim(id: &str) -> Option<&'static Claim> {
    claims().iter().find(|c| c.id == id)
}

/// The claims that an experiment decides, in the order of the sources.
pub fn claims_of(experiment: &str) -> impl Iterator<Item = &'static Claim> {
    claims().iter().filter(move |c| c.decided_by == experiment)
}

/// A closed range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least value inside.
    pub min: f64,
    /// The largest value inside.
    pub max: f64,
}

impl Range {
    /// From `min` on.
    ///
    /// ```
    /// use threadgauge_results::Range;
    ///
    /// let range = Range::at_least(0.0);
    /// assert_eq!((range.min, range.max), (0.0, f64::INFINITY));
    /// ```
    #[must_use]
    pub const fn at_least(min: f64) -> Self {
        Self {
            min,
            max: f64::INFINITY,
        }
    }

    /// Up to `max`.
    #[must_use]
    pub const fn at_most(max: f64) -> Self {
        Self {
            min: f64::NEG_INFINITY,
            max,
        }
    }

    /// This range, of a figure in `unit`.
    #[must_use]
    pub const fn of(self, unit: &'static str) -> Rule {
        Rule { range: self, unit }
    }
}

/// A range, and the unit of the figure that is to lie in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Where the figure is to lie.
    pub range: Range,
    /// Of the figure and the range, e.g. `ratio`.
    pub unit: &'static str,
}

/// The values of a statistic, one a round, and what they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// Round → value.
    pub by_round: BTreeMap<u32, f64>,
    /// Which estimate and interval they get.
    pub estimator: Estimator,
}

impl Rounds {
    /// In order of the rounds.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.by_round.values().copied().collect()
    }

    /// The estimate over rounds, with an interval of level 1 − `alpha` or better.
    ///
    /// # Errors
    ///
    /// Those of [`Estimator::estimate`].
    pub fn estimate(&self, alpha: f64) -> Result<Estimate, StatsError> {
        self.estimator.estimate(&self.values(), alpha)
    }
}

/// A ratio at several counts, by round: where it goes below 1 is chosen from the estimates.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Count and ratio, by rising count.
    pub points: Vec<(f64, Rounds)>,
    /// What stands for a crossing between two counts.
    pub between: Between,
}

impl Curve {
    /// The count from which on the ratio is below 1, with an interval of level 1 − `alpha` or better.
    ///
    /// # Errors
    ///
    /// Those of [`Estimator::estimate`] and [`crossing`].
    pub fn estimate(&self, alpha: f64) -> Result<Estimate, StatsError> {
        let point = |(x, rounds): &(f64, Rounds)| Ok((*x, rounds.estimate(alpha)?));
        let points: Result<Vec<_>, StatsError> = self.points.iter().map(point).collect();
        crossing(&points?, self.between)
    }
}

/// What the samples say about a claim's statistic.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// The statistic of each round.
    Rounds(Rounds),
    /// The count from which on a ratio is below 1.
    Curve(Curve),
    /// A statistic of each of several cells by round: every cell must satisfy the rule.
    Each {
        /// Which cell to quote.
        quote: Quote,
        /// Name and rounds of each.
        cells: Vec<(String, Rounds)>,
    },
    /// An estimate computed elsewhere, e.g. by a bootstrap over rounds.
    Estimate {
        /// The figure.
        value: f64,
        /// Its 95 % interval, where there are enough rounds.
        ci95: Option<[f64; 2]>,
    },
    /// The first evidence decides by the claim's rule, and each condition must hold as well.
    With {
        /// What the claim's rule is about.
        main: Box<Evidence>,
        /// What must hold besides.
        also: Vec<Condition>,
    },
    /// It holds where the evidence lies wholly outside of this range, whatever bounds the claim has.
    Outside {
        /// What the claim's rule is about.
        of: Box<Evidence>,
        /// Where the claim does not hold.
        range: Range,
    },
    /// From disturbed rounds, since too few others are left: it decides less.
    Disturbed {
        /// What they say.
        evidence: Box<Evidence>,
        /// Whether the cells that are set against each other were disturbed alike.
        alike: bool,
    },
    /// From something that no longer exists and was written again from its description.
    Recreated {
        /// What it says.
        of: Box<Evidence>,
        /// What it cannot show, to follow "which cannot show".
        says: String,
    },
    /// Something that the claim needs: what it is decides between not testable, not measured and inconclusive.
    Lacking {
        /// What is missing.
        lack: Lack,
        /// What was measured all the same.
        measured: Option<f64>,
    },
}

impl Evidence {
    /// Whether any part of it is from disturbed rounds.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        match self {
            Self::Disturbed { .. } => true,
            Self::Outside { of, .. } | Self::Recreated { of, .. } => of.is_disturbed(),
            Self::With { main, also } => {
                main.is_disturbed() || also.iter().any(|c| c.evidence.is_disturbed())
            }
            _ => false,
        }
    }
}

impl Evidence {
    /// What a re-creation cannot show, where it is from one.
    #[must_use]
    pub fn recreated(&self) -> Option<&str> {
        match self {
            Self::Recreated { says, .. } => Some(says),
            Self::Outside { of, .. } => of.recreated(),
            Self::Disturbed { evidence, .. } => evidence.recreated(),
            Self::With { main, also } => main
                .recreated()
                .or_else(|| also.iter().find_map(|of| of.evidence.recreated())),
            _ => None,
        }
    }
}

impl From<Lack> for Evidence {
    fn from(lack: Lack) -> Self {
        Self::Lacking { lack, measured: None }
    }
}

/// A condition beside a claim's rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// In words.
    pub says: String,
    /// Where it holds.
    pub rule: Rule,
    /// What decides it.
    pub evidence: Evidence,
}

/// Which of several cells stands for all in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// The one with the largest median.
    Largest,
    /// The one with the smallest median.
    Smallest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_of_an_experiment_are_those_that_it_decides() {
        let ids: Vec<&str> = claims_of("create").map(|of| of.id.as_str()).collect();
        assert!(ids.contains(&"process-create-destroy-over-10x-thread"), "{ids:?}");
        assert!(claims_of("create").all(|of| of.decided_by == "create"));
        assert_eq!(claims_of("nonsense").count(), 0);
    }

    #[test]
    fn no_two_claims_are_of_one_statistic_and_a_ratio_names_its_divisor() {
        let mut statistics = std::collections::BTreeSet::new();
        for claim in claims() {
            let of = claim.statistic.as_str();
            assert!(
                statistics.insert(of),
                "{}: another claim is of {of}, too",
                claim.id
            );
            let is_ratio = matches!(
                claim.unit.as_str(),
                "ratio" | "gain" | "overhead" | "slowdown" | "difference"
            );
            assert!(
                !is_ratio || of.contains(" / "),
                "{}: by what is it divided? {of}",
                claim.id
            );
            // A ratio less 1, of what? Whoever reads a card sees these words alone.
            assert!(!of.starts_with("ratio"), "{}: the ratio of what? {of}", claim.id);
        }
    }

    #[test]
    fn a_ratio_less_1_is_how_much_more() {
        for claim in claims() {
            let words = claim.measures();
            assert!(!words.contains("less 1"), "{words}");
            assert_eq!(
                words == claim.statistic,
                !claim.statistic.contains("less 1"),
                "{words}"
            );
        }
    }

    #[test]
    fn every_claim_has_a_few_words_of_its_own_for_a_list() {
        let mut all = std::collections::BTreeSet::new();
        for Claim { id, short, .. } in claims() {
            assert!(
                all.insert(short.as_str()),
                "{id}: another claim is \"{short}\", too"
            );
            let length = short.chars().count();
            assert!((10..=50).contains(&length), "{id}: {length} characters");
            assert!(!short.ends_with('.') && !short.contains('"'), "{id}: {short}");
        }
    }

    #[test]
    fn evidence_is_disturbed_where_any_part_of_it_is() {
        let clear = || Evidence::Estimate {
            value: 1.0,
            ci95: None,
        };
        let disturbed = || Evidence::Disturbed {
            evidence: Box::new(clear()),
            alike: true,
        };
        let outside = |of: Evidence| Evidence::Outside {
            of: Box::new(of),
            range: Range::at_least(1.0),
        };
        let with = |main: Evidence, besides: [Evidence; 2]| Evidence::With {
            main: Box::new(main),
            also: Vec::from(besides.map(|evidence| Condition {
                says: "it is so".to_owned(),
                rule: Range::at_least(1.0).of("ratio"),
                evidence,
            })),
        };
        for (evidence, expected) in [
            (clear(), false),
            (disturbed(), true),
            (outside(clear()), false),
            (outside(disturbed()), true),
            (with(clear(), [clear(), clear()]), false),
            (with(disturbed(), [clear(), clear()]), true),
            (with(clear(), [clear(), disturbed()]), true),
        ] {
            assert_eq!(evidence.is_disturbed(), expected, "{evidence:?}");
        }
    }
}
