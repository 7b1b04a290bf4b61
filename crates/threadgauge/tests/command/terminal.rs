//! The command on a terminal: what is drawn while it measures fits into its columns and breaks no word.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{command, results, text};

/// Of a case whose parameters are longer than a line.
const RUN: [&str; 8] = [
    "run",
    "create",
    "--rounds",
    "2",
    "--only",
    "method=pthread,cpus=1,parent_mib=0,busy=0",
    "--out",
    "results",
];

/// A terminal of so many columns: its end that we hold, and the one for a child.
pub fn terminal(columns: u16) -> (File, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    // Not the terminal of this process, which its end would end, too; and no other child keeps it open.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
    (ours.into(), theirs)
}

/// Starts a command that holds the other end of our terminal: what it writes there, and how it ends.
pub fn written(mut command: Command, mut ours: File) -> (ExitStatus, String) {
    let mut child = command.spawn().unwrap();
    // It holds the terminal, too; the last to close it ends what we read.
    drop(command);
    let mut written = Vec::new();
    // Linux says the end of a terminal by an error.
    let _ = ours.read_to_end(&mut written);
    (child.wait().unwrap(), text(&written))
}

/// What the command writes to a terminal of this name and so many columns, as it is, and how it ends.
pub fn on_a_terminal(named: &str, columns: u16, dir: &Path, arguments: &[&str]) -> (ExitStatus, String) {
    let (ours, theirs) = terminal(columns);
    let mut command = command(dir, arguments);
    command
        .env("TERM", named)
        .env_remove("NO_COLOR")
        .stdout(Stdio::from(theirs.try_clone().unwrap()))
        .stderr(Stdio::from(theirs));
    written(command, ours)
}

/// A line without what steers a terminal.
fn shown(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        let end = part
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(part.len(), |at| at + 1);
        shown + &part[end..]
    })
}

#[test]
fn live_lines_fit_a_terminal_and_break_no_word() {
    for columns in [80, 72] {
        let dir = tempfile::tempdir().unwrap();
        let (status, drawn) = on_a_terminal("xterm", columns, dir.path(), &RUN);
        assert!(status.success(), "{drawn}");
        let results = results(&dir.path().join("results"));
        // The parameters of the cases, whole.
        let cases = results["experiments"][0]["cases"].as_array().unwrap();
        let ids = cases.iter().map(|case| case["id"].as_str().unwrap());
        let whole: BTreeSet<&str> = ids.flat_map(|id| id.split(['/', ','])).collect();
        let mut cut = 0;
        for line in drawn.split(['\r', '\n']).map(shown) {
            let line = line.trim_end();
            assert!(
                line.chars().count() <= usize::from(columns),
                "{columns}: {line:?}"
            );
            // The bar's, after the experiment's name.
            let Some((_, case)) = line.split_once(" · create · ") else {
                continue;
            };
            let last = case.trim_end_matches('…').rsplit([' ', ',']).next().unwrap();
            let is_whole = whole.contains(last) || !last.contains('=') && !last.contains(char::is_alphabetic);
            assert!(
                is_whole || last == "round",
                "{columns}: {last:?} is part of a word: {line:?}"
            );
            cut += usize::from(line.ends_with('…'));
        }
        assert!(cut > 0, "{columns}: no line was too long: {drawn}");
    }
}

#[test]
fn two_runs_that_share_a_terminal_say_lines_with_their_sides() {
    let dir = tempfile::tempdir().unwrap();
    let run = ["run", "null", "--only", "what=clock", "--rounds", "2"];
    let both = [&run[..], &["--switch", "true", "true", "--out", "s"]].concat();
    let (status, drawn) = on_a_terminal("xterm", 80, dir.path(), &both);
    assert!(status.success(), "{drawn}");
    for line in ["a: null: round 1 of 2", "b: null: round 2 of 2"] {
        assert!(drawn.contains(line), "{line}: {drawn}");
    }
    assert!(!drawn.contains(" · null · "), "a bar is drawn: {drawn}");
}
