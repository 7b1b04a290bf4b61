//! Two runs compared: what changed, by how much, how sure.
//!
//! The verdicts are in the rows already; this counts and words them. Ignorance is never printed as
//! equality: unknown rows are counted apart, with the reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use threadgauge_results::units::{self, Scale};
use threadgauge_results::{Compared, ComparisonResult, false_alarms};

use crate::Style;
use crate::markdown::cell;
use crate::terminal::text::{Ink, clean, paint, painted, paragraph};
use crate::words;

/// The verdicts, as they are counted. One that this version does not know counts as the last.
const VERDICTS: [&str; 5] = ["slower", "faster", "small", "same", "unknown"];

/// How many rows have which of them.
fn counts(rows: &[ComparisonResult]) -> [usize; 5] {
    let mut counts = [0; 5];
    for row in rows {
        let place = VERDICTS.iter().position(|verdict| *verdict == row.verdict);
        counts[place.unwrap_or(VERDICTS.len() - 1)] += 1;
    }
    counts
}

/// What the ratios are, and what they cannot tell.
fn setting(compared: &Compared) -> String {
    if compared.paired {
        return "The two took turns: their rounds are compared in pairs.".to_owned();
    }
    let Some(level) = compared.level else {
        let all = compared.median_ratio().map_or_else(String::new, |ratio| {
            format!(" The cases in common: {} in the median.", plain(ratio))
        });
        return format!(
            "The two did not take turns.{all} They have too few cases in common to tell what changed in one from what the \
             machine did to all: level or change: unknown. `threadgauge run --turns` tells it."
        );
    };
    format!(
        "The two did not take turns. All {} together: {}; level or change: unknown. Ratios are departures from \
         that, with {} of luck between runs added. A change common to all cells needs `threadgauge run --turns`.",
        units::counted(level.cases, "case"),
        plain(level.ratio),
        units::percent(level.spread),
    )
}

/// A ratio without its interval.
fn plain(ratio: f64) -> String {
    Scale::of("ratio", ratio).estimate(ratio, None)
}

/// What it comes to where no case is called slower, faster or small.
fn nothing_called(compared: &Compared) -> String {
    if compared.nothing_differs() {
        return "Nothing differs by more than could be chance.".to_owned();
    }
    let [.., unknown] = counts(&compared.rows);
    let cells = match unknown {
        0 => "No case departs from the others by more than could be chance.".to_owned(),
        some => format!(
            "No case is called slower, faster or small, and {some} of {} {} unknown.",
            compared.rows.len(),
            words::plural(some, "is", "are")
        ),
    };
    let level = compared.level_apart().map(|level| {
        format!(
            " Whether the level of all, {}, is the machine's or a change is unknown.",
            plain(level.ratio)
        )
    });
    cells + &level.unwrap_or_default()
}

/// The rows with this verdict, the largest difference first.
fn with<'a>(rows: &'a [ComparisonResult], verdict: &str) -> Vec<&'a ComparisonResult> {
    let mut rows: Vec<&ComparisonResult> = rows.iter().filter(|r| r.verdict == verdict).collect();
    let size = |r: &ComparisonResult| r.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows
}

/// The comparison for a terminal: warnings, then the rows that differ, then counts.
#[must_use]
pub fn comparison_text(compared: &Compared, style: &Style) -> String {
    let mut out = String::new();
    for warning in &compared.warnings {
        out.push_str(&painted(style, Ink::Doubt, warning, "! "));
    }
    if !compared.warnings.is_empty() {
        out.push('\n');
    }
    let title = format!("{} against {}", compared.b_name, compared.a_name);
    out.push_str(&painted(style, Ink::Bold, &title, ""));
    out.push_str(&match compared.level_apart() {
        Some(_) => painted(style, Ink::Doubt, &setting(compared), ""),
        None => paragraph(&setting(compared), style.width, ""),
    });
    for (verdict, ink) in [("slower", Ink::Bad), ("faster", Ink::Good), ("small", Ink::Faint)] {
        let rows = with(&compared.rows, verdict);
        if rows.is_empty() {
            continue;
        }
        let head = format!("{} {verdict}", words::comparison_sign(verdict));
        let _ = write!(out, "\n{}\n", paint(style, ink, &head));
        for row in rows {
            let figure = format!("{:<22}", ratio(row).unwrap_or_default());
            let noise = if row.disturbed {
                ", in disturbed rounds"
            } else {
                ""
            };
            let what = format!("{}, {}{noise}", pair(row), units::metric_name(&row.metric));
            if style.width >= 72 {
                out.push_str(&paragraph(&what, style.width, &format!("  {figure} ")));
            } else {
                out.push_str(&paragraph(&figure, style.width, "  "));
                out.push_str(&paragraph(&what, style.width, "    "));
            }
        }
    }
    let counts = counts(&compared.rows);
    let [slower, faster, small, _, unknown] = counts;
    if slower + faster + small == 0 {
        out.push('\n');
        out.push_str(&paragraph(&nothing_called(compared), style.width, ""));
    }
    out.push('\n');
    out.push_str(&paragraph(&count_line(counts), style.width, ""));
    out.push_str(&paragraph(&words::by_chance(&compared.rows), style.width, ""));
    if unknown > 0 {
        out.push_str(&paragraph(&why_unknown(&compared.rows), style.width, ""));
    }
    out
}

/// How many rows are unknown for which reason.
fn why_unknown(rows: &[ComparisonResult]) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let unknown = with(rows, "unknown");
    let wide: Vec<u64> = unknown.iter().filter_map(|row| row.rounds_needed).collect();
    for row in unknown.iter().filter(|row| row.rounds_needed.is_none()) {
        *reasons
            .entry(row.reason.as_deref().unwrap_or("no reason was stored"))
            .or_default() += 1;
    }
    let most = wide.iter().max().map(|most| {
        format!(
            "{}: the interval is too wide; {} would settle the widest",
            wide.len(),
            units::counted(*most as usize, "round")
        )
    });
    let others = reasons
        .into_iter()
        .map(|(reason, count)| format!("{count}: {reason}"));
    let parts: Vec<String> = most.into_iter().chain(others).collect();
    format!("Unknown is not the same. {}.", parts.join(". "))
}

fn count_line(counts: [usize; 5]) -> String {
    let total: usize = counts.iter().sum();
    let share = |n: usize| units::percent(n as f64 / total.max(1) as f64);
    let parts = VERDICTS.into_iter().zip(counts);
    let parts = parts.map(|(name, n)| format!("{} {n} {name} ({})", words::comparison_sign(name), share(n)));
    format!(
        "{total} {}: {}",
        words::plural(total, "comparison", "comparisons"),
        parts.collect::<Vec<_>>().join(" · ")
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
pub fn comparison_markdown(compared: &Compared) -> String {
    let mut out = format!(
        "# {} against {}\n\n",
        cell(&compared.b_name),
        cell(&compared.a_name)
    );
    for warning in &compared.warnings {
        let _ = writeln!(out, "> **Warning:** {}\n", cell(warning));
    }
    let _ = writeln!(out, "{}\n", setting(compared));
    let counts = counts(&compared.rows);
    if let [0, 0, 0, ..] = counts {
        let _ = writeln!(out, "{}\n", nothing_called(compared));
    }
    let _ = writeln!(out, "{}\n", count_line(counts));
    let _ = writeln!(out, "{}\n", words::by_chance(&compared.rows));
    out.push_str("A ratio above 1 is slower than before.\n\n");
    out.push_str("| verdict | ratio | case | metric |\n|---|---|---|---|\n");
    let known = ["slower", "faster", "small", "unknown", "same"];
    let other = compared
        .rows
        .iter()
        .filter(|r| !known.contains(&r.verdict.as_str()));
    for row in known.iter().flat_map(|v| with(&compared.rows, v)).chain(other) {
        let _ = writeln!(
            out,
            "| {} {} | {} | {} | {} |",
            words::comparison_sign(&row.verdict),
            cell(&words::outcome(row)),
            ratio(row).unwrap_or_else(|| "–".to_owned()),
            cell(&pair(row)),
            cell(&row.metric),
        );
    }
    out
}

/// The comparison as JSON: `a`, `b`, `warnings`, `paired`, `level` (null where there is none), `nothing_differs`,
/// `counts`, `false_alarms_at_most`, `rows`.
#[must_use]
pub fn comparison_json(compared: &Compared) -> String {
    let counts = VERDICTS.into_iter().zip(counts(&compared.rows));
    let counts: BTreeMap<&str, usize> = counts.collect();
    let document = json!({
        "a": compared.a_name,
        "b": compared.b_name,
        "warnings": compared.warnings,
        "paired": compared.paired,
        "level": compared.level.map(|of| json!({"ratio": of.ratio, "spread": of.spread, "cases": of.cases})),
        "nothing_differs": compared.nothing_differs(),
        "counts": counts,
        "false_alarms_at_most": false_alarms(&compared.rows),
        "rows": compared.rows,
    });
    format!("{document:#}")
}
