//! The first screen: sayings tested here, what things cost on one scale, what people ask first, and how many sayings
//! held. A run that decided fewer sayings than there is room for says its answers in their place.

use maud::{Markup, html as markup};
use threadgauge_results::{Results, Trust, Trusted};

use super::findings::{self, Kind};
use super::text::{clean, coded, finding_id, section_id};
use crate::costs::{self, Ladder, Rung};
use crate::questions::{self, Answered};
use crate::sayings::{self, Cards, Saying};
use crate::{short_answer, words};

/// All of it.
pub(super) fn screen(results: &Results) -> Markup {
    let ladder = costs::ladder(results);
    // In the order of a phone; where there is room beside, the style sheet puts the answers at the right.
    markup! {
        div.first.alone[ladder.is_none()] {
            (in_short(results))
            (cards(results))
            @if let Some(ladder) = &ladder { (latencies(ladder)) }
        }
    }
}

/// Whether this run can be trusted, in a few words that lead to the whole answer.
pub(super) fn trusted(results: &Results) -> Markup {
    let answer = Trust::of(results).answer;
    markup! {
        p.trust.doubtful[answer == Trusted::InPart].refused[answer == Trusted::No] {
            b { "Can this run be trusted? " (answer.word()) ": " } (clean(&Trust::briefly(results)))
            span.screen-only { "; " a href="#run" { "why" } }
        }
    }
}

/// The sayings and, where there are fewer than there is room for, what the run's experiments answer.
fn cards(results: &Results) -> Markup {
    let cards = Cards::of(results);
    let Cards { sayings, answers } = &cards;
    markup! {
        @if sayings.len() + answers.len() > 0 {
            section #sayings aria-labelledby="sayings-h" {
                h2 #sayings-h { (cards.title()) }
                ul.cards.few[sayings.len() + answers.len() < 4] {
                    @for saying in sayings { (card(saying)) }
                    @for e in answers {
                        li.card.told {
                            p.saying { (clean(&e.question)) }
                            p.said { (coded(&short_answer(e))) }
                            p.by { a href=(format!("#{}", section_id(&e.id))) { (clean(&e.id)) } }
                        }
                    }
                }
            }
        }
    }
}

/// A saying: its words, who said it and when, the figure that decides it, and the verdict.
fn card(of: &Saying<'_>) -> Markup {
    let Saying {
        claim,
        verdict,
        finding,
    } = of;
    markup! {
        li class=(format!("card {}", verdict.key())) {
            p.verdict { span.sign aria-hidden="true" { (words::sign(*verdict)) } " " (words::word(*verdict)) }
            p.saying { a href=(format!("#{}", finding_id(&claim.id))) { (clean(&of.words())) } }
            p.by { (clean(&sayings::who(claim))) }
            @if let Some(told) = sayings::told(claim, finding) {
                p.figure { b { (told.figure) } " " span.between { (told.interval) } }
                p.of { span { (clean(&told.of)) (words::noise(finding)) } span.asks { " needs " (told.rule) } }
            }
        }
    }
}

/// What things cost, on one scale.
fn latencies(ladder: &Ladder<'_>) -> Markup {
    markup! {
        section #costs aria-labelledby="costs-h" {
            h2 #costs-h { "What things cost here" }
            p.key aria-hidden="true" { i.mark {} " measured here, " i.ring {} " published, of other machines" }
            table.costs.ladder {
                caption.unseen { "What things take on this machine, with their intervals, among published times" }
                colgroup { col style="width:49%"; col style="width:25%"; col style="width:26%"; }
                thead.unseen { tr { th scope="col" { "what" } td {} th scope="col" { "time" } } }
                tbody {
                    @for rung in &ladder.rungs { (time(rung)) }
                    tr.ticks aria-hidden="true" {
                        td {}
                        td { div.lane { @for (at, label) in &ladder.ticks { span style=(left(*at)) { (label) } } } }
                        td {}
                    }
                }
            }
        }
    }
}

fn time(rung: &Rung<'_>) -> Markup {
    let [low, at, high] = rung.places;
    markup! {
        tr.elsewhere[!rung.is_measured] {
            th scope="row" {
                (clean(rung.name))
                @match (rung.is_measured, rung.published) {
                    (true, Some(published)) => span.published { "published: " (clean(published)) },
                    (false, Some(who)) => span.who { " (" (clean(who)) ")" },
                    (_, None) => {}
                }
            }
            td aria-hidden="true" {
                div.lane {
                    @if let Some(at) = rung.published_place { i.ring style=(left(at)) {} }
                    @if rung.is_measured {
                        i.range style=(format!("{};width:{:.2}%", left(low), (high - low) * 100.0)) {}
                        i.mark style=(left(at)) {}
                    }
                }
            }
            td.n { (rung.figure) @if !rung.interval.is_empty() { " " span.between { (rung.interval) } } }
        }
    }
}

fn left(place: f64) -> String {
    format!("left:{:.2}%", place * 100.0)
}

/// The sayings that an answer names, each with a link, and how many more there are.
fn named(of: &Answered) -> Markup {
    markup! {
        @for (i, claim) in of.sayings.iter().enumerate() {
            @if i > 0 { ", " }
            "“" a href=(format!("#{}", finding_id(&claim.id))) { (clean(&claim.short)) } "”"
        }
        @if of.more > 0 { "; and " a href=(format!("#{}", Kind::NotHeld.id())) { (of.more) " more" } }
        @if !of.sayings.is_empty() { "." }
    }
}

/// What people ask first, and how many sayings held, with links to them.
fn in_short(results: &Results) -> Markup {
    let asked = questions::asked(results);
    let (told, not): (Vec<&Answered>, Vec<&Answered>) = asked.iter().partition(|of| of.answer.is_some());
    let mut missing: Vec<&str> = not.iter().filter_map(|of| of.experiment).collect();
    missing.dedup();
    let counts = findings::counts(results);
    markup! {
        section #short aria-labelledby="short-h" {
            h2 #short-h { "In short" }
            dl.short {
                @for of in told {
                    div {
                        dt { (of.question) } " "
                        dd { (coded(of.answer.as_deref().unwrap_or_default())) (named(of)) }
                    }
                }
                @if !not.is_empty() {
                    div {
                        dt { "Not measured in this run:" } " "
                        dd {
                            @for of in &not { (of.question) " " }
                            @if !missing.is_empty() { code { "threadgauge run " (missing.join(" ")) } " measures that." }
                        }
                    }
                }
            }
            @if !counts.is_empty() {
                p.counts {
                    @for (kind, n) in counts { a href=(format!("#{}", kind.id())) { b { (n) } " " (kind.says(n)) } " " }
                }
            }
        }
    }
}
