//! Two result folders side by side.

use threadgauge_report::{CompareReport, comparison_json, comparison_markdown, comparison_text};
use threadgauge_results::{ComparisonResult, compare as compare_runs};

use crate::cli::{CompareOptions, Format, Threshold};
use crate::folder;
use crate::output::{Done, Verdict, print, say, style};

/// Prints what changed from A to B; with `--fail-on` the exit code says whether too much did.
pub fn compare(options: &CompareOptions) -> Done {
    let (a, b) = (folder::read(&options.a)?, folder::read(&options.b)?);
    let compared = compare_runs(&a, &b);
    if compared.rows.is_empty() {
        return Err(anyhow::anyhow!("{} and {} have no case in common", a.name, b.name).into());
    }
    let report = CompareReport {
        a_name: a.name,
        b_name: b.name,
        warnings: compared.warnings,
        rows: compared.rows,
    };
    let format = if options.json {
        Format::Json
    } else {
        options.format
    };
    print(&match format {
        Format::Text => comparison_text(&report, &style()),
        Format::Markdown => comparison_markdown(&report),
        Format::Json => comparison_json(&report),
    })?;
    let Some(threshold) = options.fail_on else {
        return Ok(Verdict::Done);
    };
    let beyond: Vec<&ComparisonResult> = report.rows.iter().filter(|r| is_beyond(r, threshold)).collect();
    for row in &beyond {
        say(&format!(
            "slower than --fail-on allows: {} ({:.3})",
            row.b,
            row.ratio.unwrap_or(f64::NAN)
        ));
    }
    Ok(if beyond.is_empty() {
        Verdict::Done
    } else {
        Verdict::CheckFailed
    })
}

/// The whole interval lies above the threshold.
fn is_beyond(row: &ComparisonResult, threshold: Threshold) -> bool {
    row.ci95.is_some_and(|[low, _]| low > threshold.ratio)
}
