//! What people read, held still; and what a page, a workbook and a folder must be whatever is in them.

#[path = "report/book.rs"]
mod book;
#[path = "report/drawn.rs"]
mod drawn;
#[path = "report/everyone.rs"]
mod everyone;
#[path = "report/first.rs"]
mod first;
mod fixture;
#[path = "report/hostile.rs"]
mod hostile;
#[path = "report/lead.rs"]
mod lead;
#[path = "report/sections.rs"]
mod sections;
#[path = "report/shared.rs"]
mod shared;

use std::collections::HashSet;
use std::fs;

use fixture::{claim_rows, compared, results, samples};
use threadgauge_report::{
    Style, claims_table, comparison_json, comparison_markdown, comparison_text, html, markdown, samples_csv,
    terminal, terminal_screen, terminal_summary, write_all, xlsx_buffer,
};
use threadgauge_results::{CaseResult, Compared, ComparisonResult, Finding, Level, Params, Results, Status};

const WIDE: Style = Style {
    width: 80,
    colour: false,
};
const BROAD: Style = Style {
    width: 100,
    colour: false,
};
const NARROW: Style = Style {
    width: 40,
    colour: false,
};

fn page() -> String {
    let results = results();
    html(&results, &samples(&results))
}

/// The values of `attribute` in the order of the page.
fn attributes<'p>(page: &'p str, attribute: &str) -> Vec<&'p str> {
    let start = format!(" {attribute}=\"");
    page.split(&start)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

// ------------------------------------------------------------------------------------ what people read

#[test]
fn the_markdown_reads_as_agreed() {
    insta::assert_snapshot!(markdown(&results()));
}

#[test]
fn an_experiment_reads_as_agreed_on_80_and_on_40_columns() {
    let results = results();
    for (name, style) in [("80", WIDE), ("40", NARROW)] {
        for e in &results.experiments {
            insta::assert_snapshot!(format!("terminal_{}_{name}", e.id), terminal(e, &style));
        }
        insta::assert_snapshot!(format!("summary_{name}"), terminal_summary(&results, &style));
    }
}

#[test]
fn where_no_column_a_parameter_fits_a_case_is_named_by_what_differs_from_the_reference() {
    let mut print = results().experiments.swap_remove(2);
    let measured = print.cases[0].clone();
    let names = [
        "connections",
        "messages",
        "payload",
        "receivers",
        "senders",
        "rate",
        "window",
        "threads",
    ];
    let case = |twice: &str| {
        let params = names.iter().fold(Params::new(), |params, name| {
            params.with(name, if *name == twice { 2 } else { 1 })
        });
        CaseResult {
            id: params.case_id("print"),
            params,
            ..measured.clone()
        }
    };
    let reference = case("");
    print.reference = Some(reference.id.clone());
    print.cases = names.map(case).into();
    print.cases.insert(3, reference);
    let text = terminal(&print, &WIDE);
    let firsts: Vec<_> = text
        .lines()
        .skip_while(|line| !line.contains('─'))
        .skip(1)
        .map_while(|line| line.split_whitespace().next())
        .collect();
    let of = |name: &str| format!("{name}=2");
    let [a, b, c, rest @ ..] = names.map(of);
    let [d, e, f, g, h] = rest;
    assert_eq!(firsts, [&a, &b, &c, "the", &d, &e, &f, &g, &h], "{text}");
    let words: Vec<_> = text.split_whitespace().collect();
    let says = "A case is named by what differs from connections=1,messages=1,";
    assert!(words.join(" ").contains(says), "{text}");
}

#[test]
fn the_screen_after_a_run_reads_as_agreed() {
    let results = results();
    for (name, style) in [("100", BROAD), ("80", WIDE), ("40", NARROW)] {
        insta::assert_snapshot!(format!("screen_{name}"), terminal_screen(&results, &style));
    }
}

#[test]
fn the_screen_after_a_run_has_at_most_58_lines_whatever_was_measured() {
    let mut results = results();
    let claims: Vec<_> = threadgauge_results::claims()
        .iter()
        .map(|c| c.id.clone())
        .collect();
    let template = results.experiments[0].clone();
    results.experiments = (0..15)
        .map(|n| {
            let mut e = template.clone();
            e.id = format!("experiment-{n}");
            let mine = claims.iter().skip(n * 5).take(5);
            let decided = e.findings[0].clone();
            e.findings = mine
                .map(|id| Finding {
                    claim: Some(id.clone()),
                    ..decided.clone()
                })
                .collect();
            e
        })
        .collect();
    results.warnings = vec!["A warning of some length, about what was seen and what it means. ".repeat(4); 9];
    for width in [40, 60, 80, 100, 200] {
        let screen = terminal_screen(&results, &Style { width, colour: false });
        let lines = screen.lines().count();
        assert!(lines <= 58, "{lines} lines at {width}:\n{screen}");
        let claims = screen.lines().filter(|line| line.starts_with("  ✗ ")).count();
        assert!(claims >= 1, "no claim at {width}:\n{screen}");
        assert!(
            screen.contains("more decided"),
            "the rest is not counted at {width}:\n{screen}"
        );
    }
}

#[test]
fn of_two_costs_of_the_same_name_the_first_experiments_is_listed() {
    let mut results = results();
    let mut again = results.experiments[0].costs[0].clone();
    again.name = Some("make and end a thread".to_owned());
    again.value *= 1000.0;
    let times = |results: &Results| {
        let page = html(results, &[]);
        let (_, costs) = page.split_once("id=\"all-costs\"").unwrap();
        costs
            .split_once("</section>")
            .unwrap()
            .0
            .matches("make and end a thread")
            .count()
    };
    let before = times(&results);
    results.experiments.last_mut().unwrap().costs.push(again);
    assert!(before > 0);
    assert_eq!(times(&results), before);
}

#[test]
fn what_to_know_before_quoting_stands_with_the_published_value() {
    let note = "Before quoting: The source's program reaps processes in a signal handler";
    assert!(page().contains(note));
}

#[test]
fn claims_and_comparisons_read_as_agreed() {
    for (name, style) in [("80", WIDE), ("40", NARROW)] {
        insta::assert_snapshot!(format!("claims_{name}"), claims_table(&claim_rows(), &style));
        insta::assert_snapshot!(format!("comparison_{name}"), comparison_text(&compared(), &style));
    }
    insta::assert_snapshot!("comparison_markdown", comparison_markdown(&compared(), None));
    let apart = |level| Compared {
        paired: false,
        level,
        ..compared()
    };
    let level = Level {
        ratio: 1.043,
        spread: 0.021,
        cases: 60,
    };
    insta::assert_snapshot!("comparison_apart", comparison_text(&apart(Some(level)), &WIDE));
    let few = comparison_text(&apart(None), &WIDE);
    assert!(few.contains("too few cases in common"), "{few}");
    insta::assert_snapshot!("comparison_json", comparison_json(&compared(), None));
}

#[test]
fn nothing_differs_only_where_level_and_cells_agree() {
    const NOTHING: &str = "Nothing differs by more than could be chance.";
    let level = |ratio| {
        Some(Level {
            ratio,
            spread: 0.01,
            cases: 60,
        })
    };
    let of = |level: Option<Level>, paired: bool, verdicts: &[&str]| {
        let template = compared().rows.remove(0);
        let row = |verdict: &&str| ComparisonResult {
            verdict: (*verdict).to_owned(),
            ratio: Some(1.55),
            ..template.clone()
        };
        let of = Compared {
            paired,
            level,
            rows: verdicts.iter().map(row).collect(),
            ..compared()
        };
        [comparison_text(&of, &WIDE), comparison_markdown(&of, None)].map(|text| text.replace('\n', " "))
    };
    for (agree, texts) in [
        (true, of(level(1.01), false, &["same", "same"])),
        (true, of(None, true, &["same", "same"])),
        // All cells of a run took 1.55 times as long, each as the others.
        (false, of(level(1.55), false, &["same", "same"])),
        (false, of(level(1.01), false, &["same", "unknown"])),
        (false, of(None, true, &["same", "unknown"])),
        (false, of(None, false, &["unknown", "unknown"])),
        (false, of(None, true, &["same", "small"])),
    ] {
        for text in texts {
            assert_eq!(text.contains(NOTHING), agree, "{text}");
        }
    }
    let [text, _] = of(level(1.55), false, &["same", "same"]);
    let says = "No case departs from the others by more than could be chance. Whether the level of all, 1.55, is the machine's \
                or a change is unknown.";
    assert!(text.contains(says), "{text}");
    let [level_at, cells_at] =
        ["All 60 cases together: 1.55", "2 comparisons:"].map(|says| text.find(says).unwrap());
    assert!(level_at < cells_at);
    let [text, _] = of(None, true, &["same", "unknown"]);
    assert!(
        text.contains("No case is called slower, faster or small, and 1 of 2 is unknown."),
        "{text}"
    );
    let [text, _] = of(None, false, &["unknown", "unknown"]);
    assert!(
        text.contains("The cases in common: 1.55 in the median."),
        "{text}"
    );
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    let results = results();
    for width in [40, 60, 80, 100, 132, 200] {
        let style = Style { width, colour: false };
        let experiments = results.experiments.iter().map(|e| terminal(e, &style));
        let rest = [
            terminal_summary(&results, &style),
            terminal_screen(&results, &style),
            claims_table(&claim_rows(), &style),
            comparison_text(&compared(), &style),
        ];
        for text in experiments.chain(rest) {
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(widest <= width, "{widest} > {width}:\n{text}");
        }
    }
}

#[test]
fn colour_is_used_only_where_it_is_wanted_and_changes_no_word() {
    let results = results();
    let coloured = Style { colour: true, ..WIDE };
    for e in &results.experiments {
        let plain = terminal(e, &WIDE);
        assert!(
            !plain.contains('\u{1b}'),
            "a test program's escape reached the terminal: {plain:?}"
        );
        let painted = terminal(e, &coloured);
        let mut bare = String::new();
        let mut rest = painted.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            bare.push_str(before);
            rest = after.split_once('m').map_or("", |(_, r)| r);
        }
        bare.push_str(rest);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&bare), words(&plain));
    }
    assert!(terminal_summary(&results, &coloured).contains("\u{1b}[32m"));
    assert!(terminal_screen(&results, &coloured).contains("\u{1b}[31m✗"));
    assert!(!terminal_screen(&results, &WIDE).contains('\u{1b}'));
}

// ------------------------------------------------------------------------------------------- the page

#[test]
fn every_id_is_unique_and_every_anchor_leads_somewhere() {
    let page = page();
    let ids = attributes(&page, "id");
    let unique: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for anchor in attributes(&page, "href")
        .iter()
        .filter_map(|h| h.strip_prefix('#'))
    {
        assert!(unique.contains(anchor), "#{anchor} leads nowhere");
    }
    for named in attributes(&page, "aria-labelledby") {
        for id in named.split(' ') {
            assert!(unique.contains(id), "aria-labelledby={id} names nothing");
        }
    }
    for raw in attributes(&page, "data-raw") {
        assert!(unique.contains(raw));
    }
}

#[test]
fn the_page_asks_nothing_of_the_network() {
    let page = page();
    for outside in [
        "http:",
        "https:",
        "//cdn",
        "url(",
        "@import",
        "<iframe",
        "<link rel=\"style",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(attributes(&page, "src").is_empty());
    assert!(
        attributes(&page, "href")
            .iter()
            .all(|h| h.starts_with('#') || h.starts_with("data:"))
    );
}

#[test]
fn hostile_text_stays_text() {
    let mut results = results();
    let evil = "<script>alert(1)</script></style><img src=x onerror=alert(1)>\" onclick=\"x\u{0}";
    results.warnings.push(evil.into());
    results.run.id = evil.into();
    let e = &mut results.experiments[0];
    e.question = evil.into();
    e.id = evil.into();
    e.figures[0].title = evil.into();
    e.figures[0].series[0].name = evil.into();
    e.cases[0].tags = vec![evil.into()];
    let page = html(&results, &samples(&results));
    assert!(!page.contains("<script>alert"));
    assert!(!page.contains("<img"));
    assert!(!page.contains('\u{0}'));
    // In the raw samples' JSON a quote is escaped its own way.
    assert!(!page.replace("\\\" onclick=", "").contains("\" onclick="));
    assert_eq!(page.matches("<script").count(), 1 + results.experiments.len());
}

#[test]
fn every_table_and_chart_says_what_it_is() {
    let page = page();
    assert_eq!(page.matches("<table").count(), page.matches("<caption").count());
    assert_eq!(page.matches("<th ").count(), page.matches("<th scope=").count());
    let charts = page.matches("<svg class=\"chart\"").count();
    assert!(
        charts >= 8,
        "two figures, one of two panels, each drawn for page and phone: {charts}"
    );
    assert_eq!(charts, page.matches("<desc ").count());
    assert!(page.contains("No data: "));
}

#[test]
fn warnings_come_first_then_costs_and_findings_and_then_experiments() {
    let page = page();
    let place = |id: &str| page.find(&format!("id=\"{id}\"")).unwrap();
    assert!(place("warnings") < place("costs"));
    assert!(place("costs") < place("findings"));
    assert!(place("findings") < place("units"));
    assert!(place("units") < place("e-create"));
    assert!(place("e-create") < place("e-oversubscription"));
    assert!(place("e-oversubscription") < place("machine"));
}

/// The section of threads and processes.
fn units(page: &str) -> &str {
    let (_, from) = page.split_once("<section id=\"units\"").unwrap();
    from.split_once("</section>").unwrap().0
}

#[test]
fn what_a_run_did_not_measure_of_threads_and_processes_is_said_with_the_command_that_does() {
    let page = page();
    let units = units(&page);
    assert!(
        units.contains(
            "<code>threadgauge run ring wake handover footprint limits crash</code> measures the rest"
        ),
        "{units}"
    );
    for (act, experiment) in [("wake", "wake"), ("hand over", "handover"), ("lose", "crash")] {
        let row = format!(
            "<th scope=\"row\">{act}</th><td class=\"soft\" colspan=\"2\">not measured in this run; \
             <code>threadgauge run {experiment}</code>"
        );
        assert!(units.contains(&row), "{row}\n{units}");
    }
    let mut complete = results();
    complete.experiments.retain(|e| e.id == "print");
    assert!(
        !html(&complete, &[]).contains("id=\"units\""),
        "a run of other things has no such section"
    );
}

#[test]
fn a_cost_that_compares_kinds_is_seen_at_once_and_leads_to_its_experiment() {
    let page = page();
    let (seen, folded) = units(&page).split_once("<details><summary>2 more").unwrap();
    for what in ["make and end", "make and end, 64 alive"] {
        assert!(
            seen.contains(&format!("<a href=\"#e-create\">{what}</a>")),
            "{seen}"
        );
    }
    // Of an act that nothing compares, its first.
    assert!(
        seen.contains("<a href=\"#e-oversubscription\">switch, 64 yielding</a>"),
        "{seen}"
    );
    assert!(
        seen.contains("thread elsewhere, make and end: 6.60<"),
        "the chart has it too: {seen}"
    );
    assert!(
        seen.contains("published: 6.6 µs (Processes against threads (2004), Linux 2.6.9 of 2004)"),
        "{seen}"
    );
    for what in ["make and end, a new program", "gain of a second CPU"] {
        assert!(
            folded.contains(&format!(">{what}</a>")) && !seen.contains(&format!(">{what}</a>")),
            "{what}"
        );
    }
}

#[test]
fn the_six_aspects_are_answered_by_findings_that_are_a_link_away() {
    let page = page();
    let units = units(&page);
    for aspect in threadgauge_results::published::aspects() {
        assert!(
            units.contains(&format!("<h4>{}</h4>", aspect.aspect)),
            "{}",
            aspect.aspect
        );
        assert!(units.contains(&aspect.open), "{}", aspect.open);
    }
    let decided = "<a href=\"#claim-process-create-destroy-over-10x-thread\">";
    let (_, answer) = units.split_once(decided).expect(decided);
    let (answer, _) = answer.split_once("</li>").unwrap();
    for part in [
        "does not hold: here <b>8.25 [8.01, 8.44]</b>",
        "the rule: at least 10",
        "Processes against threads, Linux 2.6.9 of 2004",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    let planned = "each runs on its own CPU.</span><span class=\"ours\">not measured: no experiment of this version does";
    assert!(units.contains(planned), "{units}");
}

#[test]
fn what_is_not_known_is_said_with_its_reason() {
    assert!(page().contains("not known: no cpufreq in /sys: a virtual machine"));
}

#[test]
fn a_standard_run_stays_under_three_megabytes() {
    let mut results = results();
    let template = results.experiments[0].clone();
    let e = &mut results.experiments[0];
    while e.cases.len() < 400 {
        let copy = e.cases.len() as u64;
        e.cases.extend(template.cases.iter().cloned().map(|mut c| {
            c.params.set("copy", copy);
            c.id = c.params.case_id("create");
            c
        }));
    }
    let few = samples(&results);
    // Seven rounds are in the fixture; twenty are wanted.
    let mut many = Vec::new();
    for again in 0..3 {
        many.extend(few.iter().map(|s| threadgauge_report::SampleRow {
            round: s.round + 7 * again,
            ..*s
        }));
    }
    let page = html(&results, &many);
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}

#[test]
fn an_empty_run_is_a_page_all_the_same() {
    let mut results = results();
    results.experiments.clear();
    results.warnings.clear();
    results.machine = serde_json::Value::Null;
    let page = html(&results, &[]);
    assert!(page.contains("no facts about the machine"));
    assert!(!page.contains("id=\"warnings\""));
    for text in [&page, &markdown(&results)] {
        assert!(text.contains("The results hold no experiment."), "{text}");
    }
    assert!(!page.contains("id=\"costs\"") && !page.contains("href=\"#costs\""));
    assert!(
        xlsx_buffer(&results, &samples(&results))
            .unwrap()
            .starts_with(b"PK")
    );
}

// ------------------------------------------------------------------------------------------ the files

#[test]
fn samples_csv_has_a_row_for_every_value() {
    let results = results();
    let samples = samples(&results);
    let mut out = Vec::new();
    samples_csv(&samples, &mut out).unwrap();
    let mut reader = csv::Reader::from_reader(out.as_slice());
    let heads = reader.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|h| h == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), samples.len());
    for (row, sample) in rows.iter().zip(&samples) {
        assert_eq!(&row[column("case")], sample.case);
        assert_eq!(row[column("value")].parse().ok(), sample.value);
        let cpus = sample
            .params
            .get("cpus")
            .map(ToString::to_string)
            .unwrap_or_default();
        assert_eq!(&row[column("param_cpus")], cpus);
    }
}

#[test]
fn the_workbook_is_a_zip_file_with_charts() {
    let bytes = xlsx_buffer(&results(), &[]).unwrap();
    assert!(bytes.starts_with(b"PK"));
    let holds = |name: &[u8]| bytes.windows(name.len()).any(|w| w == name);
    assert!(
        holds(b"xl/worksheets/sheet9.xml"),
        "overview, verdicts, costs, machine, three experiments, summaries and samples"
    );
    assert!(holds(b"xl/charts/chart3.xml"), "one for each figure with data");
}

#[test]
fn write_all_writes_seven_files_and_leaves_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let results = results();
    let written = write_all(&results, &samples(&results), dir.path()).unwrap();
    assert_eq!(written.missing, []);
    let paths = written.paths;
    let names: Vec<_> = paths.iter().filter_map(|p| p.file_name()?.to_str()).collect();
    assert_eq!(
        names,
        [
            "results.json",
            "report.html",
            "results.xlsx",
            "samples.csv",
            "report.md",
            "report.svg",
            "report.png"
        ]
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 7);
    let read: Results = serde_json::from_slice(&fs::read(&paths[0]).unwrap()).unwrap();
    assert_eq!(read.run, results.run);
    assert!(fs::read(&paths[2]).unwrap().starts_with(b"PK"));
    assert!(fs::read(&paths[6]).unwrap().starts_with(b"\x89PNG"));
    assert_eq!(read.experiments.len(), results.experiments.len());
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_old_one_and_names_itself() {
    let dir = tempfile::tempdir().unwrap();
    // A folder stands where the page should go: renaming onto it fails, as for root it would not
    // if the folder were read-only.
    fs::create_dir(dir.path().join("report.html")).unwrap();
    fs::write(dir.path().join("report.html/keep"), "old").unwrap();
    let error = write_all(&results(), &[], dir.path()).unwrap_err().to_string();
    assert!(error.contains("report.html"), "{error}");
    assert_eq!(fs::read(dir.path().join("report.html/keep")).unwrap(), b"old");
    let left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    assert!(
        left.iter().all(|n| !n.to_string_lossy().ends_with(".tmp")),
        "{left:?}"
    );
}

#[test]
fn a_folder_that_is_not_there_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    let error = write_all(&results(), &[], &dir.path().join("nowhere"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("results.json") && error.contains("create the folder"),
        "{error}"
    );
}

#[test]
fn cases_without_figures_or_with_few_rounds_are_told() {
    let mut results = results();
    let lacking = |results: &Results| {
        let page = html(results, &[]);
        (page.matches(" without figures:").count(), page)
    };
    assert_eq!(lacking(&results).0, 3, "one in each experiment");
    for (i, case) in results.experiments[1].cases.iter_mut().enumerate() {
        (case.status, case.reason) = (Status::Failed, Some(format!("reason {i}")));
    }
    let reasons = results.experiments[1].cases.len();
    let (_, page) = lacking(&results);
    assert!(
        page.contains(&format!("and {} more reasons", reasons - 8)),
        "{reasons}"
    );

    let first = results.experiments[2].primary_metrics[0].clone();
    let case = &mut results.experiments[2].cases[0];
    case.summaries.get_mut(&first).unwrap().n = 4;
    for text in [markdown(&results), first::text(&html(&results, &[]))] {
        assert_eq!(text.matches("4 of 5 rounds").count(), 1, "{text}");
        assert!(!text.contains("5 of 5 rounds"));
    }
}

#[test]
fn one_round_is_not_said_to_be_several() {
    let mut results = results();
    let experiment = &mut results.experiments[0];
    experiment.rounds = 1;
    for summary in experiment
        .cases
        .iter_mut()
        .flat_map(|case| case.summaries.values_mut())
    {
        (summary.ci95, summary.ci_level) = (None, None);
    }
    let page = markdown(&results);
    assert!(
        page.contains("Figures of one round; an interval needs at least 6."),
        "{page}"
    );
    assert!(!page.contains("1 rounds;"), "{page}");
}
