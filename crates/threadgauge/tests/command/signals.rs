//! Signals that were ignored when a command began, those that end it, and the one for a file that may not grow.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::serve::served;
use super::{children, results, send_signal, text, tiny};

/// How long a server may take to answer.
const DEADLINE: Duration = Duration::from_secs(60);

/// The command, started with these signals ignored, as `nohup` and a shell do.
fn ignoring(signals: &str, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command
        .args([
            &format!("--ignore-signal={signals}"),
            env!("CARGO_BIN_EXE_threadgauge"),
        ])
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}

/// The command under these limits of the shell.
fn limited(limits: &str, dir: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_threadgauge");
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{limits} && exec \"$0\" \"$@\""), program]);
    shell.args(arguments).current_dir(dir).output().unwrap()
}

/// A command that was started with signals ignored, and what it says. Ended with the test.
struct Started {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Started {
    /// Once it has said a line with `part`: that line from there on.
    fn until(mut command: Command, part: &str) -> (Self, String) {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut started = Self { child, said };
        let line = started.hears(part);
        (started, line)
    }

    fn hears(&mut self, part: &str) -> String {
        let mut all = String::new();
        loop {
            let start = all.len();
            assert_ne!(self.said.read_line(&mut all).unwrap(), 0, "no {part:?} in {all}");
            if let Some(place) = all[start..].find(part) {
                return all[start + place + part.len()..].trim_end().to_owned();
            }
        }
    }

    /// Whether the kernel drops this signal, whatever it was meant to do.
    fn ignores(&self, signal: i32) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let set = u64::from_str_radix(set.unwrap().trim(), 16).unwrap();
        set & 1 << (signal - 1) != 0
    }

    /// Sends what was ignored at its start, and then what ends it: its exit code.
    fn end(mut self, ignored: &[i32], by: &str) -> Option<i32> {
        for &signal in ignored {
            assert!(self.ignores(signal), "signal {signal} is handled");
            send_signal(&self.child, &format!("-{signal}"));
        }
        assert_eq!(self.child.try_wait().unwrap(), None, "it goes on");
        send_signal(&self.child, by);
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_was_ignored_when_a_command_began_stays_ignored() {
    let server = served("echo");
    let dir = tempfile::tempdir().unwrap();
    let config = "protocol = 'groups'\nlisten = 0\n";
    fs::write(dir.path().join("groups.toml"), config).unwrap();
    const BACKGROUND: &str = "HUP,INT,QUIT";
    const SIGNALS: [i32; 3] = [1, 2, 3];
    let load = [
        "load",
        "echo",
        "--target",
        &server.address,
        "-d",
        "1h",
        "-r",
        "100",
    ];
    let listening = "listening on ";
    for (arguments, begun, code) in [
        (&tiny("1000", &["--out", "r"])[..], ": round 2", 143),
        (&load, " s · ", 143),
        (&["serve", "http", "--listen", "0"], listening, 0),
        (
            &[
                "serve",
                "echo",
                "--design",
                "process-per-connection",
                "--listen",
                "0",
            ],
            listening,
            0,
        ),
        (&["serve", "groups", "--listen", "0"], listening, 0),
        (&["serve", "--config", "groups.toml"], "SIGHUP was ignored", 0),
    ] {
        let command = ignoring(BACKGROUND, dir.path(), arguments);
        let (started, address) = Started::until(command, begun);
        if begun == listening {
            let client = TcpStream::connect(&address).unwrap();
            client.set_read_timeout(Some(DEADLINE)).unwrap();
        }
        assert_eq!(started.end(&SIGNALS, "-TERM"), Some(code), "{arguments:?}");
    }
    // Where nobody asks for the end, it comes by itself.
    let mut short = ignoring("HUP,INT,QUIT,TERM", dir.path(), &tiny("2", &["--out", "whole"]));
    let whole = short.output().unwrap();
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    assert_eq!(results(&dir.path().join("whole"))["run"]["complete"], true);
}

/// The second of two signals ends a server at once also where another is ignored; and one that is not is heard.
#[test]
fn a_signal_that_was_not_ignored_does_what_it_does() {
    let dir = tempfile::tempdir().unwrap();
    for by in ["-HUP", "-USR2", "-TERM"] {
        let command = ignoring("INT", dir.path(), &["serve", "http", "--listen", "0"]);
        let (started, _) = Started::until(command, "listening on ");
        assert_eq!(started.end(&[2], by), Some(0), "{by}");
    }
    let groups = ["serve", "groups", "--listen", "0", "--lame-duck", "60"];
    let (mut started, address) = Started::until(ignoring("HUP", dir.path(), &groups), "listening on ");
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    client.read_exact(&mut [0; 6]).unwrap();
    send_signal(&started.child, "-USR2");
    started.hears("SIGUSR2: a lame duck");
    client.write_all(b"CONNECT {}\r\n").unwrap();
    assert_eq!(started.end(&[1], "-INT"), Some(130));
}

#[test]
fn each_signal_that_ends_a_run_early_has_its_exit_code() {
    let server = served("echo");
    for (by, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let dir = tempfile::tempdir().unwrap();
        let load = [
            "load",
            "echo",
            "--target",
            &server.address,
            "-d",
            "1h",
            "-r",
            "100",
            "--out",
            "r",
        ];
        for (arguments, begun, id) in [
            (&tiny("1000", &["--out", "r"])[..], ": round 2", "null"),
            (&load, " s · ", "load"),
        ] {
            let folder = dir.path().join(id);
            fs::create_dir(&folder).unwrap();
            let (started, _) = Started::until(ignoring("QUIT", &folder, arguments), begun);
            assert_eq!(started.end(&[3], by), Some(code), "{id}");
            assert_eq!(results(&folder.join("r"))["run"]["complete"], false, "{id}, {by}");
        }
    }
}

#[test]
fn a_parent_that_ignored_the_ends_of_children_and_requests_to_end_fails_no_case() {
    let dir = tempfile::tempdir().unwrap();
    let signals = "CHLD,TERM,ALRM,USR1,USR2";
    // Children that are waited for, and a server that is ended by SIGTERM.
    for (out, arguments) in [
        ("null", &tiny("2", &[])[..]),
        (
            "create",
            &[
                "run",
                "create",
                "--rounds",
                "1",
                "--only",
                "alive=1,busy=0,cpus=1",
            ],
        ),
        (
            "servers",
            &[
                "run",
                "server-designs",
                "--rounds",
                "1",
                "--only",
                "design=iterative",
            ],
        ),
    ] {
        let run = [arguments, &["--strict", "--out", out]].concat();
        let run = ignoring(signals, dir.path(), &run).output().unwrap();
        let (out, said) = (text(&run.stdout), text(&run.stderr));
        assert_eq!(run.status.code(), Some(0), "{arguments:?}: {out}{said}");
    }
    let design = ["serve", "echo", "--design", "preforked-accept", "--listen", "0"];
    let (started, address) = Started::until(ignoring("CHLD", dir.path(), &design), "listening on ");
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    client.write_all(b"hello\n").unwrap();
    client.read_exact(&mut [0; 6]).unwrap();
    drop(client);
    assert_eq!(started.end(&[], "-TERM"), Some(0));
}

#[test]
fn a_run_that_is_killed_takes_the_server_of_its_case_along() {
    let dir = tempfile::tempdir().unwrap();
    let run = [
        "run",
        "server-designs",
        "--only",
        "design=reactor",
        "--rounds",
        "1000",
    ];
    let (mut started, _) = Started::until(ignoring("HUP", dir.path(), &run), ": round 1");
    let own = started.child.id().to_string();
    let program = |pid: &str| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let by = Instant::now() + DEADLINE;
    let server = loop {
        let below = children(&children(std::slice::from_ref(&own)));
        let mut servers = below.into_iter();
        let is_server = |pid: &String| program(pid).windows(7).any(|part| part == b"\0serve\0");
        if let Some(server) = servers.find(is_server) {
            break server;
        }
        assert!(Instant::now() < by, "no case has a server");
    };
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    // A dead one that nobody waits for has no words any more.
    while !program(&server).is_empty() {
        assert!(Instant::now() < by, "the server is left");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_file_that_may_not_grow_is_said_and_leaves_no_part_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let whole = limited("true", dir.path(), &tiny("1", &["--out", "whole"]));
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let page = dir.path().join("whole/report.html");
    let written = fs::read(&page).unwrap();
    let less = written.len() / 1024 - 1;
    // The first has no room for a store, the second for the page.
    for (arguments, kib) in [
        (&tiny("1", &["--out", "none"])[..], 1),
        (&["report", "whole"], less),
    ] {
        let output = limited(&format!("ulimit -f {kib}"), dir.path(), arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{:?}: {said}", output.status);
        let last = said.lines().last().unwrap();
        assert!(
            last.starts_with("threadgauge: ") && last.contains("`ulimit -f`"),
            "{said}"
        );
        let folder = fs::read_dir(dir.path().join(arguments.last().unwrap())).unwrap();
        let left: Vec<_> = folder.map(|entry| entry.unwrap().file_name()).collect();
        let parts = left
            .iter()
            .filter(|name| name.to_string_lossy().ends_with(".tmp"));
        assert_eq!(parts.count(), 0, "{left:?}");
    }
    assert_eq!(fs::read(&page).unwrap(), written, "the page is as it was");
}
