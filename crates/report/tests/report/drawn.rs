//! What is drawn, and what a workbook holds, part by part: as agreed.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};

use threadgauge_report::{ClaimRow, Missing, Style, claims_table, comparison_text, picture, xlsx_buffer};
use threadgauge_results::{Compared, Results};

use super::fixture::{claim_rows, compared, results, samples};

/// A few cases, series and points of the fixture, so that what is agreed can be read.
fn some() -> Results {
    let mut results = results();
    for experiment in &mut results.experiments {
        experiment.cases.truncate(4);
        for series in experiment
            .figures
            .iter_mut()
            .flat_map(|figure| &mut figure.series)
        {
            series.points.truncate(2);
        }
    }
    results
}

fn page() -> String {
    let results = some();
    threadgauge_report::html(&results, &samples(&results))
}

/// Each tag in a line of its own.
fn lines(markup: &str) -> String {
    markup.replace("><", ">\n<")
}

/// From each `start` to the next `end`, both with it.
pub(super) fn parts<'p>(page: &'p str, start: &str, end: &str) -> Vec<&'p str> {
    let from = page.match_indices(start).map(|(at, _)| at);
    let part = |at: usize| &page[at..at + page[at..].find(end).unwrap() + end.len()];
    from.map(part).collect()
}

#[test]
fn charts_are_drawn_as_agreed() {
    let page = page();
    let charts = parts(&page, "<svg class=\"chart", "</svg>");
    let swatches = parts(&page, "<svg class=\"swatch", "</svg>");
    insta::assert_snapshot!("charts", lines(&[charts, swatches].concat().join("\n")));
}

#[test]
fn the_page_reads_as_agreed() {
    let mut page = page();
    for (start, end) in [("<svg", "</svg>"), ("<style", "</style>")] {
        let pictures: Vec<String> = parts(&page, start, end).into_iter().map(String::from).collect();
        for picture in pictures {
            page = page.replace(&picture, "");
        }
    }
    // The programs of the page are files of their own.
    for program in [
        include_str!("../../src/html/page.js"),
        include_str!("../../src/html/save.js"),
    ] {
        page = page.replace(program.trim(), "");
    }
    insta::assert_snapshot!("page", lines(&page));
}

#[test]
fn the_picture_is_drawn_as_agreed() {
    let drawn = picture(&results());
    let style = parts(&drawn, "<style>", "</style>").concat();
    insta::assert_snapshot!("picture", lines(&drawn.replace(&style, "")));
}

/// The parts of a workbook by their names.
pub(super) fn workbook(results: &Results) -> BTreeMap<String, String> {
    let mut workbook =
        zip::ZipArchive::new(Cursor::new(xlsx_buffer(results, &samples(results)).unwrap())).unwrap();
    let names: Vec<String> = workbook
        .file_names()
        .map(|name| name.unwrap().into_owned())
        .collect();
    let part = |name: String| {
        let mut text = String::new();
        workbook
            .by_name(&name)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        (name, text)
    };
    names.into_iter().map(part).collect()
}

/// The value of an attribute of a tag.
pub(super) fn attribute<'t>(tag: &'t str, name: &str) -> &'t str {
    let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap_or_default();
    rest.split('"').next().unwrap_or_default()
}

/// Each row of a sheet that has something in it, with its cells by their columns.
fn rows(sheet: &str, texts: &[&str]) -> String {
    let mut lines = String::new();
    for row in sheet.split("<row").skip(1) {
        lines.push_str(&format!("\n{}:", attribute(row, "r")));
        for cell in row.split("<c").skip(1) {
            let value = parts(cell, "<v>", "</v>").concat();
            let value = value.trim_start_matches("<v>").trim_end_matches("</v>");
            let value = match attribute(cell, "t") {
                "s" => texts[value.parse::<usize>().unwrap()],
                _ => value,
            };
            let letters = attribute(cell, "r").trim_end_matches(|c: char| c.is_ascii_digit());
            // By their numbers, which are no words.
            let column = letters
                .bytes()
                .fold(0, |number, letter| number * 26 + u32::from(letter - b'A') + 1);
            lines.push_str(&format!(" {column} {value} |"));
        }
    }
    lines
}

#[test]
fn the_workbook_reads_as_agreed() {
    let parts_of = workbook(&some());
    let shared = &parts_of["xl/sharedStrings.xml"];
    let texts: Vec<&str> = parts(shared, "<si>", "</si>")
        .into_iter()
        .map(|text| {
            let (_, text) = text.split_once("<t").unwrap();
            let (_, text) = text.split_once('>').unwrap();
            text.split("</t>").next().unwrap()
        })
        .collect();
    let mut says = String::new();
    for (name, part) in &parts_of {
        if name.starts_with("xl/worksheets/sheet") {
            let filter = parts(part, "<autoFilter", ">").concat();
            says.push_str(&format!("\n\n{name} {filter}{}", rows(part, &texts)));
        } else if name.starts_with("xl/drawings/drawing") {
            let places = parts(part, "<xdr:from>", "</xdr:to>").concat();
            says.push_str(&format!("\n\n{name} {places}"));
        } else if name.starts_with("xl/charts/chart") {
            // Without the figures, which are those of the sheet.
            let mut chart = part.clone();
            for (start, end) in [
                ("<c:numCache>", "</c:numCache>"),
                ("<c:strCache>", "</c:strCache>"),
            ] {
                let held: Vec<String> = parts(&chart, start, end).into_iter().map(String::from).collect();
                for held in held {
                    chart = chart.replace(&held, "");
                }
            }
            says.push_str(&format!("\n\n{name}\n{}", lines(&chart)));
        }
    }
    insta::assert_snapshot!("workbook", says);
}

#[test]
fn a_long_table_says_how_many_rows_are_folded() {
    let results = results();
    let cases = results.experiments.iter().map(|e| e.cases.len()).max().unwrap();
    assert!(cases > 24, "{cases}");
    let page = threadgauge_report::html(&results, &[]);
    let says = format!("The other {} of {cases} rows", cases - 12);
    assert!(page.contains(&says), "{says}");
}

#[test]
fn costs_have_a_scale_on_a_screen_that_is_wide_enough() {
    for (width, has_scale) in [(95, false), (96, true)] {
        let style = Style { width, colour: false };
        let screen = threadgauge_report::terminal_screen(&results(), &style);
        assert_eq!(screen.contains("·●·"), has_scale, "{screen}");
    }
}

#[test]
fn what_is_missing_is_said_with_its_reason() {
    let missing = Missing {
        name: "results.xlsx",
        why: "there may be no more threads".to_owned(),
    };
    assert_eq!(
        missing.to_string(),
        "results.xlsx is missing: there may be no more threads; the other files hold the same figures"
    );
}

#[test]
fn a_scale_is_shown_as_soon_as_it_fits_beside_a_long_name() {
    let mut results = results();
    for cost in results.experiments.iter_mut().flat_map(|e| &mut e.costs) {
        cost.name = cost.name.take().map(|name| format!("{name:_<70}"));
    }
    let with_scale = |width: usize| {
        let style = Style { width, colour: false };
        let screen = threadgauge_report::terminal_screen(&results, &style);
        screen
            .lines()
            .filter(|line| line.contains("·●·"))
            .map(|line| line.chars().count())
            .max()
    };
    let (width, longest) = (96..200)
        .find_map(|width| with_scale(width).map(|longest| (width, longest)))
        .unwrap();
    assert_eq!(longest, width, "the first that fits fills the screen");
    assert!(width > 96, "{width}");
}

#[test]
fn what_there_is_none_of_is_not_said() {
    let style = Style {
        width: 200,
        colour: false,
    };
    let mut compared = compared();
    let says_unknown =
        |compared: &Compared| comparison_text(compared, &style).contains("Unknown is not the same");
    assert!(says_unknown(&compared));
    compared.rows.retain(|row| row.verdict != "unknown");
    assert!(!says_unknown(&compared));
    let mut claims = claim_rows();
    let not_run = |claims: &[ClaimRow]| claims_table(claims, &style).contains(" · 1 not run");
    assert!(not_run(&claims));
    claims.retain(|claim| claim.state == "holds");
    assert!(!not_run(&claims));
}
