//! The monitor of `threadgauge serve groups`: its pages, and who gets them.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::refused;
use super::serve::{DEADLINE, Served};

/// A server of groups with its pages, and where they are.
fn with_pages(dir: &Path, arguments: &[&str]) -> (Served, String) {
    let mut served = Served::start(
        dir,
        &[&["groups", "--listen", "0", "--monitor", "0"], arguments].concat(),
    );
    let monitor = served.hears("monitor on http://");
    (served, monitor)
}

fn connect(monitor: &str) -> TcpStream {
    let reader = TcpStream::connect(monitor).unwrap();
    reader.set_read_timeout(Some(DEADLINE)).unwrap();
    reader
}

/// All that is answered to a request.
fn answer(monitor: &str, request: &str) -> String {
    let mut reader = connect(monitor);
    reader.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    reader.read_to_string(&mut answer).unwrap();
    answer
}

/// The head and the page that are for a host.
fn asked_as(host: &str, monitor: &str, target: &str) -> (String, String) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = answer(monitor, &request);
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), page.to_owned())
}

/// A page as it is now.
fn page(monitor: &str, target: &str) -> Value {
    serde_json::from_str(&asked_as("localhost", monitor, target).1).unwrap()
}

#[test]
fn clients_that_are_gone_are_on_their_page() {
    let dir = tempfile::tempdir().unwrap();
    let (served, monitor) = with_pages(dir.path(), &[]);
    let stays = served.exchange("", "INFO {");
    let mut wrong = served.exchange("SUB a 1\r\nHELLO\r\n", "INFO {");
    wrong.read_to_end(&mut Vec::new()).unwrap();
    let by = Instant::now() + DEADLINE;
    let closed = loop {
        let closed = page(&monitor, "/connz?state=closed&sort=reason");
        if closed["total"] == 1 || Instant::now() > by {
            break closed;
        }
    };
    let gone = &closed["connections"][0];
    assert_eq!(
        (&gone["cid"], &gone["reason"]),
        (&2.into(), &"Protocol Violation".into()),
        "{closed}"
    );
    assert!(gone["stop"].is_string() && gone["subscriptions"] == 1, "{closed}");
    let numbers = |target| {
        let page = page(&monitor, target);
        let all = page["connections"].as_array().unwrap().iter();
        all.map(|client| client["cid"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers("/connz"), [1]);
    assert_eq!(numbers("/connz?state=all"), [1, 2]);
    assert_eq!(numbers("/connz?state=all&cid=2"), [2]);
    assert_eq!(
        numbers("/connz?state=all&sort=uptime"),
        [2, 1],
        "the shortest first"
    );
    let mut next = served.exchange("HELLO\r\n", "INFO {");
    next.read_to_end(&mut Vec::new()).unwrap();
    while page(&monitor, "/connz?state=closed")["total"] != 2 {
        assert!(Instant::now() < by, "a client that is gone is not on the page");
    }
    assert_eq!(numbers("/connz?state=closed"), [2, 3]);
    assert_eq!(
        numbers("/connz?state=closed&sort=stop"),
        [3, 2],
        "the last to go first"
    );
    while page(&monitor, "/varz")["uptime"] == "0s" {
        assert!(Instant::now() < by, "the time it is up does not grow");
    }
    served.signal("-TERM");
    drop(stays);
    assert_eq!(served.end().0, Some(0));
}

/// A server with its pages serves while more than may be connected do what they can to keep others out.
#[test]
fn whoever_asks_is_answered_however_many_are_silent_or_read_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (served, monitor) = with_pages(dir.path(), &[]);
    let asks = || {
        for target in ["/healthz", "/metrics"] {
            let (head, _) = asked_as("127.0.0.1", &monitor, target);
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        }
    };
    let silent: Vec<_> = (0..64).map(|_| connect(&monitor)).collect();
    asks();
    let mut half: Vec<_> = (0..64).map(|_| connect(&monitor)).collect();
    for client in &mut half {
        // It may have been closed to make room.
        let _ = client.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc");
    }
    asks();
    let wanted = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
    let deaf: Vec<_> = (0..40)
        .map(|_| {
            let mut client = connect(&monitor);
            client.set_nonblocking(true).unwrap();
            // As much as it is read from, which ends once it has too much waiting.
            while client.write(wanted.as_bytes()).is_ok() {}
            client
        })
        .collect();
    asks();
    drop((silent, half, deaf));
    // As many as may be connected, who ask again and again and so are never silent for long.
    let mut busy: Vec<_> = (0..32).map(|_| connect(&monitor)).collect();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for client in &mut busy {
        client.write_all(request).unwrap();
        client.read_exact(&mut [0; 15]).unwrap();
        client.set_nonblocking(true).unwrap();
    }
    let has_asked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_asked.load(Relaxed) {
                for client in &mut busy {
                    let _ = client.write(request);
                    let _ = client.read(&mut [0; 4_096]);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let asked = catch_unwind(asks);
        has_asked.store(true, Relaxed);
        asked.expect("answered beside those who ask all the time");
    });
    served.signal("-TERM");
    assert_eq!(served.end().0, Some(0));
}

/// By the time alone, where nobody needs its place: of the first head and of a later one, although its bytes go on
/// coming and so the client is never silent.
#[test]
fn a_request_that_does_not_come_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (served, monitor) = with_pages(dir.path(), &[]);
    let whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let half = b"GET /healthz HTTP/1.1\r\nX: ";
    for before in [&b""[..], whole] {
        let mut client = connect(&monitor);
        client.write_all(before).unwrap();
        if !before.is_empty() {
            client.read_exact(&mut [0; 15]).unwrap();
        }
        client.write_all(half).unwrap();
        client.set_nonblocking(true).unwrap();
        let by = Instant::now() + DEADLINE;
        let is_open = |mut client: &TcpStream| match client.read(&mut [0; 4_096]) {
            Ok(got) => got > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        while is_open(&client) {
            assert!(
                Instant::now() < by,
                "it was waited for behind {} bytes",
                before.len()
            );
            // The server may have ended it just now.
            let _ = client.write(b"a");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let mut silent = connect(&monitor);
    assert_eq!(silent.read(&mut [0]).unwrap(), 0, "it has said nothing");
    served.signal("-TERM");
    assert_eq!(served.end().0, Some(0));
}

#[test]
fn pages_are_for_this_host_alone_and_for_the_names_that_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let named = ["--monitor-hosts", "groups.example.org,groups"];
    let (served, monitor) = with_pages(dir.path(), &named);
    let port = monitor.rsplit_once(':').unwrap().1;
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for host in [
        &monitor,
        "localhost",
        &format!("localhost:{port}"),
        "[::1]",
        &own,
        "groups",
        "Groups.example.org:80",
    ] {
        for target in ["/", "/varz", "/connz", "/healthz", "/metrics"] {
            let (head, _) = asked_as(host, &monitor, target);
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{host}{target}: {head}");
            for header in ["X-Content-Type-Options: nosniff", "Cache-Control: no-store"] {
                assert!(
                    head.contains(&format!("\r\n{header}\r\n")),
                    "{host}{target}: {head}"
                );
            }
        }
    }
    for host in ["rebound.example", "rebound.example:8222", "example.org", "x"] {
        let (head, page) = asked_as(host, &monitor, "/varz");
        assert!(
            head.starts_with("HTTP/1.1 421 Misdirected Request\r\n"),
            "{host}: {head}"
        );
        assert!(
            page.contains("--monitor-hosts") && !page.contains("server_id"),
            "{page}"
        );
    }
    // What the target names goes before `Host`; and who is no browser may name nothing.
    for (request, status) in [
        (
            "GET http://rebound.example/varz HTTP/1.0\r\nHost: localhost\r\n\r\n",
            "421",
        ),
        (
            "GET http://localhost/varz HTTP/1.0\r\nHost: rebound.example\r\n\r\n",
            "200",
        ),
        ("GET /varz HTTP/1.0\r\n\r\n", "200"),
        ("GET /varz HTTP/1.0\r\nHost: a b\r\n\r\n", "400"),
    ] {
        let answer = answer(&monitor, request);
        assert_eq!(&answer[9..12], status, "{request}: {answer}");
        assert!(
            answer.contains("\r\nX-Content-Type-Options: nosniff\r\n"),
            "{answer}"
        );
    }
    served.signal("-TERM");
    assert_eq!(served.end().0, Some(0));
    let without = refused(&["serve", "groups", "--monitor-hosts", "a"]);
    assert!(without.contains("--monitor"), "{without}");
}

/// Prometheus' own parser reads them in `cargo xtask clients`.
#[test]
fn each_metric_has_a_name_of_its_own_also_without_the_end_of_a_counters() {
    let dir = tempfile::tempdir().unwrap();
    let (served, monitor) = with_pages(dir.path(), &[]);
    let (_, page) = asked_as("localhost", &monitor, "/metrics");
    let mut families = BTreeSet::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let family = name.strip_suffix("_total");
        assert_eq!(family.is_some(), kind == "counter", "{line}");
        assert!(
            families.insert(family.unwrap_or(name)),
            "{line}: another has its name"
        );
    }
    assert!(families.contains("groups_connections") && families.contains("groups_clients"));
    served.signal("-TERM");
    assert_eq!(served.end().0, Some(0));
}
