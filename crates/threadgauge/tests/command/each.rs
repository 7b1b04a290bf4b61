//! `run turnaround --each`: computations of the user's own.

use std::fs;
use std::path::Path;

use super::{results, text, threadgauge};

/// Runs a script once for each line of a list.
fn each(dir: &Path, script: &str, more: &[&str]) -> (Option<i32>, String) {
    fs::write(dir.join("list"), "first\nsecond one\n").unwrap();
    let command = format!("sh -c '{script}' x {{}}");
    let arguments = [
        &[
            "run",
            "turnaround",
            "--each",
            &command,
            "--items",
            "list",
            "--out",
            "r",
        ][..],
        more,
    ];
    let output = threadgauge(dir, &arguments.concat());
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn computations_of_ones_own_are_measured_in_every_order_and_go_on_after_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo \"$1\" >> log";
    let (code, said) = each(dir.path(), script, &["--rounds", "1", "--cpus", "0"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("Each item has the command to itself once"),
        "{said}"
    );
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.starts_with("first\nsecond one\n"), "{log}");
    let of_first = log.lines().filter(|line| *line == "first").count();
    // By itself, and in each case; the reference comes twice, and disturbed tries again.
    assert!(of_first >= 6 && log.lines().count() == 2 * of_first, "{log}");
    let results = results(&dir.path().join("r"));
    let experiment = &results["experiments"][0];
    assert_eq!(experiment["id"], "each");
    let cases = experiment["cases"].as_array().unwrap();
    let ids: Vec<&str> = cases.iter().map(|case| case["id"].as_str().unwrap()).collect();
    assert_eq!(
        ids,
        [
            "each/order=given,degree=1,cpus=1",
            "each/order=given,degree=2,cpus=1",
            "each/order=shortest,degree=1,cpus=1",
            "each/order=longest,degree=1,cpus=1",
        ]
    );
    assert!(cases.iter().all(|case| case["status"] == "ok"), "{cases:?}");
    let options = results["run"]["options"].as_array().unwrap();
    assert!(
        options.iter().any(|option| option == "--items list"),
        "{options:?}"
    );
    // It is read again, also where the list is gone; and has nothing left to do.
    fs::remove_file(dir.path().join("list")).unwrap();
    for again in [&["report", "r"][..], &["run", "--resume", "r"]] {
        let output = threadgauge(dir.path(), again);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn what_cannot_run_is_said_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let fails = "test \"$1\" = first || { echo no such luck >&2; exit 3; }";
    for (script, more, says) in [
        (
            fails,
            &[][..],
            "item 2 (`second one`): `exit status: 3`, with the last words: no such luck",
        ),
        ("kill -SEGV $$", &[], "item 1 (`first`): `signal: 11 (SIGSEGV)"),
        (
            "exit 0",
            &["--only", "order=largest"],
            "no case of this profile has order=largest",
        ),
        (
            "exit 0",
            &["--set", "degree=0"],
            "the parameter degree is 0; it must be a number from 1 to 1000",
        ),
    ] {
        let (code, said) = each(dir.path(), script, more);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(says), "{said}");
        assert!(!dir.path().join("r").exists(), "{said}");
    }
    for arguments in [
        &["run", "--each", "true {}", "--items", "list"][..],
        &["run", "null", "--each", "true {}", "--items", "list"],
    ] {
        let output = threadgauge(dir.path(), arguments);
        let said = text(&output.stderr);
        assert!(
            said.contains("threadgauge run turnaround --each 'true {}'"),
            "{said}"
        );
    }
}
