//! Two runs compared: what changed, by how much, how sure.
//!
//! The verdicts are in the rows already; this counts and words them. Ignorance is never printed as
//! equality: unknown rows are counted apart, with the rounds that would settle them.

use std::fmt::Write as _;

use serde_json::json;
use threadgauge_results::units::{self, Scale};
use threadgauge_results::{ComparisonResult, Level, false_alarms};

use crate::Style;
use crate::markdown::cell;
use crate::terminal::text::{Ink, clean, paint, paragraph};
use crate::words;

/// Two runs, compared case by case.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareReport {
    /// What to call the first run, e.g. its folder.
    pub a_name: String,
    /// What to call the second.
    pub b_name: String,
    /// Other machine, other kernel, other version: why the figures may not be comparable.
    pub warnings: Vec<String>,
    /// Whether the two took turns, so that their rounds are pairs.
    pub paired: bool,
    /// What all cases of runs that took no turns have in common.
    pub level: Option<Level>,
    /// One row a case and metric; `ratio` is second over first, over the level where there is one.
    pub rows: Vec<ComparisonResult>,
}

/// How many rows have which verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The second run is faster.
    pub faster: usize,
    /// The second run is slower.
    pub slower: usize,
    /// Equal within 3 %.
    pub same: usize,
    /// Different, but by less than what counts.
    pub small: usize,
    /// Undecided, or a verdict this version does not know.
    pub unknown: usize,
}

impl Counts {
    /// All rows.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.faster + self.slower + self.same + self.small + self.unknown
    }

    fn named(self) -> [(&'static str, usize); 5] {
        [
            ("slower", self.slower),
            ("faster", self.faster),
            ("small", self.small),
            ("same", self.same),
            ("unknown", self.unknown),
        ]
    }
}

impl CompareReport {
    /// Rows by verdict.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for row in &self.rows {
            match row.verdict.as_str() {
                "faster" => counts.faster += 1,
                "slower" => counts.slower += 1,
                "same" => counts.same += 1,
                "small" => counts.small += 1,
                _ => counts.unknown += 1,
            }
        }
        counts
    }

    /// What the ratios are, and what they cannot tell.
    fn setting(&self) -> String {
        if self.paired {
            return "The two took turns: their rounds are compared in pairs.".to_owned();
        }
        let Some(level) = self.level else {
            return "The two did not take turns, and they have too few cases in common to tell what changed in one from what \
                    the machine did to all: level or change: unknown. `threadgauge run --turns` tells it."
                .to_owned();
        };
        format!(
            "The two did not take turns. All {} cases together: {}; level or change: unknown. Ratios are departures from \
             that, with {} of luck between runs added. A change common to all cells needs `threadgauge run --turns`.",
            level.cases,
            Scale::of("ratio", level.ratio).estimate(level.ratio, None),
            units::percent(level.spread),
        )
    }

    /// The rows with this verdict, the largest difference first.
    fn with(&self, verdict: &str) -> Vec<&ComparisonResult> {
        let mut rows: Vec<&ComparisonResult> = self.rows.iter().filter(|r| r.verdict == verdict).collect();
        let size = |r: &ComparisonResult| r.ratio.map_or(0.0, |ratio| ratio.ln().abs());
        rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
        rows
    }
}

/// The comparison for a terminal: warnings, then the rows that differ, then counts.
#[must_use]
pub fn comparison_text(report: &CompareReport, style: &Style) -> String {
    let mut out = String::new();
    for warning in &report.warnings {
        out.push_str(&paint(
            style,
            Ink::Doubt,
            paragraph(warning, style.width, "! ").trim_end(),
        ));
        out.push('\n');
    }
    if !report.warnings.is_empty() {
        out.push('\n');
    }
    let title = format!("{} against {}", report.b_name, report.a_name);
    out.push_str(&paint(
        style,
        Ink::Bold,
        paragraph(&title, style.width, "").trim_end(),
    ));
    out.push('\n');
    out.push_str(&paragraph(&report.setting(), style.width, ""));
    for (verdict, ink) in [("slower", Ink::Bad), ("faster", Ink::Good), ("small", Ink::Faint)] {
        let rows = report.with(verdict);
        if rows.is_empty() {
            continue;
        }
        let head = format!("{} {verdict}", words::comparison_sign(verdict));
        let _ = write!(out, "\n{}\n", paint(style, ink, &head));
        for row in rows {
            let figure = format!("{:<22}", ratio(row).unwrap_or_default());
            let what = format!("{}, {}", pair(row), units::metric_name(&row.metric));
            if style.width >= 72 {
                out.push_str(&paragraph(&what, style.width, &format!("  {figure} ")));
            } else {
                out.push_str(&paragraph(&figure, style.width, "  "));
                out.push_str(&paragraph(&what, style.width, "    "));
            }
        }
    }
    let counts = report.counts();
    if counts.slower + counts.faster + counts.small == 0 {
        out.push('\n');
        out.push_str(&paragraph(
            "Nothing differs by more than could be chance.",
            style.width,
            "",
        ));
    }
    out.push('\n');
    out.push_str(&paragraph(&count_line(&counts), style.width, ""));
    out.push_str(&paragraph(&words::by_chance(&report.rows), style.width, ""));
    if counts.unknown > 0 {
        let most = report.rows.iter().filter_map(|r| r.rounds_needed).max();
        let advice = match most {
            Some(n) => format!("Unknown is not the same: {n} rounds would settle the widest of them."),
            None => {
                "Unknown is not the same: these have too few rounds, or no figures in one run.".to_owned()
            }
        };
        out.push_str(&paragraph(&advice, style.width, ""));
    }
    out
}

fn count_line(counts: &Counts) -> String {
    let total = counts.total();
    let share = |n: usize| units::percent(n as f64 / total.max(1) as f64);
    let parts = counts
        .named()
        .map(|(name, n)| format!("{} {} {name} ({})", words::comparison_sign(name), n, share(n)));
    format!(
        "{total} {}: {}",
        words::plural(total, "comparison", "comparisons"),
        parts.join(" · ")
    )
}

/// `1.15 [1.12, 1.18]`
fn ratio(row: &ComparisonResult) -> Option<String> {
    let value = row.ratio?;
    Some(Scale::of("ratio", value).estimate(value, row.ci95))
}

/// The case, or the two cases where they differ.
fn pair(row: &ComparisonResult) -> String {
    if row.a == row.b {
        clean(&row.b)
    } else {
        format!("{} against {}", clean(&row.b), clean(&row.a))
    }
}

/// The comparison as Markdown: every row.
#[must_use]
pub fn comparison_markdown(report: &CompareReport) -> String {
    let mut out = format!("# {} against {}\n\n", cell(&report.b_name), cell(&report.a_name));
    for warning in &report.warnings {
        let _ = writeln!(out, "> **Warning:** {}\n", cell(warning));
    }
    let _ = writeln!(out, "{}\n", count_line(&report.counts()));
    let _ = writeln!(out, "{}\n", words::by_chance(&report.rows));
    let _ = writeln!(out, "{}\n", report.setting());
    out.push_str("A ratio above 1 is slower than before.\n\n");
    out.push_str("| verdict | ratio | case | metric | rounds needed |\n|---|---|---|---|---|\n");
    let known = ["slower", "faster", "small", "unknown", "same"];
    let other = report
        .rows
        .iter()
        .filter(|r| !known.contains(&r.verdict.as_str()));
    for row in known.iter().flat_map(|v| report.with(v)).chain(other) {
        let _ = writeln!(
            out,
            "| {} {} | {} | {} | {} | {} |",
            words::comparison_sign(&row.verdict),
            cell(&row.verdict),
            ratio(row).unwrap_or_else(|| "–".to_owned()),
            cell(&pair(row)),
            cell(&row.metric),
            row.rounds_needed
                .map_or_else(|| "–".to_owned(), |n| n.to_string()),
        );
    }
    out
}

/// The comparison as JSON: `a`, `b`, `warnings`, `paired`, `level` (null where there is none), `counts`,
/// `false_alarms_at_most`, `rows`.
#[must_use]
pub fn comparison_json(report: &CompareReport) -> String {
    let counts: serde_json::Map<String, serde_json::Value> = report
        .counts()
        .named()
        .map(|(name, n)| (name.to_owned(), json!(n)))
        .into_iter()
        .collect();
    let document = json!({
        "a": report.a_name,
        "b": report.b_name,
        "warnings": report.warnings,
        "paired": report.paired,
        "level": report.level.map(|of| json!({"ratio": of.ratio, "spread": of.spread, "cases": of.cases})),
        "counts": counts,
        "false_alarms_at_most": false_alarms(&report.rows),
        "rows": report.rows,
    });
    format!("{document:#}")
}
