//! The cases of an experiment, and what each is expected to take.

use std::time::Duration;

use threadgauge_results::{Lack, Need, Params};

use crate::point::Point;
use crate::site::Site;
use crate::worker::CaseError;

/// The cases of an experiment for one site.
#[derive(Debug, Clone)]
pub struct Plan {
    /// In the order of the tables.
    pub cases: Vec<PlannedCase>,
    /// Picks the reference case: the first that matches. It runs twice a round; the second run is the null control.
    pub reference: Params,
    /// The time for all rounds. Budget that earlier experiments of the run left unused is added to it. After the seven
    /// rounds that an interval needs, no round begins that would end beyond it.
    pub budget: Duration,
}

/// A case up to this long is short: on a virtual machine it then varies more between workers than it differs from other
/// cases.
const SHORT: Duration = Duration::from_millis(25);

impl Plan {
    /// Skips the cases that want more CPUs than there are, and no longer skips those for which there are now enough.
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

    /// How many tries every sample takes: two where even the longest case is short, else one.
    ///
    /// The number is the same for every case and for A′. The best of several tries favours a case with more tries, or
    /// with more noise. The mean does not, yet a case with more tries would seem to be less noisy. Where cases differ
    /// in length, give the short ones more work rather than more tries.
    #[must_use]
    pub fn tries(&self) -> u32 {
        let able = self.cases.iter().filter(|c| c.skip.is_none());
        able.map(PlannedCase::tries).min().unwrap_or(2)
    }
}

/// A case and the time it takes.
#[derive(Debug, Clone)]
pub struct PlannedCase {
    /// Its point in the grid. A parameter named `cpus` is the number of CPUs it is pinned to (all, if there is none).
    pub params: Params,
    /// What one sample is expected to take, with starting its worker.
    pub estimate: Duration,
    /// Why it cannot run here, if so.
    pub skip: Option<Lack>,
    /// Refuses parameters that the case cannot have: `--set` may have changed them.
    pub check: fn(&Params) -> Result<(), CaseError>,
    /// What a sample of other parameters is expected to take, where that is known better than from their size.
    pub takes: Option<fn(&Params) -> Option<Duration>>,
}

impl PlannedCase {
    /// A case that can run. Each of its parameters is checked by itself; where they must fit together too, give it
    /// another `check`.
    #[must_use]
    pub fn new<P: Point>(case: P, estimate: Duration) -> Self {
        Self {
            params: case.into(),
            estimate,
            skip: None,
            check: |params| P::read(params).map(drop),
            takes: None,
        }
    }

    /// How many tries a sample of it takes by itself.
    #[must_use]
    pub fn tries(&self) -> u32 {
        1 + u32::from(self.estimate <= SHORT)
    }

    /// Makes it one that is not short.
    pub fn lengthen(&mut self) {
        self.estimate = self.estimate.max(SHORT + Duration::from_millis(1));
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

    crate::point! {
        struct Case { ms: u64 }
    }

    /// A plan of cases with these estimates.
    fn plan(estimates_ms: &[u64]) -> Plan {
        let case = |ms: &u64| PlannedCase::new(Case { ms: *ms }, Duration::from_millis(*ms));
        Plan {
            cases: estimates_ms.iter().map(case).collect(),
            reference: Params::default(),
            budget: Duration::ZERO,
        }
    }

    #[test]
    fn a_case_that_wants_more_cpus_than_there_are_is_skipped_until_there_are_enough() {
        let mut plan = plan(&[1; 4]);
        for (case, cpus) in plan.cases.iter_mut().zip(1..=3_u64) {
            case.params = Params::new().with("cpus", cpus);
        }
        let memory = Lack::new(Need::Memory, "there is none");
        plan.cases[0].skip = Some(memory.clone());
        let mut skipped = |cpus| {
            plan.fit(&crate::testing::site(crate::site::Profile::Quick, cpus));
            let of = plan.cases.iter().map(|case| case.skip.clone());
            of.collect::<Vec<_>>()
        };
        assert_eq!(
            skipped(2),
            [Some(memory.clone()), None, Some(Lack::cpus(3, 2)), None]
        );
        assert_eq!(skipped(3), [Some(memory), None, None, None]);
    }

    fn tries(estimates_ms: &[u64]) -> u32 {
        let mut plan = plan(estimates_ms);
        plan.cases.push(PlannedCase {
            skip: Some(Lack::cpus(2, 1)),
            ..PlannedCase::new(Case { ms: 10_000 }, Duration::from_secs(10))
        });
        plan.tries()
    }

    #[test]
    fn all_cases_have_the_same_number_of_tries_and_one_that_is_long_decides() {
        assert_eq!([&[5, 25][..], &[5, 26], &[5000]].map(tries), [2, 1, 1]);
    }
}
