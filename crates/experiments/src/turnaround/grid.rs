//! The cases of each profile: the source's matrix, then one factor at a time.

use std::time::Duration;

use super::case::{Carrier, Case, DEGREE, Degree, Extra, Kind, Lengths, Order};
use threadgauge_lab::compat::params;
use threadgauge_lab::grid::{Plan, PlannedCase};
use threadgauge_lab::site::{Profile, Site};

/// The source's numbers of computations.
pub(super) const COUNTS: [u64; 6] = [2, 5, 8, 11, 14, 17];
/// The source's base lengths, ms.
pub(super) const BASES_MS: [u64; 6] = [10, 30, 90, 270, 810, 2430];
/// The short ones of its charts.
pub(super) const SHORT_MS: u64 = BASES_MS[0];
/// The long ones.
pub(super) const LONG_MS: u64 = BASES_MS[5];
/// The number at which the other factors are varied.
pub(super) const MIDDLE: u64 = COUNTS[2];

/// Both of the source's kinds.
const KINDS: [Kind; 2] = [Kind::Cpu, Kind::Io];

/// The cases of a profile.
pub(super) fn plan(site: &Site) -> Plan {
    // Claims about several CPUs are about all of them; where there is one, about a second.
    let all = (site.cpus.len() as u64).max(2);
    let (cases, budget_s) = match site.profile {
        Profile::Quick => (quick(all), 40),
        Profile::Standard => (standard(all), 600),
        Profile::Paper => (paper(all), 14 * 60 * 60),
    };
    let mut planned: Vec<PlannedCase> = Vec::new();
    for case in cases {
        let case = planned_on(case, site.cpus.len());
        if !planned.iter().any(|p| p.params == case.params) {
            planned.push(case);
        }
    }
    Plan {
        cases: planned,
        reference: params("mode=concurrent,count=5,base_ms=10,extra=none,cpus=1"),
        budget: Duration::from_secs(budget_s),
        twice_up_to: Duration::ZERO,
    }
}

fn quick(all: u64) -> Vec<Case> {
    let mut cases = matrix(&KINDS, &COUNTS[..3], &[SHORT_MS]);
    cases.extend(matrix(&[Kind::Cpu], &[2], &[30]));
    cases.push(Case::concurrent(Kind::Io, 2, 30));
    cases.extend(both(equal(MIDDLE)));
    cases.extend(orders(&[5]));
    cases.extend(on(all, matrix(&[Kind::Cpu], &[5], &[SHORT_MS])));
    cases.push(background(5, all));
    cases.extend(finishers(2, &[1]));
    cases.extend(chains(5, all));
    cases
}

fn standard(all: u64) -> Vec<Case> {
    let mut cases = matrix(&KINDS, &COUNTS, &[SHORT_MS]);
    cases.extend(matrix(&[Kind::Cpu], &COUNTS[..3], &[30]));
    cases.extend(matrix(&[Kind::Cpu], &COUNTS[..2], &[90]));
    cases.extend(COUNTS.map(|count| Case::concurrent(Kind::Io, count, 30)));
    cases.extend(
        COUNTS[..3]
            .iter()
            .map(|&count| Case::concurrent(Kind::Io, count, 90)),
    );
    cases.extend(factors(all));
    cases
}

fn paper(all: u64) -> Vec<Case> {
    let mut cases = matrix(&KINDS, &COUNTS, &BASES_MS);
    cases.extend(on(all, matrix(&[Kind::Cpu], &[2, MIDDLE], &[LONG_MS])));
    cases.extend(factors(all));
    cases
}

/// What is varied besides the source's matrix, one factor at a time, at the shortest base.
fn factors(all: u64) -> Vec<Case> {
    let mut cases = on(all, matrix(&[Kind::Cpu], &COUNTS, &[SHORT_MS]));
    for lengths in [equal(MIDDLE), equal(17), random(MIDDLE)] {
        cases.extend(both(lengths));
    }
    cases.extend(on(all, both(equal(MIDDLE))));
    cases.extend(orders(&COUNTS));
    cases.extend(on(all, orders(&[MIDDLE])));
    cases.extend(degrees(all));
    for carrier in [Carrier::UpFront, Carrier::Pool, Carrier::Process] {
        let of = |kind| Case {
            carrier,
            ..Case::concurrent(kind, MIDDLE, SHORT_MS)
        };
        cases.extend(KINDS.map(of));
        cases.extend(on(all, [of(Kind::Cpu)]));
    }
    cases.push(background(MIDDLE, all));
    cases.extend(matrix(&Kind::MIXES, &[MIDDLE], &[SHORT_MS]));
    cases.extend(matrix(&[Kind::File, Kind::Server], &[MIDDLE], &[SHORT_MS]));
    cases.extend(finishers(MIDDLE, &[1, all]));
    cases.extend(chains(MIDDLE, all));
    cases
}

/// The source's matrix on one CPU, shortest first.
fn matrix(kinds: &[Kind], counts: &[u64], bases_ms: &[u64]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &base_ms in bases_ms {
        for &count in counts {
            for &kind in kinds {
                cases.extend(both(Case::serial(kind, count, base_ms)));
            }
        }
    }
    cases
}

/// A serial case and the same all at once.
fn both(serial: Case) -> [Case; 2] {
    let concurrent = Case {
        carrier: Carrier::Thread,
        degree: DEGREE,
        ..serial
    };
    [serial, concurrent]
}

fn on(cpus: u64, cases: impl IntoIterator<Item = Case>) -> Vec<Case> {
    cases.into_iter().map(|case| Case { cpus, ..case }).collect()
}

fn equal(count: u64) -> Case {
    Case {
        lengths: Lengths::Equal,
        ..Case::serial(Kind::Cpu, count, SHORT_MS)
    }
}

fn random(count: u64) -> Case {
    Case {
        lengths: Lengths::Random,
        ..equal(count)
    }
}

/// The orders that the matrix does not have.
fn orders(counts: &[u64]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &count in counts {
        for order in [Order::Ascending, Order::Shuffled] {
            cases.extend(both(Case {
                order,
                ..Case::serial(Kind::Cpu, count, SHORT_MS)
            }));
        }
    }
    cases
}

fn degrees(all: u64) -> Vec<Case> {
    let of = |kind, degree, cpus| Case {
        degree: Degree::AtMost(degree),
        cpus,
        ..Case::concurrent(kind, MIDDLE, SHORT_MS)
    };
    let mut cases: Vec<Case> = [1, 2, 4].map(|degree| of(Kind::Cpu, degree, 1)).to_vec();
    cases.extend([2, 4].map(|degree| of(Kind::Io, degree, 1)));
    // As many as there are CPUs.
    cases.push(of(Kind::Cpu, all, all));
    for kind in ADAPTED {
        cases.extend(adapted(kind, all));
    }
    cases
}

/// The kinds for which the adaptive degree is tried.
pub(super) const ADAPTED: [Kind; 3] = [Kind::Cpu, Kind::Mix50, Kind::Io];

/// As many at once as the executor finds worth it, as many as CPUs, and as many as the source's: enough of them, all
/// equally long, that there is something to find.
pub(super) fn adapted(kind: Kind, all: u64) -> [Case; 3] {
    [Degree::Adaptive, Degree::AtMost(all), DEGREE].map(|degree| Case {
        carrier: Carrier::Pool,
        degree,
        lengths: Lengths::Equal,
        cpus: all,
        ..Case::concurrent(kind, 100, SHORT_MS)
    })
}

/// One background thread for everything.
fn background(count: u64, cpus: u64) -> Case {
    Case {
        carrier: Carrier::Pool,
        degree: Degree::AtMost(1),
        cpus,
        ..Case::concurrent(Kind::Cpu, count, SHORT_MS)
    }
}

fn finishers(count: u64, cpus: &[u64]) -> Vec<Case> {
    let case = Case {
        extra: Extra::Finisher,
        ..Case::concurrent(Kind::Cpu, count, SHORT_MS)
    };
    cpus.iter().map(|&cpus| Case { cpus, ..case }).collect()
}

/// Each computation needs the one before it.
fn chains(count: u64, all: u64) -> Vec<Case> {
    let of = |case| Case {
        extra: Extra::Chain,
        ..case
    };
    let concurrent = of(Case::concurrent(Kind::Cpu, count, SHORT_MS));
    vec![
        of(Case::serial(Kind::Cpu, count, SHORT_MS)),
        concurrent,
        Case {
            cpus: all,
            ..concurrent
        },
    ]
}

fn planned_on(case: Case, available: usize) -> PlannedCase {
    let mut planned = PlannedCase::new(case.params(), estimate(case));
    if case.cpus > available as u64 {
        planned.skip = Some(threadgauge_results::Lack::cpus(case.cpus, available as u64));
    }
    planned
}

/// What a sample takes: what theory says, and starting the worker, calibrating and ending.
fn estimate(case: Case) -> Duration {
    let worker = Duration::from_millis(match (case.kind, case.carrier) {
        // The file is written and read before the clock runs.
        (Kind::File, _) => 150,
        (_, Carrier::Process) => 12 + 3 * case.count,
        _ => 12,
    });
    let lengths = case.given(1);
    let ideal_ns = case.ideal(&lengths).into_iter().fold(0.0, f64::max);
    let finishers = match case.extra {
        Extra::Finisher => Duration::from_millis(case.base_ms * case.count),
        Extra::None | Extra::Chain => Duration::ZERO,
    };
    // Steps calibrated at their fastest take a little longer in the long run.
    worker + finishers + Duration::from_nanos((ideal_ns * 1.03) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turnaround::Turnaround;
    use threadgauge_lab::experiment::Experiment;
    use threadgauge_lab::schedule::Chosen;

    fn chosen(profile: Profile, cpus: usize) -> Chosen {
        let site = Site {
            profile,
            cpus: threadgauge_machine::CpuList::new(0..cpus),
            free_memory_mib: 1_000,
        };
        Chosen {
            experiment: &Turnaround,
            plan: Turnaround.plan(&site),
        }
    }

    #[test]
    fn every_case_is_read_back_as_planned_and_planned_once() {
        for profile in [Profile::Quick, Profile::Standard, Profile::Paper] {
            let cases = chosen(profile, 2).plan.cases;
            for (i, planned) in cases.iter().enumerate() {
                let case = Case::from_params(&planned.params).unwrap();
                assert_eq!(case.params(), planned.params);
                assert!(cases[..i].iter().all(|other| other.params != planned.params));
            }
        }
    }

    #[test]
    fn each_profile_keeps_to_its_time() {
        let takes = |profile, rounds| chosen(profile, 2).expected(rounds).as_secs_f64();
        let quick = takes(Profile::Quick, 7);
        assert!((20.0..=30.0).contains(&quick), "{quick}");
        let standard = takes(Profile::Standard, 10);
        assert!((400.0..=600.0).contains(&standard), "{standard}");
        let hours = takes(Profile::Paper, 10) / 3600.0;
        assert!((11.5..=13.5).contains(&hours), "{hours}");
    }

    #[test]
    fn the_paper_profile_is_the_sources_matrix_and_more() {
        let cases = chosen(Profile::Paper, 2).plan.cases;
        for count in COUNTS {
            for base_ms in BASES_MS {
                for kind in KINDS {
                    for case in both(Case::serial(kind, count, base_ms)) {
                        assert!(
                            cases.iter().any(|c| c.params == case.params()),
                            "{}",
                            case.params()
                        );
                    }
                }
            }
        }
        let longest = cases.iter().map(|c| c.estimate).max().unwrap().as_secs();
        assert!((370..390).contains(&longest), "{longest}");
    }

    #[test]
    fn the_smaller_profiles_are_parts_of_the_larger() {
        let standard = chosen(Profile::Standard, 2).plan.cases;
        for quick in chosen(Profile::Quick, 2).plan.cases {
            let case = Case::from_params(&quick.params).unwrap();
            // The extras stand at another number of computations.
            if case.extra == Extra::None && case.carrier != Carrier::Pool {
                assert!(
                    standard.iter().any(|s| s.params == quick.params),
                    "{}",
                    quick.params
                );
            }
        }
    }

    #[test]
    fn with_one_cpu_cases_on_more_say_what_they_need() {
        let cases = chosen(Profile::Standard, 1).plan.cases;
        let (one, more): (Vec<_>, Vec<_>) = cases.iter().partition(|c| c.params.int("cpus") == Some(1));
        assert!(one.iter().all(|c| c.skip.is_none()) && more.len() > 10);
        for case in more {
            assert_eq!(
                case.skip.as_ref().map(|l| l.says.as_str()),
                Some("needs 2 CPUs, this run has 1")
            );
        }
    }

    #[test]
    fn the_reference_is_one_short_case_of_every_profile() {
        for profile in [Profile::Quick, Profile::Standard, Profile::Paper] {
            let Plan { cases, reference, .. } = chosen(profile, 2).plan;
            let first = cases.iter().find(|c| c.params.matches(&reference)).unwrap();
            assert_eq!(first.params, Case::concurrent(Kind::Cpu, 5, 10).params());
        }
    }
}
