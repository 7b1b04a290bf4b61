//! What a report begins with: of a run without costs and claims its answers, and how far any run can be trusted.

use std::collections::HashSet;

use threadgauge_report::{
    Style, html, markdown, picture, terminal_screen, terminal_summary, write_all, xlsx_buffer,
};
use threadgauge_results::{Diagnostic, Disturbed, ExperimentResult, Finding, Results, Table, Trust, Verdict};

use super::attributes;
use super::fixture::{results, samples};

const QUESTION: &str = "How does this server answer under this load?";

/// Two loads of a server, and what they did by second: neither costs nor claims.
fn load() -> Results {
    let mut results = results();
    let template = results.experiments.swap_remove(1);
    assert!(!template.figures.is_empty(), "it has charts");
    let texts = |texts: [&str; 5]| texts.map(str::to_owned).to_vec();
    let loads = Table {
        id: "loads".to_owned(),
        title: "What came of each load".to_owned(),
        note: "Times are until the last of a group has the message.".to_owned(),
        columns: texts(["load", "asked", "answered a second", "99th percentile", "valid"]),
        rows: vec![
            texts([
                "groups, open, connections 20, rate 100",
                "100 a second",
                "900",
                "1.20 ms",
                "yes",
            ]),
            texts([
                "groups, open, connections 20, rate 20000",
                "20000 a second",
                "91000",
                "",
                "no: under 99 % of the rate was reached",
            ]),
        ],
    };
    let of = |id: &str, question: &str, answer: &str, tables: Vec<Table>| ExperimentResult {
        id: id.to_owned(),
        question: question.to_owned(),
        answer: answer.to_owned(),
        sources: Vec::new(),
        reference: None,
        comparisons: Vec::new(),
        findings: Vec::new(),
        costs: Vec::new(),
        diagnostics: Vec::new(),
        tables,
        ..template.clone()
    };
    results.warnings.clear();
    results.experiments = vec![
        of(
            "load",
            QUESTION,
            "2 loads; the first: 900 a second. 1 of 2 runs are invalid: under 99 % of the rate was reached.",
            vec![loads],
        ),
        of(
            "load-by-second",
            "How did the load go on from second to second?",
            "2 loads by second; see the charts.",
            Vec::new(),
        ),
    ];
    results
}

/// Where each of these stands in a text, which has all of them.
fn places<const N: usize>(text: &str, of: [&str; N]) -> [usize; N] {
    of.map(|part| text.find(part).unwrap_or_else(|| panic!("no {part}:\n{text}")))
}

fn style(width: usize) -> Style {
    Style { width, colour: false }
}

#[test]
fn the_page_of_a_load_begins_with_what_the_load_found() {
    let results = load();
    let page = html(&results, &samples(&results));
    let headline = format!("<h1>{QUESTION}</h1>");
    let order = places(
        &page,
        [
            &headline,
            "Can this run be trusted?",
            "id=\"e-load\"",
            "<p class=\"answer\">2 loads; the first",
            "<svg class=\"chart\"",
            "What came of each load",
            "no: under 99 % of the rate was reached</td>",
            "id=\"e-load-by-second\"",
            "id=\"machine\"",
        ],
    );
    assert!(order.is_sorted(), "{order:?}");
    for empty in [
        "id=\"costs\"",
        "id=\"findings\"",
        "id=\"units\"",
        "What running things at once costs here",
        "measured nothing that belongs here",
        "No claim is decided",
        "Tables</h4>",
    ] {
        assert!(!page.contains(empty), "{empty}");
    }
    assert_eq!(page.matches(&format!(">{QUESTION}<")).count(), 1, "asked once");
    let ids = attributes(&page, "id");
    let unique: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for anchor in attributes(&page, "href")
        .iter()
        .filter_map(|href| href.strip_prefix('#'))
    {
        assert!(unique.contains(anchor), "#{anchor} leads nowhere");
    }
}

#[test]
fn what_else_is_written_of_a_load_begins_with_it_too() {
    let results = load();
    let page = markdown(&results);
    assert!(page.starts_with(&format!("# {QUESTION}\n")), "{page}");
    let order = places(
        &page,
        [
            "## load\n",
            "**2 loads; the first",
            "| 20000 a second | 91000 |",
            "## This machine",
        ],
    );
    assert!(order.is_sorted(), "{order:?}");
    assert!(!page.contains("indings"), "{page}");

    let picture = picture(&results);
    assert!(
        picture.contains(&format!("<title id=\"t\">{QUESTION}</title>")),
        "{picture}"
    );
    assert!(
        picture.contains("2 loads; the first: 900 a second.") && !picture.contains("measured nothing"),
        "{picture}"
    );
    let (_, drawn) = picture.split_once("</style>").unwrap();
    insta::assert_snapshot!("load_picture", drawn.replace("><", ">\n<"));

    let bytes = std::io::Cursor::new(xlsx_buffer(&results, &samples(&results)).unwrap());
    let mut workbook = zip::ZipArchive::new(bytes).unwrap();
    let sheets = std::io::read_to_string(workbook.by_name("xl/workbook.xml").unwrap()).unwrap();
    let names: Vec<&str> = attributes(&sheets, "name")
        .into_iter()
        .filter(|name| !name.starts_with('_'))
        .collect();
    assert_eq!(
        names,
        [
            "Overview",
            "Machine",
            "load",
            "load-by-second",
            "Summaries",
            "Samples"
        ]
    );
}

#[test]
fn the_screen_of_a_load_has_a_row_for_each() {
    let results = load();
    for width in [40, 60, 80, 100, 200] {
        let screen = terminal_screen(&results, &style(width));
        let summary = terminal_summary(&results, &style(width));
        for text in [&screen, &summary] {
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= width, "{widest} > {width}:\n{text}");
            assert!(
                !text.contains("findings") && !text.contains("What held"),
                "{text}"
            );
        }
        assert!(screen.lines().count() <= 58, "{screen}");
    }
    insta::assert_snapshot!("load_screen_80", terminal_screen(&results, &style(80)));
    insta::assert_snapshot!("load_screen_160", terminal_screen(&results, &style(160)));
    let mut many = results;
    let table = &mut many.experiments[0].tables[0];
    table.rows = table.rows.iter().cycle().take(100).cloned().collect();
    let screen = terminal_screen(&many, &style(60));
    assert!(
        screen.lines().count() <= 58 && screen.contains("the report has the rest"),
        "{screen}"
    );
}

#[test]
fn a_claim_or_a_cost_is_what_a_run_begins_with_and_facts_alone_are_not() {
    let with = |finding: Finding| {
        let mut results = load();
        results.experiments[0].findings = vec![finding];
        results
    };
    let fact = Finding::fact("The server is fast.".to_owned(), None, None, "");
    let of_facts = with(fact.clone());
    let page = html(&of_facts, &[]);
    assert!(page.contains("The server is fast."), "{page}");
    assert!(!page.contains("id=\"findings\""));
    assert!(markdown(&of_facts).contains("The server is fast."));
    assert!(terminal_summary(&of_facts, &style(80)).starts_with("1 fact"));

    // Also one that is not decided: that it is open is what there is to be said.
    let open = with(Finding {
        verdict: Some(Verdict::NotMeasured),
        ..fact
    });
    let mut costs = load();
    costs.experiments[0].costs = results().experiments[0].costs.clone();
    for lists in [open, costs] {
        let page = html(&lists, &[]);
        let order = places(
            &page,
            [
                "<h1>What running things at once costs here</h1>",
                "id=\"short\"",
                "id=\"sayings\"",
                "id=\"findings\"",
                "id=\"e-load\"",
                "id=\"machine\"",
            ],
        );
        assert!(order.is_sorted(), "{order:?}");
        assert!(markdown(&lists).starts_with("# What running things at once costs here\n"));
    }
}

#[test]
fn all_files_of_a_load_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let results = load();
    assert_eq!(
        write_all(&results, &samples(&results), dir.path())
            .unwrap()
            .paths
            .len(),
        7
    );
}

// ---------------------------------------------------------------------------------------------- trust

/// A run of which these controls agree, and so many of a hundred samples were disturbed.
fn run(agree: &[bool], disturbed: usize) -> Results {
    let mut results = results();
    let template = results.experiments.swap_remove(0);
    assert!(template.reference.is_some());
    let of = |(i, agrees): (usize, &bool)| ExperimentResult {
        id: format!("experiment-{i}"),
        diagnostics: vec![Diagnostic {
            name: "null-control".to_owned(),
            says: "The reference against its copy.".to_owned(),
            warning: !agrees,
        }],
        disturbed: Disturbed {
            samples: if i == 0 { 100 } else { 0 },
            disturbed: if i == 0 { disturbed } else { 0 },
            ..Disturbed::default()
        },
        cases: Vec::new(),
        comparisons: Vec::new(),
        rankings: Vec::new(),
        figures: Vec::new(),
        ..template.clone()
    };
    results.experiments = agree.iter().enumerate().map(of).collect();
    results.warnings.clear();
    results
}

/// Such a run, with something that is warned of.
fn warned(agree: &[bool]) -> Results {
    Results {
        warnings: vec!["Every timed section does 15 % of extra work.".to_owned()],
        ..run(agree, 0)
    }
}

/// Four experiments whose controls agree. The first is disturbed beyond the limit, all together are not.
fn noisy_in_part() -> Results {
    let mut results = run(&[true; 4], 30);
    for e in &mut results.experiments[1..] {
        e.disturbed.samples = 100;
    }
    results
}

#[test]
fn a_run_is_trusted_in_three_degrees_and_every_report_says_which() {
    let coloured = Style {
        width: 100,
        colour: true,
    };
    for (results, word, class, code) in [
        (run(&[true, true], 0), "Yes", "trust", 32),
        (run(&[true, true], 25), "Yes", "trust", 32),
        (run(&[true, false], 0), "In part", "trust doubtful", 33),
        (run(&[true, true], 74), "In part", "trust doubtful", 33),
        (noisy_in_part(), "In part", "trust doubtful", 33),
        (warned(&[true, true]), "In part", "trust doubtful", 33),
        (run(&[true, false], 100), "In part", "trust doubtful", 33),
        (run(&[false, false], 0), "No", "trust refused", 31),
        (run(&[false], 20), "No", "trust refused", 31),
        (warned(&[false]), "No", "trust refused", 31),
    ] {
        let trust = Trust::of(&results);
        assert_eq!(trust.answer.word(), word, "{trust:?}");
        let of = trust.says;
        let says = format!("Can this run be trusted? {word}: ");
        let page = html(&results, &[]);
        assert!(
            page.contains(&format!("<p class=\"{class}\"><b>{says}</b>")),
            "{of}: {page}"
        );
        let text = markdown(&results);
        assert!(
            text.contains(&format!("Can this run be trusted? **{word}:** ")),
            "{of}: {text}"
        );
        let screen = terminal_screen(&results, &coloured);
        assert!(
            screen.contains(&format!("\u{1b}[{code}m{says}")),
            "{of}: {screen}"
        );
    }
}

#[test]
fn a_run_without_controls_is_trusted_in_part() {
    let page = markdown(&load());
    assert!(
        page.contains("trusted? **In part:** 2 experiments have no reference"),
        "{page}"
    );
}
