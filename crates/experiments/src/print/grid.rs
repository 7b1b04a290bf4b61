//! Which cases there are: the source's cells, on which sinks, and what they take.

use std::time::Duration;

use super::setting::{Buffering, Setting, Sink, Unit};
use threadgauge_lab::compat::params;
use threadgauge_lab::grid::{Plan, PlannedCase};
use threadgauge_lab::site::{Profile, Site};

/// What a case on two CPUs is skipped with where there is one; the number follows.
pub(super) const NEEDS_TWO_CPUS: &str = "needs 2 CPUs, this run has";

/// Lines per unit in source 003's first experiment.
pub(super) const PRINTS: [u64; 8] = [5, 10, 50, 100, 500, 1_000, 5_000, 10_000];
/// Units in its second.
pub(super) const UNITS: [u64; 6] = [100, 255, 350, 500, 800, 1_000];
/// Lines per unit in its third, with 256 characters.
pub(super) const WIDE_PRINTS: [u64; 3] = [100, 500, 1_000];
/// Lines per unit in its fifth, on two cores.
pub(super) const TWO_CPU_PRINTS: [u64; 4] = [10, 100, 1_000, 10_000];

/// One of the source's series, by the name its published runs carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Series {
    /// Experiment 1: lines per unit, one core.
    Prints,
    /// Experiment 2: units, one core.
    Units,
    /// Experiment 3: lines per unit, 256 characters, one core.
    Payload,
    /// Experiment 5: lines per unit, two cores.
    TwoCpus,
}

impl Series {
    pub(super) const ALL: [Self; 4] = [Self::Prints, Self::Units, Self::Payload, Self::TwoCpus];

    /// [`threadgauge_results::published::PrintRun::experiment`].
    pub(super) const fn published(self) -> &'static str {
        match self {
            Self::Prints => "repeat_single_core",
            Self::Units => "more_units",
            Self::Payload => "larger_payload",
            Self::TwoCpus => "repeat_dual_core",
        }
    }

    /// Its points, in the source's order.
    pub(super) fn points(self) -> Vec<Point> {
        let point = |units, prints, payload_bytes, cpus| Point {
            series: self,
            units,
            prints,
            payload_bytes,
            cpus,
        };
        match self {
            Self::Prints => PRINTS.map(|prints| point(255, prints, 11, 1)).to_vec(),
            Self::Units => UNITS.map(|units| point(units, 1_000, 11, 1)).to_vec(),
            Self::Payload => WIDE_PRINTS.map(|prints| point(255, prints, 256, 1)).to_vec(),
            Self::TwoCpus => TWO_CPU_PRINTS.map(|prints| point(255, prints, 11, 2)).to_vec(),
        }
    }

    /// Its point with so many lines per unit (so many units, for [`Series::Units`]).
    pub(super) fn at(self, x: u64) -> Point {
        let found = self.points().into_iter().find(|p| p.x() == x);
        found.expect("only the source's own counts are asked for")
    }
}

/// A place in the source's tables, with a process and a thread at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub series: Series,
    pub units: u64,
    pub prints: u64,
    pub payload_bytes: u64,
    pub cpus: u64,
}

impl Point {
    /// What the series varies.
    pub(super) const fn x(&self) -> u64 {
        match self.series {
            Series::Units => self.units,
            _ => self.prints,
        }
    }

    /// The case of this point.
    pub(super) const fn case(&self, unit: Unit, sink: Sink, buffering: Buffering) -> Setting {
        Setting {
            unit,
            units: self.units,
            prints: self.prints,
            payload_bytes: self.payload_bytes,
            sink,
            buffering,
        }
    }
}

/// The cases of a profile.
pub(super) fn plan(site: &Site) -> Plan {
    let mut cases: Vec<PlannedCase> = Vec::new();
    for (point, sink, buffering) in cells(site.profile) {
        for unit in Unit::ALL {
            let setting = point.case(*unit, sink, buffering);
            let params = setting.params(point.cpus);
            // 255 units × 1,000 lines stand in two of the source's tables.
            if cases.iter().any(|c| c.params == params) {
                continue;
            }
            let mut case = PlannedCase::new(params, estimate(&setting));
            let cpus = site.cpus.len() as u64;
            if point.cpus > cpus {
                case.skip = Some(threadgauge_results::Lack::cpus(2, cpus as u64));
            }
            cases.push(case);
        }
    }
    Plan {
        cases,
        // Short, so that it can be tried often.
        reference: params("unit=thread,units=255,prints=5,payload_bytes=11,sink=pipe,buffering=line,cpus=1"),
        budget: match site.profile {
            Profile::Quick => Duration::from_secs(34),
            Profile::Standard => Duration::from_secs(320),
            Profile::Paper => Duration::from_secs(3 * 3_600),
        },
        twice_up_to: Duration::from_millis(25),
    }
}

/// Quick: the pipe, on which claims are decided, has every cell up to 1,000 lines a unit; the other sinks only
/// what shows that they differ. Two CPUs, more units and longer lines into `/dev/null` would take another 2 s a round.
fn cells(profile: Profile) -> Vec<(Point, Sink, Buffering)> {
    use Buffering::{Block, Line};
    let most = match profile {
        Profile::Quick => 1_000,
        Profile::Standard | Profile::Paper => 10_000,
    };
    let every: Vec<Point> = Series::ALL
        .iter()
        .flat_map(|series| series.points())
        .filter(|p| p.prints <= most)
        .collect();
    let on = |sink, buffering, points: &dyn Fn(&Point) -> bool| {
        let points = every.iter().copied().filter(|p| points(p));
        points.map(|p| (p, sink, buffering)).collect::<Vec<_>>()
    };
    let row = |p: &Point| p.series == Series::Prints;
    let short_row = |p: &Point| row(p) && p.prints <= 1_000;
    let two = |p: &Point| row(p) && [100, 1_000].contains(&p.prints);
    let all = |_: &Point| true;
    match profile {
        Profile::Quick => [
            on(Sink::Pipe, Line, &all),
            on(Sink::Null, Line, &row),
            on(Sink::Pipe, Block, &two),
        ]
        .concat(),
        // Of the terminal and the file no more than 1,000 lines: 10,000 take 5 s and 2 s a case.
        Profile::Standard => [
            on(Sink::Pipe, Line, &all),
            on(Sink::Null, Line, &row),
            on(Sink::Pty, Line, &short_row),
            on(Sink::File, Line, &short_row),
            on(Sink::Pipe, Block, &two),
        ]
        .concat(),
        Profile::Paper => [Sink::Pipe, Sink::Null, Sink::Pty, Sink::File]
            .into_iter()
            .flat_map(|sink| [on(sink, Line, &all), on(sink, Block, &all)].concat())
            .collect(),
    }
}

/// What a sample takes on a small virtual machine: starting the worker, making the units, printing.
fn estimate(setting: &Setting) -> Duration {
    const WORKER_NS: u64 = 6_000_000;
    let unit_ns = match setting.unit {
        Unit::Process => 150_000,
        Unit::Thread => 40_000,
    };
    // Of a write, and of a byte, ns.
    let (write_ns, hundred_bytes_ns) = match setting.sink {
        Sink::Null => (170, 0),
        Sink::Pipe => (280, 35),
        Sink::File => (750, 20),
        Sink::Pty => (1_950, 800),
    };
    let line_ns = match setting.buffering {
        Buffering::Line => write_ns,
        Buffering::Block => 40,
    };
    let printing_ns = setting.lines() * line_ns + setting.bytes() * hundred_bytes_ns / 100;
    Duration::from_nanos(WORKER_NS + setting.units * unit_ns + printing_ns)
}

#[cfg(test)]
mod tests {
    use threadgauge_machine::CpuList;

    use super::*;

    fn planned(profile: Profile, cpus: usize) -> Plan {
        plan(&Site {
            profile,
            cpus: CpuList::new(0..cpus),
            free_memory_mib: 1_000,
        })
    }

    /// With all tries, and the reference case twice.
    fn round_s(plan: &Plan) -> f64 {
        let of = |case: &PlannedCase| {
            let is_reference = case.params == plan.reference;
            let workers = plan.tries(case, is_reference) * (1 + u32::from(is_reference));
            case.estimate.as_secs_f64() * f64::from(workers)
        };
        plan.cases.iter().map(of).sum()
    }

    #[test]
    fn rounds_fit_the_budgets() {
        for (profile, rounds, most_s) in [
            // The seventh, where the machine is quicker than the estimates.
            (Profile::Quick, 6.0, 5.3),
            (Profile::Standard, 10.0, 20.0),
            (Profile::Paper, 10.0, 300.0),
        ] {
            let plan = planned(profile, 2);
            let took = round_s(&plan);
            assert!(took <= most_s, "{}: {took} s a round", profile.name());
            assert!(
                rounds * took <= plan.budget.as_secs_f64(),
                "{}: {took} s a round",
                profile.name()
            );
        }
        // The claim on files needs 20 rounds.
        assert!(20.0 * round_s(&planned(Profile::Standard, 2)) <= 330.0);
    }

    #[test]
    fn every_case_stands_once_and_the_reference_is_one_of_them() {
        for profile in [Profile::Quick, Profile::Standard, Profile::Paper] {
            let plan = planned(profile, 2);
            let picked = plan.cases.iter().filter(|c| c.params == plan.reference).count();
            assert_eq!(picked, 1, "{}", profile.name());
            for (i, case) in plan.cases.iter().enumerate() {
                assert!(
                    plan.cases[..i].iter().all(|c| c.params != case.params),
                    "{}",
                    case.params
                );
                assert!(Setting::read(&case.params).is_ok(), "{}", case.params);
            }
        }
    }

    #[test]
    fn the_pipe_has_every_cell_of_the_source() {
        let cells = |profile| {
            let plan = planned(profile, 2);
            let wanted = params("sink=pipe,buffering=line");
            plan.cases.iter().filter(|c| c.params.matches(&wanted)).count()
        };
        // 17 points on one core, 255 × 1,000 twice among them, and 4 on two: both kinds.
        assert_eq!(cells(Profile::Standard), 2 * (17 - 1 + 4));
        assert_eq!(cells(Profile::Paper), cells(Profile::Standard));
        assert_eq!(cells(Profile::Quick), cells(Profile::Standard) - 2 * 3);
    }

    #[test]
    fn one_cpu_skips_what_needs_two() {
        let plan = planned(Profile::Quick, 1);
        let skipped: Vec<_> = plan
            .cases
            .iter()
            .filter_map(|c| c.skip.as_ref().map(|l| l.says.as_str()))
            .collect();
        assert_eq!(skipped, ["needs 2 CPUs, this run has 1"; 6]);
        assert!(planned(Profile::Quick, 2).cases.iter().all(|c| c.skip.is_none()));
    }
}
