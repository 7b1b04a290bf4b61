//! The cases of an experiment, and what each is expected to take.

use std::time::Duration;

use threadgauge_results::{Lack, Need, Params};

use crate::site::Site;

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
    /// What cases on more CPUs than there are lack; one that was planned so and no longer is, can run.
    pub fn fit(&mut self, site: &Site) {
        let here = site.cpus.len() as u64;
        for case in &mut self.cases {
            let wanted = case.params.int("cpus").unwrap_or(here);
            if wanted > here {
                case.skip = Some(Lack::cpus(wanted, here));
            } else if case.skip.as_ref().is_some_and(|lack| lack.of == Need::Cpus) {
                case.skip = None;
            }
        }
    }

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
    pub skip: Option<Lack>,
}

impl PlannedCase {
    /// A case that can run.
    #[must_use]
    pub fn new(case: impl Into<Params>, estimate: Duration) -> Self {
        Self {
            params: case.into(),
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
