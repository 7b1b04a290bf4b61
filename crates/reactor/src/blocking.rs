//! Connections served by a thread that has nothing else to do: what the designs without event loops have in common.
//!
//! A [`Worker`] serves one connection after the other, each to its end, and blocks where there is nothing to do. What
//! it needs for that it allocates once. Where no time limit is set it blocks in `recv` itself, as a plain C program
//! would, and relies on [`Halt`] to be woken; otherwise in `poll`.
//!
//! Steps that may block ([`Io::offload`](crate::Io::offload)) are done by the worker itself, in order: it has nobody
//! else who would wait.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, Shutdown};

use crate::connection::{Connection, Turn};
use crate::counters::{CloseReason, Counters};
use crate::halt::{Halt, Phase};
use crate::id::ConnectionId;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::protocol::{Effects, Protocol, Session};
use crate::server::Serving;
use crate::stop::{poll_once, timespec};

/// The most bytes of one receive.
const RECEIVE_BYTES: usize = 64 * 1024;

/// How long a client that broke the rules may take to hear why: see [`Peer::linger`].
const LINGER: Duration = Duration::from_secs(1);

/// What a thread needs to serve connections one after the other.
#[derive(Debug)]
pub(crate) struct Worker<'a, P, H> {
    serving: &'a Serving<P>,
    counters: &'a Counters,
    halt: H,
    desk: Desk,
}

/// What is allocated once and used for every connection. Empty in between.
#[derive(Debug)]
pub(crate) struct Desk {
    /// Room for one receive, which is never cleared.
    input: Vec<u8>,
    outbox: Outbox,
    effects: Effects,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            input: Vec::with_capacity(RECEIVE_BYTES),
            outbox: Outbox::default(),
            effects: Effects::default(),
        }
    }
}

impl<'a, P: Protocol, H: Halt> Worker<'a, P, H> {
    /// Counts in `counters`, which nobody else writes, and hears of the stop through `halt`.
    pub fn new(serving: &'a Serving<P>, counters: &'a Counters, halt: H) -> Self {
        Self::at(Desk::default(), serving, counters, halt)
    }

    /// As [`new`](Self::new), with what another worker has left.
    pub fn at(desk: Desk, serving: &'a Serving<P>, counters: &'a Counters, halt: H) -> Self {
        Self {
            serving,
            counters,
            halt,
            desk,
        }
    }

    /// Counts in other counters from now on.
    pub fn count_in(&mut self, counters: &'a Counters) {
        self.counters = counters;
    }

    /// Leaves its desk to the next.
    pub fn leave(self) -> Desk {
        self.desk
    }

    /// How it hears of the stop.
    pub fn halt(&self) -> &H {
        &self.halt
    }

    /// Serves a connection until it ends. Blocks until then; the stop ends it, at the latest when the drain time is
    /// over and no call into the protocol is under way.
    pub fn serve(&mut self, socket: OwnedFd, id: ConnectionId) {
        let socket = self.halt.begin(socket);
        let full_at = self.desk.outbox.full_at(self.serving.options.output_limit);
        let mut turn = Turn {
            output: self.desk.outbox.buffer(),
            full_at,
            effects: &mut self.desk.effects,
        };
        let connection = Connection::open(&*self.serving.protocol, id, &mut turn);
        let options = &self.serving.options;
        let mut peer = Peer {
            options,
            counters: self.counters,
            halt: &self.halt,
            socket: &socket,
            desk: &mut self.desk,
            connection,
            phase: Phase::Serving,
            more_likely: false,
            alarm: None,
            silent_until: options.idle.map(|limit| Instant::now() + limit),
            new_until: options.handshake.map(|limit| Instant::now() + limit),
        };
        peer.take_alarm();
        while !peer.is_over() {
            peer.turn();
        }
        peer.close();
        self.counters.other_calls.add(1);
        self.halt.end(socket);
    }
}

/// A client, its connection and its times.
struct Peer<'a, S, H: Halt> {
    options: &'a Options,
    counters: &'a Counters,
    halt: &'a H,
    socket: &'a H::Socket,
    desk: &'a mut Desk,
    connection: Connection<S>,
    /// How far the server's end had come when the session heard of it.
    phase: Phase,
    /// The last receive was a full one, so that there may be more.
    more_likely: bool,
    /// When the session wants to be called.
    alarm: Option<Instant>,
    /// When it is closed unless something comes.
    silent_until: Option<Instant>,
    /// When it is closed unless a first whole message comes.
    new_until: Option<Instant>,
}

impl<S: Session, H: Halt> Peer<'_, S, H> {
    fn is_over(&self) -> bool {
        self.connection.ending().is_some_and(|reason| {
            reason.is_abrupt() || (self.desk.outbox.is_empty() && self.connection.is_answered())
        })
    }

    /// One step: what can be done without waiting, or a wait.
    fn turn(&mut self) {
        self.hear();
        self.do_steps();
        if self.is_over() || self.send() {
            return;
        }
        let reads = self.connection.wants_input() && self.phase == Phase::Serving;
        if reads && self.desk.outbox.is_empty() && H::WAKES && self.nearest().is_none() {
            self.receive(RecvFlags::empty());
        } else if !(reads && self.more_likely && self.receive(RecvFlags::DONTWAIT)) {
            self.wait(reads);
        }
    }

    /// Tells the session of the server's end.
    fn hear(&mut self) {
        let phase = self.halt.phase();
        if phase >= Phase::Draining && self.phase == Phase::Serving {
            self.call(Connection::stop);
        }
        if phase == Phase::Over {
            self.connection.end(CloseReason::DrainTime);
        }
        self.phase = phase;
    }

    fn call(&mut self, call: impl FnOnce(&mut Connection<S>, &mut Turn<'_>)) {
        let full_at = self.desk.outbox.full_at(self.options.output_limit);
        let mut turn = Turn {
            output: self.desk.outbox.buffer(),
            full_at,
            effects: &mut self.desk.effects,
        };
        call(&mut self.connection, &mut turn);
        self.take_alarm();
        self.forward();
    }

    fn take_alarm(&mut self) {
        if let Some(alarm) = self.connection.take_alarm() {
            self.alarm = alarm.map(|after| Instant::now() + after);
        }
    }

    /// Messages to others.
    fn forward(&mut self) {
        let effects = &mut self.desk.effects;
        if !effects.no_messages() {
            self.counters.undeliverable.add(effects.messages().len() as u64);
            effects.clear_messages();
        }
    }

    /// Steps that may block, in the order asked for; those that their answers ask for too.
    fn do_steps(&mut self) {
        while !self.desk.effects.jobs.is_empty() {
            for step in std::mem::take(&mut self.desk.effects.jobs) {
                let bytes = catch_unwind(AssertUnwindSafe(step)).ok();
                self.call(|connection, turn| connection.answered(bytes.as_deref(), turn));
            }
        }
    }

    /// Sends what the client takes at once; whether that was anything.
    fn send(&mut self) -> bool {
        if self.desk.outbox.is_empty() {
            return false;
        }
        self.counters.sends.add(1);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match net::send(self.socket, self.desk.outbox.waiting(), flags) {
            Ok(count) => {
                self.counters.bytes_out.add(count as u64);
                self.desk.outbox.sent(count);
                if self.connection.is_held() && self.desk.outbox.len() <= self.options.output_limit / 2 {
                    self.call(Connection::resume);
                }
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => {
                self.fail();
                true
            }
        }
    }

    /// Receives; whether that brought anything. Blocks unless `flags` say otherwise.
    fn receive(&mut self, flags: RecvFlags) -> bool {
        let mut input = std::mem::take(&mut self.desk.input);
        input.clear();
        self.counters.receives.add(1);
        let received = net::recv(self.socket, spare_capacity(&mut input), flags);
        self.more_likely = input.len() == input.capacity();
        match received {
            // That may be the socket shut down by our own side: then the session hears of the stop instead.
            Ok((0, _)) if self.halt.phase() > Phase::Serving => {}
            Ok((0, _)) => self.call(Connection::ended),
            Ok((count, _)) => {
                self.counters.bytes_in.add(count as u64);
                self.silent_until = self.options.idle.map(|limit| Instant::now() + limit);
                self.call(|connection, turn| connection.received(&input, turn));
                if !self.connection.is_new() {
                    self.new_until = None;
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.fail(),
        }
        self.desk.input = input;
        received.is_ok()
    }

    /// The socket is of no use any more: the client's doing, or ours at the end of the drain time.
    fn fail(&mut self) {
        self.hear();
        self.connection.end(match self.phase {
            Phase::Over => CloseReason::DrainTime,
            _ => CloseReason::Lost,
        });
    }

    /// Waits for the client, the stop, or the nearest of the times, and receives if something came.
    fn wait(&mut self, reads: bool) {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, reads);
        interest.set(PollFlags::OUT, !self.desk.outbox.is_empty());
        let (beside, until) = self.halt.watch();
        let client = PollFd::new(self.socket, interest);
        let mut fds = [client.clone(), client];
        let count = match &beside {
            Some(beside) => {
                fds[1] = PollFd::new(beside, PollFlags::IN);
                2
            }
            None => 1,
        };
        let timeout = self
            .nearest()
            .map(|(at, _)| at)
            .into_iter()
            .chain(until)
            .min()
            .map(left);
        self.counters.waits.add(1);
        let ready = poll_once(&mut fds[..count], timeout.as_ref());
        self.counters.wake_ups.add(1);
        let client = fds[0].revents();
        if count == 2 && !fds[1].revents().is_empty() {
            self.halt.noticed();
        }
        let useless = PollFlags::ERR | PollFlags::NVAL | PollFlags::HUP;
        if ready.is_err() || (client.intersects(useless) && !reads) {
            self.fail();
        } else if reads && !client.is_empty() && client != PollFlags::OUT {
            self.receive(RecvFlags::DONTWAIT);
        }
        if let Some((at, what)) = self.nearest()
            && at <= Instant::now()
        {
            match what {
                None => {
                    self.alarm = None;
                    self.call(Connection::alarm);
                }
                Some(reason) => self.connection.end(reason),
            }
        }
    }

    /// The next time at which something happens: the session's alarm, or the end for a reason.
    fn nearest(&self) -> Option<(Instant, Option<CloseReason>)> {
        let ends = [
            (self.alarm, None),
            (self.silent_until, Some(CloseReason::Idle)),
            (self.new_until, Some(CloseReason::Handshake)),
        ];
        ends.into_iter()
            .filter_map(|(at, what)| Some((at?, what)))
            .min_by_key(|&(at, _)| at)
    }

    /// Counts, and leaves the desk as it was found.
    fn close(mut self) {
        self.counters.messages.add(self.connection.messages());
        if matches!(
            self.connection.ending(),
            Some(CloseReason::Refused | CloseReason::TooLong)
        ) {
            self.linger();
        }
        let reason = self.connection.close(&mut self.desk.effects);
        self.counters.closed(reason);
        let effects = &mut self.desk.effects;
        self.counters.undeliverable.add(effects.messages().len() as u64);
        effects.clear_messages();
        effects.jobs.clear();
        let unsent = self.desk.outbox.len();
        self.desk.outbox.sent(unsent);
    }

    /// A client that broke the rules may still be sending. To close now would have its kernel drop the answer that
    /// says why; so the answer is ended, and what comes is thrown away until the client ends, for a limited time.
    fn linger(&mut self) {
        let until = Instant::now() + LINGER;
        self.counters.other_calls.add(1);
        if net::shutdown(self.socket, Shutdown::Write).is_err() {
            return;
        }
        loop {
            let (beside, _) = self.halt.watch();
            if beside.is_none() && self.halt.phase() > Phase::Serving {
                return;
            }
            let client = PollFd::new(self.socket, PollFlags::IN);
            let mut fds = [client.clone(), client];
            if let Some(beside) = &beside {
                fds[1] = PollFd::new(beside, PollFlags::IN);
            }
            self.counters.waits.add(1);
            let ready = poll_once(&mut fds, Some(&left(until)));
            self.counters.wake_ups.add(1);
            if ready.is_err() || Instant::now() >= until || (beside.is_some() && !fds[1].revents().is_empty())
            {
                return;
            }
            self.desk.input.clear();
            self.counters.receives.add(1);
            let input = spare_capacity(&mut self.desk.input);
            match net::recv(self.socket, input, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return,
                Ok((count, _)) => self.counters.bytes_in.add(count as u64),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// How long it is until then.
fn left(until: Instant) -> Timespec {
    timespec(until.saturating_duration_since(Instant::now()))
}
