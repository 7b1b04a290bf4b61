//! Runs that are kept: baselines by name, runs as one file, and the course of a figure over many.

use std::fs;
use std::path::Path;

use threadgauge_results::RunRecord;

use super::{json, record, refused_in, stored_run, text, threadgauge, tiny};

/// A run of one day, whose one case took so long.
fn on_day(dir: &Path, day: u32, ns: f64) {
    let record = RunRecord {
        started: format!("2026-11-{day:02}T10:00:00Z"),
        ..record(&format!("run-{day}"))
    };
    stored_run(&dir.join(format!("day-{day:02}")), &record, |round, copy| {
        (ns * (1.0 + 0.001 * f64::from((round * 3 + copy) % 7)), false)
    });
}

/// Ten days, of which the last four took a tenth longer.
fn ten_days(dir: &Path) {
    for day in 1..=10 {
        let level = if day <= 6 { 100.0 } else { 110.0 };
        on_day(dir, day, level * (1.0 + 0.002 * f64::from(day % 3)));
    }
}

#[test]
fn a_history_says_from_which_run_on_a_figure_changed() {
    let dir = tempfile::tempdir().unwrap();
    ten_days(dir.path());
    let history = json(&threadgauge(dir.path(), &["history", ".", "--format", "json"]));
    let [of] = &history["histories"].as_array().unwrap()[..] else {
        panic!("{history:#}");
    };
    let changes = &of["courses"][0]["changes"];
    assert_eq!(
        (&changes[0]["run"], &changes[0]["verdict"]),
        (&6.into(), &"slower".into())
    );
    assert_eq!(changes.as_array().unwrap().len(), 1);
    assert_eq!(of["runs"].as_array().unwrap().len(), 10);

    let shown = text(&threadgauge(dir.path(), &["history", "."]).stdout);
    let facts = [
        "From 2026-11-07 10:00 UTC",
        "slower",
        "null/what=clock",
        "1 figure: 1 changed",
    ];
    for fact in facts {
        assert!(shown.contains(fact), "{fact}: {shown}");
    }

    let page = dir.path().join("page.html");
    let done = threadgauge(
        dir.path(),
        &["history", ".", "--format", "html", "--out", "page.html"],
    );
    assert!(done.status.success() && done.stdout.is_empty());
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("from run 7 on"), "{page}");
}

#[test]
fn a_history_of_one_is_said_to_be_none_and_what_cannot_be_read_is_left_out_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    on_day(dir.path(), 1, 100.0);
    for of in [".", "day-01"] {
        let one = threadgauge(dir.path(), &["history", of]);
        assert!(one.status.success());
        let says = text(&one.stdout);
        assert!(says.contains("One run is no history"), "{says}");
        assert!(says.contains("10:00 UTC, day-01."), "{says}");
    }
    fs::create_dir(dir.path().join("broken")).unwrap();
    fs::write(dir.path().join("broken/results.sqlite"), "no store").unwrap();
    fs::write(dir.path().join("broken.run.json.gz"), "no gzip").unwrap();
    let with = threadgauge(dir.path(), &["history", "."]);
    assert!(with.status.success());
    let left_out = text(&with.stderr);
    assert_eq!(left_out.matches("Left out: ").count(), 2, "{left_out}");
    let empty = tempfile::tempdir().unwrap();
    assert!(refused_in(empty.path(), &["history", "."]).contains("no run in it"));
    assert!(refused_in(empty.path(), &["history"]).contains("threadgauge-results"));
    fs::remove_dir_all(dir.path().join("day-01")).unwrap();
    assert!(refused_in(dir.path(), &["history", "."]).contains("of 2 runs in . none can be read"));
}

#[test]
fn an_exported_run_is_compared_as_its_folder_is_and_is_part_of_a_history() {
    let dir = tempfile::tempdir().unwrap();
    ten_days(dir.path());
    let rows = |a, b| json(&threadgauge(dir.path(), &["compare", a, b, "--json"]))["rows"].clone();
    for day in ["day-01", "day-10"] {
        let done = threadgauge(dir.path(), &["export", day]);
        assert_eq!(
            text(&done.stdout),
            format!("{day}.run.json.gz\n"),
            "{}",
            text(&done.stderr)
        );
    }
    assert_eq!(
        rows("day-01", "day-10"),
        rows("day-01.run.json.gz", "day-10.run.json.gz")
    );
    // The same run as a folder and as a file counts once.
    let course = |of: &str| {
        json(&threadgauge(dir.path(), &["history", of, "--format", "json"]))["histories"][0]["courses"][0]
            .clone()
    };
    let before = course(".");
    assert_eq!(before["points"].as_array().unwrap().len(), 10);
    fs::remove_dir_all(dir.path().join("day-10")).unwrap();
    assert_eq!(course("."), before);

    let again = refused_in(dir.path(), &["export", "day-01"]);
    assert!(again.contains("is there already"), "{again}");
    for command in ["claims", "report"] {
        let needs = refused_in(dir.path(), &[command, "day-01.run.json.gz"]);
        assert!(needs.contains("need its results folder"), "{needs}");
    }
    let bytes = fs::read(dir.path().join("day-01.run.json.gz")).unwrap();
    fs::write(dir.path().join("cut"), &bytes[..bytes.len() / 2]).unwrap();
    let cut = refused_in(dir.path(), &["compare", "cut", "day-01"]);
    assert!(cut.contains("is not what `threadgauge export` writes"), "{cut}");
}

#[test]
fn of_a_quick_run_an_exported_one_has_at_most_100_kib() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs/2026-11-23-quick");
    let dir = tempfile::tempdir().unwrap();
    let done = threadgauge(
        dir.path(),
        &["export", run.to_str().unwrap(), "--out", "quick.run.json.gz"],
    );
    assert!(done.status.success(), "{}", text(&done.stderr));
    let length = fs::metadata(dir.path().join("quick.run.json.gz")).unwrap().len();
    assert!((10_000..100 * 1024).contains(&length), "{length} bytes");
}

#[test]
fn a_run_gets_a_name_and_is_compared_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = |more: &[&'static str]| {
        let done = threadgauge(dir.path(), &tiny("1", more));
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stderr)
    };
    assert!(run(&["--baseline", "main"]).contains("The baseline main is threadgauge-results/"));
    run(&["--out", "later"]);
    let compared = threadgauge(dir.path(), &["compare", "main", "later"]);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    let replaced = run(&["--baseline", "main"]);
    assert!(replaced.contains("as was threadgauge-results/"), "{replaced}");

    let unknown = refused_in(dir.path(), &["compare", "mian", "later"]);
    assert!(unknown.contains("did you mean `main`"), "{unknown}");
    let taken = refused_in(dir.path(), &tiny("1", &["--baseline", "later"]));
    assert!(taken.contains("choose another"), "{taken}");
    fs::create_dir(dir.path().join("main")).unwrap();
    let both = refused_in(dir.path(), &["compare", "main", "later"]);
    assert!(
        both.contains("./main") && both.contains("baseline:main"),
        "{both}"
    );
    fs::remove_dir_all(dir.path().join("threadgauge-results")).unwrap();
    fs::create_dir(dir.path().join("threadgauge-results")).unwrap();
    let none = refused_in(dir.path(), &["compare", "baseline:main", "later"]);
    assert!(none.contains("no baseline is called `main`"), "{none}");
}

#[test]
fn a_run_that_went_on_gets_its_name_when_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let whole = threadgauge(dir.path(), &tiny("1", &["--out", "r"]));
    assert!(whole.status.success());
    let done = threadgauge(dir.path(), &["run", "--resume", "r", "--baseline", "main"]);
    assert!(
        text(&done.stderr).contains("The baseline main is r"),
        "{}",
        text(&done.stderr)
    );
    assert!(refused_in(dir.path(), &["compare", "main", "r"]).contains("r is named twice"));
}
