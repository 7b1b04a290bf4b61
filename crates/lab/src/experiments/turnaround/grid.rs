//! The cases of each profile.

use std::time::Duration;

use super::case::{Case, Extra, Kind};
use crate::experiment::{Plan, PlannedCase, Profile, Site};
use crate::view::params;

/// The source's numbers of computations.
pub(super) const COUNTS: [u64; 6] = [2, 5, 8, 11, 14, 17];
/// The source's base lengths, ms.
pub(super) const BASES_MS: [u64; 6] = [10, 30, 90, 270, 810, 2430];

/// The cases of a profile.
pub(super) fn plan(site: &Site) -> Plan {
    let cases = match site.profile {
        Profile::Quick => matrix(&[Kind::Cpu, Kind::Io], &COUNTS[..3], &BASES_MS[..1]),
        Profile::Standard => matrix(&[Kind::Cpu, Kind::Io], &COUNTS, &BASES_MS[..1]),
        Profile::Paper => matrix(&[Kind::Cpu, Kind::Io], &COUNTS, &BASES_MS),
    };
    let budget = match site.profile {
        Profile::Quick => Duration::from_secs(29),
        Profile::Standard => Duration::from_secs(580),
        Profile::Paper => Duration::from_secs(15 * 60 * 60),
    };
    Plan {
        cases: cases
            .into_iter()
            .map(|case| planned(case, site.cpus.len()))
            .collect(),
        reference: params("count=5,base_ms=10,mode=concurrent,cpus=1"),
        budget,
        least_of_tries: false,
    }
}

/// The source's matrix on one CPU, shortest first.
fn matrix(kinds: &[Kind], counts: &[u64], bases_ms: &[u64]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &base_ms in bases_ms {
        for &count in counts {
            for &kind in kinds {
                cases.push(Case::serial(kind, count, base_ms));
                cases.push(Case::concurrent(kind, count, base_ms));
            }
        }
    }
    cases
}

fn planned(case: Case, available: usize) -> PlannedCase {
    let mut planned = PlannedCase::new(case.params(), estimate(case));
    if case.cpus > available as u64 {
        planned.skip = Some(format!("needs {} CPUs, this run has {available}", case.cpus));
    }
    planned
}

/// What a sample takes: what theory says, and starting the worker, calibrating and ending.
fn estimate(case: Case) -> Duration {
    const WORKER: Duration = Duration::from_millis(15);
    let lengths = case.given(1);
    let ideal_ns = case.ideal(&lengths).into_iter().fold(0.0, f64::max);
    let finishers = match case.extra {
        Extra::Finisher => Duration::from_millis(case.base_ms * case.count),
        Extra::None | Extra::Chain => Duration::ZERO,
    };
    // Steps calibrated at their fastest take a little longer in the long run.
    WORKER + finishers + Duration::from_nanos((ideal_ns * 1.02) as u64)
}
