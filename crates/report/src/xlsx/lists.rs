//! The sheets of the whole run: what the others are, the verdicts, the costs, the machine.

use rust_xlsxwriter::{Worksheet, XlsxError};
use threadgauge_results::units::Scale;
use threadgauge_results::{ExperimentResult, Finding, Results, Trust};

use super::page::{Cell, Look, Number, Page, SAMPLES, SUMMARIES};
use super::raw;
use crate::facts::{facts, headline};
use crate::lead::{self, NO_EXPERIMENT};
use crate::{costs, csv_file, words};

/// A sheet of the workbook, as the first tells of it.
pub(super) struct Told {
    pub name: String,
    /// What is in it: of an experiment its question.
    pub what: String,
    /// What it comes to: of an experiment its answer.
    pub says: String,
}

/// The first sheet: the machine, whether the run can be trusted, and what the other sheets are.
pub(super) fn overview<'t>(
    sheet: &mut Worksheet,
    results: &Results,
    sheets: impl IntoIterator<Item = &'t Told>,
) -> Result<(), XlsxError> {
    let mut page = Page::new(sheet);
    let run = &results.run;
    page.across(0, Look::Title, lead::headline(results));
    let profile = lead::profile(results).map_or_else(String::new, |profile| format!("Profile {profile}, "));
    page.across(
        1,
        Look::Plain,
        &format!(
            "{}. {profile}{}, threadgauge {}, seed {}.",
            headline(&results.machine),
            run.started,
            run.version,
            run.seed
        ),
    );
    let Trust { answer, says } = Trust::of(results);
    let trust = format!("Can this run be trusted? {}: {says}", answer.word());
    page.across(2, Look::Bold, &trust);
    let mut row = 3;
    for warning in &results.warnings {
        page.across(row, Look::Plain, &format!("Warning: {warning}"));
        row += 1;
    }
    if results.experiments.is_empty() {
        page.across(row, Look::Plain, NO_EXPERIMENT);
        row += 1;
    }
    page.across(
        row,
        Look::Plain,
        "Figures are shown to three digits, in the unit that is in the head of the column or beside them; a cell holds all \
         digits. Low and high are the ends of the interval.",
    );
    row += 2;
    page.heads(row, &["sheet", "what is in it", "what it says"])?;
    for told in sheets {
        row += 1;
        page.link(row, 0, (&told.name, 0))?;
        page.text(row, 1, &told.what)?;
        page.text(row, 2, &told.says)?;
    }
    let summaries = raw::SUMMARIES.map(|(name, meaning)| (name.to_owned(), meaning));
    for (of, columns) in [(SUMMARIES, summaries.to_vec()), (SAMPLES, csv_file::meanings())] {
        row += 2;
        page.heads(row, &[&format!("column of {of}"), "what is in it"])?;
        for (name, meaning) in columns {
            row += 1;
            page.text(row, 0, &name)?;
            page.text(row, 1, meaning)?;
        }
    }
    page.finish()
}

pub(super) fn verdicts(sheet: &mut Worksheet, results: &Results) -> Result<(), XlsxError> {
    let heads = [
        "experiment",
        "verdict",
        "claim",
        "what was found",
        "here",
        "low",
        "high",
        "published",
        "unit",
        "as published",
        "why",
        "claim's name",
    ];
    let mut page = Page::new(sheet);
    let mut findings: Vec<(&ExperimentResult, &Finding)> = Vec::new();
    for e in &results.experiments {
        findings.extend(words::in_order(&e.findings).into_iter().map(|f| (e, f)));
    }
    page.head(0, &heads, findings.len() as u32)?;
    for (row, (e, f)) in (1..).zip(findings) {
        let claim = f.claim.as_deref().and_then(threadgauge_results::claim);
        let scale = Scale::of(&f.unit, f.measured.or(f.published).unwrap_or(0.0));
        let figure = |value: Option<f64>| Cell::from(Number::of(&scale, value));
        let says = f.says.as_str();
        let cells = [
            Cell::from(e.id.as_str()),
            Cell::from(f.verdict.map_or("fact", words::word)),
            Cell::from(claim.map_or("", |claim| claim.claim.as_str())),
            Cell::from(says),
            figure(f.measured),
            figure(f.ci95.map(|ci| ci[0])),
            figure(f.ci95.map(|ci| ci[1])),
            figure(f.published),
            Cell::from(unit(&scale, &f.unit)),
            Cell::from(f.published_text.as_deref().unwrap_or_default()),
            Cell::from(f.reason.as_deref().unwrap_or_default()),
            Cell::from(f.claim.as_deref().unwrap_or_default()),
        ];
        for (column, cell) in (0..).zip(&cells) {
            page.cell(row, column, cell)?;
        }
    }
    page.finish()
}

/// Every cost of the run: those of the list *what things cost here* have a name.
pub(super) fn all_costs(sheet: &mut Worksheet, results: &Results) -> Result<(), XlsxError> {
    let heads = [
        "what is paid for",
        "kind",
        "here",
        "low",
        "high",
        "unit",
        "how",
        "published",
        "in the list as",
        "experiment",
    ];
    let mut page = Page::new(sheet);
    page.head(0, &heads, costs::all(results).count() as u32)?;
    let mut row = 0;
    for e in &results.experiments {
        for cost in &e.costs {
            row += 1;
            // One unit for all costs of a dimension, so that they can be sorted.
            let alike = costs::all(results).filter(|other| other.unit == cost.unit);
            let scale = Number::scale(&cost.unit, alike.map(|other| other.value));
            let figure = |value: Option<f64>| Cell::from(Number::of(&scale, value));
            let cells = [
                Cell::from(cost.what.as_str()),
                Cell::from(cost.kind.as_str()),
                figure(Some(cost.value)),
                figure(cost.ci95.map(|ci| ci[0])),
                figure(cost.ci95.map(|ci| ci[1])),
                Cell::from(unit(&scale, &cost.unit)),
                Cell::from(cost.how.as_str()),
                Cell::from(cost.published.as_deref().unwrap_or_default()),
                Cell::from(cost.name.as_deref().unwrap_or_default()),
                Cell::from(e.id.as_str()),
            ];
            for (column, cell) in (0..).zip(&cells) {
                page.cell(row, column, cell)?;
            }
        }
    }
    page.finish()
}

/// The unit of a figure in a word: of a plain number what it is.
fn unit<'u>(scale: &Scale<'u>, stored: &'u str) -> &'u str {
    if scale.name.is_empty() { stored } else { scale.name }
}

pub(super) fn machine(sheet: &mut Worksheet, results: &Results) -> Result<(), XlsxError> {
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
    let lines: Vec<(String, String)> = facts.chain(about).collect();
    let mut page = Page::new(sheet);
    page.head(0, &["fact", "value"], lines.len() as u32)?;
    for (row, (name, value)) in (1..).zip(&lines) {
        page.text(row, 0, name)?;
        page.text(row, 1, value)?;
    }
    page.finish()
}
