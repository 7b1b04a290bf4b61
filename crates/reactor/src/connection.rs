//! One connection without its socket: a session, the input it has not used, and how far its end has come.
//!
//! Every design drives its connections through this one place, so that they agree in what a protocol sees. The design
//! reads and writes the socket, keeps the time, and does what [`Effects`] ask.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::clock::Clock;
use crate::contain::contain;
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::listen::client_of;
use crate::protocol::{Asked, Effects, End, Io, Protocol, Session};
use crate::serving::Serving;
use crate::trace::Span;

/// The most bytes that a design receives at once.
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024;
/// Unused input has not much more room than it needs, if that is more than this.
const KEPT_BYTES: usize = 4 * 1024;
/// The most offloaded steps of one connection at a time; its further input waits.
const MOST_JOBS: usize = 64;

/// Where a call into a session puts what it asks for.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    /// For the own client: appended to.
    pub output: &'a mut Vec<u8>,
    /// The length of `output` from which on the client has too much waiting, and its further input is held.
    pub full_at: usize,
    /// For everyone else.
    pub effects: &'a mut Effects,
    /// The time, once somebody has asked for it.
    pub clock: &'a mut Clock,
}

/// A session and what surrounds it.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    id: ConnectionId,
    /// `None` once it is closed, or if it could not begin.
    session: Option<S>,
    max_frame: usize,
    /// What has come and was not used yet.
    input: Vec<u8>,
    /// `input` is a part of a head.
    in_head: bool,
    /// `input` waits for the client to take its output, or for steps to answer.
    held: bool,
    /// It waits only until the others had their turn.
    interrupted: bool,
    /// The session is to be called again.
    unfinished: bool,
    /// The client sends no more.
    peer_ended: bool,
    /// The session knows that the client sends no more.
    told_ended: bool,
    asked: Asked,
    /// Offloaded steps that have not answered.
    jobs: usize,
    /// Messages used.
    messages: u64,
    /// Why it ends, once that is decided.
    reason: Option<CloseReason>,
    /// The server stops.
    stopped: bool,
    /// The session was told that the connection is gone.
    closed: bool,
    span: Span,
}

impl<S: Session> Connection<S> {
    /// A client of this server has connected, by this socket.
    pub fn open_on<P: Protocol<Session = S>>(
        serving: &Serving<P>,
        id: ConnectionId,
        socket: impl AsFd,
        turn: &mut Turn<'_>,
    ) -> Self {
        let address = P::LOCATED.then(|| client_of(&socket)).flatten();
        Self::open(&*serving.protocol, id, serving.span(id, socket), address, turn)
    }

    /// A client has connected, from this address if that is known.
    pub fn open<P: Protocol<Session = S>>(
        protocol: &P,
        id: ConnectionId,
        span: Span,
        address: Option<SocketAddr>,
        turn: &mut Turn<'_>,
    ) -> Self {
        // Apart, so that a session is not dropped by a panic.
        let (session, max_frame) = (contain(|| protocol.open(id)), contain(|| protocol.max_frame()));
        let has_begun = session.is_some() && max_frame.is_some();
        let mut connection = Self::new(id, session, max_frame.unwrap_or(0), span);
        if has_begun {
            connection.call(turn, |session, io| {
                if let Some(address) = address {
                    session.located(address);
                }
                session.opened(io);
            });
        } else {
            connection.reason = Some(CloseReason::Panicked);
        }
        connection
    }

    fn new(id: ConnectionId, session: Option<S>, max_frame: usize, span: Span) -> Self {
        Self {
            id,
            session,
            max_frame,
            input: Vec::new(),
            in_head: false,
            held: false,
            interrupted: false,
            unfinished: false,
            peer_ended: false,
            told_ended: false,
            asked: Asked::default(),
            jobs: 0,
            messages: 0,
            reason: None,
            stopped: false,
            closed: false,
            span,
        }
    }

    /// Its name.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// How many messages the session has used.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Whether a head is waited for: the first of all, or one that has begun.
    pub fn awaits_head(&self) -> bool {
        let is_new = self.messages == 0 && self.input.is_empty();
        self.wants_input() && (is_new || self.in_head)
    }

    /// Whether more should be read from the client now.
    pub fn wants_input(&self) -> bool {
        !self.held && !self.peer_ended && self.reason.is_none()
    }

    /// Whether input is held until the client has taken output or a step has answered: then
    /// [`resume`](Self::resume) goes on.
    pub fn is_held(&self) -> bool {
        self.held && !self.interrupted
    }

    /// Whether the server itself lets nothing come from the client: not because that has ended.
    pub fn refuses_input(&self) -> bool {
        self.held || self.reason.is_some()
    }

    /// Whether there was much to do, and more is: once what there is for others is delivered, and they had their turn,
    /// [`resume`](Self::resume) goes on. Also where the connection ends: what a session has begun, it finishes.
    pub fn is_interrupted(&self) -> bool {
        self.unfinished || (self.interrupted && self.reason.is_none())
    }

    /// Why it ends, if it does. It is over once its output is sent and [`is_answered`](Self::is_answered); at once
    /// where the reason is [abrupt](CloseReason::is_abrupt).
    pub fn ending(&self) -> Option<CloseReason> {
        self.reason
    }

    /// Whether every offloaded step has answered, and the session has finished what it has begun.
    pub fn is_answered(&self) -> bool {
        self.jobs == 0 && !self.unfinished
    }

    /// The alarm asked for since the last call of this: `Some(None)` takes it back.
    pub fn take_alarm(&mut self) -> Option<Option<Duration>> {
        self.asked.alarm.take()
    }

    /// The group joined since the last call of this.
    pub fn take_group(&mut self) -> Option<u64> {
        self.asked.group.take()
    }

    /// Whether the client may be sending still, now or later: it has not ended.
    pub fn may_be_sending(&self) -> bool {
        !self.peer_ended
    }

    /// Whether the server stops.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Bytes have come from the client.
    pub fn received(&mut self, bytes: &[u8], turn: &mut Turn<'_>) {
        self.span.received(bytes.len());
        if self.reason.is_some() {
            return;
        }
        if self.input.is_empty() {
            let used = self.pump(bytes, turn);
            self.input.extend_from_slice(&bytes[used..]);
        } else {
            self.input.extend_from_slice(bytes);
            self.pump_kept(turn);
        }
        self.check_frame();
        self.note_head(turn);
    }

    /// Goes on with what the session has begun, and with held input: output was taken, a step has answered, or the
    /// others had their turn.
    pub fn resume(&mut self, turn: &mut Turn<'_>) {
        if std::mem::take(&mut self.unfinished) {
            turn.effects.begin();
            self.call(turn, |session, io| session.resumed(io));
        }
        if !self.held || self.unfinished || self.reason.is_some() {
            return;
        }
        (self.held, self.interrupted) = (false, false);
        self.pump_kept(turn);
        self.check_frame();
        self.note_head(turn);
        self.tell_ended(turn);
    }

    /// The client sends no more.
    pub fn ended(&mut self, turn: &mut Turn<'_>) {
        self.peer_ended = true;
        self.tell_ended(turn);
    }

    /// The alarm has gone off.
    pub fn alarm(&mut self, turn: &mut Turn<'_>) {
        if self.reason.is_none() {
            self.call(turn, |session, io| session.alarm(io));
        }
    }

    /// An offloaded step has answered; `None`: it panicked.
    pub fn answered(&mut self, bytes: Option<&[u8]>, turn: &mut Turn<'_>) {
        self.jobs -= 1;
        match bytes {
            Some(bytes) => {
                self.span.sent(bytes.len());
                turn.output.extend_from_slice(bytes);
            }
            None => self.end(CloseReason::Panicked),
        }
        self.resume(turn);
    }

    /// The server is stopping.
    pub fn stop(&mut self, turn: &mut Turn<'_>) {
        self.stopped = true;
        if self.reason.is_none() {
            self.call(turn, |session, io| session.stopping(io));
            if self.reason == Some(CloseReason::Finished) {
                self.reason = Some(CloseReason::Stopped);
            }
        }
    }

    /// It ends for a reason of the design's: unless it was ending already, or the new reason is abrupt.
    pub fn end(&mut self, reason: CloseReason) {
        if self.reason.is_none() || reason.is_abrupt() {
            self.reason = Some(reason);
        }
    }

    /// The connection is gone: the session hears it, and is dropped. The reason to count, what the session asks for
    /// others in `effects`, and what it has to do still, if that is much; `None` if that was done before.
    pub fn close(&mut self, effects: &mut Effects) -> Option<(CloseReason, Option<Leftover<S>>)> {
        if std::mem::replace(&mut self.closed, true) {
            return None;
        }
        self.input = Vec::new();
        let mut reason = self.reason.unwrap_or(CloseReason::Lost);
        if reason != CloseReason::Panicked
            && self
                .call_gone(effects, |session, io| session.closed(reason, io))
                .is_none()
        {
            reason = CloseReason::Panicked;
        }
        if !self.unfinished && self.drop_session().is_none() {
            reason = CloseReason::Panicked;
        }
        self.span.closed(reason, self.messages);
        self.reason = Some(reason);
        Some((reason, self.leftover()))
    }

    /// Calls the session when the client is gone, which hears nothing. `None`: it panicked.
    fn call_gone(&mut self, effects: &mut Effects, call: impl FnOnce(&mut S, &mut Io<'_>)) -> Option<()> {
        effects.begin();
        let mut turn = Turn {
            output: &mut Vec::new(),
            full_at: usize::MAX,
            effects,
            clock: &mut Clock::default(),
        };
        let called = self.call(&mut turn, call);
        effects.forget_jobs();
        called
    }

    fn leftover(&mut self) -> Option<Leftover<S>> {
        std::mem::take(&mut self.unfinished).then(|| {
            let span = std::mem::replace(&mut self.span, Span::none());
            let mut left = Self::new(self.id, self.session.take(), 0, span);
            left.unfinished = true;
            Leftover(Box::new(left))
        })
    }

    fn pump_kept(&mut self, turn: &mut Turn<'_>) {
        let mut input = std::mem::take(&mut self.input);
        let used = self.pump(&input, turn);
        input.drain(..used);
        if !input.is_empty() {
            // It may rest for long: not in the room of all that came before.
            if input.capacity() > KEPT_BYTES {
                input.shrink_to(KEPT_BYTES);
            }
            self.input = input;
        }
    }

    /// Has the session use what it can of `input`, and says how much that was.
    fn pump(&mut self, input: &[u8], turn: &mut Turn<'_>) -> usize {
        turn.effects.begin();
        let used = self.use_all(input, turn);
        if used > 0 && self.reason != Some(CloseReason::Panicked) {
            self.call(turn, |session, io| session.rested(io));
        }
        used
    }

    fn use_all(&mut self, input: &[u8], turn: &mut Turn<'_>) -> usize {
        let mut used = 0;
        while used < input.len() && self.reason.is_none() && !self.unfinished {
            if turn.output.len() >= turn.full_at || self.jobs >= MOST_JOBS {
                self.held = true;
                break;
            }
            if turn.effects.are_many() {
                (self.held, self.interrupted) = (true, true);
                break;
            }
            // No more than a frame, so that what is too long does not depend on how the bytes came.
            let rest = &input[used..];
            let rest = &rest[..rest.len().min(self.max_frame)];
            let received = self.call(turn, |session, io| {
                let count = session.received(rest, io);
                assert!(
                    count <= rest.len(),
                    "a session used {count} of {} bytes",
                    rest.len()
                );
                count
            });
            let Some(count) = received else {
                break;
            };
            if count == 0 {
                break;
            }
            used += count;
            self.messages += 1;
        }
        used
    }

    /// Asks the session what it waits for, where it has begun to come.
    fn note_head(&mut self, turn: &mut Turn<'_>) {
        self.in_head = false;
        if self.input.is_empty() || self.held || self.reason.is_some() {
            return;
        }
        let input = std::mem::take(&mut self.input);
        let part = &input[..input.len().min(self.max_frame)];
        self.in_head = self.call(turn, |session, _| session.awaits_head(part)) == Some(true);
        self.input = input;
    }

    fn check_frame(&mut self) {
        if !self.held && self.reason.is_none() && self.input.len() > self.max_frame {
            self.reason = Some(CloseReason::TooLong);
        }
    }

    /// The session hears of the client's end after it has used what came before.
    fn tell_ended(&mut self, turn: &mut Turn<'_>) {
        if self.peer_ended && !self.told_ended && !self.held && self.reason.is_none() {
            self.told_ended = true;
            self.call(turn, |session, io| session.ended(io));
            if self.reason == Some(CloseReason::Finished) {
                self.reason = Some(CloseReason::PeerEnded);
            }
        }
    }

    /// Calls the session, and takes note of what it asks for its own connection. `None`: it panicked.
    fn call<R>(&mut self, turn: &mut Turn<'_>, call: impl FnOnce(&mut S, &mut Io<'_>) -> R) -> Option<R> {
        let session = self.session.as_mut()?;
        let (jobs_before, sent_before) = (turn.effects.jobs.len(), turn.output.len());
        let mut io = Io {
            id: self.id,
            output: turn.output,
            asked: &mut self.asked,
            effects: turn.effects,
            clock: turn.clock,
        };
        // A session that has panicked is never called again, so nobody sees it half changed.
        let result = {
            let _within = self.span.enter();
            contain(|| call(session, &mut io))
        };
        self.span.sent(turn.output.len().saturating_sub(sent_before));
        self.jobs += turn.effects.jobs.len() - jobs_before;
        let asked = match self.asked.end {
            End::Open => None,
            End::Close => Some(CloseReason::Finished),
            End::Refuse => Some(CloseReason::Refused),
        };
        self.reason = self.reason.or(asked);
        self.unfinished |= std::mem::take(&mut self.asked.again);
        if result.is_none() {
            self.reason = Some(CloseReason::Panicked);
            self.unfinished = false;
        }
        if self.unfinished {
            (self.held, self.interrupted) = (true, true);
        }
        result
    }
}

impl<S> Connection<S> {
    /// `None`: it panicked.
    fn drop_session(&mut self) -> Option<()> {
        let session = self.session.take();
        contain(|| drop(session))
    }
}

/// What a session has to do still though its client is gone: in turns, like all that is much.
#[derive(Debug)]
pub(crate) struct Leftover<S>(Box<Connection<S>>);

impl<S: Session> Leftover<S> {
    /// Whose it is.
    pub fn id(&self) -> ConnectionId {
        self.0.id
    }

    /// Goes on with it, and says what is left then.
    pub fn resume(mut self, effects: &mut Effects) -> Option<Self> {
        self.0.unfinished = false;
        self.0.call_gone(effects, |session, io| session.resumed(io));
        self.0.unfinished.then_some(self)
    }
}

/// For connections that were not closed: those of a server that an error ends.
impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.drop_session();
    }
}

#[cfg(test)]
impl<S: Session> Connection<S> {
    /// One without a client.
    pub fn of<P: Protocol<Session = S>>(protocol: &P) -> Self {
        let mut turn = Turn {
            output: &mut Vec::new(),
            full_at: usize::MAX,
            effects: &mut Effects::default(),
            clock: &mut Clock::default(),
        };
        Self::open(
            protocol,
            ConnectionId::new(0, 0, 0),
            Span::none(),
            None,
            &mut turn,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line but the last word of a session comes back, in capitals.
    #[derive(Debug, Default)]
    struct Lines {
        log: Vec<&'static str>,
        /// Counted down, a number in a turn.
        counts: u32,
    }

    struct LinesProtocol;

    impl Protocol for LinesProtocol {
        type Session = Lines;
        const MAX_FRAME: usize = 16;
        fn open(&self, _: ConnectionId) -> Lines {
            Lines::default()
        }
    }

    impl Session for Lines {
        fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
            let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
                return 0;
            };
            match &input[..end] {
                b"quit" => io.close(),
                b"panic" => panic!("asked to"),
                b"tell" => io.send_to_all((1..=1_000).map(|slot| ConnectionId::new(0, 0, slot)), b"x"),
                b"slow" => io.offload(|| b"done\n".to_vec()),
                b"count" => {
                    self.counts = 3;
                    self.resumed(io);
                }
                line => io.send(&line.to_ascii_uppercase()),
            }
            end + 1
        }

        fn resumed(&mut self, io: &mut Io<'_>) {
            io.send(self.counts.to_string().as_bytes());
            self.counts -= 1;
            if self.counts > 0 {
                io.again();
            }
        }

        fn ended(&mut self, io: &mut Io<'_>) {
            self.log.push("ended");
            io.send(b"bye");
            io.close();
        }
    }

    /// A connection with its surroundings.
    struct Bench {
        connection: Connection<Lines>,
        output: Vec<u8>,
        effects: Effects,
        full_at: usize,
    }

    impl Bench {
        fn new() -> Self {
            let (mut output, mut effects) = (Vec::new(), Effects::default());
            let mut turn = Turn {
                output: &mut output,
                full_at: usize::MAX,
                effects: &mut effects,
                clock: &mut Clock::default(),
            };
            let connection = Connection::open(
                &LinesProtocol,
                ConnectionId::new(0, 0, 0),
                Span::none(),
                None,
                &mut turn,
            );
            Self {
                connection,
                output,
                effects,
                full_at: usize::MAX,
            }
        }

        fn turn(&mut self, call: impl FnOnce(&mut Connection<Lines>, &mut Turn<'_>)) -> String {
            let mut turn = Turn {
                output: &mut self.output,
                full_at: self.full_at,
                effects: &mut self.effects,
                clock: &mut Clock::default(),
            };
            call(&mut self.connection, &mut turn);
            String::from_utf8_lossy(&self.output).into_owned()
        }

        fn received(&mut self, bytes: &[u8]) -> String {
            self.turn(|connection, turn| connection.received(bytes, turn))
        }
    }

    #[test]
    fn bytes_split_at_every_place_give_the_same() {
        let input = b"one\ntwo\n\nthree\nquit\nnot used\n";
        for split in 0..input.len() {
            let mut bench = Bench::new();
            for part in [&input[..split], &input[split..]] {
                if !part.is_empty() {
                    bench.received(part);
                }
            }
            assert_eq!(bench.output, b"ONETWOTHREE", "split at {split}");
            assert_eq!(bench.connection.ending(), Some(CloseReason::Finished));
            assert_eq!(bench.connection.messages(), 5);
        }
    }

    #[test]
    fn what_is_not_used_yet_does_not_keep_the_room_of_all_that_came() {
        let mut bench = Bench::new();
        bench.full_at = 1;
        bench.received(b"one\n");
        bench.received("two\n".repeat(16_384).as_bytes());
        assert!(bench.connection.refuses_input());
        bench.full_at = usize::MAX;
        bench.turn(Connection::resume);
        bench.received(b"thr");
        assert_eq!(bench.connection.input, b"thr");
        assert!(bench.connection.input.capacity() <= KEPT_BYTES);
        let part = ["two\n".repeat(16_384).as_bytes(), b"thr"].concat();
        bench.received(&part[..1]);
        bench.received(&part[1..]);
        assert_eq!(bench.connection.input, b"thr");
        assert!(bench.connection.input.capacity() <= KEPT_BYTES);
    }

    #[test]
    fn a_frame_without_end_is_too_long() {
        let mut bench = Bench::new();
        bench.received(&[b'x'; 16]);
        assert!(bench.connection.wants_input());
        bench.received(b"x");
        assert_eq!(bench.connection.ending(), Some(CloseReason::TooLong));
    }

    #[test]
    fn a_frame_may_be_as_long_as_it_may_and_no_longer_however_it_comes() {
        let (fits, too_long) = (
            [&[b'x'; 15][..], b"\n"].concat(),
            [&[b'x'; 16][..], b"\n"].concat(),
        );
        for (frame, ending) in [(fits, None), (too_long, Some(CloseReason::TooLong))] {
            for split in 1..=frame.len() {
                let mut bench = Bench::new();
                bench.received(&frame[..split]);
                if split < frame.len() {
                    bench.received(&frame[split..]);
                }
                assert_eq!(
                    bench.connection.ending(),
                    ending,
                    "{} split at {split}",
                    frame.len()
                );
            }
        }
    }

    #[test]
    fn a_head_is_waited_for_until_it_is_whole_and_not_while_input_is_held() {
        let mut bench = Bench::new();
        assert!(bench.connection.awaits_head(), "the first");
        for (bytes, awaits_head) in [("o", true), ("ne\n", false), ("two\nthr", true), ("ee\n", false)] {
            bench.received(bytes.as_bytes());
            assert_eq!(bench.connection.awaits_head(), awaits_head, "{bytes:?}");
        }
        bench.full_at = 2;
        bench.received(b"four\nfi");
        assert!(!bench.connection.awaits_head(), "it cannot be used");
        bench.full_at = usize::MAX;
        bench.turn(|connection, turn| connection.resume(turn));
        assert!(bench.connection.awaits_head());
        bench.turn(|connection, turn| connection.ended(turn));
        assert!(!bench.connection.awaits_head(), "it will never come");
    }

    #[test]
    fn input_is_held_while_the_client_takes_nothing() {
        let mut bench = Bench::new();
        bench.full_at = 2;
        assert_eq!(
            bench.received(b"one\ntwo\nand a very long one without its end"),
            "ONE"
        );
        assert!(bench.connection.is_held() && !bench.connection.wants_input());
        // The end is heard after what came before it.
        assert_eq!(bench.turn(|connection, turn| connection.ended(turn)), "ONE");
        bench.output.clear();
        assert_eq!(bench.turn(|connection, turn| connection.resume(turn)), "TWO");
        assert!(bench.connection.is_held());
    }

    #[test]
    fn the_end_comes_after_the_input() {
        let mut bench = Bench::new();
        bench.full_at = 2;
        bench.received(b"one\ntwo\n");
        bench.turn(|connection, turn| connection.ended(turn));
        bench.full_at = usize::MAX;
        assert_eq!(
            bench.turn(|connection, turn| connection.resume(turn)),
            "ONETWObye"
        );
        let session = bench.connection.session.as_ref().expect("it is open");
        assert_eq!(session.log, ["ended"]);
        assert_eq!(bench.connection.ending(), Some(CloseReason::PeerEnded));
    }

    #[test]
    fn a_closing_connection_waits_for_its_steps() {
        let mut bench = Bench::new();
        bench.received(b"slow\nquit\n");
        assert!(!bench.connection.is_answered());
        let step = bench.effects.jobs.pop().expect("one step")();
        bench.turn(|connection, turn| connection.answered(Some(&step), turn));
        assert_eq!(bench.output, b"done\n");
        assert!(bench.connection.is_answered());
    }

    #[test]
    fn steps_are_bounded() {
        let mut bench = Bench::new();
        bench.received(&b"slow\n".repeat(MOST_JOBS + 1));
        assert_eq!(bench.effects.jobs.len(), MOST_JOBS);
        assert!(bench.connection.is_held());
        bench.effects.jobs.clear();
        bench.turn(|connection, turn| connection.answered(Some(b""), turn));
        assert_eq!(bench.effects.jobs.len(), 1);
        assert!(bench.connection.wants_input());
    }

    #[test]
    fn who_says_much_to_many_is_interrupted_until_it_is_delivered() {
        let mut bench = Bench::new();
        bench.received(&b"tell\n".repeat(8));
        for delivered in [5_000, 3_000] {
            assert_eq!(bench.effects.messages.len(), delivered);
            assert_eq!(bench.connection.is_interrupted(), delivered == 5_000);
            bench.effects.clear_messages();
            bench.turn(|connection, turn| connection.resume(turn));
        }
        assert!(bench.connection.wants_input());
        assert_eq!(bench.connection.messages(), 8);
    }

    #[test]
    fn a_panic_ends_one_connection() {
        let mut bench = Bench::new();
        bench.received(b"one\npanic\ntwo\n");
        assert_eq!(bench.connection.ending(), Some(CloseReason::Panicked));
        let closed = bench.connection.close(&mut bench.effects);
        assert_eq!(closed.expect("the first time").0, CloseReason::Panicked);
        assert!(bench.connection.close(&mut bench.effects).is_none());
    }

    #[test]
    fn what_is_begun_is_finished_before_anything_else_is_used() {
        let mut bench = Bench::new();
        assert_eq!(bench.received(b"count\ntwo\n"), "3");
        assert!(bench.connection.is_interrupted() && !bench.connection.wants_input());
        // The end is heard after all that, and a stop at once.
        assert_eq!(bench.turn(|connection, turn| connection.ended(turn)), "3");
        for (output, is_interrupted) in [("32", true), ("321TWObye", false)] {
            assert_eq!(bench.turn(|connection, turn| connection.resume(turn)), output);
            assert_eq!(bench.connection.is_interrupted(), is_interrupted);
        }
        assert_eq!(bench.connection.ending(), Some(CloseReason::PeerEnded));
    }

    #[test]
    fn a_closing_connection_waits_for_what_is_begun() {
        let mut bench = Bench::new();
        bench.received(b"count\n");
        bench.turn(|connection, turn| connection.stop(turn));
        assert_eq!(bench.connection.ending(), Some(CloseReason::Stopped));
        for is_answered in [false, true] {
            bench.turn(|connection, turn| connection.resume(turn));
            assert_eq!(bench.connection.is_answered(), is_answered);
        }
        assert_eq!(bench.output, b"321");
        assert!(!bench.connection.is_interrupted());
    }

    #[test]
    fn a_lost_connection_leaves_what_is_begun() {
        let mut bench = Bench::new();
        bench.received(b"count\n");
        bench.connection.end(CloseReason::Lost);
        let closed = bench.connection.close(&mut bench.effects);
        let (reason, mut leftover) = closed.expect("the first time");
        assert!(!bench.connection.is_interrupted(), "that is another's");
        assert_eq!(reason, CloseReason::Lost);
        let mut turns = 0;
        while let Some(left) = leftover {
            leftover = left.resume(&mut bench.effects);
            turns += 1;
        }
        assert_eq!(turns, 2);
        assert_eq!(bench.output, b"3", "nobody hears the rest");
    }
}
