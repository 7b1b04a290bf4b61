//! One experiment in words: what it measures, how, and what the sources published.

use std::fmt::Write as _;

use threadgauge_experiments::CATALOGUE;
use threadgauge_lab::selection::experiments;
use threadgauge_results::claim;

use crate::output::{Done, Verdict, print_words};

/// Prints it.
pub fn explain(id: &str) -> Done {
    let found = experiments(CATALOGUE, &[id.to_owned()])?;
    let mut text = String::new();
    for experiment in found {
        let method = experiment.method();
        let _ = writeln!(text, "{}: {}\n", experiment.id(), experiment.question());
        section(&mut text, "How", &method.how);
        section(&mut text, "Control", &method.control);
        section(&mut text, "Traps", &method.traps.join("\n"));
        section(&mut text, "The sources, and where this differs", &method.source);
        section(
            &mut text,
            "Metrics that decide",
            &experiment.primary_metrics().join(", "),
        );
        let claims: Vec<String> = experiment
            .claims()
            .iter()
            .filter_map(|id| published(id))
            .collect();
        section(
            &mut text,
            "Claims it decides, and what was published",
            &claims.join("\n"),
        );
    }
    print_words(text.trim_end())?;
    Ok(Verdict::Done)
}

fn section(text: &mut String, head: &str, body: &str) {
    if body.is_empty() {
        return;
    }
    let _ = writeln!(text, "{head}");
    for line in body.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text.push('\n');
}

fn published(id: &str) -> Option<String> {
    let claim = claim(id)?;
    let value = if claim.published_value.is_empty() {
        "no figure published".to_owned()
    } else {
        format!("published: {}", claim.published_value)
    };
    Some(format!(
        "{id} (source {}): {} ({value})",
        claim.source, claim.claim
    ))
}
