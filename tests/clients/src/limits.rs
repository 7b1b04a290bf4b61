//! What a client is told that asks for too much, or is not there: the same words as by `nats-server`, to which each
//! case is played as well.

use anyhow::{Result, ensure};

use crate::server::{Auth, Program, Server, Settings};
use crate::wire::Wire;
use crate::{Case, Site};

pub const CASES: &[Case] = &[
    ("a_line_that_is_too_long", control_line),
    ("a_message_that_is_too_long", payload),
    ("one_connection_too_many", connections),
    ("more_subscriptions_than_may_be", subscriptions),
    ("who_does_not_answer", stale),
    ("who_does_not_answer_once", stale_at_once),
    ("who_says_nothing_where_a_token_is_asked_for", silent_stranger),
    ("who_says_something_else_where_a_token_is_asked_for", stranger),
    ("a_million_subscriptions", million),
];

const QUIET: &str = r#"{"verbose":false}"#;

/// What it is told last, before it is closed.
fn last_words(mut wire: Wire, expected: &str) -> Result<()> {
    let came = String::from_utf8(wire.rest()?)?;
    let last = came.trim_end().rsplit("\r\n").next().unwrap_or_default();
    ensure!(last == expected, "it was told {came:?}");
    Ok(())
}

fn control_line(site: &Site) -> Result<()> {
    let server = Server::start(&site.program, &Settings::default())?;
    for line in ["PUB ", "SUB a ", "UNSUB ", "HPUB a "] {
        let mut wire = Wire::open(&server, QUIET)?;
        // In one piece, and no more than is looked at before it is refused.
        wire.send(format!("{line}{}", "x".repeat(4_200)).as_bytes())?;
        last_words(wire, "-ERR 'maximum control line exceeded'")?;
    }
    server.stop()
}

fn payload(site: &Site) -> Result<()> {
    let settings = Settings {
        max_payload: Some(100),
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    // More digits are no number to nats-server: see the wrong lines of the random sessions.
    for size in ["101", "999999999"] {
        let mut wire = Wire::open(&server, QUIET)?;
        wire.send(format!("PUB a {size}\r\n").as_bytes())?;
        last_words(wire, "-ERR 'Maximum Payload Violation'")?;
    }
    server.stop()
}

fn connections(site: &Site) -> Result<()> {
    let settings = Settings {
        max_connections: Some(2),
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    let mut members = [Wire::open(&server, QUIET)?, Wire::open(&server, QUIET)?];
    // However many: nobody is kept waiting.
    for _ in 0..40 {
        last_words(Wire::connected(&server)?, "-ERR 'maximum connections exceeded'")?;
    }
    for member in &mut members {
        ensure!(member.settle()?.is_empty(), "who was there before has noticed");
    }
    drop(members);
    server.stop()
}

fn subscriptions(site: &Site) -> Result<()> {
    let settings = Settings {
        max_subscriptions: Some(3),
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    let mut wire = Wire::open(&server, QUIET)?;
    for sid in 0..5 {
        wire.send(format!("SUB s.{sid} {sid}\r\n").as_bytes())?;
    }
    let told = String::from_utf8(wire.settle()?)?;
    ensure!(
        told.trim_end() == "-ERR 'maximum subscriptions exceeded'\r\n-ERR 'maximum subscriptions exceeded'",
        "{told:?}"
    );
    // It is still a client, with those that it had.
    wire.send(b"PUB s.2 2\r\nhi\r\nPUB s.3 2\r\nhi\r\n")?;
    let heard = String::from_utf8(wire.settle()?)?;
    ensure!(heard == "MSG s.2 2 2\r\nhi\r\n", "{heard:?}");
    drop(wire);
    server.stop()
}

fn stale(site: &Site) -> Result<()> {
    let settings = Settings {
        ping_interval_s: Some(1),
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    last_words(Wire::open(&server, QUIET)?, "-ERR 'Stale Connection'")?;
    server.stop()
}

/// It is asked as often as it is set.
fn stale_at_once(site: &Site) -> Result<()> {
    let settings = Settings {
        ping_interval_s: Some(1),
        ping_max: Some(1),
        ..Settings::default()
    };
    let server = Server::start(&site.program, &settings)?;
    let came = Wire::open(&server, QUIET)?.rest()?;
    ensure!(
        came == b"PING\r\n-ERR 'Stale Connection'\r\n",
        "{:?}",
        String::from_utf8_lossy(&came)
    );
    server.stop()
}

fn with_a_token(site: &Site, auth_timeout_s: Option<u64>) -> Result<Server> {
    let settings = Settings {
        auth: Auth::Token("s3cret"),
        auth_timeout_s,
        ..Settings::default()
    };
    Server::start(&site.program, &settings)
}

fn silent_stranger(site: &Site) -> Result<()> {
    let server = with_a_token(site, Some(1))?;
    last_words(Wire::greeted(&server)?, "-ERR 'Authentication Timeout'")?;
    server.stop()
}

fn stranger(site: &Site) -> Result<()> {
    let server = with_a_token(site, None)?;
    for says in [
        "PING\r\n",
        "SUB > 1\r\n",
        "PUB a 0\r\n\r\n",
        "CONNECT {}\r\n",
        "CONNECT {\"auth_token\":\"s3cre\"}\r\nPING\r\n",
        "CONNECT {\"user\":\"s3cret\",\"pass\":\"s3cret\"}\r\n",
    ] {
        let mut wire = Wire::greeted(&server)?;
        wire.send(says.as_bytes())?;
        let told = String::from_utf8(wire.rest()?)?;
        ensure!(told == "-ERR 'Authorization Violation'\r\n", "{says:?}: {told:?}");
    }
    server.stop()
}

/// Ours bounds them, where `nats-server` does not.
fn million(site: &Site) -> Result<()> {
    const PIECE: u32 = 10_000;
    let Program::Ours { .. } = site.program else {
        return Ok(());
    };
    let pieces = if site.deep { 100 } else { 12 };
    let server = Server::start(&site.program, &Settings::default())?;
    let mut greedy = Wire::open(&server, QUIET)?;
    let mut refused = 0;
    for piece in 0..pieces {
        let all: String = (piece * PIECE..(piece + 1) * PIECE)
            .map(|sid| format!("SUB b.{sid}.*.x {sid}\r\n"))
            .collect();
        greedy.send(all.as_bytes())?;
        refused += String::from_utf8(greedy.settle()?)?
            .matches("maximum subscriptions exceeded")
            .count();
    }
    ensure!(
        refused == (pieces * PIECE) as usize - 100_000,
        "{refused} were refused"
    );
    let peak_kib = server.peak_kib()?;
    ensure!(peak_kib < 128 << 10, "{peak_kib} KiB for one client");
    // Others are served, and it too.
    let mut other = Wire::open(&server, QUIET)?;
    other.send(b"PUB b.7.y.x 2\r\nhi\r\n")?;
    other.settle()?;
    greedy.until(b"MSG b.7.y.x 7 2\r\nhi\r\n")?;
    drop((greedy, other));
    server.stop()
}
