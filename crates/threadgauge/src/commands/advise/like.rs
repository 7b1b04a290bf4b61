//! A task's cost of a program that runs: `advise --like PID` observes it.

use anyhow::{Result, anyhow};
use clap::Parser as _;
use threadgauge_load::Span;
use threadgauge_results::units::with_unit;

use crate::cli::{Cli, Command};
use crate::commands::advise::options::{Language, WorkloadOptions};
use crate::commands::observe::tasks::TaskCost;
use crate::commands::observe::watch;
use crate::output::say;

/// What was seen of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// A workload, as far as the process tells it.
    pub workload: WorkloadOptions,
    /// What is assumed of it, in words; none where the user said it.
    pub assumed: Option<String>,
}

/// What a process says of a workload whose tasks come as `said` says. Blocks while it is observed: ten seconds.
///
/// # Errors
///
/// If it is not said how many tasks come, the process cannot be observed, or what a task costs cannot be told.
pub fn like(pid: i32, said: &WorkloadOptions) -> Result<Observed> {
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
    let seen = watch(&options)?;
    let cost = match seen.task {
        Some(Ok(cost)) => cost,
        Some(Err(why)) => {
            return Err(anyhow!(
                "what a task costs is not known: {why}; say --cpu and --wait"
            ));
        }
        None => return Err(anyhow!("no task was seen; say --cpu and --wait")),
    };
    Ok(of(&cost, &seen.name, said))
}

fn of(cost: &TaskCost, name: &str, said: &WorkloadOptions) -> Observed {
    let time = |ns: f64| with_unit(ns, None, "ns");
    say(&format!(
        "a task of `{name}` takes {} of CPU time",
        time(cost.cpu.value_ns)
    ));
    let assumed = said.wait.is_none().then(|| {
        format!(
            "a task waits for {}, the least that can be told; at most {}, since idle and blocked look alike (--wait)",
            time(cost.held_up.value_ns),
            time(cost.all_waits.value_ns)
        )
    });
    if let Some(assumed) = &assumed {
        say(assumed);
    }
    Observed {
        workload: WorkloadOptions {
            cpu: Some(span(cost.cpu.value_ns)),
            wait: said.wait.or(Some(span(cost.held_up.value_ns))),
            language: language(name),
            ..WorkloadOptions::default()
        },
        assumed,
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

    use crate::commands::observe::tasks::Figure;

    use super::*;

    #[test]
    fn the_wait_that_is_taken_is_the_least_and_said_to_be_assumed() {
        let figure = |value_ns| Figure {
            value_ns,
            ci95_ns: None,
        };
        let cost = TaskCost {
            tasks: 500.0,
            per_second: 50.0,
            looks: 40,
            cpu: figure(3e6),
            wanted: figure(0.0),
            waits: Vec::new(),
            all_waits: figure(9e6),
            held_up: figure(2e6),
        };
        let observed = of(&cost, "python3", &WorkloadOptions::default());
        assert_eq!(observed.workload.cpu, Some(Span(Duration::from_millis(3))));
        assert_eq!(observed.workload.wait, Some(Span(Duration::from_millis(2))));
        let assumed = observed.assumed.unwrap();
        assert!(
            assumed.contains("waits for 2.00 ms") && assumed.contains("at most 9.00 ms"),
            "{assumed}"
        );
        let said = WorkloadOptions {
            wait: Some(Span(Duration::from_millis(5))),
            ..WorkloadOptions::default()
        };
        let observed = of(&cost, "python3", &said);
        assert_eq!((observed.workload.wait, observed.assumed), (said.wait, None));
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
