//! Lines that units of other runtimes print: the source's Java program, and the same in Go, Python and Rust.
//!
//! A guest makes its units, each prints its lines, and it prints the final word. It tells the time of that, taken
//! inside as the source's Java program took it; the start of the runtime is no part of it, and stands beside. Sinks,
//! lines and the check of what arrived are those of the program in C.

use std::process::Stdio;

use threadgauge_lab::prelude::*;
use threadgauge_results::units;

use super::case::{Buffering, Case, ELAPSED, LOGGED_PRINTS, Series, Sink, Unit as InC, WHOLE};
use super::line::{LONGEST_PAYLOAD_BYTES, payload};
use super::program;
use crate::guests::{Found, figures};
use crate::runtimes::{self, Does, Kind, Name, Unit, guest};

/// From the guest's start to its end without the printing.
const STARTUP: Metric = metric("startup_ns", "ns");

point! {
    /// Units of a guest that print.
    pub(super) struct Guests {
        runtime: Name,
        unit: Name,
        units: u64 = 1..=100_000,
        prints: u64 = 1..=10_000_000,
        payload_bytes: u64 = 1..=LONGEST_PAYLOAD_BYTES,
        sink: Sink,
        cpus: u64 = 1..,
    }
}

figures! {
    /// What a guest answers.
    struct Printed {
        wall_ns,
        bytes,
    }
}

impl Guests {
    /// Threads in C that print the same.
    const fn in_c(self) -> Case {
        Case {
            unit: InC::Thread,
            library: None,
            units: self.units,
            prints: self.prints,
            payload_bytes: self.payload_bytes,
            sink: self.sink,
            buffering: Buffering::Line,
            cpus: self.cpus,
        }
    }

    fn planned(self, kind: &Kind, unit: &Unit) -> PlannedCase {
        // What a line takes more than one in C, on a small virtual machine, µs.
        const LINE_US: u64 = 6;
        let in_c = self.in_c();
        let own = Duration::from_micros(self.units * unit.create_us + in_c.lines() * LINE_US);
        let start = Duration::from_millis(15 + kind.starts_ms);
        PlannedCase::new(
            self,
            start + own + in_c.planned().estimate / in_c.repetitions() as u32,
        )
    }
}

/// The cases of each unit of the runtimes that were asked for: into a pipe in quick, else on the console with a log
/// file. Paper has what the source ran, too: 1,000 threads of Java with 1,000 lines each; and C with the log beside it.
pub(super) fn plan(site: &Site) -> Vec<PlannedCase> {
    let sink = site.profile.pick(Sink::Pipe, Sink::Logged, Sink::Logged);
    let is_paper = site.profile == Profile::Paper;
    let mut cases = runtimes::plan(site, Does::Print, |runtime, kind, unit| {
        let few = Series::Prints.at(LOGGED_PRINTS);
        let case = Guests {
            runtime,
            unit: Name::new(unit.name),
            units: few.units,
            prints: few.prints,
            payload_bytes: few.payload_bytes,
            sink,
            cpus: 1,
        };
        let as_the_source = case.units(SOURCE.units).prints(SOURCE.prints);
        let as_the_source = (is_paper && is_java(case)).then_some(as_the_source);
        let cases = [case].into_iter().chain(as_the_source);
        cases.map(|case| case.planned(kind, unit))
    });
    if is_paper
        && cases
            .iter()
            .any(|case| case.params.int("units") == Some(SOURCE.units))
    {
        cases.push(SOURCE.sink(Sink::Logged).planned());
    }
    cases
}

/// What the source compares Java with: 1,000 threads in C with 1,000 lines each.
const SOURCE: Case = Series::Units.at(1_000);

fn is_java(case: Guests) -> bool {
    let is_java = Kind::of(case.runtime.name()).is_some_and(|kind| kind.name == "java");
    is_java && case.unit.name() == "platform"
}

/// Runs the case with these parameters.
///
/// # Errors
///
/// Those of [`guest::begin`] and [`guest::ask_with`]; failed where a line did not arrive.
pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Guests::read(params)?;
    let (runtime, kind, unit) = guest::begin(params, case.unit, worker)?;
    let text = String::from_utf8_lossy(&payload(case.payload_bytes as usize)).into_owned();
    let deadline = case.planned(kind, unit).deadline();
    let print = |worker: &Worker, sink: Stdio, log: &str| {
        let arguments: [&dyn ToString; 6] = [&"print", &unit.name, &case.units, &case.prints, &text, &log];
        guest::ask_with::<Printed>(&runtime, worker, sink, &arguments, deadline)
    };
    let (printed, _) = program::printed(&case.in_c(), worker, print)?;
    let Found {
        figures: Printed { wall_ns, bytes },
        ran_ns,
        stretch,
    } = printed;
    if bytes != case.in_c().bytes() {
        let says = format!(
            "the guest says that it printed {bytes} bytes of {}",
            case.in_c().bytes()
        );
        return Err(CaseError::Failed(says));
    }
    worker.tag("cold");
    worker.record(ELAPSED, wall_ns as f64 * stretch);
    worker.record(WHOLE, ran_ns as f64 * stretch);
    worker.record(STARTUP, ran_ns.saturating_sub(wall_ns) as f64 * stretch);
    Ok(())
}

/// Printing in Java, timed inside and with a log file, over the whole program in C, which has none: as the source
/// compared them; none where Java did not print as much.
fn java_over_c(view: &View<'_>) -> Option<Statistic> {
    let is_it = |case: &Guests| {
        let as_the_source = (SOURCE.units, SOURCE.prints, SOURCE.payload_bytes, 1);
        is_java(*case)
            && case.sink == Sink::Logged
            && (case.units, case.prints, case.payload_bytes, case.cpus) == as_the_source
    };
    let java = runtimes::cases::<Guests>(view).into_iter().find(is_it)?;
    Some(ELAPSED.of(java).over(SOURCE.time()))
}

/// The claim's test, and what guests add to the answer; nothing more where there are none. What is read off the
/// program in C comes before: its number is what the experiment is about.
pub(super) fn read(view: &View<'_>, answer: &mut Answer) {
    let java_over_c = java_over_c(view);
    if let (None, Some(ratio)) = (&answer.number, &java_over_c) {
        let of = "Java ÷ C: time to print 1,000 lines each by 1,000 threads, one CPU";
        answer.number = view.number(of, ratio, "ratio");
    }
    let test = java_over_c.map_or_else(
        || {
            not_measured(
                "the claim is about 1,000 threads of 1,000 lines in Java, with a log file, and in C, which \
                 `threadgauge run print --profile paper --runtime java` makes",
            )
        },
        Test::from,
    );
    answer.claims.push(("java-print-slower-than-c", test));
    let shown = |label: String, case: Guests, times: [Statistic; 3]| {
        let time = view.estimate(&times[0])?.show("ns");
        let [whole, startup] = [&times[1], &times[2]].map(|time| view.shown(time, "ns"));
        let lines = format!(
            "{} × {}",
            units::count(case.units as usize),
            units::count(case.prints as usize)
        );
        Some(vec![
            label,
            lines,
            case.sink.name().to_owned(),
            time,
            whole,
            startup,
        ])
    };
    let cases = runtimes::cases::<Guests>(view);
    let guests = cases.iter().filter_map(|&case| {
        let label = runtimes::label(case.runtime, case.unit);
        shown(
            label,
            case,
            [ELAPSED, WHOLE, STARTUP].map(|metric| metric.of(case)),
        )
    });
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut in_c: Vec<Case> = Vec::new();
    for &case in &cases {
        // With a log beside it and without, as the source's was.
        for sink in [case.sink, Sink::Console] {
            let thread = case.in_c().sink(sink);
            if !in_c.contains(&thread) {
                in_c.push(thread);
                let times = [ELAPSED, WHOLE, STARTUP].map(|metric| metric.of(thread));
                rows.extend(shown("thread in C".to_owned(), case.sink(sink), times));
            }
        }
    }
    let of_guests: Vec<Vec<String>> = guests.collect();
    if of_guests.is_empty() {
        return;
    }
    rows.extend(of_guests);
    answer.tables.push(table(
        "guests",
        "Printing, by runtime",
        "Units × lines each, on one CPU unless told otherwise. Printing: from before the first unit until the final word, \
         timed inside. whole: from the start of the program to its end. start: what of that is no printing.",
        ["unit", "lines", "into", "printing", "whole", "start"],
        rows,
    ));
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    use super::*;
    use crate::print::EXPERIMENT;
    use crate::print::sink::one_at_a_time;
    use crate::runtimes::guest::testing::{sample, script};

    fn case(sink: Sink) -> Guests {
        Guests {
            runtime: Name::new("go"),
            unit: Name::new("goroutine"),
            units: 2,
            prints: 3,
            payload_bytes: 11,
            sink,
            cpus: 1,
        }
    }

    /// Prints two units' lines one after the other.
    const PRINTS: &str = "for unit in 1 2; do for i in 0 1 2; do \
                          echo \"[$i]$5\" >&0; [ \"$6\" = - ] || echo \"[$i]$5\" >>\"$6\"; done; done; echo Okay >&0; ";

    #[test]
    fn a_guest_prints_into_what_its_standard_input_is_and_into_its_log() {
        let _alone = one_at_a_time();
        let asked = "[ \"$1 $2 $3 $4 $5\" = 'print goroutine 2 3 hello linux' ] || exit 5; ";
        let text = format!("{asked}{PRINTS} echo done wall_ns=7000 bytes=90");
        for sink in Sink::ALL {
            let guest = script("go", "1.26", &text);
            let sample = sample(&EXPERIMENT, &case(sink).params(), Some(guest));
            assert_eq!(sample.status, Status::Ok, "{}: {:?}", sink.name(), sample.reason);
            let value = |metric: Metric| sample.value(metric.name).unwrap();
            assert!(
                value(ELAPSED) >= 7000.0 && value(ELAPSED) < value(WHOLE),
                "{sample:?}"
            );
            assert!(value(STARTUP) > 0.0, "{sample:?}");
        }
    }

    #[test]
    fn lines_that_do_not_arrive_or_are_told_wrongly_are_a_failure() {
        let _alone = one_at_a_time();
        for (sink, text, says) in [
            (
                Sink::Pipe,
                "echo done wall_ns=7 bytes=90".to_owned(),
                "0 bytes of 95 arrived",
            ),
            (
                Sink::Pipe,
                format!("{PRINTS} echo done wall_ns=7 bytes=89"),
                "it printed 89 bytes of 90",
            ),
            (
                Sink::Pipe,
                format!("{PRINTS} echo Okay >&0; echo done wall_ns=7 bytes=90"),
                "100 bytes of 95",
            ),
            (
                Sink::Logged,
                format!("set -- 1 2 3 4 \"$5\" -; {PRINTS} echo done wall_ns=7 bytes=90"),
                "the log file has 0 bytes of 90",
            ),
            (Sink::Null, "exit 4".to_owned(), "it ended with exit status: 4"),
        ] {
            let guest = script("go", "1.26", &text);
            let sample = sample(&EXPERIMENT, &case(sink).params(), Some(guest));
            let reason = sample.reason.unwrap_or_default();
            assert!(
                sample.status == Status::Failed && reason.contains(says),
                "{text}: {reason}"
            );
        }
    }

    #[test]
    fn paper_has_what_the_source_ran_and_decides_the_claim() {
        let site = |profile| Site {
            runtimes: ["java", "go", "node"].map(|kind| script(kind, "25", "")).to_vec(),
            ..testing::site(profile, 2)
        };
        // Platform threads, virtual ones and goroutines.
        let count = |profile| plan(&site(profile)).len();
        assert_eq!(Profile::ALL.map(count), [3, 3, 5]);
        assert!(plan(&testing::site(Profile::Paper, 2)).is_empty());
        let java = Guests {
            runtime: Name::new("java"),
            unit: Name::new("platform"),
            units: 1_000,
            prints: 1_000,
            ..case(Sink::Logged)
        };
        assert!(
            plan(&site(Profile::Paper))
                .iter()
                .any(|case| case.params == java.params())
        );
        let cases = vec![
            testing::case(java, [(ELAPSED, vec![66e9; 7]), (WHOLE, vec![67e9; 7])]),
            testing::case(SOURCE, [(ELAPSED, vec![40e9; 7]), (WHOLE, vec![44e9; 7])]),
        ];
        let view = testing::view("print", Profile::Paper, cases);
        let mut answer = Answer::default();
        read(&view, &mut answer);
        let Test::One(ratio) = &answer.claims[0].1 else {
            panic!("one statistic");
        };
        assert!((view.value(ratio).unwrap() - 1.5).abs() < 1e-9);
        // Nothing else was printed.
        assert!((answer.number.unwrap().value - 1.5).abs() < 1e-9);
        let units: Vec<&str> = answer.tables[0].rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(units, ["thread in C", "Java thread"]);
        let mut without = Answer::default();
        read(&testing::view("print", Profile::Paper, Vec::new()), &mut without);
        assert!(matches!(&without.claims[0].1, Test::Lacking { .. }));
        assert!(without.number.is_none());
    }
}
