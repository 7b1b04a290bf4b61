//! Message tracing: who asks where a message goes is told the same as by `nats-server`, to which each case is played
//! too.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::server::{Server, Settings};
use crate::wire::{Frame, Wire};
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("a_traced_message_is_delivered_and_told_of", delivered),
    ("a_trace_alone_delivers_nothing", trace_only),
    ("who_wants_no_echo_is_told_why_he_does_not_get_it", no_echo),
    ("where_nobody_hears_that_is_told", nobody),
    ("what_cannot_be_traced_is_not", not_traced),
    ("who_says_too_much_is_told_of_too", too_long),
    ("who_takes_it_compressed_is_told_how_it_comes", encoded),
];

/// Where traces go to.
const TO: &str = "trace.to";

/// A client of this name, and the number by which the server knows it.
fn client(server: &Server, name: &str, echo: bool) -> Result<(Wire, u64)> {
    let mut wire = Wire::connected(server)?;
    let info = String::from_utf8(wire.until(b"\r\n")?)?;
    let info: Value = serde_json::from_str(info.strip_prefix("INFO ").context("an INFO")?)?;
    let options = json!({
        "verbose": false, "headers": true, "no_responders": true, "name": name, "echo": echo,
    });
    wire.send(format!("CONNECT {options}\r\n").as_bytes())?;
    wire.settle()?;
    Ok((wire, info["client_id"].as_u64().context("a number")?))
}

/// A message with these headers.
fn message(subject: &str, headers: &str, payload: &str) -> String {
    let headers = format!("NATS/1.0\r\n{headers}\r\n");
    let all = headers.len() + payload.len();
    format!("HPUB {subject} {} {all}\r\n{headers}{payload}\r\n", headers.len())
}

/// The next message is for this subscription: its first line without the subscription, and the rest.
fn next(wire: &mut Wire, expected: &str) -> Result<(String, String)> {
    let (sid, text) = loop {
        match wire.next_frame()?.context("it was closed")? {
            Frame::Message { sid, text } => break (sid, text),
            Frame::Other(_) => {}
        }
    };
    ensure!(sid == expected, "for {sid}, not {expected}: {text}");
    let (line, rest) = text.split_once("\r\n").context("a line")?;
    Ok((line.to_owned(), rest.trim_end().to_owned()))
}

/// The trace that comes next, its egresses in the order of their subscriptions.
fn trace(wire: &mut Wire, sid: &str) -> Result<Value> {
    let (line, body) = next(wire, sid)?;
    ensure!(line.starts_with(&format!("MSG {TO} ")), "{line}");
    let mut trace: Value = serde_json::from_str(&body)?;
    for name in ["name", "id", "ver", "host", "time"] {
        ensure!(trace["server"][name].is_string(), "{name}: {trace}");
    }
    let events = trace["events"].as_array_mut().context("a list")?;
    for event in events.iter_mut() {
        let time = event.as_object_mut().context("an object")?.remove("ts");
        let time = time.as_ref().and_then(Value::as_str).context("a time")?;
        ensure!(
            time.len() >= 20 && time.starts_with("20") && &time[10..11] == "T",
            "{time}"
        );
    }
    events[1..].sort_by_key(|event| event["sub"].to_string());
    Ok(trace)
}

fn ingress(cid: u64, name: &str, subject: &str) -> Value {
    json!({"type": "in", "kind": 0, "cid": cid, "name": name, "acc": "$G", "subj": subject})
}

fn egress(cid: u64, name: &str, subject: &str) -> Value {
    json!({"type": "eg", "kind": 0, "cid": cid, "name": name, "sub": subject})
}

fn delivered(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let (mut asker, asking) = client(&server, "asker", true)?;
    let (mut hearer, hearing) = client(&server, "hearer", true)?;
    asker.send(format!("SUB {TO} t\r\n").as_bytes())?;
    asker.settle()?;
    hearer.send(b"SUB a.* 1\r\nSUB a.b team 2\r\nSUB c 3\r\n")?;
    hearer.settle()?;
    let says = message(
        "a.b",
        &format!("A: b\r\nNats-Trace-Dest: {TO}\r\nA: c\r\n"),
        "hello",
    );
    asker.send(says.as_bytes())?;
    let found = trace(&mut asker, "t")?;
    let mut in_queue = egress(hearing, "hearer", "a.b");
    in_queue["queue"] = "team".into();
    let expected = json!([
        ingress(asking, "asker", "a.b"),
        egress(hearing, "hearer", "a.*"),
        in_queue
    ]);
    ensure!(found["events"] == expected, "{found}");
    let size = says.split("\r\n").next().and_then(|line| line.rsplit(' ').next());
    let request = json!({
        "header": {"A": ["b", "c"], "Nats-Trace-Dest": [TO]},
        "msgsize": size.context("a size")?.parse::<u64>()?,
    });
    ensure!(found["request"] == request, "{found}");
    for sid in ["1", "2"] {
        let (_, body) = next(&mut hearer, sid)?;
        ensure!(body.contains("A: b\r\n") && body.ends_with("hello"), "{body}");
    }
    drop((asker, hearer));
    server.stop()
}

fn trace_only(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let (mut asker, asking) = client(&server, "asker", true)?;
    let (mut hearer, hearing) = client(&server, "hearer", true)?;
    asker.send(format!("SUB {TO} t\r\nSUB _INBOX.x r\r\n").as_bytes())?;
    asker.settle()?;
    // It is not over by what it does not get.
    hearer.send(b"SUB a 1\r\nUNSUB 1 1\r\n")?;
    hearer.settle()?;
    for yes in ["true", "1", "ON"] {
        let headers = format!("Nats-Trace-Only: {yes}\r\nNats-Trace-Dest: {TO}\r\n");
        // Somebody would answer: it is not said that nobody does.
        let says = message("a _INBOX.x", &headers, "hello");
        asker.send(says.as_bytes())?;
        let found = trace(&mut asker, "t")?;
        let expected = json!([ingress(asking, "asker", "a"), egress(hearing, "hearer", "a")]);
        ensure!(found["events"] == expected, "{found}");
    }
    asker.send(b"PUB a 4\r\nreal\r\n")?;
    ensure!(next(&mut hearer, "1")?.1 == "real", "nothing before");
    drop((asker, hearer));
    server.stop()
}

fn no_echo(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let (mut asker, asking) = client(&server, "asker", false)?;
    // The trace itself is not its own message.
    asker.send(format!("SUB {TO} t\r\nSUB a 1\r\n").as_bytes())?;
    asker.send(message("a", &format!("Nats-Trace-Dest: {TO}\r\n"), "hello").as_bytes())?;
    let found = trace(&mut asker, "t")?;
    let mut refused = egress(asking, "asker", "a");
    refused["error"] = "Not delivered because of no echo".into();
    ensure!(
        found["events"] == json!([ingress(asking, "asker", "a"), refused]),
        "{found}"
    );
    drop(asker);
    server.stop()
}

fn nobody(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let (mut asker, asking) = client(&server, "asker", true)?;
    asker.send(format!("SUB {TO} t\r\nSUB _INBOX.x r\r\n").as_bytes())?;
    for only in ["", "Nats-Trace-Only: true\r\n"] {
        let headers = format!("Nats-Trace-Dest: {TO}\r\n{only}");
        asker.send(message("a _INBOX.x", &headers, "").as_bytes())?;
        let (_, answer) = next(&mut asker, "r")?;
        ensure!(answer.starts_with("NATS/1.0 503"), "{answer}");
        let found = trace(&mut asker, "t")?;
        ensure!(
            found["events"] == json!([ingress(asking, "asker", "a")]),
            "{found}"
        );
    }
    drop(asker);
    server.stop()
}

fn not_traced(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let (mut asker, _) = client(&server, "asker", true)?;
    asker.send(b"SUB a 1\r\nSUB trace.> t\r\n")?;
    for (headers, comes) in [
        ("Nats-Trace-Only: true\r\n", true),
        (
            "Nats-Trace-Dest: trace disabled\r\nNats-Trace-Only: true\r\n",
            true,
        ),
        ("Nats-Trace-Dest: trace.*\r\n", true),
        ("Nats-Trace-Dest: trace.*\r\nNats-Trace-Only: true\r\n", false),
        ("nats-trace-dest: trace.to\r\n", true),
        (
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
            true,
        ),
    ] {
        asker.send(message("a", headers, "hello").as_bytes())?;
        asker.send(b"PUB a 4\r\nlast\r\n")?;
        let (_, mut came) = next(&mut asker, "1")?;
        if comes {
            ensure!(came.ends_with("hello"), "{headers}: {came}");
            came = next(&mut asker, "1")?.1;
        }
        ensure!(came == "last", "{headers}: {came}");
    }
    drop(asker);
    server.stop()
}

fn too_long(site: &Site) -> Result<()> {
    let settings = Settings {
        max_payload: Some(100),
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    let (mut hearer, _) = client(&server, "hearer", true)?;
    hearer.send(format!("SUB {TO} t\r\nSUB a 1\r\n").as_bytes())?;
    hearer.settle()?;
    let (mut asker, asking) = client(&server, "asker", true)?;
    let headers = format!("NATS/1.0\r\nNats-Trace-Dest: {TO}\r\n\r\n");
    asker.send(format!("HPUB a {} 101\r\n{headers}and", headers.len()).as_bytes())?;
    let found = trace(&mut hearer, "t")?;
    let mut refused = ingress(asking, "asker", "a");
    refused["error"] = "maximum payload exceeded".into();
    ensure!(found["events"] == json!([refused]), "{found}");
    ensure!(found["request"]["msgsize"] == 101, "{found}");
    asker.rest()?;
    drop(hearer);
    server.stop()
}

/// What is compressed how, is for the server to say.
fn encoded(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    let (mut asker, asking) = client(&server, "asker", true)?;
    asker.send(format!("SUB {TO} t\r\n").as_bytes())?;
    let headers = format!("Nats-Trace-Dest: {TO}\r\nAccept-Encoding: none-that-is-known\r\n");
    asker.send(message("a", &headers, "").as_bytes())?;
    let (line, body) = next(&mut asker, "t")?;
    ensure!(line.starts_with(&format!("HMSG {TO} ")), "{line}");
    let json = body.strip_prefix("NATS/1.0\r\nContent-Encoding: identity\r\n\r\n");
    let found: Value = serde_json::from_str(json.with_context(|| body.clone())?)?;
    ensure!(found["events"][0]["cid"] == asking, "{found}");
    drop(asker);
    server.stop()
}
