//! Message tracing, as the NATS server does it: who asks for it in a message's headers is told where the message went.
//!
//! `Nats-Trace-Dest` names the subject on which that comes, as one JSON object. With `Nats-Trace-Only: true` the
//! message itself goes nowhere. What comes is not compressed, whatever `Accept-Encoding` says. Who gets the message may
//! be many, and found in turns, so that each is written down as it is found.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::broker::{Broker, Client, Subscription};
use super::connect::{ACCOUNT, VERSION};
use super::subject;

const DESTINATION: &[u8] = b"Nats-Trace-Dest";
const ONLY: &[u8] = b"Nats-Trace-Only";
const ENCODING: &[u8] = b"Accept-Encoding";
/// Of a message that went through another account, which is not told where it goes on.
const ORIGIN: &[u8] = b"Nats-Trace-Origin-Account";
/// A destination that says that there is none.
const DISABLED: &[u8] = b"trace disabled";
/// What headers begin with.
const VERSION_LINE: &[u8] = b"NATS/1.0\r\n";
/// What a trace begins with that may be compressed and is not.
const NOT_COMPRESSED: &[u8] = b"NATS/1.0\r\nContent-Encoding: identity\r\n\r\n";
/// Clients are the only ones that send or get messages here.
const KIND_CLIENT: u8 = 0;

/// Why a message does not get in.
pub(super) const TOO_LONG: &str = "maximum payload exceeded";
/// Why a subscription of its subject does not get a message.
pub(super) const NO_ECHO: &str = "Not delivered because of no echo";
pub(super) const OVER: &str = "Not delivered because auto-unsubscribe exceeded";

/// What a message's headers ask for.
#[derive(Debug)]
pub(super) enum Asked<'a> {
    /// That it is delivered.
    Delivery,
    /// A trace alone, which cannot be sent: nothing.
    Nothing,
    /// A trace.
    Trace(Wanted<'a>),
}

/// A trace as it was asked for.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub destination: &'a [u8],
    /// The message itself is not delivered.
    pub only: bool,
    /// It may be compressed.
    encoded: bool,
    headers: &'a [u8],
}

/// Looks into a message's headers.
pub(super) fn asked(headers: &[u8]) -> Asked<'_> {
    let first = |name: &[u8]| fields(headers).find(|field| field.0 == name).map(|field| field.1);
    let Some(destination) = first(DESTINATION).filter(|&it| it != DISABLED) else {
        return Asked::Delivery;
    };
    let only = first(ONLY).is_some_and(|said| {
        let yes: [&[u8]; 3] = [b"1", b"true", b"on"];
        yes.iter().any(|yes| said.eq_ignore_ascii_case(yes))
    });
    let can_be_sent = subject::is_literal(destination)
        && !destination.iter().any(u8::is_ascii_whitespace)
        && first(ORIGIN).is_none();
    match (can_be_sent, only) {
        (false, true) => Asked::Nothing,
        (false, false) => Asked::Delivery,
        (true, _) => Asked::Trace(Wanted {
            destination,
            only,
            encoded: first(ENCODING).is_some(),
            headers,
        }),
    }
}

/// Names and values of headers, without those that are empty.
fn fields(headers: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = headers.strip_prefix(VERSION_LINE).unwrap_or_default();
    let lines = std::iter::from_fn(move || {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        Some(line)
    });
    lines
        .filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
}

/// Where one message went.
#[derive(Debug)]
pub(super) struct Trace {
    /// Where that is told.
    pub destination: Box<[u8]>,
    encoded: bool,
    /// What the server is told to say of the request, as JSON.
    request: Vec<u8>,
    /// What has happened, as JSON, with commas between.
    events: Vec<u8>,
    /// When.
    now: String,
}

#[derive(Debug, Default, Serialize)]
struct Event<'a> {
    r#type: &'static str,
    ts: &'a str,
    kind: u8,
    cid: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    acc: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subj: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

#[derive(Serialize)]
struct Server<'a> {
    name: &'a str,
    host: IpAddr,
    id: &'a str,
    ver: &'static str,
    jetstream: bool,
    flags: u64,
    seq: u64,
    time: &'a str,
}

#[derive(Serialize)]
struct Request<'a> {
    header: BTreeMap<Cow<'a, str>, Vec<Cow<'a, str>>>,
    msgsize: usize,
}

impl Trace {
    /// Of a message of so many bytes, with its headers, that a client has published to a subject; with an error it did
    /// not get in.
    pub fn new(
        wanted: &Wanted<'_>,
        from: &Client,
        subject: &[u8],
        bytes: usize,
        now: SystemTime,
        error: Option<&'static str>,
    ) -> Self {
        let mut header: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, value) in fields(wanted.headers) {
            header.entry(text(name)).or_default().push(text(value));
        }
        let request = Request {
            header,
            msgsize: bytes,
        };
        let mut trace = Self {
            destination: wanted.destination.into(),
            encoded: wanted.encoded,
            request: json(&request),
            events: Vec::new(),
            now: rfc3339(now),
        };
        trace.write(
            from,
            Event {
                r#type: "in",
                acc: Some(ACCOUNT),
                subj: Some(text(subject)),
                error,
                ..Event::default()
            },
        );
        trace
    }

    /// It went there, or did not for this reason.
    pub fn add(&mut self, to: &Subscription, error: Option<&'static str>) {
        self.write(
            &to.client,
            Event {
                r#type: "eg",
                sub: Some(text(&to.subject)),
                queue: to.queue.as_deref().map(text),
                error,
                ..Event::default()
            },
        );
    }

    fn write(&mut self, client: &Client, event: Event<'_>) {
        let info = client.info();
        let event = Event {
            ts: &self.now,
            kind: KIND_CLIENT,
            cid: client.number,
            name: &info.name,
            ..event
        };
        if !self.events.is_empty() {
            self.events.push(b',');
        }
        serde_json::to_writer(&mut self.events, &event).expect("texts and numbers");
    }

    /// What is sent to the destination: the length of its headers, and all of it, with the end of a message.
    pub fn report(&self, broker: &Broker) -> (usize, Vec<u8>) {
        let options = broker.options();
        let server = json(&Server {
            name: &options.server_name,
            host: broker.address().ip(),
            id: &options.server_id,
            ver: VERSION,
            jetstream: false,
            flags: 0,
            seq: broker.next_trace(),
            time: &self.now,
        });
        let headers = if self.encoded { NOT_COMPRESSED } else { b"" };
        let pieces: [&[u8]; 8] = [
            headers,
            b"{\"server\":",
            &server,
            b",\"request\":",
            &self.request,
            b",\"events\":[",
            &self.events,
            b"]}\r\n",
        ];
        (headers.len(), pieces.concat())
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers")
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A time of day in UTC, as RFC 3339 writes it; before 1970 its beginning.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    let (second, nanosecond) = (second % 60, since.subsec_nanos());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanosecond:09}Z")
}

/// The date so many days after the first of January 1970. Years are counted from March here, so that the day that only
/// leap years have is a year's last.
fn date(days: u64) -> (u64, u64, u64) {
    const FOUR_CENTURIES: u64 = 146_097;
    // From the first of March in the year 0.
    let days = days + 719_468;
    let (cycle, day) = (days / FOUR_CENTURIES, days % FOUR_CENTURIES);
    let year = (day - day / 1_460 + day / 36_524 - day / (FOUR_CENTURIES - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, and again.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (400 * cycle + year + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asks(lines: &str) -> String {
        match asked(format!("NATS/1.0\r\n{lines}\r\n").as_bytes()) {
            Asked::Delivery => "delivery".to_owned(),
            Asked::Nothing => "nothing".to_owned(),
            Asked::Trace(wanted) => format!("{} {}", text(wanted.destination), wanted.only),
        }
    }

    #[test]
    fn headers_ask_for_a_trace_or_not() {
        for (lines, expected) in [
            ("", "delivery"),
            ("A: b\r\n", "delivery"),
            ("Nats-Trace-Dest:a.b\r\n", "a.b false"),
            (
                "A: b\r\nNats-Trace-Dest: \t a \r\nNats-Trace-Only: On\r\n",
                "a true",
            ),
            ("Nats-Trace-Dest: a\r\nNats-Trace-Only: yes\r\n", "a false"),
            ("Nats-Trace-Dest: a\r\nNats-Trace-Dest: b\r\n", "a false"),
            ("Nats-Trace-Dest: \r\nNats-Trace-Dest: b\r\n", "b false"),
            ("nats-trace-dest: a\r\n", "delivery"),
            ("Nats-Trace-Only: true\r\n", "delivery"),
            (
                "Nats-Trace-Dest: trace disabled\r\nNats-Trace-Only: true\r\n",
                "delivery",
            ),
            ("Nats-Trace-Dest: a.*\r\n", "delivery"),
            ("Nats-Trace-Dest: a b\r\n", "delivery"),
            ("Nats-Trace-Dest: a..b\r\nNats-Trace-Only: 1\r\n", "nothing"),
            (
                "Nats-Trace-Dest: a\r\nNats-Trace-Origin-Account: x\r\n",
                "delivery",
            ),
        ] {
            assert_eq!(asks(lines), expected, "{lines:?}");
        }
        for torn in [&b"Nats-Trace-Dest: a\r\n"[..], b"NATS/1.0\r\nNats-Trace-Dest: a"] {
            assert!(matches!(asked(torn), Asked::Delivery));
        }
    }

    #[test]
    fn times_are_written_as_rfc_3339_says() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_000_000_000, "2001-09-09T01:46:40"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_735_689_599, "2024-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
        ] {
            let time = UNIX_EPOCH + Duration::new(seconds, 7_000);
            assert_eq!(rfc3339(time), format!("{expected}.000007000Z"));
        }
    }
}
