//! One client's side: what its operations do, and what it is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::broker::{Broker, Client, Subscribed, Subscription, Taken};
use super::connect::{Reader, Refusal, info};
use super::connect_json::ConnectOptions;
use super::ends;
use super::found::Found;
use super::message_trace::{self, Asked, Trace};
use super::options::Access;
use super::route::{Reached, Route};
use super::sending::{Sending, Sent};
use super::subject;
use super::wire::{Headers, Limits, Operation, Publish, Wrong, parse, refused_for_length};
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::protocol::{Composed, Io, Session, first_line};

/// What subjects for the answers to a client's requests begin with.
const INBOX: &[u8] = b"_INBOX.";

/// To read a `CONNECT` takes as long as so many deliveries.
const CONNECT: usize = 16;

/// A client that can publish, and subscribe.
#[derive(Debug)]
pub struct Member {
    broker: Arc<Broker>,
    client: Arc<Client>,
    connect_options: ConnectOptions,
    stage: Stage,
    /// Whom its messages went to lately.
    found: Found<Subscription>,
    /// Something came since it was looked at last.
    heard: bool,
    /// It was asked whether it is there, so that the way to it is known once it answers.
    asked: bool,
    /// How often it was asked, and said nothing.
    pings_out: u32,
    /// When it was asked last, until it answers.
    pinged: Option<Instant>,
    /// The last turn in which it did something.
    active: Option<Instant>,
    /// Decides which member of a queue gets its next message: as good as by chance, and the same when repeated.
    chance: u64,
    /// It has said with whom it mostly is.
    joined: bool,
    /// It has said how it wants to be served.
    connected: bool,
    /// A `PING` behind that was answered: its library has connected, and takes an `INFO` at any time.
    settled: bool,
    /// Why it was refused.
    refused: Option<&'static str>,
    row: Option<Row>,
    /// A message that many get: its operation, and how far it has come.
    unfinished: Option<Box<(Vec<u8>, Sending)>>,
    /// Its subscriptions are taken away.
    leaves: bool,
    /// Its connection is gone, for this reason, and that is not put down yet.
    closed: Option<&'static str>,
}

/// Messages that it has published one after the other to one subject, on their way together: those who get them get
/// them alike, and are looked at once for all.
#[derive(Debug)]
struct Row {
    route: Arc<Route<Subscription>>,
    composed: Composed,
    messages: u32,
    /// Of headers and payloads.
    bytes: usize,
}

/// A row is not longer than as many messages, each to one,
const MOST_IN_ROW: usize = 4 * 1024;
/// and so many bytes.
const MOST_ROW_BYTES: usize = 64 * 1024;

impl Row {
    /// Whether another message can be put behind the others. Each subscription that is to end counts for itself.
    fn takes_more(&self) -> bool {
        let receivers = &self.route.plain;
        let fits =
            (self.messages as usize + 1) * receivers.len() <= MOST_IN_ROW && self.bytes < MOST_ROW_BYTES;
        // Seen once: whoever makes one end later says so after the row.
        fits && (self.messages > 1 || receivers.iter().all(|subscription| subscription.most().is_none()))
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has to say who it is, and nothing else is heard before.
    Unauthenticated,
    /// It can do everything.
    Member,
    /// The server stops: it can do everything for a while.
    Leaving,
}

impl Member {
    pub(super) fn new(broker: Arc<Broker>, id: ConnectionId) -> Self {
        let client = broker.client(id);
        let stage = match broker.options().access {
            Access::Everyone => Stage::Member,
            _ => Stage::Unauthenticated,
        };
        Self {
            // So that not all begin with the same member of a queue.
            chance: client.number,
            broker,
            client,
            connect_options: ConnectOptions::default(),
            stage,
            found: Found::default(),
            heard: false,
            asked: false,
            pings_out: 0,
            pinged: None,
            active: None,
            joined: false,
            connected: false,
            settled: false,
            refused: None,
            row: None,
            unfinished: None,
            leaves: false,
            closed: None,
        }
    }

    /// `first`: since it has connected.
    fn send_info(&self, first: bool, io: &mut Io<'_>) {
        let reader = Reader {
            client_id: self.client.number,
            address: self.client.address.get().copied(),
            lame_duck: self.stage == Stage::Leaving,
            connected: first,
        };
        let line = info(&self.broker.options(), self.broker.address(), reader);
        io.send(line.as_bytes());
    }

    fn perform(&mut self, operation: Operation<'_>, io: &mut Io<'_>) {
        if let Operation::Publish(message) = &operation
            && self.put_in_row(message, io)
        {
            return;
        }
        // Before whatever this one has to say.
        self.send_row(io);
        match operation {
            Operation::Connect(json) => self.connect(json, io),
            Operation::Publish(message) => match self.in_row(&message) {
                Some(as_sent) => match self.reach(message.subject, io) {
                    Reached::All(route) if route.head.is_some() => {
                        self.begin_row(&message, as_sent, route, io);
                    }
                    reached => self.publish(&message, Some(reached), io),
                },
                None => self.publish(&message, None, io),
            },
            Operation::Subscribe { subject, queue, sid } => self.subscribe(subject, queue, sid, io),
            Operation::Unsubscribe { sid, after } => {
                self.act(io);
                io.worked(self.broker.unsubscribe(&self.client, sid, after));
                self.confirm(io);
            }
            Operation::Ping => self.answer_ping(io),
            Operation::Pong => {
                if let Some(asked) = self.pinged.take() {
                    self.client.times.measured(io.now() - asked);
                }
            }
            Operation::Idle => {}
        }
    }

    /// It does something beyond keeping its connection: noted once a turn.
    #[inline]
    fn act(&mut self, io: &mut Io<'_>) {
        let now = io.now();
        if self.active != Some(now) {
            self.active = Some(now);
            self.client.times.act(now);
        }
    }

    fn connect(&mut self, json: &[u8], io: &mut Io<'_>) {
        self.act(io);
        io.worked(CONNECT);
        let outcome = {
            let mut info = self.client.info();
            let outcome = info.connect(json, &self.broker.options().access);
            self.connect_options = info.connect_options;
            outcome
        };
        match outcome {
            Ok(()) => {}
            Err(Refusal::Violation) => return self.violation(io),
            Err(Refusal::NotJson) => return self.refuse(io, "Parser Error"),
            Err(Refusal::Protocol) => return self.refuse(io, "invalid client protocol"),
            Err(Refusal::NoHeaders) => return self.refuse(io, "no responders requires headers support"),
        }
        self.client.headers.store(self.connect_options.headers, Relaxed);
        if !std::mem::replace(&mut self.connected, true) {
            // It answers the greeting.
            self.client.times.measured_since_opened(io.now());
        }
        if self.stage == Stage::Unauthenticated {
            self.stage = Stage::Member;
            io.set_alarm(Some(self.until_first_ping()));
        }
        self.confirm(io);
    }

    fn answer_ping(&mut self, io: &mut Io<'_>) {
        io.send(b"PONG\r\n");
        if self.connected && !std::mem::replace(&mut self.settled, true) {
            self.send_info_if_wanted(true, io);
        }
    }

    /// Tells it what the server is now, if it listens to that.
    fn send_info_if_wanted(&self, first: bool, io: &mut Io<'_>) {
        if self.settled && self.connect_options.protocol >= 1 {
            self.send_info(first, io);
        }
    }

    fn violation(&mut self, io: &mut Io<'_>) {
        self.broker.violations.fetch_add(1, Relaxed);
        self.refuse(io, "Authorization Violation");
    }

    /// To clients that want an answer to everything.
    fn confirm(&self, io: &mut Io<'_>) {
        if self.connect_options.verbose {
            io.send(b"+OK\r\n");
        }
    }

    fn subscribe(&mut self, subject: &[u8], queue: Option<&[u8]>, sid: &[u8], io: &mut Io<'_>) {
        self.act(io);
        if subject::tokens(subject).count() > subject::MOST_TOKENS {
            let subject = String::from_utf8_lossy(subject);
            let text = format!("Permissions Violation for Subscription to \"{subject}\", too many tokens");
            return send_error(io, &text);
        }
        match self.broker.subscribe(&self.client, subject, queue, sid) {
            Subscribed::Invalid => return send_error(io, "Invalid Subject"),
            Subscribed::TooMany => return send_error(io, "maximum subscriptions exceeded"),
            Subscribed::Before => {}
            Subscribed::Done(work) => {
                io.worked(work);
                let is_group = subject::is_literal(subject) && queue.is_none();
                if is_group && !self.joined && !subject.starts_with(INBOX) {
                    self.joined = true;
                    io.join(subject::hash(subject));
                }
            }
        }
        self.confirm(io);
    }

    /// Whom a message of this subject goes to.
    #[inline]
    fn reach(&mut self, subject: &[u8], io: &mut Io<'_>) -> Reached<Subscription> {
        let (reached, work) = self.found.take(&self.broker.index, subject);
        io.worked(work);
        reached
    }

    /// The message as it can be one of a row, if it can: its sender wants no answer.
    #[inline]
    fn in_row<'a>(&self, message: &Publish<'a>) -> Option<&'a [u8]> {
        let wants_answers = self.connect_options.verbose || self.connect_options.pedantic;
        message.as_sent.filter(|_| !wants_answers)
    }

    /// Puts a message behind the others of its row, if there is one.
    fn put_in_row(&mut self, message: &Publish<'_>, io: &mut Io<'_>) -> bool {
        if let Some(as_sent) = self.in_row(message)
            && let Some(row) = &mut self.row
            && row.route.is_current()
            && *row.route.subject == *message.subject
            && let Some(head) = row.route.head.as_ref().filter(|_| row.takes_more())
        {
            io.extend(row.composed, &[head, as_sent]);
            row.messages += 1;
            row.bytes += message.bytes();
            return true;
        }
        false
    }

    /// Keeps a message to be sent with others that follow: all who get it want it in the same words.
    fn begin_row(
        &mut self,
        message: &Publish<'_>,
        as_sent: &[u8],
        route: Arc<Route<Subscription>>,
        io: &mut Io<'_>,
    ) {
        let head = route.head.as_deref().unwrap_or_default();
        self.row = Some(Row {
            composed: io.compose(&[], &[head, as_sent]),
            messages: 1,
            bytes: message.bytes(),
            route,
        });
    }

    /// Sends the messages that were put in a row.
    fn send_row(&mut self, io: &mut Io<'_>) {
        let Some(row) = self.row.take() else { return };
        self.act(io);
        self.client.messages.add(row.messages.into());
        self.client.bytes.add(row.bytes as u64);
        let not_to = self.not_to();
        let receivers = row.route.plain.iter().filter(|subscription| {
            if not_to == Some(subscription.id) {
                return false;
            }
            let taken = subscription.take_all(row.messages, row.bytes);
            if taken != Taken::Yes {
                self.broker.over(subscription);
            }
            taken != Taken::No
        });
        io.post_to_all(row.composed, receivers.map(|subscription| subscription.id));
        self.found.keep(&self.broker.index, row.route);
    }

    /// Who does not get what it says: itself, if it does not want to.
    fn not_to(&self) -> Option<ConnectionId> {
        (!self.connect_options.echo).then_some(self.client.id)
    }

    /// Passes a message on, to whom it goes if that is known.
    fn publish(&mut self, message: &Publish<'_>, reached: Option<Reached<Subscription>>, io: &mut Io<'_>) {
        self.act(io);
        if message.headers.is_some() && !self.connect_options.headers {
            return self.refuse(io, "message headers not supported");
        }
        // Headers of no bytes are none.
        let headers = message.headers.filter(|headers| headers.bytes > 0);
        let message = &Publish { headers, ..*message };
        let bytes = message.bytes();
        if self.connect_options.pedantic && !subject::is_literal(message.subject) {
            send_error(io, "Invalid Publish Subject");
        }
        let (trace, is_only_traced) =
            match headers.map(|headers| message_trace::asked(&message.body[..headers.bytes])) {
                None | Some(Asked::Delivery) => (None, false),
                Some(Asked::Nothing) => return,
                Some(Asked::Trace(wanted)) => {
                    let is_heard = self.is_heard(wanted.destination, io);
                    let now = io.time_of_day();
                    let trace = || Trace::new(&wanted, &self.client, message.subject, bytes, now, None);
                    (is_heard.then(trace), wanted.only)
                }
            };
        self.client.messages.add(1);
        self.client.bytes.add(bytes as u64);
        self.confirm(io);
        let is_request = self.connect_options.no_responders && !message.reply.is_empty();
        if is_only_traced && trace.is_none() && !is_request {
            // Whoever it would go to, nobody hears of it.
            return;
        }
        let reached = reached.unwrap_or_else(|| self.reach(message.subject, io));
        let sending = Sending::new(reached, self.not_to()).traced(trace, is_only_traced);
        self.send(message, sending, io);
    }

    /// Whether anybody is subscribed to that.
    fn is_heard(&mut self, subject: &[u8], io: &mut Io<'_>) -> bool {
        let reached = self.reach(subject, io);
        let is_heard = !reached.is_nobody();
        self.found.put_back(&self.broker.index, reached);
        is_heard
    }

    /// A message is refused for its length, and its headers may have asked for a trace.
    fn trace_refused(&mut self, input: &[u8], io: &mut Io<'_>) {
        let Some((subject, headers, bytes)) =
            refused_for_length(input).filter(|_| self.connect_options.headers)
        else {
            return;
        };
        if let Asked::Trace(wanted) = message_trace::asked(headers)
            && self.is_heard(wanted.destination, io)
        {
            let (now, why) = (io.time_of_day(), Some(message_trace::TOO_LONG));
            let trace = Trace::new(&wanted, &self.client, subject, bytes, now, why);
            self.report(&trace, io);
        }
    }

    /// Sends where a message was traced to who wanted to know; to its sender too, whatever that says of its own
    /// messages.
    fn report(&mut self, trace: &Trace, io: &mut Io<'_>) {
        let (headers, body) = trace.report(&self.broker);
        let [written, size] = [headers, body.len() - 2].map(|length| length.to_string());
        let headers = Headers {
            written: written.as_bytes(),
            bytes: headers,
        };
        let message = Publish {
            subject: &trace.destination,
            reply: b"",
            headers: Some(headers).filter(|headers| headers.bytes > 0),
            size: size.as_bytes(),
            body: &body,
            as_sent: None,
        };
        let reached = self.reach(message.subject, io);
        self.send(&message, Sending::new(reached, None), io);
    }

    /// Sends a message to all who get it; where they are many, to the others in the next turn.
    fn send(&mut self, message: &Publish<'_>, mut sending: Sending, io: &mut Io<'_>) {
        match self.send_some(message, &mut sending, io) {
            true => self.sent(message, sending.sent(), io),
            false => self.keep(message.written(), sending, io),
        }
    }

    /// Goes on with a message that is read here.
    fn send_on(&mut self, written: Vec<u8>, mut sending: Sending, io: &mut Io<'_>) {
        // It was read before.
        let Ok(Some((Operation::Publish(message), _))) = parse(&written, Limits::NONE) else {
            return;
        };
        match self.send_some(&message, &mut sending, io) {
            true => self.sent(&message, sending.sent(), io),
            false => self.keep(written, sending, io),
        }
    }

    fn send_some(&mut self, message: &Publish<'_>, sending: &mut Sending, io: &mut Io<'_>) -> bool {
        let choose = |of| draw(&mut self.chance) % of;
        sending.go_on(message, &self.broker, choose, io)
    }

    fn keep(&mut self, written: Vec<u8>, sending: Sending, io: &mut Io<'_>) {
        self.unfinished = Some(Box::new((written, sending)));
        io.again();
    }

    /// What is to be said once all have it.
    fn sent(&mut self, message: &Publish<'_>, sent: Sent, io: &mut Io<'_>) {
        self.found.put_back(&self.broker.index, sent.reached);
        if !sent.is_delivered && self.connect_options.no_responders && !message.reply.is_empty() {
            self.send_no_responders(message, io);
        }
        if let Some(trace) = sent.trace {
            self.report(&trace, io);
        }
    }

    /// Answers a request that nobody hears, where the answer was to come.
    fn send_no_responders(&mut self, message: &Publish<'_>, io: &mut Io<'_>) {
        let reached = self.reach(message.reply, io);
        let (plain, _) = reached.known();
        let own = plain.iter().find(|it| it.id == self.client.id).map(Arc::clone);
        self.found.put_back(&self.broker.index, reached);
        let Some(own) = own else { return };
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
    fn refuse(&mut self, io: &mut Io<'_>, text: &str) {
        send_error(io, text);
        self.refused.get_or_insert(ends::refused(text));
        self.leave(io);
        io.refuse();
    }

    /// Takes its subscriptions away, and then puts down why its connection is gone, if it is; the rest in another turn,
    /// if they are many.
    fn leave(&mut self, io: &mut Io<'_>) {
        self.leaves = true;
        while let Some(work) = self.broker.leave(&self.client) {
            io.worked(work);
            if io.room() == 0 {
                return io.again();
            }
        }
        if let Some(reason) = self.closed.take() {
            self.broker.close(&self.client, reason, io.now());
        }
    }

    /// It says something wrong, and is heard no more.
    fn reject(&mut self, wrong: Wrong, io: &mut Io<'_>) {
        let text = match wrong {
            Wrong::Operation => "Unknown Protocol Operation",
            Wrong::Arguments => "Parser Error",
            Wrong::ControlLine => "maximum control line exceeded",
            Wrong::Payload => "Maximum Payload Violation",
        };
        self.refuse(io, text);
    }

    fn until_first_ping(&mut self) -> Duration {
        let options = self.broker.options();
        let least = options.first_ping.min(options.ping_interval);
        // In thousandths of a fifth.
        least + least / 5_000 * (draw(&mut self.chance) % 1_000) as u32
    }

    /// Time has passed: it is asked whether it is there, if it has not shown that itself.
    fn keep_alive(&mut self, io: &mut Io<'_>) {
        self.client.notice(io.now());
        self.found.forget_revoked();
        let heard = std::mem::take(&mut self.heard);
        if heard {
            self.pings_out = 0;
        } else if self.pings_out >= self.broker.options().max_pings_out {
            return self.refuse(io, "Stale Connection");
        }
        if !std::mem::replace(&mut self.asked, true) || !heard {
            self.pings_out += 1;
            self.pinged = Some(io.now());
            io.send(b"PING\r\n");
        }
        io.set_alarm(Some(self.broker.options().ping_interval));
    }
}

impl Session for Member {
    fn located(&mut self, client: SocketAddr) {
        let _ = self.client.address.set(client);
    }

    fn opened(&mut self, io: &mut Io<'_>) {
        self.client.times.open(io.now());
        if !self.broker.enter(&self.client) {
            return self.refuse(io, "maximum connections exceeded");
        }
        self.send_info(false, io);
        io.set_alarm(Some(match self.stage {
            Stage::Unauthenticated => self.broker.options().auth_timeout,
            _ => self.until_first_ping(),
        }));
    }

    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        self.heard = true;
        if self.stage == Stage::Unauthenticated && !input[0].eq_ignore_ascii_case(&b'C') {
            self.violation(io);
            return input.len();
        }
        match parse(input, self.broker.limits) {
            Ok(None) => 0,
            Ok(Some((operation, length))) => {
                self.perform(operation, io);
                length
            }
            Err(wrong) => {
                self.send_row(io);
                if wrong == Wrong::Payload {
                    self.trace_refused(input, io);
                }
                self.reject(wrong, io);
                input.len()
            }
        }
    }

    /// A payload may take longer than the line before it.
    fn awaits_head(&self, input: &[u8]) -> bool {
        first_line(input).is_none()
    }

    fn rested(&mut self, io: &mut Io<'_>) {
        self.send_row(io);
    }

    fn resumed(&mut self, io: &mut Io<'_>) {
        if let Some(unfinished) = self.unfinished.take() {
            let (written, sending) = *unfinished;
            self.send_on(written, sending, io);
        }
        if self.leaves && self.unfinished.is_none() {
            self.leave(io);
        }
    }

    fn ended(&mut self, io: &mut Io<'_>) {
        self.leave(io);
        io.close();
    }

    fn alarm(&mut self, io: &mut Io<'_>) {
        match self.stage {
            Stage::Unauthenticated => self.refuse(io, "Authentication Timeout"),
            Stage::Member => self.keep_alive(io),
            Stage::Leaving => io.close(),
        }
    }

    fn closed(&mut self, reason: CloseReason, io: &mut Io<'_>) {
        let reason = match reason {
            CloseReason::Refused => self.refused,
            _ => None,
        }
        .unwrap_or_else(|| ends::ended(reason));
        self.closed = Some(reason);
        self.leaves = true;
        if self.unfinished.is_none() {
            self.leave(io);
        }
    }

    fn stopping(&mut self, io: &mut Io<'_>) {
        if self.stage == Stage::Unauthenticated || self.broker.options().lame_duck.is_zero() {
            return io.close();
        }
        self.stage = Stage::Leaving;
        self.send_info_if_wanted(false, io);
        io.set_alarm(Some(self.broker.stay()));
    }
}

/// However it ends, also by a panic.
impl Drop for Member {
    fn drop(&mut self) {
        while self.broker.leave(&self.client).is_some() {}
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
fn send_error(io: &mut Io<'_>, text: &str) {
    io.send(format!("-ERR '{text}'\r\n").as_bytes());
}

#[cfg(test)]
#[path = "member_test.rs"]
pub(super) mod tests;
