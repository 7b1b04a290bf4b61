//! Tables whose cells are words, in the layout of a source: of an experiment, and of several together.

use maud::{Markup, html as markup};
use threadgauge_results::{BY_RUNTIME, ExperimentResult, Figure, Results, Table};

use super::cases::{self, Head};
use super::figure;
use super::text::{clean, coded, section_id, slug};

/// One of an experiment.
pub(super) fn of_experiment(e: &ExperimentResult, table: &Table) -> Markup {
    let id = format!("{}-t-{}", section_id(&e.id), slug(&table.id));
    folded(&id, &table.title, table)
}

/// Under an id and a name that nothing else of the page has; where it is long, its rest is folded.
pub(super) fn folded(id: &str, name: &str, table: &Table) -> Markup {
    let caption = markup! { (clean(&table.title)) (note(table)) };
    cases::folding(id, name, &caption, &heads(table), rows(table))
}

/// Those over several experiments, each a section: of a line that opens to the whole of it, but for what a unit costs
/// by runtime, which is there to be seen.
pub(super) fn of_run(results: &Results, tables: &[&Table]) -> Markup {
    markup! {
        @for table in tables {
            @let head = markup! { h2 id=(format!("{}-h", run_id(table))) { (clean(&table.title)) } };
            section id=(run_id(table)) aria-labelledby=(format!("{}-h", run_id(table))) {
                @if table.id == BY_RUNTIME {
                    (head)
                    (by_runtime(results, table))
                } @else {
                    details.line { summary { (head) } (whole(table)) }
                }
            }
        }
    }
}

/// What a unit costs by runtime, and its chart.
pub(super) fn by_runtime(results: &Results, table: &Table) -> Markup {
    let figures = results.experiments.iter().flat_map(|e| &e.figures);
    // It stands in its experiment, too, and no two have one name.
    let charts = figures.filter(|f| f.id == BY_RUNTIME).map(|f| Figure {
        title: "Each over a thread in C".to_owned(),
        ..f.clone()
    });
    markup! {
        (whole(table))
        @for f in charts { (figure::of_run(&f, &format!("{}-f", run_id(table)))) }
    }
}

fn whole(table: &Table) -> Markup {
    let (id, label) = (
        format!("{}-table", run_id(table)),
        format!("Table: {}", table.title),
    );
    cases::scrolling(&id, &label, &note(table), &heads(table), &rows(table))
}

/// The anchor of a table over several experiments.
pub(super) fn run_id(table: &Table) -> String {
    format!("t-{}", slug(&table.id))
}

fn note(table: &Table) -> Markup {
    markup! { @if !table.note.is_empty() { span.note { (coded(&table.note)) } } }
}

fn heads(table: &Table) -> Vec<Head> {
    table.columns.iter().map(|column| Head::words(column)).collect()
}

fn rows(table: &Table) -> Vec<Markup> {
    let row = |row: &Vec<String>| {
        markup! {
            tr {
                @for (i, cell) in row.iter().enumerate() {
                    @if i == 0 { th scope="row" { (clean(cell)) } } @else { td { (clean(cell)) } }
                }
            }
        }
    };
    table.rows.iter().map(row).collect()
}
