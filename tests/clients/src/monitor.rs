//! The pages: what `nats-server` and Prometheus would find there, and what a hostile reader can do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::server::{DEADLINE, Program, Server, Settings};
use crate::wire::Wire;
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("the_pages_have_the_names_that_nats_server_gives", names),
    ("the_figures_are_right", figures),
    ("prometheus_reads_the_metrics", scrape),
    ("hostile_requests_are_refused_and_others_served", hostile),
];

const SETTINGS: Settings = Settings {
    auth: crate::server::Auth::Anyone,
    max_payload: None,
    max_pending: None,
    port: None,
    workers: None,
    monitor: true,
    lame_duck: None,
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
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let answer = raw(address, request.as_bytes())?;
    let (head, page) = answer.split_once("\r\n\r\n").context("a head and a page")?;
    let status = head.lines().next().unwrap_or_default().to_owned();
    Ok((status, page.to_owned()))
}

fn json(address: SocketAddr, target: &str) -> Result<Value> {
    let (status, page) = get(address, target)?;
    ensure!(status == "HTTP/1.1 200 OK", "{target}: {status}");
    Ok(serde_json::from_str(&page)?)
}

/// A client that has two subscriptions, and has got its own three messages.
fn client(server: &Server) -> Result<Wire> {
    let mut wire = Wire::open(
        server,
        r#"{"verbose":false,"name":"tester","lang":"none","version":"7"}"#,
    )?;
    wire.send(b"SUB a.* 1\r\nSUB b q 2\r\n")?;
    wire.send(&b"PUB a.b 5\r\nhello\r\n".repeat(3))?;
    wire.settle()?;
    Ok(wire)
}

/// Each name that ours has, `nats-server` has too, for a value of the same kind; but for those that it leaves out when
/// they are at their defaults.
fn names(site: &Site) -> Result<()> {
    let Some(nats_server) = site.nats_server.clone() else {
        return Ok(());
    };
    const LEFT_OUT: &[&str] = &["auth_required", "max_subscriptions", "lame_duck_duration"];
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

fn scrape(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &SETTINGS)?;
    let _client = client(&server)?;
    let (status, page) = get(server.monitor()?, "/metrics")?;
    ensure!(status == "HTTP/1.1 200 OK", "{status}");
    let mut reader = site
        .python("scrape.py")
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
    server.stop()
}

fn hostile(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &SETTINGS)?;
    let monitor = server.monitor()?;
    let endless = [&b"GET /"[..], &[b'a'; 20_000]].concat();
    let headers = [&b"GET / HTTP/1.1\r\n"[..], &b"a: b\r\n".repeat(2_000), b"\r\n"].concat();
    for (request, status) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], "400"),
        (b"DELETE /varz HTTP/1.1\r\n\r\n", "405"),
        (b"POST /varz HTTP/1.1\r\nContent-Length: 4\r\n\r\nGET ", "400"),
        (b"GET /varz HTTP/9.9\r\n\r\n", "400"),
        (b"GET /../../etc/passwd HTTP/1.0\r\n\r\n", "404"),
        (&endless, "431"),
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
    // As many as may be there, with half a request each; one more waits, and the server itself does not notice.
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(monitor)?;
        stream.write_all(b"GET /varz HTT")?;
        slow.push(stream);
    }
    let _client = client(&server)?;
    drop(slow);
    ensure!(get(monitor, "/healthz")?.0 == "HTTP/1.1 200 OK");
    // Many requests in one piece are answered in order.
    let answers = raw(
        monitor,
        &[
            &b"GET /healthz HTTP/1.1\r\n\r\n".repeat(100)[..],
            b"HEAD / HTTP/1.0\r\n\r\n",
        ]
        .concat(),
    )?;
    ensure!(answers.matches("HTTP/1.1 200 OK").count() == 101, "{answers}");
    server.stop()
}
