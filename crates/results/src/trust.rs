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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Diagnostic, Status};

    /// A run in which nothing is wrong: two experiments, whose controls agree, of 250 undisturbed samples each.
    fn good() -> Results {
        let text = include_str!("../../../runs/golden/computing/results.json");
        let mut results: Results = serde_json::from_str(text).unwrap();
        results.warnings.clear();
        for experiment in &mut results.experiments {
            experiment.disturbed = Disturbed {
                samples: 250,
                ..Disturbed::default()
            };
            experiment.diagnostics = vec![
                Diagnostic {
                    name: "drift".to_owned(),
                    says: String::new(),
                    warning: true,
                },
                Diagnostic {
                    name: "null-control".to_owned(),
                    says: String::new(),
                    warning: false,
                },
            ];
        }
        results
    }

    /// What is said where this is so besides.
    fn said(so: impl Fn(&mut Results)) -> (Trusted, String) {
        let mut results = good();
        so(&mut results);
        let Trust { answer, says } = Trust::of(&results);
        (answer, says)
    }

    fn control(results: &mut Results, of: usize) -> &mut Diagnostic {
        &mut results.experiments[of].diagnostics[1]
    }

    #[test]
    fn a_run_is_trusted_where_nothing_at_all_is_wrong() {
        let all = "controls agree in 2 of 2 experiments; none of 500 samples was disturbed";
        assert_eq!(said(|_| ()), (Trusted::Yes, format!("{all}.")));
        let (answer, says) = said(|results| results.warnings.push("beware".to_owned()));
        assert_eq!(answer, Trusted::InPart);
        assert_eq!(says, format!("{all}; see the 1 warning."));
        let (answer, says) = said(|results| results.run.complete = false);
        assert_eq!(answer, Trusted::InPart);
        assert_eq!(says, format!("planned rounds are missing; {all}."));
        let (answer, says) = said(|results| {
            results.experiments[0].cases[0].status = Status::Failed;
            results.warnings.push("a case failed".to_owned());
        });
        assert_eq!(answer, Trusted::InPart);
        // Of warnings it speaks only where nothing else is wrong.
        assert_eq!(says, format!("{all}; 1 case failed."));
    }

    #[test]
    fn it_is_trusted_in_part_where_some_controls_agree_and_not_where_none_does() {
        let (answer, says) = said(|results| control(results, 0).warning = true);
        assert_eq!(answer, Trusted::InPart);
        assert!(
            says.starts_with("controls agree in 1 of 2 experiments; "),
            "{says}"
        );
        let neither = said(|results| {
            control(results, 0).warning = true;
            control(results, 1).warning = true;
        });
        assert_eq!(neither.0, Trusted::No);
        assert!(
            neither.1.starts_with("controls agree in 0 of 2 experiments; "),
            "{neither:?}"
        );
        let without = |results: &mut Results| {
            for experiment in &mut results.experiments {
                experiment.reference = None;
            }
        };
        assert_eq!(
            said(without),
            (
                Trusted::InPart,
                "2 experiments have no reference case as a control; none of 500 samples was disturbed."
                    .to_owned()
            )
        );
        let (answer, says) = said(|results| results.experiments[0].reference = None);
        assert_eq!(answer, Trusted::InPart);
        assert!(
            says.starts_with(
                "controls agree in 1 of 1 experiment; 1 experiment has no reference case as a control; "
            ),
            "{says}"
        );
        // Without rounds there is nothing to control.
        let (answer, says) = said(|results| {
            results.experiments[0].reference = None;
            results.experiments[0].rounds = 0;
            results.experiments[0].diagnostics.clear();
        });
        assert_eq!(answer, Trusted::Yes);
        assert!(
            says.starts_with("controls agree in 1 of 1 experiment; none of"),
            "{says}"
        );
    }

    #[test]
    fn disturbed_samples_are_counted_and_what_is_too_noisy_is_named() {
        let disturbed = |disturbed, by_programs| {
            said(move |results| {
                let of = &mut results.experiments[1].disturbed;
                (of.disturbed, of.by_programs) = (disturbed, by_programs);
            })
        };
        let says = "controls agree in 2 of 2 experiments; 7 of 500 samples were disturbed";
        // A few are repeated, and cost no trust.
        assert_eq!(disturbed(7, 0), (Trusted::Yes, format!("{says}.")));
        assert_eq!(
            disturbed(7, 4),
            (Trusted::Yes, format!("{says}, 4 by other programs here."))
        );
        let (answer, says) = disturbed(200, 200);
        assert_eq!(answer, Trusted::InPart);
        assert!(says.ends_with("; too noisy: placement."), "{says}");
    }
}
