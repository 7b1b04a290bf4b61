//! A comparison for a pull request: what is flagged first, the rest folded, and all of it within what a comment holds.

use std::fmt::Write as _;

use threadgauge_results::units::counted;
use threadgauge_results::{Compared, ComparisonResult, Judged, Known};

use super::{count_line, counts, known_line, nothing_called, pair, ratio, setting, with};
use crate::markdown::cell;
use crate::words;

/// The most bytes of it: a comment on GitHub holds 65,536 characters.
const MOST: usize = 60_000;
/// Of these for what stands above the tables: many long warnings leave room for the cases.
const MOST_ABOVE: usize = 20_000;
/// Kept for what closes a table and says what was cut.
const ENDS: usize = 400;

/// The comparison as Markdown of at most 60 KB: what is known, what became of a check, the cases that differ, and the
/// others folded. What does not fit is counted.
#[must_use]
pub fn comparison_markdown(compared: &Compared, judged: Option<&Judged>) -> String {
    let mut out = format!(
        "# {} against {}\n\n**{}**\n\n",
        cell(&short(&compared.b_name)),
        cell(&short(&compared.a_name)),
        known_line(compared)
    );
    if let Some(judged) = judged {
        let _ = writeln!(out, "**{judged}.**\n");
        let breaches = judged.breaches.iter().map(|breach| {
            let case = breach.case.as_ref();
            let case = case.map_or_else(String::new, |case| format!("{}: ", cell(case)));
            format!("- {case}{}\n", cell(&breach.says))
        });
        list(&mut out, breaches, MOST_ABOVE / 2, "reason");
    }
    let warnings = compared.warnings.iter();
    let warnings = warnings.map(|warning| format!("> **Warning:** {}\n\n", cell(warning)));
    list(&mut out, warnings, MOST_ABOVE, "warning");
    let _ = writeln!(out, "{}\n", setting(compared));
    let known = compared.known();
    if let Known {
        slower: 0,
        faster: 0,
        small: 0,
        ..
    } = known
    {
        let _ = writeln!(out, "{}\n", nothing_called(compared));
    }
    let _ = writeln!(out, "{}\n", count_line(counts(known)));
    let _ = writeln!(out, "{}\n", words::by_chance(&compared.rows));
    out.push_str("A ratio above 1 is slower than before.\n\n");
    let rows = |verdicts: &[&str]| -> Vec<&ComparisonResult> {
        verdicts
            .iter()
            .flat_map(|verdict| with(&compared.rows, verdict))
            .collect()
    };
    let differing = rows(&["slower", "faster", "small"]);
    if !differing.is_empty() {
        table(&mut out, &differing);
    }
    let same = rows(&["same"]);
    let told =
        |row: &&ComparisonResult| ["slower", "faster", "small", "same"].contains(&row.verdict.as_str());
    // A verdict that this version does not know is none.
    let mut unknown = rows(&["unknown"]);
    unknown.extend(
        compared
            .rows
            .iter()
            .filter(|row| row.verdict != "unknown" && !told(row)),
    );
    for (rows, says) in [
        (unknown, "Cases of which nothing is known"),
        (same, "Cases that are the same"),
    ] {
        if !rows.is_empty() {
            let _ = writeln!(out, "<details>\n<summary>{says}: {}</summary>\n", rows.len());
            table(&mut out, &rows);
            out.push_str("</details>\n\n");
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Names are of folders, which may be long.
fn short(name: &str) -> String {
    match name.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Those that end before so many bytes, and how many more there are.
fn list(out: &mut String, items: impl IntoIterator<Item = String>, most: usize, noun: &str) {
    let mut left_out = 0;
    let mut any = false;
    for item in items {
        any = true;
        if left_out == 0 && out.len() + item.len() <= most {
            out.push_str(&item);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        let _ = writeln!(out, "\n… and {}.", counted(left_out, &format!("more {noun}")));
    }
    if any && !out.ends_with("\n\n") {
        out.push('\n');
    }
}

/// The rows that fit, and how many more there are.
fn table(out: &mut String, rows: &[&ComparisonResult]) {
    out.push_str("| verdict | ratio | case | metric |\n|---|---|---|---|\n");
    let mut left_out = 0;
    for row in rows {
        let line = format!(
            "| {} {} | {} | {} | {} |\n",
            words::comparison_sign(&row.verdict),
            cell(&words::outcome(row)),
            ratio(row).unwrap_or_else(|| "–".to_owned()),
            cell(&pair(row)),
            cell(&row.metric),
        );
        if left_out == 0 && out.len() + line.len() + ENDS <= MOST {
            out.push_str(&line);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        let _ = writeln!(
            out,
            "\n… and {}, for which there is no room here; `--format json` has all.",
            counted(left_out, "more case")
        );
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::made;

    fn compared(cases: usize, verdict: &str, words: &str) -> Compared {
        let row = |n: usize| made::row(&format!("e/case={n},{words}"), verdict);
        made::compared((0..cases).map(row).collect())
    }

    #[test]
    fn what_does_not_fit_is_cut_with_a_count_and_the_flagged_come_first() {
        let long = "x".repeat(120);
        let mut of = compared(1_000, "same", &long);
        of.rows.extend(compared(3, "slower", "late").rows);
        of.warnings = vec!["w".repeat(3_000); 20];
        (of.a_name, of.b_name) = ("n".repeat(5_000), "m".repeat(5_000));
        let breach = threadgauge_results::Breach {
            case: Some("c".repeat(300)),
            says: "slower".to_owned(),
        };
        let judged = Judged {
            passed: false,
            breaches: vec![breach; 400],
        };
        let text = comparison_markdown(&of, Some(&judged));
        assert!((50_000..=MOST).contains(&text.len()), "{}", text.len());
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is not in it"));
        assert!(at("case=2,late") < at("<details>"));
        assert!(
            text.contains("<summary>Cases that are the same: 1000</summary>"),
            "{}",
            &text[at("<summary>")..][..60]
        );
        assert!(text.contains("more warnings.") && text.contains("more reasons."));
        let shown = text.matches("| = same |").count();
        let cut = text
            .split("… and ")
            .last()
            .unwrap()
            .split(" more case")
            .next()
            .unwrap();
        assert_eq!(
            cut.replace('\u{202f}', "").parse::<usize>().unwrap() + shown,
            1_000
        );
        assert!(text.ends_with("</details>\n"));
    }

    #[test]
    fn a_check_stands_above_all_but_what_is_known() {
        let of = compared(1, "slower", "x");
        let gate = threadgauge_results::Gate::of(&["slower:5%".parse().unwrap()]).unwrap();
        let text = comparison_markdown(&of, Some(&gate.judge(&of)));
        let says = "**The check failed for 1 reason.**\n\n- e/case=0,x: slower than --fail-on allows (1.200)\n\nThe two";
        assert!(text.contains(says), "{text}");
        let gate = threadgauge_results::Gate::of(&["slower:50%".parse().unwrap()]).unwrap();
        let text = comparison_markdown(&of, Some(&gate.judge(&of)));
        assert!(text.contains("**The check passed.**\n\nThe two"), "{text}");
        assert!(!text.contains("<details>"));
    }
}
