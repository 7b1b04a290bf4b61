//! Findings in full: the claims that are not decided and the facts, folded; what a decided one opens to.

use maud::{Markup, html as markup};
use threadgauge_results::{ExperimentResult, Finding, Results, Verdict};

use super::text::{clean, coded, finding_id, section_id};
use crate::lead::Lead;
use crate::words;

/// The claims that are not decided, in one folded line with their counts.
pub(super) fn undecided(results: &Results) -> Markup {
    let (counts, _) = words::tally(results.experiments.iter().flat_map(|e| &e.findings));
    let counts: Vec<(Verdict, usize)> = (words::VERDICTS.into_iter().zip(counts))
        .filter(|(verdict, n)| *n > 0 && is_open(*verdict))
        .collect();
    markup! {
        @if !counts.is_empty() {
            details.open-claims {
                summary {
                    @for (i, (verdict, n)) in counts.iter().enumerate() {
                        @if i > 0 { ", " }
                        span.sign aria-hidden="true" { (words::sign(*verdict)) } " " (n) " " (words::plural_word(*verdict, *n))
                    }
                }
                @for e in &results.experiments { (of(e, |f| f.verdict.is_some_and(is_open))) }
            }
        }
    }
}

/// What was found beside the claims, or without any, folded.
pub(super) fn facts(results: &Results) -> Markup {
    let (_, facts) = words::tally(results.experiments.iter().flat_map(|e| &e.findings));
    markup! {
        @if facts > 0 {
            details {
                summary {
                    (facts) " " (words::plural(facts, "fact", "facts"))
                    @if Lead::of(results) == Lead::CostsAndClaims { " beside the claims" }
                }
                @for e in &results.experiments { (of(e, |f| f.verdict.is_none())) }
            }
        }
    }
}

const fn is_open(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Holds | Verdict::DoesNotHold)
}

/// An experiment's findings that `wanted` picks, under its name.
fn of(e: &ExperimentResult, wanted: impl Fn(&Finding) -> bool) -> Markup {
    let findings: Vec<&Finding> = words::in_order(&e.findings)
        .into_iter()
        .filter(|f| wanted(f))
        .collect();
    markup! {
        @if !findings.is_empty() {
            h3 { a href=(format!("#{}", section_id(&e.id))) { (clean(&e.id)) } }
            ul.findings { @for f in findings { (finding(f)) } }
        }
    }
}

fn finding(f: &Finding) -> Markup {
    let claim = f.claim.as_deref().and_then(threadgauge_results::claim);
    markup! {
        li id=[f.claim.as_deref().map(finding_id)] class=(f.verdict.map_or("fact", Verdict::key)) {
            div.verdict {
                @match f.verdict {
                    Some(v) => { span.sign aria-hidden="true" { (words::sign(v)) } " " (words::word(v)) }
                    None => { span.sign aria-hidden="true" { "•" } " fact" }
                }
            }
            div {
                @if let Some(claim) = claim { p.claim { (clean(&claim.claim)) } }
                (body(f))
            }
        }
    }
}

/// All that is known of a finding but the claim's own words.
pub(super) fn body(f: &Finding) -> Markup {
    let claim = f.claim.as_deref().and_then(threadgauge_results::claim);
    // A fact has its figure in its words.
    let ours = f.verdict.and_then(|_| words::measured(f));
    let theirs = words::published(f);
    markup! {
        div.body {
            p { (clean(&f.says)) }
            @if let Some(reason) = &f.reason { p.reason { "Why: " (coded(reason)) } }
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
