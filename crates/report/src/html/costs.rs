//! Every cost that has a name, each dimension on a scale of its own.

use maud::{Markup, html as markup};
use threadgauge_results::Results;

use super::text::clean;
use crate::costs::{self, Group, Row};

/// A section of a line that opens to the list; nothing where there is none.
pub(super) fn section(results: &Results) -> Markup {
    let groups = costs::listed(results);
    markup! {
        @if !groups.is_empty() {
            section #all-costs aria-labelledby="all-costs-h" {
                details.line {
                    summary { h2 #all-costs-h { "All costs" } span { "times, memory and others, each with its interval" } }
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
                @if !row.cost.how.is_empty() { span.how { (clean(&row.cost.how)) } }
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
