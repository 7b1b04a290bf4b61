//! A run whose every word somebody has chosen to harm who reads it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;
use threadgauge_report::{
    FILES, Style, comparison_text, html, markdown, picture, picture_png, samples_csv, terminal,
    terminal_screen, terminal_summary, write_all, xlsx_buffer,
};
use threadgauge_results::outside::{harmless, steers};
use threadgauge_results::{Compared, Params, Results, Status};

use crate::fixture::{compared, results, samples};

/// Escape sequences, a line for a build server, markup, a picture, a link, a formula, another direction.
const WORDS: &str = "=1+1\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\n::error::x\n<script>alert(1)</script>&\"'\
                     ![p](https://e.example/p)[l](javascript:x)\\`|\u{202e}\u{0}";

/// The same document with [`WORDS`] in the place of every word that may be any, by the names it stands under.
fn hostile(mut document: Value, reads: impl Fn(&Value) -> bool) -> Value {
    fn names(value: &Value, under: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::String(_) => drop(found.insert(under.to_owned())),
            Value::Array(all) => all.iter().for_each(|value| names(value, under, found)),
            Value::Object(all) => all
                .iter()
                .for_each(|(name, value)| names(value, &format!("{under}/{name}"), found)),
            _ => {}
        }
    }
    fn replace(value: &mut Value, under: &str, wanted: &str) {
        match value {
            Value::String(word) if under == wanted => WORDS.clone_into(word),
            Value::Array(all) => all.iter_mut().for_each(|value| replace(value, under, wanted)),
            Value::Object(all) => all
                .iter_mut()
                .for_each(|(name, value)| replace(value, &format!("{under}/{name}"), wanted)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    names(&document, "", &mut found);
    let mut replaced = 0;
    for wanted in &found {
        let mut with = document.clone();
        replace(&mut with, "", wanted);
        // A verdict is one of some words.
        if reads(&with) {
            replaced += 1;
            document = with;
        }
    }
    assert!(replaced > 40, "{replaced} of {found:?}");
    document
}

fn hostile_results() -> Results {
    let reads = |value: &Value| serde_json::from_value::<Results>(value.clone()).is_ok();
    serde_json::from_value(hostile(serde_json::to_value(results()).unwrap(), reads)).unwrap()
}

/// No sign but white that steers.
fn assert_plain(text: &str) {
    if let Some(at) = text.find(|c| steers(c) && c != '\n' && c != '\t') {
        let before: Vec<char> = text[..at].chars().rev().take(80).collect();
        panic!("after {:?}", before.iter().rev().collect::<String>());
    }
}

#[test]
fn no_word_steers_a_terminal_or_a_build_server() {
    let results = hostile_results();
    for width in [40, 80, 100] {
        let style = Style { width, colour: false };
        let mut all = vec![
            terminal_screen(&results, &style),
            terminal_summary(&results, &style),
        ];
        all.extend(results.experiments.iter().map(|e| terminal(e, &style)));
        let mut compared: Compared = compared();
        (compared.a_name, compared.b_name) = (WORDS.to_owned(), WORDS.to_owned());
        compared.warnings.push(WORDS.to_owned());
        for row in &mut compared.rows {
            (row.a, row.b) = (WORDS.to_owned(), WORDS.to_owned());
            row.metric = WORDS.to_owned();
            row.reason = Some(WORDS.to_owned());
        }
        all.push(comparison_text(&compared, &style));
        for text in &all {
            assert_plain(text);
            // What is printed goes through that as well.
            let printed = harmless(text);
            assert!(
                printed.lines().all(|line| !line.trim_start().starts_with("::")),
                "{printed}"
            );
        }
    }
}

#[test]
fn no_word_is_markup_of_the_page_or_of_the_picture() {
    let results = hostile_results();
    let page = html(&results, &samples(&results));
    for text in [&page, &picture(&results)] {
        assert_plain(text);
        assert!(!text.contains("<script>alert"), "{text}");
    }
    assert!(picture_png(&results).is_ok());
    let head = page.split_once("</head>").unwrap().0;
    assert!(
        head.contains("name=\"generator\" content=\"threadgauge =1+1"),
        "{head}"
    );
}

#[test]
fn no_word_is_a_picture_or_a_link_of_the_markdown() {
    let text = markdown(&hostile_results());
    assert_plain(&text);
    for markup in ["![", "](", "<script", "\n::error"] {
        assert!(!text.contains(markup), "{markup}: {text}");
    }
    assert!(
        text.contains("!\\[p]\\(https://e.example/p)[l]\\(javascript:x)\\\\`\\|"),
        "{text}"
    );
}

#[test]
fn a_cell_that_begins_like_a_formula_stays_text() {
    let params = Params::new().with("-mode", "@SUM(A1)");
    let tags = ["+1".to_owned()];
    let row = threadgauge_report::SampleRow {
        experiment: "=1+1",
        case: "-2",
        params: &params,
        round: 1,
        copy: 0,
        nth_try: 0,
        attempt: 0,
        status: Status::Ok,
        reason: Some("\t=cmd|' /C calc'!A0"),
        tags: &tags,
        metric: "@x",
        unit: "ns",
        value: Some(-1.5),
    };
    let mut out = Vec::new();
    samples_csv(&[row], &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let row = text.lines().nth(1).unwrap();
    assert_eq!(
        row,
        "'=1+1,'-2,'@SUM(A1),1,0,0,0,ok,' =cmd|' /C calc'!A0,'+1,'@x,ns,-1.5"
    );
    // In the workbook a cell has a type.
    let bytes = std::io::Cursor::new(xlsx_buffer(&hostile_results(), &[]).unwrap());
    let mut workbook = zip::ZipArchive::new(bytes).unwrap();
    let sheets: Vec<String> = workbook
        .file_names()
        .map(|name| name.unwrap().into_owned())
        .collect();
    for sheet in sheets
        .iter()
        .filter(|name| name.starts_with("xl/worksheets/sheet"))
    {
        let sheet = std::io::read_to_string(workbook.by_name(sheet).unwrap()).unwrap();
        assert!(!sheet.contains("<f>"), "{sheet}");
    }
    let texts = std::io::read_to_string(workbook.by_name("xl/sharedStrings.xml").unwrap()).unwrap();
    assert!(texts.contains("=1+1"), "{texts}");
}

#[test]
fn a_link_in_the_place_of_a_file_is_replaced() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = elsewhere.path().join("own");
    fs::write(&own, "mine").unwrap();
    for name in FILES {
        symlink(&own, dir.path().join(name)).unwrap();
        // As they were named before.
        symlink(
            &own,
            dir.path().join(format!(".{name}.{}.tmp", std::process::id())),
        )
        .unwrap();
    }
    let results = results();
    let written = write_all(&results, &samples(&results), dir.path()).unwrap();
    assert_eq!(written.paths.len(), FILES.len());
    assert!(
        written
            .paths
            .iter()
            .all(|path| fs::symlink_metadata(path).unwrap().is_file())
    );
    assert_eq!(fs::read_to_string(&own).unwrap(), "mine");
}
