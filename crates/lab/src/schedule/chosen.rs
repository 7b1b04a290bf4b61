//! An experiment and the cases of it that run: planned, stored, and read back; with the time they are expected to take.

use std::time::Duration;

use threadgauge_results::{Lack, Need, Params, StoredCase, StoredExperiment, with_all_cpus};

use crate::experiment::Experiment;
use crate::grid::{Plan, PlannedCase};
use crate::site::{Profile, Site};
use crate::turns::Common;

/// The time budget ends no experiment before it has this many rounds. Several looks share the error probability, and at
/// the level of one look an interval needs so many.
pub(super) const FEWEST_ROUNDS: u32 = 7;

/// An experiment and the cases chosen of it.
pub struct Chosen {
    /// What runs them.
    pub experiment: &'static Experiment,
    /// Its plan, after `--only` and `--set`.
    pub plan: Plan,
}

impl Chosen {
    /// The plan as it is stored.
    #[must_use]
    pub fn record(&self) -> StoredExperiment {
        let id = self.experiment.id;
        let cases = self.plan.cases.iter().map(|c| StoredCase {
            id: c.params.case_id(id),
            params: c.params.clone(),
            // Rounded up: one that is just too long to be short must not be short when the run is resumed.
            estimate_ms: u32::try_from(c.estimate.as_micros().div_ceil(1_000)).unwrap_or(u32::MAX),
            skip: c.skip.clone(),
        });
        StoredExperiment {
            id: id.to_owned(),
            reference: self.reference().map(|c| c.params.case_id(id)),
            stopped_because: None,
            cases: cases.collect(),
        }
    }

    /// All cases of an experiment on a site.
    pub fn all(experiment: &'static Experiment, site: &Site) -> Self {
        let mut plan = (experiment.plan)(site);
        plan.fit(site);
        Self { experiment, plan }
    }

    /// This experiment with its stored plan, to resume a run.
    pub fn again(experiment: &'static Experiment, stored: &StoredExperiment, site: &Site) -> Self {
        let reference = stored
            .cases
            .iter()
            .find(|c| Some(&c.id) == stored.reference.as_ref());
        let cases = stored.cases.iter().map(|c| PlannedCase {
            params: c.params.clone(),
            estimate: Duration::from_millis(c.estimate_ms.into()),
            skip: c.skip.clone(),
            check: |_| Ok(()),
            takes: None,
        });
        Self {
            experiment,
            plan: Plan {
                cases: cases.collect(),
                reference: reference.map(|c| c.params.clone()).unwrap_or_default(),
                ..(experiment.plan)(site)
            },
        }
    }

    /// The reference case: the first that matches and can run, else the first that can run.
    pub(super) fn reference(&self) -> Option<&PlannedCase> {
        self.first_able(|case| case.params.matches(&self.plan.reference))
    }

    /// The first that is meant and can run, else the first that can run.
    fn first_able(&self, is_meant: impl Fn(&PlannedCase) -> bool) -> Option<&PlannedCase> {
        let mut able = self.plan.cases.iter().filter(|c| c.skip.is_none());
        able.clone().find(|case| is_meant(case)).or_else(|| able.next())
    }

    /// Every case that can run, then the reference case once more.
    pub(super) fn able(&self) -> impl Iterator<Item = &PlannedCase> {
        let able = self.plan.cases.iter().filter(|c| c.skip.is_none());
        able.chain(self.reference())
    }

    /// Their ids, and how many tries a sample takes.
    pub fn measured(&self) -> impl Iterator<Item = (String, u32)> {
        let tries = self.plan.tries();
        self.able()
            .map(move |c| (c.params.case_id(self.experiment.id), tries))
    }

    /// Every case that can run in a state of the machine that has so many CPUs, and how many tries a sample of it takes
    /// by itself.
    pub fn cases_in_state(&self, cpus: u64) -> impl Iterator<Item = (String, u32)> {
        let able = self.plan.cases.iter().filter(|c| c.skip.is_none());
        able.map(move |case| (in_state(self.experiment, &case.params, cpus), case.tries()))
    }

    /// The reference case in such a state.
    #[must_use]
    pub fn reference_in_state(&self, cpus: u64) -> Option<String> {
        let reference = self.reference()?;
        Some(in_state(self.experiment, &reference.params, cpus))
    }

    /// Skips the cases that two states do not have in common, and gives back how many. Where the other state takes one
    /// try of a case, so does this one. The reference case is that of both, else the first.
    pub fn keep(&mut self, common: &Common, cpus: u64) -> usize {
        let mut left_out = 0;
        for case in self.plan.cases.iter_mut().filter(|case| case.skip.is_none()) {
            match common.cases.get(&in_state(self.experiment, &case.params, cpus)) {
                Some(1) => case.lengthen(),
                Some(_) => {}
                None => {
                    let says = "the other state does not have this case";
                    case.skip = Some(Lack::new(Need::Profile, says));
                    left_out += 1;
                }
            }
        }
        let is_of_both = |case: &PlannedCase| {
            let name = in_state(self.experiment, &case.params, cpus);
            common.references.contains(&name)
        };
        let reference = self.first_able(is_of_both);
        if let Some(params) = reference.map(|case| case.params.clone()) {
            self.plan.reference = params;
        }
        left_out
    }

    /// How long one try of it may take.
    pub fn longest_try(&self) -> Duration {
        self.able().map(PlannedCase::deadline).max().unwrap_or_default()
    }

    /// Its time budget, or what the fewest rounds that give an interval are expected to take, if that is more.
    pub(super) fn time(&self) -> Duration {
        let fewest = self.round_estimate().saturating_mul(FEWEST_ROUNDS);
        fewest.max(self.plan.budget)
    }

    /// What so many rounds are expected to take, within its time.
    #[must_use]
    pub fn expected(&self, rounds: u32) -> Duration {
        self.round_estimate().saturating_mul(rounds).min(self.time())
    }

    /// What one round is expected to take.
    #[must_use]
    pub fn round_estimate(&self) -> Duration {
        let add = |sum: Duration, case: &PlannedCase| sum.saturating_add(case.estimate);
        let once = self.able().fold(Duration::ZERO, add);
        once.saturating_mul(self.plan.tries())
    }
}

/// The id of a case in a state with so many CPUs: what has all of them is called alike in every state.
fn in_state(experiment: &Experiment, params: &Params, cpus: u64) -> String {
    with_all_cpus(params, Some(cpus)).case_id(experiment.id)
}

/// The time of each of these experiments, which take so many rounds before their first look. Where the budgets of all
/// are more than the profile's time, each has the same share of what it wants for rounds after that look.
pub(super) fn times(chosen: &[Chosen], rounds: u32, profile: Profile) -> Vec<Duration> {
    let later = |chosen: &Chosen| {
        chosen
            .time()
            .saturating_sub(chosen.expected(rounds))
            .as_secs_f64()
    };
    let first = chosen.iter().map(|chosen| chosen.expected(rounds));
    let room = first.fold(profile.most(), Duration::saturating_sub);
    let share = (room.as_secs_f64() / chosen.iter().map(later).sum::<f64>()).min(1.0);
    let time = |chosen: &Chosen| chosen.expected(rounds) + Duration::from_secs_f64(later(chosen) * share);
    chosen.iter().map(time).collect()
}
