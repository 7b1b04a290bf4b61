//! Whether a run can be trusted: one answer from one rule, by its controls, disturbances, rounds, failures and
//! warnings.
//!
//! The document has it, and every report asks here, so that none of them says yes above a warning.

use crate::units::count;
use crate::{Disturbed, ExperimentResult, Results, Trust, Trusted};

impl Trust {
    /// Of a run.
    #[must_use]
    pub fn of(results: &Results) -> Self {
        let experiments = &results.experiments;
        let of = Disturbed::sum(experiments.iter().map(|e| e.disturbed));
        let noisy = experiments.iter().filter(|e| e.disturbed.is_much());
        let noisy: Vec<&str> = noisy.map(|e| e.id.as_str()).collect();
        // A load of a server that is there already has none.
        let is_uncontrolled = |e: &&ExperimentResult| e.reference.is_none() && e.rounds > 0;
        let uncontrolled = experiments.iter().filter(is_uncontrolled).count();
        let controls: Vec<bool> = (experiments.iter())
            .filter(|e| !is_uncontrolled(e))
            .filter_map(|e| e.diagnostics.iter().find(|d| d.name == "null-control"))
            .map(|control| !control.warning)
            .collect();
        let agree = controls.iter().filter(|agrees| **agrees).count();
        let failed = results.failed_cases();
        let mut parts = Vec::new();
        if !results.run.complete {
            parts.push("planned rounds are missing".to_owned());
        }
        if !controls.is_empty() {
            let all = numbered(controls.len(), "experiment", "experiments");
            parts.push(format!("controls agree in {agree} of {all}"));
        }
        if uncontrolled > 0 {
            let have = numbered(uncontrolled, "experiment has", "experiments have");
            parts.push(format!("{have} no reference case as a control"));
        }
        parts.push(match (of.disturbed, of.by_cause()) {
            (0, _) => format!("none of {} samples was disturbed", count(of.samples)),
            (n, by) if by.is_empty() => {
                format!("{} of {} samples were disturbed", count(n), count(of.samples))
            }
            (n, by) => format!(
                "{} of {} samples were disturbed, {by}",
                count(n),
                count(of.samples)
            ),
        });
        if !noisy.is_empty() {
            parts.push(format!("too noisy: {}", noisy.join(", ")));
        }
        if failed > 0 {
            parts.push(format!("{} failed", numbered(failed, "case", "cases")));
        }
        let good = results.run.complete
            && agree == controls.len()
            && uncontrolled == 0
            && noisy.is_empty()
            && failed == 0;
        // Whatever else is warned of: a yes above a warning would be two answers.
        if good && !results.warnings.is_empty() {
            let warnings = numbered(results.warnings.len(), "warning", "warnings");
            parts.push(format!("see the {warnings}"));
        }
        let none_agrees = agree == 0 && !controls.is_empty();
        let answer = match good && results.warnings.is_empty() {
            true => Trusted::Yes,
            false if none_agrees => Trusted::No,
            false => Trusted::InPart,
        };
        Self {
            answer,
            says: format!("{}.", parts.join("; ")),
        }
    }
}

fn numbered(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}
