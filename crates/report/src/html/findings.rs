//! Sayings in full, folded by what became of them: those that do not hold, that hold, that are open, and that only
//! another machine can test. What a decided one opens to. Facts stand with their experiment.

use maud::{Markup, html as markup};
use threadgauge_results::published::named;
use threadgauge_results::{Claim, ExperimentResult, Finding, Results, Verdict, rule};

use super::text::{clean, coded, finding_id, section_id};
use crate::{sayings, words};

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It does not hold.
    NotHeld,
    /// It holds.
    Held,
    /// This run did not decide it: its figures do not, or it did not measure them.
    Open,
    /// No run on this machine as it is can decide it.
    Elsewhere,
}

impl Kind {
    const ALL: [Self; 4] = [Self::NotHeld, Self::Held, Self::Open, Self::Elsewhere];

    const fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::DoesNotHold => Self::NotHeld,
            Verdict::Holds => Self::Held,
            Verdict::Inconclusive | Verdict::NotMeasured => Self::Open,
            Verdict::NotTestable => Self::Elsewhere,
        }
    }

    /// The anchor of its list.
    pub const fn id(self) -> &'static str {
        match self {
            Self::NotHeld => "not-held",
            Self::Held => "held",
            Self::Open => "open",
            Self::Elsewhere => "elsewhere",
        }
    }

    /// What so many sayings do.
    pub const fn says(self, n: usize) -> &'static str {
        match (self, n) {
            (Self::NotHeld, 1) => "does not hold",
            (Self::NotHeld, _) => "do not hold",
            (Self::Held, 1) => "holds",
            (Self::Held, _) => "hold",
            (Self::Open, 1) => "is open",
            (Self::Open, _) => "are open",
            (Self::Elsewhere, _) => "to be tested elsewhere",
        }
    }
}

/// How many claims are of each kind, where there are any.
pub(super) fn counts(results: &Results) -> Vec<(Kind, usize)> {
    let verdicts = || {
        results
            .experiments
            .iter()
            .flat_map(|e| &e.findings)
            .filter_map(|f| f.verdict)
    };
    let of = |kind| {
        (
            kind,
            verdicts().filter(|verdict| Kind::of(*verdict) == kind).count(),
        )
    };
    Kind::ALL.into_iter().map(of).filter(|(_, n)| *n > 0).collect()
}

/// Every finding, each kind in a fold of its own.
pub(super) fn section(results: &Results) -> Markup {
    markup! {
        section #findings aria-labelledby="findings-h" {
            h2 #findings-h { "What held and what did not" }
            @for (kind, n) in counts(results) {
                details id=(kind.id()) {
                    summary { (n) " " (words::plural(n, "saying ", "sayings ")) (kind.says(n)) }
                    @match kind {
                        Kind::NotHeld => (decided(results, Verdict::DoesNotHold)),
                        Kind::Held => (decided(results, Verdict::Holds)),
                        Kind::Open | Kind::Elsewhere => {
                            @for e in &results.experiments {
                                (of(e, |f| f.verdict.is_some_and(|verdict| Kind::of(verdict) == kind)))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The claims with this verdict, each in a line.
fn decided(results: &Results, verdict: Verdict) -> Markup {
    let decided = words::decided(results)
        .into_iter()
        .filter(|(_, of, _)| *of == verdict);
    markup! { ul.held { @for (claim, verdict, finding) in decided { (held(claim, verdict, finding)) } } }
}

/// A claim in a line, which opens to all that is known of it.
fn held(claim: &Claim, verdict: Verdict, finding: &Finding) -> Markup {
    let told = sayings::told(claim, finding);
    let asks = told
        .as_ref()
        .map_or_else(|| rule(claim), |told| told.rule.clone());
    markup! {
        li id=(finding_id(&claim.id)) class=(verdict.key()) {
            details {
                summary {
                    span.sign aria-hidden="true" { (words::sign(verdict)) }
                    span.what {
                        span.unseen { (words::word(verdict)) ": " }
                        (clean(&claim.claim))
                    }
                    span.ours {
                        "here " b { (told.map(|told| told.line()).unwrap_or_default()) }
                        (words::noise(finding)) ", the rule: " (asks)
                        @if let Some(why) = words::why(claim, finding) { "; but " (clean(why)) }
                    }
                }
                (body(finding))
            }
        }
    }
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
        li id=[f.claim.as_deref().map(finding_id)] class=[f.verdict.map(Verdict::key)] {
            div.verdict {
                @if let Some(v) = f.verdict { span.sign aria-hidden="true" { (words::sign(v)) } " " (words::word(v)) }
                @if f.recreated.is_some() { " (re-created)" }
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
    let ours = words::measured(f);
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
                            @if let Some(claim) = claim { (named(&claim.source)) ", " }
                            "claim " code { (clean(id)) }
                        }
                    }
                }
            }
        }
    }
}
