//! The first screen of every committed run: sayings as cards, each with all its parts; counts with links; one figure
//! for one question; and of a run without sayings its answer.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use threadgauge_report::html;
use threadgauge_results::{Results, Verdict};

use super::attributes;

/// A committed run.
pub(super) struct Run {
    pub name: String,
    pub results: Results,
    pub page: String,
}

/// All of them. Their pages are drawn once.
pub(super) fn runs() -> &'static [Run] {
    static RUNS: OnceLock<Vec<Run>> = OnceLock::new();
    RUNS.get_or_init(drawn)
}

fn drawn() -> Vec<Run> {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs");
    let folders = |of: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(of).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let all = folders(&runs).into_iter().chain(folders(&runs.join("golden")));
    let read = |folder: PathBuf| {
        let text = std::fs::read_to_string(folder.join("results.json")).ok()?;
        let results: Results = serde_json::from_str(&text).unwrap();
        let page = html(&results, &[]);
        let name = folder.display().to_string();
        Some(Run { name, results, page })
    };
    let read: Vec<_> = all.filter_map(read).collect();
    assert!(read.len() > 25, "the runs are there: {}", read.len());
    read
}

/// The cards of a page, those of sayings and those of answers.
pub(super) fn cards(page: &str) -> (Vec<&str>, Vec<&str>) {
    let Some((_, from)) = page.split_once("<section id=\"sayings\"") else {
        return Default::default();
    };
    let (section, _) = from.split_once("</section>").unwrap();
    let cards = section.split("<li class=\"card ").skip(1);
    cards.partition(|card| !card.starts_with("told"))
}

/// What stands in the first element of this class.
pub(super) fn part<'a>(of: &'a str, class: &str) -> &'a str {
    let (_, from) = of
        .split_once(&format!("class=\"{class}\">"))
        .unwrap_or_else(|| panic!("no {class}: {of}"));
    from.split_once("</p>").map_or(from, |(inside, _)| inside)
}

/// Text alone.
pub(super) fn text(markup: &str) -> String {
    let mut inside = false;
    let is_text = |c: &char| {
        let was = inside;
        inside = (*c == '<') || (inside && *c != '>');
        !inside && !was
    };
    markup.chars().filter(is_text).collect()
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let findings = results.experiments.iter().flat_map(|e| &e.findings);
    findings.filter_map(|f| f.verdict).collect()
}

#[test]
fn a_card_has_the_saying_who_said_it_and_when_the_figure_and_the_verdict() {
    let mut of_five = 0;
    for Run { name, page, .. } in runs() {
        let (sayings, answers) = cards(page);
        assert!(sayings.len() + answers.len() <= 5, "{name}");
        of_five += usize::from(sayings.len() == 5);
        for card in sayings {
            assert!(text(part(card, "saying")).ends_with('.'), "{name}: {card}");
            let who = text(part(card, "by"));
            let year = |word: &str| {
                word.trim_matches(['(', ')', ',', ';', '.'])
                    .parse::<u32>()
                    .is_ok_and(|y| (1990..2100).contains(&y))
            };
            assert!(who.split(' ').any(year), "{name}: when was it said? {who}");
            assert!(
                text(part(card, "figure")).starts_with(|c: char| c.is_ascii_digit() || c == '−'),
                "{name}: {card}"
            );
            assert!(text(part(card, "of")).contains("needs "), "{name}: {card}");
            let verdict = text(part(card, "verdict"));
            assert!(
                verdict.ends_with("holds") || verdict.ends_with("does not hold"),
                "{name}: {verdict}"
            );
        }
    }
    assert!(of_five > 3, "{of_five} runs have five sayings");
}

#[test]
fn what_does_not_hold_comes_first_and_of_a_sources_experiment_one_before_any_second() {
    for Run { name, page, .. } in runs() {
        let (sayings, _) = cards(page);
        let ids = sayings.iter().flat_map(|card| attributes(card, "href"));
        let ids: Vec<&str> = ids.filter(|id| id.starts_with("#claim-")).collect();
        let claims: Vec<_> = (ids.iter())
            .map(|id| {
                threadgauge_results::claim(&id.trim_start_matches("#claim-").replace("_2e", ".")).unwrap()
            })
            .collect();
        let of = |i: usize| (&claims[i].source, &claims[i].decided_by);
        let seen: HashSet<_> = (0..claims.len()).map(of).collect();
        let firsts = seen.len();
        let first: HashSet<_> = (0..firsts).map(of).collect();
        assert_eq!(first.len(), firsts, "{name}: {ids:?}");
        let holds = sayings[..firsts].iter().map(|card| card.starts_with("holds"));
        assert!(holds.is_sorted(), "{name}: {ids:?}");
    }
}

#[test]
fn a_saying_has_one_figure_in_its_card_and_in_the_list() {
    let mut compared = 0;
    for Run { name, page, .. } in runs() {
        for card in cards(page).0 {
            let id = attributes(card, "href")[0].trim_start_matches('#');
            let (_, row) = page
                .split_once(&format!("<li id=\"{id}\""))
                .unwrap_or_else(|| panic!("{name}: no {id}"));
            let (_, told) = row.split_once("here <b>").unwrap();
            let (told, _) = told.split_once("</b>").unwrap();
            assert_eq!(
                text(part(card, "figure")).trim_end(),
                told.trim_end(),
                "{name}: {id}"
            );
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn a_saying_in_per_cent_has_a_figure_in_per_cent() {
    let mut told = 0;
    for Run { results, page, .. } in runs() {
        for finding in results.experiments.iter().flat_map(|e| &e.findings) {
            let Some(claim) = finding.claim.as_deref().and_then(threadgauge_results::claim) else {
                continue;
            };
            let decided = matches!(finding.verdict, Some(Verdict::Holds | Verdict::DoesNotHold));
            // Nothing can be cut by 600 %: that saying says itself that it means a sixth.
            let in_percent = claim.claim.contains(" %") && claim.id != "nptl-create-destroy-6x-cheaper";
            if decided && in_percent && finding.measured.is_some() {
                let (_, row) = page
                    .split_once(&format!("<li id=\"claim-{}\"", claim.id))
                    .unwrap();
                let (ours, _) = row.split_once("</summary>").unwrap();
                let (_, ours) = ours.split_once("here <b>").unwrap();
                assert!(
                    ours.split("the rule").all(|part| part.contains('%')),
                    "{}: {ours}",
                    claim.id
                );
                told += 1;
            }
        }
    }
    assert!(told > 2, "{told}");
}

#[test]
fn each_count_links_to_a_list_that_is_there_and_together_they_count_every_claim() {
    for Run { name, results, page } in runs() {
        let all = verdicts(results).len();
        let Some((_, counts)) = page.split_once("class=\"counts\">") else {
            assert_eq!(all, 0, "{name}");
            continue;
        };
        let (counts, _) = counts.split_once("</p>").unwrap();
        let ids: HashSet<&str> = attributes(page, "id").into_iter().collect();
        for href in attributes(counts, "href") {
            assert!(ids.contains(href.trim_start_matches('#')), "{name}: {href}");
        }
        let numbers = counts.split("<b>").skip(1).map(|n| n.split_once('<').unwrap().0);
        let sum: usize = numbers.map(|n| n.parse::<usize>().unwrap()).sum();
        assert_eq!(sum, all, "{name}");
    }
}

#[test]
fn a_run_without_sayings_has_its_answer_in_their_place_and_no_frame_is_empty() {
    let mut without = 0;
    for Run { name, results, page } in runs() {
        let (sayings, answers) = cards(page);
        let decided = verdicts(results)
            .iter()
            .any(|v| matches!(v, Verdict::Holds | Verdict::DoesNotHold));
        if !decided {
            without += 1;
            assert!(sayings.is_empty(), "{name}");
            let first = &results.experiments[0];
            assert!(
                !answers.is_empty() || page.contains("class=\"answer\""),
                "{name}: {}",
                first.answer
            );
        }
        for answer in answers {
            assert!(!text(part(answer, "said")).is_empty(), "{name}: {answer}");
        }
        assert!(!page.contains("measured nothing that belongs here"), "{name}");
    }
    assert!(without > 5, "{without}");
}

#[test]
fn the_sayings_that_are_wrong_are_named_and_the_others_counted() {
    let mut of_more = 0;
    for Run { name, results, page } in runs() {
        let wrong = verdicts(results)
            .iter()
            .filter(|v| **v == Verdict::DoesNotHold)
            .count();
        let Some((_, answer)) = page.split_once("Which saying is wrong here?") else {
            assert_eq!(wrong, 0, "{name}");
            continue;
        };
        let (answer, _) = answer.split_once("</dd>").unwrap();
        let named: Vec<&str> = attributes(answer, "href")
            .into_iter()
            .filter(|href| href.starts_with("#claim-"))
            .collect();
        assert_eq!(named.len(), wrong.min(3), "{name}: {answer}");
        assert_eq!(answer.matches('“').count(), named.len(), "{name}: {answer}");
        // Those of the cards come first, in their order.
        let cards = cards(page).0;
        let on_cards = cards.iter().filter(|card| card.starts_with("does-not-hold"));
        let on_cards: Vec<&str> = on_cards.map(|card| attributes(card, "href")[0]).take(3).collect();
        assert_eq!(named[..on_cards.len()], on_cards, "{name}");
        let more = format!("{} more", wrong - named.len());
        assert_eq!(answer.contains(&more), wrong > named.len(), "{name}: {answer}");
        of_more += usize::from(wrong > 3);
    }
    assert!(of_more > 3, "{of_more} runs have more than are named");
}

/// Markup without the links from words to what they mean.
fn without_words(markup: &str) -> String {
    let mut parts = markup.split("<a class=\"word\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let (_, linked) = part.split_once('>').unwrap();
        out + &linked.replacen("</a>", "", 1)
    })
}

/// What a run says in words that has a figure: answers, findings, costs with what they are of.
fn lines(results: &Results) -> Vec<String> {
    let of = |e: &threadgauge_results::ExperimentResult| {
        let says = e.findings.iter().map(|f| f.says.clone());
        let costs = (e.costs.iter()).map(|c| format!("{}: {}", c.name.as_deref().unwrap_or(&c.what), c.how));
        let answer = e.answer.split(". ").map(str::to_owned);
        answer.chain(says).chain(costs).collect::<Vec<_>>()
    };
    results.experiments.iter().flat_map(of).collect()
}

#[test]
fn two_lines_with_one_subject_say_how_they_differ() {
    let mut cards_of_two = 0;
    for Run { name, results, page } in runs() {
        let mut of = HashSet::new();
        for card in cards(page).0 {
            let line = text(part(card, "of"));
            assert!(of.insert(line.clone()), "{name}: two cards are of {line}");
        }
        cards_of_two += usize::from(of.len() > 1);
        // Costs of one name are one cost.
        for list in page.split("<table class=\"costs").skip(1) {
            let (list, _) = list.split_once("</table>").unwrap();
            let list = without_words(list);
            let mut names = HashSet::new();
            for head in list.split("<th scope=\"row\">").skip(1) {
                let (cost, _) = head.split_once(['<', '(']).unwrap();
                assert!(names.insert(cost.to_owned()), "{name}: two costs of {cost}");
            }
        }
        for line in lines(results) {
            let is_ratio = line.contains("process costs") && line.contains("threads");
            assert!(
                !is_ratio || line.contains("geometric mean"),
                "{name}: of what is it the cost? {line}"
            );
            let is_gain = line.contains("second CPU") && line.contains(|c: char| c.is_ascii_digit());
            let says_of_what = ["average", "mean", "largest", "one thread", "no thread"];
            assert!(
                !is_gain || says_of_what.iter().any(|of| line.contains(of)),
                "{name}: of which threads is it the gain? {line}"
            );
        }
    }
    assert!(cards_of_two > 5, "{cards_of_two}");
}

#[test]
fn what_people_ask_is_answered_in_words_or_said_not_to_be_measured() {
    const ASKED: [&str; 4] = [
        "Is a process dear here?",
        "Does a second CPU help?",
        "How many threads before it hurts?",
        "Which saying is wrong here?",
    ];
    for Run { name, page, .. } in runs() {
        assert!(page.contains("Can this run be trusted?"), "{name}");
        let Some((_, short)) = page.split_once("<section id=\"short\"") else {
            continue;
        };
        let (short, _) = short.split_once("</section>").unwrap();
        for asked in ASKED {
            assert_eq!(short.matches(asked).count(), 1, "{name}: {asked}");
        }
    }
    let quick = runs()
        .iter()
        .find(|run| run.name.ends_with("2026-11-23-quick"))
        .unwrap();
    assert!(!quick.page.contains("Not measured in this run"));
}
