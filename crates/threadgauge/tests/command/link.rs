//! A load behind a limited link (`load --link --start`), where this machine allows one: what it measures, and that
//! nothing of it is left whatever ends it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;

use super::{command, json_of, refused, send_signal, text, threadgauge};

/// However slow the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_server_behind_a_limited_link_is_loaded_or_the_reason_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_threadgauge");
    let start = format!("{program} serve bytes --design reactor --listen 0.0.0.0:7000");
    let more = [
        "-c", "4", "-r", "50", "-d", "500ms", "--link", "20mbit", "--start", &start,
    ];
    let arguments = [&["load", "bytes", "--target", "7000", "--json"][..], &more].concat();
    let output = threadgauge(dir.path(), &arguments);
    if output.status.code() == Some(2) {
        let said = text(&output.stderr);
        assert!(said.contains("limited link"), "{said}");
        return;
    }
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&document["setting"]["link"], &document["target"]),
        (&"20mbit".into(), &"198.18.0.1:7000".into())
    );
    assert!(document["runs"][0]["answered"].as_u64() > Some(0), "{document:#}");
    assert!(document["runs"][0]["server"]["pid"].as_i64() > Some(0));
    let alone = ["load", "bytes", "--target", "7000", "--link", "20mbit"];
    assert!(refused(&alone).contains("--start"));
}

/// A load that goes on until it is ended, of a server whose shell has started one more in a session of its own.
struct Loading {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Loading {
    /// Once it measures; none where this machine has no such link.
    fn start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let program = env!("CARGO_BIN_EXE_threadgauge");
        let start =
            format!("setsid sleep 1000 & {program} serve bytes --design reactor --listen 0.0.0.0:7000");
        let more = [
            "-r", "50", "-d", "1h", "--json", "--link", "20mbit", "--start", &start,
        ];
        let mut load = command(
            dir.path(),
            &[&["load", "bytes", "--target", "7000"], &more[..]].concat(),
        );
        load.stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = load.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut all = String::new();
        while !all.contains(" s · ") {
            if said.read_line(&mut all).unwrap() == 0 {
                assert_eq!(child.wait().unwrap().code(), Some(2), "{all}");
                assert!(all.contains("limited link"), "{all}");
                return None;
            }
        }
        Some(Self { child, said })
    }

    /// Waits until all are gone that say something to the same reader: what it has started, and what that has.
    fn end(self) -> Output {
        let Self { child, mut said } = self;
        let output = child.wait_with_output().unwrap();
        let (sender, over) = channel();
        std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = said.read_to_string(&mut rest);
            let _ = sender.send(rest);
        });
        let rest = over.recv_timeout(PATIENCE);
        rest.expect("something of it is left, and has its standard error");
        output
    }
}

#[test]
fn nothing_of_a_load_that_is_killed_is_left() {
    let Some(loading) = Loading::start() else { return };
    send_signal(&loading.child, "-KILL");
    assert_eq!(loading.end().status.code(), None);
}

/// As a terminal sends it: to all of its group.
#[test]
fn ctrl_c_ends_the_load_in_order_and_then_all_that_it_started() {
    let Some(loading) = Loading::start() else { return };
    let group = format!("-{}", loading.child.id());
    let sent = Command::new("kill")
        .args(["-INT", "--", &group])
        .status()
        .unwrap();
    assert!(sent.success());
    let document = json_of(&loading.end(), 130);
    assert_eq!(document["interrupted"], true);
}
