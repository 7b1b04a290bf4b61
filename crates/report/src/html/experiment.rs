//! One experiment: its question, the sentence that answers it, one number and one picture; everything else folded.

use maud::{Markup, html as markup};
use threadgauge_results::published::named;
use threadgauge_results::{ExperimentResult, Figure, KeyNumber, units};

use super::text::{clean, coded, finding_id, section_id};
use super::{cases, figure, raw, table};
use crate::cases::Cases;
use crate::lead::Lead;
use crate::{SampleRow, chart, sayings, short_answer, words};

/// The section of one experiment. Its question is left out where it is the page's `headline`. Where the page begins
/// with what experiments answer, their tables are open, too.
pub(super) fn section(e: &ExperimentResult, samples: &[SampleRow<'_>], lead: Lead, headline: &str) -> Markup {
    let id = section_id(&e.id);
    let leads = lead == Lead::Answers;
    let picture = e.figures.iter().find(|f| is_drawn(f)).or(e.figures.first());
    let short = short_answer(e);
    markup! {
        section.experiment.leads[leads] id=(id) aria-labelledby=(format!("{id}-h")) {
            h2 id=(format!("{id}-h")) { (clean(&e.id)) }
            div.brief {
                div.said {
                    @if e.question != headline { p.question { (clean(&e.question)) } }
                    @if !short.is_empty() { p.answer { (coded(&short)) "." } }
                    @if !e.advice.is_empty() { p.advice { (coded(&e.advice)) } }
                    @if let Some(number) = &e.number { (key_number(number)) }
                }
                @if let Some(f) = picture { (figure::figure(e, f)) }
            }
            @if leads { @for t in &e.tables { (table::of_experiment(e, t)) } }
            (rest(e, samples, lead, picture))
        }
    }
}

fn is_drawn(figure: &Figure) -> bool {
    figure.series.iter().any(|series| !series.points.is_empty()) && chart::alike(figure).is_none()
}

/// The number that stands for the answer, large.
fn key_number(number: &KeyNumber) -> Markup {
    let (figure, interval) = sayings::in_unit(&number.unit, number.value, number.ci95);
    markup! {
        p.number {
            b { (clean(&figure)) }
            @if !interval.is_empty() { " " span.between { (interval) } }
            " " span.of { (clean(&number.of)) }
        }
    }
}

/// All that is not shown at first, in one fold of several.
fn rest(e: &ExperimentResult, samples: &[SampleRow<'_>], lead: Lead, picture: Option<&Figure>) -> Markup {
    let id = section_id(&e.id);
    let columns = Cases::of(e);
    let part = |suffix: &str, name: &str, body: Markup| {
        markup! { details.part { summary { h4 id=(format!("{id}-{suffix}")) { (name) } } (body) } }
    };
    let more: Vec<&Figure> = e
        .figures
        .iter()
        .filter(|f| !picture.is_some_and(|shown| std::ptr::eq(*f, shown)))
        .collect();
    let tables: &[_] = if lead == Lead::Answers { &[] } else { &e.tables };
    let counted = |n: usize, one, many| (n > 0).then(|| format!("{n} {}", words::plural(n, one, many)));
    let holds = [
        counted(more.len(), "more chart", "more charts"),
        counted(tables.len(), "table", "tables"),
        counted(e.findings.len(), "finding", "findings"),
        counted(e.cases.len(), "case", "cases"),
        Some("method and doubts".to_owned()),
    ];
    let holds: Vec<String> = holds.into_iter().flatten().collect();
    let is_longer = e.answer.trim_end_matches('.').len() > short_answer(e).len();
    markup! {
        details.everything {
            summary { h3 id=(format!("{id}-all")) { "Everything else: " (holds.join(", ")) } }
            @if is_longer { h4 { "The answer in full" } p { (coded(&e.answer)) } }
            (found(e))
            @if !more.is_empty() { (part("charts", "More charts", markup! { @for f in more { (figure::figure(e, f)) } })) }
            @if !tables.is_empty() {
                (part("source", "Tables", markup! { @for t in tables { (table::of_experiment(e, t)) } }))
            }
            (part("cases", &words::case_counts(e), markup! { (missing(e)) (cases::table(e, &columns)) }))
            @if !e.rankings.is_empty() || !e.comparisons.is_empty() {
                (part("compared", "Compared", markup! {
                    @for (i, r) in e.rankings.iter().enumerate() { (cases::ranking(e, &columns, r, i)) }
                    (cases::comparisons(e, &columns))
                }))
            }
            (part("method", "Method and doubts", markup! { (setting(e)) (method(e)) (diagnostics(e)) }))
            (raw::section(e, &columns, samples))
        }
    }
}

/// What was found: sayings, each with a link to its line, and facts.
fn found(e: &ExperimentResult) -> Markup {
    let sayings = words::in_order(&e.findings).into_iter().filter_map(|finding| {
        let claim = threadgauge_results::claim(finding.claim.as_deref()?)?;
        Some((claim, finding.verdict?))
    });
    let facts = e.findings.iter().filter(|finding| finding.verdict.is_none());
    markup! {
        @if !e.findings.is_empty() {
            h4 { "What was found" }
            ul.found {
                @for (claim, verdict) in sayings {
                    li class=(verdict.key()) {
                        span.sign aria-hidden="true" { (words::sign(verdict)) } " "
                        a href=(format!("#{}", finding_id(&claim.id))) { (clean(&claim.claim)) } " " (words::word(verdict))
                    }
                }
                @for fact in facts { li { span.sign aria-hidden="true" { "•" } " " (coded(&fact.says)) } }
            }
        }
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
                        li { (n) " " (words::plural(*n, "case: ", "cases: ")) (coded(reason)) }
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
            dt { "How" } dd { (coded(&m.how)) }
            dt { "Control" } dd { (coded(&m.control)) }
            @if !m.traps.is_empty() {
                dt { "Traps" } dd { ul { @for trap in &m.traps { li { (coded(trap)) } } } }
            }
            dt { "The source" } dd { (coded(&m.source)) }
        }
    }
}

fn diagnostics(e: &ExperimentResult) -> Markup {
    markup! {
        @if !e.diagnostics.is_empty() {
            h5 { "What the protocol says of its own figures" }
            ul.diagnostics {
                @for d in &e.diagnostics {
                    li class=[d.warning.then_some("warn")] {
                        span.sign aria-hidden="true" { @if d.warning { "!" } @else { "·" } }
                        b { @if d.warning { "Warning, " } (clean(&d.name)) ": " } (coded(&d.says))
                    }
                }
            }
        }
    }
}
