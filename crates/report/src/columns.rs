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
use crate::markdown::cell;
use crate::terminal::text::{Ink, clean, painted, paragraph};
use crate::{costs, merged};

/// What is known, in a line: of how many cases each column is ahead, and of how many none is; apart from them of those
/// on all CPUs of each.
pub(crate) fn ahead_line(of: &SideBySide) -> String {
    let columns = counted(of.columns.len(), "column");
    if of.columns.iter().all(|column| column.runs == 1) {
        return format!(
            "{columns} side by side, of one run each: in none of {} is it known who is ahead.",
            counted(of.rows.len(), "case")
        );
    }
    let (on_all, alike): (Vec<&CaseRow>, Vec<&CaseRow>) =
        of.rows.iter().partition(|row| row.differs_in_cpus());
    let mut line = format!("{columns} side by side.");
    let on_all_cpus = format!("On all CPUs of each, {UNEQUAL}, of");
    for (what, rows) in [("Of", alike), (on_all_cpus.as_str(), on_all)] {
        if !rows.is_empty() {
            let _ = write!(line, " {what} {}.", ahead_in(of, &rows));
        }
    }
    line
}

/// In how many of these cases each column is ahead.
fn ahead_in(of: &SideBySide, rows: &[&CaseRow]) -> String {
    let ahead: Vec<Option<usize>> = rows.iter().map(|row| row.ahead()).collect();
    let parts = of.columns.iter().enumerate().map(|(i, column)| {
        let cases = ahead.iter().filter(|first| **first == Some(i)).count();
        format!("{} is ahead in {cases}", column.name)
    });
    let open = ahead.iter().filter(|first| first.is_none()).count();
    format!(
        "{} {}; in {open} no one is told from the others",
        counted(rows.len(), "case"),
        parts.collect::<Vec<_>>().join(", "),
    )
}

/// What is said of all CPUs where columns differ in their number.
const UNEQUAL: &str = "not equally many";

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

/// What a row is of, and whether its columns differ in the number of CPUs.
pub(crate) fn called(row: &CaseRow) -> String {
    let metric = units::metric_name(&row.metric);
    if row.differs_in_cpus() {
        format!("{}, {metric}; all CPUs of each, {UNEQUAL}", row.case)
    } else {
        format!("{}, {metric}", row.case)
    }
}

/// The figure of a column, in the scale of its row; where columns differ in the number of CPUs, with that.
pub(crate) fn figure(row: &CaseRow, column: usize) -> String {
    let Some(figure) = row.figures[column] else {
        return "–".to_owned();
    };
    let shown = scale(row).estimate(figure.value, figure.ci95);
    match row.all_cpus.get(column).copied().flatten() {
        Some(cpus) => format!("{shown} on {}", counted(cpus as usize, "CPU")),
        None => shown,
    }
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

/// How the rows are read.
pub(crate) fn about_order<'a>(rows: impl IntoIterator<Item = &'a CaseRow>) -> String {
    if rows.into_iter().any(CaseRow::differs_in_cpus) {
        format!("{ABOUT_ORDER} {ABOUT_ALL_CPUS}")
    } else {
        ABOUT_ORDER.to_owned()
    }
}

const ABOUT_ORDER: &str = "Each case has its best first; behind the others is their ratio to it with its interval, ≈ where \
    they are not told apart, and ? where nothing is known of that, as of one run each.";

const ABOUT_ALL_CPUS: &str = "A case of all CPUs is each machine's with all that it has: with other CPUs, and, where it says \
    so many × all, with so many units for each of them. Who is ahead there may be for their number alone.";

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
            let own = of.rows.iter().filter(|other| other.experiment == experiment);
            out.push_str(&paragraph(&about_order(own), style.width, ""));
        }
        let head = clean(&called(row));
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
    let _ = writeln!(out, "## Cases\n\n{}\n", about_order(&of.rows));
    let rows = of.rows.iter().map(|row| {
        let figures = (0..of.columns.len()).map(|column| cell(&figure(row, column)));
        std::iter::once(cell(&called(row)))
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
/// column `value`, `ci95`, `unit`), `tables` (by `experiment`, each with a column a run), `rows` (with `figures` by
/// column, the `ranking`, best first, and `all_cpus` by column where that differs).
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
    let names: Vec<&str> = of.columns.iter().map(|column| column.name.as_str()).collect();
    let tables: Vec<_> = merged::tables(&names, runs)
        .into_iter()
        .map(|(experiment, table)| json!({"experiment": experiment, "table": table}))
        .collect();
    let document = json!({
        "says": ahead_line(of),
        "columns": of.columns,
        "differs": of.differs,
        "warnings": of.warnings,
        "costs": costs,
        "tables": tables,
        "rows": of.rows,
    });
    format!("{document:#}")
}

#[cfg(test)]
mod tests {
    use threadgauge_results::{Column, Placed, Quantity};

    use super::*;

    #[test]
    fn what_is_not_known_is_never_said_to_be_about_the_same() {
        assert!(against(1.2, Some([1.1, 1.3]), true).starts_with("1.2"));
        assert!(against(1.2, Some([0.9, 1.6]), false).starts_with("≈ 1.2"));
        assert!(against(1.2, None, false).starts_with("? 1.2"));
    }

    fn columns(runs: [usize; 2], rows: Vec<CaseRow>) -> SideBySide {
        let column = |runs| Column {
            name: "a".to_owned(),
            of: "a".to_owned(),
            runs,
        };
        SideBySide {
            columns: runs.map(column).to_vec(),
            differs: Vec::new(),
            warnings: Vec::new(),
            rows,
        }
    }

    #[test]
    fn a_row_of_unequally_many_cpus_says_so_and_is_counted_apart() {
        let row = |all_cpus: &[Option<u64>]| CaseRow {
            experiment: "compute".to_owned(),
            case: "compute/units=all,cpus=all".to_owned(),
            metric: "elapsed_ns".to_owned(),
            unit: "ns".to_owned(),
            figures: vec![
                Some(Quantity {
                    value: 100.0,
                    ci95: None
                });
                2
            ],
            ranking: [0, 1]
                .map(|column| Placed {
                    column,
                    ratio: 1.0,
                    ci95: None,
                    apart: column == 1,
                })
                .to_vec(),
            all_cpus: all_cpus.to_vec(),
        };
        let (alike, differs) = (row(&[]), row(&[Some(2), Some(16)]));
        assert_eq!(called(&alike), "compute/units=all,cpus=all, elapsed");
        assert_eq!(
            called(&differs),
            "compute/units=all,cpus=all, elapsed; all CPUs of each, not equally many"
        );
        assert_eq!([0, 1].map(|column| figure(&alike, column)), ["100 ns", "100 ns"]);
        let on = ["100 ns on 2 CPUs", "100 ns on 16 CPUs"];
        assert_eq!([0, 1].map(|column| figure(&differs, column)), on);
        assert_eq!(
            ahead_line(&columns([3, 3], vec![differs.clone()])),
            "2 columns side by side. On all CPUs of each, not equally many, of 1 case a is ahead in 1, a is ahead in 0; in 0 \
             no one is told from the others."
        );
        let both = columns([3, 3], vec![alike, differs]);
        assert_eq!(
            ahead_line(&both),
            "2 columns side by side. Of 1 case a is ahead in 1, a is ahead in 0; in 0 no one is told from the others. On all \
             CPUs of each, not equally many, of 1 case a is ahead in 1, a is ahead in 0; in 0 no one is told from the others."
        );
        for text in [
            columns_text(&both, &[], &Style::default()),
            columns_markdown(&both, &[]),
            crate::columns_html(&both, &[]),
        ] {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for part in ["on 16 CPUs", "may be for their number alone"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    /// A run in which these things cost so many ns, with an interval of ±10 %.
    fn run(costs: &[(&str, f64)]) -> Results {
        let text = include_str!("../../../runs/golden/chat/results.json");
        let mut results: Results = serde_json::from_str(text).unwrap();
        results.experiments.truncate(1);
        let cost = |&(name, ns): &(&str, f64)| {
            Cost::new(("", ""), "", (ns, Some([0.9 * ns, 1.1 * ns])), "ns").named(name)
        };
        results.experiments[0].costs = costs.iter().map(cost).collect();
        results
    }

    #[test]
    fn what_things_cost_has_a_column_a_run_in_every_form() {
        let a = run(&[("make a thread", 12_400.0), ("switch", 300.0)]);
        let b = run(&[("switch", 200.0), ("wake a thread", 900.0)]);
        let runs = [&a, &b];
        let rows = costs_of(&runs);
        let shown: Vec<String> = rows
            .iter()
            .map(|row| format!("{}: {}, {}", row.name, cost(row.costs[0]), cost(row.costs[1])))
            .collect();
        assert_eq!(
            shown,
            [
                "switch: 300 [270, 330] ns, 200 [180, 220] ns",
                "make a thread: 12.4 [11.2, 13.6] µs, –",
                "wake a thread: –, 900 [810, 990] ns",
            ]
        );
        let side = columns([1, 1], Vec::new());
        let text = columns_text(&side, &runs, &Style::default());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains(
                "What things cost switch a: 300 [270, 330] ns a: 200 [180, 220] ns make a thread a: 12.4 [11.2, 13.6] µs a: –"
            ),
            "{text}"
        );
        let markdown = columns_markdown(&side, &runs);
        assert!(
            markdown.contains("\n| make a thread | 12.4 [11.2, 13.6] µs | – |\n"),
            "{markdown}"
        );
        let page = crate::columns_html(&side, &runs);
        assert!(page.contains("<td>12.4 [11.2, 13.6] µs</td><td>–</td>"), "{page}");
        let document: serde_json::Value = serde_json::from_str(&columns_json(&side, &runs)).unwrap();
        let of = &document["costs"][1];
        assert_eq!(of["name"], "make a thread");
        assert_eq!(of["costs"][0]["value"], 12_400.0);
        assert!(of["costs"][1].is_null(), "{of}");
    }

    #[test]
    fn of_more_than_ten_costs_ten_are_in_columns() {
        let names = "a b c d e f g h i j k l".split(' ');
        let costs: Vec<(&str, f64)> = names.zip((1..).map(f64::from)).collect();
        let (a, b) = (run(&costs), run(&costs));
        assert_eq!(costs_of(&[&a, &b]).len(), 10);
    }

    #[test]
    fn of_columns_of_one_run_each_none_is_ahead() {
        let of = |runs| ahead_line(&columns(runs, Vec::new()));
        let single = "2 columns side by side, of one run each: in none of 0 cases is it known who is ahead.";
        assert_eq!(of([1, 1]), single);
        assert_eq!(of([1, 3]), "2 columns side by side.");
    }
}
