//! How long a run takes: by its own tries, else by those of earlier runs on this machine, else by the plan's estimates.
//! It is only told: what the schedule decides rests on the plan's estimates and on what this run used.

use std::collections::BTreeMap;
use std::time::Duration;

use threadgauge_results::Times;
use threadgauge_stats::StoppingRule;

use super::chosen::{Chosen, FEWEST_ROUNDS, times};
use crate::grid::PlannedCase;
use crate::site::Profile;

/// Of the time that there is for rounds after the first look a quick run uses about this share (46 and 85 % were seen),
/// since some experiments are decided before; longer profiles use all of it.
const USUAL_IN_QUICK: f64 = 0.65;

/// What a run is expected to take.
#[derive(Debug)]
pub struct Forecast {
    /// Rounds before the first look, and at most.
    rounds: [u32; 2],
    /// What share of its later rounds an experiment takes, where no earlier run tells.
    usual: f64,
    /// The time of each experiment, by its id. A number of rounds that the user chose has none.
    times: BTreeMap<&'static str, Duration>,
    /// What tries took, in this run and before.
    took: Times,
}

impl Forecast {
    /// Of these experiments, by what earlier runs took.
    #[must_use]
    pub fn new(chosen: &[Chosen], profile: Profile, rule: &StoppingRule, took: Times) -> Self {
        let first = rule.looks.first().copied().unwrap_or(1);
        let ids = chosen.iter().map(|of| of.experiment.id);
        let timed = ids.zip(times(chosen, first, profile));
        Self {
            rounds: [first, rule.rounds()],
            usual: profile.pick(USUAL_IN_QUICK, 1.0, 1.0),
            times: timed.filter(|_| rule.looks.len() > 1).collect(),
            took,
        }
    }

    /// All of these experiments.
    #[must_use]
    pub fn of(&self, chosen: &[Chosen]) -> Duration {
        seconds(chosen.iter().map(|chosen| self.experiment_s(chosen)).sum())
    }

    /// A try of this run has ended.
    pub(super) fn add(&mut self, case: &str, estimate: Duration, took: Duration) {
        self.took.add(case, estimate.as_secs_f64(), took.as_secs_f64());
    }

    /// A round of the cases that go on, s.
    pub(super) fn round_s(&self, chosen: &Chosen, goes_on: impl Fn(&PlannedCase) -> bool) -> f64 {
        let id = chosen.experiment.id;
        let able = chosen.able().filter(|case| goes_on(case));
        let tries = able.map(|case| {
            self.took
                .of_try(&case.params.case_id(id), case.estimate.as_secs_f64())
        });
        tries.sum::<f64>() * f64::from(chosen.plan.tries())
    }

    /// All of an experiment, s.
    pub(super) fn experiment_s(&self, chosen: &Chosen) -> f64 {
        let id = chosen.experiment.id;
        let round = self.round_s(chosen, |_| true);
        let [first, most] = self.rounds.map(|rounds| round * f64::from(rounds));
        let learned = self.took.beyond(id).map(|beyond| first * beyond);
        let Some(time) = self.times.get(id).map(Duration::as_secs_f64) else {
            return learned.unwrap_or(first);
        };
        let later = (most.min(time) - first).max(0.0);
        let whole = learned.unwrap_or(first + self.usual * later);
        // The time ends it, but not before the fewest rounds, unless these would take twice as long.
        whole
            .min(time.max(round * f64::from(FEWEST_ROUNDS)))
            .min(2.0 * time)
    }
}

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}
