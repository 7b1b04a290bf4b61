//! `threadgauge load` against servers of a few lines that misbehave: how it ends, and what it says of them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::serve::served;
use super::{refused, text};

/// A server that does this with each connection: its address.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(client));
        }
    });
    at
}

fn load(arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    super::threadgauge(dir.path(), &[&["load", "--watch", "none"], arguments].concat())
}

/// The results of a load that failed, or not.
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// The results of a load that Ctrl-C ends, once it has said this.
fn interrupted(mut child: Child, once: &'static str) -> Value {
    let pid = child.id().to_string();
    let (tell, told) = channel();
    thread::spawn(move || {
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = said.map_while(Result::ok);
        let _ = tell.send(said.any(|line| line.contains(once)).then_some(Vec::new()));
        said.for_each(drop);
        let _ = tell.send(child.wait_with_output().ok().map(|output| output.stdout));
    });
    let kill = |signal: &str| Command::new("kill").args([signal, &pid]).status().unwrap();
    let next = |what: &str| {
        told.recv_timeout(Duration::from_secs(120))
            .ok()
            .flatten()
            .unwrap_or_else(|| {
                kill("-KILL");
                panic!("{what}")
            })
    };
    next("it does not go on");
    kill("-INT");
    serde_json::from_slice(&next("it is deaf to Ctrl-C")).unwrap()
}

#[test]
fn bytes_that_nobody_asked_for_are_exit_code_1_and_not_right_also_where_they_come_last() {
    let at = server(|mut client| {
        let mut message = [0; 10];
        while client.read_exact(&mut message).is_ok() {
            // Apart, so that the second comes when its answer has been read.
            if client.write_all(&message).is_err() || client.write_all(&message).is_err() {
                return;
            }
        }
    });
    let once = [
        "echo",
        "--target",
        &at,
        "-c",
        "1",
        "--payload",
        "10",
        "--requests",
        "1",
    ];
    // Where the server was not slower than that is waited for.
    let seen = (0..20).any(|_| {
        let output = load(&[&once[..], &["--json"]].concat());
        let run = &json(&output)["runs"][0];
        let is_right = run["right"] == true;
        assert_eq!(is_right, run["failures"].get("unasked").is_none(), "{run:#}");
        assert_eq!(is_right, run["bytes_in"] == 10, "{run:#}");
        assert_eq!(output.status.code(), Some(i32::from(!is_right)), "{run:#}");
        !is_right
    });
    assert!(seen);
    let output = load(&[
        "echo",
        "--target",
        &at,
        "-c",
        "4",
        "--payload",
        "10",
        "-d",
        "300ms",
    ]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(
        shown.contains("WRONG          bytes came that nobody asked for"),
        "{shown}"
    );
    assert!(shown.contains(" unasked (the server sent \""), "{shown}");
}

#[test]
fn an_answer_without_end_is_ended_by_the_duration_and_by_ctrl_c() {
    let at = server(|mut client| {
        let mut line = String::new();
        let _ = BufReader::new(&client).read_line(&mut line);
        let mut begun = client.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunks = b"1\r\nx\r\n".repeat(100_000);
        while begun.is_ok() {
            begun = client.write_all(&chunks);
        }
    });
    let once = ["http", "--target", &at, "-c", "2", "--timeout", "200ms", "--json"];
    let output = load(&[&once[..], &["-d", "300ms"]].concat());
    let document = json(&output);
    assert_eq!(output.status.code(), Some(1), "{document:#}");
    assert!(document["runs"][0]["bytes_in"].as_u64().unwrap() > 0);

    let dir = tempfile::tempdir().unwrap();
    let all = [&["load", "--watch", "none"][..], &once, &["-d", "1h"]].concat();
    let child = super::piped(dir.path(), &all);
    let document = interrupted(child, " 1 s ");
    assert_eq!(document["interrupted"], true, "{document:#}");
}

#[test]
fn connections_that_fail_as_fast_as_they_are_tried_do_not_make_it_deaf() {
    let at = server(|client| drop((&client).read_to_end(&mut Vec::new())));
    let dir = tempfile::tempdir().unwrap();
    let once = [
        "ulimit -n 40; exec",
        env!("CARGO_BIN_EXE_threadgauge"),
        "load bytes --close --watch none --go-on -c 1000 --rate 1e8 -d 1h --json --target",
        &at,
    ];
    let mut shell = Command::new("sh");
    let shell = shell.arg("-c").arg(once.join(" ")).current_dir(dir.path());
    let child = shell
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let document = interrupted(child, " 1 s ");
    assert_eq!(document["interrupted"], true, "{document:#}");
    let failures = &document["runs"][0]["failures"];
    assert!(
        failures["no_connection"]["count"].as_u64().unwrap() > 0,
        "{failures:#}"
    );
}

#[test]
fn a_header_that_is_given_replaces_ours_and_one_that_frames_is_refused() {
    let served = served("http");
    let target = format!("http://{}/5", served.address);
    for more in [
        &["-H", "Host: example.org"][..],
        &["--close", "-H", "connection: Close"],
    ] {
        let once = [
            "http",
            "--target",
            &target,
            "-c",
            "1",
            "--requests",
            "3",
            "--json",
        ];
        let output = load(&[&once[..], more].concat());
        let run = &json(&output)["runs"][0];
        assert_eq!(
            (&run["answered"], &run["failures"]),
            (&3.into(), &serde_json::json!({})),
            "{run:#}"
        );
    }
    for header in ["Content-Length: 5", "transfer-encoding: chunked"] {
        let said = refused(&["load", "http", "--target", &target, "-H", header]);
        assert!(said.contains(header) && said.contains("--body"), "{said}");
    }
}

#[test]
fn a_fragment_stays_here_and_names_in_a_url_are_refused() {
    let (said, heard) = channel();
    let said = Mutex::new(said);
    let at = server(move |mut client| {
        let mut input = BufReader::new(client.try_clone().unwrap());
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if !input.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {
                    return;
                }
            }
            let _ = said.lock().unwrap().send(head);
            if client.write_all(b"HTTP/1.1 204 N\r\n\r\n").is_err() {
                return;
            }
        }
    });
    for (target, path) in [
        (format!("HTTP://{at}/a?b#c"), "/a?b"),
        (format!("http://{at}#c"), "/"),
    ] {
        let output = load(&[
            "http",
            "--target",
            &target,
            "-c",
            "1",
            "--requests",
            "1",
            "--json",
        ]);
        assert_eq!(
            json(&output)["runs"][0]["answered"],
            1,
            "{target}: {}",
            text(&output.stderr)
        );
        assert_eq!(
            heard.recv().unwrap(),
            format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n")
        );
    }
    let said = refused(&["load", "http", "--target", &format!("http://me:secret@{at}/")]);
    assert!(said.contains("--header 'Authorization: Basic"), "{said}");
}
