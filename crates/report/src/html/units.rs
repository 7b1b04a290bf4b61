//! *Threads and processes on this machine*: what a unit costs to make, switch, wake, hand over, keep and lose, by kind
//! and by runtime, and what this run says of the source's six aspects. [`mod@crate::by_kind`] decides what is in it.

use maud::{Markup, html as markup};
use threadgauge_results::published::dated;
use threadgauge_results::{Claim, Cost, Finding, Results, Verdict, rule, units};

use super::cases::{self, Head};
use super::figure;
use super::table;
use super::text::{clean, coded, finding_id, section_id};
use crate::by_kind::{ASPECTS, Answered, ByKind, Lacks, Row, TITLE, about_aspects};
use crate::words;

/// The section; nothing where the run has nothing for it.
pub(super) fn section(results: &Results) -> Markup {
    let Some(units) = ByKind::of(results) else {
        return markup! {};
    };
    markup! {
        section #units aria-labelledby="units-h" {
            h2 #units-h { (TITLE) }
            @if let Some(command) = units.command() {
                p { "Not all of it was measured in this run. " code { (clean(&command)) } " measures the rest." }
            }
            @if let Some(chart) = units.chart() { (figure::of_run(&chart, "units-f")) }
            (by_kind(&units))
            @if let Some(of) = units.by_runtime {
                h3 id=(table::run_id(of)) { (clean(&of.title)) }
                (table::by_runtime(results, of))
            }
            h3 #aspects { (ASPECTS) }
            p.small { (about_aspects()) }
            ol.aspects { @for of in &units.aspects { (aspect(of)) } }
        }
    }
}

/// Each act with the costs that compare kinds, or why there are none; the other costs folded.
fn by_kind(units: &ByKind<'_>) -> Markup {
    let mut seen: Vec<Markup> = Vec::new();
    let mut others: Vec<Markup> = Vec::new();
    for part in &units.parts {
        let (rows, more) = part.split();
        seen.extend(rows.into_iter().map(row));
        seen.extend(part.act.zip(part.lacks).map(|(act, lacks)| {
            markup! {
                tr { th scope="row" { (act.words()) } td.soft colspan=(units.kinds.len()) { (lacking(lacks)) } }
            }
        }));
        others.extend(more.into_iter().map(row));
    }
    let caption = markup! {
        "What a unit costs, by kind"
        span.note { "Medians with their intervals, how each was measured, and what was published of another machine." }
    };
    let more = markup! { "Other costs of units" };
    markup! {
        (cases::scrolling("units-table", "What a unit costs, by kind", &caption, &heads(units), &seen))
        @if !others.is_empty() {
            details {
                summary { (others.len()) " more, most of one kind alone" }
                (cases::scrolling("units-more", "Other costs of units", &more, &heads(units), &others))
            }
        }
    }
}

fn heads(units: &ByKind<'_>) -> Vec<Head> {
    let kinds = units.kinds.iter().map(|kind| Head::words(kind));
    std::iter::once(Head::words("what is paid for"))
        .chain(kinds)
        .collect()
}

fn row(row: &Row<'_>) -> Markup {
    markup! {
        tr {
            th scope="row" { a href=(format!("#{}", section_id(row.experiment))) { (clean(row.what)) } }
            @for cost in &row.costs { td { @match cost { Some(cost) => { (cell(cost)) }, None => { span.none { "–" } } } } }
        }
    }
}

fn cell(cost: &Cost) -> Markup {
    markup! {
        (units::with_unit(cost.value, cost.ci95, &cost.unit))
        div.soft { (clean(&cost.how)) }
        @if let Some(published) = &cost.published { div.soft { "published: " (clean(published)) } }
    }
}

fn aspect(of: &Answered<'_>) -> Markup {
    let says = of.aspect;
    markup! {
        li {
            h4 { (says.aspect) }
            p.small {
                b { "Processes: " } (says.process) ". " b { "Threads: " } (says.thread) ". "
                b { "In favour of: " } (says.favours) "."
            }
            @if !of.claims.is_empty() {
                ul.answers { @for (claim, told) in &of.claims { (answer(&says.source, claim, *told)) } }
            }
            @if !says.open.is_empty() { p.small { (says.open) } }
        }
    }
}

/// A claim and what this run says of it, with a link to the finding in full.
fn answer(source: &str, claim: &Claim, told: Result<&Finding, Lacks<'_>>) -> Markup {
    let verdict = told
        .ok()
        .and_then(|finding| finding.verdict)
        .unwrap_or(Verdict::NotMeasured);
    markup! {
        li class=(verdict.key()) {
            span.sign aria-hidden="true" { (words::sign(verdict)) }
            span {
                @if told.is_ok() { a href=(format!("#{}", finding_id(&claim.id))) { (clean(&claim.claim)) } }
                @else { (clean(&claim.claim)) }
            }
            span.ours {
                @match told {
                    Ok(finding) => {
                        (words::word(verdict)) ": "
                        @match words::measured(finding) {
                            Some(ours) => { "here " b { (clean(&ours)) } (words::noise(finding)) ", the rule: " (rule(claim)) },
                            None => { (coded(finding.reason.as_deref().unwrap_or("no figure"))) },
                        }
                    }
                    Err(lacks) => { (lacking(lacks)) }
                }
                @let published = &claim.published_value;
                @if !published.is_empty() { "; published: " (clean(published)) " (" (dated(&claim.source)) ")" }
                @else if claim.source != source { "; " (dated(&claim.source)) }
            }
        }
    }
}

fn lacking(lacks: Lacks<'_>) -> Markup {
    match lacks {
        Lacks::Figures(experiment) => {
            markup! { a href=(format!("#{}", section_id(experiment))) { (coded(&lacks.says())) } }
        }
        Lacks::Run(_) | Lacks::Experiment => coded(&lacks.says()),
    }
}
