//! The cases: which units share the work, how they give up the CPU, how many there are and on how many CPUs.
//!
//! Owns the grid of each profile, what a case is expected to take, and reading a case back from its parameters.

use std::time::Duration;

use threadgauge_results::Params;

use threadgauge_lab::compat::params;
use threadgauge_lab::grid::{Plan, PlannedCase};
use threadgauge_lab::site::{Profile, Site};
use threadgauge_lab::worker::CaseError;

/// The counts of the source's table.
pub(super) const COUNTS: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// The CPU numbers of the source's table.
pub(super) const CPUS: [u64; 2] = [1, 2];

/// How many slices all units together work, where `--set slices=…` does not say otherwise.
///
/// 8,192 units then have two each. Every case of every profile does the same work, since the weight of what each
/// unit costs once depends on it: an overhead at 8,192 units means nothing without the work it was measured with.
pub(super) const SLICES: u64 = 16_384;

/// Slices of a sample whose units sleep 1 ms after each: one unit alone then sleeps for a quarter of a second.
const SLEEPING_SLICES: u64 = 256;

/// What shares the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Thread,
    Process,
}

impl Unit {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Process => "process",
        }
    }
}

/// What a unit does after a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Offers the CPU to whoever waits.
    Yield,
    /// Goes on: the control.
    Neither,
    /// Sleeps for 1 ms, as programs that wait for something do.
    Sleep,
}

impl Mode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Yield => "yield",
            Self::Neither => "neither",
            Self::Sleep => "sleep",
        }
    }
}

/// One case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) unit: Unit,
    pub(super) mode: Mode,
    pub(super) count: u64,
    pub(super) cpus: u64,
    /// The work of all units together.
    pub(super) slices: u64,
}

impl Case {
    /// Reads a case back.
    pub(super) fn from_params(params: &Params) -> Result<Self, CaseError> {
        let unit = match params.text("unit") {
            Some("thread") => Unit::Thread,
            Some("process") => Unit::Process,
            _ => return Err(wrong(params, "unit", "thread or process")),
        };
        let mode = match params.text("mode") {
            Some("yield") => Mode::Yield,
            Some("neither") => Mode::Neither,
            Some("sleep") => Mode::Sleep,
            _ => return Err(wrong(params, "mode", "yield, neither or sleep")),
        };
        let number = |name| match params.int(name) {
            Some(n @ 1..) => Ok(n),
            _ => Err(wrong(params, name, "a number above 0")),
        };
        let case = Self {
            unit,
            mode,
            count: number("count")?,
            cpus: number("cpus")?,
            slices: number("slices")?,
        };
        if !case.slices.is_multiple_of(case.count) {
            return Err(CaseError::Failed(format!(
                "{} slices cannot be shared equally by {} units; choose --set slices= a multiple of the largest count",
                case.slices, case.count
            )));
        }
        Ok(case)
    }

    pub(super) fn params(self) -> Params {
        Params::new()
            .with("unit", self.unit.name())
            .with("mode", self.mode.name())
            .with("count", self.count)
            .with("cpus", self.cpus)
            .with("slices", self.slices)
    }

    /// How many pieces each unit's share is worked in, with the CPU given up after each.
    ///
    /// Sleeping units cut the same work into fewer, longer pieces: 16,384 sleeps of one unit alone would add up to
    /// 17 s. There are 256 pieces, and one a unit where there are more units.
    pub(super) const fn pieces_per_unit(self) -> u64 {
        let share = self.slices / self.count;
        match self.mode {
            Mode::Yield | Mode::Neither => share,
            Mode::Sleep => {
                let pieces = SLEEPING_SLICES / self.count;
                if pieces == 0 {
                    1
                } else if pieces > share {
                    share
                } else {
                    pieces
                }
            }
        }
    }

    /// What a sample takes on a quiet virtual machine with two CPUs, with starting the worker.
    fn estimate(self) -> Duration {
        const WORKER_US: u64 = 5_000;
        let two = self.cpus > 1 && self.count > 1;
        // The more units, the colder each one's stack and kernel data when its turn comes.
        let slice_ns = match self.mode {
            Mode::Neither | Mode::Sleep => 1_650 + self.count / 3,
            Mode::Yield if self.count <= self.cpus => 2_200,
            Mode::Yield => 3_150 + self.count.min(1_024) * 3,
        };
        // Two CPUs share the work well, but not the switching of a thousand.
        let share_percent = match self.mode {
            _ if !two => 100,
            Mode::Yield if self.count >= 1_024 => 85,
            Mode::Yield if self.count > 2 => 65,
            _ => 55,
        };
        let sleep_us = match self.mode {
            Mode::Sleep => self.pieces_per_unit() * 1_100,
            Mode::Yield | Mode::Neither => 0,
        };
        let start_and_end_us = match self.unit {
            Unit::Thread => 26 + self.count / 400,
            Unit::Process if two => 175,
            Unit::Process => 210,
        };
        let work_us = self.slices * slice_ns / 1_000 * share_percent / 100;
        Duration::from_micros(WORKER_US + work_us + sleep_us + self.count * start_and_end_us)
    }
}

fn wrong(params: &Params, name: &str, wanted: &str) -> CaseError {
    let given = params
        .get(name)
        .map_or_else(|| "missing".to_owned(), ToString::to_string);
    CaseError::Failed(format!("the parameter {name} is {given}; it must be {wanted}"))
}

/// The cases of a profile.
pub(super) fn plan(site: &Site) -> Plan {
    let budget = match site.profile {
        Profile::Quick => Duration::from_millis(52_700),
        Profile::Standard => Duration::from_secs(320),
        Profile::Paper => Duration::from_secs(2 * 60 * 60),
    };
    let mut cases = Vec::new();
    for (unit, mode, counts) in groups(site.profile) {
        for &cpus in &CPUS {
            for &count in &counts {
                let case = Case {
                    unit,
                    mode,
                    count,
                    cpus,
                    slices: SLICES,
                };
                cases.push(planned(case, site.cpus.len()));
            }
        }
    }
    Plan {
        cases,
        reference: params("unit=thread,mode=neither,count=1,cpus=1"),
        budget,
        twice_up_to: Duration::from_millis(25),
    }
}

fn planned(case: Case, available: usize) -> PlannedCase {
    let mut planned = PlannedCase::new(case.params(), case.estimate());
    if case.cpus > available as u64 {
        planned.skip = Some(threadgauge_results::Lack::cpus(case.cpus, available as u64));
    }
    planned
}

/// Which counts each kind of unit and mode is measured at.
fn groups(profile: Profile) -> Vec<(Unit, Mode, Vec<u64>)> {
    let all = COUNTS.to_vec();
    let (processes, sleeping, sleeping_processes) = match profile {
        Profile::Quick => (vec![1, 64, 1024], vec![64, 1024], vec![]),
        Profile::Standard => (
            vec![1, 2, 4, 16, 64, 256, 1024],
            vec![1, 2, 16, 64, 256, 1024, 4096],
            vec![64, 1024],
        ),
        Profile::Paper => (all.clone(), all.clone(), all.clone()),
    };
    let mut groups = vec![
        (Unit::Thread, Mode::Yield, all.clone()),
        (Unit::Thread, Mode::Neither, all),
        (Unit::Thread, Mode::Sleep, sleeping),
        (Unit::Process, Mode::Yield, processes.clone()),
        (Unit::Process, Mode::Neither, processes),
        (Unit::Process, Mode::Sleep, sleeping_processes),
    ];
    groups.retain(|(_, _, counts)| !counts.is_empty());
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(profile: Profile, cpus: usize) -> Site {
        Site {
            profile,
            cpus: threadgauge_machine::CpuList::new(0..cpus),
            free_memory_mib: 8_192,
        }
    }

    fn round(profile: Profile) -> Duration {
        plan(&site(profile, 2)).cases.iter().map(|c| c.estimate).sum()
    }

    #[test]
    fn a_round_fits_the_profile() {
        assert!(
            round(Profile::Quick) < Duration::from_millis(7_500),
            "{:?}",
            round(Profile::Quick)
        );
        assert!(
            round(Profile::Standard) < Duration::from_secs(16),
            "{:?}",
            round(Profile::Standard)
        );
        assert!(
            round(Profile::Paper) * 40 < Duration::from_secs(2 * 60 * 60),
            "{:?}",
            round(Profile::Paper)
        );
    }

    #[test]
    fn quick_has_every_cell_of_the_source_twice_and_the_reference_once() {
        let plan = plan(&site(Profile::Quick, 2));
        let count = |pattern: &str| {
            plan.cases
                .iter()
                .filter(|c| c.params.matches(&params(pattern)))
                .count()
        };
        assert_eq!(
            (count("unit=thread,mode=yield"), count("unit=thread,mode=neither")),
            (28, 28)
        );
        assert_eq!(
            (count("mode=sleep,count=64"), count("unit=process,count=1024")),
            (2, 4)
        );
        assert_eq!(
            plan.cases
                .iter()
                .filter(|c| c.params.matches(&plan.reference))
                .count(),
            1
        );
        assert!(plan.cases.iter().all(|c| c.skip.is_none()));
    }

    #[test]
    fn on_one_cpu_the_second_is_missed_in_words() {
        let plan = plan(&site(Profile::Quick, 1));
        let skipped: Vec<_> = plan
            .cases
            .iter()
            .filter_map(|c| c.skip.as_ref().map(|l| l.says.as_str()))
            .collect();
        assert_eq!(skipped.len(), plan.cases.len() / 2);
        assert_eq!(skipped[0], "needs 2 CPUs, this run has 1");
    }

    #[test]
    fn a_case_is_read_back_as_it_was_planned() {
        for planned in plan(&site(Profile::Paper, 2)).cases {
            let case = Case::from_params(&planned.params).unwrap();
            assert_eq!(case.params(), planned.params);
            // The pieces of all units are the whole work, and each is at least one slice.
            let share = case.slices / case.count;
            assert!(
                case.pieces_per_unit() >= 1 && share.is_multiple_of(case.pieces_per_unit()),
                "{case:?}"
            );
        }
    }

    #[test]
    fn sleeping_one_after_the_other_adds_up_to_half_a_second_at_most() {
        for planned in plan(&site(Profile::Paper, 2)).cases {
            let case = Case::from_params(&planned.params).unwrap();
            if case.mode == Mode::Sleep {
                assert!(case.pieces_per_unit() <= 500, "{case:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_in_words() {
        let refused = |pattern: &str| Case::from_params(&params(pattern)).unwrap_err().to_string();
        assert_eq!(
            refused("unit=thread,mode=yield,count=64,cpus=1,slices=1000"),
            "1000 slices cannot be shared equally by 64 units; choose --set slices= a multiple of the largest count"
        );
        assert_eq!(
            refused("unit=goblin,mode=yield,count=64,cpus=1,slices=64"),
            "the parameter unit is goblin; it must be thread or process"
        );
        assert_eq!(
            refused("unit=thread,mode=yield,count=0,cpus=1,slices=64"),
            "the parameter count is 0; it must be a number above 0"
        );
    }
}
