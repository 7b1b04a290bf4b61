//! The pages: what `nats-server` and Prometheus would find there, and what a hostile reader can do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::server::{DEADLINE, Program, Server, Settings};
use crate::wire::Wire;
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("the_pages_have_the_names_that_nats_server_gives", names),
    ("the_figures_are_right", figures),
    (
        "clients_are_sorted_and_chosen_as_by_nats_server",
        sorted_and_chosen,
    ),
    ("what_waits_for_who_does_not_read_is_shown", pending),
    ("prometheus_reads_the_metrics", scrape),
    ("hostile_requests_are_refused_and_others_served", hostile),
];

const SETTINGS: Settings = Settings {
    auth: crate::server::Auth::Anyone,
    auth_timeout_s: None,
    max_payload: None,
    max_pending: None,
    port: None,
    workers: None,
    monitor: true,
    lame_duck: None,
    max_connections: None,
    max_subscriptions: None,
    ping_interval_s: None,
    ping_max: None,
};

/// Sends these bytes and gives back all that comes until the server closes.
fn raw(address: SocketAddr, request: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        ensure!(error.kind() == std::io::ErrorKind::ConnectionReset, "{error}");
    }
    Ok(String::from_utf8(answer)?)
}

/// The status and the page.
fn get(address: SocketAddr, target: &str) -> Result<(String, String)> {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let answer = raw(address, request.as_bytes())?;
    let (head, page) = answer.split_once("\r\n\r\n").context("a head and a page")?;
    let status = head.lines().next().unwrap_or_default().to_owned();
    Ok((status, page.to_owned()))
}

/// A page that is JSON.
pub fn json(address: SocketAddr, target: &str) -> Result<Value> {
    let (status, page) = get(address, target)?;
    ensure!(status == "HTTP/1.1 200 OK", "{target}: {status}");
    Ok(serde_json::from_str(&page)?)
}

const OPTIONS: &str = r#"{"verbose":false,"name":"tester","lang":"none","version":"7"}"#;

/// A client that has two subscriptions, and has got its own three messages.
fn client(server: &Server) -> Result<Wire> {
    let mut wire = Wire::open(server, OPTIONS)?;
    wire.send(b"SUB a.* 1\r\nSUB b q 2\r\n")?;
    wire.send(&b"PUB a.b 5\r\nhello\r\n".repeat(3))?;
    wire.settle()?;
    Ok(wire)
}

/// Each name that ours has, `nats-server` has too, for a value of the same kind; but for those that it leaves out when
/// they are at their defaults, and for what ours is.
fn names(site: &Site) -> Result<()> {
    let Some(nats_server) = site.nats_server.clone() else {
        return Ok(());
    };
    const LEFT_OUT: &[&str] = &[
        "auth_required",
        "max_subscriptions",
        "lame_duck_duration",
        "implementation",
    ];
    let theirs = Server::start(&Program::Nats { nats_server }, &SETTINGS)?;
    let ours = Server::start(&site.program, &SETTINGS)?;
    let _clients = (client(&theirs)?, client(&ours)?);
    for target in ["/varz", "/healthz", "/connz?subs=1", "/connz?subs=detail"] {
        let [theirs, ours] = [&theirs, &ours].map(|server| json(server.monitor()?, target));
        same_names(target, &theirs?, &ours?, LEFT_OUT)?;
    }
    let [expected, found] = [&theirs, &ours].map(|server| get(server.monitor()?, "/connz?sort=nonsense"));
    ensure!(expected?.0 == found?.0, "another status for a wrong question");
    theirs.stop()?;
    ours.stop()
}

fn same_names(place: &str, theirs: &Value, ours: &Value, left_out: &[&str]) -> Result<()> {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (name, own) in ours {
                let place = format!("{place} {name}");
                match theirs.get(name) {
                    Some(other) => same_names(&place, other, own, left_out)?,
                    None => ensure!(
                        left_out.contains(&&name[..]),
                        "{place}: nats-server has no such name"
                    ),
                }
            }
        }
        // In whatever order: what any of theirs has, all of ours may have.
        (Value::Array(theirs), Value::Array(ours)) => {
            let names = theirs.iter().filter_map(Value::as_object).flatten();
            let all = Value::Object(names.map(|(name, value)| (name.clone(), value.clone())).collect());
            for own in ours {
                let other = if own.is_object() {
                    Some(&all)
                } else {
                    theirs.first()
                };
                same_names(place, other.context("theirs is empty")?, own, left_out)?;
            }
        }
        _ => ensure!(
            std::mem::discriminant(theirs) == std::mem::discriminant(ours),
            "{place} is {ours}, and with nats-server {theirs}"
        ),
    }
    Ok(())
}

fn figures(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &SETTINGS)?;
    let monitor = server.monitor()?;
    ensure!(monitor.ip().is_loopback(), "loopback unless told otherwise");
    let mut wire = client(&server)?;
    let varz = json(monitor, "/varz")?;
    for (name, value) in [
        ("connections", 1),
        ("total_connections", 1),
        ("subscriptions", 2),
        ("in_msgs", 3),
        ("in_bytes", 15),
        ("out_msgs", 3),
        ("out_bytes", 15),
        ("slow_consumers", 0),
        ("port", server.address().port().into()),
    ] {
        ensure!(varz[name] == value, "{name} is {}, not {value}", varz[name]);
    }
    let connz = json(monitor, "/connz?subs=1")?;
    let own = &connz["connections"][0];
    ensure!(
        own["name"] == "tester" && own["lang"] == "none" && own["version"] == "7",
        "{connz}"
    );
    ensure!(own["port"] == wire.stream().local_addr()?.port(), "{connz}");
    ensure!(
        own["subscriptions_list"] == serde_json::json!(["a.*", "b"]),
        "{connz}"
    );
    let none = json(monitor, "/connz?offset=1")?;
    ensure!(none["total"] == 1 && none["num_connections"] == 0, "{none}");
    drop(wire);
    server.stop()
}

/// What NATS' own tools read of a client, `nats-top` and the exporter for Prometheus.
const READ_BY_TOOLS: &[&str] = &[
    "cid",
    "ip",
    "port",
    "start",
    "last_activity",
    "rtt",
    "uptime",
    "idle",
    "pending_bytes",
    "in_msgs",
    "out_msgs",
    "in_bytes",
    "out_bytes",
    "subscriptions",
    "name",
    "lang",
    "version",
];

/// Which clients a page has, in which order.
fn numbers(server: &Server, question: &str) -> Result<Vec<u64>> {
    let page = json(server.monitor()?, &format!("/connz?{question}"))?;
    let clients = page["connections"].as_array().context("a list")?;
    clients
        .iter()
        .map(|client| {
            for name in READ_BY_TOOLS {
                ensure!(!client[*name].is_null(), "{name} is not there: {client}");
            }
            client["cid"].as_u64().context("a number")
        })
        .collect()
}

/// The same is asked of `nats-server`, whose clients have other numbers.
fn sorted_and_chosen(site: &Site) -> Result<()> {
    let Some(nats_server) = site.nats_server.clone() else {
        return Ok(());
    };
    for program in [&Program::Nats { nats_server }, &site.program] {
        let server = Server::start(program, &SETTINGS)?;
        // Each came later than the one before, and did more.
        let mut clients = Vec::new();
        for messages in 1..=3 {
            let mut wire = Wire::open(&server, OPTIONS)?;
            wire.send(&b"PUB nobody 1\r\nx\r\n".repeat(messages))?;
            wire.settle()?;
            clients.push(wire);
        }
        let all = numbers(&server, "")?;
        let back: Vec<u64> = all.iter().rev().copied().collect();
        for (question, expected) in [
            ("sort=cid", &all[..]),
            ("sort=start", &all),
            ("sort=uptime", &back),
            ("sort=msgs_from", &back),
            ("sort=bytes_from", &back),
            ("state=open", &all),
            ("state=any&limit=2", &all[..2]),
            ("sort=cid&offset=1&limit=1", &all[1..2]),
            ("offset=7", &[]),
            (&format!("cid={}", all[2]), &all[2..]),
            // Written as a form writes it.
            ("s%6Frt=msgs%5Ffrom&limit=%31", &back[..1]),
            ("sort=cid&offset=%32", &all[2..]),
        ] {
            let found = numbers(&server, question)?;
            ensure!(
                found == expected,
                "{}: {question}: {found:?}, not {expected:?}",
                program.name()
            );
        }
        // nats-server may answer a PING before it notes the time of what came with it.
        if let Program::Ours { .. } = program {
            ensure!(numbers(&server, "sort=last")? == back && numbers(&server, "sort=idle")? == all);
        }
        for question in [
            "sort=last",
            "sort=idle",
            "sort=rtt",
            "sort=pending",
            "sort=subs",
            "sort=msgs_to",
            "sort=bytes_to",
        ] {
            let mut found = numbers(&server, question)?;
            found.sort_unstable();
            ensure!(found == all, "{}: {question}: {found:?}", program.name());
        }
        for wrong in ["sort=nonsense", "sort=stop", "state=ajar", "limit=x", "subs=x"] {
            let (status, _) = get(server.monitor()?, &format!("/connz?{wrong}"))?;
            ensure!(status.contains(" 400 "), "{}: {wrong}: {status}", program.name());
        }
        drop(clients);
        server.stop()?;
    }
    Ok(())
}

/// Its kernel takes some, and the rest waits in the server.
fn pending(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &SETTINGS)?;
    let (mut slow, mut speaker) = (client(&server)?, client(&server)?);
    slow.send(b"SUB flood 3\r\n")?;
    slow.settle()?;
    let text = vec![b'x'; 64 << 10];
    let message = [&b"PUB flood 65536\r\n"[..], &text, b"\r\n"].concat();
    for _ in 0..500 {
        speaker.send(&message)?;
    }
    speaker.settle()?;
    let first = |pending: &dyn Fn(u64) -> bool| -> Result<Value> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let page = json(server.monitor()?, "/connz?sort=pending&limit=1")?;
            let client = &page["connections"][0];
            if pending(client["pending_bytes"].as_u64().context("a number")?) {
                return Ok(client["port"].clone());
            }
            ensure!(Instant::now() < deadline, "{page}");
        }
    };
    let port = first(&|bytes| bytes > 1 << 20)?;
    ensure!(port == slow.stream().local_addr()?.port(), "another waits");
    slow.send(b"PING\r\n")?;
    slow.frames_until(|frame| frame.is("PONG"))?;
    first(&|bytes| bytes == 0)?;
    drop((slow, speaker));
    server.stop()
}

fn scrape(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &SETTINGS)?;
    let _client = client(&server)?;
    for (form, accept, kind) in [
        ("text", "*/*", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "openmetrics",
            "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
    ] {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\n\r\n"
        );
        let answer = raw(server.monitor()?, request.as_bytes())?;
        let (head, page) = answer.split_once("\r\n\r\n").context("a head and a page")?;
        let is_of_kind = head.contains(&format!("\r\nContent-Type: {kind}\r\n"));
        ensure!(head.starts_with("HTTP/1.1 200 OK\r\n") && is_of_kind, "{head}");
        read_scrape(site, form, page)?;
    }
    server.stop()
}

/// Has Prometheus' own library read it.
fn read_scrape(site: &Site, form: &str, page: &str) -> Result<()> {
    let mut reader = site
        .python("scrape.py")
        .arg(form)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start Python")?;
    reader
        .stdin
        .take()
        .context("it was piped")?
        .write_all(page.as_bytes())?;
    let output = reader.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{}\n{page}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn hostile(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &SETTINGS)?;
    let monitor = server.monitor()?;
    let endless = [&b"GET /"[..], &[b'a'; 20_000]].concat();
    let headers = [&b"GET / HTTP/1.1\r\n"[..], &b"a: b\r\n".repeat(2_000), b"\r\n"].concat();
    for (request, status) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], "400"),
        (b"DELETE /varz HTTP/1.1\r\nHost: x\r\n\r\n", "405"),
        (
            b"POST /varz HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nGET ",
            "405",
        ),
        (
            b"GET /varz HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nGET ",
            "400",
        ),
        (b"GET /varz HTTP/1.1\r\n\r\n", "400"),
        (b"GET /varz HTTP/9.9\r\n\r\n", "505"),
        (b"GET /../../etc/passwd HTTP/1.0\r\n\r\n", "404"),
        (&endless, "414"),
        (&headers, "431"),
    ] {
        let answer = raw(monitor, request)?;
        let expected = format!("HTTP/1.1 {status} ");
        // What is cut off with some of it unread may not hear why.
        ensure!(
            answer.starts_with(&expected) || (answer.is_empty() && request.len() > 8_192),
            "{:?} was answered {answer:?}",
            String::from_utf8_lossy(&request[..request.len().min(40)])
        );
    }
    // More than may be there, with half a request each; one who asks is served, and the server itself does not notice.
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(monitor)?;
        stream.write_all(b"GET /varz HTT")?;
        slow.push(stream);
    }
    let _client = client(&server)?;
    ensure!(get(monitor, "/healthz")?.0 == "HTTP/1.1 200 OK");
    drop(slow);
    // Many requests in one piece are answered in order.
    let answers = raw(
        monitor,
        &[
            &b"GET /healthz HTTP/1.1\r\nHost: [::1]\r\n\r\n".repeat(100)[..],
            b"HEAD / HTTP/1.0\r\n\r\n",
        ]
        .concat(),
    )?;
    ensure!(answers.matches("HTTP/1.1 200 OK").count() == 101, "{answers}");
    server.stop()
}
