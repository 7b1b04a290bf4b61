//! Whether a run can be trusted, in a sentence: its controls, its disturbances, its rounds, its failures.

use threadgauge_results::{Disturbed, ExperimentResult, Results};

use threadgauge_results::units::count;

use crate::words::plural;

/// How far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Controls agree and little was disturbed.
    Good,
    /// Some of it is in doubt; the sentence says what.
    InPart,
    /// There are controls and none of them agrees (one of too few rounds does not). That samples were disturbed is no
    /// reason by itself: what is decided from them is decided by a rule of its own.
    No,
}

/// How far a run can be trusted, and why.
pub(crate) fn trust(results: &Results) -> (Trust, String) {
    let of = Disturbed::sum(results.experiments.iter().map(|e| e.disturbed));
    // A load of a server that is there already has none.
    let is_uncontrolled = |e: &&ExperimentResult| e.reference.is_none() && e.rounds > 0;
    let uncontrolled = results.experiments.iter().filter(is_uncontrolled).count();
    let controls: Vec<bool> = (results.experiments.iter())
        .filter(|e| !is_uncontrolled(e))
        .filter_map(|e| e.diagnostics.iter().find(|d| d.name == "null-control"))
        .map(|control| !control.warning)
        .collect();
    let agree = controls.iter().filter(|agrees| **agrees).count();
    let mut doubts = Vec::new();
    if !results.run.complete {
        doubts.push("planned rounds are missing".to_owned());
    }
    if !controls.is_empty() {
        doubts.push(format!(
            "controls agree in {agree} of {} {}",
            controls.len(),
            plural(controls.len(), "experiment", "experiments")
        ));
    }
    if uncontrolled > 0 {
        let have = plural(uncontrolled, "experiment has", "experiments have");
        doubts.push(format!(
            "{} {have} no reference case as a control",
            count(uncontrolled)
        ));
    }
    doubts.push(match of.disturbed {
        0 => format!("none of {} samples was disturbed", count(of.samples)),
        n => format!(
            "{} of {} samples were disturbed, {} by the hypervisor and {} by other programs here",
            count(n),
            count(of.samples),
            count(of.by_hypervisor),
            count(of.by_programs)
        ),
    });
    let failed = results.failed_cases();
    if failed > 0 {
        doubts.push(format!(
            "{} {} failed",
            count(failed),
            plural(failed, "case", "cases")
        ));
    }
    let good =
        failed == 0 && results.run.complete && !of.is_much() && uncontrolled == 0 && agree == controls.len();
    let none_agrees = agree == 0 && !controls.is_empty();
    let trust = match good {
        true => Trust::Good,
        false if none_agrees => Trust::No,
        false => Trust::InPart,
    };
    (trust, format!("{}.", doubts.join("; ")))
}

impl Trust {
    /// In a few words.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "Yes",
            Self::InPart => "In part",
            Self::No => "No",
        }
    }
}
