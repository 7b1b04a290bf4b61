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

/// What a process says of a workload whose tasks come as `said` says. Blocks while it is observed: ten seconds.
///
/// # Errors
///
/// If it cannot be observed, or what a task costs cannot be told.
pub fn like(pid: i32, said: &WorkloadOptions) -> Result<WorkloadOptions> {
    let rate = said.rate.map_or(0.0, |rate| rate.per_second);
    let words = [
        "threadgauge",
        "observe",
        &pid.to_string(),
        "--interval",
        "250ms",
        "--rate",
        &rate.to_string(),
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

fn of(cost: &TaskCost, name: &str, said: &WorkloadOptions) -> WorkloadOptions {
    let time = |ns: f64| with_unit(ns, None, "ns");
    say(&format!(
        "a task of `{name}` takes {} of CPU time",
        time(cost.cpu.value_ns)
    ));
    let wait = match said.wait {
        Some(wait) => wait,
        None => {
            say(&format!(
                "and waits for {} at least, {} at most: idle and blocked look alike. The least is taken; say --wait if you \
                 know it",
                time(cost.held_up.value_ns),
                time(cost.all_waits.value_ns)
            ));
            span(cost.held_up.value_ns)
        }
    };
    WorkloadOptions {
        cpu: Some(span(cost.cpu.value_ns)),
        wait: Some(wait),
        language: language(name),
        ..WorkloadOptions::default()
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
    use super::*;

    #[test]
    fn a_program_tells_its_language_by_its_name() {
        assert_eq!(language("python3.11"), Some(Language::Python));
        assert_eq!(language("beam.smp"), Some(Language::Erlang));
        assert_eq!(language("nginx"), None);
    }
}
