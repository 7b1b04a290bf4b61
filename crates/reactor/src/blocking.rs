//! Connections served by a thread that has nothing else to do: what the designs without event loops have in common.
//!
//! A [`Worker`] serves one connection after the other, each to its end, and blocks where there is nothing to do. What
//! it needs for that it allocates once. Where no time limit is set it blocks in `recv` itself, as a plain C program
//! would, and relies on [`ShutdownSignal`] to be woken; otherwise in `poll`.
//!
//! Steps that may block ([`Io::offload`](crate::Io::offload)) are done by the worker itself, in order: it has nobody
//! else who would wait.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};

use crate::clock::{Clock, from_now};
use crate::closing::{self, Discarded, Lingering};
use crate::connection::{Connection, RECEIVE_BYTES, Turn};
use crate::contain::contain;
use crate::counters::{CloseReason, Counters};
use crate::id::ConnectionId;
use crate::options::{Options, Overflow};
use crate::outbox::Outbox;
use crate::outbox_table::{OutboxState, OutboxTable};
use crate::protocol::{Effects, Protocol};
use crate::read_times::ReadTimes;
use crate::serving::Serving;
use crate::shutdown::{Phase, ShutdownSignal};
use crate::stop::{poll_once, timespec};
use crate::throttle::Throttle;
use crate::unacknowledged::unacknowledged;
use crate::wake_fd::WakeFd;

/// What a thread needs to serve connections one after the other.
#[derive(Debug)]
pub(crate) struct Worker<'a, P, H> {
    serving: &'a Serving<P>,
    counters: &'a Counters,
    shutdown: H,
    scratch: Box<Scratch>,
}

/// Scratch memory: what is allocated once and used for every connection. Empty in between.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Room for one receive, which is never cleared.
    input: Vec<u8>,
    outbox: Outbox,
    effects: Effects,
    /// Notified when somebody has sent to the client: see [`Scratch::ready`].
    wake_fd: Option<Arc<WakeFd>>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            input: Vec::with_capacity(RECEIVE_BYTES),
            outbox: Outbox::default(),
            effects: Effects::default(),
            wake_fd: None,
        }
    }
}

impl Scratch {
    /// Makes sure of all that a connection of this protocol needs. Before it is accepted: what was accepted could
    /// otherwise take the last descriptors and then wait for one for ever.
    ///
    /// # Errors
    ///
    /// If there is no descriptor.
    pub fn ready<P: Protocol>(&mut self) -> io::Result<()> {
        if P::SHARED && self.wake_fd.is_none() {
            self.wake_fd = Some(Arc::new(WakeFd::new()?));
        }
        Ok(())
    }
}

impl<'a, P: Protocol, H: ShutdownSignal> Worker<'a, P, H> {
    /// Counts in `counters`, which nobody else writes, and hears of the stop through `shutdown`.
    pub fn new(serving: &'a Serving<P>, counters: &'a Counters, shutdown: H) -> Self {
        Self::at(Box::default(), serving, counters, shutdown)
    }

    /// As [`new`](Self::new), with what another worker has left.
    pub fn at(scratch: Box<Scratch>, serving: &'a Serving<P>, counters: &'a Counters, shutdown: H) -> Self {
        Self {
            serving,
            counters,
            shutdown,
            scratch,
        }
    }

    /// As [`Scratch::ready`].
    ///
    /// # Errors
    ///
    /// If there is no descriptor.
    pub fn ready(&mut self) -> io::Result<()> {
        self.scratch.ready::<P>()
    }

    /// Counts in other counters from now on.
    pub fn count_in(&mut self, counters: &'a Counters) {
        self.counters = counters;
    }

    /// Leaves its scratch memory to the next, without descriptors: nobody knows when that will be.
    pub fn leave(mut self) -> Box<Scratch> {
        self.scratch.wake_fd = None;
        self.scratch.effects.shrink();
        self.scratch
    }

    /// Serves a connection until it ends. Blocks until then; the stop ends it, at the latest when the drain time is
    /// over and no call into the protocol is under way.
    pub fn serve(&mut self, socket: OwnedFd, id: ConnectionId) {
        let socket = self.shutdown.begin(socket);
        // Decided when it is compiled: a protocol that shares nothing pays nothing.
        let shared = if P::SHARED {
            self.shutdown
                .outboxes(&socket)
                .zip(self.scratch.wake_fd.clone())
                .map(|((table, socket), wake_fd)| {
                    table.open(id, socket, Arc::clone(&wake_fd));
                    SharedOutbox {
                        table,
                        wake_fd,
                        held_up_by: Vec::new(),
                        throttle: Throttle::default(),
                        to_send: Vec::new(),
                    }
                })
        } else {
            None
        };
        let options = &self.serving.options;
        let full_at = self.scratch.outbox.full_at(options.output_limit);
        let mut turn = Turn {
            output: self.scratch.outbox.buffer(),
            full_at,
            effects: &mut self.scratch.effects,
            clock: &mut Clock::default(),
        };
        let connection = Connection::open_on(self.serving, id, &socket, &mut turn);
        let mut peer = Peer::<P, H> {
            options,
            counters: self.counters,
            shutdown: &self.shutdown,
            socket: &socket,
            scratch: &mut self.scratch,
            shared,
            connection,
            phase: Phase::Serving,
            // A client that cannot be waited for in the call itself has often sent already.
            more_likely: !H::WAKES,
            alarm: None,
            times: ReadTimes::new(Instant::now()),
            is_refused: false,
        };
        peer.note();
        while !(peer.is_over() && peer.leave()) {
            peer.turn();
        }
        let lingering = peer.close();
        self.counters.other_calls.add(1);
        let socket = match lingering {
            Some(lingering) => self.linger(socket, lingering),
            None => Some(socket),
        };
        if let Some(socket) = socket {
            self.shutdown.end(socket);
        }
    }

    /// Throws away what comes, as long as the socket lingers and the server serves. The socket, unless somebody else
    /// looks after it.
    fn linger(&mut self, socket: H::Socket, mut lingering: Lingering) -> Option<H::Socket> {
        let socket = self.shutdown.lingers(socket, lingering)?;
        while self.shutdown.phase() == Phase::Serving {
            self.scratch.input.clear();
            let room = spare_capacity(&mut self.scratch.input);
            if lingering.wait(&socket, room, self.counters) == Discarded::Over {
                return Some(socket);
            }
        }
        closing::discard(&socket, self.counters);
        Some(socket)
    }
}

/// The outbox to which other connections can add: how one sends to others, and hears that they have sent to it.
struct SharedOutbox<'a> {
    table: &'a OutboxTable,
    wake_fd: Arc<WakeFd>,
    /// Connections whose clients have too much waiting: nothing is read until they have taken half.
    held_up_by: Vec<ConnectionId>,
    /// When it has a turn although they have not.
    throttle: Throttle,
    /// Empty: room for those whom a delivery has brought something.
    to_send: Vec<ConnectionId>,
}

impl SharedOutbox<'_> {
    /// Whether nothing is to be received, for others' sake.
    fn is_held_up(&self) -> bool {
        !self.held_up_by.is_empty() && self.throttle != Throttle::Over
    }

    /// Forgets those who hold it up no more. The others do so for a while, where they are dropped in the end.
    fn forget_free(&mut self, overflow: Overflow) {
        if self.held_up_by.is_empty() {
            return;
        }
        self.table.forget_free(&mut self.held_up_by, &self.wake_fd);
        if self.held_up_by.is_empty() {
            self.throttle.clear();
        } else if overflow == Overflow::Drop {
            self.throttle.begin(Instant::now());
        }
    }
}

/// What a time is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Alarm,
    /// What was received is used though others hold it up.
    Turn,
    /// The client may have taken nothing for too long.
    Look,
    End(CloseReason),
}

/// A client, its connection and its times.
struct Peer<'a, P: Protocol, H: ShutdownSignal> {
    options: &'a Options,
    counters: &'a Counters,
    shutdown: &'a H,
    socket: &'a H::Socket,
    /// Its outbox holds what waits for the client. Where others send to the connection it holds only what the session
    /// has just said, and what waits is in the shared outbox, so that others can add to it.
    scratch: &'a mut Scratch,
    shared: Option<SharedOutbox<'a>>,
    connection: Connection<P::Session>,
    /// How far the server's end had come when the session heard of it.
    phase: Phase,
    /// There may be something to receive without waiting: the last receive was a full one.
    more_likely: bool,
    /// When the session wants to be called.
    alarm: Option<Instant>,
    times: ReadTimes,
    /// Nothing is received, by the server's own will.
    is_refused: bool,
}

impl<P: Protocol, H: ShutdownSignal> Peer<'_, P, H> {
    /// How much waits for the client, in bytes.
    fn unsent(&self) -> usize {
        match &self.shared {
            Some(shared) => shared.table.waiting(self.connection.id()).bytes,
            None => self.scratch.outbox.len(),
        }
    }

    /// What waits for the client.
    fn waiting(&self) -> OutboxState {
        match &self.shared {
            Some(shared) => shared.table.waiting(self.connection.id()),
            None => OutboxState {
                bytes: self.scratch.outbox.len(),
                look_at: self.scratch.outbox.look_at(self.options.write_timeout),
                slow: false,
            },
        }
    }

    /// Whether by our own doing nothing more comes from the client: see [`ShutdownSignal::WAKES`].
    fn is_shut_in(&self, phase: Phase) -> bool {
        match self.shared {
            Some(_) => phase == Phase::Over,
            None => phase > Phase::Serving,
        }
    }

    fn is_over(&self) -> bool {
        self.connection
            .ending()
            .is_some_and(|reason| reason.is_abrupt() || (self.connection.is_answered() && self.unsent() == 0))
    }

    /// Nobody can send to it any more; unless somebody just has.
    fn leave(&self) -> bool {
        let abrupt = self.connection.ending().is_some_and(CloseReason::is_abrupt);
        self.shared
            .as_ref()
            .is_none_or(|shared| shared.table.close(self.connection.id(), !abrupt))
    }

    /// One step: what can be done without waiting, or a wait.
    fn turn(&mut self) {
        self.hear();
        self.do_steps();
        if self.is_over() || self.send() {
            return;
        }
        if self.connection.is_interrupted() {
            return self.call(Connection::resume);
        }
        let held_up = self.shared.as_ref().is_some_and(SharedOutbox::is_held_up);
        let receives = !self.is_shut_in(self.phase) && !held_up;
        self.note_refusal(!receives || self.connection.refuses_input());
        let reads = receives && self.connection.wants_input();
        let only_reads = reads && self.shared.is_none() && self.scratch.outbox.is_empty();
        if only_reads && H::WAKES && self.nearest(None).is_none() {
            self.receive(RecvFlags::empty());
        } else if !(reads && self.more_likely && !self.is_due() && self.receive(RecvFlags::DONTWAIT)) {
            self.wait(reads);
        }
    }

    /// Whether one of its times has come: however much a client sends, it is not kept from it.
    fn is_due(&self) -> bool {
        let nearest = self.nearest(self.waiting().look_at);
        nearest.is_some_and(|(at, _)| at <= Instant::now())
    }

    /// Time in which nothing is received by the server's own will does not count.
    fn note_refusal(&mut self, is_refused: bool) {
        if std::mem::replace(&mut self.is_refused, is_refused) && !is_refused {
            self.times.listens(Instant::now());
        }
    }

    /// Hears of the server's end, and of what others have done to the connection.
    fn hear(&mut self) {
        let phase = self.shutdown.phase();
        if phase >= Phase::Draining && self.phase == Phase::Serving {
            self.call(Connection::stop);
        }
        if phase == Phase::Over {
            self.connection.end(CloseReason::DrainTime);
        }
        self.phase = phase;
        if let Some(shared) = &mut self.shared {
            shared.forget_free(self.options.overflow);
            if shared.table.waiting(self.connection.id()).slow {
                self.connection.end(CloseReason::Slow);
            }
        }
    }

    /// Calls the session. Where it has more to do, that is for the next turn, before anything is waited for.
    fn call(&mut self, call: impl FnOnce(&mut Connection<P::Session>, &mut Turn<'_>)) {
        let mut limit = self.options.output_limit;
        if self.shared.is_some() {
            limit = limit.saturating_sub(self.unsent());
        }
        let full_at = self.scratch.outbox.full_at(limit);
        let messages = self.connection.messages();
        let mut turn = Turn {
            output: self.scratch.outbox.buffer(),
            full_at,
            effects: &mut self.scratch.effects,
            clock: &mut Clock::default(),
        };
        call(&mut self.connection, &mut turn);
        self.times.used(&self.connection, self.options, Instant::now);
        self.counters.messages.add(self.connection.messages() - messages);
        self.note();
    }

    /// Does what the session has asked for: its alarm, and what it sends.
    fn note(&mut self) {
        if let Some(alarm) = self.connection.take_alarm() {
            self.alarm = alarm.and_then(from_now);
        }
        // Before its own client is sent anything, by whomever, which could confirm it.
        self.forward();
        if let Some(shared) = &self.shared
            && !self.scratch.outbox.is_empty()
        {
            shared
                .table
                .append(self.connection.id(), self.scratch.outbox.waiting());
            self.scratch.outbox.sent(self.scratch.outbox.len());
            self.scratch.outbox.shrink();
        }
    }

    /// Messages to others.
    fn forward(&mut self) {
        let effects = &mut self.scratch.effects;
        if effects.no_messages() {
            return;
        }
        deliver(effects, self.shared.as_mut(), self.counters);
    }

    /// Steps that may block, in the order asked for; those that their answers ask for too.
    fn do_steps(&mut self) {
        while !self.scratch.effects.jobs.is_empty() {
            for step in std::mem::take(&mut self.scratch.effects.jobs) {
                let bytes = contain(step);
                self.call(|connection, turn| connection.answered(bytes.as_deref(), turn));
            }
        }
    }

    /// Sends what the client takes at once; whether that was anything.
    fn send(&mut self) -> bool {
        let sent = match &self.shared {
            Some(shared) => shared.table.send(self.connection.id(), self.counters),
            None => self.send_own(),
        };
        if sent.is_err() {
            self.fail();
            return true;
        }
        // Others may have sent for this connection, too.
        if self.connection.is_held() && self.unsent() <= self.options.output_limit / 2 {
            self.call(Connection::resume);
            return true;
        }
        sent == Ok(true)
    }

    fn send_own(&mut self) -> Result<bool, Errno> {
        let outbox = &mut self.scratch.outbox;
        if outbox.is_empty() {
            return Ok(false);
        }
        self.counters.sends.add(1);
        let is_last = self.connection.ending().is_some() && self.connection.is_answered();
        let flags = SendFlags::DONTWAIT | closing::send_flags(is_last);
        let sent = net::send(self.socket, outbox.waiting(), flags);
        if let Ok(count) = sent {
            outbox.sent(count);
        }
        outbox.offered(Instant::now);
        match sent {
            Ok(count) => {
                self.counters.bytes_out.add(count as u64);
                outbox.shrink();
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Receives; whether that brought anything. Blocks unless `flags` say otherwise.
    fn receive(&mut self, flags: RecvFlags) -> bool {
        let mut input = std::mem::take(&mut self.scratch.input);
        input.clear();
        self.counters.receives.add(1);
        let received = net::recv(self.socket, spare_capacity(&mut input), flags);
        self.more_likely = input.len() == input.capacity();
        match received {
            // That may be the socket shut down by our own side: then the session hears of the stop instead.
            Ok((0, _)) if self.is_shut_in(self.shutdown.phase()) => {}
            Ok((0, _)) => self.call(Connection::ended),
            Ok((count, _)) => {
                self.counters.bytes_in.add(count as u64);
                self.times.came();
                if let Some(shared) = &mut self.shared {
                    shared.throttle.clear();
                }
                self.call(|connection, turn| connection.received(&input, turn));
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.fail(),
        }
        self.scratch.input = input;
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

    /// Waits for the client, others, the stop, or the nearest of the times, and receives if something came.
    fn wait(&mut self, reads: bool) {
        let waiting = self.waiting();
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, reads);
        interest.set(PollFlags::OUT, waiting.bytes > 0);
        let timeout = self.nearest(waiting.look_at).map(|(at, _)| at);
        let client = self.wait_for(interest, timeout);
        let mut came = false;
        let useless = PollFlags::ERR | PollFlags::NVAL | PollFlags::HUP;
        if client.intersects(useless) && !reads {
            self.fail();
        } else if reads && !client.is_empty() && client != PollFlags::OUT {
            came = self.receive(RecvFlags::DONTWAIT);
        }
        if let Some((at, what)) = self.nearest(waiting.look_at)
            && at <= Instant::now()
        {
            match what {
                // Unless it takes something now.
                Due::Look if client.contains(PollFlags::OUT) && self.send() => {}
                Due::Look => {
                    if self.is_overdue() {
                        self.connection.end(CloseReason::WriteTimeout);
                    }
                }
                Due::Alarm => {
                    self.alarm = None;
                    self.call(Connection::alarm);
                }
                Due::Turn => {
                    if let Some(shared) = &mut self.shared {
                        shared.throttle.ends(at);
                    }
                }
                // What it said may have kept the session for as long.
                Due::End(_) if came || !closing::is_silent(self.socket, self.counters) => {
                    self.times.listens(Instant::now());
                }
                Due::End(reason) => self.connection.end(reason),
            }
        }
    }

    /// Whether the client has taken nothing for too long, now that it is to be looked at.
    fn is_overdue(&mut self) -> bool {
        let (now, limit) = (Instant::now(), self.options.write_timeout);
        match &self.shared {
            Some(shared) => shared.table.is_overdue(self.connection.id(), now, self.counters),
            None => {
                let left = || unacknowledged(self.socket, self.counters);
                self.scratch.outbox.is_overdue(now, limit, left)
            }
        }
    }

    /// Waits for the client, and for the shared outbox's `WakeFd` or what the [`ShutdownSignal`] wants to be watched.
    /// What came of the client.
    fn wait_for(&self, interest: PollFlags, until: Option<Instant>) -> PollFlags {
        let (watched, watched_until) = self.shutdown.watch();
        let beside = match &self.shared {
            Some(shared) => Some(shared.wake_fd.as_fd()),
            None => watched,
        };
        let client = PollFd::new(self.socket, interest);
        let mut fds = [client.clone(), client];
        let count = match &beside {
            Some(beside) => {
                fds[1] = PollFd::new(beside, PollFlags::IN);
                2
            }
            None => 1,
        };
        let timeout = [until, watched_until].into_iter().flatten().min().map(left);
        self.counters.waits.add(1);
        let ready = poll_once(&mut fds[..count], timeout.as_ref());
        self.counters.wake_ups.add(1);
        if ready.is_err() {
            // Only for want of memory in the kernel, or by a mistake of ours: the client is given up.
            return PollFlags::NVAL;
        }
        if count == 2 && !fds[1].revents().is_empty() {
            match &self.shared {
                Some(shared) => {
                    self.counters.other_calls.add(1);
                    shared.wake_fd.clear();
                }
                None => self.shutdown.noticed(),
            }
        }
        fds[0].revents()
    }

    /// The next time at which something happens. `look_at`: when the client is to be looked at, if it takes nothing.
    fn nearest(&self, look_at: Option<Instant>) -> Option<(Instant, Due)> {
        let throttle = self.shared.as_ref().and_then(|shared| shared.throttle.until());
        let nothing = self.times.nearest(self.options).filter(|_| !self.is_refused);
        let times = [
            self.alarm.map(|at| (at, Due::Alarm)),
            throttle.map(|at| (at, Due::Turn)),
            look_at.map(|at| (at, Due::Look)),
            nothing.map(|(at, reason)| (at, Due::End(reason))),
        ];
        times.into_iter().flatten().min_by_key(|&(at, _)| at)
    }

    /// The session hears that its connection is gone, which is counted. How the socket lingers, if it does. Leaves the
    /// scratch memory as it was found.
    fn close(mut self) -> Option<Lingering> {
        let effects = &mut self.scratch.effects;
        if let Some((reason, mut leftover)) = self.connection.close(effects) {
            closing::prepare(self.socket, reason, self.counters);
            deliver(effects, self.shared.as_mut(), self.counters);
            while let Some(left) = leftover {
                leftover = left.resume(effects);
                deliver(effects, self.shared.as_mut(), self.counters);
            }
            effects.forget_jobs();
            self.counters.closed(reason);
        }
        self.scratch.outbox.sent(self.scratch.outbox.len());
        self.scratch.outbox.shrink();
        closing::linger(&self.connection, self.socket, self.counters, Instant::now())
    }
}

/// Hands messages to whom they are for; without a shared outbox no one can be reached, and they are counted.
fn deliver(effects: &mut Effects, shared: Option<&mut SharedOutbox<'_>>, counters: &Counters) {
    match shared {
        Some(shared) => shared.table.deliver(
            effects,
            &shared.wake_fd,
            &mut shared.held_up_by,
            &mut shared.to_send,
            counters,
        ),
        None => {
            counters.undeliverable.add(effects.messages.len() as u64);
            effects.clear_messages();
        }
    }
}

/// How long it is until then.
fn left(until: Instant) -> Timespec {
    timespec(until.saturating_duration_since(Instant::now()))
}
