//! Several runs side by side: who is ahead in how many cases, what things cost in each, and every case in order.
//!
//! Figures and orders are in what is set side by side already; this counts and words them. The ten costs are those of
//! the runs' own documents.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::json;
use threadgauge_results::units::{self, Scale, counted};
use threadgauge_results::{CaseRow, Cost, Results, SideBySide};

use crate::Style;
use crate::costs;
use crate::markdown::cell;
use crate::terminal::text::{Ink, clean, painted, paragraph};

/// What is known, in a line: of how many cases each column is ahead, and of how many none is.
pub(crate) fn ahead_line(of: &SideBySide) -> String {
    let columns = counted(of.columns.len(), "column");
    let cases = counted(of.rows.len(), "case");
    if of.columns.iter().all(|column| column.runs == 1) {
        return format!(
            "{columns} side by side, of one run each: in none of {cases} is it known who is ahead."
        );
    }
    let ahead: Vec<Option<usize>> = of.rows.iter().map(CaseRow::ahead).collect();
    let parts = of.columns.iter().enumerate().map(|(i, column)| {
        let cases = ahead.iter().filter(|first| **first == Some(i)).count();
        format!("{} is ahead in {cases}", column.name)
    });
    let open = ahead.iter().filter(|first| first.is_none()).count();
    format!(
        "{columns} side by side. Of {cases} {}; in {open} no one is told from the others.",
        parts.collect::<Vec<_>>().join(", "),
    )
}

/// A cost of the list of ten, in all columns.
pub(crate) struct CostRow<'a> {
    /// What it is called.
    pub name: &'a str,
    /// By column.
    pub costs: Vec<Option<&'a Cost>>,
}

/// The costs that the first run lists, in all columns; what another lists alone stands behind.
pub(crate) fn costs_of<'a>(runs: &[&'a Results]) -> Vec<CostRow<'a>> {
    let mut names = BTreeSet::new();
    let listed = runs
        .iter()
        .flat_map(|run| costs::listed(run))
        .flat_map(|group| group.rows);
    let listed: Vec<&str> = listed
        .map(|row| row.name)
        .filter(|name| names.insert(*name))
        .collect();
    let find =
        |run: &&'a Results, name: &str| costs::all(run).find(|cost| cost.name.as_deref() == Some(name));
    listed
        .into_iter()
        .map(|name| CostRow {
            name,
            costs: runs.iter().map(|run| find(run, name)).collect(),
        })
        .collect()
}

/// A cost of a column, in words.
pub(crate) fn cost(cost: Option<&Cost>) -> String {
    cost.map_or_else(
        || "–".to_owned(),
        |cost| units::with_unit(cost.value, cost.ci95, &cost.unit),
    )
}

/// The figure of a column, in the scale of its row.
pub(crate) fn figure(row: &CaseRow, column: usize) -> String {
    row.figures[column].map_or_else(
        || "–".to_owned(),
        |figure| scale(row).estimate(figure.value, figure.ci95),
    )
}

/// One scale for all figures of a case.
fn scale(row: &CaseRow) -> Scale<'_> {
    Scale::of_column(&row.unit, row.figures.iter().flatten().map(|figure| figure.value))
}

/// The order of a case: `B · A 1.12 [1.08, 1.17] · C ≈ 1.01 [0.99, 1.03] · D ? 1.20`.
pub(crate) fn order(of: &SideBySide, row: &CaseRow) -> String {
    let places = row.ranking.iter().enumerate().map(|(place, placed)| {
        let name = &of.columns[placed.column].name;
        if place == 0 {
            return name.clone();
        }
        format!("{name} {}", against(placed.ratio, placed.ci95, placed.apart))
    });
    places.collect::<Vec<_>>().join(" · ")
}

/// A ratio to the best; with a sign where it is not told from it, and another where nothing is known.
fn against(ratio: f64, ci95: Option<[f64; 2]>, apart: bool) -> String {
    let sign = match (apart, ci95) {
        (true, _) => "",
        (false, Some(_)) => "≈ ",
        (false, None) => "? ",
    };
    format!("{sign}{}", Scale::of("ratio", ratio).estimate(ratio, ci95))
}

pub(crate) const ABOUT_ORDER: &str = "Each case has its best first; behind the others is their ratio to it with its interval, ≈ where \
    they are not told apart, and ? where nothing is known of that, as of one run each.";

/// The columns for a terminal: who is ahead, what differs, the costs, and each case with its columns in order.
#[must_use]
pub fn columns_text(of: &SideBySide, runs: &[&Results], style: &Style) -> String {
    let mut out = painted(style, Ink::Bold, &ahead_line(of), "");
    out.push('\n');
    for warning in &of.warnings {
        out.push_str(&painted(style, Ink::Doubt, warning, "! "));
    }
    if !of.warnings.is_empty() {
        out.push('\n');
    }
    for column in &of.columns {
        let runs = counted(column.runs, "run");
        let line = if column.of == column.name {
            format!("{}: {runs}", column.name)
        } else {
            format!("{}: {}, {runs}", column.name, column.of)
        };
        out.push_str(&paragraph(&line, style.width, "  "));
    }
    let block = |out: &mut String, head: &str, lines: Vec<(String, String)>| {
        out.push('\n');
        out.push_str(&paragraph(head, style.width, ""));
        for (name, figure) in lines {
            out.push_str(&paragraph(&format!("{name}: {figure}"), style.width, "  "));
        }
    };
    for fact in &of.differs {
        let values = of
            .columns
            .iter()
            .map(|column| column.name.clone())
            .zip(fact.values.clone());
        block(&mut out, &fact.name, values.collect());
    }
    let costs = costs_of(runs);
    if !costs.is_empty() {
        out.push('\n');
        out.push_str(&painted(style, Ink::Bold, "What things cost", ""));
    }
    for row in costs {
        let lines = of.columns.iter().zip(&row.costs);
        let lines = lines.map(|(column, of)| (column.name.clone(), cost(*of)));
        block(&mut out, row.name, lines.collect());
    }
    let mut experiment = "";
    for row in &of.rows {
        if row.experiment != experiment {
            experiment = &row.experiment;
            out.push('\n');
            out.push_str(&painted(style, Ink::Bold, experiment, ""));
            out.push_str(&paragraph(ABOUT_ORDER, style.width, ""));
        }
        let head = format!("{}, {}", clean(&row.case), units::metric_name(&row.metric));
        let places = row.ranking.iter().enumerate().map(|(place, placed)| {
            let figure = figure(row, placed.column);
            let against = match place {
                0 => String::new(),
                _ => format!(" · {}", against(placed.ratio, placed.ci95, placed.apart)),
            };
            (
                of.columns[placed.column].name.clone(),
                format!("{figure}{against}"),
            )
        });
        block(&mut out, &head, places.collect());
    }
    out
}

/// The columns as Markdown, a table with a column a run; cut with a count where a comment would not hold it.
#[must_use]
pub fn columns_markdown(of: &SideBySide, runs: &[&Results]) -> String {
    /// As much as of a comparison, less what closes it.
    const MOST: usize = 59_000;
    let names: Vec<String> = of.columns.iter().map(|column| cell(&column.name)).collect();
    let mut out = format!("# {}\n\n**{}**\n\n", names.join(", "), cell(&ahead_line(of)));
    for warning in &of.warnings {
        let _ = writeln!(out, "> **Warning:** {}\n", cell(warning));
    }
    let table = |out: &mut String, heads: &[String], rows: Vec<Vec<String>>| {
        let _ = writeln!(out, "| {} |\n|{}", heads.join(" | "), "---|".repeat(heads.len()));
        let all = rows.len();
        let mut shown = 0;
        for row in rows {
            let line = format!("| {} |\n", row.join(" | "));
            if out.len() + line.len() > MOST {
                break;
            }
            out.push_str(&line);
            shown += 1;
        }
        if shown < all {
            let more = counted(all - shown, "more row");
            let _ = writeln!(
                out,
                "\n… and {more}, for which there is no room here; `--format json` has all."
            );
        }
        out.push('\n');
    };
    let heads = |first: &str, last: Option<&str>| -> Vec<String> {
        let last = last.map(str::to_owned);
        std::iter::once(first.to_owned())
            .chain(names.clone())
            .chain(last)
            .collect()
    };
    let mut about: Vec<Vec<String>> = vec![
        std::iter::once("folder".to_owned())
            .chain(of.columns.iter().map(|column| cell(&column.of)))
            .collect(),
        std::iter::once("runs".to_owned())
            .chain(of.columns.iter().map(|column| column.runs.to_string()))
            .collect(),
    ];
    about.extend(of.differs.iter().map(|fact| {
        std::iter::once(cell(&fact.name))
            .chain(fact.values.iter().map(|value| cell(value)))
            .collect()
    }));
    table(&mut out, &heads("", None), about);
    let costs = costs_of(runs);
    if !costs.is_empty() {
        out.push_str("## What things cost\n\n");
        let rows = costs.iter().map(|row| {
            let figures = row.costs.iter().map(|of| cell(&cost(*of)));
            std::iter::once(cell(row.name)).chain(figures).collect()
        });
        table(&mut out, &heads("", None), rows.collect());
    }
    let _ = writeln!(out, "## Cases\n\n{ABOUT_ORDER}\n");
    let rows = of.rows.iter().map(|row| {
        let figures = (0..of.columns.len()).map(|column| cell(&figure(row, column)));
        let name = format!("{}, {}", cell(&row.case), cell(&row.metric));
        std::iter::once(name)
            .chain(figures)
            .chain([cell(&order(of, row))])
            .collect()
    });
    table(&mut out, &heads("case", Some("order")), rows.collect());
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// The columns as JSON: `says` (who is ahead, in a line), `columns`, `differs`, `warnings`, `costs` (`name`, and by
/// column `value`, `ci95`, `unit`), `rows` (with `figures` by column and the `ranking`, best first).
#[must_use]
pub fn columns_json(of: &SideBySide, runs: &[&Results]) -> String {
    let costs: Vec<_> = costs_of(runs)
        .iter()
        .map(|row| {
            let cost = |of: &Option<&Cost>| {
                of.map(|of| json!({"value": of.value, "ci95": of.ci95, "unit": of.unit}))
            };
            json!({"name": row.name, "costs": row.costs.iter().map(cost).collect::<Vec<_>>()})
        })
        .collect();
    let document = json!({
        "says": ahead_line(of),
        "columns": of.columns,
        "differs": of.differs,
        "warnings": of.warnings,
        "costs": costs,
        "rows": of.rows,
    });
    format!("{document:#}")
}

#[cfg(test)]
mod tests {
    use threadgauge_results::Column;

    use super::*;

    #[test]
    fn what_is_not_known_is_never_said_to_be_about_the_same() {
        assert!(against(1.2, Some([1.1, 1.3]), true).starts_with("1.2"));
        assert!(against(1.2, Some([0.9, 1.6]), false).starts_with("≈ 1.2"));
        assert!(against(1.2, None, false).starts_with("? 1.2"));
    }

    #[test]
    fn of_columns_of_one_run_each_none_is_ahead() {
        let of = |runs: [usize; 2]| {
            let column = |runs| Column {
                name: "a".to_owned(),
                of: "a".to_owned(),
                runs,
            };
            ahead_line(&SideBySide {
                columns: runs.map(column).to_vec(),
                differs: Vec::new(),
                warnings: Vec::new(),
                rows: Vec::new(),
            })
        };
        let single = "2 columns side by side, of one run each: in none of 0 cases is it known who is ahead.";
        assert_eq!(of([1, 1]), single);
        let several = "2 columns side by side. Of 0 cases a is ahead in 0, a is ahead in 0; in 0 no one is told from the \
                       others.";
        assert_eq!(of([1, 3]), several);
    }
}
