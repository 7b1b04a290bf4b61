//! One client's side: what its operations do, and what it is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::broker::{Broker, Client, Subscribed, Subscription, Taken};
use super::connect::{Manner, Reader, Refusal, info};
use super::index::Found;
use super::options::Access;
use super::subject;
use super::wire::{Operation, Publish, Wrong, parse};
use crate::id::ConnectionId;
use crate::protocol::{Io, Letter, Session};

/// What subjects for the answers to a client's requests begin with.
const INBOX: &[u8] = b"_INBOX.";

/// A client that can publish, and subscribe.
#[derive(Debug)]
pub struct Member {
    broker: Arc<Broker>,
    client: Arc<Client>,
    manner: Manner,
    stage: Stage,
    /// Whom its messages went to lately.
    found: Found<Subscription>,
    /// Something came since it was looked at last.
    heard: bool,
    /// How often it was asked whether it is there, and said nothing.
    pings_out: u32,
    /// Decides which member of a queue gets its next message: as good as by chance, and the same when repeated.
    chance: u64,
    /// It has said with whom it mostly is.
    joined: bool,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has to say who it is, and nothing else is heard before.
    Stranger,
    /// It can do everything.
    Member,
    /// It was told that the server stops.
    Leaving,
}

impl Member {
    pub(super) fn new(broker: Arc<Broker>, id: ConnectionId) -> Self {
        let client = broker.client(id);
        let stage = match broker.options.access {
            Access::Everyone => Stage::Member,
            _ => Stage::Stranger,
        };
        Self {
            // So that not all begin with the same member of a queue.
            chance: client.number,
            broker,
            client,
            manner: Manner::default(),
            stage,
            found: Found::default(),
            heard: false,
            pings_out: 0,
            joined: false,
        }
    }

    fn send_info(&self, io: &mut Io<'_>, lame_duck: bool) {
        let reader = Reader {
            client_id: self.client.number,
            address: self.client.address.get().copied(),
            lame_duck,
        };
        let line = info(&self.broker.options, self.broker.address(), reader);
        io.send(line.as_bytes());
    }

    fn perform(&mut self, operation: Operation<'_>, io: &mut Io<'_>) {
        match operation {
            Operation::Connect(json) => self.connect(json, io),
            Operation::Publish(message) => self.publish(&message, io),
            Operation::Subscribe { subject, queue, sid } => self.subscribe(subject, queue, sid, io),
            Operation::Unsubscribe { sid, after } => {
                self.broker.unsubscribe(&self.client, sid, after);
                self.confirm(io);
            }
            Operation::Ping => io.send(b"PONG\r\n"),
            Operation::Pong | Operation::Idle => {}
        }
    }

    fn connect(&mut self, json: &[u8], io: &mut Io<'_>) {
        let outcome = {
            let mut wishes = self.client.wishes();
            let outcome = wishes.connect(json, &self.broker.options.access);
            self.manner = wishes.manner;
            outcome
        };
        match outcome {
            Ok(()) => {}
            Err(Refusal::Violation) => return self.violation(io),
            Err(Refusal::NotJson) => return self.refuse(io, "Parser Error"),
            Err(Refusal::Tls) => return self.refuse(io, "Secure Connection - TLS Required"),
            Err(Refusal::Protocol) => return self.refuse(io, "invalid client protocol"),
            Err(Refusal::NoHeaders) => return self.refuse(io, "no responders requires headers support"),
        }
        self.client.headers.store(self.manner.headers, Relaxed);
        if self.stage == Stage::Stranger {
            self.stage = Stage::Member;
            io.set_alarm(Some(self.broker.options.ping_interval));
        }
        self.confirm(io);
    }

    fn violation(&self, io: &mut Io<'_>) {
        self.broker.violations.fetch_add(1, Relaxed);
        self.refuse(io, "Authorization Violation");
    }

    /// To clients that want an answer to everything.
    fn confirm(&self, io: &mut Io<'_>) {
        if self.manner.verbose {
            io.send(b"+OK\r\n");
        }
    }

    fn subscribe(&mut self, subject: &[u8], queue: Option<&[u8]>, sid: &[u8], io: &mut Io<'_>) {
        if subject::tokens(subject).count() > subject::MOST_TOKENS {
            let subject = String::from_utf8_lossy(subject);
            let text = format!("Permissions Violation for Subscription to \"{subject}\", too many tokens");
            return complain(io, &text);
        }
        match self.broker.subscribe(&self.client, subject, queue, sid) {
            Subscribed::Invalid => return complain(io, "Invalid Subject"),
            Subscribed::TooMany => return complain(io, "maximum subscriptions exceeded"),
            Subscribed::Before => {}
            Subscribed::Done => {
                let is_group = subject::is_literal(subject) && queue.is_none();
                if is_group && !self.joined && !subject.starts_with(INBOX) {
                    self.joined = true;
                    io.join(subject::hash(subject));
                }
            }
        }
        self.confirm(io);
    }

    fn publish(&mut self, message: &Publish<'_>, io: &mut Io<'_>) {
        if message.headers.is_some() && !self.manner.headers {
            return self.refuse(io, "message headers not supported");
        }
        // Headers of no bytes are none.
        let headers = message.headers.filter(|headers| headers.bytes > 0);
        let message = &Publish { headers, ..*message };
        let bytes = message.body.len() - 2;
        self.client.messages.add(1);
        self.client.bytes.add(bytes as u64);
        if self.manner.pedantic && !subject::is_literal(message.subject) {
            complain(io, "Invalid Publish Subject");
        }
        self.confirm(io);
        let route = self.found.route(&self.broker.index, message.subject);
        let mut sending = Sending {
            message,
            bytes,
            broker: &self.broker,
            not_to: (!self.manner.echo).then_some(self.client.id),
            with_headers: None,
            without_headers: None,
            delivered: false,
        };
        for subscription in &route.plain {
            sending.deliver(subscription, io);
        }
        for queue in &route.queues {
            let (before, first) = queue.split_at(draw(&mut self.chance) % queue.len());
            // The first who can.
            for subscription in first.iter().chain(before) {
                if sending.deliver(subscription, io) {
                    break;
                }
            }
        }
        if !sending.delivered && self.manner.no_responders && !message.reply.is_empty() {
            self.say_nobody_hears(message, io);
        }
    }

    /// Answers a request that nobody hears, where the answer was to come.
    fn say_nobody_hears(&mut self, message: &Publish<'_>, io: &mut Io<'_>) {
        let route = self.found.route(&self.broker.index, message.reply);
        let Some(own) = route.plain.iter().find(|it| it.id == self.client.id) else {
            return;
        };
        let headers = [b"NATS/1.0 503\r\nNats-Subject: ", message.subject, b"\r\n\r\n"].concat();
        let line = format!(" {0} {0}\r\n", headers.len());
        let pieces = [
            b"HMSG ",
            message.reply,
            b" ",
            &*own.sid,
            line.as_bytes(),
            &headers,
            b"\r\n",
        ];
        io.send(&pieces.concat());
    }

    /// Tells it what it did wrong, and closes. From now on it gets nothing more, whenever it goes.
    fn refuse(&self, io: &mut Io<'_>, text: &str) {
        complain(io, text);
        self.broker.leave(&self.client);
        io.refuse();
    }

    /// It says something wrong, and is heard no more.
    fn reject(&self, wrong: Wrong, io: &mut Io<'_>) {
        let text = match wrong {
            Wrong::Operation => "Unknown Protocol Operation",
            Wrong::Arguments => "Parser Error",
            Wrong::ControlLine => "maximum control line exceeded",
            Wrong::Payload => "Maximum Payload Violation",
        };
        self.refuse(io, text);
    }

    /// Time has passed: it is asked whether it is there, if it has not shown that itself.
    fn look_after(&mut self, io: &mut Io<'_>) {
        if std::mem::take(&mut self.heard) {
            self.pings_out = 0;
        } else if self.pings_out >= self.broker.options.max_pings_out {
            return self.refuse(io, "Stale Connection");
        } else {
            self.pings_out += 1;
            io.send(b"PING\r\n");
        }
        io.set_alarm(Some(self.broker.options.ping_interval));
    }
}

impl Session for Member {
    fn located(&mut self, client: SocketAddr) {
        let _ = self.client.address.set(client);
    }

    fn opened(&mut self, io: &mut Io<'_>) {
        if !self.broker.enter(&self.client) {
            return self.refuse(io, "maximum connections exceeded");
        }
        self.send_info(io, false);
        let options = &self.broker.options;
        io.set_alarm(Some(match self.stage {
            Stage::Stranger => options.auth_timeout,
            _ => options.ping_interval,
        }));
    }

    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        self.heard = true;
        if self.stage == Stage::Stranger && !input[0].eq_ignore_ascii_case(&b'C') {
            self.violation(io);
            return input.len();
        }
        match parse(input, self.broker.limits()) {
            Ok(None) => 0,
            Ok(Some((operation, length))) => {
                self.perform(operation, io);
                length
            }
            Err(wrong) => {
                self.reject(wrong, io);
                input.len()
            }
        }
    }

    fn ended(&mut self, io: &mut Io<'_>) {
        self.broker.leave(&self.client);
        io.close();
    }

    fn alarm(&mut self, io: &mut Io<'_>) {
        match self.stage {
            Stage::Stranger => self.refuse(io, "Authentication Timeout"),
            Stage::Member => self.look_after(io),
            Stage::Leaving => io.close(),
        }
    }

    fn stopping(&mut self, io: &mut Io<'_>) {
        if self.stage == Stage::Member && self.manner.protocol >= 1 {
            self.send_info(io, true);
        }
        let lame_duck = self.broker.options.lame_duck;
        if self.stage == Stage::Stranger || lame_duck.is_zero() {
            return io.close();
        }
        self.stage = Stage::Leaving;
        io.set_alarm(Some(lame_duck));
    }
}

/// However it ends, also by a panic.
impl Drop for Member {
    fn drop(&mut self) {
        self.broker.leave(&self.client);
    }
}

/// One message on its way to those who get it.
struct Sending<'a> {
    message: &'a Publish<'a>,
    /// Of headers and payload.
    bytes: usize,
    broker: &'a Broker,
    /// Its sender, who does not want it back.
    not_to: Option<ConnectionId>,
    with_headers: Option<Letter>,
    without_headers: Option<Letter>,
    delivered: bool,
}

impl Sending<'_> {
    /// Whether this subscription gets it.
    #[inline]
    fn deliver(&mut self, to: &Subscription, io: &mut Io<'_>) -> bool {
        if self.not_to == Some(to.id) {
            return false;
        }
        let stripped = match self.message.headers {
            Some(headers) if !to.client.headers.load(Relaxed) => headers.bytes,
            _ => 0,
        };
        match to.take(self.bytes - stripped) {
            Taken::No => {
                self.broker.over(to);
                return false;
            }
            Taken::Yes => {}
            Taken::Last => self.broker.over(to),
        }
        let letter = self.letter(stripped, io);
        io.post(letter, to.id, &to.sid);
        self.delivered = true;
        true
    }

    /// The message, without so many of its first bytes.
    #[inline]
    fn letter(&mut self, stripped: usize, io: &mut Io<'_>) -> Letter {
        let known = match stripped {
            0 => &mut self.with_headers,
            _ => &mut self.without_headers,
        };
        *known.get_or_insert_with(|| compose(self.message, stripped, io))
    }
}

fn compose(message: &Publish<'_>, stripped: usize, io: &mut Io<'_>) -> Letter {
    let blank_before_reply: &[u8] = if message.reply.is_empty() { b"" } else { b" " };
    let body = &message.body[stripped..];
    match message.headers {
        Some(headers) if stripped == 0 => io.compose(
            &[b"HMSG ", message.subject, b" "],
            &[
                blank_before_reply,
                message.reply,
                b" ",
                headers.written,
                b" ",
                message.size,
                b"\r\n",
                body,
            ],
        ),
        headers => {
            let without = headers.map(|_| (body.len() - 2).to_string());
            let size = without.as_ref().map_or(message.size, String::as_bytes);
            io.compose(
                &[b"MSG ", message.subject, b" "],
                &[blank_before_reply, message.reply, b" ", size, b"\r\n", body],
            )
        }
    }
}

/// The next of a series of numbers that look random (Knuth's linear congruential generator; its low bits are not).
fn draw(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// Tells a client what it did wrong.
fn complain(io: &mut Io<'_>, text: &str) {
    io.send(format!("-ERR '{text}'\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::{Groups, Options};
    use super::*;
    use crate::CloseReason;
    use crate::testing::{Rehearsal, split_anywhere};

    /// Quiet, and knows headers.
    const CONNECT: &str = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1}\r\n";

    fn server(options: Options) -> Rehearsal<Groups> {
        Rehearsal::new(Groups::new(options))
    }

    fn hear(server: &mut Rehearsal<Groups>, client: ConnectionId) -> String {
        String::from_utf8(server.take_output(client)).expect("text")
    }

    /// A client that has said nothing but what was read.
    fn stranger(server: &mut Rehearsal<Groups>) -> ConnectionId {
        let client = server.connect();
        let info = hear(server, client);
        assert!(info.starts_with("INFO {") && info.ends_with("} \r\n"), "{info}");
        client
    }

    fn connect(server: &mut Rehearsal<Groups>) -> ConnectionId {
        let client = stranger(server);
        server.receive(client, CONNECT.as_bytes());
        client
    }

    /// Says something, and what comes of it.
    fn ask(server: &mut Rehearsal<Groups>, client: ConnectionId, text: &str) -> String {
        server.receive(client, text.as_bytes());
        hear(server, client)
    }

    #[test]
    fn a_message_goes_to_all_who_are_subscribed() {
        let mut server = server(Options::default());
        let [a, b, c] = [(); 3].map(|()| connect(&mut server));
        assert_eq!(ask(&mut server, a, "SUB room.1 7\r\n"), "");
        assert_eq!(ask(&mut server, b, "SUB room.* x\r\nSUB > all\r\n"), "");
        assert_eq!(
            ask(&mut server, c, "PUB room.1 5\r\nhello\r\nPUB room.2 re 0\r\n\r\n"),
            ""
        );
        assert_eq!(hear(&mut server, a), "MSG room.1 7 5\r\nhello\r\n");
        let mut came: Vec<_> = hear(&mut server, b)
            .split_inclusive("\n")
            .map(str::to_owned)
            .collect();
        came.sort();
        let mut expected = vec![
            "MSG room.1 x 5\r\n",
            "hello\r\n",
            "MSG room.1 all 5\r\n",
            "hello\r\n",
            "MSG room.2 x re 0\r\n",
            "\r\n",
            "MSG room.2 all re 0\r\n",
            "\r\n",
        ];
        expected.sort_unstable();
        assert_eq!(came, expected);
        assert_eq!(hear(&mut server, c), "");
    }

    #[test]
    fn the_sender_gets_it_too_unless_it_says_no_and_before_what_it_asks_next() {
        let mut server = server(Options::default());
        let a = connect(&mut server);
        let echoed = "SUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n";
        assert_eq!(ask(&mut server, a, echoed), "MSG a 1 2\r\nhi\r\nPONG\r\n");
        assert_eq!(
            ask(
                &mut server,
                a,
                "CONNECT {\"echo\":false}\r\nPUB a 2\r\nhi\r\nPING\r\n"
            ),
            "PONG\r\n"
        );
    }

    #[test]
    fn one_member_of_each_queue_gets_it() {
        let mut server = server(Options::default());
        let [a, b, asker] = [(); 3].map(|()| connect(&mut server));
        for client in [a, b] {
            server.receive(client, b"SUB work q 1\r\nSUB * other 2\r\n");
        }
        server.receive(
            asker,
            b"CONNECT {\"echo\":false}\r\nSUB work q 3\r\nSUB work 4\r\n",
        );
        for _ in 0..40 {
            assert_eq!(
                ask(&mut server, asker, "PUB work 1\r\nx\r\n"),
                "",
                "not to itself"
            );
        }
        let [a, b] = [a, b].map(|client| hear(&mut server, client));
        for sid in [1, 2] {
            let counts = [&a, &b].map(|came| came.matches(&format!("MSG work {sid} 1\r\nx\r\n")).count());
            assert_eq!(counts[0] + counts[1], 40, "{sid}");
            assert!(counts[0] > 0 && counts[1] > 0, "{sid}: {counts:?}");
        }
    }

    #[test]
    fn a_subscription_ends_when_told_or_after_so_many() {
        let mut server = server(Options::default());
        let [a, b] = [(); 2].map(|()| connect(&mut server));
        server.receive(a, b"SUB a 1\r\nSUB a 2\r\nUNSUB 2 2\r\nUNSUB nobody\r\n");
        for _ in 0..3 {
            server.receive(b, b"PUB a 0\r\n\r\n");
        }
        let came = hear(&mut server, a);
        assert_eq!(
            (came.matches(" 1 0").count(), came.matches(" 2 0").count()),
            (3, 2)
        );
        server.receive(a, b"UNSUB 1\r\n");
        server.receive(b, b"PUB a 0\r\n\r\n");
        assert_eq!(hear(&mut server, a), "");
        // So many since it began: that is now.
        assert_eq!(
            ask(
                &mut server,
                a,
                "SUB a 3\r\nPUB a 0\r\n\r\nUNSUB 3 1\r\nPUB a 0\r\n\r\n"
            ),
            "MSG a 3 0\r\n\r\n"
        );
    }

    #[test]
    fn headers_come_to_those_who_know_them() {
        let mut server = server(Options::default());
        let [a, sender] = [(); 2].map(|()| connect(&mut server));
        let old = stranger(&mut server);
        for client in [a, old] {
            server.receive(client, b"CONNECT {\"verbose\":false}\r\nSUB a 1\r\n");
        }
        let headers = "NATS/1.0\r\nA: b\r\n\r\n";
        let message = format!(
            "HPUB a r {} {}\r\n{headers}hi\r\n",
            headers.len(),
            headers.len() + 2
        );
        assert_eq!(ask(&mut server, sender, &message), "");
        assert_eq!(hear(&mut server, a), message.replace("HPUB a", "HMSG a 1"));
        assert_eq!(hear(&mut server, old), "MSG a 1 r 2\r\nhi\r\n");
        assert_eq!(ask(&mut server, sender, "HPUB a 0 2\r\nhi\r\n"), "");
        for client in [a, old] {
            assert_eq!(hear(&mut server, client), "MSG a 1 2\r\nhi\r\n");
        }
        assert_eq!(
            ask(&mut server, old, &message),
            "-ERR 'message headers not supported'\r\n"
        );
        assert_eq!(server.closed(old), Some(CloseReason::Refused));
    }

    #[test]
    fn who_asks_nobody_is_told_so() {
        let mut server = server(Options::default());
        let a = connect(&mut server);
        assert_eq!(
            ask(
                &mut server,
                a,
                "SUB in.* 1\r\nPUB nobody in.7 0\r\n\r\nPUB nobody elsewhere 0\r\n\r\n"
            ),
            "HMSG in.7 1 38 38\r\nNATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n\r\n"
        );
        let b = connect(&mut server);
        server.receive(b, b"SUB nobody 1\r\n");
        assert_eq!(ask(&mut server, a, "PUB nobody in.8 0\r\n\r\n"), "");
    }

    #[test]
    fn a_verbose_client_hears_of_everything() {
        let mut server = server(Options::default());
        let client = stranger(&mut server);
        assert_eq!(
            ask(
                &mut server,
                client,
                "SUB a.> 1\r\nPUB a.* 0\r\n\r\nUNSUB 1\r\nPING\r\nCONNECT {\"pedantic\":false}\r\n"
            ),
            "+OK\r\n-ERR 'Invalid Publish Subject'\r\n+OK\r\nMSG a.* 1 0\r\n\r\n+OK\r\nPONG\r\n+OK\r\n"
        );
    }

    #[test]
    fn what_is_wrong_is_said_and_only_the_worst_closes() {
        let many = format!("SUB {}x 1\r\n", "a.".repeat(128));
        let long = format!("PUB {} 1\r\n", "x".repeat(4_100));
        for (text, answer, closes) in [
            ("SUB a..b 1\r\n", "Invalid Subject", false),
            (&many, "too many tokens", false),
            ("HELLO\r\n", "Unknown Protocol Operation", true),
            ("PUB a x\r\n", "Parser Error", true),
            ("CONNECT {\r\n", "Parser Error", true),
            (
                "CONNECT {\"tls_required\":true}\r\n",
                "Secure Connection - TLS Required",
                true,
            ),
            ("CONNECT {\"protocol\":9}\r\n", "invalid client protocol", true),
            (
                "CONNECT {\"headers\":false}\r\n",
                "no responders requires headers support",
                true,
            ),
            ("PUB a 1048577\r\n", "Maximum Payload Violation", true),
            (&long, "maximum control line exceeded", true),
        ] {
            let mut server = server(Options::default());
            let client = connect(&mut server);
            let came = ask(&mut server, client, text);
            assert!(
                came.starts_with("-ERR '") && came.contains(answer),
                "{text}: {came}"
            );
            assert_eq!(
                server.closed(client),
                closes.then_some(CloseReason::Refused),
                "{text}"
            );
        }
    }

    #[test]
    fn limits_are_for_one_and_for_all() {
        let options = Options {
            max_subscriptions: 2,
            max_connections: Some(2),
            ..Options::default()
        };
        let mut server = server(options);
        let [a, b] = [(); 2].map(|()| connect(&mut server));
        assert_eq!(
            ask(&mut server, a, "SUB a 1\r\nSUB a 2\r\nSUB a 3\r\n"),
            "-ERR 'maximum subscriptions exceeded'\r\n"
        );
        assert_eq!(
            ask(
                &mut server,
                b,
                "SUB a 1\r\nUNSUB 1\r\nSUB a 2\r\nSUB a 3\r\nPING\r\n"
            ),
            "PONG\r\n"
        );
        let third = server.connect();
        assert_eq!(
            hear(&mut server, third),
            "-ERR 'maximum connections exceeded'\r\n"
        );
        assert_eq!(server.closed(third), Some(CloseReason::Refused));
        server.end(a);
        stranger(&mut server);
    }

    #[test]
    fn a_stranger_reaches_and_hears_nothing() {
        let access = Access::User {
            name: "anna".into(),
            password: "s3cret".into(),
        };
        let options = Options {
            access,
            ..Options::default()
        };
        let groups = Groups::new(options);
        let mut server = Rehearsal::new(groups.clone());
        let member = stranger(&mut server);
        let login = "CONNECT {\"verbose\":false,\"user\":\"anna\",\"pass\":\"s3cret\"}\r\n";
        assert_eq!(
            ask(&mut server, member, &format!("{login}SUB > 1\r\nPING\r\n")),
            "PONG\r\n"
        );
        for text in [
            "SUB > 1\r\nPUB a 1\r\nx\r\n",
            "PING\r\n",
            "PUB a 1\r\nx\r\n",
            "CONNECT {}\r\nPUB a 1\r\nx\r\n",
            "CONNECT {\"user\":\"anna\",\"pass\":\"secret\"}\r\nSUB > 1\r\nPUB a 1\r\nx\r\n",
            "CONNECT {\"auth_token\":\"s3cret\"}\r\nPUB a 1\r\nx\r\n",
        ] {
            let client = stranger(&mut server);
            assert_eq!(
                ask(&mut server, client, text),
                "-ERR 'Authorization Violation'\r\n",
                "{text}"
            );
            assert_eq!(server.closed(client), Some(CloseReason::Refused), "{text}");
        }
        assert_eq!(hear(&mut server, member), "");
        let late = stranger(&mut server);
        assert_eq!(server.alarm(late), Some(Duration::from_secs(2)));
        server.ring(late);
        assert_eq!(hear(&mut server, late), "-ERR 'Authentication Timeout'\r\n");
        let figures = groups.monitor().server();
        assert_eq!(
            (figures.violations, figures.clients, figures.subscriptions),
            (6, 1, 1)
        );
        assert_eq!(figures.published, Default::default());
    }

    #[test]
    fn who_is_silent_is_asked_and_then_closed() {
        let mut server = server(Options::default());
        let [silent, lively] = [(); 2].map(|()| connect(&mut server));
        for came in ["", "PING\r\n", "PING\r\n", "-ERR 'Stale Connection'\r\n"] {
            assert_eq!(server.alarm(silent), Some(Duration::from_secs(120)));
            for client in [silent, lively] {
                server.ring(client);
            }
            assert_eq!(hear(&mut server, silent), came);
            hear(&mut server, lively);
            server.receive(lively, b"PONG\r\n");
        }
        assert_eq!(server.closed(silent), Some(CloseReason::Refused));
        assert_eq!(server.closed(lively), None);
    }

    #[test]
    fn who_stops_says_so_and_waits_for_a_while() {
        let options = Options {
            lame_duck: Duration::from_secs(3),
            ..Options::default()
        };
        let mut server = server(options);
        let new = connect(&mut server);
        let old = stranger(&mut server);
        server.stop();
        assert!(hear(&mut server, new).contains("\"ldm\":true"));
        assert_eq!(hear(&mut server, old), "");
        assert_eq!(ask(&mut server, new, "PING\r\n"), "PONG\r\n");
        assert_eq!(server.alarm(new), Some(Duration::from_secs(3)));
        server.ring(new);
        assert!(server.closed(new).is_some());
    }

    #[test]
    fn figures_add_up() {
        let groups = Groups::new(Options::default());
        let mut server = Rehearsal::new(groups.clone());
        let monitor = groups.monitor();
        let [a, b] = [(); 2].map(|()| connect(&mut server));
        server.receive(
            a,
            b"CONNECT {\"name\":\"anna\",\"lang\":\"rust\"}\r\nSUB x 1\r\nSUB x q 2\r\nUNSUB 2 1\r\n",
        );
        server.receive(b, b"PUB x 3\r\nabc\r\nPUB x 3\r\nabc\r\n");
        let clients = monitor.clients();
        assert_eq!((clients[0].name.as_str(), clients[0].subscriptions), ("anna", 1));
        let subscription = &monitor.subscriptions(clients[0].number)[0];
        assert_eq!(
            (subscription.sid.as_str(), subscription.delivered.messages),
            ("1", 2)
        );
        let before = monitor.server();
        assert_eq!((before.published.messages, before.published.bytes), (2, 6));
        assert_eq!((before.delivered.messages, before.delivered.bytes), (3, 9));
        server.end(a);
        server.lose(b);
        let after = monitor.server();
        assert_eq!(
            (after.clients, after.clients_ever, after.subscriptions),
            (0, 2, 0)
        );
        assert_eq!(
            (after.published, after.delivered),
            (before.published, before.delivered)
        );
    }

    proptest! {
        #[test]
        fn bytes_split_anywhere_give_the_same(
            operations in prop::collection::vec(prop_oneof![
                "(SUB|sub) [ab]\\.[b*>] (q )?[1-3]\r\n",
                "UNSUB [1-3]( [0-3])?\r\n",
                "PUB [ab]\\.[ab] ([ab]\\.[ab] )?2\r\nhi\r\n",
                "HPUB a\\.b 3 5\r\nABChi\r\n",
                "P[IO]NG\r\n",
                "CONNECT \\{\"echo\":(true|false),\"headers\":true,\"no_responders\":true\\}\r\n",
                "[A-Z+-]{1,5}( [a-z0-9.]{0,3}){0,3}\r?\n",
            ], 0..12),
            cuts in prop::collection::vec(0usize..300, 0..8),
        ) {
            split_anywhere(|| Groups::named("same"), b"SUB a.> 1\r\nSUB a.b q 2\r\n", operations.concat().as_bytes(), &cuts);
        }
    }
}
