//! One experiment: question, answer and its first charts; folded behind them more charts, tables, method, doubts, raw
//! samples.

use maud::{Markup, html as markup};
use threadgauge_results::published::named;
use threadgauge_results::{ExperimentResult, units};

use super::text::{clean, section_id};
use super::{cases, figure, raw, table};

use crate::cases::Cases;
use crate::{SampleRow, short_answer, words};

/// How much of an experiment is open as the page opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Question, answer, tables and so many of its charts; the rest is folded. For what the page begins with.
    Tables(usize),
    /// Question, answer and so many of its charts; the rest is folded.
    Charts(usize),
    /// One line: its name and answer.
    Line,
}

/// The section of one experiment. Its question is left out where it is the page's `headline`.
pub(super) fn section(
    e: &ExperimentResult,
    samples: &[SampleRow<'_>],
    opening: Opening,
    headline: &str,
) -> Markup {
    let id = section_id(&e.id);
    let head = markup! { h2 id=(format!("{id}-h")) { (clean(&e.id)) } };
    let asked = markup! { @if e.question != headline { p.question { (clean(&e.question)) } } };
    let answered = markup! { @if !e.answer.is_empty() { p.answer { (clean(&e.answer)) } } };
    let leads = matches!(opening, Opening::Tables(_));
    markup! {
        section.experiment.leads[leads] id=(id) aria-labelledby=(format!("{id}-h")) {
            @match opening {
                Opening::Tables(charts) => {
                    (head) (asked) (answered)
                    @for t in &e.tables { (table::of_experiment(e, t)) }
                    (parts(e, samples, charts, Tables::Shown))
                }
                Opening::Charts(charts) => {
                    (head) (asked) (answered)
                    (parts(e, samples, charts, Tables::Folded))
                }
                Opening::Line => {
                    details.line {
                        summary { (head) span.answer { (clean(&short_answer(e))) } }
                        (asked) (answered)
                        (parts(e, samples, e.figures.len(), Tables::Folded))
                    }
                }
            }
        }
    }
}

/// Where the tables of an experiment are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// Above its charts.
    Shown,
    /// Folded behind them.
    Folded,
}

/// The first charts, and all else folded.
fn parts(e: &ExperimentResult, samples: &[SampleRow<'_>], charts: usize, tables: Tables) -> Markup {
    let id = section_id(&e.id);
    let columns = Cases::of(e);
    let fold = |suffix: &str, name: &str, body: Markup| {
        markup! { details.part { summary { h3 id=(format!("{id}-{suffix}")) { (name) } } (body) } }
    };
    let (open, folded) = e.figures.split_at(charts.min(e.figures.len()));
    let more = format!(
        "{} more {}",
        folded.len(),
        words::plural(folded.len(), "chart", "charts")
    );
    markup! {
        @for f in open { (figure::figure(e, f)) }
        @if !folded.is_empty() { (fold("charts", &more, markup! { @for f in folded { (figure::figure(e, f)) } })) }
        @if !e.tables.is_empty() && tables == Tables::Folded {
            (fold("source", "Tables", markup! { @for t in &e.tables { (table::of_experiment(e, t)) } }))
        }
        (fold("cases", &words::case_counts(e), markup! { (missing(e)) (cases::table(e, &columns)) }))
        @if !e.rankings.is_empty() || !e.comparisons.is_empty() {
            (fold("compared", "Compared", markup! {
                @for (i, r) in e.rankings.iter().enumerate() { (cases::ranking(e, &columns, r, i)) }
                (cases::comparisons(e, &columns))
            }))
        }
        (fold("method", "Method and doubts", markup! { (setting(e)) (method(e)) (diagnostics(e)) }))
        (raw::section(e, &columns, samples))
    }
}

/// What it re-tests, how much was measured, and why it ended.
fn setting(e: &ExperimentResult) -> Markup {
    markup! {
        p.small {
            @if !e.sources.is_empty() { "Re-tests " (clean(&named(&e.sources.join("+")))) ". " }
            (e.rounds) " " (words::plural(e.rounds as usize, "round", "rounds"))
            "; measuring ended because " (clean(&words::stopped(&e.stopped_because))) ". "
            (units::count(e.discarded as usize)) " " (words::plural(e.discarded as usize, "sample was", "samples were"))
            " discarded and repeated by the rules set beforehand."
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
