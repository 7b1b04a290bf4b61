//! Costs that no run of this machine has yet, measured before a twin is: some twenty seconds.

use std::path::Path;

use anyhow::Result;
use threadgauge_advise::Basis;
use threadgauge_experiments::CATALOGUE;
use threadgauge_lab::selection::{Selector, choose, experiment};
use threadgauge_lab::site::Profile;

use crate::cli::RunOptions;
use crate::commands::run::{run_then, site};
use crate::output::{Verdict, say};

/// By experiment, which of its cases the costs are read off.
const CASES: [(&str, &str); 5] = [
    (
        "create",
        "method=fork,pthread,pool,program=c,alive=1,busy=0,parent_mib=0,cpus=1",
    ),
    ("ring", "ring=2,kib=0,placement=same"),
    ("handover", "placement=same"),
    ("compute", "unit=thread,work=integer"),
    ("footprint", "cpus=1"),
];

/// More rounds would take longer than whoever waits for advice expects.
const MOST_ROUNDS: u32 = 10;

/// Measures what `basis` lacks in so many rounds, ten at most, as a run of its own in the folder where runs go, so that
/// whoever asks next has it. Nothing where it lacks nothing. Blocks meanwhile.
///
/// # Errors
///
/// Those of a run.
pub fn measured(basis: &Basis, rounds: u32) -> Result<(Option<Basis>, Verdict)> {
    let lacking = basis.costs.lacking();
    let case = cases(&lacking)?;
    if case.is_empty() {
        return Ok((None, Verdict::Done));
    }
    say(&format!(
        "No run of this machine has all costs undisturbed ({} lacking), so they are measured first",
        lacking.join(", ")
    ));
    let options = RunOptions {
        case,
        rounds: Some(rounds.min(MOST_ROUNDS)),
        ..RunOptions::default()
    };
    let mut found = None;
    let verdict = run_then(&options, |data| {
        found = Some(Basis::of(&data.results, Path::new(&data.name)));
        Ok(())
    })?;
    Ok((found, verdict))
}

/// The ids of the cases of these experiments, of those this machine can run.
fn cases(experiments: &[&str]) -> Result<Vec<String>> {
    let site = site(Profile::Quick, None)?;
    let mut ids = Vec::new();
    for (id, only) in CASES.iter().filter(|(id, _)| experiments.contains(id)) {
        let of = [experiment(CATALOGUE, id)?];
        for chosen in choose(&of, &site, &only.parse::<Selector>()?, &Selector::default())? {
            ids.extend(chosen.plan.cases.iter().map(|case| case.params.case_id(id)));
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_that_a_run_can_lack_has_cases_of_this_machine() {
        let lacking = Basis::shipped("no run").costs.lacking();
        for id in &lacking {
            assert!(!cases(&[id]).unwrap().is_empty(), "{id}");
        }
        let all = cases(&lacking).unwrap();
        assert!(all.len() < 30, "{all:?}");
        assert!(cases(&[]).unwrap().is_empty());
    }
}
