//! `threadgauge serve`: real servers, real clients, signals, settings.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{command, json, refused, send_signal, text, threadgauge};

/// How long a client waits for anything.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A server of its own process, ended with the test.
pub(super) struct Served {
    pub(super) child: Child,
    said: BufReader<ChildStderr>,
    pub(super) address: String,
}

/// One reactor that speaks this protocol, on a free port.
pub(super) fn served(protocol: &str) -> Served {
    let dir = tempfile::tempdir().unwrap();
    Served::start(
        dir.path(),
        &[protocol, "--design", "reactor", "--listen", "127.0.0.1:0"],
    )
}

impl Served {
    /// Started, and listening.
    pub(super) fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::by(command(dir, &[&["serve"], arguments].concat()))
    }

    /// Started by a shell that first says `before`.
    fn start_after(before: &str, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let program = env!("CARGO_BIN_EXE_threadgauge");
        shell.args(["-c", &format!("{before}; exec \"$0\" serve \"$@\""), program]);
        shell.args(arguments).stdin(Stdio::null());
        Self::by(shell)
    }

    /// Or what it said instead.
    pub(super) fn try_start(dir: &Path, arguments: &[&str]) -> Result<Self, String> {
        Self::try_by(command(dir, &[&["serve"], arguments].concat()))
    }

    fn by(command: Command) -> Self {
        Self::try_by(command).unwrap_or_else(|said| panic!("it did not start: {said}"))
    }

    fn try_by(mut command: Command) -> Result<Self, String> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        said.read_line(&mut first).unwrap();
        let Some(address) = first.strip_prefix("listening on ") else {
            let _ = said.read_to_string(&mut first);
            let _ = child.wait();
            return Err(format!("{command:?}: {first}"));
        };
        Ok(Self {
            child,
            address: address.trim_end().to_owned(),
            said,
        })
    }

    /// Waits for it to say a line that begins so, and gives back the rest of that.
    pub(super) fn hears(&mut self, begin: &str) -> String {
        let mut all = String::new();
        loop {
            let start = all.len();
            assert_ne!(self.said.read_line(&mut all).unwrap(), 0, "no {begin:?} in {all}");
            if let Some(rest) = all[start..].strip_prefix(begin) {
                return rest.trim_end().to_owned();
            }
        }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(&self.address).unwrap();
        client.set_read_timeout(Some(DEADLINE)).unwrap();
        client
    }

    /// Sends, and reads as many bytes as are expected.
    pub(super) fn exchange(&self, request: &str, answer: &str) -> TcpStream {
        let mut client = self.connect();
        client.write_all(request.as_bytes()).unwrap();
        let mut came = vec![0; answer.len()];
        client.read_exact(&mut came).unwrap();
        assert_eq!(text(&came), answer);
        client
    }

    pub(super) fn signal(&self, signal: &str) {
        send_signal(&self.child, signal);
    }

    /// Waits until no signal is on its way to it.
    fn signals_arrived(&self) {
        let status = format!("/proc/{}/status", self.child.id());
        let pending = || {
            let status = fs::read_to_string(&status).unwrap();
            status
                .lines()
                .filter(|line| line.starts_with("SigPnd") || line.starts_with("ShdPnd"))
                .any(|line| {
                    line.split_whitespace()
                        .nth(1)
                        .is_some_and(|set| set.contains(|c| c != '0'))
                })
        };
        let deadline = Instant::now() + DEADLINE;
        while pending() {
            assert!(Instant::now() < deadline, "a signal does not arrive");
            std::thread::yield_now();
        }
    }

    /// Waits for its end: the exit code, standard output and what else it said.
    pub(super) fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut said) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        self.said.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), out, said)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pairs() -> Vec<(String, String)> {
    let listed = threadgauge(Path::new("."), &["serve", "--list", "--json"]);
    let listed: Value = json(&listed);
    let designs = listed["designs"].as_array().unwrap();
    let pairs = |design: &Value| -> Vec<(String, String)> {
        let serves = design["serves"].as_array().unwrap();
        let name = |value: &Value| value.as_str().unwrap().to_owned();
        serves
            .iter()
            .map(|protocol| (name(protocol), name(&design["name"])))
            .collect()
    };
    designs.iter().flat_map(pairs).collect()
}

#[test]
fn every_pair_of_the_list_serves_and_sums_up() {
    let dir = tempfile::tempdir().unwrap();
    for (protocol, design) in pairs() {
        let served = Served::start(
            dir.path(),
            &[&protocol, "--design", &design, "--listen", "0", "--json"],
        );
        let mut client = match &protocol[..] {
            "null" => {
                let mut client = served.connect();
                assert_eq!(client.read(&mut [0]).unwrap(), 0);
                client
            }
            "echo" => served.exchange("hello\n", "hello\n"),
            "bytes" => served.exchange("5 keep\n", "abcde"),
            "http" => served.exchange("GET /5 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
            "numbered" => served.exchange("7 1 x\n", "7 x\n"),
            "chat" => served.exchange("join x\n", "joined x\n"),
            // Greeted first.
            "groups" => served.exchange("", "INFO {"),
            other => panic!("how is {other} asked?"),
        };
        served.signal("-TERM");
        // As clients do: when the server ends, so does it.
        client.read_to_end(&mut Vec::new()).unwrap();
        drop(client);
        let (code, out, said) = served.end();
        assert_eq!(code, Some(0), "{protocol} on {design}: {said}");
        let summary: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            summary["counters"]["accepted"], 1,
            "{protocol} on {design}: {summary}"
        );
        let reason = if protocol == "null" {
            "finished"
        } else {
            "server stopped"
        };
        assert_eq!(summary["closed"][reason], 1, "{protocol} on {design}: {summary}");
    }
}

#[test]
fn without_a_design_one_event_loop_serves() {
    let dir = tempfile::tempdir().unwrap();
    let listed = json(&threadgauge(dir.path(), &["serve", "--list", "--json"]));
    assert_eq!(listed["default_design"], "reactor");
    let served = Served::start(dir.path(), &["echo"]);
    drop(served.exchange("hello\n", "hello\n"));
    served.signal("-TERM");
    let (code, out, said) = served.end();
    assert_eq!(code, Some(0));
    assert!(
        out.starts_with("echo on reactor\n") && said.starts_with("echo on reactor: "),
        "{out}{said}"
    );
}

/// What the kernel allows, the server itself says when it is asked for it.
#[test]
fn without_a_design_groups_are_served_as_was_measured_best_and_it_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let io_uring = Served::try_start(dir.path(), &["groups", "--listen", "0", "--sends", "io_uring"]);
    let served = Served::start(dir.path(), &["groups", "--listen", "0"]);
    drop(served.exchange("", "INFO {"));
    served.signal("-TERM");
    let (code, out, said) = served.end();
    assert_eq!(code, Some(0));
    assert!(out.starts_with("groups on reactor\n"), "{out}");
    let chosen = "\nchosen, since no --design is given: reactor with --sends ";
    let how = match io_uring {
        Ok(_) => "io_uring, which delivered most for a CPU second",
        Err(_) => "call; io_uring would deliver more for a CPU second, but the kernel refuses it",
    };
    assert!(said.contains(&format!("{chosen}{how}")), "{said}");
    for named in [["--design", "reactor"], ["--sends", "call"]] {
        let served = Served::start(dir.path(), &[&["groups", "--listen", "0"], &named[..]].concat());
        served.signal("-TERM");
        let said = served.end().2;
        assert!(!said.contains("chosen"), "{said}");
    }
}

#[test]
fn groups_listen_where_clients_look_for_them() {
    let dir = tempfile::tempdir().unwrap();
    // Somebody else may have the port: then it says so.
    let address = match Served::try_start(dir.path(), &["groups"]) {
        Ok(served) => served.address.clone(),
        Err(said) => {
            assert!(said.contains("cannot listen on 127.0.0.1:4222"), "{said}");
            return;
        }
    };
    assert_eq!(address, "127.0.0.1:4222");
}

#[test]
fn it_says_what_it_is_made_of_and_whom_it_serves_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for (design, made_of) in [
        (
            "prethreaded-mutex",
            "3 threads, each with one connection at a time; others wait",
        ),
        ("reactor-per-core", "3 loops"),
    ] {
        let served = Served::start(dir.path(), &["echo", "--design", design, "--workers", "3"]);
        served.signal("-TERM");
        let (_, _, said) = served.end();
        assert!(said.contains(&format!("\nmade of {made_of}\n")), "{said}");
    }
}

#[test]
fn a_low_limit_on_descriptors_is_raised_as_far_as_it_may_be_and_else_said() {
    let served = Served::start_after("ulimit -Sn 64", &["echo"]);
    let clients: Vec<TcpStream> = (0..100).map(|_| served.exchange("x", "x")).collect();
    served.signal("-TERM");
    drop(clients);
    assert!(!served.end().2.contains("open files"));
    let served = Served::start_after("ulimit -n 64", &["echo"]);
    served.signal("-TERM");
    let (code, _, said) = served.end();
    assert_eq!(code, Some(0));
    assert!(said.contains("the limit on open files is 64"), "{said}");
}

#[test]
fn too_many_members_of_groups_are_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &["groups", "--listen", "0", "--max-connections", "2"]);
    let members = [(); 2].map(|()| served.exchange("", "INFO {"));
    for _ in 0..3 {
        let mut said = String::new();
        served.connect().read_to_string(&mut said).unwrap();
        assert_eq!(said, "-ERR 'maximum connections exceeded'\r\n");
    }
    served.signal("-TERM");
    drop(members);
    assert_eq!(served.end().0, Some(0));
}

#[test]
fn the_summary_says_what_happened() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &["bytes", "--design", "iterative", "--idle", "60"]);
    assert!(
        served.address.starts_with("127.0.0.1:"),
        "loopback unless told otherwise"
    );
    for request in ["4000\n", "nonsense\n"] {
        let mut client = served.connect();
        client.write_all(request.as_bytes()).unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
    }
    served.signal("-INT");
    let (code, out, said) = served.end();
    assert_eq!(code, Some(0));
    assert_eq!(
        said,
        "bytes on iterative: one thread serves one connection after the other\nsettings: idle 60 s\n"
    );
    for line in [
        "bytes on iterative\n",
        "accepted       2 (0 attempts failed)\n",
        "closed         2 (1 finished, 1 refused)\n",
        "bytes          14 in, 4",
        "messages       2, 0 delivered",
        " a message\n",
    ] {
        assert!(out.contains(line), "{line:?} in {out}");
    }
}

/// A server with 32 MB for one client, which has read one byte of it.
fn with_much_to_send(dir: &Path, design: &str, drain: &str) -> (Served, TcpStream) {
    let served = Served::start(
        dir,
        &[
            "bytes",
            "--design",
            design,
            "--output-limit",
            "100000000",
            "--drain",
            drain,
        ],
    );
    let client = served.exchange(&"16384 keep\n".repeat(2_000), "a");
    (served, client)
}

#[test]
fn after_the_stop_a_client_gets_all_that_was_for_it() {
    let dir = tempfile::tempdir().unwrap();
    // The last two are for `groups` alone.
    for signal in ["-TERM", "-HUP", "-USR2"] {
        let (served, mut client) = with_much_to_send(dir.path(), "iterative", "600");
        served.signal(signal);
        served.signals_arrived();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 2_000 * 16_384 - 1, "{signal}");
        let (code, out, _) = served.end();
        assert_eq!(code, Some(0));
        assert!(out.contains("1 server stopped"), "{out}");
    }
}

#[test]
fn without_a_drain_time_it_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for design in ["iterative", "thread-per-connection", "reactor", "preforked-mutex"] {
        let (served, client) = with_much_to_send(dir.path(), design, "0");
        served.signal("-TERM");
        let (code, out, said) = served.end();
        drop(client);
        assert_eq!(code, Some(0), "{design}: {said}");
        assert!(
            said.contains("drain 0 s") && out.contains("1 drain time over"),
            "{design}: {said}{out}"
        );
    }
}

/// Says this on a new connection, and reads the greeting and all that comes up to `end`.
fn say(served: &Served, words: &str, end: &str) -> TcpStream {
    let mut client = served.connect();
    client.write_all(words.as_bytes()).unwrap();
    hear(&mut client, end);
    client
}

fn hear(client: &mut TcpStream, end: &str) {
    let mut heard = Vec::new();
    while !heard.ends_with(end.as_bytes()) {
        let mut byte = [0];
        assert_eq!(
            client.read(&mut byte).unwrap(),
            1,
            "no {end:?} in {:?}",
            text(&heard)
        );
        heard.extend(byte);
    }
}

#[test]
fn sighup_has_the_settings_read_again_that_may_change_and_says_which() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("groups.toml");
    let write = |above: &str, token: &str| {
        fs::write(
            &file,
            format!("protocol = 'groups'\nlisten = 0\n{above}\n[groups]\n{token}\n"),
        )
        .unwrap();
    };
    write("", "token = 'one'\nping-max = 3");
    let mut served = Served::start(dir.path(), &["--config", "groups.toml"]);
    let login = |token: &str| format!("CONNECT {{\"verbose\":false,\"auth_token\":\"{token}\"}}\r\nPING\r\n");
    let mut first = say(&served, &login("one"), "PONG\r\n");
    write("idle = 60", "token = 'two'\nping-max = 3\nmax-subscriptions = 1");
    served.signal("-HUP");
    assert_eq!(
        served.hears("SIGHUP: read groups.toml again: "),
        "changed: token, max-subscriptions; stays until a restart: idle"
    );
    say(&served, &login("one"), "-ERR 'Authorization Violation'\r\n");
    let subscribes = login("two") + "SUB a 1\r\nSUB b 2\r\n";
    say(&served, &subscribes, "-ERR 'maximum subscriptions exceeded'\r\n");
    served.signal("-HUP");
    let again = served.hears("SIGHUP: read groups.toml again: ");
    assert_eq!(again, "stays until a restart: idle");
    write("idle = 'long'", "token = 'three'");
    served.signal("-HUP");
    let why = served.hears("SIGHUP: everything stays as it is, since ");
    assert!(why.contains("groups.toml") && why.contains("`idle`"), "{why}");
    say(&served, &login("two"), "PONG\r\n");
    first.write_all(b"PING\r\n").unwrap();
    hear(&mut first, "PONG\r\n");
    served.signal("-TERM");
    drop(first);
    assert_eq!(served.end().0, Some(0));
    let mut served = Served::start(dir.path(), &["groups", "--listen", "0"]);
    served.signal("-HUP");
    let why = served.hears("SIGHUP: everything stays as it is, since ");
    assert!(why.contains("--config"), "{why}");
    served.signal("-TERM");
    assert_eq!(served.end().0, Some(0));
}

/// As the NATS server, to which some send both, one after the other.
#[test]
fn a_lame_duck_stays_on_sigterm_and_ends_at_once_on_ctrl_c() {
    let dir = tempfile::tempdir().unwrap();
    let mut served = Served::start(dir.path(), &["groups", "--listen", "0"]);
    let mut client = say(&served, "CONNECT {\"verbose\":false}\r\nPING\r\n", "PONG\r\n");
    served.signal("-USR2");
    served.hears("SIGUSR2: ");
    for _ in 0..2 {
        served.signal("-TERM");
        served.signals_arrived();
        client.write_all(b"PING\r\n").unwrap();
        hear(&mut client, "PONG\r\n");
    }
    served.signal("-INT");
    let (code, out, _) = served.end();
    assert_eq!((code, &out[..]), (Some(130), ""));
}

#[test]
fn sigusr2_begins_a_lame_duck() {
    let dir = tempfile::tempdir().unwrap();
    for (set, said) in [(["--drain", "0"], "120"), (["--lame-duck", "60"], "60")] {
        let arguments = [&["groups", "--listen", "0"][..], &set].concat();
        let mut served = Served::start(dir.path(), &arguments);
        let connect = "CONNECT {\"verbose\":false,\"protocol\":1}\r\nPING\r\n";
        let mut client = say(&served, connect, "PONG\r\n");
        served.signal("-USR2");
        let words = served.hears("SIGUSR2: ");
        assert_eq!(words, format!("a lame duck, for {said} s at most"));
        hear(&mut client, "\"ldm\":true");
        client.write_all(b"SUB a 1\r\nPUB a 2\r\nhi\r\n").unwrap();
        hear(&mut client, "MSG a 1 2\r\nhi\r\n");
        drop(client);
        let (code, out, said) = served.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(out.contains("1 ended by client"), "{out}");
    }
}

#[test]
fn the_second_ctrl_c_ends_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (served, client) = with_much_to_send(dir.path(), "iterative", "600");
    served.signal("-INT");
    served.signals_arrived();
    served.signal("-INT");
    let (code, out, _) = served.end();
    drop(client);
    assert_eq!((code, &out[..]), (Some(130), ""));
}

#[test]
fn settings_come_from_a_file_and_the_command_line_wins() {
    let dir = tempfile::tempdir().unwrap();
    let file = "protocol = 'echo'\ndesign = 'iterative'\nlisten = '127.0.0.1:1'\nhandshake = 0.01\n";
    fs::write(dir.path().join("server.toml"), file).unwrap();
    let served = Served::start(dir.path(), &["--config", "server.toml", "--listen", "0"]);
    let mut client = served.connect();
    assert_eq!(
        client.read(&mut [0]).unwrap(),
        0,
        "closed for want of a first message"
    );
    served.signal("-TERM");
    let (_, out, said) = served.end();
    assert!(said.contains("settings: handshake 0.01 s"), "{said}");
    assert!(out.contains("1 no message in time"), "{out}");
}

#[test]
fn what_is_wrong_with_a_server_is_said() {
    assert!(refused(&["serve"]).contains("which protocol?"));
    assert!(refused(&["serve", "ecko"]).contains("'echo'"));
    assert!(refused(&["serve", "echo", "--design", "iteratve"]).contains("'iterative'"));
    let iterative = |more: &[&str]| refused(&[&["serve", "echo", "--design", "iterative"], more].concat());
    assert!(iterative(&["--workers", "3"]).contains("does not use workers"));
    assert!(iterative(&["--workers", "few"]).contains("MIN..MAX"));
    assert!(iterative(&["--max-connections", "0"]).contains("max-connections"));
    assert!(iterative(&["--drain", "soon"]).contains("`soon` is no length of time"));
    assert!(iterative(&["--idle", "1us"]).contains("less than 1ms"));
    assert!(iterative(&["--listen", "127.0.0.1"]).contains("127.0.0.1:7000"));
    assert!(iterative(&["--config", "nowhere.toml"]).contains("nowhere.toml"));
    for not_used in [
        &["--design", "reactor"][..],
        &["echo"],
        &["--token", "x"],
        &["--config", "x"],
    ] {
        let list = refused(&[&["serve", "--list"], not_used].concat());
        assert!(list.contains("--list"), "{list}");
    }
    let nowhere = iterative(&["--listen", "no name:7000"]);
    assert!(nowhere.contains("cannot look up \"no name:7000\""), "{nowhere}");
    assert!(refused(&["serve", "chat", "--design", "iterative"]).contains("one connection after the other"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = iterative(&["--listen", &address]);
    assert!(
        error.contains(&format!("cannot listen on {address}")) && error.contains("take another port"),
        "{error}"
    );
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("server.toml"), "protocol = 'echo'\nworkrs = 3\n").unwrap();
    let file = threadgauge(dir.path(), &["serve", "--config", "server.toml"]);
    assert_eq!(file.status.code(), Some(2));
    let error = text(&file.stderr);
    assert!(
        error.contains("server.toml") && error.contains("line 2") && error.contains("workrs"),
        "{error}"
    );
}

#[test]
fn a_client_that_only_ends_is_no_trouble() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &["echo", "--design", "iterative"]);
    let mut client = served.connect();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    served.signal("-TERM");
    let (code, out, _) = served.end();
    assert_eq!(code, Some(0));
    assert!(out.contains("1 ended by client"), "{out}");
    assert!(!out.contains("a message"), "there was none: {out}");
}

#[test]
fn the_list_and_the_help_read_well() {
    let here = Path::new(".");
    insta::assert_snapshot!(
        "serve_list",
        text(&threadgauge(here, &["serve", "--list"]).stdout)
    );
    insta::assert_snapshot!("serve_help", text(&threadgauge(here, &["serve", "-h"]).stdout));
}
