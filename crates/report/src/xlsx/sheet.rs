//! An experiment's sheet: its question and its answer, the cases as a table that filters and sorts, then each figure's
//! chart with its data.
//!
//! It is at most a screen wide. So it has the parameters that tell cases apart, and of the metrics the main ones with
//! their intervals and of the others as many as fit; the sheet of summaries has all.

use rust_xlsxwriter::{Worksheet, XlsxError};
use threadgauge_results::{CaseResult, ExperimentResult, MetricSummary, Status, Value};

use super::figure;
use super::page::{Cell, Look, Number, OVERVIEW, Page, SCREEN, SUMMARIES, Widths};
use crate::cases::{Cases, Metric};
use crate::words;

/// The row of the table's heads.
const HEAD: u32 = 4;

/// Fills the sheet called `name`.
pub(super) fn write(sheet: &mut Worksheet, name: &str, e: &ExperimentResult) -> Result<(), XlsxError> {
    let mut page = Page::new(sheet);
    page.across(0, Look::Title, &e.question);
    let short = crate::short_answer(e);
    page.across(1, Look::Bold, &short);
    page.link(3, 0, (OVERVIEW, 0))?;
    let mut row = HEAD + e.cases.len() as u32;
    if e.answer.trim_end_matches('.').len() > short.len() {
        page.across(row + 2, Look::Bold, "The answer in full");
        page.across(row + 3, Look::Plain, &e.answer);
        row += 3;
    }
    // They share their columns with the table, which must know how wide these are.
    for figure in &e.figures {
        row = figure::draw(&mut page, name, figure, row + 2)?;
    }
    if e.cases.is_empty() {
        page.across(2, Look::Plain, "It has no cases.");
        return page.finish();
    }
    let cases = Cases::of(e);
    let (columns, left_out) = columns(&page, e, &cases);
    page.across(2, Look::Plain, &about(e, &cases, left_out));
    let heads: Vec<&str> = columns.iter().map(|column| column.head.as_str()).collect();
    page.head(HEAD, &heads, e.cases.len() as u32)?;
    for (at, column) in (0..).zip(&columns) {
        for (row, cell) in (HEAD + 1..).zip(&column.cells) {
            page.cell(row, at, cell)?;
        }
    }
    page.finish()
}

/// What the figures are, what all cases share, and where the rest is.
fn about(e: &ExperimentResult, cases: &Cases<'_>, left_out: usize) -> String {
    let mut parts = vec![cases.figures_line(), cases.shared_line()];
    if left_out > 0 {
        let metrics = words::plural(left_out, "metric", "metrics");
        parts.push(format!(
            "{left_out} more {metrics} and all other figures: sheet {SUMMARIES}."
        ));
    }
    if !e.figures.is_empty() {
        let charts = words::plural(e.figures.len(), "chart", "charts");
        parts.push(format!("Below the table: {} {charts}.", e.figures.len()));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// A column of the table.
struct Column {
    head: String,
    cells: Vec<Cell>,
}

impl Column {
    fn of(e: &ExperimentResult, head: String, cell: impl Fn(&CaseResult) -> Cell) -> Self {
        let cells = e.cases.iter().map(cell).collect();
        Self { head, cells }
    }

    fn widths(&self) -> Widths {
        Widths::of_column(&self.head, &self.cells)
    }
}

/// The columns that fit a screen, and of how many metrics there is none.
fn columns(page: &Page<'_>, e: &ExperimentResult, cases: &Cases<'_>) -> (Vec<Column>, usize) {
    let mut first: Vec<Column> = Vec::new();
    for param in &cases.params {
        first.push(Column::of(e, (*param).to_owned(), |case| {
            match case.params.get(param) {
                Some(Value::Int(n)) => Cell::Number(Number {
                    value: *n as f64,
                    decimals: 0,
                }),
                Some(Value::Text(word)) => Cell::from(word.as_str()),
                None => Cell::Nothing,
            }
        }));
    }
    let mut last: Vec<Column> = Vec::new();
    if e.cases.iter().any(|case| case.status != Status::Ok) {
        last.push(Column::of(e, "status".to_owned(), |case| {
            Cell::from(words::status(case.status))
        }));
    }
    if cases.has_notes() {
        let note = |case: &CaseResult| Cell::from(cases.note(case).as_str());
        last.push(Column::of(e, "note".to_owned(), note));
    }
    let mut left_out = 0;
    for (at, metric) in cases.metrics.iter().enumerate() {
        let mut of = figures(e, metric);
        if at >= cases.main_metrics().len() {
            of.truncate(1);
        }
        let all = first.iter().chain(&of).chain(&last).map(Column::widths);
        // Without any figure there would be nothing to read.
        if page.least_with(all) <= SCREEN || at == 0 {
            first.append(&mut of);
        } else {
            left_out += 1;
        }
    }
    first.append(&mut last);
    (first, left_out)
}

/// A metric's median and, where there are any, the ends of its interval.
fn figures(e: &ExperimentResult, metric: &Metric<'_>) -> Vec<Column> {
    let summaries = || e.cases.iter().filter_map(|case| metric.of(case));
    let scale = Number::scale(metric.unit, summaries().map(|s| s.median));
    let of = |head: String, value: &dyn Fn(&MetricSummary) -> Option<f64>| {
        Column::of(e, head, |case| {
            Cell::from(Number::of(&scale, metric.of(case).and_then(value)))
        })
    };
    let mut columns = vec![of(Metric { scale, ..*metric }.head(), &|s| Some(s.median))];
    if summaries().any(|s| s.ci95.is_some()) {
        let unit = match scale.name {
            "" => String::new(),
            unit => format!(", {unit}"),
        };
        columns.push(of(format!("low{unit}"), &|s| s.ci95.map(|ci| ci[0])));
        columns.push(of(format!("high{unit}"), &|s| s.ci95.map(|ci| ci[1])));
    }
    columns
}
