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
    /// No new round is begun when it would end beyond this, once there are the six that an interval needs.
    pub budget: Duration,
    /// Whether a short case is tried several times a sample, each in a fresh worker at another moment of the round, and the
    /// least of its first primary metric kept: for work of some milliseconds, to which other tenants of the machine can
    /// only add.
    pub least_of_tries: bool,
}

impl Plan {
    /// How many workers a sample of this case takes; the reference case takes more.
    #[must_use]
    pub fn tries(&self, case: &PlannedCase, is_reference: bool) -> u32 {
        if !self.least_of_tries {
            return 1;
        }
        let limit = if is_reference { OF_THE_REFERENCE } else { OF_A_CASE };
        let fit = limit.span.as_millis() / case.estimate.as_millis().max(1);
        u32::try_from(fit).unwrap_or(limit.most).clamp(1, limit.most)
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

/// How long the tries of a sample may take together, and how many there are at most.
struct TriesLimit {
    span: Duration,
    most: u32,
}

const OF_A_CASE: TriesLimit = TriesLimit {
    span: Duration::from_millis(50),
    most: 5,
};

/// What two equal cases may differ by is judged by the reference case: its own noise hides differences of all others.
const OF_THE_REFERENCE: TriesLimit = TriesLimit {
    span: Duration::from_millis(180),
    most: 12,
};

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

    fn tries(least_of_tries: bool, is_reference: bool, estimate_ms: u64) -> u32 {
        let case = PlannedCase::new(Params::default(), Duration::from_millis(estimate_ms));
        let plan = Plan {
            cases: vec![case.clone()],
            reference: Params::default(),
            budget: Duration::ZERO,
            least_of_tries,
        };
        plan.tries(&case, is_reference)
    }

    #[test]
    fn short_cases_are_tried_often_and_long_ones_once() {
        let tries = |ms: [u64; 6]| ms.map(|ms| tries(true, false, ms));
        assert_eq!(tries([0, 10, 16, 25, 26, 51]), [5, 5, 3, 2, 1, 1]);
    }

    #[test]
    fn the_reference_case_is_tried_more_often() {
        let tries = |ms: [u64; 5]| ms.map(|ms| tries(true, true, ms));
        assert_eq!(tries([0, 15, 32, 90, 91]), [12, 12, 5, 2, 1]);
    }

    #[test]
    fn where_tries_are_not_wanted_there_is_one() {
        assert_eq!([5, 51].map(|ms| tries(false, true, ms)), [1, 1]);
    }
}
