//! Question: which ids do threads and processes have, and does the thread library add threads of its own?
//!
//! How it is measured is said in `EXPERIMENT`, which `explain` and the report print. A program in C (`guests/c/ids.c`)
//! makes the units.

use std::process::Stdio;

use threadgauge_lab::prelude::*;
use threadgauge_results::{Figure, Table};

use crate::create::Unit;
use crate::guests::{Guest, figures, guest};
use crate::libraries::{Library, NOT_SHOWN};

/// Makes the units.
const IDS: Guest = guest!("ids");
/// How many process ids the units have.
const PROCESS_IDS: Metric = metric("process_ids", "count");
/// How many thread ids.
const THREAD_IDS: Metric = metric("thread_ids", "count");
/// How many tasks of the program are neither its first thread nor a unit.
const HELPERS: Metric = metric("helper_tasks", "count");
/// 1 where all units have the one process id of the program and thread ids of their own, else 0.
const SHARED: Metric = metric("one_process_id_share", "share");

/// 1 where every unit has a process id of its own, else 0.
const APART: Metric = metric("own_process_ids_share", "share");

const COUNT: u64 = 8;

point! {
    struct Case { unit: Unit, count: u64 = 1..=10_000, cpus: u64 = 1.., library: Option<Library> }
}

const THREADS: Case = Case {
    unit: Unit::Thread,
    count: COUNT,
    cpus: 1,
    library: None,
};
const PROCESSES: Case = THREADS.unit(Unit::Process);

const fn on_library(library: Library) -> Case {
    THREADS.library(Some(library))
}

impl Case {
    fn program(self) -> &'static Guest {
        self.library.map_or(&IDS, Library::ids)
    }
}

/// What it asks, how it measures, and the functions that do.
pub const EXPERIMENT: Experiment = Experiment {
    id: "identity",
    question: "Which ids do threads and processes have, and does the thread library add threads of its own?",
    first_run: false,
    sources: &["004", "003"],
    primary: &[PROCESS_IDS],
    how: "Eight threads of a small C program, or eight processes by fork, each ask for the id of their process (getpid) and of \
          their thread (gettid). While all wait, the kernel's list of the program's tasks (/proc/self/task) is counted.",
    control: "Eight processes, which have eight of each.",
    traps: &[
        "What ps calls LWP is the thread id; without -L it lists processes alone.",
        "pthread_self is no id of the kernel: it is an address, and is used again.",
    ],
    source: "Source 004 says that threads of NPTL have the process id of their process, and that under LinuxThreads each was a \
             process, with a manager thread beside them; here that library is re-created (library=linuxthreads). Source 003 \
             counted 1,010 threads of a Java program that had made 1,000.",
    calls: &[],
    plan,
    run,
    read,
};

fn plan(site: &Site) -> Plan {
    let planned = |case: Case| PlannedCase {
        skip: case.program().missing(),
        ..PlannedCase::new(case, takes(case))
    };
    Plan {
        cases: {
            let libraries = Library::ALL.map(on_library).to_vec();
            let others = site.profile.pick(Vec::new(), libraries.clone(), libraries);
            [THREADS, PROCESSES]
                .into_iter()
                .chain(others)
                .map(planned)
                .collect()
        },
        reference: THREADS.params(),
        budget: Duration::from_secs(site.profile.pick(3, 10, 20)),
    }
}

fn takes(case: Case) -> Duration {
    Duration::from_millis(12) + Duration::from_micros(case.count * 200)
}

figures! {
    /// What `guests/c/ids.c` answers.
    struct Ids {
        process_ids,
        thread_ids,
        own_process,
        tasks,
    }
}

fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::read(params)?;
    let unit = case.unit.name();
    let deadline = PlannedCase::new(case, takes(case)).deadline();
    let arguments: [&dyn ToString; 2] = [&unit, &case.count];
    let ids: Ids = case
        .program()
        .ask(worker, Stdio::null(), &arguments, deadline, unit)?
        .figures;
    let threads = match case.unit {
        Unit::Thread => case.count,
        Unit::Process => 0,
    };
    let shared = ids.own_process == case.count && ids.thread_ids == case.count;
    worker.tag("cold");
    worker.record(PROCESS_IDS, ids.process_ids as f64);
    worker.record(THREAD_IDS, ids.thread_ids as f64);
    // Of threads that are processes the kernel lists none as a task of another.
    if case.library != Some(Library::LinuxThreads) {
        worker.record(HELPERS, ids.tasks as f64 - 1.0 - threads as f64);
    }
    worker.record(APART, f64::from(u8::from(ids.process_ids == case.count)));
    worker.record(SHARED, f64::from(u8::from(shared)));
    Ok(())
}

fn read(view: &View<'_>) -> Answer {
    Answer {
        answer: sentence(view),
        number: view.number(
            format!("number of process ids that {COUNT} threads have"),
            &PROCESS_IDS.of(THREADS),
            "count",
        ),
        claims: vec![
            ("threads-share-process-id", SHARED.of(THREADS).into()),
            (
                "old-library-threads-are-processes",
                Test::from(APART.of(on_library(Library::LinuxThreads))).recreated(NOT_SHOWN),
            ),
        ],
        facts: facts(view),
        figures: ids(view).into_iter().collect(),
        tables: vec![ids_table(view)],
        ..Answer::default()
    }
}

fn counted(view: &View<'_>, metric: Metric, case: Case) -> Option<String> {
    Some(view.estimate(&metric.of(case))?.plain("count"))
}

fn sentence(view: &View<'_>) -> String {
    let of = |case| {
        Some((
            counted(view, PROCESS_IDS, case)?,
            counted(view, THREAD_IDS, case)?,
        ))
    };
    let (Some(threads), Some(processes)) = (of(THREADS), of(PROCESSES)) else {
        return String::new();
    };
    let ids = |(process, thread): (String, String)| {
        let of = |number: String, what: &str| match number.as_str() {
            "1" => format!("one {what}"),
            _ => format!("{number} {what}s"),
        };
        format!("{} and {}", of(process, "process id"), of(thread, "thread id"))
    };
    let helpers = match counted(view, HELPERS, THREADS).as_deref() {
        None => String::new(),
        Some("0") => " The thread library adds no thread of its own.".to_owned(),
        Some("1") => " The thread library adds one thread of its own.".to_owned(),
        Some(some) => format!(" The thread library adds {some} threads of its own."),
    };
    format!(
        "{COUNT} threads have {}; {COUNT} processes have {}.{helpers}",
        ids(threads),
        ids(processes)
    )
}

/// How many ids of each kind there are.
fn ids(view: &View<'_>) -> Option<Figure> {
    let title = format!("How many ids {COUNT} threads and {COUNT} processes have");
    let chart = Chart::new(view, "ids", title)
        .x(Scale::Category, "ids of")
        .y(Scale::Linear, "number of different ids");
    let of = |case: Case| {
        [
            ("the process", PROCESS_IDS.of(case)),
            ("the thread", THREAD_IDS.of(case)),
        ]
    };
    chart
        .line("threads", of(THREADS))
        .line("processes", of(PROCESSES))
        .drawn()
}

fn facts(view: &View<'_>) -> Vec<Finding> {
    let helpers = view.estimate(&HELPERS.of(THREADS)).map(|helpers| {
        let says = format!(
            "Beside its first thread and the {COUNT} that were made, the kernel lists {} tasks of the program.",
            helpers.plain("count")
        );
        helpers.fact(says, "tasks")
    });
    helpers.into_iter().collect()
}

fn ids_table(view: &View<'_>) -> Table {
    let row = |case: Case| {
        let figures =
            [PROCESS_IDS, THREAD_IDS, HELPERS].map(|metric| counted(view, metric, case).unwrap_or_default());
        let on = case
            .library
            .map_or_else(String::new, |library| format!(", {}", library.in_words()));
        std::iter::once(format!("{} by {}{on}", case.count, case.unit.name()))
            .chain(figures)
            .collect::<Vec<_>>()
    };
    let libraries = Library::ALL.map(on_library).into_iter();
    let libraries = libraries.filter(|case| view.measured(&PROCESS_IDS.of(*case)));
    table(
        "ids",
        "Ids of eight units",
        "",
        ["units", "process ids", "thread ids", "helper tasks"],
        [THREADS, PROCESSES]
            .into_iter()
            .chain(libraries)
            .map(row)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;
    use threadgauge_results::{Verdict, claim, decide};

    use super::*;

    #[test]
    fn threads_share_the_id_of_their_process_and_processes_share_none() {
        for (case, process_ids, shared) in [(THREADS, 1.0, 1.0), (PROCESSES, 8.0, 0.0)] {
            let sample = testing::measured(&EXPERIMENT, &case.params());
            let value = |metric: Metric| sample.value(metric.name).unwrap();
            assert_eq!((value(PROCESS_IDS), value(THREAD_IDS)), (process_ids, 8.0));
            assert_eq!((value(SHARED), value(HELPERS)), (shared, 0.0));
        }
    }

    #[test]
    fn threads_of_the_old_library_are_processes_and_those_of_musl_are_not() {
        for (library, process_ids) in [(Library::LinuxThreads, 8.0), (Library::Musl, 1.0)] {
            let case = on_library(library);
            let sample = testing::sample(&EXPERIMENT, &case.params());
            match case.program().missing() {
                None => {
                    assert_eq!(sample.value(PROCESS_IDS.name), Some(process_ids), "{sample:?}");
                    let apart = f64::from(u8::from(process_ids > 1.0));
                    assert_eq!(sample.value(APART.name), Some(apart));
                }
                Some(lack) => assert_eq!(sample.reason, Some(lack.says)),
            }
        }
    }

    #[test]
    fn the_claim_is_about_all_trials() {
        let view = |shares: Vec<f64>| {
            let of = |value: f64| vec![value; 7];
            let threads = testing::case(
                THREADS,
                [
                    (SHARED, shares),
                    (PROCESS_IDS, of(1.0)),
                    (THREAD_IDS, of(8.0)),
                    (HELPERS, of(0.0)),
                ],
            );
            let processes = testing::case(PROCESSES, [(PROCESS_IDS, of(8.0)), (THREAD_IDS, of(8.0))]);
            testing::view("identity", Profile::Quick, vec![threads, processes])
        };
        let verdict = |view: &View<'_>, id: &str| {
            let (_, test) = read(view).claims.into_iter().find(|(of, _)| *of == id).unwrap();
            let claim = claim(id).unwrap();
            decide(claim, &claim.unit, &test.evidence(view, claim), testing::ALPHA).verdict
        };
        let (all, none) = (view(vec![1.0; 7]), view(vec![0.0; 7]));
        assert_eq!(verdict(&all, "threads-share-process-id"), Some(Verdict::Holds));
        assert_eq!(
            verdict(&none, "threads-share-process-id"),
            Some(Verdict::DoesNotHold)
        );
        assert_eq!(
            verdict(&all, "old-library-threads-are-processes"),
            Some(Verdict::NotMeasured)
        );
        let apart = testing::case(on_library(Library::LinuxThreads), [(APART, vec![1.0; 7])]);
        let with_old = testing::changed(all, |cases| cases.push(apart));
        assert_eq!(
            verdict(&with_old, "old-library-threads-are-processes"),
            Some(Verdict::Holds)
        );
        assert_eq!(
            verdict(&with_old, "threads-share-process-id"),
            Some(Verdict::Holds)
        );
        assert_eq!(
            sentence(&all),
            "8 threads have one process id and 8 thread ids; 8 processes have 8 process ids and 8 thread ids. The thread library adds no thread of its own."
        );
        assert!(facts(&all)[0].says.contains("lists 0 tasks of the program"));
    }
}
