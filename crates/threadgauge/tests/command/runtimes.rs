//! Runtimes that misbehave, as a user has them: each is a shell script that says it is Python.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

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

fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
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
    wait_until(|| fs::read_to_string(&pids).is_ok_and(|text| text.ends_with('\n')));
    send_signal(&run, "-INT");
    let mut said = String::new();
    run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{said}");
    let started = fs::read_to_string(&pids).unwrap();
    for pid in started.split_whitespace() {
        wait_until(|| !runs(pid));
    }
    let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A JVM that runs a case of the guest in this folder, once it has its own threads.
fn warming_up(folder: &Path) -> Option<String> {
    let is_it = |pid: &String| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        words.contains(&*folder.to_string_lossy()) && words.contains("\0Guest\0create\0") && threads > 5
    };
    let pids = fs::read_dir("/proc").unwrap();
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    pids.filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        .find(is_it)
}

#[test]
fn a_second_interrupt_while_a_jvm_warms_up_ends_all_at_once_and_leaves_no_process() {
    if Command::new("javac").arg("-version").output().is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("tmp");
    fs::create_dir(&folder).unwrap();
    let only = "runtime=java,unit=platform,cpus=1";
    let arguments = ["run", "create", "--runtime", "java", "--only", only];
    let lasting = ["--set", "count=10000000", "--out", "r"];
    let mut run = command(dir.path(), &[&arguments[..], &lasting].concat());
    run.env("TMPDIR", &folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    wait_until(|| warming_up(&folder).is_some());
    let jvm = warming_up(&folder).unwrap();
    // The first ends the run behind the sample that is being taken, which lasts for a quarter of an hour.
    send_signal(&run, "-INT");
    let status = format!("/proc/{}/status", run.id());
    let is_taken = |text: String| text.contains("ShdPnd:\t0000000000000000");
    wait_until(|| fs::read_to_string(&status).is_ok_and(is_taken));
    assert!(runs(&jvm));
    send_signal(&run, "-INT");
    let mut said = String::new();
    run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{said}");
    wait_until(|| !runs(&jvm) && warming_up(&folder).is_none());
}

#[test]
fn of_two_versions_on_the_path_the_first_is_taken_and_the_other_by_its_name_and_place() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    for (folder, version) in [(&first, "3.12.1"), (&second, "3.9.2")] {
        fs::create_dir(folder).unwrap();
        python(&folder.join("python3"), version, ANSWERS);
    }
    let asked = format!("python,python-old={}", second.join("python3").display());
    let only = "runtime=python,python-old,unit=thread,cpus=1";
    let arguments = ["run", "create", "--runtime", &asked, "--only", only];
    let briefly = ["--set", "count=20", "--rounds", "1", "--out", "r"];
    let mut run = command(dir.path(), &[&arguments[..], &briefly].concat());
    let usual = std::env::var("PATH").unwrap();
    run.env(
        "PATH",
        format!("{}:{}:{usual}", first.display(), second.display()),
    );
    let output = run.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results = results(&dir.path().join("r"));
    let cases = results["experiments"][0]["cases"].as_array().unwrap();
    let told = cases.iter().map(|case| {
        assert_eq!(case["status"], "ok", "{case}");
        let name = case["params"]["runtime"].as_str().unwrap();
        let tags = case["tags"].as_array().unwrap().iter();
        let version = tags
            .filter_map(|tag| tag.as_str()?.strip_prefix("version-"))
            .next();
        (name, version.unwrap())
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [("python", "3.12.1"), ("python-old", "3.9.2")]
    );
}
