//! The tables of an experiment: cases, rankings, comparisons. Long ones fold after their first rows.

use maud::{Markup, html as markup};
use threadgauge_results::units::Scale;
use threadgauge_results::{CaseResult, ExperimentResult, MetricSummary, Ranking, Status};

use super::text::{clean, coded, section_id};
use crate::cases::{Cases, Metric};
use crate::words;

/// A table of more rows than this folds…
const LONG: usize = 24;
/// …after this many.
const SHOWN: usize = 12;
/// So many metrics of a case fit on a sheet of paper, the primary ones first.
const ON_PAPER: usize = 8;

/// So many a screen has room for; experiments with a metric for each of many objects have over a hundred.
const ON_SCREEN: usize = 16;

/// The head of a column.
pub(super) struct Head {
    text: Markup,
    /// A figure and its interval are two cells under one head, so that figures align.
    span: u8,
    number: bool,
    /// Not on paper.
    screen_only: bool,
}

impl Head {
    /// Over words.
    pub fn words(text: &str) -> Self {
        Self {
            text: markup! { (clean(text)) },
            span: 1,
            number: false,
            screen_only: false,
        }
    }

    fn class(&self) -> Option<&'static str> {
        match (self.number, self.screen_only) {
            (true, _) => Some("n"),
            (_, true) => Some("screen-only"),
            _ => None,
        }
    }

    /// Over numbers.
    pub fn number(text: &str) -> Self {
        Self {
            number: true,
            ..Self::words(text)
        }
    }

    /// Over figures with intervals.
    pub fn with_interval(text: &str) -> Self {
        Self {
            span: 2,
            ..Self::words(text)
        }
    }
}

/// The cases with their parameters and figures.
pub(super) fn table(e: &ExperimentResult, columns: &Cases<'_>) -> Markup {
    let notes = columns.has_notes();
    let metrics = columns.commonest(ON_SCREEN);
    let of_all = columns.metrics.len();
    let is_number = |p: &str| e.cases.iter().all(|c| is_digits(&Cases::param(c, p)));
    let numbers: Vec<bool> = columns.params.iter().map(|p| is_number(p)).collect();
    let mut heads: Vec<Head> = (columns.params.iter().zip(&numbers))
        .map(|(p, n)| {
            if *n {
                Head::number(&words_of(p))
            } else {
                Head::words(&words_of(p))
            }
        })
        .collect();
    heads.extend(metrics.iter().enumerate().map(|(i, m)| Head {
        screen_only: i >= ON_PAPER,
        ..Head::with_interval(&m.head())
    }));
    if notes {
        heads.push(Head::words("note"));
    }
    let caption = markup! {
        "Cases of " (clean(&e.id)) ". " (columns.figures_line()) " " (clean(&columns.shared_line()))
        @if metrics.len() < of_all {
            span.screen-only { " The " (metrics.len()) " of " (of_all) " metrics that most cases have; results.xlsx has all." }
        }
        @if of_all > ON_PAPER {
            span.paper-only { " The first " (ON_PAPER) " of " (of_all) " metrics; results.xlsx has all." }
        }
    };
    let rows = e
        .cases
        .iter()
        .map(|case| row(case, columns, &metrics, &numbers, notes))
        .collect();
    folding(
        &format!("{}-table", section_id(&e.id)),
        &format!("Cases of {}", e.id),
        &caption,
        &heads,
        rows,
    )
}

fn row(
    case: &CaseResult,
    columns: &Cases<'_>,
    metrics: &[&Metric<'_>],
    numbers: &[bool],
    notes: bool,
) -> Markup {
    let missing = case.status != Status::Ok;
    markup! {
        tr class=[missing.then_some("missing")] {
            @for (i, (param, number)) in columns.params.iter().zip(numbers).enumerate() {
                @let value = clean(&Cases::param(case, param));
                @let class = if *number { "n" } else { "p" };
                // A head of a row is never empty: a case of another runtime may lack what those in C are named by.
                @if i == 0 { th scope="row" class=(class) { @if value.is_empty() { "–" } @else { (value) } } }
                @else { td class=(class) { (value) } }
            }
            @for (i, metric) in metrics.iter().enumerate() { (cell(metric, metric.of(case), i >= ON_PAPER)) }
            @if notes { td.why { (coded(&columns.note(case))) } }
        }
    }
}

fn cell(metric: &Metric<'_>, summary: Option<&MetricSummary>, screen_only: bool) -> Markup {
    match summary {
        Some(s) => two_cells(&metric.scale, s.median, s.ci95, screen_only),
        None => {
            markup! { td.n.screen-only[screen_only] { span.none { "–" } } td.ci.screen-only[screen_only] {} }
        }
    }
}

/// A figure, and beside it its interval.
pub(super) fn figure_cells(scale: &Scale<'_>, value: f64, ci95: Option<[f64; 2]>) -> Markup {
    two_cells(scale, value, ci95, false)
}

fn two_cells(scale: &Scale<'_>, value: f64, ci95: Option<[f64; 2]>, screen_only: bool) -> Markup {
    markup! {
        td.n.screen-only[screen_only] { (scale.number_beside(value, ci95)) }
        td.ci.screen-only[screen_only] { @if let Some(ci) = ci95 { (scale.interval(value, ci)) } }
    }
}

/// The two cells of a figure that is not there.
pub(super) fn no_figure() -> Markup {
    markup! { td.n { span.none { "–" } } td.ci {} }
}

/// Cases in order, with letters.
pub(super) fn ranking(e: &ExperimentResult, columns: &Cases<'_>, ranking: &Ranking, index: usize) -> Markup {
    let heads = [
        Head::number("rank"),
        Head::words("case"),
        Head::with_interval("against the best"),
        Head::words("letters"),
    ];
    let ids: Vec<&str> = ranking.entries.iter().map(|entry| entry.case.as_str()).collect();
    let (names, shared) = columns.names(&ids);
    let caption = markup! {
        (clean(&ranking.title)) @if !shared.is_empty() { " (" (clean(&shared)) ")" }
        span.note { (words::about_letters(ranking)) }
    };
    let rows = ranking
        .entries
        .iter()
        .zip(&names)
        .enumerate()
        .map(|(i, (entry, name))| {
            markup! {
                tr {
                    td.n { (i + 1) }
                    th scope="row" { (clean(name)) }
                    (figure_cells(&Scale::of("ratio", entry.ratio), entry.ratio, entry.ci95))
                    td { (clean(&entry.letters)) }
                }
            }
        });
    let id = format!("{}-rank-{index}", section_id(&e.id));
    folding(&id, &ranking.title, &caption, &heads, rows.collect())
}

/// Pairs of cases.
pub(super) fn comparisons(e: &ExperimentResult, columns: &Cases<'_>) -> Markup {
    if e.comparisons.is_empty() {
        return markup! {};
    }
    let heads = [
        Head::words("case"),
        Head::words("against"),
        Head::words("both"),
        Head::words("metric"),
        Head::with_interval("ratio"),
        Head::words("verdict"),
    ];
    let caption = markup! {
        "Comparisons, paired by round"
        span.note {
            "A ratio above 1 is slower than what it is compared against. " (words::by_chance(&e.comparisons))
        }
    };
    let rows = e.comparisons.iter().map(|c| {
        let (names, shared) = columns.names(&[&c.b, &c.a]);
        markup! {
            tr {
                th scope="row" { (clean(&names[0])) }
                td { (clean(&names[1])) }
                td.soft { (clean(&shared)) }
                td { (clean(&threadgauge_results::units::metric_name(&c.metric))) }
                @match c.ratio {
                    Some(ratio) => { (figure_cells(&Scale::of("ratio", ratio), ratio, c.ci95)) }
                    None => { (no_figure()) }
                }
                td.p {
                    span.sign aria-hidden="true" { (words::comparison_sign(&c.verdict)) } " " (clean(&words::outcome(c)))
                }
            }
        }
    });
    let id = format!("{}-comparisons", section_id(&e.id));
    let name = format!("Comparisons of {}", e.id);
    folding(&id, &name, &caption, &heads, rows.collect())
}

/// A table in a box that scrolls by itself; where it is long, the rest is folded.
pub(super) fn folding(
    id: &str,
    name: &str,
    caption: &Markup,
    heads: &[Head],
    mut rows: Vec<Markup>,
) -> Markup {
    let rest = if rows.len() > LONG {
        rows.split_off(SHOWN)
    } else {
        Vec::new()
    };
    let all = rows.len() + rest.len();
    markup! {
        (scrolling(id, name, caption, heads, &rows))
        @if !rest.is_empty() {
            details.rest {
                summary { "The other " (rest.len()) " of " (all) " rows" }
                (scrolling(&format!("{id}-rest"), &format!("{name}, continued"), &markup! { (clean(name)) ", continued" }, heads, &rest))
            }
        }
    }
}

/// A table in a box that scrolls by itself, by keyboard too. The box is a group with a `name` that no other of the page
/// has; as a region it would be one of a hundred landmarks. A head without words is no head.
pub(super) fn scrolling(id: &str, name: &str, caption: &Markup, heads: &[Head], rows: &[Markup]) -> Markup {
    markup! {
        div.scroll tabindex="0" role="group" aria-label=(clean(name)) {
            table id=(id) {
                caption { span.cap { (caption) } }
                thead { tr {
                    @for head in heads {
                        @if head.text.0.is_empty() { td {} }
                        @else { th scope="col" colspan=[(head.span > 1).then_some(head.span)] class=[head.class()] { (head.text) } }
                    }
                } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn words_of(param: &str) -> String {
    param.replace('_', " ")
}
