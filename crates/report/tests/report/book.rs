//! The workbook as a spreadsheet program shows it, read back: what committed runs must look like, whatever is in them.

use std::collections::{BTreeMap, HashMap};

use threadgauge_report::samples_csv;
use threadgauge_results::{Results, Scale};

use super::drawn::{attribute, parts, workbook};
use super::fixture::{results, samples};

/// A screen of 1,400 pixels without the row numbers and the scroll bar.
const SCREEN: f64 = 1_340.0;

/// A sheet as it was read back.
struct Sheet {
    name: String,
    markup: String,
    /// By row and column, from 0.
    texts: BTreeMap<(u32, u32), String>,
    /// With the format that shows it.
    numbers: BTreeMap<(u32, u32), (f64, String)>,
    /// Points, of rows that have a height of their own.
    heights: HashMap<u32, f64>,
    /// Pixels.
    widths: BTreeMap<u32, f64>,
    /// The last column of the cells that begin in column A of a row.
    merged: HashMap<u32, u32>,
}

fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

/// `C7` is (6, 2).
fn place(name: &str) -> (u32, u32) {
    let digits = name.find(|c: char| c.is_ascii_digit()).unwrap();
    let letter = |number, letter| number * 26 + u32::from(letter - b'A') + 1;
    let column = name[..digits].bytes().fold(0, letter);
    (name[digits..].parse::<u32>().unwrap() - 1, column - 1)
}

fn read(results: &Results) -> Vec<Sheet> {
    let files = workbook(results);
    let shared: Vec<String> = parts(&files["xl/sharedStrings.xml"], "<si>", "</si>")
        .iter()
        .map(|text| {
            let (_, text) = text.split_once("<t").unwrap();
            plain(text.split_once('>').unwrap().1.split("</t>").next().unwrap())
        })
        .collect();
    let styles = &files["xl/styles.xml"];
    let named: HashMap<&str, String> = parts(styles, "<numFmt ", ">")
        .iter()
        .map(|tag| (attribute(tag, "numFmtId"), plain(attribute(tag, "formatCode"))))
        .chain([("0", "General"), ("1", "0"), ("2", "0.00"), ("3", "#,##0")].map(|(n, f)| (n, f.to_owned())))
        .collect();
    let used = parts(styles, "<cellXfs", "</cellXfs>").concat();
    let formats: Vec<&str> = parts(&used, "<xf ", ">")
        .iter()
        .map(|tag| named[attribute(tag, "numFmtId")].as_str())
        .collect();
    let sheets = parts(&files["xl/workbook.xml"], "<sheet ", ">");
    let names = sheets.iter().map(|tag| plain(attribute(tag, "name")));
    names
        .zip(1..)
        .map(|(name, n)| {
            let markup = files[&format!("xl/worksheets/sheet{n}.xml")].clone();
            let mut sheet = Sheet {
                name,
                texts: BTreeMap::new(),
                numbers: BTreeMap::new(),
                heights: HashMap::new(),
                widths: BTreeMap::new(),
                merged: HashMap::new(),
                markup: String::new(),
            };
            for tag in parts(&markup, "<col ", ">") {
                let end = |name| attribute(tag, name).parse::<u32>().unwrap();
                let width = attribute(tag, "width").parse::<f64>().unwrap() * 7.0;
                sheet
                    .widths
                    .extend((end("min")..=end("max")).map(|c| (c - 1, width.round())));
            }
            for row in markup.split("<row ").skip(1) {
                let tag = format!(" {}", row.split('>').next().unwrap());
                if let Ok(points) = attribute(&tag, "ht").parse() {
                    let at = attribute(&tag, "r").parse::<u32>().unwrap() - 1;
                    sheet.heights.insert(at, points);
                }
                for cell in row.split("<c ").skip(1) {
                    let cell = format!(" {cell}");
                    let Some((_, value)) = cell.split_once("<v>") else {
                        continue;
                    };
                    let value = value.split("</v>").next().unwrap();
                    let at = place(attribute(&cell, "r"));
                    if attribute(&cell, "t") == "s" {
                        let text = shared[value.parse::<usize>().unwrap()].clone();
                        sheet.texts.insert(at, text);
                    } else {
                        let style = attribute(&cell, "s").parse().unwrap_or(0);
                        let format = formats[style].to_owned();
                        sheet.numbers.insert(at, (value.parse().unwrap(), format));
                    }
                }
            }
            for tag in parts(&markup, "<mergeCell ", ">") {
                let (from, to) = attribute(tag, "ref").split_once(':').unwrap();
                sheet.merged.insert(place(from).0, place(to).1);
            }
            sheet.markup = markup;
            sheet
        })
        .collect()
}

/// Runs that are kept: of one experiment on another machine, of all that quick has, and with failures.
fn kept() -> [(&'static str, Results); 3] {
    [
        (
            "http",
            include_str!("../../../../runs/2026-11-24-http/results.json"),
        ),
        (
            "quick",
            include_str!("../../../../runs/2026-11-23-quick/results.json"),
        ),
        (
            "refused",
            include_str!("../../../../runs/golden/refused/results.json"),
        ),
    ]
    .map(|(name, text)| (name, serde_json::from_str(text).unwrap()))
}

/// How many significant digits a format shows of a number with digits behind the point.
fn digits(value: f64, format: &str) -> usize {
    let decimals = format.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let shown = format!("{:.decimals$}", value.abs());
    match decimals {
        0 => 0,
        _ => shown.replace('.', "").trim_start_matches('0').len(),
    }
}

#[test]
fn kept_runs_are_workbooks_that_can_be_read_on_a_screen() {
    for (run, results) in kept() {
        let sheets = read(&results);
        let names: Vec<&str> = sheets.iter().map(|sheet| sheet.name.as_str()).collect();
        assert_eq!(names[0], "Overview");
        assert_eq!(names[names.len() - 2..], ["Summaries", "Samples"]);
        let first = &sheets[0];
        for name in &names[1..] {
            assert!(first.texts.values().any(|text| text == name), "{run}: {name}");
            assert!(first.markup.contains(&format!("'{name}'!A1")), "{run}: {name}");
        }
        for text in ["Can this run be trusted? ", "threadgauge "] {
            assert!(first.texts.values().any(|t| t.contains(text)), "{run}: {text}");
        }
        for sheet in &sheets[..sheets.len() - 2] {
            let of = format!("{run}, {}", sheet.name);
            if sheet.name != "Overview" {
                assert!(sheet.markup.contains("state=\"frozen\""), "{of}");
                assert!(sheet.markup.contains("<autoFilter "), "{of}");
            }
            let wide: f64 = sheet.widths.values().sum();
            assert!(wide <= SCREEN, "{of}: {wide} pixels");
            for (at, (value, format)) in &sheet.numbers {
                assert_ne!(format, "General", "{of}: {at:?}");
                assert!(digits(*value, format) <= 3, "{of}: {at:?} {value} as {format}");
                // No cell is full of #: a digit has seven pixels.
                let decimals = format.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                let shown = format!("{value:.decimals$}").len() as f64 * 7.0;
                assert!(shown <= sheet.widths[&at.1], "{of}: {at:?} {value} as {format}");
            }
            for ((row, column), text) in &sheet.texts {
                assert!(!text.contains("ource 00"), "{of}: a source by its number: {text}");
                let last = sheet.merged.get(row).filter(|_| *column == 0).unwrap_or(column);
                let width = |c| sheet.widths.get(&c).copied().unwrap_or(64.0);
                let wide: f64 = (*column..=*last).map(width).sum();
                // Of a text in English a letter has hardly less than five pixels on average.
                let lines = (text.chars().count() as f64 * 5.0 / wide).ceil().min(27.0);
                let tall = sheet.heights.get(row).copied().unwrap_or(15.0);
                assert!(
                    tall >= lines * 15.0,
                    "{of}: row {row} is {tall} points tall: {text}"
                );
            }
        }
    }
}

#[test]
fn an_experiments_sheet_asks_answers_and_has_units_in_its_heads() {
    let [(_, http), ..] = kept();
    let sheets = read(&http);
    let sheet = sheets.iter().find(|sheet| sheet.name == "http").unwrap();
    let e = &http.experiments[0];
    assert_eq!(sheet.texts[&(0, 0)], e.question);
    assert!(e.answer.starts_with(&sheet.texts[&(1, 0)]));
    let head = |name: &str| {
        let found = sheet
            .texts
            .iter()
            .find(|((row, _), text)| *row == 4 && *text == name);
        found.unwrap_or_else(|| panic!("no {name}")).0.1
    };
    let column = head("server CPU time per request, µs");
    let case = &e.cases[0];
    let summary = &case.summaries["server_cpu_ns_per_request"];
    let [low, high] = summary.ci95.unwrap();
    for (at, value) in (column..).zip([summary.median, low, high]) {
        let (held, format) = &sheet.numbers[&(5, at)];
        assert_eq!(*held, value / 1e3, "in full");
        assert_eq!(format, "0.00");
    }
    assert_eq!(sheet.texts[&(4, column + 1)], "low, µs");
    assert_eq!(sheet.texts[&(4, column + 2)], "high, µs");
}

#[test]
fn what_is_shown_to_three_digits_is_in_full_in_two_sheets() {
    let results = results();
    let sheets = read(&results);
    let [.., summaries, raw] = sheets.as_slice() else {
        panic!("two")
    };
    let stored: Vec<f64> = (results.experiments.iter())
        .flat_map(|e| &e.cases)
        .flat_map(|case| case.summaries.values())
        .map(|s| s.median)
        .collect();
    let held: Vec<f64> = (summaries.numbers.iter())
        .filter(|((_, column), _)| *column == 6)
        .map(|(_, (value, _))| *value)
        .collect();
    assert_eq!(held, stored);
    let mut out = Vec::new();
    let samples = samples(&results);
    samples_csv(&samples, &mut out).unwrap();
    let mut csv = csv::Reader::from_reader(out.as_slice());
    let heads = csv.headers().unwrap().clone();
    for (column, head) in (0..).zip(&heads) {
        assert_eq!(raw.texts[&(0, column)], head);
    }
    let mut rows = 0;
    for (row, fields) in (1..).zip(csv.records()) {
        for (column, field) in (0..).zip(&fields.unwrap()) {
            let at = (row, column);
            let number = raw.numbers.get(&at).map(|(value, _)| value.to_string());
            let held = number.or_else(|| raw.texts.get(&at).cloned());
            assert_eq!(held.unwrap_or_default(), field, "{at:?}");
        }
        rows += 1;
    }
    assert_eq!(rows, samples.len());
    // Of each column the first sheet says what is in it.
    for head in heads.iter().filter(|head| !head.starts_with("param_")) {
        assert!(sheets[0].texts.values().any(|text| text == head), "{head}");
    }
}

#[test]
fn costs_are_numbers_that_can_be_sorted_and_verdicts_words() {
    let results = results();
    let sheets = read(&results);
    let named = |name: &str| sheets.iter().find(|sheet| sheet.name == name).unwrap();
    let costs = named("Costs");
    let mut units: HashMap<&str, &str> = HashMap::new();
    let all = results.experiments.iter().flat_map(|e| &e.costs);
    for (row, cost) in (1..).zip(all) {
        let unit = costs.texts[&(row, 5)].as_str();
        let (held, _) = costs.numbers[&(row, 2)];
        let per = match (cost.unit.as_str(), unit) {
            ("ns", "µs") => 1e3,
            ("ns", "ms") => 1e6,
            ("B" | "bytes", "KiB") => 1024.0,
            ("share", "%") => 0.01,
            (stored, shown) => {
                assert_eq!(stored, shown);
                1.0
            }
        };
        assert_eq!(held, cost.value / per, "{}", cost.what);
        assert_eq!(*units.entry(&cost.unit).or_insert(unit), unit);
        assert_eq!(costs.texts[&(row, 0)], cost.what);
    }
    let verdicts = named("Verdicts");
    let words = [
        "does not hold",
        "holds",
        "inconclusive",
        "not measured",
        "not testable",
        "fact",
    ];
    for ((_, column), text) in verdicts.texts.iter().filter(|((row, _), _)| *row > 0) {
        assert!(*column != 1 || words.contains(&text.as_str()), "{text}");
    }
}

#[test]
fn sources_have_their_names_in_cells_titles_and_charts() {
    let run = include_str!("../../../../runs/2026-11-25-create-100000/results.json");
    assert!(run.contains("ource 003"), "stored texts cite by the id");
    let results: Results = serde_json::from_str(run).unwrap();
    let files = workbook(&results);
    let named = |text: &String| text.contains("Processes against threads (2004)");
    for (name, text) in &files {
        assert!(!text.contains("ource 003"), "{name}");
        let is_chart = name.starts_with("xl/charts/");
        assert!(!is_chart || !text.contains("FFFFFF"), "{name} has white marks");
    }
    assert!(files.values().any(named));
}

#[test]
fn charts_of_a_workbook_keep_the_rules_of_those_on_the_page() {
    let mut dots = 0;
    for (run, results) in kept() {
        for (name, chart) in charts(&results) {
            for series in parts(&chart, "<c:ser>", "</c:ser>") {
                let (_, values) = series.split_once("<c:yVal>").unwrap_or(("", ""));
                let is_few =
                    values.contains("<c:ptCount val=\"1\"/>") || values.contains("<c:ptCount val=\"2\"/>");
                let has_line = !series.contains("<a:ln w=\"19050\"><a:noFill/></a:ln>");
                assert!(
                    !is_few || !has_line,
                    "{run}: {name} has a line through fewer than three points"
                );
                dots += usize::from(!has_line);
            }
        }
    }
    assert!(dots > 0);
    let [.., (_, quick), _] = kept();
    let mut share = quick;
    share.experiments.truncate(1);
    let figure = &mut share.experiments[0].figures[0];
    "share of looks".clone_into(&mut figure.y.label);
    figure.y.scale = Scale::Linear;
    for point in figure.series.iter_mut().flat_map(|series| &mut series.points) {
        point.y = 0.3 + point.x / 100.0;
    }
    let drawn = charts(&share);
    let of_shares = drawn
        .values()
        .find(|chart| chart.contains("share of looks"))
        .unwrap();
    assert!(
        of_shares.contains("<c:max val=\"1\"/><c:min val=\"0\"/>"),
        "{of_shares}"
    );
}

fn charts(results: &Results) -> BTreeMap<String, String> {
    let files = workbook(results).into_iter();
    files
        .filter(|(name, _)| name.starts_with("xl/charts/chart"))
        .collect()
}
