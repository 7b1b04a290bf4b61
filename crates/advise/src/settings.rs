//! What advice is called in programs that people know: one table, each line with its source.
//!
//! A line is a setting for some designs only. A program that has no line for the advised design says so: a setting for
//! another design would contradict the advice.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::design::{Candidate, Design, Machine};
use crate::predict::Prediction;
use crate::workload::Workload;

/// A line of the table.
#[derive(Debug, Clone, Deserialize)]
struct Line {
    program: String,
    setting: String,
    /// The designs for which it is a setting: their names, separated by spaces.
    designs: String,
    value: Value,
    says: String,
    source: String,
}

impl Line {
    fn is_for(&self, design: Design) -> bool {
        let name = DESIGNS.iter().find(|(of, ..)| *of == design);
        name.is_some_and(|(_, name, _)| self.designs.split(' ').any(|word| word == *name))
    }
}

/// Each design with its name in the table and its name in a sentence.
static DESIGNS: [(Design, &str, &str); 9] = [
    (Design::Serial, "serial", "one task after the other"),
    (Design::Background, "background", "one background thread"),
    (Design::Async, "async", "one asynchronous thread"),
    (Design::Loops, "loops", "event loops"),
    (Design::Threads, "threads", "threads"),
    (Design::ThreadEach, "thread-each", "a thread for each task"),
    (Design::Processes, "processes", "processes"),
    (Design::Stages, "stages", "a process for each stage"),
    (Design::ProcessEach, "process-each", "a process for each task"),
];

/// Which figure of an advice a setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    /// Tasks at once.
    AtOnce,
    /// Whole CPUs that it can have.
    Cpus,
    /// Processes; one where the design has none of its own.
    Processes,
    /// Threads of a pool; one where the design has no pool of threads.
    Threads,
    /// Threads of a process that compute at once.
    Computing,
    /// Event loops.
    Loops,
    /// Those for whom tasks wait, at once, of each process.
    Limit,
    /// Clients of each event loop.
    Connections,
}

/// A setting of a program; or that the program has none for the advised design.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The program.
    pub program: String,
    /// What is set; empty where the program has no setting for the design.
    pub setting: String,
    /// To what; none where the program has no setting for the design.
    pub value: Option<usize>,
    /// What it is; or, in a sentence, that there is none and for what there are some.
    pub says: String,
    /// Where its manual says so; empty where the program has no setting for the design.
    pub source: String,
}

fn lines() -> &'static [Line] {
    static LINES: LazyLock<Vec<Line>> = LazyLock::new(|| {
        let mut reader = csv::Reader::from_reader(include_str!("settings.csv").as_bytes());
        // A line that cannot be read is found by a test.
        reader.deserialize().filter_map(Result::ok).collect()
    });
    &LINES
}

/// The programs of the table, each once.
#[must_use]
pub fn programs() -> Vec<&'static str> {
    let mut names: Vec<&str> = lines().iter().map(|line| line.program.as_str()).collect();
    names.dedup();
    names
}

/// What is set in a program for this advice, or that it has no setting for it; nothing for a program that is not in the
/// table.
#[must_use]
pub fn settings(program: &str, advised: &Prediction, workload: &Workload, machine: &Machine) -> Vec<Setting> {
    of_candidate(program, advised.candidate, workload, machine)
}

fn of_candidate(program: &str, advised: Candidate, workload: &Workload, machine: &Machine) -> Vec<Setting> {
    let known: Vec<&Line> = lines().iter().filter(|line| line.program == program).collect();
    let of = |line: &Line| {
        let value = value(line.value, advised, workload, machine)?;
        Some(Setting {
            program: line.program.clone(),
            setting: line.setting.clone(),
            value: Some(value),
            says: line.says.clone(),
            source: line.source.clone(),
        })
    };
    let fitting = known.iter().copied().filter(|line| line.is_for(advised.design));
    let found: Vec<Setting> = fitting.filter_map(of).collect();
    if found.is_empty() && !known.is_empty() {
        return vec![none(program, &known, advised, workload)];
    }
    found
}

/// That a program with these lines has none for the advised design.
fn none(program: &str, known: &[&Line], advised: Candidate, workload: &Workload) -> Setting {
    let has = |design: Design| known.iter().any(|line| line.is_for(design));
    let others: Vec<&str> = DESIGNS
        .iter()
        .filter(|(design, ..)| *design != advised.design && has(*design))
        .map(|(.., words)| *words)
        .collect();
    Setting {
        program: program.to_owned(),
        setting: String::new(),
        value: None,
        says: format!(
            "{program} has no setting for {}: it has some for {}",
            advised.says(workload),
            others.join(", ")
        ),
        source: String::new(),
    }
}

/// The figure that a setting is; none where nothing bounds it.
fn value(value: Value, advised: Candidate, workload: &Workload, machine: &Machine) -> Option<usize> {
    let Candidate { design, at_once, .. } = advised;
    let cpus = (machine.effective().ceil() as usize).max(1);
    let at_once_if = |is_so: bool| if is_so { at_once } else { 1 };
    let loops = at_once_if(design == Design::Loops);
    let figure = match value {
        Value::AtOnce => at_once,
        Value::Cpus => cpus,
        Value::Processes => at_once_if(design.has_processes()),
        Value::Threads => at_once_if(design == Design::Threads),
        Value::Computing => match design {
            Design::Threads | Design::ThreadEach => cpus.min(at_once),
            _ => loops,
        },
        Value::Loops => loops,
        Value::Limit => of_each_process(advised).min(workload.limit.unwrap_or(usize::MAX)),
        // One more for each client, towards a server behind it.
        Value::Connections => {
            let clients = workload.connections.map_or(0, |connections| connections.count);
            (2 * clients.div_ceil(loops.max(1))).max(512)
        }
    };
    (figure != usize::MAX).then_some(figure)
}

/// Tasks at once of each process; `usize::MAX` where nothing bounds them.
const fn of_each_process(advised: Candidate) -> usize {
    match advised.design {
        Design::Processes | Design::ProcessEach => 1,
        // Each loop has as many tasks under way as its clients want.
        Design::Loops => usize::MAX,
        _ => advised.at_once,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Count;
    use crate::workload::Description;

    /// Settings that are processes.
    const PROCESSES: [&str; 3] = ["--workers", "ProcessPoolExecutor(max_workers)", "cluster.fork()"];
    /// Settings that are threads of a pool.
    const THREADS: [&str; 5] = [
        "--threads",
        "UV_THREADPOOL_SIZE",
        "ThreadPoolExecutor(max_workers)",
        "max_blocking_threads",
        "Executors.newFixedThreadPool",
    ];
    /// Settings that are tasks of one asynchronous thread.
    const ASYNC: [&str; 5] = [
        "--worker-connections",
        "agent.maxSockets",
        "asyncio.Semaphore",
        "Semaphore::new",
        "Semaphore(permits)",
    ];
    /// Settings of event loops.
    const LOOPS: [&str; 2] = ["worker_processes", "worker_connections"];
    /// Settings that are threads which compute at once.
    const COMPUTING: [&str; 3] = [
        "worker_threads",
        "GOMAXPROCS",
        "-Djdk.virtualThreadScheduler.parallelism",
    ];
    /// Settings that bound tasks or CPUs, whoever does the tasks.
    const BOUNDS: [&str; 4] = [
        "maximumPoolSize",
        "goroutines at once",
        "-XX:ActiveProcessorCount",
        "-j",
    ];

    const MACHINE: Machine = Machine {
        cpus: 4.0,
        quota: Some(1.5),
        memory_bytes: None,
    };

    fn of(program: &str, design: Design, at_once: usize, limit: Option<usize>) -> Vec<Setting> {
        let workload = Workload::of(&Description {
            tasks: Some(Count(1_000)),
            wait_s: Some(0.1),
            limit: limit.map(Count),
            ..Description::default()
        });
        of_candidate(
            program,
            Candidate::new(design, at_once),
            &workload.unwrap(),
            &MACHINE,
        )
    }

    /// The names of settings and their values.
    fn values(program: &str, design: Design, at_once: usize) -> Vec<(String, usize)> {
        let settings = of(program, design, at_once, None);
        let of_setting = |setting: Setting| (setting.setting, setting.value.unwrap());
        settings.into_iter().map(of_setting).collect()
    }

    /// Whether a setting of this name may have this value, where this is advised.
    fn agrees(name: &str, value: usize, design: Design, at_once: usize) -> bool {
        let at_once_if = |is_so: bool| if is_so { at_once } else { 1 };
        match name {
            name if PROCESSES.contains(&name) => value == at_once_if(design.has_processes()),
            name if THREADS.contains(&name) => value == at_once_if(design == Design::Threads),
            name if ASYNC.contains(&name) => design == Design::Async && value == at_once,
            name if LOOPS.contains(&name) => design == Design::Loops,
            name if COMPUTING.contains(&name) => match design {
                Design::Async => value == 1,
                Design::Loops => value == at_once,
                // The quota allows two.
                _ => value == 2,
            },
            name => BOUNDS.contains(&name) && value <= at_once.max(2),
        }
    }

    #[test]
    fn every_line_of_the_table_is_read_and_has_a_source_and_known_designs() {
        let written = include_str!("settings.csv").lines().count() - 1;
        assert_eq!(lines().len(), written);
        assert!(lines().iter().all(|line| line.source.starts_with("https://")));
        for program in [
            "gunicorn", "node", "python", "hikaricp", "nginx", "tokio", "go", "jvm", "make",
        ] {
            assert!(programs().contains(&program), "{program}");
        }
        for (design, name, _) in &DESIGNS {
            assert_eq!(serde_json::to_value(design).unwrap(), *name);
        }
        for line in lines() {
            let is_known = |word: &str| DESIGNS.iter().any(|(_, name, _)| *name == word);
            assert!(line.designs.split(' ').all(is_known), "{line:?}");
        }
    }

    #[test]
    fn no_setting_of_any_program_contradicts_the_design_that_is_advised() {
        let mut counted = 0;
        for program in programs() {
            for (design, ..) in DESIGNS {
                let at_once = match design {
                    Design::Serial | Design::Background => 1,
                    Design::ThreadEach | Design::ProcessEach => usize::MAX,
                    _ => 7,
                };
                let settings = of(program, design, at_once, None);
                assert!(!settings.is_empty(), "{program} says nothing of {design:?}");
                for setting in &settings {
                    match setting.value {
                        Some(value) => {
                            let name = setting.setting.as_str();
                            assert!(agrees(name, value, design, at_once), "{design:?}: {setting:?}");
                            counted += 1;
                        }
                        None => {
                            let begins = format!("{program} has no setting for ");
                            assert!(setting.says.starts_with(&begins), "{setting:?}");
                            assert_eq!(settings.len(), 1, "{settings:?}");
                        }
                    }
                }
            }
        }
        assert!(counted > 30, "{counted}");
    }

    #[test]
    fn what_is_set_is_what_is_advised() {
        let is = |program, design, at_once, wanted: &[(&str, usize)]| {
            let wanted: Vec<(String, usize)> = wanted
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect();
            assert_eq!(values(program, design, at_once), wanted, "{program} {design:?}");
        };
        is(
            "gunicorn",
            Design::Processes,
            4,
            &[("--workers", 4), ("--threads", 1)],
        );
        is(
            "gunicorn",
            Design::Threads,
            500,
            &[("--workers", 1), ("--threads", 500)],
        );
        is(
            "gunicorn",
            Design::Async,
            20,
            &[("--workers", 1), ("--worker-connections", 20)],
        );
        is("node", Design::Processes, 8, &[("cluster.fork()", 8)]);
        is(
            "python",
            Design::Processes,
            500,
            &[("ProcessPoolExecutor(max_workers)", 500)],
        );
        is("python", Design::Async, 20, &[("asyncio.Semaphore", 20)]);
        is(
            "nginx",
            Design::Loops,
            2,
            &[("worker_processes", 2), ("worker_connections", 512)],
        );
    }

    #[test]
    fn a_program_without_a_setting_for_the_design_says_so() {
        let says = |program, design| of(program, design, 1, None)[0].says.clone();
        assert_eq!(
            says("gunicorn", Design::Loops),
            "gunicorn has no setting for one event loop: it has some for one task after the other, one asynchronous \
             thread, threads, processes"
        );
        assert_eq!(
            says("nginx", Design::Threads),
            "nginx has no setting for 1 thread: it has some for event loops"
        );
        assert!(of("apache", Design::Threads, 2, None).is_empty());
    }

    #[test]
    fn connections_of_a_database_are_those_of_each_process_and_no_more_than_it_allows() {
        let pool = |design, at_once, limit| of("hikaricp", design, at_once, limit)[0].value;
        assert_eq!(pool(Design::Threads, 500, Some(20)), Some(20));
        assert_eq!(pool(Design::Threads, 5, Some(20)), Some(5));
        assert_eq!(pool(Design::Processes, 5, Some(20)), Some(1));
        assert_eq!(pool(Design::ThreadEach, usize::MAX, Some(20)), Some(20));
        assert_eq!(pool(Design::ThreadEach, usize::MAX, None), None);
    }
}
