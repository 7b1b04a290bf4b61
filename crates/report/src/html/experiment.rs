//! One experiment: question, answer, charts, tables, method, doubts, raw samples.

use maud::{Markup, html as markup};
use threadgauge_results::{ExperimentResult, Table, units};

use super::cases::Head;
use super::text::{clean, section_id, slug};
use super::{cases, figure, raw};
use crate::cases::Cases;
use crate::{SampleRow, words};

/// The parts an experiment has, as suffix of the anchor and name.
pub(super) fn parts(e: &ExperimentResult) -> Vec<(&'static str, &'static str)> {
    let mut parts = Vec::new();
    if !e.figures.is_empty() {
        parts.push(("charts", "Charts"));
    }
    if !e.tables.is_empty() {
        parts.push(("source", "Tables"));
    }
    parts.push(("cases", "Cases"));
    if !e.rankings.is_empty() || !e.comparisons.is_empty() {
        parts.push(("compared", "Compared"));
    }
    parts.push(("method", "Method and doubts"));
    parts.push(("samples", "Raw samples"));
    parts
}

/// The section of one experiment.
pub(super) fn section(e: &ExperimentResult, samples: &[SampleRow<'_>]) -> Markup {
    let id = section_id(&e.id);
    let columns = Cases::of(e);
    let discarded = units::count(e.discarded as usize);
    let part = |suffix: &str, name: &str| markup! { h3 id=(format!("{id}-{suffix}")) { (name) } };
    markup! {
        section.experiment id=(id) aria-labelledby=(format!("{id}-h")) {
            h2 id=(format!("{id}-h")) { (clean(&e.id)) }
            p.question { (clean(&e.question)) }
            @if !e.answer.is_empty() { p.answer { (clean(&e.answer)) } }
            p.small {
                @if !e.sources.is_empty() { "Re-tests " (words::plural(e.sources.len(), "source ", "sources ")) (clean(&e.sources.join(", "))) ". " }
                (words::case_counts(e)) ", " (e.rounds) " " (words::plural(e.rounds as usize, "round", "rounds"))
                "; measuring ended because " (clean(&words::stopped(&e.stopped_because))) ". "
                (discarded) " " (words::plural(e.discarded as usize, "sample was", "samples were")) " discarded and repeated by the rules set beforehand."
            }
            @for (suffix, name) in parts(e) {
                (part(suffix, name))
                @match suffix {
                    "charts" => { @for f in &e.figures { (figure::figure(e, f)) } },
                    "source" => { @for t in &e.tables { (source_table(e, t)) } },
                    "cases" => { (missing(e)) (cases::table(e, &columns)) },
                    "compared" => {
                        @for (i, r) in e.rankings.iter().enumerate() { (cases::ranking(e, &columns, r, i)) }
                        (cases::comparisons(e, &columns))
                    },
                    "method" => { (method(e)) (diagnostics(e)) },
                    _ => { (raw::section(e, &columns, samples)) },
                }
            }
        }
    }
}

/// Why cases have no figures, before the table in which they are easily overlooked.
fn missing(e: &ExperimentResult) -> Markup {
    let reasons = words::reasons(e);
    markup! {
        @if !reasons.is_empty() {
            div.note {
                p { "Cases without figures:" }
                ul {
                    @for (reason, n) in reasons.iter().take(8) {
                        li { (n) " " (words::plural(*n, "case: ", "cases: ")) (clean(reason)) }
                    }
                    @if reasons.len() > 8 { li { "and " (reasons.len() - 8) " more reasons: see the table" } }
                }
            }
        }
    }
}

fn method(e: &ExperimentResult) -> Markup {
    let m = &e.method;
    markup! {
        dl.method {
            dt { "How" } dd { (clean(&m.how)) }
            dt { "Control" } dd { (clean(&m.control)) }
            @if !m.traps.is_empty() {
                dt { "Traps" } dd { ul { @for trap in &m.traps { li { (clean(trap)) } } } }
            }
            dt { "The source" } dd { (clean(&m.source)) }
        }
    }
}

fn diagnostics(e: &ExperimentResult) -> Markup {
    markup! {
        @if !e.diagnostics.is_empty() {
            h4 { "What the protocol says of its own figures" }
            ul.diagnostics {
                @for d in &e.diagnostics {
                    li class=[d.warning.then_some("warn")] {
                        span.sign aria-hidden="true" { @if d.warning { "!" } @else { "·" } }
                        b { @if d.warning { "Warning, " } (clean(&d.name)) ": " } (clean(&d.says))
                    }
                }
            }
        }
    }
}

fn source_table(e: &ExperimentResult, table: &Table) -> Markup {
    let id = format!("{}-t-{}", section_id(&e.id), slug(&table.id));
    let caption = markup! {
        (clean(&table.title))
        @if !table.note.is_empty() { span.note { (clean(&table.note)) } }
    };
    let heads: Vec<Head> = table.columns.iter().map(|c| Head::words(c)).collect();
    let rows = table.rows.iter().map(|row| {
        markup! {
            tr {
                @for (i, cell) in row.iter().enumerate() {
                    @if i == 0 { th scope="row" { (clean(cell)) } } @else { td { (clean(cell)) } }
                }
            }
        }
    });
    cases::folding(&id, &table.title, &caption, &heads, rows.collect())
}
