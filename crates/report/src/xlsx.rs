//! The workbook: findings and costs where there are any, the machine, and a sheet an experiment, with real numbers and
//! native charts.
//!
//! Owns which sheets there are and their first three; [`sheet`] is an experiment's, [`cells`] writes into any. Numbers
//! are in the stored units and in full, because a spreadsheet calculates with them.

mod cells;
mod sheet;

use std::collections::HashSet;

use rust_xlsxwriter::{Format, FormatAlign, Workbook, Worksheet, XlsxError};
use threadgauge_results::Results;

use crate::facts::facts;
use crate::lead::Lead;
use crate::{ReportError, words};
use cells::{clip, head, number, text};
use threadgauge_results::outside::steers;

/// The most characters a name of a sheet may have.
const NAME: usize = 31;

/// The workbook: findings, costs, machine, and one sheet an experiment with native charts.
///
/// Text in it is never a formula, whatever it begins with. Makes a thread for each sheet.
///
/// # Panics
/// Where there may be no more threads.
///
/// # Errors
/// When the workbook cannot be built.
pub fn xlsx_buffer(results: &Results) -> Result<Vec<u8>, ReportError> {
    let mut workbook = Workbook::new();
    let mut taken = HashSet::new();
    let lists = Lead::of(results) == Lead::CostsAndClaims;
    let has_findings = results.experiments.iter().any(|e| !e.findings.is_empty());
    if lists || has_findings || !results.warnings.is_empty() {
        findings(
            workbook.add_worksheet().set_name(name("Findings", &mut taken))?,
            results,
        )?;
    }
    if lists {
        costs(
            workbook.add_worksheet().set_name(name("Costs", &mut taken))?,
            results,
        )?;
    }
    machine(
        workbook.add_worksheet().set_name(name("Machine", &mut taken))?,
        results,
    )?;
    for e in &results.experiments {
        let name = name(&e.id, &mut taken);
        sheet::write(workbook.add_worksheet().set_name(&name)?, &name, e)?;
    }
    Ok(workbook.save_to_buffer()?)
}

fn findings(sheet: &mut Worksheet, results: &Results) -> Result<(), XlsxError> {
    let heads = [
        ("experiment", 18.0),
        ("verdict", 16.0),
        ("finding", 70.0),
        ("here", 12.0),
        ("low", 12.0),
        ("high", 12.0),
        ("published", 12.0),
        ("unit", 9.0),
        ("as published", 24.0),
        ("claim", 40.0),
        ("why", 60.0),
    ];
    columns(sheet, &heads)?;
    let wrap = Format::new().set_text_wrap().set_align(FormatAlign::Top);
    let mut row = 1;
    for e in &results.experiments {
        for f in words::in_order(&e.findings) {
            text(sheet, row, 0, &e.id)?;
            text(sheet, row, 1, f.verdict.map_or("fact", words::word))?;
            sheet.write_with_format(row, 2, clip(&words::statement(f)), &wrap)?;
            number(sheet, row, 3, f.measured)?;
            number(sheet, row, 4, f.ci95.map(|c| c[0]))?;
            number(sheet, row, 5, f.ci95.map(|c| c[1]))?;
            number(sheet, row, 6, f.published)?;
            text(sheet, row, 7, &f.unit)?;
            text(sheet, row, 8, f.published_text.as_deref().unwrap_or_default())?;
            text(sheet, row, 9, f.claim.as_deref().unwrap_or_default())?;
            sheet.write_with_format(row, 10, clip(f.reason.as_deref().unwrap_or_default()), &wrap)?;
            row += 1;
        }
    }
    sheet.autofilter(0, 0, (row - 1).max(1), 10)?;
    for warning in &results.warnings {
        row += 1;
        text(sheet, row, 0, "warning")?;
        text(sheet, row, 2, warning)?;
    }
    Ok(())
}

/// Every cost of the run: those of the list *what things cost here* have a name.
fn costs(sheet: &mut Worksheet, results: &Results) -> Result<(), XlsxError> {
    let heads = [
        ("what is paid for", 44.0),
        ("kind", 24.0),
        ("here", 14.0),
        ("low", 14.0),
        ("high", 14.0),
        ("unit", 9.0),
        ("how", 52.0),
        ("published", 44.0),
        ("in the list as", 44.0),
        ("experiment", 18.0),
    ];
    columns(sheet, &heads)?;
    let mut row = 0;
    for e in &results.experiments {
        for cost in &e.costs {
            row += 1;
            text(sheet, row, 0, &cost.what)?;
            text(sheet, row, 1, &cost.kind)?;
            number(sheet, row, 2, Some(cost.value))?;
            number(sheet, row, 3, cost.ci95.map(|c| c[0]))?;
            number(sheet, row, 4, cost.ci95.map(|c| c[1]))?;
            text(sheet, row, 5, &cost.unit)?;
            text(sheet, row, 6, &cost.how)?;
            text(sheet, row, 7, cost.published.as_deref().unwrap_or_default())?;
            text(sheet, row, 8, cost.name.as_deref().unwrap_or_default())?;
            text(sheet, row, 9, &e.id)?;
        }
    }
    sheet.autofilter(0, 0, row.max(1), 9)?;
    Ok(())
}

/// The heads of a sheet's columns and their widths.
fn columns(sheet: &mut Worksheet, heads: &[(&str, f64)]) -> Result<(), XlsxError> {
    let texts: Vec<String> = heads.iter().map(|(text, _)| (*text).to_owned()).collect();
    head(sheet, 0, &texts)?;
    for (column, (_, width)) in (0..).zip(heads) {
        sheet.set_column_width(column, *width)?;
    }
    Ok(())
}

fn machine(sheet: &mut Worksheet, results: &Results) -> Result<(), XlsxError> {
    head(sheet, 0, &["fact".to_owned(), "value".to_owned()])?;
    sheet.set_column_width(0, 34)?.set_column_width(1, 90)?;
    let run = &results.run;
    let about = [
        ("run", run.id.clone()),
        ("started", run.started.clone()),
        ("profile", run.profile.clone()),
        ("options", run.options.join(" ")),
        ("seed", run.seed.to_string()),
        ("program", format!("threadgauge {}", run.version)),
        ("complete", if run.complete { "yes" } else { "no" }.to_owned()),
    ];
    let about = about.map(|(name, value)| (name.to_owned(), value)).into_iter();
    let facts = facts(&results.machine).into_iter().map(|f| (f.name, f.value));
    for (row, (name, value)) in (1..).zip(facts.chain(about)) {
        text(sheet, row, 0, &name)?;
        text(sheet, row, 1, &value)?;
    }
    Ok(())
}

/// A name a sheet may have and none has yet.
fn name(wanted: &str, taken: &mut HashSet<String>) -> String {
    let allowed = |c: char| {
        if steers(c) || "[]:*?/\\'".contains(c) {
            '-'
        } else {
            c
        }
    };
    let base: String = wanted.chars().map(allowed).take(NAME).collect();
    let base = if base.trim().is_empty() {
        "sheet".to_owned()
    } else {
        base
    };
    let mut name = base.clone();
    let mut n = 2;
    // Names differ in more than case, and `History` is Excel's own.
    while name.eq_ignore_ascii_case("history") || !taken.insert(name.to_lowercase()) {
        let suffix = format!(" {n}");
        let kept: String = base.chars().take(NAME - suffix.len()).collect();
        name = kept + &suffix;
        n += 1;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheets_have_names_excel_takes() {
        let mut taken = HashSet::new();
        let long = "x".repeat(40);
        let names: Vec<String> = [
            "create",
            "Create",
            "a/b:c",
            "",
            long.as_str(),
            long.as_str(),
            "History",
        ]
        .map(|n| name(n, &mut taken))
        .into();
        assert_eq!(names[..4], ["create", "Create 2", "a-b-c", "sheet"]);
        assert_eq!(names[4], "x".repeat(31));
        assert_eq!(names[5], format!("{} 2", "x".repeat(29)));
        assert_eq!(names[6], "History 2");
        assert!(names.iter().all(|n| n.chars().count() <= NAME));
    }
}
