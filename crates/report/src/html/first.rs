//! The first screen: what things cost here, what held and what did not, and whether to believe it.

use maud::{Markup, html as markup};
use threadgauge_results::{Claim, Finding, Results, Trust, Trusted, Verdict, rule};

use super::findings;
use super::text::{clean, finding_id};
use crate::costs::{self, Group, Row};
use crate::words;

/// Both lists, side by side where there is room.
pub(super) fn screen(results: &Results) -> Markup {
    markup! {
        div.first {
            (what_things_cost(results))
            section #findings aria-labelledby="findings-h" {
                h2 #findings-h { "What held and what did not" }
                (what_held(results))
                (findings::undecided(results))
                (findings::facts(results))
            }
        }
    }
}

/// Whether this run can be trusted.
pub(super) fn trusted(results: &Results) -> Markup {
    let Trust { answer, says } = Trust::of(results);
    markup! {
        p.trust.doubtful[answer == Trusted::InPart].refused[answer == Trusted::No] {
            b { "Can this run be trusted? " (answer.word()) ": " } (clean(&says))
        }
    }
}

fn what_things_cost(results: &Results) -> Markup {
    let groups = costs::listed(results);
    markup! {
        section #costs aria-labelledby="costs-h" {
            h2 #costs-h { "What things cost here" }
            @if groups.is_empty() {
                p.nodata { "This run measured nothing that belongs here; `threadgauge run` without arguments does." }
            } @else {
                table.costs {
                    caption.unseen { "What things cost on this machine: medians with their intervals" }
                    colgroup { col style="width:35%"; col style="width:39%"; col style="width:26%"; }
                    thead.unseen { tr { th scope="col" { "what" } th scope="col" { "figure" } td {} } }
                    @for group in &groups { (scale(group)) }
                }
            }
        }
    }
}

/// Costs on one scale, and the scale below them.
fn scale(group: &Group<'_>) -> Markup {
    markup! {
        tbody {
            @for row in &group.rows { (cost(row)) }
            @if !group.ticks.is_empty() {
                tr.ticks aria-hidden="true" {
                    td {} td {}
                    td { div.lane { @for (at, label) in &group.ticks { span style=(left(*at)) { (label) } } } }
                }
            }
        }
    }
}

fn cost(row: &Row<'_>) -> Markup {
    markup! {
        tr {
            th scope="row" {
                (clean(row.name))
                @if let Some(published) = &row.cost.published { span.published { "published: " (clean(published)) } }
            }
            td.n { (row.figure) }
            td aria-hidden="true" {
                @if let Some([low, at, high]) = row.places {
                    div.lane {
                        i.range style=(format!("{};width:{:.2}%", left(low), (high - low) * 100.0)) {}
                        i.mark style=(left(at)) {}
                    }
                }
            }
        }
    }
}

fn left(place: f64) -> String {
    format!("left:{:.2}%", place * 100.0)
}

fn what_held(results: &Results) -> Markup {
    let decided = words::decided(results);
    markup! {
        @if decided.is_empty() {
            p { "No claim is decided by this run." }
        } @else {
            ul.held { @for (claim, verdict, finding) in decided { (held(claim, verdict, finding)) } }
        }
    }
}

/// A claim in a line, which opens to all that is known of it.
fn held(claim: &Claim, verdict: Verdict, finding: &Finding) -> Markup {
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
                        "here " b { (words::measured(finding).unwrap_or_default()) }
                        (words::noise(finding)) ", the rule: " (rule(claim))
                        @if let Some(why) = words::why(claim, finding) { "; but " (clean(why)) }
                    }
                }
                (findings::body(finding))
            }
        }
    }
}
