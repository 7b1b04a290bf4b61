//! What a report begins with: what things cost and which claims held or, of a run that has neither, what its
//! experiments answer.
//!
//! Every kind of report asks here, so that none of them shows an empty list.

use threadgauge_results::Results;

use crate::costs;

/// The headline of costs and claims.
const COSTS_AND_CLAIMS: &str = "What running things at once costs here";

/// What a reader sees first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lead {
    /// What things cost here, and which claims held.
    CostsAndClaims,
    /// The experiments, each with its answer and its tables.
    Answers,
}

impl Lead {
    /// Of a run: that an experiment has costs or claims, decided or not, makes it one of these.
    pub fn of(results: &Results) -> Self {
        let mut findings = results.experiments.iter().flat_map(|e| &e.findings);
        let has_claims = findings.any(|finding| finding.verdict.is_some());
        match has_claims || costs::all(results).next().is_some() {
            true => Self::CostsAndClaims,
            false => Self::Answers,
        }
    }
}

/// What stands above all: of answers, the question that the first of them answers.
pub(crate) fn headline(results: &Results) -> &str {
    match (Lead::of(results), results.experiments.first()) {
        (Lead::Answers, Some(first)) => &first.question,
        _ => COSTS_AND_CLAIMS,
    }
}

/// The profile; `None` of a load, which has no cells to choose from.
pub(crate) fn profile(results: &Results) -> Option<&str> {
    let is_load = (results.experiments.first()).is_some_and(|first| first.id == "load");
    (!is_load).then_some(results.run.profile.as_str())
}

/// Said in the place of the experiments where there is none.
pub(crate) const NO_EXPERIMENT: &str = "The results hold no experiment.";
