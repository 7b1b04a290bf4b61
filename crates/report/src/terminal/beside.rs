//! Claims beside one another: what each of several runs says of them.

use threadgauge_results::Verdict;
use threadgauge_results::units::counted;

use super::ClaimRow;
use super::text::{Ink, Style, painted, paragraph};
use crate::words;

/// A claim, and what several runs say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimColumns {
    /// The claim; its state and figure are in the columns.
    pub claim: ClaimRow,
    /// By column: its name, and what each of its runs says.
    pub columns: Vec<(String, Vec<Said>)>,
    /// What the columns say together, of a claim about two states of a machine that no single run decides.
    pub together: Option<Said>,
}

/// What a run says of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// A verdict as in `results.json`, or `planned`, or `not run`.
    pub state: String,
    /// Its figure, as text.
    pub measured: Option<String>,
    /// Why it is inconclusive, not testable or not run.
    pub reason: Option<String>,
}

/// Every claim, those about two states of a machine first, with a line a column: how many stand how, what makes that
/// doubtful (`warnings`), then each.
#[must_use]
pub fn claims_beside(rows: &[ClaimColumns], warnings: &[String], style: &Style) -> String {
    let (states, others): (Vec<&ClaimColumns>, Vec<&ClaimColumns>) =
        rows.iter().partition(|row| row.together.is_some());
    let mut out = String::new();
    for line in [about_states(&states), about_columns(&others, &states)] {
        out.extend(line.map(|line| painted(style, Ink::Bold, &line, "")));
    }
    if !warnings.is_empty() {
        out.push('\n');
    }
    for warning in warnings {
        out.push_str(&painted(style, Ink::Doubt, warning, "! "));
    }
    for row in states.into_iter().chain(others) {
        out.push('\n');
        out.push_str(&paragraph(&row.claim.claim, style.width, ""));
        match &row.together {
            // A run of one state has nothing to say of it.
            Some(said) => {
                let said = column(std::slice::from_ref(said));
                out.push_str(&paragraph(&said, style.width, "  together: "));
            }
            None => {
                for (name, said) in &row.columns {
                    out.push_str(&paragraph(&column(said), style.width, &format!("  {name}: ")));
                }
            }
        }
        let mut lines = vec![format!("Rule: {}", row.claim.rule)];
        lines.extend(row.claim.published.as_ref().map(|of| format!("published {of}")));
        lines.extend(
            row.claim
                .note
                .as_ref()
                .map(|note| format!("Before quoting: {note}")),
        );
        lines.push(format!("{}: {}", row.claim.source, row.claim.id));
        for line in lines {
            out.push_str(&paragraph(&line, style.width, "  "));
        }
    }
    out
}

/// Of the claims about two states, how many the columns decide together, and how; none where there is no such claim.
fn about_states(rows: &[&ClaimColumns]) -> Option<String> {
    let stand = |verdict: Verdict| {
        let together = rows.iter().filter_map(|row| row.together.as_ref());
        together.filter(|said| said.state == verdict.key()).count()
    };
    let (hold, fail) = (stand(Verdict::Holds), stand(Verdict::DoesNotHold));
    let open = rows.len() - hold - fail;
    (!rows.is_empty()).then(|| {
        format!(
            "{} about two states of a machine: {hold} {}, {fail} {} not, {open} {} open.",
            counted(rows.len(), "claim"),
            words::plural(hold, "holds", "hold"),
            words::plural(fail, "does", "do"),
            words::plural(open, "is", "are"),
        )
    })
}

/// In how many of the claims that a run decides by itself columns contradict one another; none where those about two
/// states are all.
fn about_columns(rows: &[&ClaimColumns], states: &[&ClaimColumns]) -> Option<String> {
    if rows.is_empty() && !states.is_empty() {
        return None;
    }
    let differ = rows.iter().filter(|row| differs(row)).count();
    let which = if states.is_empty() { "claim" } else { "other claim" };
    Some(format!(
        "Of {} {differ} {} in one column and {} not in another.",
        counted(rows.len(), which),
        words::plural(differ, "holds", "hold"),
        words::plural(differ, "does", "do"),
    ))
}

/// Whether it holds by all runs of one column, and by none of another, both having decided.
fn differs(row: &ClaimColumns) -> bool {
    let all = |verdict: Verdict| {
        let says = |said: &[Said]| !said.is_empty() && said.iter().all(|of| of.state == verdict.key());
        row.columns.iter().any(|(_, said)| says(said))
    };
    all(Verdict::Holds) && all(Verdict::DoesNotHold)
}

/// What the runs of a column say: `✓ holds, 12.4 [12.1, 12.8]`; of several their counts, and all figures.
fn column(said: &[Said]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for of in said {
        match counted.iter_mut().find(|(state, _)| *state == of.state) {
            Some((_, count)) => *count += 1,
            None => counted.push((&of.state, 1)),
        }
    }
    let word = |state: &str| {
        let verdict = words::VERDICTS.into_iter().find(|verdict| verdict.key() == state);
        verdict.map_or_else(
            || state.to_owned(),
            |verdict| format!("{} {}", words::sign(verdict), words::word(verdict)),
        )
    };
    let states = counted.iter().map(|(state, count)| match said.len() {
        1 => word(state),
        all => format!("{} in {count} of {all}", word(state)),
    });
    let mut parts: Vec<String> = states.collect();
    parts.extend(said.iter().filter_map(|of| of.measured.clone()));
    // One reason is enough: runs of a side have the same, or the figures say it.
    let reason = said.iter().find_map(|of| of.reason.as_deref());
    let reason = reason.map_or_else(String::new, |reason| format!(". Why: {reason}"));
    format!("{}{reason}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(state: &str, measured: Option<&str>) -> Said {
        Said {
            state: state.to_owned(),
            measured: measured.map(str::to_owned),
            reason: None,
        }
    }

    fn row(columns: &[(&str, &[Said])]) -> ClaimColumns {
        ClaimColumns {
            claim: ClaimRow {
                id: "the-id".to_owned(),
                source: "Somebody (1999)".to_owned(),
                claim: "A process costs ten threads.".to_owned(),
                rule: "process over thread: at least 10".to_owned(),
                state: String::new(),
                measured: None,
                published: Some("13.1".to_owned()),
                reason: None,
                note: None,
            },
            together: None,
            columns: columns
                .iter()
                .map(|(name, said)| ((*name).to_owned(), said.to_vec()))
                .collect(),
        }
    }

    #[test]
    fn each_column_says_what_its_runs_say_and_where_they_differ_is_counted() {
        let of = row(&[
            ("kernel 6.1", &[said("holds", Some("12.4 [12.1, 12.8]"))]),
            (
                "kernel 6.6",
                &[
                    said("does-not-hold", Some("8.1")),
                    said("does-not-hold", Some("8.2")),
                ],
            ),
        ]);
        let torn = row(&[
            ("a", &[said("holds", None), said("inconclusive", None)]),
            ("b", &[said("not run: create", None)]),
        ]);
        let of_states = ClaimColumns {
            together: Some(said("holds", Some("1.01 [1.00, 1.02] by 3 runs of a and 3 of b"))),
            ..torn.clone()
        };
        insta::assert_snapshot!(claims_beside(&[of, torn, of_states], &[], &Style::default()));
    }

    #[test]
    fn claims_about_two_states_are_counted_apart_and_warnings_stand_above_all_claims() {
        let together = |state: &str| ClaimColumns {
            together: Some(said(state, None)),
            ..row(&[])
        };
        let rows = ["does-not-hold", "inconclusive", "not-testable", "holds"].map(together);
        let text = claims_beside(&rows, &["THE RUNS DIFFER".to_owned()], &Style::default());
        let begin = "4 claims about two states of a machine: 1 holds, 1 does not, 2 are open.\n\n! THE RUNS DIFFER\n\n";
        assert!(text.starts_with(begin), "{text}");
        assert!(!text.contains("in one column"), "no run decides these: {text}");
        let none = claims_beside(&[], &[], &Style::default());
        assert_eq!(none, "Of 0 claims 0 hold in one column and do not in another.\n");
    }
}
