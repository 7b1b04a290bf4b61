//! A task's cost of a program that runs, and the machine as that program may use it: `advise --like PID` observes it.

use anyhow::{Result, anyhow};
use clap::Parser as _;
use threadgauge_advise::advice::cpus_in_words;
use threadgauge_advise::workload::Uncertain;
use threadgauge_load::Span;
use threadgauge_machine::observe::Capacity;
use threadgauge_results::units::with_unit;

use crate::cli::{Cli, Command};
use crate::commands::advise::options::{Language, MachineOptions, WorkloadOptions};
use crate::commands::observe::seen::{Ending, Seen};
use crate::commands::observe::tasks::{Figure, TaskCost};
use crate::commands::observe::watch;
use crate::output::{Verdict, say};

/// What was seen of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// What its tasks are.
    pub task: Task,
    /// CPUs that it may use, and the quota on it.
    pub capacity: Capacity,
    /// The least limit on its memory by control groups, KiB.
    pub memory_limit_kib: Option<u64>,
}

/// A task of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// A workload, as far as the process tells it.
    pub workload: WorkloadOptions,
    /// How far off that may be.
    pub uncertain: Uncertain,
    /// What is taken from it, in words; nothing of what the user said.
    pub assumed: Vec<String>,
}

/// What a process says of a workload whose tasks come as `said` says; after Ctrl-C what it has said until then, or
/// nothing. With it comes how the command ends. Blocks while it is observed: ten seconds.
///
/// # Errors
///
/// If it is not said how many tasks come, the process cannot be observed, or what a task costs cannot be told.
pub fn like(pid: i32, said: &WorkloadOptions) -> Result<(Option<Observed>, Verdict)> {
    let rate = said.rate.ok_or_else(|| {
        anyhow!(
            "--like {pid}: how many tasks does the process do now? Say --rate 50/s, or rate = \"50/s\" in the file of \
             --file"
        )
    })?;
    let words = [
        "threadgauge",
        "observe",
        &pid.to_string(),
        "--interval",
        "250ms",
        "--rate",
        &rate.per_second.to_string(),
    ];
    let options = match Cli::try_parse_from(words)?.command {
        Some(Command::Observe(options)) => options,
        _ => {
            return Err(anyhow!(
                "it cannot be observed; `threadgauge observe {pid} --rate …` says why"
            ));
        }
    };
    let (seen, verdict) = watch(&options)?;
    let cost = match &seen.task {
        Some(Ok(cost)) => cost,
        _ if verdict != Verdict::Done => {
            say("Ended before it was seen what a task costs");
            return Ok((None, verdict));
        }
        Some(Err(why)) => {
            return Err(anyhow!(
                "what a task costs is not known: {why}; say --cpu and --wait"
            ));
        }
        None => return Err(anyhow!("no task was seen; say --cpu and --wait")),
    };
    for lack in &seen.lacks {
        say(&format!("not known: {lack}"));
    }
    let mut task = task(cost, &seen.name, said);
    task.assumed.extend(ended_early(&seen));
    let observed = Observed {
        task,
        capacity: seen.capacity,
        memory_limit_kib: seen.memory_limit_kib,
    };
    Ok((Some(observed), verdict))
}

/// Why it was not observed for the whole time, and for how long it was.
fn ended_early(seen: &Seen) -> Option<String> {
    let why = match seen.ending {
        Ending::Over => return None,
        Ending::ProcessEnded => "the process has ended: it was observed for",
        Ending::Interrupted => "observing was interrupted: it took",
    };
    let time = with_unit(seen.course.elapsed_ns() as f64, None, "ns");
    Some(format!("{why} {time}"))
}

fn task(cost: &TaskCost, name: &str, said: &WorkloadOptions) -> Task {
    let cpu = said.cpu.is_none().then_some(&cost.cpu);
    let wait = said.wait.is_none().then_some(&cost.held_up);
    let of_cpu = cpu.map(|cpu| format!("a task takes {} of CPU time, as observed (--cpu)", in_words(cpu)));
    let of_wait = wait.map(|wait| {
        let least = match wait.value_ns {
            0.0 => "does not wait".to_owned(),
            _ => format!("waits for {}", in_words(wait)),
        };
        format!(
            "a task {least}: that is the least that can be told; at most it waits for {}, since idle and blocked look \
             alike (--wait)",
            with_unit(cost.all_waits.value_ns, None, "ns")
        )
    });
    Task {
        workload: WorkloadOptions {
            cpu: Some(span(cost.cpu.value_ns)),
            wait: Some(span(cost.held_up.value_ns)),
            language: language(name),
            ..WorkloadOptions::default()
        },
        uncertain: Uncertain {
            cpu: cpu.map_or([1.0; 2], ends),
            wait: wait.map_or([1.0; 2], ends),
            most_wait_s: wait.map(|_| cost.all_waits.value_ns / 1e9),
        },
        assumed: of_cpu.into_iter().chain(of_wait).collect(),
    }
}

/// With its interval, or that there is none.
fn in_words(figure: &Figure) -> String {
    let says = with_unit(figure.value_ns, figure.ci95_ns, "ns");
    match figure.ci95_ns {
        Some(_) => says,
        None => format!("{says} (how far off that may be is not known)"),
    }
}

/// The ends of its interval, as factors of it; 1 where it has none.
fn ends(figure: &Figure) -> [f64; 2] {
    match figure.ci95_ns {
        Some([low, high]) if figure.value_ns > 0.0 => [
            (low / figure.value_ns).clamp(0.0, 1.0),
            (high / figure.value_ns).max(1.0),
        ],
        _ => [1.0; 2],
    }
}

impl Observed {
    /// What the process may use and the user did not say, in words.
    pub fn may_use(&self, said: &MachineOptions) -> Vec<String> {
        let Capacity { allowed, quota } = self.capacity;
        let quota = quota.filter(|quota| said.quota.is_none() && *quota < allowed);
        let cpus = match quota {
            Some(quota) => format!(
                "the process may use {}: a quota of its control group, or of one above it (--quota); by its affinity it \
                 would be {} (--cpu-count)",
                cpus_in_words(quota),
                cpus_in_words(allowed)
            ),
            None => format!(
                "the process may run on {}, by its affinity (--cpu-count)",
                cpus_in_words(allowed)
            ),
        };
        let memory = self.memory_limit_kib.filter(|_| said.memory_limit.is_none());
        let memory = memory.map(|kib| {
            format!(
                "the process may have {}: a limit of its control group, or of one above it (--memory-limit)",
                with_unit(kib as f64 * 1024.0, None, "B")
            )
        });
        [cpus].into_iter().chain(memory).collect()
    }
}

fn span(ns: f64) -> Span {
    Span(std::time::Duration::from_nanos(ns.max(0.0) as u64))
}

/// As far as the name of a process tells it.
fn language(name: &str) -> Option<Language> {
    let begins = |begin: &str| name.starts_with(begin);
    match () {
        () if begins("python") || begins("gunicorn") => Some(Language::Python),
        () if begins("node") => Some(Language::Node),
        () if begins("ruby") || begins("puma") => Some(Language::Ruby),
        () if begins("java") => Some(Language::Java),
        () if begins("beam") => Some(Language::Erlang),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use threadgauge_advise::quantity::Bytes;

    use super::*;

    fn cost() -> TaskCost {
        let figure = |value_ns, ci95_ns| Figure { value_ns, ci95_ns };
        TaskCost {
            tasks: 500.0,
            per_second: 50.0,
            looks: 40,
            cpu: figure(3e6, Some([2.7e6, 3.6e6])),
            wanted: figure(0.0, None),
            waits: Vec::new(),
            all_waits: figure(9e6, None),
            held_up: figure(2e6, None),
        }
    }

    #[test]
    fn the_wait_that_is_taken_is_the_least_and_said_to_be_assumed() {
        let nothing = WorkloadOptions::default();
        let seen = task(&cost(), "python3", &nothing);
        assert_eq!(seen.workload.cpu, Some(Span(Duration::from_millis(3))));
        assert_eq!(seen.workload.wait, Some(Span(Duration::from_millis(2))));
        let [cpu, wait] = &seen.assumed[..] else {
            panic!("{:?}", seen.assumed)
        };
        assert!(cpu.contains("takes 3.00 [2.70, 3.60] ms of CPU time"), "{cpu}");
        assert!(
            wait.contains("waits for 2.00 ms (how far off") && wait.contains("at most it waits for 9.00 ms"),
            "{wait}"
        );
    }

    #[test]
    fn what_is_observed_is_uncertain_by_its_interval_and_what_is_said_is_not() {
        let uncertain = |said: &WorkloadOptions| task(&cost(), "python3", said).uncertain;
        let all = uncertain(&WorkloadOptions::default());
        let [low, high] = all.cpu;
        assert!((low - 0.9).abs() < 1e-9 && (high - 1.2).abs() < 1e-9, "{all:?}");
        assert_eq!((all.wait, all.most_wait_s), ([1.0; 2], Some(0.009)));
        let said = WorkloadOptions {
            cpu: Some(Span(Duration::from_millis(1))),
            wait: Some(Span(Duration::from_millis(5))),
            ..WorkloadOptions::default()
        };
        let none = uncertain(&said);
        assert_eq!(
            (none.cpu, none.wait, none.most_wait_s),
            ([1.0; 2], [1.0; 2], None)
        );
        assert!(task(&cost(), "python3", &said).assumed.is_empty());
    }

    #[test]
    fn the_machine_is_what_the_process_may_use_and_it_is_said_why() {
        let observed = |quota, memory_limit_kib| Observed {
            task: task(&cost(), "python3", &WorkloadOptions::default()),
            capacity: Capacity { allowed: 4.0, quota },
            memory_limit_kib,
        };
        let nothing = MachineOptions::default();
        let said = observed(Some(1.5), Some(1 << 20)).may_use(&nothing);
        assert!(
            said[0].starts_with("the process may use 1.5 CPUs: a quota of its control group"),
            "{said:?}"
        );
        assert!(said[1].contains("1.00 GiB"), "{said:?}");
        // A larger quota holds nothing back.
        let said = observed(Some(9.0), None).may_use(&nothing);
        assert_eq!(
            said,
            ["the process may run on 4 CPUs, by its affinity (--cpu-count)"]
        );
        let both = MachineOptions {
            quota: Some(2.0),
            memory_limit: Some(Bytes(1e9)),
            ..nothing
        };
        let said = observed(Some(1.5), Some(1 << 20)).may_use(&both);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(!said[0].contains("quota"), "{said:?}");
    }

    #[test]
    fn without_a_rate_nothing_is_observed_and_it_is_said_where_to_say_it() {
        let refused = like(1, &WorkloadOptions::default()).unwrap_err().to_string();
        assert!(
            refused.contains("--rate 50/s") && refused.contains("--file"),
            "{refused}"
        );
    }

    #[test]
    fn a_program_tells_its_language_by_its_name() {
        assert_eq!(language("python3.11"), Some(Language::Python));
        assert_eq!(language("beam.smp"), Some(Language::Erlang));
        assert_eq!(language("nginx"), None);
    }
}
