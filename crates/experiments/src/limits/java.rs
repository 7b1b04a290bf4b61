//! Java's threads and their stacks, as source 003 tried them: 1,000 that print with the stacks that they have by
//! default, and as many as there can be with 8 MiB each in 3 GiB of address space.
//!
//! The first is done where every line has been printed; the kernel counts the tasks while all are alive. In the second
//! the program looks for no refusal, as the source's did not: what is asked is whether anybody tells it.

use std::os::fd::AsRawFd as _;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::Runtime;

use super::case::{ADDRESS_003_MIB, ALIVE, CLAIMED, LIVED, STACK_003_KIB};
use crate::guests::figures;
use crate::print::bytes_per_unit;
use crate::runtimes::memory::tasks_of_group;
use crate::runtimes::talk::{TalkError, Whole, first_error};
use crate::runtimes::{self, Does, Kind, Name, Unit, guest};

/// Whether each of its threads has printed all its lines.
const COMPLETED: Metric = metric("completed", "share");
/// The tasks of the process while all its threads are alive, by the kernel's count.
const TASKS: Metric = metric("tasks", "tasks");
/// Whether it ended before its last line, and said nothing of it.
const SILENT: Metric = metric("ended_silently", "share");
/// Whether it ended before its last line, and said so.
const TOLD: Metric = metric("ended_and_said_so", "share");

/// The line of each.
const TEXT: &str = "hello linux";
/// The lines of each in the source.
const PRINTS_003: u64 = 1_000;
/// What a virtual machine keeps for itself, so small that it starts in 3 GiB of addresses. No file tells of its end.
const SMALL: [&str; 5] = [
    "-Xmx64m",
    "-XX:ReservedCodeCacheSize=16m",
    "-XX:CompressedClassSpaceSize=16m",
    "-XX:+UseSerialGC",
    "-XX:ErrorFile=/dev/null",
];
/// Starts a program with a limit on its address space: in this process it would limit others, too.
const LIMITED: [&str; 3] = ["/bin/sh", "-c", "ulimit -v \"$0\" && exec \"$@\""];

words! {
    /// What a virtual machine's threads do.
    enum Trial {
        /// Print `prints` lines each, once all are alive.
        Printing = "printing",
        /// Wait, with stacks of `stack_kib` in an address space of `address_mib`.
        Stacks = "stacks",
    }
}

point! {
    struct Case {
        runtime: Name,
        unit: Name,
        trial: Trial,
        count: u64 = 1..=1_000_000,
        /// 0 where nothing is printed.
        prints: u64 = 0..=1_000_000,
        /// 0 for what it is by default.
        stack_kib: u64 = 0..=1 << 20,
        /// 0 for no limit.
        address_mib: u64 = 0..=1 << 20,
        cpus: u64 = 1..,
    }
}

figures! {
    struct Ready { made }
}
figures! {
    struct Printed { bytes }
}

impl Case {
    const fn printing(runtime: Name, unit: Name) -> Self {
        Self {
            runtime,
            unit,
            trial: Trial::Printing,
            count: CLAIMED,
            prints: PRINTS_003,
            stack_kib: 0,
            address_mib: 0,
            cpus: 1,
        }
    }

    const fn stacks(runtime: Name, unit: Name) -> Self {
        Self {
            trial: Trial::Stacks,
            prints: 0,
            stack_kib: STACK_003_KIB,
            address_mib: ADDRESS_003_MIB,
            ..Self::printing(runtime, unit)
        }
    }

    fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        let is_limited = (case.stack_kib, case.address_mib) != (0, 0);
        match case.trial {
            Trial::Printing if is_limited => Err(refused(params, "trial", "stacks, for stacks of a size")),
            Trial::Printing if case.prints == 0 => Err(refused(params, "prints", "at least 1")),
            Trial::Stacks if case.prints != 0 => Err(refused(params, "prints", "0, where trial is stacks")),
            Trial::Stacks if case.stack_kib == 0 || case.address_mib == 0 => Err(refused(
                params,
                "stack_kib",
                "a size, and address_mib, where trial is stacks",
            )),
            _ => Ok(case),
        }
    }

    fn planned(self, kind: &Kind, unit: &Unit) -> PlannedCase {
        // A line into a file, on a small virtual machine.
        let work = Duration::from_micros(self.count * (unit.create_us + 2 * self.prints));
        PlannedCase {
            check: |params| Self::possible(params).map(drop),
            ..PlannedCase::new(self, Duration::from_millis(15 + kind.starts_ms) + work)
        }
    }
}

/// Both cases for the threads of each Java that was asked for; quick has none.
pub(super) fn plan(site: &Site) -> Vec<PlannedCase> {
    if site.profile == Profile::Quick {
        return Vec::new();
    }
    runtimes::plan(site, Does::Stacks, |runtime, kind, unit| {
        let name = Name::new(unit.name);
        let cases = [Case::printing(runtime, name), Case::stacks(runtime, name)];
        let of_kernel = cases.into_iter().filter(|_| !unit.in_runtime);
        of_kernel.map(|case| case.planned(kind, unit))
    })
}

/// Runs the case with these parameters.
///
/// # Errors
///
/// Those of [`guest::begin`]; failed where the guest did not answer as it is to. That it ended early is no error.
pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let (runtime, kind, unit) = guest::begin(params, case.unit, worker)?;
    let deadline = case.planned(kind, unit).deadline();
    worker.tag("cold");
    match case.trial {
        Trial::Printing => {
            let (is_complete, tasks) = match printing(case, &runtime, unit, deadline) {
                Ok(tasks) => (true, tasks),
                // What the claim says does not happen.
                Err(TalkError::Said(_) | TalkError::Ended { .. }) => (false, 0),
                Err(error) => return Err(error.of_case()),
            };
            worker.record(ALIVE, if is_complete { case.count as f64 } else { 0.0 });
            worker.record(COMPLETED, f64::from(u8::from(is_complete)));
            worker.record(TASKS, tasks as f64);
        }
        Trial::Stacks => {
            SMALL.iter().for_each(|option| worker.tag(option));
            let (alive, end) = stacks(case, &runtime, unit, deadline)?;
            worker.record(ALIVE, alive as f64);
            for metric in [SILENT, TOLD, LIVED] {
                worker.record(metric, f64::from(u8::from(metric.name == end.name)));
            }
        }
    }
    Ok(())
}

/// The tasks that there were with all threads alive, once every line is in a file.
fn printing(case: Case, runtime: &Runtime, unit: &Unit, deadline: Duration) -> Result<usize, TalkError> {
    // Without a name: the guest opens it through this process's descriptor.
    let file = tempfile::tempfile().map_err(TalkError::Broken)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let arguments: [&dyn ToString; 6] = [&"together", &unit.name, &case.count, &case.prints, &TEXT, &path];
    let mut talk = guest::start(runtime, &arguments, deadline)?;
    let Ready { made } = talk.told("ready")?;
    let tasks = tasks_of_group(talk.id());
    talk.end_input();
    let Printed { bytes } = talk.told("done")?;
    talk.end()?;
    let expected = case.count * bytes_per_unit(TEXT.len() as u64, case.prints);
    let arrived = file.metadata().map_err(TalkError::Broken)?.len();
    match (made, bytes, arrived) == (case.count, expected, expected) {
        true => Ok(tasks),
        false => Err(TalkError::Nonsense {
            line: format!("made={made} bytes={bytes}"),
            why: format!(
                "{} threads were to print {expected} bytes, and {arrived} arrived",
                case.count
            ),
        }),
    }
}

/// How many threads it made, and how it ended.
fn stacks(
    case: Case,
    runtime: &Runtime,
    unit: &Unit,
    deadline: Duration,
) -> Result<(u64, Metric), CaseError> {
    let (program, first) = runtime
        .command
        .split_first()
        .map_or(("", &[][..]), |(a, b)| (a.as_str(), b));
    let address_kib = (case.address_mib * 1024).to_string();
    let stack = format!("-Xss{}k", case.stack_kib);
    let options = [program, &stack].into_iter().chain(SMALL);
    let command = LIMITED.into_iter().chain([address_kib.as_str()]).chain(options);
    let limited = Runtime {
        command: command.map(str::to_owned).chain(first.iter().cloned()).collect(),
        ..runtime.clone()
    };
    let talk = guest::start(&limited, &[&"stacks", &unit.name, &case.count], deadline);
    let whole = talk.and_then(|talk| talk.whole()).map_err(TalkError::of_case)?;
    let Whole {
        output, complaint, ..
    } = &whole;
    let (alive, others): (Vec<&str>, Vec<&str>) = output.lines().partition(|line| line.starts_with("alive "));
    if alive.is_empty() {
        let said = first_error(complaint).or_else(|| first_error(output));
        let said = said.unwrap_or("nothing");
        return Err(CaseError::Failed(format!(
            "the guest made no thread, and said: {said}"
        )));
    }
    let has_last = others.iter().any(|line| line.starts_with("done "));
    let end = match (has_last, others.is_empty() && complaint.trim().is_empty()) {
        (true, _) => LIVED,
        (false, true) => SILENT,
        (false, false) => TOLD,
    };
    Ok((alive.len() as u64, end))
}

/// The tests of the claims about Java's stacks, on the Java that is named first.
pub(super) fn claims(view: &View<'_>) -> Vec<Claim> {
    let of = |trial: Trial, metric: Metric| -> Test {
        let asked = |case: &Case| case.trial == trial && case.count == CLAIMED && case.cpus == 1;
        let as_the_source = |case: &Case| {
            let source = match trial {
                Trial::Printing => Case::printing(case.runtime, case.unit),
                Trial::Stacks => Case::stacks(case.runtime, case.unit),
            };
            *case == source
        };
        match cases(view).into_iter().filter(asked).find(as_the_source) {
            Some(case) => metric.of(case).into(),
            None => not_measured(
                "the claim is about a program in Java, which `threadgauge run limits --profile standard --runtime java` runs",
            ),
        }
    };
    vec![
        (
            "java-threads-run-without-stack-trouble",
            of(Trial::Printing, COMPLETED),
        ),
        ("java-8-mib-stack-stops-silently", of(Trial::Stacks, SILENT)),
    ]
}

fn cases(view: &View<'_>) -> Vec<Case> {
    runtimes::cases::<Case>(view)
}

/// What they add to the answer; nothing where there are none.
pub(super) fn read(view: &View<'_>, answer: &mut Answer) {
    answer.claims.extend(claims(view));
    let end = |case: Case| {
        let of = |metric: Metric| view.value(&metric.of(case)).is_some_and(|share| share > 0.5);
        let ends = [
            (COMPLETED, "every line was printed"),
            (LIVED, "its last line"),
            (TOLD, "an error that it tells"),
            (SILENT, "nothing that it tells"),
        ];
        let found = ends.into_iter().find(|(metric, _)| of(*metric));
        found.map_or("an error", |(_, says)| says).to_owned()
    };
    let rows = cases(view).into_iter().filter_map(|case| {
        let alive = view.estimate(&ALIVE.of(case))?.show("count");
        let does = match case.trial {
            Trial::Printing => format!("print {} lines each", case.prints),
            Trial::Stacks => format!("wait, {} KiB stacks in {} MiB", case.stack_kib, case.address_mib),
        };
        Some(vec![
            runtimes::label(case.runtime, case.unit),
            does,
            case.count.to_string(),
            alive,
            view.shown(&TASKS.of(case), "count"),
            end(case),
        ])
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        answer.tables.push(table(
            "java",
            "Java's threads and their stacks",
            "Tasks: of the process, by the kernel's count, while all its threads are alive. With stacks of a size the virtual \
             machine's own memory is so small that it starts; its options are tags of the sample.",
            ["unit", "do", "asked for", "alive", "tasks", "ended with"],
            rows,
        ));
    }
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::Status;

    use super::*;
    use crate::limits::EXPERIMENT;
    use crate::runtimes::guest::testing::{sample, script};

    fn java() -> [Case; 2] {
        let names = ("java", "platform");
        [Case::printing, Case::stacks].map(|of| of(Name::new(names.0), Name::new(names.1)))
    }

    #[test]
    fn a_crowd_that_prints_all_its_lines_is_complete_and_its_tasks_are_counted() {
        let case = java()[0].count(2).prints(3);
        let print = "for unit in 1 2; do for i in 0 1 2; do echo \"[$i]$5\" >>\"$6\"; done; done; ";
        let ready = "sleep 600 & echo ready made=$3; read x; kill $!; ";
        for (text, expected) in [
            (format!("{ready}{print} echo done bytes=90"), Ok((1.0, 2.0))),
            // One that is refused a thread, or dies.
            ("echo error no memory; exit 1".to_owned(), Ok((0.0, 0.0))),
            (format!("{ready} exit 3"), Ok((0.0, 0.0))),
            (format!("{ready} echo done bytes=90"), Err("and 0 arrived")),
            (
                format!("{ready}{print} echo done bytes=89"),
                Err("were to print 90 bytes"),
            ),
            ("echo nonsense".to_owned(), Err("it is to begin with ready")),
        ] {
            let sample = sample(&EXPERIMENT, &case.params(), Some(script("java", "17", &text)));
            let reason = sample.reason.clone().unwrap_or_default();
            match expected {
                Ok((completed, tasks)) => {
                    assert_eq!(sample.status, Status::Ok, "{text}: {reason}");
                    assert_eq!(sample.value(COMPLETED.name), Some(completed), "{text}");
                    assert_eq!(sample.value(TASKS.name), Some(tasks), "{text}");
                }
                Err(says) => assert!(reason.contains(says), "{text}: {reason}"),
            }
        }
    }

    #[test]
    fn whether_a_program_tells_its_end_is_told_apart() {
        let case = java()[1].count(3);
        let asked = "[ \"$1\" = -Xss8192k ] && [ \"$(ulimit -v)\" = 3145728 ] || exit 9; echo alive 1; echo alive 2; ";
        for (text, end) in [
            ("echo alive 3; echo done made=3", LIVED),
            ("exit 1", SILENT),
            ("echo '[warning] Failed to start thread'; exit 1", TOLD),
            ("echo OutOfMemoryError >&2; exit 1", TOLD),
        ] {
            // What follows the program are its options.
            let mut guest = script("java", "17", "");
            let text = format!("{asked}{text}");
            let dir = tempfile::tempdir().unwrap();
            let program = dir.path().join("java");
            runtimes::find::tests::program(&program, &format!("#!/bin/sh\n{text}\n"));
            guest.command = vec![program.display().to_string()];
            let sample = sample(&EXPERIMENT, &case.params(), Some(guest));
            assert_eq!(sample.status, Status::Ok, "{text}: {:?}", sample.reason);
            let found = [SILENT, TOLD, LIVED].map(|metric| sample.value(metric.name).unwrap());
            let expected = [SILENT, TOLD, LIVED].map(|metric| f64::from(u8::from(metric.name == end.name)));
            assert_eq!(found, expected, "{text}");
            assert!(sample.value(ALIVE.name) >= Some(2.0) && sample.tags.contains(&SMALL[0].to_owned()));
        }
    }

    #[test]
    fn a_virtual_machine_that_does_not_start_is_a_failure_with_its_words() {
        let mut guest = script("java", "17", "");
        guest.command = ["/bin/sh", "-c"].map(str::to_owned).to_vec();
        let sample = sample(&EXPERIMENT, &java()[1].params(), Some(guest));
        let reason = sample.reason.unwrap();
        assert!(
            reason.starts_with("the guest made no thread, and said: "),
            "{reason}"
        );
    }

    #[test]
    fn both_are_planned_for_threads_of_java_from_standard_on_and_decide_claims() {
        let site = |profile| Site {
            runtimes: ["java", "go"].map(|kind| script(kind, "25", "")).to_vec(),
            ..testing::site(profile, 2)
        };
        assert_eq!(Profile::ALL.map(|profile| plan(&site(profile)).len()), [0, 2, 2]);
        let [printing, stacks] = java();
        let planned = plan(&site(Profile::Standard));
        assert!(
            planned
                .iter()
                .zip(java())
                .all(|(planned, case)| planned.params == case.params())
        );
        let cases = vec![
            testing::case(
                printing,
                [
                    (ALIVE, vec![1000.0; 7]),
                    (COMPLETED, vec![1.0; 7]),
                    (TASKS, vec![1020.0; 7]),
                ],
            ),
            testing::case(
                stacks,
                [
                    (ALIVE, vec![213.0; 7]),
                    (SILENT, vec![0.0; 7]),
                    (TOLD, vec![1.0; 7]),
                ],
            ),
        ];
        let view = testing::view("limits", Profile::Standard, cases);
        let found = claims(&view).into_iter().map(|(_, test)| match test {
            Test::One(statistic) => view.value(&statistic).unwrap(),
            _ => panic!("one statistic"),
        });
        assert_eq!(found.collect::<Vec<_>>(), [1.0, 0.0]);
        let mut answer = Answer::default();
        read(&view, &mut answer);
        let ends: Vec<&str> = answer.tables[0].rows.iter().map(|row| row[5].as_str()).collect();
        assert_eq!(ends, ["every line was printed", "an error that it tells"]);
        for (params, says) in [
            (printing.prints(0).params(), "prints is 0; it must be at least 1"),
            (
                printing.stack_kib(64).params(),
                "trial is printing; it must be stacks",
            ),
            (stacks.prints(1).params(), "prints is 1; it must be 0"),
            (stacks.address_mib(0).params(), "it must be a size"),
        ] {
            let refused = Case::possible(&params).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
