//! Is a number put before a noun of many, although it may be one? *1 cases*.
//!
//! `threadgauge_results::units::counted` puts a number before a noun, and has its singular. In what a run says by
//! numbers of its own, nothing else may: here are the places that stay, each for its reason. Experiments are left out,
//! whose numbers are of their grids.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Crates whose texts have numbers of a run or of a user.
const CRATES: [&str; 4] = [
    "crates/lab/src/",
    "crates/report/src/",
    "crates/results/src/",
    "crates/threadgauge/src/",
];

/// What is counted there.
const NOUNS: [&str; 36] = [
    "answers",
    "attempts",
    "bytes",
    "cases",
    "cells",
    "claims",
    "classes",
    "clients",
    "connections",
    "CPUs",
    "deliveries",
    "errors",
    "experiments",
    "facts",
    "failures",
    "figures",
    "findings",
    "items",
    "lines",
    "loads",
    "looks",
    "messages",
    "metrics",
    "pings",
    "processes",
    "requests",
    "rounds",
    "runs",
    "samples",
    "sayings",
    "servers",
    "subscriptions",
    "switches",
    "threads",
    "values",
    "warnings",
];

/// Places in which the number is not one, by their file and some of their words.
const NEVER_ONE: [(&str, &str); 36] = [
    // One has its own words beside them.
    ("lab/src/diagnosis.rs", "{claims} claims stay"),
    ("lab/src/diagnosis.rs", "{disturbed} disturbed samples were"),
    ("lab/src/diagnosis.rs", "{count} cases have {have}"),
    ("report/src/cases.rs", "Medians over {rounds} rounds"),
    ("report/src/facts.rs", "{n} CPUs"),
    ("report/src/html/first.rs", "{} sayings, tested here"),
    ("results/src/trust.rs", "see the {} warnings"),
    ("load/experiment.rs", "{many} classes; the first"),
    ("load/experiment.rs", "{many} loads; the first"),
    ("load/experiment.rs", "{with} of {runs} runs"),
    ("load/experiment.rs", "{invalid} of {runs} runs"),
    ("load/experiment.rs", "Of {silent} loads"),
    ("load/experiment.rs", "{busy} of {runs} runs"),
    ("load/experiment.rs", "{many} loads by second"),
    // More than one there is beside it, or asked for.
    ("report/src/cases.rs", "{n} of {rounds} rounds"),
    ("results/src/lack.rs", "needs {needed} CPUs"),
    ("commands/load.rs", "of {} connections: the others"),
    ("load/mixed.rs", "for {classes} classes"),
    // An interval needs six.
    ("lab/src/diagnosis.rs", "its {} rounds are worth"),
    ("results/src/verdict.rs", "{} rounds are needed for an interval"),
    ("results/src/verdict.rs", "fewer than {} rounds"),
    ("results/src/verdict.rs", "its {rounds} rounds do not agree"),
    ("results/src/compare/two.rs", "more than {most} rounds"),
    // Of the product, and large.
    ("report/src/xlsx.rs", "the first {} of {all} values"),
    ("commands/list.rs", "{all} published claims"),
    ("report/src/chart/lint.rs", "{dashed} dashed lines"),
    ("load/drive.rs", "answers of 1 to {} bytes"),
    ("load/drive.rs", "to {most} bytes"),
    ("load/options.rs", "it takes {:.0} answers"),
    // No number.
    ("load/target.rs", "{at} answers"),
    ("chart/lint.rs", "{name:?} looks like"),
    // No whole number.
    ("load/live.rs", "server {:.2} CPUs"),
    ("load/server.rs", "{:.2} CPUs"),
    ("observe/experiment.rs", "{cpus:.2} CPUs"),
    ("observe/live.rs", "{:.2} CPUs"),
    ("observe/show.rs", "{:.2} CPUs"),
];

/// Fails naming every place.
///
/// # Errors
///
/// If there is one, or a file cannot be read.
pub fn check() -> Result<()> {
    let files = shell::output(shell::command("git").args(["ls-files", "--", "crates/*.rs"]))?;
    let mut faults = Vec::new();
    let is_said = |path: &&str| CRATES.iter().any(|of| path.starts_with(of)) && !path.ends_with("tests.rs");
    for path in files.lines().filter(is_said) {
        let text = fs::read_to_string(path).with_context(|| path.to_owned())?;
        let bare = bare(&text).filter(|(_, line)| {
            let is_known = |(file, words): &(&str, &str)| path.ends_with(file) && line.contains(words);
            !NEVER_ONE.iter().any(is_known)
        });
        faults.extend(bare.map(|(number, line)| format!("{path}:{number}: {}", line.trim())));
    }
    if !faults.is_empty() {
        bail!(
            "a number that may be one stands before a noun of many; say it by `units::counted`:\n  {}",
            faults.join("\n  ")
        );
    }
    eprintln!("no number that may be one stands before a noun of many");
    Ok(())
}

/// The lines that have such a noun behind a number, without tests and comments. Numbers of a name in capitals are
/// known.
fn bare(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.lines().zip(1..).map(|(line, number)| (number, line));
    let code = code.take_while(|(_, line)| *line != "#[cfg(test)]");
    let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter(|(_, line)| {
        line.match_indices("} ").any(|(at, _)| {
            let number = line[..at].rsplit('{').next().unwrap_or_default();
            let is_known = !number.is_empty() && number.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            // The noun, or one word before it.
            let words = line[at + 2..].split(|c: char| !c.is_alphanumeric());
            !is_known && words.take(2).any(|word| NOUNS.contains(&word))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_before_a_noun_of_many_is_found() {
        let text = "say(\"{n} cases\");\nsay(\"{} open claims\");\n// {n} cases\nsay(\"{MOST} cases\");\n\
                    say(\"{n} of them\");\nsay(\"{of}, rounds\");\n#[cfg(test)]\nsay(\"{n} cases\");\n";
        let found: Vec<usize> = bare(text).map(|(number, _)| number).collect();
        assert_eq!(found, [1, 2]);
    }
}
