//! Ours beside `nats-server`: the same random session, byte for byte, gives the same deliveries and errors.
//!
//! A session is a few connections and what each says in turn: subscriptions, publications, what is no protocol at all.
//! After each step everyone has heard all of it before the next begins, so that what came can be compared step by
//! step. A session that differs is shrunk to the least that does. Who of a queue gets a message is for the server to
//! say, so that what a queue got is compared as a whole.

use std::cell::Cell;

use anyhow::{Context, Result, anyhow, bail, ensure};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::server::{Program, Server, Settings};
use crate::wire::{Frame, Wire};
use crate::{Case, Site};

pub const CASES: &[Case] = &[("random_sessions_are_the_same", random_sessions)];

/// How many are compared, and how many in a deep check.
const SESSIONS: u32 = 60;
const SESSIONS_DEEP: u32 = 1_000;
/// The connections of one.
const CONNECTIONS: usize = 3;
/// How they are opened.
const OPTIONS: [&str; 6] = [
    r#"{"verbose":false,"pedantic":false}"#,
    r#"{"verbose":true,"pedantic":false}"#,
    r#"{"verbose":false,"pedantic":true,"headers":true}"#,
    r#"{"verbose":false,"headers":true,"no_responders":true}"#,
    r#"{"verbose":false,"echo":false,"headers":true}"#,
    "{}",
];
/// What queues' subscriptions are called, and no others.
const QUEUED: &str = "q";

/// What one connection says. A `@` in it stands for the session's own first token, so that no session reaches another.
#[derive(Clone, Debug)]
struct Step {
    who: usize,
    says: String,
}

#[derive(Clone, Debug)]
struct Session {
    options: [usize; CONNECTIONS],
    steps: Vec<Step>,
}

fn random_sessions(site: &Site) -> Result<()> {
    let Some(nats_server) = site.nats_server.clone() else {
        bail!("a case for nats-server");
    };
    let theirs = Server::start(&Program::Nats { nats_server }, &Settings::default())?;
    let ours = Server::start(&site.program, &Settings::default())?;
    let config = Config {
        cases: if site.deep { SESSIONS_DEEP } else { SESSIONS },
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    };
    // The same sessions each time: a difference is a change, not bad luck.
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[5; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let number = Cell::new(0);
    let outcome = runner.run(&sessions(), |session| {
        number.set(number.get() + 1);
        compare(&theirs, &ours, &session, number.get())
            .map_err(|error| TestCaseError::fail(format!("{error:#}")))
    });
    outcome.map_err(|error| anyhow!("{error}"))?;
    theirs.stop()?;
    ours.stop()
}

fn compare(theirs: &Server, ours: &Server, session: &Session, number: u32) -> Result<()> {
    let expected = play(theirs, session, number).context("with nats-server")?;
    let found = play(ours, session, number).context("with ours")?;
    for ((step, expected), mut found) in session.steps.iter().zip(expected).zip(found) {
        found.leave_out_why(step.who, &expected);
        ensure!(
            expected == found,
            "after {} said {:?}\nnats-server: {expected:#?}\nours: {found:#?}",
            step.who,
            step.says
        );
    }
    Ok(())
}

/// What came after a step.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    /// To each connection: what it was told, in order, and then the messages, sorted, since the order of a client's own
    /// subscriptions is for the server to say.
    told: [Vec<String>; CONNECTIONS],
    /// To queues, whoever got it, sorted.
    queued: Vec<String>,
    /// The connection that spoke was closed.
    closed: bool,
}

impl Came {
    /// Where `nats-server` closes without a word, ours says why.
    fn leave_out_why(&mut self, speaker: usize, theirs: &Self) {
        let told = &mut self.told[speaker];
        if self.closed && theirs.closed && theirs.told[speaker].is_empty() && told.len() == 1 {
            told.retain(|line| !line.starts_with("-ERR"));
        }
    }

    fn add(&mut self, to: usize, frames: Vec<Frame>) {
        let mut messages = Vec::new();
        for frame in frames {
            match frame {
                Frame::Message { sid, text } if sid.starts_with(QUEUED) => {
                    self.queued.push(without_headers(text));
                }
                Frame::Message { sid, .. } if sid == MARK => {}
                Frame::Message { sid, text } => messages.push(format!("{sid}: {text}")),
                // Who asks whether we are there, and what the server says of itself anew, says nothing of the session.
                Frame::Other(line) if line.starts_with("PING") || line.starts_with("INFO") => {}
                Frame::Other(line) => self.told[to].push(line),
            }
        }
        messages.sort();
        self.told[to].extend(messages);
    }
}

/// What a queue got, without what depends on who of it got it: a member that knows no headers gets none.
fn without_headers(text: String) -> String {
    let bare = || {
        let (line, body) = text.strip_prefix("HMSG ")?.split_once("\r\n")?;
        let mut words: Vec<&str> = line.split(' ').collect();
        let (all, headers): (usize, usize) = (words.pop()?.parse().ok()?, words.pop()?.parse().ok()?);
        Some(format!(
            "MSG {} {}\r\n{}",
            words.join(" "),
            all - headers,
            body.get(headers..)?
        ))
    };
    bare().unwrap_or(text)
}

/// The subscription by which each connection hears that it has heard everything.
const MARK: &str = "mark";

fn play(server: &Server, session: &Session, number: u32) -> Result<Vec<Came>> {
    let own = format!("s{number}");
    let mark = format!("mark{number}");
    let open = |who: usize| {
        let mut wire = Wire::open(server, OPTIONS[session.options[who]])?;
        wire.send(format!("SUB {mark} {MARK}\r\n").as_bytes())?;
        wire.settle()?;
        anyhow::Ok(wire)
    };
    let mut connections = Vec::new();
    for who in 0..CONNECTIONS {
        connections.push(open(who)?);
    }
    let mut all = Vec::new();
    for (turn, step) in session.steps.iter().enumerate() {
        // Each of its own: what is closed may have been heard to the end all the same.
        let turn = format!("{turn:03}\r\n");
        let mut came = Came::default();
        let speaker = &mut connections[step.who];
        let says = step.says.replace('@', &own);
        // In one piece: what is closed in the middle has read it all, so that its last words are not lost.
        speaker.send(format!("{says}PUB {mark} 3\r\n{turn}PING\r\n").as_bytes())?;
        let pongs = 1 + usize::from(says.to_ascii_uppercase().starts_with("PING"));
        for _ in 0..pongs {
            let (frames, closed) = speaker.frames_until(|frame| frame.is("PONG"))?;
            came.add(step.who, frames);
            came.closed |= closed;
        }
        if came.closed {
            connections[step.who] = open(step.who)?;
        } else {
            for (who, connection) in connections.iter_mut().enumerate() {
                if who != step.who {
                    let is_mark = |frame: &Frame| matches!(frame, Frame::Message { sid, text } if sid == MARK && text.ends_with(&turn));
                    let (frames, closed) = connection.frames_until(is_mark)?;
                    ensure!(!closed, "connection {who} was closed while {} spoke", step.who);
                    came.add(who, frames);
                }
            }
        }
        came.queued.sort();
        all.push(came);
    }
    Ok(all)
}

fn sessions() -> impl Strategy<Value = Session> {
    let options = prop::array::uniform3(0..OPTIONS.len());
    (options, prop::collection::vec(step(), 1..40)).prop_map(|(options, steps)| Session { options, steps })
}

fn step() -> impl Strategy<Value = Step> {
    let says = prop_oneof![
        8 => (wanted(), 0..6u8).prop_map(|(subject, sid)| format!("SUB {subject} {sid}\r\n")),
        2 => (wanted(), "[xy]", 0..3u8)
            .prop_map(|(subject, queue, sid)| format!("SUB {subject} {queue} {QUEUED}{sid}\r\n")),
        2 => (0..6u8).prop_map(|sid| format!("UNSUB {sid}\r\n")),
        1 => (0..3u8).prop_map(|sid| format!("UNSUB {QUEUED}{sid}\r\n")),
        3 => (0..6u8, 0..5u8).prop_map(|(sid, most)| format!("UNSUB {sid} {most}\r\n")),
        10 => (published(), "[a-z ]{0,9}")
            .prop_map(|(subject, payload)| format!("PUB {subject} {}\r\n{payload}\r\n", payload.len())),
        4 => (published(), wanted(), "[a-z ]{0,9}")
            .prop_map(|(subject, reply, payload)| format!("PUB {subject} {reply} {}\r\n{payload}\r\n", payload.len())),
        3 => (published(), prop_oneof!["", "@\\.r "], "(A: b\r\n){0,2}", "[a-z]{0,5}")
            .prop_map(|(subject, reply, headers, payload)| with_headers(&subject, &reply, &headers, &payload)),
        1 => prop::sample::select(HARMLESS).prop_map(str::to_owned),
        2 => prop::sample::select(WRONG).prop_map(str::to_owned),
    ];
    (0..CONNECTIONS, says).prop_map(|(who, says)| Step { who, says })
}

fn with_headers(subject: &str, reply: &str, headers: &str, payload: &str) -> String {
    let headers = format!("NATS/1.0\r\n{headers}\r\n");
    let all = headers.len() + payload.len();
    format!(
        "HPUB {subject} {reply}{} {all}\r\n{headers}{payload}\r\n",
        headers.len()
    )
}

/// Subjects to subscribe to: mostly right ones.
fn wanted() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => "@(\\.[ab]|\\.\\*){1,3}(\\.>)?",
        1 => prop::sample::select(&["@", "@.>", "@..a", "@.a.", "@.>.a", "@.a*", "@.>a", "@.*a.b", ".@"][..])
            .prop_map(str::to_owned),
    ]
}

/// Subjects to publish to.
fn published() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => "@(\\.[ab]){1,3}",
        1 => prop::sample::select(&["@", "@.*", "@.>", "@..a", "@.a.", ".@", "@.a*"][..]).prop_map(str::to_owned),
    ]
}

/// What is read generously. No second `CONNECT`: `nats-server` forgets the subscriptions then, as ours does not.
const HARMLESS: &[&str] = &[
    "\r\n",
    "\n",
    "PONG\r\n",
    "ping\r\n",
    "PING \r\n",
    "PING\n",
    "pub @.a 1\r\nx\r\n",
    "PuB @.a 1\r\nx\r\n",
    "PUB  @.a   1\r\nx\r\n",
    "PUB\t@.a\t1\r\nx\r\n",
    "PUB @.a 1 \r\nx\r\n",
    "PUB @.a 01\r\nx\r\n",
    "SUB @.a  9\r\n",
    "sub\t@.a\t9 \r\n",
    "SUB @.b 9\n",
    "UNSUB nothing\r\n",
    "UNSUB 1 0\r\n",
    "UNSUB  1\t2 \r\n",
];

/// What is no protocol.
const WRONG: &[&str] = &[
    "FOO\r\n",
    "P\r\n",
    "PINGX\r\n",
    "PIN\r\n",
    "PUB\r\n",
    "PUB @.a\r\n",
    "PUB @.a x\r\n",
    "PUB @.a -1\r\n",
    "PUB @.a 1 2 3\r\nx\r\n",
    "PUB @.a 1\r\nxy\r\n",
    "PUB @.a 0\r\nx\r\n",
    "PUB @.a 2\r\nx\r\n",
    "PUB @.a 1048577\r\n",
    "PUB @.a 99999999999999999999\r\n",
    "PUB @.a 1x\r\nx\r\n",
    "HPUB @.a 5\r\n",
    "HPUB @.a 12 10\r\nNATS/1.0\r\n\r\n\r\n",
    "HPUB @.a x 12\r\nNATS/1.0\r\n\r\n\r\n",
    "SUB\r\n",
    "SUB @.a\r\n",
    "SUB @.a b c d\r\n",
    "UNSUB\r\n",
    "UNSUB 1 2 3\r\n",
    "UNSUB 1 x\r\n",
    "UNSUB 1 -1\r\n",
    "CONNECT\r\n",
    "CONNECT \r\n",
    "CONNECT {\r\n",
    "CONNECT []\r\n",
    "CONNECT {\"verbose\":1}\r\n",
    "CONNECT {\"headers\":false,\"no_responders\":true}\r\n",
    "MSG @.a 1 1\r\nx\r\n",
    "INFO {}\r\n",
    "+OK\r\n",
    "-ERR 'x'\r\n",
    "\0\r\n",
    "\u{fe}\r\n",
];
