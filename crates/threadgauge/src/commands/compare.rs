//! Two result folders side by side.

use threadgauge_report::{comparison_json, comparison_markdown, comparison_text};
use threadgauge_results::outside::clean;
use threadgauge_results::units::counted;
use threadgauge_results::{ComparisonResult, Results, Status, compare as compare_runs};

use crate::cli::{CompareOptions, Format, Threshold};
use crate::folder;
use crate::output::{Done, Verdict, print, print_json_text, say, style};

/// Prints what changed from A to B; with `--fail-on` the exit code says whether too much did.
pub fn compare(options: &CompareOptions) -> Done {
    let (a, b) = (folder::read(&options.a)?, folder::read(&options.b)?);
    let compared = compare_runs(&a, &b);
    if compared.rows.is_empty() {
        return Err(
            anyhow::anyhow!("{} and {} have no case in common", a.name, b.name)
                .context("nothing can be compared"),
        );
    }
    let format = if options.json {
        Format::Json
    } else {
        options.format
    };
    match format {
        Format::Text => print(&comparison_text(&compared, &style())),
        Format::Markdown => print(&comparison_markdown(&compared)),
        Format::Json => print_json_text(&comparison_json(&compared)),
    }?;
    let Some(threshold) = options.fail_on else {
        return Ok(Verdict::Done);
    };
    let lost = lost(&a.results, &b.results);
    for case in &lost {
        say(&format!("B has no figures of a case that A has: {}", clean(case)));
    }
    let open = compared.rows.iter().filter(|r| r.ci95.is_none()).count();
    if open > 0 {
        say(&format!(
            "without an interval {open} of {} could not be judged",
            counted(compared.rows.len(), "case")
        ));
    }
    let none_judged = open == compared.rows.len();
    let beyond: Vec<&ComparisonResult> = compared.rows.iter().filter(|r| is_beyond(r, threshold)).collect();
    for row in &beyond {
        say(&format!(
            "slower than --fail-on allows: {} ({:.3})",
            clean(&row.b),
            row.ratio.unwrap_or(f64::NAN)
        ));
    }
    // What all cases share may be the machine's level, but a check that cannot be made is not passed.
    let level = compared
        .level
        .map(|level| level.ratio)
        .filter(|ratio| *ratio > threshold.ratio);
    if let Some(ratio) = level {
        say(&format!(
            "all cases together are slower than --fail-on allows ({ratio:.3}): level or change is unknown; let the two runs take \
             turns (--turns)"
        ));
    }
    let passed = beyond.is_empty() && lost.is_empty() && !none_judged && level.is_none();
    Ok(if passed {
        Verdict::Done
    } else {
        Verdict::CheckFailed
    })
}

/// The cases that have figures in A and none in B: what cannot run any more is no success.
fn lost(a: &Results, b: &Results) -> Vec<String> {
    let cases = |of: &Results| -> Vec<(String, Status)> {
        let cases = of.experiments.iter().flat_map(|e| &e.cases);
        cases.map(|c| (c.id.clone(), c.status)).collect()
    };
    let of_b = cases(b);
    let has_none = |id: &String| {
        of_b.iter()
            .any(|(other, status)| other == id && *status != Status::Ok)
    };
    let of_a = cases(a)
        .into_iter()
        .filter(|(id, status)| *status == Status::Ok && has_none(id));
    of_a.map(|(id, _)| id).collect()
}

/// The whole interval lies above the threshold.
fn is_beyond(row: &ComparisonResult, threshold: Threshold) -> bool {
    row.ci95.is_some_and(|[low, _]| low > threshold.ratio)
}
