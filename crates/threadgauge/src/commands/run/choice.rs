//! Which experiments a run was asked for, and which of their cases.

use anyhow::{Result, ensure};
use threadgauge_experiments::twin::TWIN;
use threadgauge_experiments::{CATALOGUE, by_runtime, gate};
use threadgauge_lab::experiment::Experiment;
use threadgauge_lab::schedule::Chosen;
use threadgauge_lab::selection::{SelectionError, Selector, choose, choose_cases, experiments, parts_of_id};
use threadgauge_lab::site::{Profile, Site};

use crate::cli::{ProfileName, RunOptions};
use crate::commands::run::guests::is_shortcut;

/// Whether the cases for a gate are asked for.
fn is_gate(options: &RunOptions) -> bool {
    options.experiments == [gate::NAME]
}

/// Refuses what would choose among the cases for a gate: they are what they are.
///
/// # Errors
///
/// When cases or another profile are asked for, too.
pub fn check(options: &RunOptions) -> Result<()> {
    let chooses =
        !options.only.is_empty() || !options.case.is_empty() || options.profile == ProfileName::Paper;
    ensure!(
        !is_gate(options) || !chooses,
        "`{}` has its own cases: leave --only, --case and --profile away, or name experiments in its place",
        gate::NAME
    );
    Ok(())
}

/// Whose plans the cases are picked from.
pub fn profile(options: &RunOptions) -> Profile {
    match is_gate(options) {
        true => gate::PROFILE,
        false => options.profile.into(),
    }
}

/// How many rounds were asked for, if any.
pub fn rounds(options: &RunOptions) -> Option<u32> {
    options.rounds.or(is_gate(options).then_some(gate::ROUNDS))
}

/// The experiments that were named, else those of the cases that were, else those of a first run.
///
/// # Errors
///
/// When there is no experiment of a name.
pub fn named(options: &RunOptions) -> Result<Vec<&'static Experiment>, SelectionError> {
    if is_shortcut(&options.experiments) {
        return experiments(CATALOGUE, &by_runtime::EXPERIMENTS.map(str::to_owned));
    }
    if is_gate(options) {
        let of_each = gate::CASES
            .iter()
            .filter_map(|id| parts_of_id(id).0.map(str::to_owned));
        return experiments(CATALOGUE, &of_each.collect::<Vec<_>>());
    }
    if options.experiments == [TWIN.id] {
        // By its name alone: it is about a workload that was told.
        return Ok(vec![&TWIN]);
    }
    if !options.experiments.is_empty() {
        return experiments(CATALOGUE, &options.experiments);
    }
    let of_each = options.case.iter().map(|id| parts_of_id(id).0.map(str::to_owned));
    let of_cases: Option<Vec<String>> = of_each.collect();
    experiments(CATALOGUE, &of_cases.unwrap_or_default())
}

/// The cases of these experiments that are selected on `site`.
///
/// # Errors
///
/// When a case, a parameter or a value is unknown, or nothing is left.
pub fn cases(
    named: &[&'static Experiment],
    site: &Site,
    options: &RunOptions,
) -> Result<Vec<Chosen>, SelectionError> {
    let set = Selector::joined(&options.set);
    if is_gate(options) {
        let site = Site {
            profile: gate::PROFILE,
            ..site.clone()
        };
        return choose_cases(named, &site, &gate::CASES.map(str::to_owned), &set);
    }
    if !options.case.is_empty() {
        return choose_cases(named, site, &options.case, &set);
    }
    let mut chosen = choose(named, site, &Selector::joined(&options.only), &set)?;
    if is_shortcut(&options.experiments) {
        for c in &mut chosen {
            by_runtime::keep(c.experiment.id, &mut c.plan);
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn named_by(words: &str) -> Result<Vec<&'static str>, SelectionError> {
        let words = format!("threadgauge run {words}");
        let Some(Command::Run(options)) = Cli::parse_from(words.split_whitespace()).command else {
            panic!("it is a run");
        };
        Ok(named(&options)?.iter().map(|e| e.id).collect())
    }

    #[test]
    fn the_cases_for_a_gate_are_no_others() {
        let asked = |words: &str| {
            let words = format!("threadgauge run {words}");
            let Some(Command::Run(options)) = Cli::parse_from(words.split_whitespace()).command else {
                panic!("it is a run");
            };
            (check(&options).is_ok(), rounds(&options), profile(&options))
        };
        assert_eq!(asked("gate"), (true, Some(gate::ROUNDS), gate::PROFILE));
        assert_eq!(asked("gate --rounds 7").1, Some(7));
        for other in ["--only unit=thread", "--case ring/unit=thread", "--profile paper"] {
            assert!(!asked(&format!("gate {other}")).0, "{other}");
        }
        assert_eq!(asked("ring --profile paper"), (true, None, Profile::Paper));
    }

    #[test]
    fn experiments_are_named_or_are_those_of_the_cases_that_are() {
        assert_eq!(
            named_by("null --case ring/unit=thread").unwrap(),
            ["null"],
            "who names one means it"
        );
        assert_eq!(
            named_by("--case null/what=clock --case ring/unit=thread --case null/what=burn").unwrap(),
            ["ring", "null"]
        );
        let first = named_by("").unwrap();
        assert!(first.len() > 2, "{first:?}");
        assert_eq!(named_by("--case lengths=10/20").unwrap(), first);
        assert_eq!(
            named_by("--case null/what=clock --case what=burn").unwrap(),
            first
        );
        let unknown = named_by("--case nul/what=clock").unwrap_err().to_string();
        assert!(unknown.contains("did you mean `null`"), "{unknown}");
    }
}
