//! The page: one file that works from disk, in any light, on a phone and on paper, without a script.
//!
//! Owns the order of the page and its head. The parts are beside it: [`first`] (the first screen), [`findings`],
//! [`costs`], [`paper`] (what is printed beside the first screen), [`units`], [`experiment`], [`cases`] and
//! [`mod@table`] (the tables), [`figure`], [`raw`] (samples on demand).
//! The script opens raw samples, what a link leads to, and for `?print=all` the whole page, and saves a chart as a
//! picture; everything else is there without it. No network, no fonts, no frame.

mod cases;
mod compared;
mod costs;
mod experiment;
mod figure;
mod findings;
mod first;
pub(crate) mod history;
mod paper;
mod raw;
mod table;
mod text;
mod units;

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};
use threadgauge_results::units::counted;
use threadgauge_results::{Results, Table, Trust};

use crate::by_kind::{self, ByKind};
use crate::facts::{Fact, facts, headline};
use crate::lead::{self, Lead, NO_EXPERIMENT};
use crate::{SampleRow, glossary, with_unit, words};
pub use compared::{columns_html, comparison_html};
use text::{clean, coded, section_id};

const STYLE: &str = concat!(include_str!("html/colours.css"), include_str!("html/page.css"));
const SCRIPT: &str = concat!(include_str!("html/page.js"), include_str!("html/save.js"));

/// The whole report as one self-contained page: no network, no script needed to read it.
#[must_use]
pub fn html(results: &Results, samples: &[SampleRow<'_>]) -> String {
    let run = &results.run;
    let title = format!("threadgauge: {}", headline(&results.machine));
    let (lead, asked) = (Lead::of(results), lead::headline(results));
    let experiments = markup! {
        @if results.experiments.is_empty() { p.nodata { (NO_EXPERIMENT) } }
        @for e in &results.experiments { (experiment::section(e, samples, lead, asked)) }
    };
    let first = markup! { @if lead == Lead::CostsAndClaims { (first::screen(results)) } };
    let answers = paper::answers(results);
    let printed = format!("{}{}", first.0, answers.0);
    let tables: Vec<&Table> = results.tables.iter().collect();
    let body = markup! {
        (header(results))
        (warnings(results))
        @match lead {
            Lead::CostsAndClaims => {
                (first) (glossary::paragraph(&printed)) (answers) (findings::section(results)) (costs::section(results))
                (units::section(results)) (table::of_run(results, &by_kind::tables_beside(results))) (experiments) (machine(results))
            }
            Lead::Answers => { (glossary::paragraph(&printed)) (answers) (experiments) (table::of_run(results, &tables)) (machine(results)) }
        }
    };
    let (body, words) = glossary::linked(&body.into_string());
    let contents = contents(results, !words.is_empty());
    let main = markup! {
        (PreEscaped(body))
        (glossary::section(&words))
        (footer(results))
    };
    shell(&title, &run.version, &contents, &main, None)
}

/// A page that is no report, with a list of its parts: their anchors and names. On paper it is whole; of a report two
/// pages are.
fn page(title: &str, version: &str, parts: &[(String, String)], body: &Markup) -> String {
    let contents = markup! {
        nav.contents aria-label="Contents" {
            p.brand { "threadgauge" }
            ul { @for (anchor, name) in parts { li { a href=(format!("#{anchor}")) { (clean(name)) } } } }
        }
    };
    shell(title, version, &contents, body, Some("whole"))
}

/// What every page has: one file, no network.
fn shell(title: &str, version: &str, contents: &Markup, main: &Markup, class: Option<&str>) -> String {
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(clean(&format!("threadgauge {version}")));
                title { (clean(title)) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the report" }
                (contents)
                main id="main" class=[class] tabindex="-1" { (main) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn contents(results: &Results, has_words: bool) -> Markup {
    let units = ByKind::of(results).is_some();
    let lists = Lead::of(results) == Lead::CostsAndClaims;
    markup! {
        nav.contents aria-label="Contents" {
            p.brand { "threadgauge" }
            ul {
                @if lists {
                    li { a href="#short" { "In short" } }
                    li { a href="#findings" { "What held" } }
                    @if named_costs(results) { li { a href="#all-costs" { "What things cost" } } }
                }
                @if units { li { a href="#units" { "Threads and processes" } } }
                @for t in &results.tables { li { a href=(format!("#{}", table::run_id(t))) { (clean(&t.title)) } } }
                @for e in &results.experiments { li { a href=(format!("#{}", section_id(&e.id))) { (clean(&e.id)) } } }
                li { a href="#machine" { "This machine" } }
                @if has_words { li { a href="#words" { "Words" } } }
                li { a href="#run" { "About this run" } }
            }
        }
    }
}

/// Whether there is a list of costs.
fn named_costs(results: &Results) -> bool {
    !crate::costs::listed(results).is_empty()
}

fn header(results: &Results) -> Markup {
    let run = &results.run;
    markup! {
        header {
            h1 { (clean(lead::headline(results))) }
            div.run {
            p.lede {
                (clean(&headline(&results.machine))) "; "
                @if let Some(profile) = lead::profile(results) { b { (clean(profile)) } " run, " }
                (day(&run.started)) ", " (counted(run.rounds as usize, "round")) "."
            }
            (first::trusted(results))
            }
        }
    }
}

/// Every fact about the machine, folded.
fn machine(results: &Results) -> Markup {
    let facts = facts(&results.machine);
    let (main, rest): (Vec<_>, Vec<_>) = facts.into_iter().partition(|f| f.main);
    let unknown = main.iter().chain(&rest).filter(|f| !f.known).count();
    let all = main.len() + rest.len();
    markup! {
        section #machine aria-labelledby="machine-h" {
            @if all == 0 {
                h2 #machine-h { "This machine" }
                p { "The results hold no facts about the machine." }
            } @else {
                details.line {
                    summary {
                        h2 #machine-h { "This machine" }
                        span {
                            (all) " " (words::plural(all, "fact", "facts"))
                            @if unknown > 0 { ", of which " (unknown) " could not be read" }
                        }
                    }
                    @if !main.is_empty() { (list(&main)) }
                    @if !rest.is_empty() { (list(&rest)) }
                }
            }
        }
    }
}

fn list(facts: &[Fact]) -> Markup {
    markup! {
        dl.facts {
            @for f in facts {
                div { dt { (clean(&f.name)) } dd class=[(!f.known).then_some("soft")] { (clean(&f.value)) } }
            }
        }
    }
}

fn warnings(results: &Results) -> Markup {
    markup! {
        @if !results.warnings.is_empty() {
            section #warnings.warnings aria-label="Before you believe a figure" {
                h2 { "Before you believe a figure" }
                ul { @for w in &results.warnings { li { (coded(w)) } } }
            }
        }
    }
}

fn footer(results: &Results) -> Markup {
    let run = &results.run;
    let trust = Trust::of(results);
    markup! {
        section #run aria-labelledby="run-h" {
            h2 #run-h { "About this run" }
            dl.facts {
                div { dt { "run" } dd { (clean(&run.id)) } }
                div { dt { "started" } dd { (when(&run.started)) } }
                @if let Some(profile) = lead::profile(results) { div { dt { "profile" } dd { (clean(profile)) } } }
                div { dt { "options" } dd { @if run.options.is_empty() { "none" } @else { (clean(&run.options.join(" "))) } } }
                div { dt { "measured for" } dd { (with_unit(run.measured_s, None, "s")) } }
                div { dt { "seed" } dd { (run.seed) } }
                div { dt { "program" } dd { "threadgauge " (clean(&run.version)) } }
                div { dt { "schema" } dd { (results.schema) } }
            }
            p { "Can this run be trusted? " (trust.answer.word()) ": " (clean(&trust.says)) }
            p {
                "A figure is the median over rounds. Brackets hold its exact order-statistic interval; the level is with "
                "each table. A comparison is paired by round. The same figures in full precision: "
                code { "results.json" } ", " code { "results.xlsx" } ", " code { "samples.csv" } "."
            }
        }
    }
}

/// The day alone.
fn day(started: &str) -> String {
    clean(started.get(..10).unwrap_or(started))
}

/// The time as people read it; what is not RFC 3339 stays as it is.
fn when(started: &str) -> String {
    match (started.get(..10), started.get(10..11), started.get(11..16)) {
        (Some(day), Some("T"), Some(time)) if started.ends_with('Z') => clean(&format!("{day} {time} UTC")),
        _ => clean(started),
    }
}
