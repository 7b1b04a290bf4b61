//! Whether a run can be trusted: one answer from one rule, by its controls, disturbances, rounds, failures and
//! warnings.
//!
//! The document has it, and every report asks here, so that none of them says yes above a warning.

use crate::units::{count, counted};
use crate::{Disturbed, ExperimentResult, Results, Trust, Trusted};

/// What is known of a run, in an order to read.
struct Known {
    parts: Vec<Part>,
    answer: Trusted,
}

/// One thing that is known.
struct Part {
    /// In words.
    says: String,
    /// Where it is a reason not to trust the run: the same in a few words.
    against: Option<String>,
}

impl Part {
    fn new(says: impl Into<String>) -> Self {
        Self {
            says: says.into(),
            against: None,
        }
    }

    fn against(says: impl Into<String>, briefly: impl Into<String>) -> Self {
        Self {
            says: says.into(),
            against: Some(briefly.into()),
        }
    }
}

impl Trust {
    /// Of a run.
    #[must_use]
    pub fn of(results: &Results) -> Self {
        let Known { parts, answer } = known(results);
        let parts: Vec<String> = parts.into_iter().map(|part| part.says).collect();
        Self {
            answer,
            says: format!("{}.", parts.join("; ")),
        }
    }

    /// Why, in a few words: the first two reasons not to trust the run and how many more there are or, where there is
    /// none, what comes first of what is known.
    #[must_use]
    pub fn briefly(results: &Results) -> String {
        const SHOWN: usize = 2;
        let parts = known(results).parts;
        let against: Vec<&str> = parts.iter().filter_map(|part| part.against.as_deref()).collect();
        let mut shown = against[..against.len().min(SHOWN)].join(", ");
        match against.len().saturating_sub(SHOWN) {
            0 => {}
            more => shown += &format!(" and {}", counted(more, "more reason")),
        }
        match parts.first() {
            Some(first) if against.is_empty() => first.says.clone(),
            _ => shown,
        }
    }
}

fn known(results: &Results) -> Known {
    let experiments = &results.experiments;
    let of = Disturbed::sum(experiments.iter().map(|e| e.disturbed));
    let noisy = experiments.iter().filter(|e| e.disturbed.is_much());
    let noisy: Vec<&str> = noisy.map(|e| e.id.as_str()).collect();
    // A load of a server that is there already has none.
    let is_uncontrolled = |e: &&ExperimentResult| e.reference.is_none() && e.rounds > 0;
    let uncontrolled = experiments.iter().filter(is_uncontrolled).count();
    let controls = (experiments.iter())
        .filter(|e| !is_uncontrolled(e))
        .filter_map(|e| {
            let control = e.diagnostics.iter().find(|d| d.name == "null-control")?;
            Some((e.id.as_str(), !control.warning))
        });
    let controls: Vec<(&str, bool)> = controls.collect();
    let agree = controls.iter().filter(|(_, agrees)| *agrees).count();
    let others: Vec<&str> = controls
        .iter()
        .filter_map(|(id, agrees)| (!agrees).then_some(*id))
        .collect();
    let failed = results.failed_cases();
    let mut parts = Vec::new();
    if !results.run.complete {
        let says = "planned rounds are missing";
        parts.push(Part::against(says, says));
    }
    if !controls.is_empty() {
        let all = counted(controls.len(), "experiment");
        let says = match others.len() {
            0 => format!("controls agree in {agree} of {all}"),
            1..4 => format!("controls agree in {agree} of {all}, not in {}", others.join(", ")),
            _ => format!("controls agree in {agree} of {all} only"),
        };
        parts.push(match agree == controls.len() {
            true => Part::new(says),
            false => Part::against(says, format!("controls agree in {agree} of {}", controls.len())),
        });
    }
    if uncontrolled > 0 {
        let have = numbered(uncontrolled, "experiment has", "experiments have");
        let says = format!("{have} no reference case as a control");
        parts.push(Part::against(says, format!("{have} no control")));
    }
    let samples = counted(of.samples, "sample");
    parts.push(Part::new(match (of.disturbed, of.by_cause()) {
        (0, _) => format!("none of {samples} was disturbed"),
        (n, by) => {
            let were = if n == 1 { "was" } else { "were" };
            let by = if by.is_empty() { by } else { format!(", {by}") };
            format!("{} of {samples} {were} disturbed{by}", count(n))
        }
    }));
    if !noisy.is_empty() {
        let are = numbered(noisy.len(), "experiment is", "experiments are");
        let says = format!("too noisy: {}", noisy.join(", "));
        parts.push(Part::against(says, format!("{are} too noisy")));
    }
    if failed > 0 {
        let says = format!("{} failed", counted(failed, "case"));
        parts.push(Part::against(says.clone(), says));
    }
    let good = parts.iter().all(|part| part.against.is_none());
    // Whatever else is warned of: a yes above a warning would be two answers.
    if good && !results.warnings.is_empty() {
        let says = match results.warnings.len() {
            1 => "see the warning".to_owned(),
            n => format!("see the {} warnings", count(n)),
        };
        parts.push(Part::against(says.clone(), says));
    }
    let none_agrees = agree == 0 && !controls.is_empty();
    let answer = match good && results.warnings.is_empty() {
        true => Trusted::Yes,
        false if none_agrees => Trusted::No,
        false => Trusted::InPart,
    };
    Known { parts, answer }
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
        assert_eq!(says, format!("{all}; see the warning."));
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
            says.starts_with("controls agree in 1 of 2 experiments, not in compute; "),
            "{says}"
        );
        let neither = said(|results| {
            control(results, 0).warning = true;
            control(results, 1).warning = true;
        });
        assert_eq!(neither.0, Trusted::No);
        assert!(
            neither
                .1
                .starts_with("controls agree in 0 of 2 experiments, not in compute, placement; "),
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
    fn briefly_the_first_two_reasons_are_said_and_the_others_counted() {
        let briefly = |so: &dyn Fn(&mut Results)| {
            let mut results = good();
            so(&mut results);
            Trust::briefly(&results)
        };
        assert_eq!(briefly(&|_| ()), "controls agree in 2 of 2 experiments");
        let disagrees = |results: &mut Results| control(results, 0).warning = true;
        assert_eq!(briefly(&disagrees), "controls agree in 1 of 2");
        let fails = |results: &mut Results| results.experiments[0].cases[0].status = Status::Failed;
        assert_eq!(briefly(&fails), "1 case failed");
        let both = |results: &mut Results| {
            disagrees(results);
            fails(results);
        };
        assert_eq!(briefly(&both), "controls agree in 1 of 2, 1 case failed");
        let three = |results: &mut Results| {
            both(results);
            results.run.complete = false;
        };
        let says = "planned rounds are missing, controls agree in 1 of 2 and 1 more reason";
        assert_eq!(briefly(&three), says);
        let warned = |results: &mut Results| results.warnings = vec![String::new(); 2];
        assert_eq!(briefly(&warned), "see the 2 warnings");
    }

    #[test]
    fn one_sample_is_one() {
        let (_, says) = said(|results| {
            results.experiments[1].disturbed.disturbed = 1;
        });
        assert!(says.ends_with("; 1 of 500 samples was disturbed."), "{says}");
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
