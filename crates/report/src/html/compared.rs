//! A page of several runs: two sides with what changed, or a column a run; the charts with a line a run, the tables
//! with a column a run.

use maud::{Markup, html as markup};
use threadgauge_results::units::{Scale as Print, counted, metric_name};
use threadgauge_results::{Column, Compared, ComparisonResult, Judged, Results, SideBySide};

use super::cases::{self, Head};
use super::text::{clean, coded, section_id, slug};
use super::{figure, table};
use crate::columns;
use crate::compare::{known_line, pair, setting, with};
use crate::merged::{self, ABOUT_TABLES};
use crate::words;

/// The comparison of two sides as one self-contained page: what is known, what became of a check, the cases that differ
/// and the others, and the charts of a run of each side in one.
#[must_use]
pub fn comparison_html(compared: &Compared, runs: [&Results; 2], judged: Option<&Judged>) -> String {
    let names = [&compared.a_name, &compared.b_name];
    let title = format!("{} against {}", compared.b_name, compared.a_name);
    let groups = [
        ("differ", "Cases that differ", &["slower", "faster", "small"][..]),
        ("unknown", "Cases of which nothing is known", &["unknown"]),
        ("same", "Cases that are the same", &["same"]),
    ];
    let groups = groups.map(|(id, name, verdicts)| {
        let rows = verdicts.iter().flat_map(|verdict| with(&compared.rows, verdict));
        (id, name, rows.collect::<Vec<&ComparisonResult>>())
    });
    let groups: Vec<_> = groups.into_iter().filter(|(.., rows)| !rows.is_empty()).collect();
    let names = names.map(String::as_str);
    let (charts, tables) = (charts(&names, &runs), tables(&names, &runs));
    let body = markup! {
        header { h1 { (clean(&title)) } p.answer { (clean(&known_line(compared))) } }
        @if let Some(judged) = judged {
            section #check aria-label="The check" {
                p { b { (judged) "." } }
                @if !judged.breaches.is_empty() {
                    ul { @for breach in &judged.breaches {
                        li { @if let Some(case) = &breach.case { (clean(case)) ": " } (clean(&breach.says)) }
                    } }
                }
            }
        }
        (warnings(&compared.warnings))
        p { (coded(&setting(compared))) }
        p { (clean(&words::by_chance(&compared.rows))) " A ratio above 1 is slower than before." }
        @for (id, name, rows) in &groups {
            section id=(id) aria-labelledby=(format!("{id}-h")) {
                h2 id=(format!("{id}-h")) { (name) }
                (comparisons(id, name, rows))
            }
        }
        @if let Some(charts) = &charts { (charts) }
        @if let Some(tables) = &tables { (tables) }
    };
    let parts = groups.iter().map(|(id, name, _)| (*id, *name));
    let parts = parts.chain(charts.map(|_| CHARTS)).chain(tables.map(|_| TABLES));
    page(&title, parts, &body)
}

/// Where charts are, and what the list of a page's parts calls them.
const CHARTS: (&str, &str) = ("charts", "Charts");
/// The same of tables.
const TABLES: (&str, &str) = ("tables", "Tables");

/// A page with a list of these parts of it.
fn page<'a>(title: &str, parts: impl Iterator<Item = (&'a str, &'a str)>, body: &Markup) -> String {
    let parts: Vec<(String, String)> = parts.map(|(id, name)| (id.to_owned(), name.to_owned())).collect();
    super::page(
        &format!("threadgauge: {title}"),
        env!("CARGO_PKG_VERSION"),
        &parts,
        body,
    )
}

/// Runs side by side as one self-contained page: who is ahead, what differs, what things cost, the charts with a line a
/// run, the tables and every case with a column a run.
#[must_use]
pub fn columns_html(of: &SideBySide, runs: &[&Results]) -> String {
    let names: Vec<&str> = of.columns.iter().map(|column| column.name.as_str()).collect();
    let title = names.join(", ");
    let costs = columns::costs_of(runs);
    let heads = |first: &str| -> Vec<Head> {
        let names = names.iter().map(|name| Head::words(name));
        std::iter::once(Head::words(first)).chain(names).collect()
    };
    let line = |name: &str, cells: &[String]| {
        markup! { tr { th scope="row" { (clean(name)) } @for cell in cells { td { (clean(cell)) } } } }
    };
    let each = |says: fn(&Column) -> String| of.columns.iter().map(says).collect::<Vec<_>>();
    let mut about = vec![
        line("folder", &each(|column| column.of.clone())),
        line("runs", &each(|column| column.runs.to_string())),
    ];
    about.extend(of.differs.iter().map(|fact| line(&fact.name, &fact.values)));
    let (charts, tables) = (charts(&names, runs), tables(&names, runs));
    let body = markup! {
        header { h1 { (clean(&title)) } p.answer { (clean(&columns::ahead_line(of))) } }
        (warnings(&of.warnings))
        (cases::scrolling("columns", "What the columns are", &markup! { "What differs between them" }, &heads(""), &about))
        @if !costs.is_empty() {
            section #costs-side aria-labelledby="costs-side-h" {
                h2 #costs-side-h { "What things cost" }
                @let rows: Vec<Markup> = costs.iter().map(|row| {
                    line(row.name, &row.costs.iter().map(|of| columns::cost(*of)).collect::<Vec<_>>())
                }).collect();
                (cases::scrolling("costs", "What things cost, a column each", &markup! { "With intervals" }, &heads(""), &rows))
            }
        }
        @if let Some(charts) = &charts { (charts) }
        @if let Some(tables) = &tables { (tables) }
        section #cases aria-labelledby="cases-h" {
            h2 #cases-h { "Every case" }
            p { (columns::about_order(&of.rows)) }
            @for experiment in distinct(of.rows.iter().map(|row| row.experiment.as_str())) {
                @let rows: Vec<Markup> = of.rows.iter().filter(|row| row.experiment == experiment).map(|row| {
                    let mut cells: Vec<String> = (0..names.len()).map(|column| columns::figure(row, column)).collect();
                    cells.push(columns::order(of, row));
                    line(&columns::called(row), &cells)
                }).collect();
                @let heads: Vec<Head> = heads("case").into_iter().chain([Head::words("order")]).collect();
                @let name = format!("Cases of {experiment}");
                (cases::folding(&format!("{}-cases", section_id(experiment)), &name, &markup! { (clean(&name)) }, &heads, rows))
            }
        }
    };
    let costs = (!costs.is_empty()).then_some(("costs-side", "What things cost"));
    let parts = costs.into_iter().chain(charts.map(|_| CHARTS));
    let parts = parts.chain(tables.map(|_| TABLES));
    page(&title, parts.chain([("cases", "Every case")]), &body)
}

/// Each id once, in the order in which they come.
fn distinct<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen: Vec<&str> = Vec::new();
    for id in ids {
        if !seen.contains(&id) {
            seen.push(id);
        }
    }
    seen
}

fn warnings(warnings: &[String]) -> Markup {
    markup! {
        @if !warnings.is_empty() {
            section #warnings.warnings aria-label="Before you believe a figure" {
                h2 { "Before you believe a figure" }
                ul { @for warning in warnings { li { (coded(warning)) } } }
            }
        }
    }
}

fn comparisons(id: &str, name: &str, rows: &[&ComparisonResult]) -> Markup {
    let heads = [
        Head::words("case"),
        Head::words("metric"),
        Head::with_interval("ratio"),
        Head::words("verdict"),
    ];
    let rows = rows.iter().map(|row| {
        markup! {
            tr {
                th scope="row" { (clean(&pair(row))) }
                td { (clean(&metric_name(&row.metric))) }
                @match row.ratio {
                    Some(ratio) => { (cases::figure_cells(&Print::of("ratio", ratio), ratio, row.ci95)) }
                    None => { (cases::no_figure()) }
                }
                td.p {
                    span.sign aria-hidden="true" { (words::comparison_sign(&row.verdict)) } " " (clean(&words::outcome(row)))
                }
            }
        }
    });
    let caption = markup! { (counted(rows.len(), "case")) };
    cases::folding(&format!("{id}-table"), name, &caption, &heads, rows.collect())
}

/// Each chart that two runs or more have, with the lines of all; none where there is no such chart.
fn charts(names: &[&str], runs: &[&Results]) -> Option<Markup> {
    let figures = merged::charts(names, runs);
    let (id, name) = CHARTS;
    (!figures.is_empty()).then(|| {
        markup! {
            section id=(id) aria-labelledby=(format!("{id}-h")) {
                h2 id=(format!("{id}-h")) { (name) }
                @for (i, (experiment, of)) in figures.iter().enumerate() {
                    (figure::of_run(of, &format!("{}-both-{}-{i}", section_id(experiment), slug(&of.id))))
                }
            }
        }
    })
}

/// The tables that two runs or more have, with a column a run, folded by experiment; none where there is no such table.
fn tables(names: &[&str], runs: &[&Results]) -> Option<Markup> {
    let tables = merged::tables(names, runs);
    let (id, name) = TABLES;
    let experiments = distinct(tables.iter().map(|(experiment, _)| *experiment));
    (!tables.is_empty()).then(|| {
        markup! {
            section id=(id) aria-labelledby=(format!("{id}-h")) {
                h2 id=(format!("{id}-h")) { (name) }
                p { (ABOUT_TABLES) }
                @for experiment in experiments {
                    @let own = tables.iter().enumerate().filter(|(_, (of, _))| *of == experiment);
                    details.line {
                        summary { h3 { (clean(experiment)) } }
                        @for (i, (_, of)) in own {
                            (table::folded(&format!("{}-beside-{i}", section_id(experiment)), &format!("{experiment}: {}", of.title), of))
                        }
                    }
                }
            }
        }
    })
}
