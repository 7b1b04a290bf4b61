//! The workbook: a first sheet that tells of the others; verdicts and costs where there are any; the machine; a sheet
//! an experiment, with native charts; and two with all digits, what each case comes to and every raw value.
//!
//! Owns which sheets there are; [`page`] lays one out, [`lists`] has those of the whole run, [`sheet`] an experiment's,
//! [`figure`] its charts, [`raw`] the last two. What people read shows three digits in a unit that suits it, and the
//! cell holds all of them; what programs read is in the stored unit.

mod figure;
mod lists;
mod page;
mod raw;
mod sheet;

use std::collections::HashSet;

use rust_xlsxwriter::Workbook;
use threadgauge_results::outside::steers;
use threadgauge_results::{ExperimentResult, Results, units};

use crate::csv_file::Raw;
use crate::lead::Lead;
use crate::{ReportError, SampleRow, costs, facts, words};
use lists::Told;
use page::{OVERVIEW, SAMPLES, SUMMARIES};

/// The most characters a name of a sheet may have.
const NAME: usize = 31;

/// The workbook: an overview that leads to the other sheets, verdicts and costs where there are any, the machine, a
/// sheet an experiment with native charts, and all figures in full: a sheet of summaries and one of every raw value,
/// with the columns of [`samples_csv`](crate::samples_csv). Of more values than a sheet has rows it holds the first.
///
/// Text in it is never a formula, whatever it begins with. Makes a thread for each sheet.
///
/// # Panics
/// Where there may be no more threads.
///
/// # Errors
/// When the workbook cannot be built.
pub fn xlsx_buffer(results: &Results, samples: &[SampleRow<'_>]) -> Result<Vec<u8>, ReportError> {
    let raw = Raw::of(samples);
    let sheets = sheets(results, samples.len());
    let mut workbook = Workbook::new();
    let overview = workbook.add_worksheet().set_name(OVERVIEW)?;
    lists::overview(overview, results, sheets.iter().map(|(told, _)| told))?;
    for (told, holds) in &sheets {
        let sheet = workbook.add_worksheet().set_name(&told.name)?;
        match holds {
            Holds::Verdicts => lists::verdicts(sheet, results)?,
            Holds::Costs => lists::all_costs(sheet, results)?,
            Holds::Machine => lists::machine(sheet, results)?,
            Holds::Experiment(e) => sheet::write(sheet, &told.name, e)?,
            Holds::Summaries => raw::summaries(sheet, results)?,
            Holds::Samples => raw::samples(sheet, &raw, raw::ROWS)?,
        }
    }
    Ok(workbook.save_to_buffer()?)
}

/// What a sheet behind the first holds.
enum Holds<'r> {
    Verdicts,
    Costs,
    Machine,
    Experiment(&'r ExperimentResult),
    Summaries,
    Samples,
}

/// The sheets behind the first, and what it says of them.
fn sheets(results: &Results, samples: usize) -> Vec<(Told, Holds<'_>)> {
    let mut taken: HashSet<String> = [OVERVIEW, SUMMARIES, SAMPLES].map(str::to_lowercase).into();
    let mut sheets = Vec::new();
    let mut add = |wanted: &str, what: &str, says: String, holds| {
        let name = match holds {
            Holds::Summaries | Holds::Samples => wanted.to_owned(),
            _ => name(wanted, &mut taken),
        };
        let what = what.to_owned();
        sheets.push((Told { name, what, says }, holds));
    };
    let findings = || results.experiments.iter().flat_map(|e| &e.findings);
    let lists = Lead::of(results) == Lead::CostsAndClaims;
    if lists || findings().next().is_some() {
        let says = words::tally_line(words::tally(findings()));
        add(
            "Verdicts",
            "Which claims hold here, and what else was found",
            says,
            Holds::Verdicts,
        );
    }
    let n = costs::all(results).count();
    if n > 0 {
        let says = format!("{n} {}", words::plural(n, "cost", "costs"));
        add("Costs", "What things cost here", says, Holds::Costs);
    }
    let machine = facts::headline(&results.machine);
    add(
        "Machine",
        "All that is known about the machine and the run",
        machine,
        Holds::Machine,
    );
    for e in &results.experiments {
        add(&e.id, &e.question, crate::short_answer(e), Holds::Experiment(e));
    }
    let cases = results.experiments.iter().map(|e| e.cases.len()).sum();
    let says = format!(
        "{} {}",
        units::count(cases),
        words::plural(cases, "case", "cases")
    );
    add(
        SUMMARIES,
        "What each metric of each case comes to, in the stored units",
        says,
        Holds::Summaries,
    );
    let most = raw::ROWS as usize - 1;
    let says = match units::count(samples) {
        all if samples > most => format!(
            "the first {} of {all} values; samples.csv has all",
            units::count(most)
        ),
        all => format!("{all} {}", words::plural(samples, "value", "values")),
    };
    add(
        SAMPLES,
        "Every raw value in the stored units, as in samples.csv",
        says,
        Holds::Samples,
    );
    sheets
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
    fn of_more_values_than_rows_the_first_are_kept_and_it_is_said() {
        let text = include_str!("../../../runs/golden/chat/results.json");
        let results: Results = serde_json::from_str(text).unwrap();
        let says = |samples| sheets(&results, samples).pop().unwrap().0.says;
        let most = raw::ROWS as usize - 1;
        assert_eq!(says(1), "1 value");
        assert_eq!(says(most), "1\u{202f}048\u{202f}575 values");
        assert_eq!(
            says(most + 1),
            "the first 1\u{202f}048\u{202f}575 of 1\u{202f}048\u{202f}576 values; samples.csv has all"
        );
    }

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
