//! The tables of an experiment: cases, rankings, comparisons. Long ones fold after their first rows.

use maud::{Markup, html as markup};
use threadgauge_results::{CaseResult, ExperimentResult, MetricSummary, Ranking, Status};

use super::{clean, section_id};
use crate::cases::{Cases, Metric};
use crate::units::Scale;
use crate::words;

/// A table of more rows than this folds…
const LONG: usize = 24;
/// …after this many.
const SHOWN: usize = 12;

/// The cases with their parameters and figures.
pub(super) fn table(e: &ExperimentResult, columns: &Cases<'_>) -> Markup {
    let notes = columns.has_notes();
    let mut heads: Vec<Markup> = columns
        .params
        .iter()
        .map(|p| markup! { (clean(&words_of(p))) })
        .collect();
    heads.extend(columns.metrics.iter().map(|m| markup! { (clean(&m.head())) }));
    if notes {
        heads.push(markup! { "note" });
    }
    let caption = markup! {
        "Cases of " (clean(&e.id)) ". " (columns.figures_line()) " " (clean(&columns.shared_line()))
    };
    let rows = e.cases.iter().map(|case| row(case, columns, notes)).collect();
    folding(
        &format!("{}-table", section_id(&e.id)),
        &format!("Cases of {}", e.id),
        &caption,
        &heads,
        rows,
    )
}

fn row(case: &CaseResult, columns: &Cases<'_>, notes: bool) -> Markup {
    let missing = case.status != Status::Ok;
    markup! {
        tr class=[missing.then_some("missing")] {
            @for (i, param) in columns.params.iter().enumerate() {
                @let value = clean(&Cases::param(case, param));
                @let class = value.bytes().all(|b| b.is_ascii_digit()).then_some("n");
                @if i == 0 { th scope="row" class=[class] { (value) } } @else { td class=[class] { (value) } }
            }
            @for metric in &columns.metrics { (cell(metric, metric.of(case))) }
            @if notes { td.why { (clean(&columns.note(case))) } }
        }
    }
}

fn cell(metric: &Metric<'_>, summary: Option<&MetricSummary>) -> Markup {
    markup! {
        td.n {
            @match summary {
                Some(s) => {
                    (metric.scale.number(s.median))
                    @if let Some(ci) = s.ci95 { " " span.ci { (metric.scale.interval(s.median, ci)) } }
                }
                None => { span.none { "–" } }
            }
        }
    }
}

/// Cases in order, with letters.
pub(super) fn ranking(e: &ExperimentResult, columns: &Cases<'_>, ranking: &Ranking, index: usize) -> Markup {
    let heads = ["", "case", "against the best", "letters"].map(|h| markup! { (h) });
    let caption = markup! {
        (clean(&ranking.title))
        span.note { "Best first. Entries that share a letter cannot be told apart." }
    };
    let rows = ranking.entries.iter().enumerate().map(|(i, entry)| {
        let scale = Scale::of("ratio", entry.ratio);
        markup! {
            tr {
                td.n { (i + 1) }
                th scope="row" { (clean(&columns.short_id(&entry.case))) }
                td.n {
                    (scale.number(entry.ratio)) " ×"
                    @if let Some(ci) = entry.ci95 { " " span.ci { (scale.interval(entry.ratio, ci)) } }
                }
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
    let heads = ["case", "against", "metric", "ratio", "verdict"].map(|h| markup! { (h) });
    let caption = markup! {
        "Comparisons, paired by round"
        span.note { "A ratio above 1 is slower than what it is compared against." }
    };
    let rows = e.comparisons.iter().map(|c| {
        markup! {
            tr {
                th scope="row" { (clean(&columns.short_id(&c.b))) }
                td { (clean(&columns.short_id(&c.a))) }
                td { (clean(&crate::units::metric_name(&c.metric))) }
                td.n {
                    @match c.ratio {
                        Some(ratio) => {
                            (Scale::of("ratio", ratio).number(ratio))
                            @if let Some(ci) = c.ci95 { " " span.ci { (Scale::of("ratio", ratio).interval(ratio, ci)) } }
                        }
                        None => { span.none { "–" } }
                    }
                }
                td {
                    span.sign aria-hidden="true" { (words::comparison_sign(&c.verdict)) } " " (clean(&c.verdict))
                    @if let Some(n) = c.rounds_needed { " (" (n) " rounds would settle it)" }
                }
            }
        }
    });
    let id = format!("{}-comparisons", section_id(&e.id));
    folding(&id, "Comparisons", &caption, &heads, rows.collect())
}

/// A table in a box that scrolls by itself; where it is long, the rest is folded.
pub(super) fn folding(
    id: &str,
    name: &str,
    caption: &Markup,
    heads: &[Markup],
    mut rows: Vec<Markup>,
) -> Markup {
    let rest = if rows.len() > LONG {
        rows.split_off(SHOWN)
    } else {
        Vec::new()
    };
    let all = rows.len() + rest.len();
    markup! {
        (one(id, name, caption, heads, &rows))
        @if !rest.is_empty() {
            details.rest {
                summary { "The other " (rest.len()) " of " (all) " rows" }
                (one(&format!("{id}-rest"), &format!("{name}, continued"), &markup! { (clean(name)) ", continued" }, heads, &rest))
            }
        }
    }
}

fn one(id: &str, name: &str, caption: &Markup, heads: &[Markup], rows: &[Markup]) -> Markup {
    markup! {
        div.scroll tabindex="0" role="region" aria-label=(clean(name)) {
            table id=(id) {
                caption { (caption) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

fn words_of(param: &str) -> String {
    param.replace('_', " ")
}
