//! What a terminal shows: the run in a screen, an experiment, its findings in full, the claims.
//!
//! Returns text; whoever calls it writes it and copes with a closed pipe. Fits down to 40 columns.
//! Beside it: [`screen`] is what a run ends with, [`text`] wraps and colours, [`grid`] lays out cases, [`rows`] tables.

mod beside;
mod grid;
mod rows;
mod screen;
pub(crate) mod text;

use std::fmt::Write as _;

use threadgauge_results::units::counted;
use threadgauge_results::{ExperimentResult, Finding, Results, Verdict};

use crate::lead::Lead;
use crate::words;
pub use beside::{ClaimColumns, Said, claims_beside};
pub use screen::{short_answer, terminal_screen};
use text::{Ink, clean, paint, painted, paragraph};
pub use text::{Style, fitted};

/// One claim, as `threadgauge claims` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRow {
    /// The claim's id.
    pub id: String,
    /// The document that makes it, by its name.
    pub source: String,
    /// In its words.
    pub claim: String,
    /// What is looked at, and the values at which the claim holds.
    pub rule: String,
    /// A verdict as in `results.json` (`holds`, …), or `planned`, or `not run`.
    pub state: String,
    /// Our figure, as text.
    pub measured: Option<String>,
    /// The source's figure, as text.
    pub published: Option<String>,
    /// Why it is inconclusive, not testable or not run.
    pub reason: Option<String>,
    /// What to know before quoting what was published.
    pub note: Option<String>,
}

/// One experiment: question, answer, table of cases, doubts. What it finds is the summary's.
#[must_use]
pub fn terminal(experiment: &ExperimentResult, style: &Style) -> String {
    let e = experiment;
    let mut out = paint(style, Ink::Bold, &clean(&e.id));
    out.push('\n');
    out.push_str(&paragraph(&e.question, style.width, "  "));
    if !e.answer.is_empty() {
        out.push_str(&paragraph(&e.answer, style.width, "  → "));
    }
    out.push('\n');
    out.push_str(&grid::cases(e, style));
    for d in e.diagnostics.iter().filter(|d| d.warning) {
        let says = format!("{}: {}", d.name, d.says);
        out.push_str(&painted(style, Ink::Doubt, &says, "  ! "));
    }
    out
}

/// Every finding: warnings first, then how the claims fared, then the findings in plain words. Answers stand with the
/// tables of [`terminal`].
#[must_use]
pub fn terminal_summary(results: &Results, style: &Style) -> String {
    let mut out = String::new();
    for warning in &results.warnings {
        out.push_str(&painted(style, Ink::Doubt, warning, "! "));
    }
    if !results.run.complete {
        out.push_str(&paragraph(
            "This run is not complete: planned rounds are missing.",
            style.width,
            "! ",
        ));
    }
    let tally = words::tally(results.experiments.iter().flat_map(|e| &e.findings));
    // That answers have no findings is as it should be.
    if Lead::of(results) == Lead::CostsAndClaims || tally.1 > 0 {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&paragraph(&words::tally_line(tally), style.width, ""));
    }
    for e in results.experiments.iter().filter(|e| !e.findings.is_empty()) {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{gap}{}", paint(style, Ink::Bold, &clean(&e.id)));
        for f in words::in_order(&e.findings) {
            out.push_str(&finding(f, style));
        }
    }
    out
}

fn finding(f: &Finding, style: &Style) -> String {
    let (sign, word, ink) = match f.verdict {
        Some(v) => (words::sign(v), words::word(v), ink(v)),
        None => ("•", "fact", Ink::Faint),
    };
    let mut body = clean(&words::statement(f));
    if let Some(published) = words::published(f) {
        let _ = write!(body, " (published {published})");
    }
    if let Some(reason) = &f.reason {
        let _ = write!(body, " Why: {}.", reason.trim_end_matches('.'));
    }
    let lines = text::wrap(&format!("{word}: {body}"), style.width, &format!("  {sign} "));
    let mut out = lines.join("\n");
    // The verdict leads the first line, so that painting it there changes no width.
    if style.colour {
        out = out.replacen(
            &format!("{sign} {word}:"),
            &paint(style, ink, &format!("{sign} {word}:")),
            1,
        );
    }
    out.push('\n');
    out
}

const fn ink(verdict: Verdict) -> Ink {
    match verdict {
        Verdict::Holds => Ink::Good,
        Verdict::DoesNotHold => Ink::Bad,
        Verdict::Inconclusive => Ink::Doubt,
        Verdict::NotMeasured | Verdict::NotTestable => Ink::Faint,
    }
}

/// Every claim and what this machine says of it.
#[must_use]
pub fn claims_table(rows: &[ClaimRow], style: &Style) -> String {
    let mut out: String = rows.iter().map(|row| claim(row, style)).collect();
    let known = |v: Verdict| rows.iter().filter(|r| r.state == v.key()).count();
    let (held, not_held) = (known(Verdict::Holds), known(Verdict::DoesNotHold));
    let elsewhere = known(Verdict::NotTestable);
    let of_others = rows.iter().filter(|row| verdict(row).is_none()).count();
    let totals = format!(
        "{}: ✓ {held} held · ✗ {not_held} not held · ? {} open · – {elsewhere} elsewhere{}",
        counted(rows.len(), "claim"),
        rows.len() - held - not_held - elsewhere - of_others,
        match of_others {
            0 => String::new(),
            others => format!(" · {others} not run"),
        }
    );
    out.push('\n');
    out.push_str(&paragraph(&totals, style.width, ""));
    out.push_str(&paragraph(HOW_DECIDED, style.width, ""));
    out
}

/// By what a claim stands where it does.
const HOW_DECIDED: &str = "A claim holds where the whole 95 % interval of its figure is within its rule, and does not hold \
    where all of it is outside; it is open where neither is so or nothing was measured, elsewhere where this machine \
    cannot test it, and not run where its experiment was not.";

/// A claim beside its state; below it where there is no room beside.
fn claim(row: &ClaimRow, style: &Style) -> String {
    let (state, ink) = state(row);
    let indent = if style.width < 64 { 2 } else { STATE };
    let mut figures = Vec::new();
    figures.extend(row.measured.as_ref().map(|m| format!("here {m}")));
    figures.extend(row.published.as_ref().map(|p| format!("published {p}")));
    let mut lines = vec![
        row.claim.clone(),
        figures.join(" · "),
        format!("Rule: {}", row.rule),
    ];
    lines.extend(row.reason.as_ref().map(|r| format!("Why: {r}")));
    lines.extend(row.note.as_ref().map(|n| format!("Before quoting: {n}")));
    lines.push(format!("{}: {}", row.source, row.id));
    let indent = " ".repeat(indent);
    let body = lines
        .iter()
        .filter(|l| !l.is_empty())
        .map(|l| paragraph(l, style.width, &indent));
    let body: String = body.collect();
    if state.chars().count() < indent.len() {
        // Painted last, so that its width is that of its characters.
        let pad = " ".repeat(indent.len() - state.chars().count());
        format!(
            "{}{pad}{}",
            paint(style, ink, &state),
            body.strip_prefix(&indent).unwrap_or(&body)
        )
    } else {
        format!("{}\n{body}", paint(style, ink, state.trim_start()))
    }
}

/// The width of the longest verdict and the space after it.
const STATE: usize = 18;

/// The verdict a claim's state stands for, if it is one.
fn verdict(row: &ClaimRow) -> Option<Verdict> {
    words::VERDICTS.into_iter().find(|v| v.key() == row.state)
}

fn state(row: &ClaimRow) -> (String, Ink) {
    match verdict(row) {
        Some(v) => (format!("{} {}", words::sign(v), words::word(v)), ink(v)),
        None => (format!("  {}", clean(&row.state)), Ink::Faint),
    }
}
