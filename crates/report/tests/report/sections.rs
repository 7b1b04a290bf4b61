//! An experiment's section in every committed run: what is open, that nothing is lost in its fold, and the order.

use threadgauge_report::{markdown, short_answer};
use threadgauge_results::{BY_RUNTIME, ExperimentResult, Verdict};

use super::first::{Run, runs, text};

/// The section of an experiment: what is open, and what its fold holds.
fn section<'p>(page: &'p str, e: &ExperimentResult) -> (&'p str, &'p str) {
    let start = format!("id=\"e-{}\" aria-labelledby", e.id);
    let (_, from) = page
        .split_once(&start)
        .unwrap_or_else(|| panic!("no section of {}", e.id));
    let (section, _) = from.split_once("</section>").unwrap();
    section.split_once("<details class=\"everything\">").unwrap()
}

#[test]
fn a_section_opens_with_question_answer_number_and_one_picture_and_folds_the_rest() {
    for Run {
        name: run,
        results,
        page,
    } in runs()
    {
        let leads = !page.contains("id=\"short\"");
        for e in &results.experiments {
            let at = format!("{run}, {}", e.id);
            let (open, folded) = section(page, e);
            let said = text(open);
            assert!(leads || said.contains(&escaped(&e.question)), "{at}: {said}");
            assert_eq!(open.matches("<p class=\"answer\">").count(), 1, "{at}");
            assert!(!e.answer.is_empty(), "{at}: it answers nothing");
            assert_eq!(
                open.matches("<p class=\"number\">").count(),
                usize::from(e.number.is_some()),
                "{at}"
            );
            let charts = e.figures.len();
            assert_eq!(open.matches("<figure ").count(), charts.min(1), "{at}");
            assert_eq!(
                folded.matches("<figure ").count(),
                charts.saturating_sub(1),
                "{at}"
            );
            let tables = "<div class=\"scroll\"";
            assert_eq!(
                open.contains(tables),
                leads && !e.tables.is_empty() || has_data(open),
                "{at}"
            );
            for part in ["-cases\"", "-method\""] {
                assert!(folded.contains(&format!("id=\"e-{}{part}", e.id)), "{at}: {part}");
            }
            for finding in &e.findings {
                match &finding.claim {
                    Some(claim) => assert!(folded.contains(&link(claim)), "{at}: {claim}"),
                    None => assert!(
                        text(folded).contains(&plain(&finding.says)),
                        "{at}: {}",
                        finding.says
                    ),
                }
            }
        }
    }
}

/// The link to a claim's line.
fn link(claim: &str) -> String {
    format!("href=\"#claim-{}\"", claim.replace('.', "_2e"))
}

/// Whether a chart has its figures as a table, which is folded beside it.
fn has_data(open: &str) -> bool {
    open.contains("<details class=\"data\"")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// As a page says it: escaped, sources by their names, and commands without the ticks around them.
fn plain(text: &str) -> String {
    escaped(&threadgauge_results::published::cited(text)).replace('`', "")
}

#[test]
fn what_to_do_and_the_number_of_an_answer_can_be_seen() {
    let (mut advised, mut numbers) = (0, 0);
    for Run {
        name: run,
        results,
        page,
    } in runs()
    {
        for e in &results.experiments {
            let said = text(section(page, e).0);
            assert!(said.contains(&plain(&short_answer(e))), "{run}, {}", e.id);
            if !e.advice.is_empty() {
                assert!(
                    e.answer.ends_with(&e.advice),
                    "{run}, {}: it is a part of the answer",
                    e.id
                );
                assert!(said.contains(&plain(&e.advice)), "{run}, {}: {}", e.id, e.advice);
                advised += 1;
            }
            if let Some(number) = &e.number {
                assert!(
                    said.contains(&plain(&number.of)),
                    "{run}, {}: {}",
                    e.id,
                    number.of
                );
                let is_divided = [" ÷ ", ", how much more than ", " against "]
                    .into_iter()
                    .any(|words| number.of.contains(words));
                let is_a_part = matches!(
                    number.unit.as_str(),
                    "ratio" | "share" | "overhead" | "difference"
                );
                assert_eq!(
                    is_divided,
                    is_a_part || number.unit == "%",
                    "{run}, {}: {number:?}",
                    e.id
                );
                numbers += 1;
            }
        }
    }
    assert!(
        advised >= 5 && numbers >= 60,
        "{advised} advise, {numbers} numbers"
    );
}

#[test]
fn an_experiment_whose_claims_are_decided_has_a_number() {
    for Run {
        name: run, results, ..
    } in runs()
    {
        for e in &results.experiments {
            let decided = e
                .findings
                .iter()
                .any(|f| matches!(f.verdict, Some(Verdict::Holds | Verdict::DoesNotHold)));
            let is_answered =
                !e.answer.starts_with("What would answer this") && !e.answer.starts_with("No case of");
            assert!(!decided || !is_answered || e.number.is_some(), "{run}, {}", e.id);
        }
    }
}

#[test]
fn the_control_comes_last_in_every_report() {
    let mut seen = 0;
    for Run {
        name: run,
        results,
        page,
    } in runs()
    {
        let Some(at) = results.experiments.iter().position(|e| e.id == "null") else {
            continue;
        };
        assert_eq!(at + 1, results.experiments.len(), "{run}");
        let said = markdown(results);
        for (report, start) in [
            (page, "<section class=\"experiment\" id=\"e-"),
            (&said, "\n### Method of "),
        ] {
            let last = report.rsplit(start).next().unwrap();
            assert!(
                last.starts_with("null"),
                "{run}: {}",
                last.get(..40).unwrap_or(last)
            );
        }
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}

/// Whether a text has a number of somebody's notes: `N-07`, `L172`.
fn has_a_note(text: &str) -> Option<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let is_note = |word: &&str| {
        let digits = word
            .strip_prefix("N-")
            .or(word.strip_prefix("P-"))
            .or(word.strip_prefix('L'));
        digits.is_some_and(|of| of.len() >= 2 && of.bytes().all(|b| b.is_ascii_digit()))
    };
    words.into_iter().find(is_note)
}

#[test]
fn no_report_has_a_source_by_its_number_or_what_only_builders_know() {
    assert_eq!(has_a_note("as L180 says"), Some("L180"));
    assert_eq!(has_a_note("is not given (N-28)"), Some("N-28"));
    assert_eq!(has_a_note("P-state, L2, N-1, 5N-11"), None);
    for Run {
        name: run,
        results,
        page,
    } in runs()
    {
        for report in [page.clone(), markdown(results)] {
            let report = match report.split_once("<body>") {
                // The words of charts for who cannot see them are read, too.
                Some((_, body)) => body.split("<script").next().unwrap().to_owned(),
                None => report,
            };
            for word in ["ource 00", "crates/", "golden", "mutant", "TODO", ".rs`"] {
                assert!(!report.contains(word), "{run}: {word}");
            }
            assert_eq!(has_a_note(&text(&report)), None, "{run}");
        }
    }
}

#[test]
fn what_a_unit_costs_by_runtime_is_seen_once_beside_what_it_costs_by_kind() {
    let mut of_runtimes = 0;
    for Run {
        name: run,
        results,
        page,
    } in runs()
    {
        let Some(table) = results.tables.iter().find(|table| table.id == BY_RUNTIME) else {
            continue;
        };
        of_runtimes += 1;
        let anchor = format!("id=\"t-{BY_RUNTIME}\"");
        assert_eq!(page.matches(&anchor).count(), 1, "{run}");
        let (_, units) = page.split_once("<section id=\"units\"").unwrap();
        let (units, _) = units.split_once("</section>").unwrap();
        let (_, seen) = units.split_once(&anchor).unwrap();
        let (seen, _) = seen.split_once("<h3").unwrap();
        for row in &table.rows {
            assert!(
                text(seen).contains(&plain(&row[0])),
                "{run}: no row of {}",
                row[0]
            );
        }
        let written = markdown(results);
        assert_eq!(
            written.matches(&format!("# {}\n", table.title)).count(),
            1,
            "{run}"
        );
    }
    assert!(of_runtimes > 0, "no stored run has guests");
}
