//! What an experiment is: a question, the cases that answer it, and how the answer is read off them.
//!
//! Owns the shape every file in `experiments/` fills. It starts no process and stores nothing: the
//! [`schedule`](crate::schedule) decides when a case runs, the [`Worker`] runs it in a process of its own.

use std::time::Duration;

use threadgauge_machine::CpuList;
use threadgauge_results::{Evidence, Figure, Finding, Method, Params, Table};

use crate::view::View;
use crate::worker::{CaseError, Worker};

/// A question about concurrency, put to this machine.
///
/// To add one, write one file in `experiments/` and one line in the catalogue.
pub trait Experiment: Sync {
    /// Its name on the command line: what it varies.
    fn id(&self) -> &'static str;

    /// The question, as a reader would ask it.
    fn question(&self) -> &'static str;

    /// The documents it re-tests, e.g. `["003", "004"]`.
    fn sources(&self) -> &'static [&'static str];

    /// How it measures, its control, its traps, what the source did and where this differs.
    fn method(&self) -> Method;

    /// At most three metrics whose precision decides when to stop; comparisons use the first. Lower is better.
    fn primary_metrics(&self) -> &'static [&'static str];

    /// The ids of the claims it decides; [`Experiment::read`] gives evidence for each of them.
    fn claims(&self) -> &'static [&'static str];

    /// The cases of a profile on a site, with what each is expected to take.
    fn plan(&self, site: &Site) -> Plan;

    /// Runs one case once. Called in a worker: a fresh, single-threaded process, pinned to the case's CPUs.
    ///
    /// # Errors
    ///
    /// [`CaseError`], when the case cannot run here or its outcome is not what it must be.
    fn run(&self, case: &Params, worker: &mut Worker) -> Result<(), CaseError>;

    /// Reads the answer off the samples.
    fn read(&self, view: &View<'_>) -> Answer;
}

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Three minutes for everything: 7 rounds of the cells that the claims name.
    Quick,
    /// Half an hour: up to 20 rounds.
    Standard,
    /// As the sources did, and more rounds: hours.
    Paper,
}

impl Profile {
    /// The profile of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Quick, Self::Standard, Self::Paper]
            .into_iter()
            .find(|p| p.name() == name)
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Paper => "paper",
        }
    }
}

/// Where and how much to run: all that a plan may depend on.
#[derive(Debug, Clone)]
pub struct Site {
    /// How much.
    pub profile: Profile,
    /// The CPUs that workers may be pinned to.
    pub cpus: CpuList,
    /// Memory that is free for a case, MiB.
    pub free_memory_mib: u64,
}

/// The cases of an experiment for one site.
#[derive(Debug, Clone)]
pub struct Plan {
    /// In the order of the tables.
    pub cases: Vec<PlannedCase>,
    /// Picks the reference case: the first that matches. It runs twice a round, the second as null control.
    pub reference: Params,
    /// No new round is begun when it would end beyond this and what the experiments before it in the run have left of
    /// theirs, once there are the six that an interval needs.
    pub budget: Duration,
    /// A case that takes up to this is tried twice a sample, each time in a fresh worker at another moment of the round, and the
    /// one with the lesser first primary metric kept: for work of some milliseconds, to which other tenants of the machine
    /// can only add. Where it is zero no case is, and the reference case neither.
    pub twice_up_to: Duration,
}

/// How long the tries of the reference case may take together, and how many there are at most. Its own noise hides
/// differences of all others, so it has more of them.
const TRIES_OF_THE_REFERENCE: (Duration, u32) = (Duration::from_millis(150), 12);

impl Plan {
    /// How many workers a sample of this case takes.
    #[must_use]
    pub fn tries(&self, case: &PlannedCase, is_reference: bool) -> u32 {
        if self.twice_up_to.is_zero() {
            return 1;
        }
        if is_reference {
            let (span, most) = TRIES_OF_THE_REFERENCE;
            let fit = span.as_millis() / case.estimate.as_millis().max(1);
            return u32::try_from(fit).unwrap_or(most).clamp(1, most);
        }
        1 + u32::from(case.estimate <= self.twice_up_to)
    }
}

/// A case and what it takes.
#[derive(Debug, Clone)]
pub struct PlannedCase {
    /// Its point in the grid. A parameter named `cpus` is the number of CPUs it is pinned to (all, if there is none).
    pub params: Params,
    /// What one sample is expected to take, with starting its worker.
    pub estimate: Duration,
    /// Why it cannot run here, if so.
    pub skip: Option<String>,
}

impl PlannedCase {
    /// A case that can run.
    #[must_use]
    pub const fn new(params: Params, estimate: Duration) -> Self {
        Self {
            params,
            estimate,
            skip: None,
        }
    }

    /// How long a worker may take before it is ended: generous, since machines differ.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_secs(20).max(self.estimate.saturating_mul(20))
    }
}

/// What an experiment reads off its samples.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The answer to the question, in one sentence with its numbers.
    pub answer: String,
    /// For each claim of [`Experiment::claims`], what the samples say; the unit of the statistic beside it.
    pub claims: Vec<ClaimEvidence>,
    /// What else is worth knowing, each as a finding without a claim.
    pub facts: Vec<Finding>,
    /// Pairs to compare by round on the first primary metric: `b` against `a`.
    pub comparisons: Vec<Pair>,
    /// Groups of cases to put in order, by title.
    pub rankings: Vec<(String, Vec<Params>)>,
    /// What to draw, ours and published.
    pub figures: Vec<Figure>,
    /// The source's layout, ours beside theirs.
    pub tables: Vec<Table>,
}

/// A claim and what the samples say of it.
#[derive(Debug, Clone)]
pub struct ClaimEvidence {
    /// The id in `claims.csv`.
    pub claim: &'static str,
    /// The unit of the statistic, e.g. `ratio`.
    pub unit: &'static str,
    /// The samples' say.
    pub evidence: Evidence,
}

/// Two cases to compare.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The base.
    pub a: Params,
    /// What is compared with it.
    pub b: Params,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(twice_up_to_ms: u64, is_reference: bool, estimate_ms: u64) -> u32 {
        let case = PlannedCase::new(Params::default(), Duration::from_millis(estimate_ms));
        let plan = Plan {
            cases: vec![case.clone()],
            reference: Params::default(),
            budget: Duration::ZERO,
            twice_up_to: Duration::from_millis(twice_up_to_ms),
        };
        plan.tries(&case, is_reference)
    }

    #[test]
    fn short_cases_are_tried_twice_and_long_ones_once() {
        assert_eq!([0, 50, 51].map(|ms| tries(50, false, ms)), [2, 2, 1]);
    }

    #[test]
    fn the_reference_case_is_tried_more_often() {
        assert_eq!(
            [0, 12, 32, 75, 76].map(|ms| tries(50, true, ms)),
            [12, 12, 4, 2, 1]
        );
    }

    #[test]
    fn where_tries_are_not_wanted_there_is_one() {
        assert_eq!([5, 51].map(|ms| tries(0, true, ms)), [1, 1]);
        assert_eq!(tries(0, false, 0), 1);
    }
}
