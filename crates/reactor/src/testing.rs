//! Testing a protocol without a network: connections driven by the test itself, one call after the other.
//!
//! ```
//! use threadgauge_reactor::protocol::chat::Chat;
//! use threadgauge_reactor::testing::Rehearsal;
//!
//! let mut server = Rehearsal::new(Chat::default());
//! let (anna, ben) = (server.connect(), server.connect());
//! server.receive(anna, b"join room\nhello\n");
//! server.receive(ben, b"join room\nhello An"); // not a whole line yet
//! server.receive(ben, b"na\n");
//! assert_eq!(server.take_output(anna), b"joined room\nhello Anna\n");
//! ```

use std::time::{Duration, Instant, SystemTime};

use crate::clock::Clock;
use crate::connection::{Connection, Turn};
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::protocol::{Effects, Job, Protocol};
use crate::trace::Span;

/// A server without sockets, threads or clock. What is sent to a client is with it at once; steps and alarms wait for
/// the test.
///
/// A method that is given a connection panics if this rehearsal has not made it. One that is closed takes part no
/// more, whatever is done to it.
#[derive(Debug)]
pub struct Rehearsal<P: Protocol> {
    protocol: P,
    clients: Vec<Client<P::Session>>,
    effects: Effects,
    steps: Vec<Step>,
    undeliverable: u64,
    now: Instant,
    day: SystemTime,
}

#[derive(Debug)]
struct Client<S> {
    /// `None` once it is closed.
    connection: Option<Connection<S>>,
    output: Vec<u8>,
    alarm: Option<Duration>,
    closed: Option<CloseReason>,
}

/// An offloaded step and the connection it answers to.
struct Step(ConnectionId, Job);

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Step").field(&self.0).finish_non_exhaustive()
    }
}

impl<P: Protocol> Rehearsal<P> {
    /// A server with no clients yet.
    pub fn new(protocol: P) -> Self {
        Self {
            protocol,
            clients: Vec::new(),
            effects: Effects::default(),
            steps: Vec::new(),
            undeliverable: 0,
            now: Instant::now(),
            day: SystemTime::UNIX_EPOCH,
        }
    }

    /// What time it is here: a time goes by only when the test says so. The time of day begins with 1970.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// So much time goes by. No alarm goes off.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.day += time;
    }

    /// A client connects.
    pub fn connect(&mut self) -> ConnectionId {
        let slot = u32::try_from(self.clients.len()).expect("fewer than 2³² clients");
        let id = ConnectionId::new(0, 0, slot);
        let mut output = Vec::new();
        let mut turn = Turn {
            output: &mut output,
            full_at: usize::MAX,
            effects: &mut self.effects,
            clock: &mut Clock::at(self.now).of_day(self.day),
        };
        let connection = Connection::open(&self.protocol, id, Span::none(), None, &mut turn);
        self.clients.push(Client {
            connection: Some(connection),
            output,
            alarm: None,
            closed: None,
        });
        self.settle(id);
        id
    }

    /// Bytes come from a client. Where that makes much to do, all of it is done.
    pub fn receive(&mut self, client: ConnectionId, bytes: &[u8]) {
        self.call(client, |connection, turn| connection.received(bytes, turn));
    }

    /// Bytes come from a client, and its session has one turn. Whether it has more to do: then it [goes
    /// on](Self::go_on) before anything else is received from the client.
    pub fn receive_for_a_turn(&mut self, client: ConnectionId, bytes: &[u8]) -> bool {
        self.turn(client, |connection, turn| connection.received(bytes, turn))
    }

    /// A session that has more to do has another turn. Whether it has more still.
    pub fn go_on(&mut self, client: ConnectionId) -> bool {
        self.turn(client, Connection::resume)
    }

    /// A client sends no more, and still reads.
    pub fn end(&mut self, client: ConnectionId) {
        self.call(client, Connection::ended);
    }

    /// A client is gone.
    pub fn lose(&mut self, client: ConnectionId) {
        self.call(client, |connection, _| connection.end(CloseReason::Lost));
    }

    /// The alarm that a session has set goes off, its time after now; nothing happens if it has set none.
    pub fn ring(&mut self, client: ConnectionId) {
        if let Some(time) = self.client(client).alarm.take() {
            self.pass(time);
            self.call(client, Connection::alarm);
        }
    }

    /// The server is told to stop.
    pub fn stop(&mut self) {
        for slot in 0..self.clients.len() {
            self.call(ConnectionId::new(0, 0, slot as u32), Connection::stop);
        }
    }

    /// How many offloaded steps wait to be done.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Does an offloaded step: the oldest with 0, the one after it with 1. The order of the others stays.
    ///
    /// # Panics
    ///
    /// If so many are not waiting, or the step itself panics.
    pub fn finish_step(&mut self, place: usize) {
        let Step(client, job) = self.steps.remove(place);
        let answer = job();
        self.call(client, |connection, turn| {
            connection.answered(Some(&answer), turn);
        });
    }

    /// What was sent to a client since the last call of this.
    pub fn take_output(&mut self, client: ConnectionId) -> Vec<u8> {
        std::mem::take(&mut self.client(client).output)
    }

    /// How long after it was set the alarm of a session goes off, if one is set.
    pub fn alarm(&mut self, client: ConnectionId) -> Option<Duration> {
        self.client(client).alarm
    }

    /// Why a connection was closed, if it was.
    pub fn closed(&mut self, client: ConnectionId) -> Option<CloseReason> {
        self.client(client).closed
    }

    /// How many messages were for connections that were gone.
    pub fn undeliverable(&self) -> u64 {
        self.undeliverable
    }

    fn client(&mut self, id: ConnectionId) -> &mut Client<P::Session> {
        &mut self.clients[id.slot() as usize]
    }

    fn call(&mut self, id: ConnectionId, call: impl FnOnce(&mut Connection<P::Session>, &mut Turn<'_>)) {
        let mut has_more = self.turn(id, call);
        while has_more {
            has_more = self.go_on(id);
        }
    }

    fn turn(
        &mut self,
        id: ConnectionId,
        call: impl FnOnce(&mut Connection<P::Session>, &mut Turn<'_>),
    ) -> bool {
        let client = &mut self.clients[id.slot() as usize];
        let Some(connection) = &mut client.connection else {
            return false;
        };
        let mut turn = Turn {
            output: &mut client.output,
            full_at: usize::MAX,
            effects: &mut self.effects,
            clock: &mut Clock::at(self.now).of_day(self.day),
        };
        call(connection, &mut turn);
        let has_more = connection.is_interrupted();
        self.settle(id);
        has_more
    }

    /// Does what a session has asked for.
    fn settle(&mut self, id: ConnectionId) {
        self.steps
            .extend(self.effects.jobs.drain(..).map(|job| Step(id, job)));
        self.deliver();
        let client = &mut self.clients[id.slot() as usize];
        let Some(connection) = &mut client.connection else {
            return;
        };
        if let Some(alarm) = connection.take_alarm() {
            client.alarm = alarm;
        }
        let over = connection
            .ending()
            .is_some_and(|reason| reason.is_abrupt() || connection.is_answered());
        if over && let Some(mut connection) = client.connection.take() {
            client.alarm = None;
            let (reason, mut leftover) = connection
                .close(&mut self.effects)
                .expect("it was not closed before");
            client.closed = Some(reason);
            self.deliver();
            while let Some(left) = leftover {
                leftover = left.resume(&mut self.effects);
                self.deliver();
            }
        }
    }

    fn deliver(&mut self) {
        for (receivers, _, parts) in self.effects.messages.iter() {
            for &to in receivers {
                match self.clients.get_mut(to.slot() as usize) {
                    Some(client) if client.connection.as_ref().is_some_and(|it| it.ending().is_none()) => {
                        parts.append_to(&mut client.output);
                    }
                    _ => self.undeliverable += u64::from(parts.messages),
                }
            }
        }
        self.effects.clear_messages();
    }
}

/// Feeds `input` to one client of a new server as a whole, and to one of another cut at `cuts` (modulo its length),
/// each beside a client that has sent `other` before; then the client ends, and the steps are done in order.
///
/// # Panics
///
/// If the two differ in what a client is sent or in why a connection is closed: then the protocol depends on how its
/// bytes happen to come.
pub fn split_anywhere<P: Protocol>(make: impl Fn() -> P, other: &[u8], input: &[u8], cuts: &[usize]) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    cuts.extend([0, input.len()]);
    cuts.sort_unstable();
    let outcome = |cuts: &[usize]| {
        let mut server = Rehearsal::new(make());
        let clients = [server.connect(), server.connect()];
        for (&client, bytes) in clients.iter().zip([other, b""]) {
            server.receive_some(client, bytes);
        }
        for piece in cuts.windows(2) {
            server.receive_some(clients[1], &input[piece[0]..piece[1]]);
        }
        server.end(clients[1]);
        while server.steps() > 0 {
            server.finish_step(0);
        }
        clients.map(|client| {
            let output = String::from_utf8_lossy(&server.take_output(client)).into_owned();
            (output, server.closed(client))
        })
    };
    assert_eq!(
        outcome(&cuts),
        outcome(&[0, input.len()]),
        "cut at {cuts:?} and whole differ for {:?}",
        String::from_utf8_lossy(input)
    );
}

/// [`split_anywhere`], told by a fuzzer: the first byte of `told` says how many of the next (up to 15) are cuts, and
/// the rest is what the client sends.
///
/// # Panics
///
/// As [`split_anywhere`].
pub fn split_as_told<P: Protocol>(make: impl Fn() -> P, other: &[u8], told: &[u8]) {
    let Some((&count, told)) = told.split_first() else {
        return;
    };
    let (cuts, input) = told.split_at(told.len().min(usize::from(count % 16)));
    let cuts: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut)).collect();
    split_anywhere(make, other, input, &cuts);
}

impl<P: Protocol> Rehearsal<P> {
    /// A receive of nothing would be the end.
    fn receive_some(&mut self, client: ConnectionId, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.receive(client, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Io, Session};

    /// Counts what is called as one message, so that it depends on how bytes come; and calls back after a second.
    struct Broken;

    impl Protocol for Broken {
        type Session = Broken;

        fn open(&self, _: ConnectionId) -> Broken {
            Broken
        }
    }

    impl Session for Broken {
        fn opened(&mut self, io: &mut Io<'_>) {
            io.set_alarm(Some(Duration::from_secs(1)));
        }

        fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
            io.send(b".");
            input.len()
        }

        fn alarm(&mut self, io: &mut Io<'_>) {
            io.send(b"!");
        }
    }

    #[test]
    #[should_panic(expected = "cut at [0, 1, 2] and whole differ for \"ab\"")]
    fn a_protocol_that_depends_on_the_pieces_is_found_out() {
        split_anywhere(|| Broken, b"", b"ab", &[1]);
    }

    #[test]
    #[should_panic(expected = "cut at [0, 1, 2] and whole differ for \"ab\"")]
    fn a_fuzzer_says_where_it_is_cut() {
        // Sixteen cuts are none, and seventeen one.
        split_as_told(|| Broken, b"", &[17, 1, b'a', b'b']);
    }

    #[test]
    fn who_has_no_more_to_do_says_so_after_a_turn() {
        let mut server = Rehearsal::new(Broken);
        let client = server.connect();
        assert!(!server.receive_for_a_turn(client, b"ab"));
        assert_eq!(server.take_output(client), b".");
    }

    #[test]
    fn an_alarm_goes_off_once_and_a_stop_ends_all() {
        let mut server = Rehearsal::new(Broken);
        let client = server.connect();
        assert_eq!(server.alarm(client), Some(Duration::from_secs(1)));
        server.ring(client);
        server.ring(client);
        assert_eq!(server.take_output(client), b"!");
        server.stop();
        assert_eq!(server.closed(client), Some(CloseReason::Stopped));
    }
}
