//! Runtimes that misbehave, as a user has them: each is a shell script that says it is Python.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{command, results, send_signal, text, threadgauge};

/// What a guest in `create` is to answer.
const ANSWERS: &str = "echo done made=20 batch_1_ns=1000 batch_2_ns=1000 batch_3_ns=1000 batch_4_ns=1000 \
                       batch_5_ns=1000 batch_6_ns=1000 batch_7_ns=1000 batch_8_ns=1000 batch_9_ns=1000 batch_10_ns=1000";

/// A program that says it is this version of Python, and as a guest does this.
fn python(at: &Path, version: &str, guest: &str) {
    let asked = format!("case $1 in --version) echo Python {version};; -c) exit 1;; *) {guest};; esac");
    // By another process: what a test beside this starts has all files of this one open for a moment, and a file that
    // is open for writing is no program.
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$0\" && chmod 755 \"$0\"";
    let written = Command::new("sh").args(["-c", write]).arg(at).arg(asked).status();
    assert!(written.unwrap().success());
}

/// Whether a process is there and has not ended.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_guest_does_wrong_is_its_cases_reason_and_the_others_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let guests = [
        ("good", "3.12.1", ANSWERS, "ok", ""),
        (
            "nonsense",
            "3.12.1",
            "echo hello",
            "failed",
            "it answered \"hello\": it is to begin with done",
        ),
        (
            "half",
            "3.12.1",
            "echo done made=20 batch_1_ns=7",
            "failed",
            "batch_2_ns=NUMBER is wanted",
        ),
        (
            "dies",
            "3.12.1",
            "exit 3",
            "failed",
            "it ended with exit status: 3",
        ),
        (
            "memory",
            "3.12.1",
            "echo MemoryError >&2; exit 1",
            "failed",
            "exit status: 1: MemoryError",
        ),
        (
            "killed",
            "3.12.1",
            "kill -9 $$",
            "failed",
            "it ended with signal: 9",
        ),
        (
            "old",
            "2.7.18",
            ANSWERS,
            "skipped",
            "is of version 2.7.18, and its guest needs 3 or later",
        ),
        ("denied", "3.12.1", ANSWERS, "skipped", "Permission denied"),
        ("gone", "3.12.1", ANSWERS, "skipped", "No such file or directory"),
    ];
    let mut asked = Vec::new();
    for (name, version, guest, ..) in guests {
        let at = dir.path().join(name);
        python(&at, version, guest);
        asked.push(format!("python-{name}={}", at.display()));
    }
    let chmod = Command::new("chmod")
        .arg("644")
        .arg(dir.path().join("denied"))
        .status();
    assert!(chmod.unwrap().success());
    fs::remove_file(dir.path().join("gone")).unwrap();
    let asked = asked.join(",");
    let run = ["run", "create", "--runtime", &asked, "--only"];
    let names = guests.map(|(name, ..)| format!("python-{name}")).join(",");
    let only = format!("runtime={names},unit=thread,cpus=1");
    let output = threadgauge(
        dir.path(),
        &[
            &run[..],
            &[&only, "--set", "count=20", "--rounds", "1", "--out", "r"],
        ]
        .concat(),
    );
    let said = text(&output.stderr);
    let results = results(&dir.path().join("r"));
    let cases = results["experiments"][0]["cases"].as_array().unwrap();
    for (name, _, _, status, says) in guests {
        let named = |case: &&serde_json::Value| case["params"]["runtime"] == format!("python-{name}");
        let case = cases
            .iter()
            .find(named)
            .unwrap_or_else(|| panic!("no {name}: {said}"));
        assert_eq!(case["status"], status, "{case}");
        assert!(
            case["reason"].as_str().unwrap_or_default().contains(says),
            "{case}"
        );
    }
    // What is lacking is said before anything is measured.
    assert!(said.contains("skipped: python-old: "), "{said}");
}

#[test]
fn an_interrupt_ends_a_guest_with_all_it_started_and_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let [pids, folder] = ["pids", "tmp"].map(|name| dir.path().join(name));
    fs::create_dir(&folder).unwrap();
    let at = dir.path().join("python3");
    // One that warms up for ever, with a helper that has closed all that could be listened to.
    let guest = format!(
        "sleep 600 >&- 2>&- <&- & echo $! $$ >>{}; while :; do sleep 600; done",
        pids.display()
    );
    python(&at, "3.12.1", &guest);
    let asked = format!("python={}", at.display());
    let mut run = command(
        dir.path(),
        &[
            "run",
            "create",
            "--runtime",
            &asked,
            "--only",
            "runtime=python,unit=thread",
            "--out",
            "r",
        ],
    );
    run.env("TMPDIR", &folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    wait_until("no guest was started", || {
        fs::read_to_string(&pids).is_ok_and(|text| text.ends_with('\n'))
    });
    send_signal(&run, "-INT");
    let mut said = String::new();
    run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{said}");
    let started = fs::read_to_string(&pids).unwrap();
    for pid in started.split_whitespace() {
        wait_until(&format!("{pid} is left of {started}"), || !runs(pid));
    }
    let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
