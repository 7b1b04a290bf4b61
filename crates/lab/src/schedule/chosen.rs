//! An experiment and the cases of it that run: planned, stored, and read back; with the time they are expected to take.

use std::collections::BTreeMap;
use std::time::Duration;

use threadgauge_results::{Lack, Need, StoredCase, StoredExperiment, with_all_cpus};

use crate::experiment::Experiment;
use crate::grid::{Plan, PlannedCase};
use crate::site::{Profile, Site};

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
        let mut able = self.plan.cases.iter().filter(|c| c.skip.is_none());
        able.clone()
            .find(|c| c.params.matches(&self.plan.reference))
            .or_else(|| able.next())
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

    /// The same in a state of the machine that has so many CPUs: what has all of them is called alike in every state,
    /// and each case has as many tries as by itself.
    pub fn measured_in_state(&self, cpus: u64) -> impl Iterator<Item = (String, u32)> {
        let name = move |case: &PlannedCase| with_all_cpus(&case.params, Some(cpus));
        self.able()
            .map(move |case| (name(case).case_id(self.experiment.id), case.tries()))
    }

    /// Skips the cases that are not among those of `both` states, and gives back how many. Where the other state takes
    /// one try of a case, so does this one.
    pub fn keep(&mut self, both: &BTreeMap<&str, u32>, cpus: u64) -> usize {
        let mut left_out = 0;
        for case in self.plan.cases.iter_mut().filter(|case| case.skip.is_none()) {
            let name = with_all_cpus(&case.params, Some(cpus)).case_id(self.experiment.id);
            match both.get(name.as_str()) {
                Some(1) => case.lengthen(),
                Some(_) => {}
                None => {
                    let says = "the other state does not have this case";
                    case.skip = Some(Lack::new(Need::Profile, says));
                    left_out += 1;
                }
            }
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
