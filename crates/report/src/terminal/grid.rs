//! The cases as a grid that fits, or, where none does, as blocks of `key: value`.
//!
//! What gives way as the terminal narrows: the interval's two ends for its half-width in percent, then every
//! metric but the first, then a column a parameter (a case is named by what differs from the reference), then
//! the grid itself.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, Color, Table, presets};
use threadgauge_results::units::Scale;
use threadgauge_results::{CaseResult, ExperimentResult, Status};

use super::text::{Ink, Style, clean, painted, paragraph};
use crate::cases::{Cases, Metric};
use crate::words;

/// How much a grid shows.
#[derive(Debug, Clone, Copy)]
struct Detail {
    metrics: usize,
    ends: bool,
    naming: Naming,
}

/// How a case is told from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// A column a parameter.
    Columns,
    /// What differs from the reference case, in one column.
    Differences,
}

/// All cases, with the sentences that explain them.
pub(super) fn cases(e: &ExperimentResult, style: &Style) -> String {
    let columns = Cases::of(e);
    let all = columns.main_metrics().len();
    let detail = |naming, metrics, ends| Detail {
        metrics,
        ends,
        naming,
    };
    let details = [
        detail(Naming::Columns, all, true),
        detail(Naming::Columns, all, false),
        detail(Naming::Differences, all, true),
        detail(Naming::Columns, 1, true),
        detail(Naming::Columns, 1, false),
        detail(Naming::Differences, 1, true),
        detail(Naming::Differences, 1, false),
    ];
    let reasons: Vec<String> = words::reasons(e).into_iter().map(|(reason, _)| reason).collect();
    let fitting = details.into_iter().find_map(|detail| {
        let text = grid(e, &columns, detail, &reasons, style);
        let width = grid(
            e,
            &columns,
            detail,
            &reasons,
            &Style {
                colour: false,
                ..*style
            },
        )
        .lines()
        .map(|l| l.chars().count())
        .max();
        (width.unwrap_or(0) <= style.width).then_some((text, detail))
    });
    let short = fitting.as_ref().is_none_or(|(_, detail)| !detail.ends);
    let left_out = fitting
        .as_ref()
        .map_or(all.saturating_sub(1), |(_, d)| all.saturating_sub(d.metrics));
    let differences = fitting
        .as_ref()
        .is_some_and(|(_, d)| d.naming == Naming::Differences);
    let mut out = fitting.map_or_else(|| blocks(e, &columns, style), |(text, _)| text);
    let mut line = columns.figures_line();
    if short {
        line.push_str(" Shown is the wider half of it.");
    }
    if left_out > 0 {
        let _ = write!(
            line,
            " {left_out} more {} in the report.",
            words::plural(left_out, "metric is", "metrics are")
        );
    }
    if let (true, Some(reference)) = (differences, reference(e)) {
        let _ = write!(
            line,
            " A case is named by what differs from {}.",
            reference.params
        );
    }
    let shared = columns.shared_line();
    out.push_str(&paragraph(&format!("{line} {shared}"), style.width, "  "));
    for (i, reason) in reasons.iter().enumerate() {
        out.push_str(&paragraph(reason, style.width, &format!("  [{}] ", i + 1)));
    }
    out
}

fn grid(
    e: &ExperimentResult,
    columns: &Cases<'_>,
    detail: Detail,
    reasons: &[String],
    style: &Style,
) -> String {
    let metrics = &columns.main_metrics()[..detail.metrics.min(columns.main_metrics().len())];
    let notes = columns.has_notes();
    let mut table = Table::new();
    table.load_style(
        presets::NOTHING.header_separator(comfy_table::LineStyle::none().fill('─').junction('─')),
    );
    if style.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let params: &[_] = match detail.naming {
        Naming::Columns => &columns.params,
        Naming::Differences => &[],
    };
    let named = (detail.naming == Naming::Differences).then(|| "case".to_owned());
    let heads = params.iter().map(|p| clean(&p.replace('_', " "))).chain(named);
    let heads = heads.chain(metrics.iter().map(|m| in_two_lines(&clean(&m.head()))));
    table.set_header(heads.chain(notes.then(|| "note".to_owned())));
    for case in &e.cases {
        let named = (detail.naming == Naming::Differences).then(|| Cell::new(clean(&differences(e, case))));
        let params = params
            .iter()
            .map(|p| Cell::new(clean(&Cases::param(case, p))))
            .chain(named);
        let figures = metrics.iter().map(|m| Cell::new(shown(m, case, detail.ends)));
        let note = notes.then(|| note_cell(columns, case, reasons));
        table.add_row(params.chain(figures).chain(note));
    }
    for (i, param) in params.iter().enumerate() {
        let is_number = |c: &CaseResult| c.params.get(param).is_none() || c.params.int(param).is_some();
        if let Some(column) = table.column_mut(i).filter(|_| e.cases.iter().all(is_number)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let mut out: String = table.lines().map(|l| format!(" {}\n", l.trim_end())).collect();
    out.push('\n');
    out
}

fn reference(e: &ExperimentResult) -> Option<&CaseResult> {
    let id = e.reference.as_ref()?;
    e.cases.iter().find(|c| c.id == *id)
}

/// The parameters in which a case differs from the reference; the reference by its word.
fn differences(e: &ExperimentResult, case: &CaseResult) -> String {
    let Some(reference) = reference(e) else {
        return case.params.to_string();
    };
    let differs = case
        .params
        .iter()
        .filter(|(name, value)| reference.params.get(name) != Some(value));
    let differs: Vec<String> = differs.map(|(name, value)| format!("{name}={value}")).collect();
    if differs.is_empty() {
        "the reference".to_owned()
    } else {
        differs.join(" ")
    }
}

/// A long head, broken near its middle.
fn in_two_lines(head: &str) -> String {
    let length = head.chars().count();
    let spaces = head.char_indices().filter(|(_, c)| *c == ' ').map(|(at, _)| at);
    match spaces.min_by_key(|at| at.abs_diff(head.len() / 2)) {
        Some(at) if length > 12 => format!("{}\n{}", &head[..at], &head[at + 1..]),
        _ => head.to_owned(),
    }
}

fn shown(metric: &Metric<'_>, case: &CaseResult, ends: bool) -> String {
    match metric.of(case) {
        Some(s) if ends => metric.scale.estimate_number(s.median, s.ci95),
        Some(s) => metric.scale.estimate_short(s.median, s.ci95),
        None => "–".to_owned(),
    }
}

fn note_cell(columns: &Cases<'_>, case: &CaseResult, reasons: &[String]) -> Cell {
    let cell = Cell::new(clean(&note(columns, case, reasons)));
    if case.status == Status::Ok {
        cell
    } else {
        cell.fg(Color::DarkRed)
    }
}

/// A failure with the number of its reason below the table, then remarks.
fn note(columns: &Cases<'_>, case: &CaseResult, reasons: &[String]) -> String {
    let mut parts = Vec::new();
    if case.status != Status::Ok {
        let number = reasons
            .iter()
            .position(|r| Some(r.as_str()) == case.reason.as_deref());
        let number = number.map_or_else(String::new, |n| format!(" [{}]", n + 1));
        parts.push(format!("{}{number}", words::status(case.status)));
    }
    parts.extend(columns.remarks(case));
    parts.join("; ")
}

fn blocks(e: &ExperimentResult, columns: &Cases<'_>, style: &Style) -> String {
    let reasons: Vec<String> = words::reasons(e).into_iter().map(|(reason, _)| reason).collect();
    let mut out = String::new();
    for case in &e.cases {
        out.push_str(&paragraph(&columns.short_name(case), style.width, " "));
        for metric in columns.main_metrics() {
            if let Some(s) = metric.of(case) {
                // Alone in its block, a figure has a unit of its own.
                let scale = Scale::of(metric.unit, s.median);
                let half = scale.estimate_short(s.median, s.ci95);
                let text = match half.split_once(" ±") {
                    Some((number, half)) => format!("{number} {} ±{half}", scale.name),
                    None => format!("{half} {}", scale.name),
                };
                let text = format!("{}: {text}", threadgauge_results::units::metric_name(metric.name));
                out.push_str(&paragraph(&text, style.width, "   "));
            }
        }
        let note = note(columns, case, &reasons);
        if !note.is_empty() {
            let ink = if case.status == Status::Ok {
                Ink::Faint
            } else {
                Ink::Bad
            };
            out.push_str(&painted(style, ink, &note, "   "));
        }
    }
    out.push('\n');
    out
}
