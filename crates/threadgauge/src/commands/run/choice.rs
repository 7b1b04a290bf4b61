//! Which experiments a run was asked for, and which of their cases.

use threadgauge_experiments::{CATALOGUE, by_runtime};
use threadgauge_lab::experiment::Experiment;
use threadgauge_lab::schedule::Chosen;
use threadgauge_lab::selection::{SelectionError, Selector, choose, choose_cases, experiments};
use threadgauge_lab::site::Site;

use crate::cli::RunOptions;
use crate::commands::run::guests::is_shortcut;

/// The experiments that were named, else those of the cases that were, else those of a first run.
///
/// # Errors
///
/// When there is no experiment of a name.
pub fn named(options: &RunOptions) -> Result<Vec<&'static Experiment>, SelectionError> {
    if is_shortcut(&options.experiments) {
        return experiments(CATALOGUE, &by_runtime::EXPERIMENTS.map(str::to_owned));
    }
    if !options.experiments.is_empty() {
        return experiments(CATALOGUE, &options.experiments);
    }
    let of_each = options.case.iter().map(|id| experiment_of(id));
    let of_cases: Option<Vec<String>> = of_each.collect();
    experiments(CATALOGUE, &of_cases.unwrap_or_default())
}

/// The experiment that an id begins with; values of parameters may have a slash, too.
fn experiment_of(id: &str) -> Option<String> {
    let (name, _) = id.split_once('/')?;
    (!name.contains('=')).then(|| name.to_owned())
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
