//! One experiment in words: what it measures, how, and what the sources published.

use std::fmt::Write as _;

use threadgauge_experiments::runnable;
use threadgauge_lab::selection;
use threadgauge_lab::statistic::Metric;
use threadgauge_results::published::named;
use threadgauge_results::{Claim, claims_of};

use crate::output::{Done, Verdict, print_words};

/// Prints it.
pub fn explain(id: &str) -> Done {
    let experiment = selection::experiment(runnable(), id)?;
    let mut text = String::new();
    let _ = writeln!(text, "{}: {}\n", experiment.id, experiment.question);
    section(&mut text, "How", experiment.how);
    section(&mut text, "Control", experiment.control);
    section(&mut text, "Traps", &experiment.traps.join("\n"));
    section(
        &mut text,
        "The sources, and where this differs",
        experiment.source,
    );
    section(&mut text, "With values of your own", &experiment.calls.join("\n"));
    let metric = |m: &Metric| format!("{} ({})", m.name, m.unit);
    let primary: Vec<String> = experiment.primary.iter().map(metric).collect();
    section(&mut text, "Metrics that decide", &primary.join(", "));
    let claims: Vec<String> = claims_of(experiment.id).map(published).collect();
    section(
        &mut text,
        "Claims it decides, and what was published",
        &claims.join("\n"),
    );
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

fn published(claim: &Claim) -> String {
    let value = if claim.published_value.is_empty() {
        "no figure published".to_owned()
    } else {
        format!("published {}", claim.published_value)
    };
    let note = if claim.note.is_empty() {
        String::new()
    } else {
        format!("; before quoting: {}", claim.note)
    };
    format!(
        "{}\n  {}: {value}{note}\n  {}",
        claim.claim,
        named(&claim.source),
        claim.id
    )
}
