//! The cases of each profile: the source's matrix, then one factor at a time.

use threadgauge_lab::prelude::*;

use super::case::{Carrier, Case, DEGREE, Degree, Extra, Kind, Lengths, Order};

/// The source's numbers of computations.
pub(super) const COUNTS: [u64; 6] = [2, 5, 8, 11, 14, 17];
/// The source's base lengths, ms.
pub(super) const BASES_MS: [u64; 6] = [10, 30, 90, 270, 810, 2430];
/// The short ones of its charts.
pub(super) const SHORT_MS: u64 = BASES_MS[0];
/// The long ones.
pub(super) const LONG_MS: u64 = BASES_MS[5];
/// Who runs them, beside the source's own: curves, on which no claim is judged.
pub(super) const OTHER_CARRIERS: [Carrier; 3] = [Carrier::Thread, Carrier::Pool, Carrier::Process];
/// The number at which the other factors are varied.
pub(super) const MIDDLE: u64 = COUNTS[2];

/// Both of the source's kinds.
pub(super) const KINDS: [Kind; 2] = [Kind::Cpu, Kind::Io];

/// The cases of a profile.
pub(super) fn plan(site: &Site) -> Plan {
    // Claims about several CPUs are about all of them. Where there is one CPU, cases of two are planned and say what
    // they lack.
    let all = (site.cpus.len() as u64).max(2);
    let cases = match site.profile {
        Profile::Quick => quick(all),
        Profile::Standard => standard(all),
        Profile::Paper => paper(all),
    };
    let mut planned: Vec<PlannedCase> = Vec::new();
    for case in cases {
        if !planned.iter().any(|p| p.params == case.params()) {
            planned.push(PlannedCase {
                check: |params| Case::checked(params).map(drop),
                takes: Some(|params| Case::checked(params).ok().map(estimate)),
                ..PlannedCase::new(case, estimate(case))
            });
        }
    }
    let reference = Case::serial(Kind::Cpu, 5, SHORT_MS).concurrent();
    Plan {
        cases: planned,
        reference: reference.params(),
        budget: Duration::from_secs(site.profile.pick(31, 581, 14 * 60 * 60)),
    }
}

/// Those of all profiles.
pub(super) fn of_profiles(all: u64) -> Vec<Case> {
    [quick(all), standard(all), paper(all)].concat()
}

fn quick(all: u64) -> Vec<Case> {
    let mut cases = matrix(&KINDS, &COUNTS[..3], &[SHORT_MS]);
    cases.extend(matrix(&[Kind::Cpu], &[2], &[30]));
    cases.push(Case::serial(Kind::Io, 2, 30).concurrent());
    cases.extend(both(cpu(MIDDLE).lengths(Lengths::Equal)));
    cases.extend(orders(&[5]));
    cases.extend(on(all, matrix(&[Kind::Cpu], &[5], &[SHORT_MS])));
    cases.push(background(5, all));
    cases.push(finisher(2));
    cases.extend(chains(5, all));
    cases
}

fn standard(all: u64) -> Vec<Case> {
    let sleeping = |count, base_ms| Case::serial(Kind::Io, count, base_ms).concurrent();
    let mut cases = matrix(&KINDS, &COUNTS, &[SHORT_MS]);
    cases.extend(matrix(&[Kind::Cpu], &COUNTS[..3], &[30]));
    cases.extend(matrix(&[Kind::Cpu], &COUNTS[..2], &[90]));
    cases.extend(COUNTS.map(|count| sleeping(count, 30)));
    cases.extend(COUNTS[..3].iter().map(|&count| sleeping(count, 90)));
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
    let equal = |count| cpu(count).lengths(Lengths::Equal);
    let mut cases = on(all, matrix(&[Kind::Cpu], &COUNTS, &[SHORT_MS]));
    for lengths in [equal(MIDDLE), equal(17), cpu(MIDDLE).lengths(Lengths::Random)] {
        cases.extend(both(lengths));
    }
    cases.extend(on(all, both(equal(MIDDLE))));
    cases.extend(orders(&COUNTS));
    cases.extend(on(all, orders(&[MIDDLE])));
    cases.extend(degrees(all));
    for carrier in OTHER_CARRIERS {
        let of = |kind, count| Case::serial(kind, count, SHORT_MS).concurrent().carrier(carrier);
        cases.extend(
            KINDS
                .into_iter()
                .flat_map(|kind| COUNTS.map(|count| of(kind, count))),
        );
        cases.push(of(Kind::Cpu, MIDDLE).cpus(all));
    }
    cases.push(background(MIDDLE, all));
    cases.extend(matrix(&Kind::MIXES, &[MIDDLE], &[SHORT_MS]));
    cases.extend(matrix(&[Kind::Server], &[MIDDLE], &[SHORT_MS]));
    cases.extend([1, all].map(|cpus| finisher(MIDDLE).cpus(cpus)));
    cases.extend(chains(MIDDLE, all));
    cases
}

/// Short CPU-bound computations, one after the other on one CPU.
const fn cpu(count: u64) -> Case {
    Case::serial(Kind::Cpu, count, SHORT_MS)
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

/// A serial case and its concurrent counterpart.
const fn both(serial: Case) -> [Case; 2] {
    [serial, serial.concurrent()]
}

fn on(cpus: u64, cases: impl IntoIterator<Item = Case>) -> Vec<Case> {
    cases.into_iter().map(|case| case.cpus(cpus)).collect()
}

/// The orders that the matrix lacks.
fn orders(counts: &[u64]) -> Vec<Case> {
    let of = |&count: &u64| [Order::Ascending, Order::Shuffled].map(|order| both(cpu(count).order(order)));
    counts.iter().flat_map(of).flatten().collect()
}

fn degrees(all: u64) -> Vec<Case> {
    let of = |kind, degree| {
        Case::serial(kind, MIDDLE, SHORT_MS)
            .concurrent()
            .degree(Degree::AtMost(degree))
    };
    let mut cases: Vec<Case> = [1, 2, 4].map(|degree| of(Kind::Cpu, degree)).to_vec();
    cases.extend([2, 4].map(|degree| of(Kind::Io, degree)));
    // As many as there are CPUs.
    cases.push(of(Kind::Cpu, all).cpus(all));
    cases.extend(ADAPTED.into_iter().flat_map(|kind| adapted(kind, all)));
    cases
}

/// The kinds for which the adaptive degree is tried.
pub(super) const ADAPTED: [Kind; 3] = [Kind::Cpu, Kind::Mix50, Kind::Io];

/// Three degrees: what the executor finds by itself, as many as CPUs, and the source's. There are enough computations,
/// all equally long, for the executor to find one.
pub(super) fn adapted(kind: Kind, all: u64) -> [Case; 3] {
    let pool = Case::serial(kind, 100, SHORT_MS)
        .concurrent()
        .carrier(Carrier::Pool);
    [Degree::Adaptive, Degree::AtMost(all), DEGREE]
        .map(|degree| pool.degree(degree).lengths(Lengths::Equal).cpus(all))
}

/// One background thread for everything.
pub(super) const fn background(count: u64, cpus: u64) -> Case {
    cpu(count)
        .concurrent()
        .carrier(Carrier::Pool)
        .degree(Degree::AtMost(1))
        .cpus(cpus)
}

/// Finishing each takes as long as the shortest computation.
const fn finisher(count: u64) -> Case {
    cpu(count).concurrent().extra(Extra::Finisher)
}

/// Each computation needs the one before it.
fn chains(count: u64, all: u64) -> [Case; 3] {
    let [serial, concurrent] = both(cpu(count).extra(Extra::Chain));
    [serial, concurrent, concurrent.cpus(all)]
}

/// What a sample takes: what theory says, and starting the worker, calibrating and ending.
fn estimate(case: Case) -> Duration {
    let worker = Duration::from_millis(match case.carrier {
        Carrier::Process => 12 + 3 * case.count,
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
    use crate::turnaround::EXPERIMENT;
    use threadgauge_lab::schedule::Chosen;
    use threadgauge_lab::selection::choose;

    fn chosen(profile: Profile, cpus: usize) -> Chosen {
        Chosen::all(&EXPERIMENT, &threadgauge_lab::testing::site(profile, cpus))
    }

    #[test]
    fn every_case_is_read_back_as_planned_and_planned_once() {
        for profile in [Profile::Quick, Profile::Standard, Profile::Paper] {
            let cases = chosen(profile, 2).plan.cases;
            for (i, planned) in cases.iter().enumerate() {
                let case = Case::checked(&planned.params).unwrap();
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
    fn values_of_the_users_own_are_estimated_by_theory() {
        let selector = |text: &str| text.parse().unwrap();
        let seconds = |only: &str| -> Vec<u64> {
            let site = threadgauge_lab::testing::site(Profile::Quick, 2);
            let set = selector("count=500,base_ms=120,kind=io,lengths=equal,order=descending");
            let chosen = choose(&[&EXPERIMENT], &site, &selector(only), &set).unwrap();
            let cases = chosen.iter().flat_map(|chosen| &chosen.plan.cases);
            cases.map(|case| case.estimate.as_secs()).collect()
        };
        // One after the other, and 25 at a time.
        assert_eq!(seconds("mode=serial,extra=none,cpus=1"), [61]);
        assert_eq!(seconds("mode=concurrent,extra=none,cpus=1,carrier=up-front"), [2]);
    }

    #[test]
    fn a_list_of_lengths_for_another_number_of_computations_is_refused_before_it_runs() {
        let selector = |text: &str| text.parse().unwrap();
        let chosen = |set: &str| {
            let site = threadgauge_lab::testing::site(Profile::Quick, 2);
            choose(&[&EXPERIMENT], &site, &selector("extra=none"), &selector(set)).map(drop)
        };
        let says = chosen("lengths=10/20/500,count=7").unwrap_err().to_string();
        assert!(
            says.ends_with("the parameter count is 7; it must be 3, since so many lengths are given"),
            "{says}"
        );
        assert_eq!(chosen("lengths=10/20/500,count=3"), Ok(()));
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
            let case = Case::checked(&quick.params).unwrap();
            // The extras have another number of computations.
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
            assert_eq!(first.params, Case::serial(Kind::Cpu, 5, 10).concurrent().params());
        }
    }
}
