//! One experiment in words: what it measures, how, and what the sources published.

use std::fmt::Write as _;

use threadgauge_experiments::CATALOGUE;
use threadgauge_lab::selection::experiment;
use threadgauge_results::{Claim, claims_of};

use crate::output::{Done, Verdict, print_words};

/// Prints it.
pub fn explain(id: &str) -> Done {
    let about = experiment(CATALOGUE, id)?.about();
    let mut text = String::new();
    let _ = writeln!(text, "{}: {}\n", about.id, about.question);
    section(&mut text, "How", about.how);
    section(&mut text, "Control", about.control);
    section(&mut text, "Traps", &about.traps.join("\n"));
    section(&mut text, "The sources, and where this differs", about.source);
    let primary: Vec<&str> = about.primary.iter().map(|m| m.name).collect();
    section(&mut text, "Metrics that decide", &primary.join(", "));
    let claims: Vec<String> = claims_of(about.id).map(published).collect();
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
        format!("published: {}", claim.published_value)
    };
    format!(
        "{} (source {}): {} ({value})",
        claim.id, claim.source, claim.claim
    )
}
