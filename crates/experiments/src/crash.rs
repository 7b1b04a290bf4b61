//! Question: when one of eight threads or processes fails, who survives, and how soon does work go on?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. A program in C
//! (`guests/c/crash.c`) supervises the units. Threads that panic are Rust's own, so this program supervises those.

use std::panic::resume_unwind;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use threadgauge_lab::point::refused as impossible;
use threadgauge_lab::prelude::*;
use threadgauge_lab::refusal::refused;
use threadgauge_machine::clock;
use threadgauge_results::Table;
use threadgauge_stats::median;

use crate::create::Unit;
use crate::guests::{Guest, figures, guest};
use crate::libraries::Library;

/// Supervises the units.
const CRASH: Guest = guest!("crash");
/// From the failure until the supervisor knows: the median of the trials.
const KNOWS: Metric = metric("knows_ns", "ns");
/// From the failure until all that was lost works again.
const WORKS: Metric = metric("works_again_ns", "ns");
/// The share of trials in which all others finished.
const SPARED: Metric = metric("others_finished_share", "share");
/// The share of trials in which none of the others did.
const LOST: Metric = metric("others_lost_share", "share");

/// How many units there are.
const UNITS: usize = 8;
/// As many as the claims want.
const TRIALS: u64 = 20;
/// How long a unit waits between two pieces of work.
const NAP: Duration = Duration::from_micros(500);
/// What a trial waits for at most: its units work and wait for fractions of a millisecond.
const DEADLINE: Duration = Duration::from_secs(10);

words! {
    /// How it fails.
    enum Cause {
        /// It writes to the address 0.
        Segfault = "segfault",
        /// It calls abort.
        Abort = "abort",
        /// It calls itself until its stack is used up.
        StackOverflow = "stack-overflow",
        /// It takes memory under a limit and does not look whether it was given.
        OutOfMemory = "out-of-memory",
        /// It panics, as Rust code does.
        Panic = "panic",
    }
}

point! {
    struct Case { unit: Unit, cause: Cause, cpus: u64 = 1.., library: Option<Library> }
}

const fn case(unit: Unit, cause: Cause) -> Case {
    Case {
        unit,
        cause,
        cpus: 1,
        library: None,
    }
}

impl Case {
    fn program(self) -> &'static Guest {
        self.library.map_or(&CRASH, Library::crash)
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "crash",
    question: "When one of eight threads or processes fails, who survives, and how soon does work go on?",
    first_run: false,
    sources: &["003"],
    primary: &[KNOWS, WORKS],
    how: "A small C program supervises eight processes, or a process of eight threads. Each unit does a little work and waits, again \
          and again. Then one fails, the supervisor waits for its process (or the process it was in) at a pidfd, starts again what \
          is missing, and tells all units to finish once that works. 20 times a sample. `knows_ns` is from the failure until the \
          supervisor knows, `works_again_ns` until every unit works again that was lost, the median of the trials. panic: a thread \
          of Rust code unwinds its stack and ends; its process is the supervisor, and hears of it by a message.",
    control: "The same failure of the one and of the other unit.",
    traps: &[
        "Whether the data that a failed unit shared with others is still whole is not looked at: with threads all of it is shared.",
        "All threads are lost with their process, whatever the signal. A handler for SIGSEGV can hide that and keep a broken \
         process alive.",
        "A panic spares the other threads only where it unwinds: `panic = abort` ends the process.",
        "A service manager that looks once a second, or waits before it starts again, takes that much longer.",
        "The kernel's log gets a line for each unit that SIGSEGV ends. No core file is written; writing one takes longer than all \
         that is measured here.",
    ],
    source: "Source 003 says in words that a crashing thread takes its process down and a crashing process leaves the others \
             unharmed. It tried neither.",
    calls: &[],
    plan,
    run,
    read,
};

fn possible(params: &Params) -> Result<Case, CaseError> {
    let case = Case::read(params)?;
    if (case.unit, case.cause) == (Unit::Process, Cause::Panic) {
        let wanted = "thread, where cause is panic: a process that panics ends as by any other exit";
        return Err(impossible(params, "unit", wanted));
    }
    if case.library.is_some() && (case.unit, case.cause) != (Unit::Thread, Cause::Segfault) {
        let wanted = "segfault of a thread, where a thread library is named";
        return Err(impossible(params, "cause", wanted));
    }
    Ok(case)
}

/// Every failure of both units.
fn cases() -> impl Iterator<Item = Case> {
    let of_unit = |unit| Cause::ALL.map(|cause| case(unit, cause));
    let all = [Unit::Thread, Unit::Process].map(of_unit).concat();
    all.into_iter()
        .filter(|case| (case.unit, case.cause) != (Unit::Process, Cause::Panic))
}

fn plan(site: &Site) -> Plan {
    let planned = |case: Case| PlannedCase {
        skip: (case.cause != Cause::Panic)
            .then(|| case.program().missing())
            .flatten(),
        check: |params| possible(params).map(drop),
        ..PlannedCase::new(case, takes(case))
    };
    Plan {
        cases: {
            let on = |library| case(Unit::Thread, Cause::Segfault).library(Some(library));
            let libraries = Library::ALL.map(on).to_vec();
            let others = site.profile.pick(Vec::new(), libraries.clone(), libraries);
            cases().chain(others).map(planned).collect()
        },
        reference: case(Unit::Process, Cause::Abort).params(),
        budget: Duration::from_secs(site.profile.pick(20, 60, 120)),
    }
}

fn takes(case: Case) -> Duration {
    let trial_ms = match case.cause {
        Cause::StackOverflow | Cause::OutOfMemory => 7,
        _ => 4,
    };
    Duration::from_millis(10 + TRIALS * trial_ms)
}

/// The medians of the times, and in how many trials the others were spared and lost.
#[derive(Debug)]
struct Found {
    knows_ns: f64,
    works_ns: f64,
    spared: u64,
    lost: u64,
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = possible(params)?;
    let found = match case.cause {
        Cause::Panic => panics()?,
        _ => in_c(case, worker)?,
    };
    worker.tag("cold");
    worker.record(KNOWS, found.knows_ns);
    worker.record(WORKS, found.works_ns);
    worker.record(SPARED, found.spared as f64 / TRIALS as f64);
    worker.record(LOST, found.lost as f64 / TRIALS as f64);
    Ok(())
}

figures! {
    /// What `guests/c/crash.c` answers.
    struct Crashed {
        spared,
        lost,
        again,
        knows_ns,
        works_ns,
    }
}

fn in_c(case: Case, worker: &Worker) -> Result<Found, CaseError> {
    let (unit, cause) = (case.unit.name(), case.cause.name());
    let arguments: [&dyn ToString; 4] = [&unit, &cause, &UNITS, &TRIALS];
    let deadline = PlannedCase::new(case, takes(case)).deadline();
    let found = case
        .program()
        .ask::<Crashed>(worker, Stdio::null(), &arguments, deadline, unit)?;
    counted(case.unit, &found.figures, found.stretch)
}

/// What the program found, where the time until work goes on is that of all units that were lost and of no others: with
/// a thread all of them, with a process itself.
fn counted(unit: Unit, found: &Crashed, stretch: f64) -> Result<Found, CaseError> {
    let again = found.again;
    let gone = match unit {
        Unit::Thread => TRIALS * UNITS as u64,
        Unit::Process => TRIALS,
    };
    if again != gone {
        let says = format!("{again} units worked when all {gone} that were lost were to work again");
        return Err(CaseError::Failed(says));
    }
    Ok(Found {
        knows_ns: found.knows_ns as f64 * stretch,
        works_ns: found.works_ns as f64 * stretch,
        spared: found.spared,
        lost: found.lost,
    })
}

/// What a supervisor of threads hears of them, each with the time of `CLOCK_MONOTONIC`, ns.
enum Heard {
    Works(u64),
    Fails(u64),
}

/// Tells the supervisor that a thread unwinds.
struct Notice {
    to: Sender<Heard>,
    failed_ns: u64,
}

impl Drop for Notice {
    fn drop(&mut self) {
        if thread::panicking() {
            // A supervisor that is gone has failed itself.
            let _ = self.to.send(Heard::Fails(self.failed_ns));
        }
    }
}

fn panics() -> Result<Found, CaseError> {
    let trials: Vec<Trial> = (0..TRIALS).map(|_| trial()).collect::<Result<_, _>>()?;
    let of = |ns: fn(&Trial) -> u64| {
        let all: Vec<f64> = trials.iter().map(|trial| ns(trial) as f64).collect();
        median(&all).unwrap_or(f64::NAN)
    };
    let with = |survivors| trials.iter().filter(|trial| trial.survivors == survivors).count() as u64;
    Ok(Found {
        knows_ns: of(|trial| trial.knows_ns),
        works_ns: of(|trial| trial.works_ns),
        spared: with(UNITS - 1),
        lost: with(0),
    })
}

struct Trial {
    knows_ns: u64,
    works_ns: u64,
    survivors: usize,
}

/// Eight threads of which the first panics, and is started again.
fn trial() -> Result<Trial, CaseError> {
    let (fail, finish) = (AtomicBool::new(false), AtomicBool::new(false));
    let (tell, heard) = channel();
    let unit = |fails: bool| {
        let (mut notice, fail, finish) = (
            Notice {
                to: tell.clone(),
                failed_ns: 0,
            },
            &fail,
            &finish,
        );
        move || {
            // A supervisor that is gone has failed itself.
            let _ = notice.to.send(Heard::Works(clock::monotonic_ns()));
            while !finish.load(Ordering::Relaxed) {
                if fails && fail.load(Ordering::Relaxed) {
                    notice.failed_ns = clock::monotonic_ns();
                    // As `panic!`, without its message on standard error.
                    resume_unwind(Box::new("a unit that is to fail"));
                }
                thread::sleep(NAP);
            }
        }
    };
    thread::scope(|scope| {
        let _finish = Finish(&finish);
        let start = |number: usize| {
            let thread = thread::Builder::new().spawn_scoped(scope, unit(number == 0));
            thread.map_err(|error| refused(format!("thread {}", number + 1), &error))
        };
        let mut threads = (0..UNITS).map(start).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..UNITS {
            works(&heard)?;
        }
        fail.store(true, Ordering::Relaxed);
        let failed_ns = fails(&heard)?;
        let knew_ns = clock::monotonic_ns();
        let failed = threads.remove(0).join();
        let again = start(UNITS)?;
        let worked_ns = works(&heard)?;
        finish.store(true, Ordering::Relaxed);
        let survivors = threads
            .into_iter()
            .map(|thread| thread.join())
            .filter(Result::is_ok)
            .count();
        if failed.is_ok() || again.join().is_err() {
            return Err(CaseError::Failed(
                "the thread that was to panic did not, or another did".to_owned(),
            ));
        }
        Ok(Trial {
            knows_ns: knew_ns - failed_ns,
            works_ns: worked_ns - failed_ns,
            survivors,
        })
    })
}

/// Lets the threads of a trial finish, however it ends.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn works(heard: &Receiver<Heard>) -> Result<u64, CaseError> {
    match heard.recv_timeout(DEADLINE) {
        Ok(Heard::Works(ns)) => Ok(ns),
        Ok(Heard::Fails(_)) => Err(CaseError::Failed("a thread failed that was to work".to_owned())),
        Err(error) => Err(CaseError::failed("waiting for a thread to work", error)),
    }
}

fn fails(heard: &Receiver<Heard>) -> Result<u64, CaseError> {
    match heard.recv_timeout(DEADLINE) {
        Ok(Heard::Fails(ns)) => Ok(ns),
        Ok(Heard::Works(_)) => Err(CaseError::Failed("a thread worked that was to fail".to_owned())),
        Err(error) => Err(CaseError::failed("waiting for a thread to fail", error)),
    }
}

/// What ends a C program when nobody handles it.
const CRASHES: [Cause; 4] = [
    Cause::Segfault,
    Cause::Abort,
    Cause::StackOverflow,
    Cause::OutOfMemory,
];

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: sentence(view),
        number: view.number(
            "crashes of one of eight threads that end the others ÷ all crashes",
            &LOST.of(case(Unit::Thread, Cause::Segfault)),
            "share",
        ),
        claims: claims(),
        facts: facts(view),
        comparisons: CRASHES
            .map(|cause| [Unit::Thread, Unit::Process].map(|unit| KNOWS.of(case(unit, cause))))
            .iter()
            .map(|[thread, process]| Pair::of(thread, process))
            .collect(),
        figures: [survivors_chart(view), times_chart(view)]
            .into_iter()
            .filter_map(Chart::drawn)
            .collect(),
        tables: vec![trials_table(view)],
        costs: costs(view),
        ..Answer::default()
    }
}

fn claims() -> Vec<Claim> {
    // "All" needs all: of the ways to crash, the one with the smallest share decides.
    let least = |unit, share: Metric| {
        let of_each = CRASHES.map(|cause| share.of(case(unit, cause)));
        Statistic::function(of_each, smallest).into()
    };
    vec![
        ("crashing-thread-kills-process", least(Unit::Thread, LOST)),
        ("crashing-process-spares-others", least(Unit::Process, SPARED)),
    ]
}

fn sentence(view: &View<'_>) -> String {
    let shown = |metric: Metric, unit| {
        Some(
            view.estimate(&metric.of(case(unit, Cause::Segfault)))?
                .plain("ns"),
        )
    };
    let share = |metric: Metric, unit| {
        Some(
            view.estimate(&metric.of(case(unit, Cause::Segfault)))?
                .plain("share"),
        )
    };
    let whole = || {
        Some(format!(
            "When one of eight threads makes a segmentation fault, the others are lost in {} of the trials, and all eight work \
             again after {}; of eight processes the others finish in {}, and the one works again after {}.",
            share(LOST, Unit::Thread)?,
            shown(WORKS, Unit::Thread)?,
            share(SPARED, Unit::Process)?,
            shown(WORKS, Unit::Process)?
        ))
    };
    whole().unwrap_or_default()
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let knows = |unit: Unit| {
        let of_each = CRASHES.map(|cause| KNOWS.of(case(unit, cause)));
        let knows = view.estimate(&Statistic::function(of_each, largest))?;
        let says = format!(
            "A supervisor knows that a {} failed after {} at most, of the four ways to crash.",
            unit.name(),
            knows.show("ns")
        );
        Some(knows.fact(says, "ns"))
    };
    let panic = || {
        let panic = case(Unit::Thread, Cause::Panic);
        let spared = view.estimate(&SPARED.of(panic))?;
        let says = format!(
            "When one of eight threads of Rust code panics, the others finish in {} of the trials; it is started again and works \
             after {}.",
            spared.plain("share"),
            view.shown(&WORKS.of(panic), "ns")
        );
        Some(spared.fact(says, "share"))
    };
    [Unit::Thread, Unit::Process]
        .into_iter()
        .filter_map(knows)
        .chain(panic())
        .collect()
}

/// A figure of every failure of a unit.
fn of_failures(
    unit: Unit,
    of: impl Fn(Case) -> Statistic,
) -> impl Iterator<Item = (&'static str, Statistic)> {
    let cases = cases().filter(move |case| case.unit == unit);
    cases.map(move |case| (case.cause.name(), of(case)))
}

fn survivors_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(view, "survivors", "Who survives when one of eight fails")
        .x(Scale::Category, "failure")
        .y(Scale::Linear, "trials in which all others finished, %")
        .note("Source 003: a crashing thread takes its process down, a crashing process leaves the others unharmed.");
    [Unit::Thread, Unit::Process]
        .into_iter()
        .fold(chart, |chart, unit| {
            let finished = of_failures(unit, |case| SPARED.of(case).times(100.0));
            chart.line(format!("one {} fails", unit.name()), finished)
        })
}

fn times_chart<'v>(view: &'v View<'v>) -> Chart<'v> {
    let chart = Chart::new(view, "times", "From the failure on")
        .x(Scale::Category, "failure")
        .y(Scale::Log, "time, µs")
        .note("Threads: the process with all eight is started again. Processes: the one that failed. A panic: the one thread.");
    let times = [("supervisor knows", KNOWS), ("works again", WORKS)];
    let lines = [Unit::Thread, Unit::Process].map(|unit| times.map(|(says, metric)| (unit, says, metric)));
    lines
        .into_iter()
        .flatten()
        .fold(chart, |chart, (unit, says, metric)| {
            let points = of_failures(unit, |case| metric.of(case).times(1e-3));
            chart.line(format!("{}: {says}", unit.name()), points)
        })
}

fn trials_table(view: &View<'_>) -> Table {
    let row = |case: Case| {
        let shown = |metric: Metric| view.shown(&metric.of(case), metric.unit);
        let of = format!("{}, {}", case.unit.name(), case.cause.name());
        let figures = [LOST, SPARED, KNOWS, WORKS].map(shown);
        std::iter::once(of).chain(figures).collect()
    };
    table(
        "trials",
        "One of eight fails",
        format!("{TRIALS} trials a sample. Shares are of trials."),
        [
            "what fails",
            "others lost",
            "others finished",
            "supervisor knows after",
            "works again after",
        ],
        cases().map(row).collect(),
    )
}

fn costs(view: &View<'_>) -> Vec<Cost> {
    let lose = |what: &str, metric: Metric, unit: Unit| {
        let how = match unit {
            Unit::Thread => "segmentation fault of one of 8, whose process is lost with all",
            Unit::Process => "segmentation fault of one of 8, which alone is lost",
        };
        view.cost(
            (what, unit.name()),
            how,
            &metric.of(case(unit, Cause::Segfault)),
            "ns",
        )
    };
    let of_units = |what, metric| [Unit::Process, Unit::Thread].map(|unit| lose(what, metric, unit));
    [
        of_units("lose, until a supervisor knows", KNOWS),
        of_units("lose, until all work again", WORKS),
    ]
    .concat()
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_lab::view::ViewCase;
    use threadgauge_results::{Verdict, claim, decide};

    use super::*;

    #[test]
    fn a_process_dies_with_its_thread_and_without_its_sibling_and_leaves_no_core_file() {
        for case in cases() {
            let sample = testing::measured(&EXPERIMENT, &case.params());
            let value = |metric: Metric| sample.value(metric.name).unwrap();
            let lost = case.unit == Unit::Thread && case.cause != Cause::Panic;
            let expected = if lost { (1.0, 0.0) } else { (0.0, 1.0) };
            assert_eq!((value(LOST), value(SPARED)), expected, "{case:?}");
            assert!(value(KNOWS) > 0.0 && value(WORKS) > value(KNOWS), "{sample:?}");
        }
        assert_eq!(crate::guests::core_files(), [""; 0]);
    }

    #[test]
    fn the_time_until_work_goes_on_is_that_of_exactly_the_units_that_were_lost() {
        let says = |unit, again| {
            let found = Crashed {
                spared: 0,
                lost: TRIALS,
                again,
                knows_ns: 1,
                works_ns: 2,
            };
            counted(unit, &found, 1.0).err().map(|error| error.to_string())
        };
        let (all, failed) = (TRIALS * UNITS as u64, TRIALS);
        assert_eq!(says(Unit::Thread, all), None);
        assert_eq!(says(Unit::Process, failed), None);
        for (unit, again, of) in [
            // The first thread of a process alone, and one that was late.
            (Unit::Thread, failed, all),
            (Unit::Thread, all - 1, all),
            // Processes that were not lost, and one that was and does not work.
            (Unit::Process, all, failed),
            (Unit::Process, failed - 1, failed),
        ] {
            let wanted = format!("{again} units worked when all {of} that were lost were to work again");
            assert_eq!(says(unit, again), Some(wanted));
        }
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let sample = testing::sample(&EXPERIMENT, &case(Unit::Process, Cause::Panic).params());
        let reason = sample.reason.unwrap();
        assert!(
            reason.contains("unit is process; it must be thread, where cause is panic"),
            "{reason}"
        );
    }

    /// Seven rounds in which the others were lost with a thread, or finished beside a process, in these shares of the
    /// trials.
    fn view(shares: [f64; 7]) -> View<'static> {
        let of = |value: f64| vec![value; 7];
        let cell = |case: Case| -> ViewCase {
            let others = shares.map(|share| 1.0 - share);
            let [lost, spared] = match case.unit {
                Unit::Thread => [shares, others],
                Unit::Process => [others, shares],
            };
            let [lost, spared] = [lost, spared].map(Vec::from);
            testing::case(
                case,
                [(LOST, lost), (SPARED, spared), (KNOWS, of(1e5)), (WORKS, of(4e5))],
            )
        };
        testing::view("crash", Profile::Quick, cases().map(cell).collect())
    }

    #[test]
    fn all_trials_of_every_crash_are_wanted() {
        let verdict = |view: &View<'_>, id: &str| {
            let (_, test) = claims().into_iter().find(|(of, _)| *of == id).unwrap();
            let claim = claim(id).unwrap();
            decide(claim, &claim.unit, &test.evidence(view, claim), testing::ALPHA).verdict
        };
        let claimed = view([1.0; 7]);
        let some_otherwise = view([0.95, 0.9, 0.95, 0.85, 0.9, 0.95, 0.9]);
        for id in ["crashing-thread-kills-process", "crashing-process-spares-others"] {
            assert_eq!(verdict(&claimed, id), Some(Verdict::Holds), "{id}");
            assert_eq!(verdict(&some_otherwise, id), Some(Verdict::DoesNotHold), "{id}");
        }
    }

    #[test]
    fn the_answer_has_the_numbers_there_are() {
        assert_eq!(
            sentence(&view([1.0; 7])),
            "When one of eight threads makes a segmentation fault, the others are lost in 100 % of the trials, and all eight work \
             again after 400 µs; of eight processes the others finish in 100 %, and the one works again after 400 µs."
        );
        assert_eq!(
            (facts(&view([1.0; 7])).len(), costs(&view([1.0; 7])).len()),
            (3, 4)
        );
        let figures = read(&view([0.8; 7])).figures;
        let shares: Vec<Vec<f64>> = figures[0]
            .series
            .iter()
            .map(|line| line.points.iter().map(|point| point.y.round()).collect())
            .collect();
        assert_eq!(shares, [vec![20.0; 5], vec![80.0; 4]]);
        let empty = testing::view("crash", Profile::Quick, Vec::new());
        assert!(sentence(&empty).is_empty() && facts(&empty).is_empty() && costs(&empty).is_empty());
    }
}
