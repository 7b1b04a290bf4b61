//! The cases of each profile, and what each is expected to take.
//!
//! One factor at a time from the base (one at a time, nobody beside, empty parent, one CPU): all ways
//! on one and on all CPUs; then how many are alive, who computes beside, and what the parent holds, for
//! the ways in which the factor can matter.

use std::time::Duration;

use crate::create::program;
use crate::create::way::{Case, Way};
use threadgauge_lab::grid::{Plan, PlannedCase};
use threadgauge_lab::site::{Profile, Site};

/// How many units are kept alive together.
pub const ALIVE: [u64; 2] = [64, 1000];
/// How many compute beside.
pub const BUSY: u64 = 16;
/// Memory of the parent, MiB.
pub const PARENT_MIB: [u64; 2] = [100, 1024];
/// Free memory that the largest parent asks for, MiB: its own, and a reserve for page tables and the rest.
const MEMORY_FOR_LARGEST_MIB: u64 = 1600;

/// The CPUs of the cases "on all": at least two, so that a machine with one says what it lacks.
pub fn all_cpus(site: &Site) -> u64 {
    (site.cpus.len() as u64).max(2)
}

/// The cases for a site.
pub fn plan(site: &Site) -> Plan {
    let profile = site.profile;
    let mut cases = Vec::new();
    let mut add = |case: Case, cpus: u64| {
        cases.push(PlannedCase {
            skip: why_not(&case, cpus, site),
            ..PlannedCase::new(case.params(cpus), estimate(&case, cpus))
        });
    };
    for cpus in [1, all_cpus(site)] {
        for way in Way::ALL {
            add(Case::base(way, base_count(profile, way)), cpus);
        }
    }
    for way in kept_alive(profile) {
        for alive in ALIVE {
            let count = whole_batches(alive_count(profile), alive);
            add(
                Case {
                    alive,
                    ..Case::base(way, count)
                },
                1,
            );
        }
    }
    for way in beside_computing(profile) {
        add(
            Case {
                busy: BUSY,
                ..Case::base(*way, busy_count(profile))
            },
            1,
        );
    }
    for (way, parent_mib, huge_pages) in with_memory(profile) {
        add(
            Case {
                parent_mib,
                huge_pages,
                ..Case::base(way, memory_count(profile, parent_mib))
            },
            1,
        );
    }
    Plan {
        cases,
        // Short, so that it can be tried often: the null band that it gives stands beside every comparison.
        reference: Case::base(Way::Pthread, base_count(profile, Way::Pthread)).params(1),
        budget: match profile {
            Profile::Quick => Duration::from_secs(30),
            Profile::Standard => Duration::from_secs(220),
            Profile::Paper => Duration::from_secs(2 * 3600),
        },
        twice_up_to: Duration::from_millis(25),
    }
}

fn base_count(profile: Profile, way: Way) -> u64 {
    match profile {
        Profile::Quick => 200,
        // A program takes ten times a thread: half as many are as precise.
        Profile::Standard if way.runs_program() => 1_000,
        Profile::Standard => 2_000,
        Profile::Paper => 100_000,
    }
}

fn alive_count(profile: Profile) -> u64 {
    match profile {
        Profile::Quick => 200,
        Profile::Standard => 1_000,
        Profile::Paper => 10_000,
    }
}

/// The number below `count` that makes whole batches, one batch at least.
fn whole_batches(count: u64, alive: u64) -> u64 {
    (count / alive).max(1) * alive
}

fn busy_count(profile: Profile) -> u64 {
    match profile {
        Profile::Quick => 200,
        Profile::Standard => 400,
        Profile::Paper => 4_000,
    }
}

fn memory_count(profile: Profile, parent_mib: u64) -> u64 {
    let large = parent_mib >= PARENT_MIB[1];
    match profile {
        Profile::Quick | Profile::Standard => {
            if large {
                20
            } else {
                200
            }
        }
        Profile::Paper => {
            if large {
                200
            } else {
                2_000
            }
        }
    }
}

/// A thread of the standard library is a pthread and a little more: the paper profile alone keeps it alive.
fn kept_alive(profile: Profile) -> Vec<Way> {
    let ways = Way::ALL.into_iter().filter(|way| way.can_hold());
    match profile {
        Profile::Quick => ways
            .filter(|way| *way != Way::Std && !way.runs_program())
            .collect(),
        Profile::Standard => ways.filter(|way| *way != Way::Std).collect(),
        Profile::Paper => ways.collect(),
    }
}

fn beside_computing(profile: Profile) -> &'static [Way] {
    match profile {
        Profile::Quick => &[Way::Fork, Way::Pthread],
        Profile::Standard => &[Way::Fork, Way::Pthread, Way::Pool],
        Profile::Paper => &Way::ALL,
    }
}

/// Each way that copies no page tables shows once, small, that nothing happens to it; the paper profile has
/// the whole grid. A gigabyte of huge pages is not for quick: a virtual machine that hands free memory back
/// to its host takes seconds to have it again.
fn with_memory(profile: Profile) -> Vec<(Way, u64, bool)> {
    let [small, large] = PARENT_MIB;
    let quick = [
        (Way::Fork, small, false),
        (Way::Fork, small, true),
        (Way::Fork, large, false),
        (Way::Vfork, small, false),
        (Way::PosixSpawn, small, false),
        (Way::Pthread, small, false),
    ];
    let standard = [(Way::Fork, large, true), (Way::PosixSpawn, large, false)];
    match profile {
        Profile::Quick => quick.into(),
        Profile::Standard => quick.into_iter().chain(standard).collect(),
        Profile::Paper => [Way::Fork, Way::Vfork, Way::PosixSpawn, Way::Pthread]
            .into_iter()
            .flat_map(|way| PARENT_MIB.map(|mib| [(way, mib, false), (way, mib, true)]))
            .flatten()
            .collect(),
    }
}

fn why_not(case: &Case, cpus: u64, site: &Site) -> Option<threadgauge_results::Lack> {
    let here = site.cpus.len() as u64;
    if cpus > here {
        return Some(threadgauge_results::Lack::cpus(cpus, here));
    }
    if case.parent_mib >= 1024 && site.free_memory_mib < MEMORY_FOR_LARGEST_MIB {
        return Some(threadgauge_results::Lack::memory(
            MEMORY_FOR_LARGEST_MIB,
            site.free_memory_mib,
        ));
    }
    if case.way.runs_program() {
        return program::missing()
            .map(|why| threadgauge_results::Lack::new(threadgauge_results::Need::Program, why));
    }
    None
}

/// The longest a case with others computing beside goes on making units: 1.25 ms for each it was asked for,
/// 0.25 s in quick. With 16 others on one CPU every wait for a unit waits for their time slices first.
pub fn busy_limit(count: u64) -> Duration {
    Duration::from_micros(1250 * count)
}

/// Starting the worker, the work, and ending both, on a virtual machine with two CPUs.
fn estimate(case: &Case, cpus: u64) -> Duration {
    let start = Duration::from_millis(7);
    let touch_us = case.parent_mib * if case.huge_pages { 2_500 } else { 500 };
    let work = if case.busy > 0 {
        // Those beside are started and ended, each in its turn.
        busy_limit(case.count) + Duration::from_millis(60)
    } else {
        let copied_us = match case.way {
            Way::Fork | Way::ForkSigchld | Way::ForkExec if !case.huge_pages => case.parent_mib * 31,
            _ => 0,
        };
        let pool_us = if case.way == Way::Pool { 60 * case.alive } else { 0 };
        Duration::from_micros(case.count * (unit_us(case, cpus) + copied_us) + pool_us)
    };
    start + Duration::from_micros(touch_us) + work
}

/// What a unit takes, µs.
fn unit_us(case: &Case, cpus: u64) -> u64 {
    let (one_cpu, all_cpus) = match case.way {
        Way::Fork => (112, 136),
        Way::ForkSigchld => (120, 120),
        Way::Vfork => (28, 40),
        Way::PosixSpawn => (160, 200),
        Way::ForkExec => (240, 330),
        Way::CloneVm => (28, 38),
        Way::Pthread => (22, 36),
        Way::Std => (24, 38),
        Way::Pool => (7, 45),
    };
    let us = if cpus == 1 { one_cpu } else { all_cpus };
    // Each unit of many has to be mapped, woken and switched to.
    if case.alive > 1 { us * 8 / 5 } else { us }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_machine::CpuList;

    fn site(profile: Profile, cpus: usize, free_memory_mib: u64) -> Site {
        Site {
            profile,
            cpus: CpuList::new(0..cpus),
            free_memory_mib,
        }
    }

    fn skipped(plan: &Plan, with: &str) -> usize {
        let reasons = plan
            .cases
            .iter()
            .filter_map(|c| c.skip.as_ref().map(|l| l.says.as_str()));
        reasons.filter(|r| r.contains(with)).count()
    }

    #[test]
    fn each_profile_stays_within_its_round() {
        for (profile, most) in [
            (Profile::Quick, Duration::from_millis(4_200)),
            (Profile::Standard, Duration::from_secs(12)),
            (Profile::Paper, Duration::from_secs(720)),
        ] {
            let plan = plan(&site(profile, 2, 8_000));
            let round: Duration = plan.cases.iter().map(|c| c.estimate).sum();
            assert!(round <= most, "{} takes {round:?} a round", profile.name());
        }
    }

    #[test]
    fn every_case_is_there_once_and_can_be_read() {
        for profile in [Profile::Quick, Profile::Standard, Profile::Paper] {
            let plan = plan(&site(profile, 2, 8_000));
            let mut ids: Vec<String> = plan.cases.iter().map(|c| c.params.to_string()).collect();
            for case in &plan.cases {
                let read = Case::read(&case.params).unwrap();
                assert_eq!(read.count % read.alive, 0, "{} has a broken batch", case.params);
            }
            let all = ids.len();
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), all, "{} plans a case twice", profile.name());
        }
    }

    #[test]
    fn only_one_factor_leaves_the_base() {
        for case in plan(&site(Profile::Paper, 4, 8_000)).cases {
            let read = Case::read(&case.params).unwrap();
            let changed = [
                read.alive > 1,
                read.busy > 0,
                read.parent_mib > 0,
                case.params.int("cpus") == Some(4),
            ];
            assert!(changed.iter().filter(|c| **c).count() <= 1, "{}", case.params);
            assert!(!read.huge_pages || read.parent_mib > 0);
        }
    }

    #[test]
    fn the_paper_profile_makes_100_000_as_the_source() {
        let plan = plan(&site(Profile::Paper, 2, 8_000));
        let base = plan.cases.iter().take(2 * Way::ALL.len());
        assert!(
            base.clone().count() == 18 && base.into_iter().all(|c| c.params.int("count") == Some(100_000))
        );
    }

    #[test]
    fn what_the_machine_lacks_is_said_and_nothing_else_is_skipped() {
        let enough = plan(&site(Profile::Quick, 2, 8_000));
        assert_eq!(skipped(&enough, "needs"), 0);
        let one_cpu = plan(&site(Profile::Quick, 1, 8_000));
        assert_eq!(skipped(&one_cpu, "needs 2 CPUs, this run has 1"), Way::ALL.len());
        let little = plan(&site(Profile::Quick, 2, 900));
        assert_eq!(skipped(&little, "needs 1600 MiB of free memory, 900 are free"), 1);
    }

    #[test]
    fn the_reference_is_planned() {
        let plan = plan(&site(Profile::Standard, 2, 8_000));
        assert!(
            plan.cases
                .iter()
                .any(|c| c.params.matches(&plan.reference) && c.skip.is_none())
        );
    }
}
