//! *Threads and processes on this machine*: what a unit costs to make, switch, wake, keep and lose, by kind. Its rows
//! are those that the experiments declare.

use maud::{Markup, html as markup};
use threadgauge_results::{Cost, Results, units};

use super::cases::{self, Head};
use super::figure;
use super::text::clean;
use crate::costs::ByKind;

/// The table and its chart; nothing where no experiment has a row.
pub(super) fn section(results: &Results) -> Markup {
    let costs = ByKind::of(results);
    let mut heads = vec![Head::words("what is paid for")];
    heads.extend(costs.kinds.iter().map(|kind| Head::words(kind)));
    let rows = costs.rows.iter().map(|(what, of_kinds)| {
        markup! {
            tr {
                th scope="row" { (clean(what)) }
                @for cost in of_kinds { td { @match cost { Some(cost) => { (cell(cost)) }, None => { span.none { "–" } } } } }
            }
        }
    });
    let rows: Vec<Markup> = rows.collect();
    let title = "Threads and processes on this machine";
    markup! {
        @if !rows.is_empty() {
            section #units aria-labelledby="units-h" {
                h2 #units-h { (title) }
                @if let Some(chart) = costs.chart() { (figure::of_run(&chart, "units-f")) }
                details {
                    summary { "The same as a table, with how each was measured and what was published" }
                    (cases::scrolling("units-table", title, &markup! { "What a unit costs, by kind" }, &heads, &rows))
                }
            }
        }
    }
}

fn cell(cost: &Cost) -> Markup {
    markup! {
        (units::figure(cost.value, cost.ci95, &cost.unit))
        div.soft { (clean(&cost.how)) }
        @if let Some(published) = &cost.published { div.soft { "published: " (clean(published)) } }
    }
}
