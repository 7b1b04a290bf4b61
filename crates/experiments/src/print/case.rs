//! The cases: what a case is, the source's series, which cases a profile runs, and what the source measured.

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::published::{PrintRun, PublishedMean, means, print_runs};
use threadgauge_stats::{geometric_mean, summarise};

use crate::guests::{Guest, PRINT};
use crate::libraries::Library;

use super::line::{LONGEST_PAYLOAD_BYTES, bytes_per_unit};

/// From before the first unit is made until everything has been read.
pub(super) const ELAPSED: Metric = metric("elapsed_ns", "ns");
/// From the start of the program to its end, as `time` says: what the source measured.
pub(super) const WHOLE: Metric = metric("whole_program_ns", "ns");
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
        /// A pseudo-terminal whose other side a process reads to the end, as fast as it can.
        Pty = "pty",
        /// The same with a reader as slow as the source's console.
        Console = "console",
        /// That, and a log file beside it.
        Logged = "console-and-log",
    }
}

impl Sink {
    /// Whether what is printed goes through a terminal, which makes two bytes of a newline.
    pub(super) const fn is_terminal(self) -> bool {
        matches!(self, Self::Pty | Self::Console | Self::Logged)
    }

    /// How slow its reader is; `None` for one that is as fast as it can be, and where there is none.
    pub(super) fn pace(self) -> Option<Pace> {
        matches!(self, Self::Console | Self::Logged).then(Pace::of_the_source)
    }
}

/// What a console takes for what it shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// For a line, ns.
    pub line_ns: f64,
    /// For each of its bytes, ns.
    pub byte_ns: f64,
}

impl Pace {
    /// That of the source's console, from what it published of 100 lines a unit: the mean of both kinds at 11
    /// characters and at 256.
    pub(super) fn of_the_source() -> Self {
        // Bytes and ns of a line.
        let of = |payload_bytes: u64| {
            let case = Series::Prints.at(100).payload_bytes(payload_bytes);
            let bytes = case.bytes() as f64 / case.lines() as f64 + 1.0;
            (bytes, published_line_ns(payload_bytes))
        };
        let ((few, short_ns), (many, long_ns)) = (of(11), of(256));
        let byte_ns = (long_ns - short_ns) / (many - few);
        Self {
            line_ns: short_ns - few * byte_ns,
            byte_ns,
        }
    }

    /// What it takes for so many.
    pub(super) fn due_ns(self, lines: u64, bytes: u64) -> f64 {
        lines as f64 * self.line_ns + bytes as f64 * self.byte_ns
    }
}

/// What a line of 11 or of 256 characters took in the source where a unit printed 100, ns: the mean of both kinds.
pub(super) fn published_line_ns(payload_bytes: u64) -> f64 {
    let series = if payload_bytes == 11 {
        Series::Prints
    } else {
        Series::Payload
    };
    let case = series.at(100);
    let seconds = case.of_both_kinds().map(|case| series.seconds(case));
    let mean = geometric_mean(&seconds.map(|seconds| seconds.unwrap_or(f64::NAN)));
    mean.unwrap_or(f64::NAN) * 1e9 / case.lines() as f64
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
        /// The thread library, where it is not the C library's own.
        library: Option<Library>,
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
    /// The case with these parameters, where it can be.
    pub(super) fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        match (case.library, case.unit) {
            (Some(_), Unit::Process) => {
                Err(refused(params, "unit", "thread, where a thread library is named"))
            }
            _ => Ok(case),
        }
    }

    /// What prints.
    pub(super) fn program(&self) -> &'static Guest {
        self.library.map_or(&PRINT, Library::print)
    }

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
        match (self.sink, self.lines()) {
            // Slow enough as it is.
            (Sink::Console | Sink::Logged, _) => 1,
            (_, ..=13_000) => 4,
            _ => 1,
        }
    }

    /// The time that counts into its sink: on the console the whole program's, as in the source, elsewhere until all is
    /// read.
    pub(super) fn time(self) -> Statistic {
        match self.sink {
            Sink::Console | Sink::Logged => WHOLE.of(self),
            _ => ELAPSED.of(self),
        }
    }

    /// The case with its estimate, for the engine.
    pub(super) fn planned(self) -> PlannedCase {
        PlannedCase {
            skip: self.program().missing(),
            check: |params| Self::possible(params).map(drop),
            takes: Some(|params| Self::read(params).ok().map(|case| case.estimate())),
            ..PlannedCase::new(self, self.estimate())
        }
    }

    /// The time of a sample on a small virtual machine: starting the worker, making the units, printing.
    fn estimate(&self) -> Duration {
        const WORKER_NS: u64 = 6_000_000;
        let unit_ns = match self.unit {
            Unit::Process => 140_000,
            Unit::Thread if self.library == Some(Library::LinuxThreads) => 250_000,
            Unit::Thread => 30_000,
        };
        // The time of a write and of a hundred bytes, ns.
        let (write_ns, hundred_bytes_ns) = match self.sink {
            Sink::Null => (170, 0),
            Sink::Pipe => (280, 35),
            Sink::File => (750, 20),
            Sink::Pty | Sink::Console | Sink::Logged => (1_950, 800),
        };
        let line_ns = match self.buffering {
            Buffering::Line => write_ns,
            Buffering::Block => 40,
        };
        let reading_ns = self
            .sink
            .pace()
            .map_or(0.0, |pace| pace.due_ns(self.lines(), self.bytes()));
        let printing_ns = self.lines() * line_ns + self.bytes() * hundred_bytes_ns / 100 + reading_ns as u64;
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

    /// Its case with this count, for threads, on the sink that decides claims: the matched console.
    pub(super) const fn at(self, count: u64) -> Case {
        let (units, prints) = match self {
            Self::Units => (count, 1_000),
            _ => (255, count),
        };
        Case {
            unit: Unit::Thread,
            library: None,
            units,
            prints,
            payload_bytes: if matches!(self, Self::Payload) { 256 } else { 11 },
            sink: Sink::Console,
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

/// Lines of a unit where there is a log file beside the console: enough for its writes, and 20 rounds fit standard.
pub(super) const LOGGED_PRINTS: u64 = 100;

/// The cases of a profile.
///
/// Claims are decided on the matched console. At its speed all cells take some 18 minutes a round, so quick and
/// standard have those up to 100 lines a unit, and paper has all. Standard leaves the long lines to paper, too: 100 of
/// them take seven seconds. The other sinks show what the reader's speed changes.
pub(super) fn plan(site: &Site) -> Plan {
    use Buffering::{Block, Line};
    let up_to = |most: u64, series: &[Series]| {
        let cases = series.iter().copied().flat_map(Series::cases);
        cases.filter(|case| case.prints <= most).collect::<Vec<_>>()
    };
    let (every, row) = (&Series::ALL, &[Series::Prints]);
    let at = |prints: &[u64]| prints.iter().map(|n| Series::Prints.at(*n)).collect::<Vec<_>>();
    let points = match site.profile {
        Profile::Quick => vec![
            (Sink::Console, Line, up_to(100, row)),
            (Sink::Console, Line, vec![Series::TwoCpus.at(10)]),
            (Sink::Pipe, Line, up_to(1_000, row)),
            (Sink::Pty, Line, at(&[100])),
            (Sink::Pipe, Block, at(&[1_000])),
        ],
        Profile::Standard => vec![
            (
                Sink::Console,
                Line,
                up_to(100, &[Series::Prints, Series::TwoCpus]),
            ),
            (Sink::Logged, Line, at(&[LOGGED_PRINTS])),
            (Sink::Pipe, Line, up_to(1_000, row)),
            (Sink::Null, Line, up_to(1_000, row)),
            (Sink::Pty, Line, up_to(100, row)),
            (Sink::File, Line, up_to(100, row)),
            (Sink::Pipe, Block, at(&[100, 1_000])),
        ],
        Profile::Paper => {
            let console = [
                (Sink::Console, Line, up_to(10_000, every)),
                (Sink::Logged, Line, at(&[LOGGED_PRINTS])),
            ];
            let others = [Sink::Pipe, Sink::Null, Sink::Pty, Sink::File];
            let others = others
                .into_iter()
                .flat_map(|sink| [Line, Block].map(|buffering| (sink, buffering, up_to(10_000, every))));
            console.into_iter().chain(others).collect()
        }
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
    if site.profile == Profile::Paper {
        let points = at(&[LOGGED_PRINTS, 1_000]).into_iter();
        let on = points.flat_map(|case| Library::ALL.map(|library| case.library(Some(library))));
        cases.extend(on.map(Case::planned));
    }
    Plan {
        cases,
        reference: Series::Prints.at(5).params(),
        budget: Duration::from_secs(site.profile.pick(40, 320, 4 * 3_600)),
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::point::Value;
    use threadgauge_lab::testing::site;

    use super::*;

    const CASE: Case = Case {
        unit: Unit::Thread,
        library: None,
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
            (
                "sink",
                "lp0",
                "one of null, pipe, file, pty, console, console-and-log",
            ),
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
            (Profile::Quick, 6.0, 5.5),
            (Profile::Standard, 20.0, 16.0),
            // A quarter of an hour and more, so that those who wait for it know.
            (Profile::Paper, 6.0, 1_800.0),
        ] {
            let plan = plan(&site(profile, 2));
            let took = round_s(&plan);
            let says = format!("{}: {took} s a round", profile.name());
            assert!(took <= most_s, "{says}");
            assert!(rounds * took <= plan.budget.as_secs_f64(), "{says}");
        }
        assert!(round_s(&plan(&site(Profile::Paper, 2))) >= 1_000.0);
    }

    /// 33 to 68 µs a line of 11 characters on one CPU, 279 to 287 of 256.
    #[test]
    fn the_console_is_as_slow_as_the_sources() {
        let pace = Pace::of_the_source();
        for (payload_bytes, low, high) in [(11, 33_000.0, 68_000.0), (256, 279_000.0, 287_000.0)] {
            let published = published_line_ns(payload_bytes);
            assert!(
                (low..high).contains(&published),
                "{payload_bytes}: {published} ns"
            );
            let case = CASE.payload_bytes(payload_bytes);
            // A newline is two bytes there.
            let due_ns = pace.due_ns(case.lines(), case.bytes() + case.lines()) / case.lines() as f64;
            assert!((due_ns - published).abs() < 1.0, "{payload_bytes}: {due_ns} ns");
        }
        // On one CPU from 100 lines on, each kind lies beside it; so does two CPUs' time, 42 to 46 µs.
        for case in Series::TwoCpus.cases().filter(|case| case.prints >= 100) {
            for case in case.of_both_kinds() {
                let line_ns = Series::TwoCpus.seconds(case).unwrap() * 1e9 / case.lines() as f64;
                assert!((42_000.0..47_000.0).contains(&line_ns), "{case:?}: {line_ns}");
            }
        }
    }

    #[test]
    fn only_the_consoles_readers_are_slow() {
        for sink in Sink::ALL {
            let slow = matches!(sink, Sink::Console | Sink::Logged);
            assert_eq!(sink.pace().is_some(), slow, "{}", sink.name());
            let seconds = CASE.sink(sink).estimate().as_secs_f64();
            assert_eq!(seconds > 0.9, slow, "{}: {seconds}", sink.name());
        }
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
    fn the_console_has_every_cell_of_the_source_in_paper_and_those_to_100_lines_in_standard() {
        let cells = |profile| {
            let cases = plan(&site(profile, 2)).cases.into_iter();
            let cases = cases.map(|planned| Case::read(&planned.params).unwrap());
            let console = cases.filter(|c| c.sink == Sink::Console && c.library.is_none());
            let console: Vec<Case> = console.collect();
            assert!(console.iter().all(|case| case.buffering == Buffering::Line));
            let most = console.iter().map(|case| case.prints).max();
            (console.len(), most)
        };
        // 17 points on one core, 255 × 1,000 twice among them, and 4 on two: both kinds.
        assert_eq!(cells(Profile::Paper), (2 * (17 - 1 + 4), Some(10_000)));
        assert_eq!(cells(Profile::Standard), (2 * (4 + 2), Some(100)));
        assert_eq!(cells(Profile::Quick), (2 * (4 + 1), Some(100)));
    }

    #[test]
    fn threads_alone_are_of_a_library_and_paper_has_them() {
        let count = |profile| {
            let cases = plan(&site(profile, 2)).cases.into_iter();
            cases.filter(|case| case.params.get("library").is_some()).count()
        };
        assert_eq!(Profile::ALL.map(count), [0, 0, 4]);
        let process = CASE.unit(Unit::Process).library(Some(Library::Musl));
        let refused = Case::possible(&process.params()).unwrap_err().to_string();
        assert!(
            refused.contains("unit is process; it must be thread"),
            "{refused}"
        );
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
