//! Every example runs and says what it should.
#![cfg(not(loom))]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// An example as a command. Cargo has built it beside this test.
fn example(name: &str) -> Command {
    let this = std::env::current_exe().expect("a test has a path");
    let folder: PathBuf = this
        .parent()
        .and_then(|deps| deps.parent())
        .expect("a build folder")
        .join("examples");
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is missing: `cargo test -p threadgauge-exec` builds it",
        path.display()
    );
    Command::new(path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn output(command: &mut Command) -> (Output, String, String) {
    let output = command.output().expect("it starts");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

#[test]
fn word_count_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let files: Vec<_> = (0..5).map(|i| folder.path().join(i.to_string())).collect();
    for file in &files {
        std::fs::write(file, "one two Two").expect("written");
    }
    let (result, out, err) = output(example("word_count").args(&files));
    assert!(result.status.success(), "{err}");
    assert_eq!(out, "      5 one\n     10 two\n");
    assert_eq!(err.lines().count(), 5);
}

#[test]
fn parse_files_names_the_broken_and_adds_up_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["good", "bad", "better"].map(|name| folder.path().join(name));
    for (file, content) in files.iter().zip(["1\n2\n3.5", "1\nx", "100"]) {
        std::fs::write(file, content).expect("written");
    }
    let (result, out, err) = output(example("parse_files").args(&files));
    assert_eq!(result.status.code(), Some(1));
    assert_eq!(out, "4 numbers in 2 files, sum 106.5\n");
    assert!(err.contains("bad: line 2: \"x\" is not a number"), "{err}");
}

#[test]
fn call_service_gets_every_answer() {
    let (result, out, err) = output(example("call_service").arg("100"));
    assert!(result.status.success(), "{err}");
    assert!(out.starts_with("100 answers"), "{out}");
    assert!(out.contains("that of 97: 118 steps"), "{out}");
}

#[test]
fn children_prints_whole_outputs_in_order_and_stops_at_a_failure() {
    let run = |script: &str, lines: &str| {
        let mut child = example("children")
            .args(["sh", "-c", script, "sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // One that stops early closes its end.
        let _ = child.stdin.take().expect("piped").write_all(lines.as_bytes());
        child.wait_with_output().expect("it ends")
    };
    let all = run("echo \"<$1>\"", "a\nb\nc\nd\ne\nf\n");
    assert!(all.status.success());
    assert_eq!(text(&all.stdout), "<a>\n<b>\n<c>\n<d>\n<e>\n<f>\n");
    let failed = run("test $1 = ok || { echo no >&2; exit 3; }", "bad\nok\n");
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        text(&failed.stderr).contains("bad: exit status: 3\nno"),
        "{}",
        text(&failed.stderr)
    );
}

/// The next line is written when the output for the one before has come.
#[test]
fn children_prints_while_its_input_is_slow() {
    let mut child = example("children")
        .arg("echo")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = child.stdin.take().expect("piped");
    let printed = BufReader::new(child.stdout.take().expect("piped"));
    let (say, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        printed
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| say.send(line))
    });
    for line in ["one", "two", "three"] {
        writeln!(lines, "{line}").expect("it reads");
        let printed = said.recv_timeout(Duration::from_secs(60));
        if printed.is_err() {
            child.kill().expect("it runs");
        }
        assert_eq!(printed.as_deref(), Ok(line));
    }
    drop(lines);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn children_leaves_the_rest_of_its_input_unread_after_a_failure() {
    let mut child = example("children")
        .args(["sh", "-c", "test $1 = ok", "sh"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut lines = child.stdin.take().expect("piped");
    lines.write_all(b"bad\n").expect("it reads");
    let closed = (0..200_000).any(|_| lines.write_all(b"ok\n").is_err());
    assert!(closed, "it reads on after the failure");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn progress_bar_counts_primes() {
    let (result, out, err) = output(example("progress_bar").arg("10"));
    assert!(result.status.success(), "{err}");
    assert_eq!(out, "1229 primes below 10000\n");
}

#[test]
fn cancel_stops_at_a_signal() {
    let mut child = example("cancel")
        .arg("600")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert!(line.starts_with("working"), "{line}");
    let kill = format!("kill -INT {}", child.id());
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .expect("a shell")
            .success()
    );
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert!(child.wait().expect("it ends").success());
    assert!(
        rest.starts_with("stopped: ") && rest.contains("not started"),
        "{rest}"
    );
}

#[test]
fn cancel_stops_at_its_deadline() {
    let (result, out, err) = output(example("cancel").arg("0.01"));
    assert!(result.status.success(), "{err}");
    assert!(out.contains("out of time: "), "{out}");
}
