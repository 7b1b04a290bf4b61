//! The cases: what a case is, the source's series, which cases a profile runs, and what the source measured.

use threadgauge_lab::prelude::*;
use threadgauge_results::published::{PrintRun, PublishedMean, means, print_runs};
use threadgauge_stats::summarise;

use crate::guests::PRINT;

use super::line::{LONGEST_PAYLOAD_BYTES, bytes_per_unit};

/// The metric that all answers use.
pub(super) const ELAPSED: Metric = metric("elapsed_ns", "ns");
/// CPU time of parent and units.
pub(super) const CPU: Metric = metric("cpu_ns", "ns");
/// CPU time of the reader; 0 where there is none.
pub(super) const READER_CPU: Metric = metric("reader_cpu_ns", "ns");
/// Lines that did not arrive in one piece.
pub(super) const TORN: Metric = metric("torn_lines", "lines");

words! {
    /// Who prints.
    pub(super) enum Unit {
        /// A child by fork, without another program.
        Process = "process",
        /// A POSIX thread with default attributes.
        Thread = "thread",
    }
}
words! {
    /// What is printed into.
    pub(super) enum Sink {
        /// `/dev/null`: nobody reads.
        Null = "null",
        /// A pipe that a process reads to the end.
        Pipe = "pipe",
        /// A file in the page cache.
        File = "file",
        /// A pseudo-terminal whose other side a process reads to the end.
        Pty = "pty",
    }
}
words! {
    /// How lines are buffered.
    pub(super) enum Buffering {
        /// One write a line.
        Line = "line",
        /// Blocks of 4,096 bytes.
        Block = "block",
    }
}
point! {
    /// One case.
    pub(super) struct Case {
        /// Who prints.
        unit: Unit,
        /// How many of them.
        units: u64 = 1..=100_000,
        /// Lines of each.
        prints: u64 = 1..=10_000_000,
        /// The text of a line, without the counter in brackets.
        payload_bytes: u64 = 1..=LONGEST_PAYLOAD_BYTES,
        /// What is printed into.
        sink: Sink,
        /// How lines are buffered.
        buffering: Buffering,
        /// How many CPUs all are pinned to.
        cpus: u64 = 1..,
    }
}

impl Case {
    /// Processes, then threads.
    pub(super) fn of_both_kinds(&self) -> [Self; 2] {
        Unit::ALL.map(|unit| self.unit(unit))
    }

    /// All lines of all units.
    pub(super) const fn lines(&self) -> u64 {
        self.units * self.prints
    }

    /// All bytes of all units.
    pub(super) fn bytes(&self) -> u64 {
        self.units * bytes_per_unit(self.payload_bytes, self.prints)
    }

    /// Whether every line reaches the sink in one piece: as one write, or in order through one buffer.
    pub(super) fn lines_stay_whole(&self) -> bool {
        self.buffering == Buffering::Line || self.unit == Unit::Thread
    }

    /// How often a sample runs the case, each time from cold, to take the mean: short runs several times. It depends on
    /// the amount of work alone, so processes and threads are repeated equally often.
    pub(super) const fn repetitions(&self) -> u64 {
        match self.lines() {
            ..=13_000 => 4,
            _ => 1,
        }
    }

    /// The case with its estimate, for the engine.
    pub(super) fn planned(self) -> PlannedCase {
        PlannedCase {
            skip: PRINT.missing(),
            ..PlannedCase::new(self, self.estimate())
        }
    }

    /// The time of a sample on a small virtual machine: starting the worker, making the units, printing.
    fn estimate(&self) -> Duration {
        const WORKER_NS: u64 = 6_000_000;
        let unit_ns = match self.unit {
            Unit::Process => 140_000,
            Unit::Thread => 30_000,
        };
        // The time of a write and of a hundred bytes, ns.
        let (write_ns, hundred_bytes_ns) = match self.sink {
            Sink::Null => (170, 0),
            Sink::Pipe => (280, 35),
            Sink::File => (750, 20),
            Sink::Pty => (1_950, 800),
        };
        let line_ns = match self.buffering {
            Buffering::Line => write_ns,
            Buffering::Block => 40,
        };
        let printing_ns = self.lines() * line_ns + self.bytes() * hundred_bytes_ns / 100;
        Duration::from_nanos(WORKER_NS + self.repetitions() * (self.units * unit_ns + printing_ns))
    }
}

words! {
    /// One of the source's series, with its name in the published runs.
    pub(super) enum Series {
        /// Experiment 1: lines per unit, one core.
        Prints = "repeat_single_core",
        /// Experiment 2: units, one core.
        Units = "more_units",
        /// Experiment 3: lines per unit, 256 characters, one core.
        Payload = "larger_payload",
        /// Experiment 5: lines per unit, two cores.
        TwoCpus = "repeat_dual_core",
    }
}

impl Series {
    /// What it varies, in the source's order: units for [`Series::Units`], lines per unit for the others.
    pub(super) const fn counts(self) -> &'static [u64] {
        match self {
            Self::Prints => &[5, 10, 50, 100, 500, 1_000, 5_000, 10_000],
            Self::Units => &[100, 255, 350, 500, 800, 1_000],
            Self::Payload => &[100, 500, 1_000],
            Self::TwoCpus => &[10, 100, 1_000, 10_000],
        }
    }

    /// Its case with this count, for threads, on the sink that decides claims: a pipe, with one write per line.
    pub(super) const fn at(self, count: u64) -> Case {
        let (units, prints) = match self {
            Self::Units => (count, 1_000),
            _ => (255, count),
        };
        Case {
            unit: Unit::Thread,
            units,
            prints,
            payload_bytes: if matches!(self, Self::Payload) { 256 } else { 11 },
            sink: Sink::Pipe,
            buffering: Buffering::Line,
            cpus: if matches!(self, Self::TwoCpus) { 2 } else { 1 },
        }
    }

    /// Its cases, for threads.
    pub(super) fn cases(self) -> impl Iterator<Item = Case> {
        self.counts().iter().map(move |count| self.at(*count))
    }

    /// The series, kind, units and lines per unit of a case's published figures. (255 units of 1,000 lines were
    /// measured twice, in two series.)
    fn published_as(self, case: Case) -> (&'static str, &'static str, u64, Option<u64>) {
        // Two CPUs are compared with the one of the first series.
        let own = case.cpus == self.at(0).cpus;
        let series = if own { self } else { Self::Prints };
        (series.name(), case.unit.name(), case.units, Some(case.prints))
    }

    /// The source's runs of a case, s, in the source's order.
    pub(super) fn runs(self, case: Case) -> Vec<f64> {
        let wanted = self.published_as(case);
        let of =
            |run: &'static PrintRun| (&*run.experiment, &*run.kind, run.units, Some(run.prints_per_unit));
        let runs = print_runs().iter().filter(|run| of(run) == wanted);
        runs.map(|run| run.elapsed_s).collect()
    }

    /// The mean of the runs without the largest and the smallest, s, as the source takes it.
    pub(super) fn seconds(self, case: Case) -> Option<f64> {
        summarise(&self.runs(case), 0.05).ok()?.trimmed_mean
    }

    /// The mean that the source prints.
    pub(super) fn mean(self, case: Case) -> Option<&'static PublishedMean> {
        let wanted = self.published_as(case);
        let of =
            |mean: &'static PublishedMean| (&*mean.experiment, &*mean.kind, mean.units, mean.prints_per_unit);
        means().iter().find(|mean| of(mean) == wanted)
    }

    /// The value of a statistic of times in the source.
    pub(super) fn published(self, statistic: &Statistic) -> Option<f64> {
        statistic.of_cells(|cell| self.seconds(Case::read(&cell.pattern).ok()?))
    }
}

/// The cases of a profile.
///
/// Claims are decided on one sink in every profile, so that verdicts can be compared. It is the pipe, since the
/// source's console read every byte too. A pseudo-terminal is closer to a console, but a line costs ten times as much,
/// which is too much for quick.
///
/// Into the pipe, quick has every cell up to 1,000 lines a unit. Into the other sinks it has only enough to show that
/// they differ. Two CPUs, more units and longer lines into `/dev/null` would take another 2 s a round.
pub(super) fn plan(site: &Site) -> Plan {
    use Buffering::{Block, Line};
    let up_to = |most: u64, series: &[Series]| {
        let cases = series.iter().copied().flat_map(Series::cases);
        // Two numbers between others take a fifth of a quick run.
        let left_out = |case: &Case| site.profile == Profile::Quick && [350, 800].contains(&case.units);
        let cases = cases.filter(|case| case.prints <= most && !left_out(case));
        cases.collect::<Vec<_>>()
    };
    let (every, row) = (&Series::ALL, &[Series::Prints]);
    let two = [100, 1_000].map(|prints| Series::Prints.at(prints)).to_vec();
    let points = match site.profile {
        // Only what claims need, and what blocks save.
        Profile::Quick => vec![
            (
                Sink::Pipe,
                Line,
                up_to(1_000, &[Series::Prints, Series::Units, Series::Payload]),
            ),
            (Sink::Pipe, Line, vec![Series::TwoCpus.at(10)]),
            (Sink::Pipe, Block, vec![Series::Prints.at(1_000)]),
        ],
        // Into the terminal and the file at most 1,000 lines: 10,000 take 5 s and 2 s a case.
        Profile::Standard => vec![
            (Sink::Pipe, Line, up_to(10_000, every)),
            (Sink::Null, Line, up_to(10_000, row)),
            (Sink::Pty, Line, up_to(1_000, row)),
            (Sink::File, Line, up_to(1_000, row)),
            (Sink::Pipe, Block, two),
        ],
        Profile::Paper => [Sink::Pipe, Sink::Null, Sink::Pty, Sink::File]
            .into_iter()
            .flat_map(|sink| [Line, Block].map(|buffering| (sink, buffering, up_to(10_000, every))))
            .collect(),
    };
    let mut cases: Vec<PlannedCase> = Vec::new();
    for (sink, buffering, points) in points {
        for case in points.iter().flat_map(Case::of_both_kinds) {
            let case = case.sink(sink).buffering(buffering);
            // 255 units × 1,000 lines stand in two of the source's tables.
            if cases.iter().all(|planned| planned.params != case.params()) {
                cases.push(case.planned());
            }
        }
    }
    Plan {
        cases,
        reference: Series::Prints.at(5).params(),
        budget: Duration::from_secs(site.profile.pick(40, 320, 3 * 3_600)),
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::point::Value;
    use threadgauge_lab::testing::site;

    use super::*;

    const CASE: Case = Case {
        unit: Unit::Thread,
        units: 255,
        prints: 100,
        payload_bytes: 11,
        sink: Sink::Pipe,
        buffering: Buffering::Line,
        cpus: 1,
    };

    #[test]
    fn a_case_survives_the_way_there_and_back() {
        let id = "unit=thread,units=255,prints=100,payload_bytes=11,sink=pipe,buffering=line,cpus=1";
        assert_eq!(CASE.params().to_string(), id);
        assert_eq!(Case::read(&CASE.params()).unwrap(), CASE);
        assert_eq!(CASE.lines(), 25_500);
        assert_eq!(CASE.bytes(), 255 * (10 * 15 + 90 * 16));
    }

    #[test]
    fn what_cannot_be_printed_is_refused_in_words() {
        for (key, value, says) in [
            (
                "unit",
                "fiber",
                "the parameter unit is fiber; it must be one of process, thread",
            ),
            ("sink", "lp0", "one of null, pipe, file, pty"),
            ("buffering", "none", "one of line, block"),
            (
                "units",
                "0",
                "the parameter units is 0; it must be a number from 1 to 100000",
            ),
            ("prints", "many", "the parameter prints is many"),
            ("payload_bytes", "481", "a number from 1 to 480"),
        ] {
            let case = CASE.params().with(key, Value::parse(value));
            let error = Case::read(&case).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    /// With all tries, and the reference case twice.
    fn round_s(plan: &Plan) -> f64 {
        let copies = |case: &PlannedCase| 1.0 + f64::from(u8::from(case.params == plan.reference));
        let once: f64 = plan
            .cases
            .iter()
            .map(|case| case.estimate.as_secs_f64() * copies(case))
            .sum();
        once * f64::from(plan.tries())
    }

    #[test]
    fn rounds_fit_the_budgets() {
        for (profile, rounds, most_s) in [
            // The seventh, where the machine is quicker than the estimates.
            (Profile::Quick, 6.0, 5.3),
            (Profile::Standard, 10.0, 20.0),
            (Profile::Paper, 10.0, 300.0),
        ] {
            let plan = plan(&site(profile, 2));
            let took = round_s(&plan);
            let says = format!("{}: {took} s a round", profile.name());
            assert!(took <= most_s, "{says}");
            assert!(rounds * took <= plan.budget.as_secs_f64(), "{says}");
        }
        // The claim on files needs 20 rounds.
        assert!(20.0 * round_s(&plan(&site(Profile::Standard, 2))) <= 330.0);
    }

    #[test]
    fn every_case_stands_once_and_the_reference_is_one_of_them() {
        for profile in [Profile::Quick, Profile::Standard, Profile::Paper] {
            let plan = plan(&site(profile, 2));
            let picked = plan.cases.iter().filter(|c| c.params == plan.reference).count();
            assert_eq!(picked, 1, "{}", profile.name());
            for (i, case) in plan.cases.iter().enumerate() {
                let mut before = plan.cases[..i].iter();
                assert!(before.all(|c| c.params != case.params), "{}", case.params);
                assert!(Case::read(&case.params).is_ok(), "{}", case.params);
            }
        }
    }

    #[test]
    fn the_pipe_has_every_cell_of_the_source() {
        let cells = |profile| {
            let cases = plan(&site(profile, 2)).cases.into_iter();
            let cases = cases.map(|planned| Case::read(&planned.params).unwrap());
            cases
                .filter(|c| (c.sink, c.buffering) == (Sink::Pipe, Buffering::Line))
                .count()
        };
        // 17 points on one core, 255 × 1,000 twice among them, and 4 on two: both kinds.
        assert_eq!(cells(Profile::Standard), 2 * (17 - 1 + 4));
        assert_eq!(cells(Profile::Paper), cells(Profile::Standard));
        assert_eq!(cells(Profile::Quick), cells(Profile::Standard) - 2 * 7);
    }

    #[test]
    fn one_cpu_skips_what_needs_two() {
        let skipped = |cpus| {
            let site = site(Profile::Quick, cpus);
            let mut plan = plan(&site);
            plan.fit(&site);
            let lacks = plan.cases.into_iter().filter_map(|c| c.skip);
            lacks.map(|lack| lack.says).collect::<Vec<_>>()
        };
        assert_eq!(skipped(1), ["needs 2 CPUs, this run has 1"; 2]);
        assert!(skipped(2).is_empty());
    }

    #[test]
    fn every_point_of_the_series_was_published() {
        for series in Series::ALL {
            for case in series.cases() {
                for case in case.of_both_kinds() {
                    assert_eq!(series.runs(case).len(), 5, "{case:?}");
                    let recomputed = series.mean(case).unwrap().recomputed_trimmed_mean_s.unwrap();
                    let trimmed = series.seconds(case).unwrap();
                    assert!((recomputed - trimmed).abs() < 1e-3, "{case:?}");
                }
            }
        }
    }
}
