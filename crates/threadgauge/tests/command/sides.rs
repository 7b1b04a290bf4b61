//! Several runs a side, several columns, and how they are named on the command line.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use threadgauge_results::{Finding, Params, RunRecord, STORE_FILE, units};

use super::{json, record, refused_in, stored_case, text, threadgauge, tiny};

/// A run of one case, begun in this minute, which took about so long.
fn run(dir: &Path, name: &str, minute: u32, ns: f64) {
    with(dir, name, minute, ns, |record| record);
}

fn with(dir: &Path, name: &str, minute: u32, ns: f64, change: impl Fn(RunRecord) -> RunRecord) {
    let record = change(RunRecord {
        started: format!("2026-01-01T00:{minute:02}:00Z"),
        ..record(name)
    });
    let clock = Params::new().with("what", "clock").with("cpus", 1);
    let at = dir.join(name);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    stored_case(&at, &record, clock, |round, copy| {
        (ns * (1.0 + 0.001 * f64::from((round * 3 + copy) % 7)), false)
    });
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// Three runs a side by turns, the second 20 % slower, in the folders `old` and `new`.
fn by_turns(dir: &Path) {
    for pair in 0..3 {
        let level = 1.0 + 0.005 * f64::from(pair);
        run(dir, &format!("old/{pair}"), 2 * pair, 100.0 * level);
        run(dir, &format!("new/{pair}"), 2 * pair + 1, 120.0 * level);
    }
}

#[test]
fn folders_of_runs_are_sides_and_so_are_those_behind_a_base() {
    let dir = tempfile::tempdir().unwrap();
    by_turns(dir.path());
    let compare = |arguments: &[&str]| {
        let output = threadgauge(dir.path(), &[&["compare"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        output
    };
    let of_folders = json(&compare(&["old", "new", "--json"]));
    let named = json(&compare(&[
        "--json", "--base", "old/0", "old/1", "old/2", "--", "new/0", "new/1", "new/2",
    ]));
    for compared in [&of_folders, &named] {
        assert_eq!(compared["between"]["runs"], serde_json::json!([3, 3]));
        assert_eq!(compared["between"]["order"], "alternating");
        assert_eq!(compared["rows"][0]["verdict"], "slower", "{compared}");
        let ratio = compared["rows"][0]["ratio"].as_f64().unwrap();
        assert!((ratio - 1.2).abs() < 0.01, "{compared}");
    }
    assert_eq!(
        (&of_folders["a"], &of_folders["b"]),
        (&"old".into(), &"new".into())
    );
    assert_eq!(named["a"], "old/0 and 2 more");
    assert_eq!(of_folders["rows"], named["rows"]);
    let called = json(&compare(&["old", "new", "--json", "--name", "6.1,6.6"]));
    assert_eq!((&called["a"], &called["b"]), (&"6.1".into(), &"6.6".into()));
    let shown = text(&compare(&["old", "new"]).stdout);
    assert!(
        shown.starts_with(
            "No level of so few cases. Of 1 case 1 differs (1 slower), 0 are the same within 3 %, and none is"
        ),
        "{shown}"
    );
    assert!(
        shown.contains("Runs of both sides by turns, 3 against 3."),
        "{shown}"
    );
    let one = text(&compare(&["old", "new/1"]).stdout);
    assert!(
        one.replace("\n  ", " ")
            .contains("new/1 has one run: how far its runs lie apart is not known"),
        "{one}"
    );
    let gate = [
        "compare",
        "old",
        "new",
        "--fail-on",
        "slower:5%",
        "--fail-on",
        "unknown:20%",
    ];
    assert_eq!(threadgauge(dir.path(), &gate).status.code(), Some(1));
}

#[test]
fn what_is_no_side_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    by_turns(dir.path());
    let compare = |arguments: &[&str]| threadgauge(dir.path(), &[&["compare"], arguments].concat());
    let says = refused(&compare(&["old", "old/."]));
    assert!(says.contains("old/. is named twice"), "{says}");
    let says = refused(&compare(&["--base", "old/0", "new/0", "--", "old/0"]));
    assert!(says.contains("old/0 is named twice"), "{says}");
    // Under another name it is the same run.
    run(dir.path(), "copy", 0, 100.0);
    fs::copy(
        dir.path().join("old/0").join(STORE_FILE),
        dir.path().join("copy").join(STORE_FILE),
    )
    .unwrap();
    let says = refused(&compare(&["old", "copy"]));
    assert!(says.contains("old/0 and copy hold the same run"), "{says}");
    let says = refused(&compare(&["old"]));
    assert!(says.contains("1 side to compare: two are needed"), "{says}");
    let says = refused(&compare(&["--base", "old", "new"]));
    assert!(says.contains("--base A1 A2 -- B1 B2"), "{says}");
    let says = refused(&compare(&["old", "new", "--name", "a,b,c"]));
    assert!(
        says.contains("--name has a, b, c and there are 2 sides"),
        "{says}"
    );

    with(dir.path(), "old/3", 30, 100.0, |record| RunRecord {
        profile: "standard".to_owned(),
        ..record
    });
    let says = refused(&compare(&["old", "new"]));
    assert!(
        says.contains(
            "old/0 and old/3 do not repeat one another: profile is \"quick\" in the one and \"standard\""
        ),
        "{says}"
    );
    fs::remove_dir_all(dir.path().join("old/3")).unwrap();
    for n in 3..10 {
        run(dir.path(), &format!("old/{n}"), 30 + n, 100.0);
    }
    fs::write(dir.path().join("old/7").join(STORE_FILE), "no store").unwrap();
    let says = refused(&compare(&["old", "new"]));
    assert!(
        says.contains("one of 10 runs in old cannot be read; mend it, or move it out of there")
            && says.contains("old/7"),
        "{says}"
    );
}

#[test]
fn more_than_two_have_a_column_each_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    by_turns(dir.path());
    run(dir.path(), "third", 9, 150.0);
    let columns = |format: &str| {
        threadgauge(
            dir.path(),
            &["compare", "old", "new", "third", "--format", format],
        )
    };
    let of = json(&columns("json"));
    let names: Vec<&Value> = of["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| &column["name"])
        .collect();
    // A made-up kernel is called by the folder of its run.
    assert!(
        names
            .iter()
            .all(|name| name.as_str().unwrap().starts_with("kernel ")),
        "{names:?}"
    );
    let ranking = of["rows"][0]["ranking"].as_array().unwrap();
    let order: Vec<&Value> = ranking.iter().map(|placed| &placed["column"]).collect();
    assert_eq!(order, [0, 1, 2]);
    assert_eq!(ranking[1]["apart"], true, "{of}");
    assert_eq!(of["rows"][0]["unit"], "ns");
    for format in ["text", "markdown", "html"] {
        let output = columns(format);
        let shown = text(&output.stdout);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{format}: {}",
            text(&output.stderr)
        );
        for part in [
            "3 columns side by side. Of 1 case ",
            "null/what=clock,cpus=1",
            "third",
        ] {
            assert!(shown.contains(part), "{format}, {part}: {shown}");
        }
    }
    for arguments in [
        &["--format", "junit"][..],
        &["--format", "badge"],
        &["--fail-on", "slower:5%"],
    ] {
        let says = refused(&threadgauge(
            dir.path(),
            &[&["compare", "old", "new", "third"], arguments].concat(),
        ));
        assert!(says.contains("compare two"), "{says}");
    }
}

#[test]
fn forms_for_build_servers_say_what_the_check_says() {
    let dir = tempfile::tempdir().unwrap();
    by_turns(dir.path());
    let form = |format: &str| {
        let check = [
            "compare",
            "old",
            "new",
            "--fail-on",
            "slower:5%",
            "--format",
            format,
        ];
        let output = threadgauge(dir.path(), &check);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let github = form("github");
    assert!(
        github.starts_with("::error title=null/what=clock%2Ccpus=1::slower than --fail-on allows (1.2"),
        "{github}"
    );
    assert!(form("junit").contains("<failure message=\"slower than --fail-on allows"));
    let badge: Value = serde_json::from_str(&form("badge")).unwrap();
    assert_eq!(
        (&badge["message"], &badge["color"]),
        (&"failed, 1 slower".into(), &"red".into())
    );
    assert!(form("badge-svg").starts_with("<svg "));
    assert!(form("html").contains("The check failed for 1 reason"));
    assert!(form("markdown").contains("**The check failed for 1 reason.**"));
    let document: Value = serde_json::from_str(&form("json")).unwrap();
    assert_eq!(document["check"]["passed"], false);
}

#[test]
fn claims_of_several_stand_beside_one_another() {
    let dir = tempfile::tempdir().unwrap();
    by_turns(dir.path());
    let claims = |arguments: &[&str]| threadgauge(dir.path(), &[&["claims"], arguments].concat());
    let both = json(&claims(&["old/0", "new/0", "--name", "before,after", "--json"]));
    let columns = &both[0]["columns"];
    assert_eq!(
        (&columns[0]["name"], &columns[1]["name"]),
        (&"before".into(), &"after".into())
    );
    assert!(
        columns[0]["runs"][0]["state"]
            .as_str()
            .unwrap()
            .starts_with("not run"),
        "{both}"
    );
    let shown = text(&claims(&["--base", "old/0", "old/1", "--", "new/0"]).stdout);
    assert!(shown.contains(" in 2 of 2"), "{shown}");
    assert!(refused(&claims(&["old/0", "old/0/."])).contains("named twice"));
}

#[test]
fn claims_about_two_states_are_held_to_runs_of_both_and_say_what_they_lack() {
    let dir = tempfile::tempdir().unwrap();
    by_turns(dir.path());
    let claims = |arguments: &[&str]| {
        let all = [&["claims", "old", "new", "--text"], arguments].concat();
        threadgauge(dir.path(), &all)
    };
    // Each made-up run has a kernel of its own.
    let of = &json(&claims(&["kernel-upgrade-no-gain", "--json"]))[0];
    assert_eq!(of["together"]["state"], "not-testable", "{of}");
    let reason = of["together"]["finding"]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the kernel is not the same in all runs of old; the claim needs two kernels: "),
        "{reason}"
    );
    let shown = text(&claims(&["smt-no-effect-on-creation"]).stdout);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("together: – not testable. Why: SMT is not known of old"),
        "{shown}"
    );
    // Those of one state are as they were.
    let of = &json(&claims(&["thread-create-faster-on-one-cpu", "--json"]))[0];
    assert!(of["together"].is_null(), "{of}");
}

#[test]
fn runs_of_an_emulated_processor_are_compared_and_decide_no_claim() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| format!("{}/runs/2026-11-28-emulated/{name}", root.display());
    let claims = |a: &str, b: &str, id: &str| {
        json(&threadgauge(
            dir.path(),
            &["claims", &of(a), &of(b), "--text", id, "--json"],
        ))[0]
            .clone()
    };
    for (a, b, id) in [
        (
            "preemption/none",
            "preemption/full",
            "preemption-hardly-affects-threads",
        ),
        ("switched/a", "switched/b", "preemption-hardly-affects-threads"),
        ("smt/off", "smt/on", "smt-no-effect-on-switching"),
    ] {
        let together = &claims(a, b, id)["together"];
        assert_eq!(together["state"], "not-testable", "{together}");
        let reason = together["finding"]["reason"].as_str().unwrap();
        assert!(reason.contains("are of an emulated processor"), "{reason}");
    }
    // What they say of each other is said: the state was another one, and nothing else.
    let compared = json(&threadgauge(
        dir.path(),
        &["compare", &of("switched/a"), &of("switched/b"), "--json"],
    ));
    assert_eq!(compared["paired"], true);
    let warnings = compared["warnings"].to_string();
    let differ = "THE MACHINES DIFFER: preemption is \\\"none (dynamic)\\\" in ";
    assert!(warnings.contains(differ), "{warnings}");
    assert_eq!(warnings.matches("THE MACHINES DIFFER").count(), 1, "{warnings}");
    let emulated = format!(
        "{}, {} were measured on an emulated processor",
        of("switched/a"),
        of("switched/b")
    );
    assert!(warnings.contains(&emulated), "{warnings}");
    for arguments in [
        &[
            "compare",
            &of("switched/a"),
            &of("switched/b"),
            "--format",
            "html",
        ][..],
        &["compare", &of("preemption/none"), &of("preemption/full")],
        &[
            "compare",
            &of("smt/off"),
            &of("smt/on"),
            &of("switched/a"),
            "--format",
            "markdown",
        ],
        &["history", &of("smt/off")],
    ] {
        let shown = text(&threadgauge(dir.path(), arguments).stdout);
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("emulated"), "{arguments:?}: {shown}");
    }
}

#[test]
fn kept_runs_of_two_systems_say_of_the_claims_about_them_what_their_document_says() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let page = fs::read_to_string(root.join("docs/compare.md")).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| format!("{}/runs/2026-11-29-gvisor/{name}", root.display());
    for (id, state, figure) in [
        (
            "short-concurrent-io-differs-between-systems",
            "holds",
            "1.12 [1.11, 1.13]",
        ),
        (
            "long-work-same-on-both-systems",
            "does-not-hold",
            "1.24 [1.16, 1.32]",
        ),
    ] {
        let sides = [of("linux"), of("gvisor")];
        let claims = ["claims", &sides[0], &sides[1], "--text", id, "--json"];
        let together = &json(&threadgauge(dir.path(), &claims))[0]["together"];
        assert_eq!(together["state"], state, "{together}");
        let found: Finding = serde_json::from_value(together["finding"].clone()).unwrap();
        let measured = units::with_unit(found.measured.unwrap(), found.ci95, &found.unit);
        assert_eq!(measured, figure, "{together}");
        assert!(page.contains(&format!(" {figure} times as long")), "{figure}");
    }
}

#[test]
fn of_unchanged_runs_one_a_column_none_is_told_to_be_ahead() {
    let runs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../runs/2026-11-28-gate"));
    let dir = tempfile::tempdir().unwrap();
    let [first, middle, last] =
        ["1a", "5b", "10a"].map(|name| runs.join(format!("{name}.run.json.gz")).display().to_string());
    let compared = json(&threadgauge(
        dir.path(),
        &["compare", &first, &middle, &last, "--json"],
    ));
    assert_eq!(
        compared["says"],
        "3 columns side by side, of one run each: in none of 17 cases is it known who is ahead."
    );
    for row in compared["rows"].as_array().unwrap() {
        let ranking = row["ranking"].as_array().unwrap();
        assert_eq!(ranking.len(), 3, "{row}");
        assert!(ranking.iter().all(|placed| placed["apart"] == false), "{row}");
    }
}

#[test]
fn claims_are_held_to_the_sides_that_compare_is_held_to() {
    let dir = tempfile::tempdir().unwrap();
    by_turns(dir.path());
    let claims = |arguments: &[&str]| threadgauge(dir.path(), &[&["claims"], arguments].concat());
    run(dir.path(), "old/3", 30, 100.0);
    let store = |name: &str| dir.path().join(name).join(STORE_FILE);
    fs::copy(store("old/2"), store("old/3")).unwrap();
    let says = refused(&claims(&["old", "new"]));
    assert!(says.contains("old/2 and old/3 hold the same run"), "{says}");

    fs::remove_dir_all(dir.path().join("old/3")).unwrap();
    let standard = |record| RunRecord {
        profile: "standard".to_owned(),
        ..record
    };
    with(dir.path(), "old/3", 30, 100.0, standard);
    let says = refused(&claims(&["old", "new"]));
    assert!(
        says.contains("old/0 and old/3 do not repeat one another: profile is"),
        "{says}"
    );

    // Between the sides it is said above all claims.
    with(dir.path(), "other", 31, 100.0, standard);
    let output = claims(&["new", "other", "--name", "x,y"]);
    let shown = text(&output.stdout);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let differ = "THE RUNS DIFFER: profile is \"quick\" in x and \"standard\" in y";
    let at = shown.find(differ).unwrap_or_else(|| panic!("{shown}"));
    assert!(at < shown.find("Rule: ").unwrap(), "{shown}");
    let said = text(&claims(&["new", "other", "--name", "x,y", "--json"]).stderr);
    assert!(said.contains(differ), "{said}");
}

#[test]
fn what_is_left_out_of_a_folder_of_runs_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    by_turns(dir.path());
    fs::create_dir(dir.path().join("old/not-begun")).unwrap();
    let output = threadgauge(dir.path(), &["compare", "old", "new"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(
        said.contains("Left out: 1 folder in old, which is no results folder"),
        "{said}"
    );
}

#[test]
fn warnings_call_sides_by_the_names_that_they_were_given() {
    let dir = tempfile::tempdir().unwrap();
    by_turns(dir.path());
    let output = threadgauge(
        dir.path(),
        &["compare", "old/0", "new/0", "--name", "before,after", "--json"],
    );
    let warnings = json(&output)["warnings"].to_string();
    assert!(warnings.contains("THE MACHINES DIFFER: kernel is "), "{warnings}");
    assert!(
        warnings.contains(" in before and ") && warnings.contains(" in after"),
        "{warnings}"
    );
    let says = refused(&threadgauge(
        dir.path(),
        &["compare", "old", "new", "--name", "x,x"],
    ));
    assert!(says.contains("--name has `x` twice"), "{says}");
    let behind = ["compare", "--base", "old", "--", "new", "--fail-on", "slower:5%"];
    let says = refused(&threadgauge(dir.path(), &behind));
    assert!(says.contains("--fail-on stands behind `--`"), "{says}");
}

#[test]
fn claims_know_a_run_by_the_name_of_its_baseline() {
    let dir = tempfile::tempdir().unwrap();
    for more in [&["--baseline", "main"][..], &["--out", "later"]] {
        let done = threadgauge(dir.path(), &tiny("1", more));
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
    let both = json(&threadgauge(dir.path(), &["claims", "main", "later", "--json"]));
    let columns = &both[0]["columns"];
    assert_eq!(
        (&columns[0]["name"], &columns[1]["name"]),
        (&"main".into(), &"later".into())
    );
    let folder = columns[0]["runs"][0]["folder"].as_str().unwrap();
    assert!(folder.starts_with("threadgauge-results/"), "{folder}");
    let unknown = refused_in(dir.path(), &["claims", "mian", "later"]);
    assert!(unknown.contains("did you mean `main`"), "{unknown}");
}

#[test]
fn the_help_of_claims_promises_no_exported_run() {
    let dir = tempfile::tempdir().unwrap();
    let help = |command: &str| {
        let shown = text(&threadgauge(dir.path(), &[command, "--help"]).stdout);
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(help("compare").contains("Results folders, exported runs, names of baselines"));
    let of_claims = help("claims");
    assert!(
        of_claims.contains("Results folders, names of baselines, or folders of runs"),
        "{of_claims}"
    );
    assert!(!of_claims.contains("exported runs"), "{of_claims}");
}
