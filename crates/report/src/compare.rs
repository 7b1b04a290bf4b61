//! Two runs compared: what changed, by how much, how sure.
//!
//! The verdicts are in the rows already; this counts and words them. Ignorance is never printed as
//! equality: unknown rows are counted apart, with the reasons.

mod build;
mod junit;
#[cfg(test)]
mod made;
mod markdown;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use threadgauge_results::units::{self, Scale};
use threadgauge_results::{BetweenRuns, Compared, ComparisonResult, Judged, Known, Order, false_alarms};

use crate::Style;
use crate::terminal::text::{Ink, clean, paint, painted, paragraph};
use crate::words;

pub use build::{comparison_badge, comparison_badge_svg, comparison_github};
pub use junit::comparison_junit;
pub use markdown::comparison_markdown;

/// The verdicts, as they are counted. One that this version does not know counts as the last.
const VERDICTS: [&str; 5] = ["slower", "faster", "small", "same", "unknown"];

/// How many rows have which of them.
const fn counts(known: Known) -> [usize; 5] {
    [known.slower, known.faster, known.small, known.same, known.unknown]
}

/// What is known, in a line: the level, then the cases that differ, that are the same, and of which nothing is known.
pub(crate) fn known_line(compared: &Compared) -> String {
    let known = compared.known();
    let differ = known.slower + known.faster;
    let which = match (known.slower, known.faster) {
        (0, 0) => String::new(),
        (slower, 0) => format!(" ({slower} slower)"),
        (0, faster) => format!(" ({faster} faster)"),
        (slower, faster) => format!(" ({slower} slower, {faster} faster)"),
    };
    let same = known.small + known.same;
    let unknown = match known.unknown {
        0 => "none is unknown".to_owned(),
        some => format!(
            "of {some} ({}) nothing is known",
            units::percent(known.unknown_share())
        ),
    };
    format!(
        "{}. Of {} {differ} {}{which}, {same} {} the same within 3 %, and {unknown}.",
        level_line(compared),
        units::counted(known.cases(), "case"),
        words::plural(differ, "differs", "differ"),
        words::plural(same, "is", "are"),
    )
}

/// What is known of all cases together.
fn level_line(compared: &Compared) -> String {
    if let Some(between) = &compared.between
        && between.order != Order::Apart
        && let Some((ratio, ci95)) = between.level
    {
        return format!("Level {}", Scale::of("ratio", ratio).estimate(ratio, ci95));
    }
    match (compared.paired, compared.level) {
        (true, _) => "No level, since they took turns".to_owned(),
        (false, Some(level)) if compared.level_apart().is_some() => {
            format!("Level {}, the machine's or a change: unknown", plain(level.ratio))
        }
        (false, Some(level)) => format!("Level {}, within 3 %", plain(level.ratio)),
        (false, None) if compared.between.is_some_and(|of| of.order == Order::Alternating) => {
            "No level of so few cases".to_owned()
        }
        (false, None) => "Level unknown, of too few cases".to_owned(),
    }
}

/// What several runs a side say of one another, and what the ratios are.
fn runs(between: &BetweenRuns, compared: &Compared) -> String {
    let [a, b] = between.runs;
    let spread = between.spread.map_or_else(String::new, |spread| {
        format!(
            " Runs of a side lie {} apart (standard deviation, median over cases), and that is in the intervals.",
            units::percent(spread)
        )
    });
    match between.order {
        Order::InTurns => {
            let spread = spread.replace("Runs of a side", "Pairs");
            format!(
                "{} of runs that took turns: each pair has a ratio of its own.{spread}",
                units::counted(a, "pair")
            )
        }
        Order::Alternating => format!("Runs of both sides by turns, {b} against {a}.{spread}"),
        Order::Apart => {
            let level = match compared.level {
                Some(level) => format!(
                    " All {} together: {}; level or change: unknown. Ratios are departures from that.",
                    units::counted(level.cases, "case"),
                    plain(level.ratio)
                ),
                None => {
                    " They have too few cases in common to tell a change from what the machine did meanwhile."
                        .to_owned()
                }
            };
            format!(
                "Runs of the one side came before those of the other, {b} against {a}.{level}{spread} A change common to all \
                 cases needs runs by turns: now one of this side, now one of that."
            )
        }
    }
}

/// What the ratios are, and what they cannot tell.
pub(crate) fn setting(compared: &Compared) -> String {
    if let Some(between) = &compared.between {
        return runs(between, compared);
    }
    if compared.paired {
        return format!("The two took turns: their rounds are compared in pairs. {ONE_RUN}");
    }
    let Some(level) = compared.level else {
        let all = compared.median_ratio().map_or_else(String::new, |ratio| {
            format!(" The cases in common: {} in the median.", plain(ratio))
        });
        return format!(
            "The two did not take turns.{all} They have too few cases in common to tell what changed in one from what the \
             machine did to all: level or change: unknown. `threadgauge run --turns` tells it. {ONE_RUN}"
        );
    };
    format!(
        "The two did not take turns. All {} together: {}; level or change: unknown. Ratios are departures from \
         that, with {} of luck between runs added, as estimated from the cases. A change common to all cases needs \
         `threadgauge run --turns`. {ONE_RUN}",
        units::counted(level.cases, "case"),
        plain(level.ratio),
        units::percent(level.spread),
    )
}

/// Of two runs.
const ONE_RUN: &str = "One run a side: how far runs of one side lie apart is not known.";

/// A ratio without its interval.
fn plain(ratio: f64) -> String {
    Scale::of("ratio", ratio).estimate(ratio, None)
}

/// What it comes to where no case is called slower, faster or small.
fn nothing_called(compared: &Compared) -> String {
    if compared.nothing_differs() {
        return "Nothing differs by more than could be chance.".to_owned();
    }
    let Known { unknown, .. } = compared.known();
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
pub(crate) fn with<'a>(rows: &'a [ComparisonResult], verdict: &str) -> Vec<&'a ComparisonResult> {
    let mut rows: Vec<&ComparisonResult> = rows.iter().filter(|r| r.verdict == verdict).collect();
    let size = |r: &ComparisonResult| r.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows
}

/// The comparison for a terminal: what is known in a line, warnings, then the rows that differ, then counts.
#[must_use]
pub fn comparison_text(compared: &Compared, style: &Style) -> String {
    let mut out = painted(style, Ink::Bold, &known_line(compared), "");
    out.push('\n');
    for warning in &compared.warnings {
        out.push_str(&painted(style, Ink::Doubt, warning, "! "));
    }
    if !compared.warnings.is_empty() {
        out.push('\n');
    }
    let title = format!("{} against {}", compared.b_name, compared.a_name);
    out.push_str(&paragraph(&title, style.width, ""));
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
    let counts = counts(compared.known());
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
pub(crate) fn pair(row: &ComparisonResult) -> String {
    if row.a == row.b {
        clean(&row.b)
    } else {
        format!("{} against {}", clean(&row.b), clean(&row.a))
    }
}

/// The comparison as JSON: `a`, `b`, `says` (what is known, in a line), `warnings`, `paired`, `between` (several runs a
/// side: `runs`, `order`, `spread`, `level`), `level` (null where there is none), `nothing_differs`, `counts`,
/// `unknown_share`, `false_alarms_at_most`, `lost`, `check` (`passed` and `breaches`; null where none was asked for),
/// `rows`.
#[must_use]
pub fn comparison_json(compared: &Compared, judged: Option<&Judged>) -> String {
    let counts = VERDICTS.into_iter().zip(counts(compared.known()));
    let counts: BTreeMap<&str, usize> = counts.collect();
    let order = |order| match order {
        Order::InTurns => "in-turns",
        Order::Alternating => "alternating",
        Order::Apart => "apart",
    };
    let between = compared.between.map(|of| {
        let level = of
            .level
            .map(|(ratio, ci95)| json!({"ratio": ratio, "ci95": ci95}));
        json!({"runs": of.runs, "order": order(of.order), "spread": of.spread, "level": level})
    });
    let document = json!({
        "says": known_line(compared),
        "between": between,
        "unknown_share": compared.known().unknown_share(),
        "lost": compared.lost,
        "check": judged,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_runs_are_counted_in_words() {
        let says = |pairs| {
            let between = BetweenRuns {
                runs: [pairs; 2],
                order: Order::InTurns,
                spread: Some(0.01),
                level: None,
            };
            runs(&between, &made::compared(Vec::new()))
        };
        assert!(
            says(1).starts_with("1 pair of runs that took turns: "),
            "{}",
            says(1)
        );
        assert!(
            says(3).starts_with("3 pairs of runs that took turns: "),
            "{}",
            says(3)
        );
    }
}
