//! What was found, before everything else: verdicts on claims; the facts beside them, folded.

use maud::{Markup, html as markup};
use threadgauge_results::{ExperimentResult, Finding, Results, Verdict};

use super::text::{clean, section_id};
use crate::words;

/// The findings of all experiments, with their count.
pub(super) fn section(results: &Results) -> Markup {
    let tally = words::tally(results.experiments.iter().flat_map(|e| &e.findings));
    markup! {
        section #findings aria-labelledby="findings-h" {
            h2 #findings-h { "Findings" }
            (counts(tally))
            @for e in results.experiments.iter().filter(|e| e.findings.iter().any(|f| f.verdict.is_some())) { (of(e)) }
            @let facts = tally.1;
            @if facts > 0 {
                details open[tally.0 == [0; 5]] {
                    summary { (facts) " " (words::plural(facts, "fact", "facts")) " beside the claims" }
                    @for e in &results.experiments { (facts_of(e)) }
                }
            }
        }
    }
}

fn counts((counts, facts): ([usize; 5], usize)) -> Markup {
    markup! {
        ul.counts {
            @for (verdict, n) in words::VERDICTS.into_iter().zip(counts) {
                li class=(verdict.key()) {
                    span.sign aria-hidden="true" { (words::sign(verdict)) } " " b { (n) } " " (words::plural_word(verdict, n))
                }
            }
            @if facts > 0 { li { b { (facts) } " " (words::plural(facts, "fact", "facts")) } }
        }
    }
}

fn facts_of(e: &ExperimentResult) -> Markup {
    let facts: Vec<&Finding> = e.findings.iter().filter(|f| f.verdict.is_none()).collect();
    markup! {
        @if !facts.is_empty() {
            h3 { (clean(&e.id)) }
            ul.findings { @for f in facts { (finding(f)) } }
        }
    }
}

fn of(e: &ExperimentResult) -> Markup {
    let (later, first): (Vec<&Finding>, Vec<&Finding>) = words::in_order(&e.findings)
        .into_iter()
        .filter(|f| f.verdict.is_some())
        .partition(|f| f.verdict == Some(Verdict::NotTestable));
    markup! {
        h3 { a href=(format!("#{}", section_id(&e.id))) { (clean(&e.id)) } }
        @if !first.is_empty() { ul.findings { @for f in first { (finding(f)) } } }
        @if !later.is_empty() {
            details {
                summary {
                    (later.len()) " " (words::plural(later.len(), "claim", "claims")) " cannot be tested here, and why"
                }
                ul.findings { @for f in later { (finding(f)) } }
            }
        }
    }
}

fn finding(f: &Finding) -> Markup {
    let claim = f.claim.as_deref().and_then(threadgauge_results::claim);
    // A fact has its figure in its words.
    let ours = f.verdict.and_then(|_| words::measured(f));
    let theirs = words::published(f);
    markup! {
        li class=(f.verdict.map_or("fact", Verdict::key)) {
            div.verdict {
                @match f.verdict {
                    Some(v) => { span.sign aria-hidden="true" { (words::sign(v)) } " " (words::word(v)) }
                    None => { span.sign aria-hidden="true" { "•" } " fact" }
                }
            }
            div {
                @if let Some(claim) = claim { p.claim { (clean(&claim.claim)) } }
                p { (clean(&f.says)) }
                @if let Some(reason) = &f.reason { p.reason { "Why: " (clean(reason)) } }
                @if let Some(claim) = claim.filter(|claim| !claim.note.is_empty()) {
                    p.reason { "Before quoting: " (clean(&claim.note)) }
                }
                @if ours.is_some() || theirs.is_some() || f.claim.is_some() {
                    p.figures {
                        @if let Some(ours) = ours { span { "here " b { (clean(&ours)) } } }
                        @if let Some(theirs) = theirs { span { "published " b { (clean(&theirs)) } } }
                        @if let Some(id) = &f.claim {
                            span {
                                @if let Some(claim) = claim { "source " (claim.source) ", " }
                                "claim " code { (clean(id)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
