//! Connections that any thread of a pool may serve, one at a time each: what leader/followers and
//! half-sync/half-async have in common.
//!
//! Each connection has two locks. `session` is held by the one thread that is calling the session; `output` by
//! whoever puts something into the outbox or sends from it, for that moment. The order is session, then output, and
//! never two of one kind: what a session wants of others is collected in [`WorkerContext`] and done when its own locks
//! are released.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags};

use super::peer::{Due, HeldUpBy, ReadHalf, WriteHalf};
use super::slots::{Permit, Slots};
use crate::clock::{Clock, from_now};
use crate::closing::{self, Discarded};
use crate::connection::{Connection, Leftover, Turn};
use crate::contain::contain;
use crate::counters::{CloseReason, Counters};
use crate::id::ConnectionId;
use crate::protocol::{Effects, Job, Protocol};
use crate::serving::Serving;
use crate::slice::Slice;
use crate::unacknowledged::unacknowledged;

/// A connection.
#[derive(Debug)]
pub(crate) struct SharedPeer<S> {
    pub id: ConnectionId,
    pub socket: OwnedFd,
    /// `None` once it is closed.
    session: Mutex<Option<ReadHalf<S>>>,
    output: Mutex<Output>,
}

/// The side of a connection that others put messages into.
#[derive(Debug, Default)]
pub(crate) struct Output {
    half: WriteHalf,
    /// The session is held until half is taken.
    holds: bool,
    /// The session has said something to others that they do not have yet: until they do, its own client is not sent
    /// anything, which could confirm it.
    withheld: bool,
    /// Why sending failed.
    failed: Option<CloseReason>,
    /// The session wants input.
    pub wants_input: bool,
    /// The session is gone, and the socket lingers: a visit costs next to nothing.
    pub lingers: bool,
    /// The connection is closed.
    pub is_closed: bool,
    /// Somebody is receiving for the session, or what was received has not been used yet.
    pub is_busy: bool,
    /// The design's own business: what it last had the kernel report, or what is waited for.
    pub marks: u32,
}

impl Output {
    /// Whether the socket took no more: the design says [`PeerTable::writable`] when it does.
    pub fn is_blocked(&self) -> bool {
        self.half.blocked
    }
}

impl<S> SharedPeer<S> {
    pub fn output(&self) -> MutexGuard<'_, Output> {
        lock(&self.output)
    }
}

/// A panic of a session is caught before it could poison a lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a connection is visited.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Visit<'a> {
    /// Something can be received, or has ended (`true`).
    Readable(bool),
    /// This was received.
    Received(&'a [u8]),
    /// The client sends no more.
    Ended,
    /// Receiving failed.
    Lost,
    /// Something that it waited for may have come about.
    Look,
    /// One who gets its messages has taken half of what may wait.
    Release,
    /// It had much to do, and the others had their turn.
    Resume,
    /// One of its times may have come.
    Timer,
    /// An offloaded step has answered, or panicked.
    Answered(Option<&'a [u8]>),
    /// The server stops.
    Stop,
    /// The time for it to end by itself is over.
    DrainOver,
}

/// Who has more to do.
#[derive(Debug)]
pub(crate) enum Interrupted<S> {
    /// It is to be [visited](Visit::Resume).
    Peer(Arc<SharedPeer<S>>),
    /// A session whose connection is gone: see [`PeerTable::resume_leftover`].
    Leftover(Leftover<S>),
}

/// What one thread serves with, and what its visits leave to be done.
pub(crate) struct WorkerContext<'a, S> {
    pub counters: &'a Counters,
    effects: Effects,
    /// Empty in between: what a session says, until it is in its outbox.
    said: Vec<u8>,
    input: Box<[u8]>,
    /// Have something new to send.
    pub dirty: Vec<Arc<SharedPeer<S>>>,
    /// Are to be visited, and why.
    pub visits: Vec<(Arc<SharedPeer<S>>, Visit<'static>)>,
    /// Were visited or blocked: what is to be reported of them may have changed.
    pub touched: Vec<Arc<SharedPeer<S>>>,
    /// Times to visit a slot.
    pub timers: Vec<(Instant, u32)>,
    /// Steps that may block.
    pub steps: Vec<(Arc<SharedPeer<S>>, Job)>,
    /// How long the visits go on with what is much. The thread renews it.
    pub slice: Slice,
    /// Have more to do after that.
    pub interrupted: Vec<Interrupted<S>>,
    /// Somebody waits for a permit or a descriptor that came back.
    pub permit: bool,
    /// The server has stopped and the last connection is gone.
    pub over: bool,
}

impl<'a, S> WorkerContext<'a, S> {
    /// Counting in `counters`, receiving `input_bytes` at most at once.
    pub fn new(counters: &'a Counters, input_bytes: usize) -> Self {
        Self {
            counters,
            effects: Effects::default(),
            said: Vec::new(),
            input: vec![0; input_bytes].into_boxed_slice(),
            dirty: Vec::new(),
            visits: Vec::new(),
            touched: Vec::new(),
            timers: Vec::new(),
            steps: Vec::new(),
            slice: Slice::default(),
            interrupted: Vec::new(),
            permit: false,
            over: false,
        }
    }
}

/// The connection table: all connections of a server, by slot.
#[derive(Debug)]
pub(crate) struct PeerTable<'a, P: Protocol> {
    serving: &'a Serving<P>,
    /// Who has more bytes waiting holds up those who send to it.
    holds_up_above: usize,
    pub slots: Slots,
    entries: Arc<[Entry<P::Session>]>,
}

type Entry<S> = Mutex<Option<Arc<SharedPeer<S>>>>;

impl<'a, P: Protocol> PeerTable<'a, P> {
    /// Empty, with room for the server's `max_connections`.
    pub fn new(serving: &'a Serving<P>) -> Self {
        let most = serving.options.max_connections;
        let entries: Arc<[Entry<P::Session>]> = (0..most).map(|_| Mutex::default()).collect();
        let all = Arc::clone(&entries);
        serving.waiting.by(move || {
            let peers = all.iter().filter_map(|entry| lock(entry).clone());
            let waiting = peers.map(|peer| (peer.id, peer.output().half.outbox.len()));
            waiting.filter(|&(_, bytes)| bytes > 0).collect()
        });
        Self {
            serving,
            holds_up_above: serving.options.holds_up_above(),
            slots: Slots::new(most),
            entries,
        }
    }

    /// Whoever has the slot.
    pub fn at(&self, slot: u32) -> Option<Arc<SharedPeer<P::Session>>> {
        lock(self.entries.get(slot as usize)?).clone()
    }

    fn get(&self, id: ConnectionId) -> Option<Arc<SharedPeer<P::Session>>> {
        self.at(id.slot()).filter(|peer| peer.id == id)
    }

    /// A new connection, which the design knows but has nothing reported of yet. Its session begins.
    pub fn open(
        &self,
        permit: Permit,
        socket: OwnedFd,
        now: Instant,
        context: &mut WorkerContext<'_, P::Session>,
    ) -> Arc<SharedPeer<P::Session>> {
        let id = ConnectionId::new(0, permit.generation, permit.slot);
        let peer = Arc::new(SharedPeer {
            id,
            socket,
            session: Mutex::new(None),
            output: Mutex::default(),
        });
        // Held until the session has begun: whoever finds the connection in its entry waits here.
        let mut session = lock(&peer.session);
        *lock(&self.entries[permit.slot as usize]) = Some(Arc::clone(&peer));
        {
            let mut turn = Turn {
                output: &mut context.said,
                full_at: usize::MAX,
                effects: &mut context.effects,
                clock: &mut Clock::at(now),
            };
            let connection = Connection::open_on(self.serving, id, &peer.socket, &mut turn);
            peer.output().half.outbox.take_in(&mut context.said);
            *session = Some(ReadHalf::new(connection, now));
        }
        self.call(&peer, &mut session, context, now, |_, _| {});
        self.after(&peer, &mut session, context, now);
        drop(session);
        peer
    }

    /// Does what the visit is for. What it leads to is left in `context`.
    pub fn visit(
        &self,
        peer: &Arc<SharedPeer<P::Session>>,
        visit: Visit<'_>,
        now: Instant,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        let mut session = lock(&peer.session);
        let Some(read) = session.as_mut() else { return };
        if let Some(lingering) = &mut read.lingering {
            let over = match visit {
                // Without room it is received elsewhere.
                Visit::Readable(_) if !context.input.is_empty() => {
                    let room = &mut *context.input;
                    lingering.receive(&peer.socket, room, context.counters, now) == Discarded::Over
                }
                Visit::Received(bytes) => !lingering.came(bytes.len(), now),
                Visit::Ended | Visit::Lost | Visit::DrainOver => true,
                Visit::Stop => {
                    closing::discard(&peer.socket, context.counters);
                    true
                }
                Visit::Timer => read.due(now, &self.serving.options) == Some(Due::LingerOver),
                _ => false,
            };
            if over {
                self.close(peer, &mut session, context);
            } else {
                // A timer of before may have been this one's as well.
                let time = read.timer_to_set(&self.serving.options);
                context.timers.extend(time.map(|at| (at, peer.id.slot())));
                context.touched.push(Arc::clone(peer));
            }
            return;
        }
        match visit {
            Visit::Readable(end) => self.receive(peer, &mut session, end, now, context),
            Visit::Received(bytes) => {
                read.takes_turn();
                self.call(peer, &mut session, context, now, |connection, turn| {
                    connection.received(bytes, turn);
                });
            }
            Visit::Ended => self.call(peer, &mut session, context, now, Connection::ended),
            Visit::Lost => read.connection.end(CloseReason::Lost),
            Visit::Look => self.look(peer, &mut session, now, context),
            Visit::Resume => {
                read.interrupted = false;
                self.go_on(peer, &mut session, context, now, Connection::resume);
            }
            Visit::Release => {
                read.hold_up(HeldUpBy::Receiver, -1);
                read.looked_at(now);
            }
            Visit::Timer if self.is_overdue(peer, now, context) => {
                read.connection.end(CloseReason::WriteTimeout);
            }
            Visit::Timer => match read.due(now, &self.serving.options) {
                Some(Due::Alarm) => self.call(peer, &mut session, context, now, Connection::alarm),
                // In this order: who receives says first that it does.
                Some(Due::End(_))
                    if !closing::is_silent(&peer.socket, context.counters) || peer.output().is_busy =>
                {
                    read.looked_at(now);
                }
                Some(Due::End(reason)) => read.connection.end(reason),
                Some(Due::Turn | Due::LingerOver) | None => {}
            },
            Visit::Answered(bytes) => self.go_on(peer, &mut session, context, now, |connection, turn| {
                connection.answered(bytes, turn);
            }),
            Visit::Stop => self.call(peer, &mut session, context, now, Connection::stop),
            Visit::DrainOver => read.connection.end(CloseReason::DrainTime),
        }
        self.after(peer, &mut session, context, now);
    }

    /// Whether the client has taken nothing for too long.
    fn is_overdue(
        &self,
        peer: &SharedPeer<P::Session>,
        now: Instant,
        context: &WorkerContext<'_, P::Session>,
    ) -> bool {
        let left = || unacknowledged(&peer.socket, context.counters);
        peer.output().half.is_overdue(now, &self.serving.options, left)
    }

    /// The socket takes more again.
    pub fn writable(&self, peer: &Arc<SharedPeer<P::Session>>, context: &mut WorkerContext<'_, P::Session>) {
        let mut output = peer.output();
        if std::mem::take(&mut output.half.blocked) {
            Self::must_send(peer, &mut output, context);
        }
    }

    /// Sends what has got into the outboxes of `context.dirty`.
    pub fn flush(&self, context: &mut WorkerContext<'_, P::Session>) {
        while let Some(peer) = context.dirty.pop() {
            let mut output = peer.output();
            if std::mem::take(&mut output.half.dirty) {
                self.send(&peer, &mut output, context);
            }
        }
    }

    fn send(
        &self,
        peer: &Arc<SharedPeer<P::Session>>,
        output: &mut Output,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        let write = &mut output.half;
        if write.blocked || write.outbox.is_empty() || output.is_closed || output.withheld {
            return;
        }
        let flags = closing::send_flags(write.finish);
        let sent = loop {
            context.counters.sends.add(1);
            match net::send(&peer.socket, write.outbox.waiting(), flags) {
                Err(Errno::INTR) => {}
                sent => break sent,
            }
        };
        match sent {
            Ok(count) => {
                context.counters.bytes_out.add(count as u64);
                write.outbox.sent(count);
                write.outbox.shrink();
                write.blocked = !write.outbox.is_empty();
            }
            Err(Errno::AGAIN) => write.blocked = true,
            Err(_) => {
                output.failed = Some(CloseReason::Lost);
                write.blocked = true;
            }
        }
        if write.blocked {
            write.outbox.offered(Instant::now);
            let time = write.timer_to_set(&self.serving.options);
            context.timers.extend(time.map(|at| (at, peer.id.slot())));
            context.touched.push(Arc::clone(peer));
        }
        if write.outbox.len() <= self.serving.options.output_limit / 2 {
            for (_, sender) in std::mem::take(&mut write.waiters) {
                context
                    .visits
                    .extend(self.get(sender).map(|sender| (sender, Visit::Release)));
            }
            if std::mem::take(&mut output.holds) {
                context.visits.push((Arc::clone(peer), Visit::Look));
            }
        }
        if output.failed.is_some() || (write.finish && write.outbox.is_empty()) {
            context.visits.push((Arc::clone(peer), Visit::Look));
        }
    }

    /// Receives once.
    fn receive(
        &self,
        peer: &Arc<SharedPeer<P::Session>>,
        session: &mut Option<ReadHalf<P::Session>>,
        end: bool,
        now: Instant,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        let Some(read) = session.as_mut() else { return };
        // Without room it is received elsewhere, and what comes there is the client's end or not.
        if context.input.is_empty() || !read.is_wanted() {
            if end {
                context.counters.other_calls.add(1);
                if !matches!(net::sockopt::socket_error(&peer.socket), Ok(Ok(()))) {
                    read.connection.end(CloseReason::Lost);
                }
            }
            return;
        }
        let mut input = std::mem::take(&mut context.input);
        context.counters.receives.add(1);
        match net::recv(&peer.socket, &mut *input, RecvFlags::empty()) {
            Ok((0, _)) => self.call(peer, session, context, now, Connection::ended),
            Ok((count, _)) => {
                context.counters.bytes_in.add(count as u64);
                read.takes_turn();
                self.call(peer, session, context, now, |connection, turn| {
                    connection.received(&input[..count], turn);
                });
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => read.connection.end(CloseReason::Lost),
        }
        context.input = input;
    }

    /// Sees whether sending has failed, or a held session can go on.
    fn look(
        &self,
        peer: &Arc<SharedPeer<P::Session>>,
        session: &mut Option<ReadHalf<P::Session>>,
        now: Instant,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        let Some(read) = session.as_mut() else { return };
        let (failed, waiting) = {
            let output = peer.output();
            (output.failed, output.half.outbox.len())
        };
        if let Some(reason) = failed {
            read.connection.end(reason);
        } else if read.connection.is_held() && waiting <= self.serving.options.output_limit / 2 {
            self.go_on(peer, session, context, now, Connection::resume);
        }
    }

    /// As [`call`](Self::call), when the session can use again what was held.
    fn go_on(
        &self,
        peer: &Arc<SharedPeer<P::Session>>,
        session: &mut Option<ReadHalf<P::Session>>,
        context: &mut WorkerContext<'_, P::Session>,
        now: Instant,
        call: impl FnOnce(&mut Connection<P::Session>, &mut Turn<'_>),
    ) {
        self.call(peer, session, context, now, call);
        if let Some(read) = session.as_mut() {
            read.looked_at(Instant::now());
        }
    }

    /// Goes on with what the session of a connection that is gone has to do.
    pub fn resume_leftover(
        &self,
        leftover: Leftover<P::Session>,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        let id = leftover.id();
        let leftover = leftover.resume(&mut context.effects);
        context.interrupted.extend(leftover.map(Interrupted::Leftover));
        self.deliver(id, None, context);
    }

    /// Calls the session, and on if it was interrupted, for as long as it may have at once.
    fn call(
        &self,
        peer: &Arc<SharedPeer<P::Session>>,
        session: &mut Option<ReadHalf<P::Session>>,
        context: &mut WorkerContext<'_, P::Session>,
        now: Instant,
        call: impl FnOnce(&mut Connection<P::Session>, &mut Turn<'_>),
    ) {
        self.enter(peer, session, context, now, call);
        while session
            .as_ref()
            .is_some_and(|read| read.connection.is_interrupted())
        {
            if context.slice.is_over() {
                break;
            }
            self.enter(peer, session, context, now, Connection::resume);
        }
        if let Some(read) = session.as_mut().filter(|read| read.connection.is_interrupted())
            && !std::mem::replace(&mut read.interrupted, true)
        {
            context.interrupted.push(Interrupted::Peer(Arc::clone(peer)));
        }
    }

    /// Calls the session; then what it has said is put into its outbox, and delivered to others. The outbox is free
    /// meanwhile, however long that takes: others put messages into it, and the loop asks what is wanted.
    fn enter(
        &self,
        peer: &Arc<SharedPeer<P::Session>>,
        session: &mut Option<ReadHalf<P::Session>>,
        context: &mut WorkerContext<'_, P::Session>,
        now: Instant,
        call: impl FnOnce(&mut Connection<P::Session>, &mut Turn<'_>),
    ) {
        let Some(read) = session.as_mut() else { return };
        let messages = read.connection.messages();
        {
            let waiting = peer.output().half.outbox.len();
            let mut turn = Turn {
                output: &mut context.said,
                full_at: self.serving.options.output_limit.saturating_sub(waiting),
                effects: &mut context.effects,
                clock: &mut Clock::at(now),
            };
            call(&mut read.connection, &mut turn);
            let mut output = peer.output();
            output.half.outbox.take_in(&mut context.said);
            output.withheld = !context.effects.no_messages();
            Self::must_send(peer, &mut output, context);
        }
        context
            .counters
            .messages
            .add(read.connection.messages() - messages);
        if let Some(alarm) = read.connection.take_alarm() {
            read.set_alarm(alarm.and_then(from_now));
        }
        for step in context.effects.jobs.drain(..) {
            context.steps.push((Arc::clone(peer), step));
        }
        if !context.effects.no_messages() {
            self.deliver(peer.id, Some(read), context);
            let mut output = peer.output();
            output.withheld = false;
            Self::must_send(peer, &mut output, context);
        }
    }

    /// Has its outbox sent by [`flush`](Self::flush), if that has to be and nobody has it to do yet.
    fn must_send(
        peer: &Arc<SharedPeer<P::Session>>,
        output: &mut Output,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        if !output.withheld && !output.half.outbox.is_empty() && output.half.must_flush() {
            context.dirty.push(Arc::clone(peer));
        }
    }

    fn deliver(
        &self,
        sender: ConnectionId,
        mut read: Option<&mut ReadHalf<P::Session>>,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        let options = &self.serving.options;
        let mut effects = std::mem::take(&mut context.effects);
        for (receivers, _, parts) in effects.messages.iter() {
            for &to in receivers {
                let Some(receiver) = self.get(to) else {
                    context.counters.undeliverable.add(parts.messages.into());
                    continue;
                };
                let mut output = receiver.output();
                if output.is_closed || output.half.finish || output.failed.is_some() {
                    context.counters.undeliverable.add(parts.messages.into());
                    continue;
                }
                parts.append_to(output.half.outbox.buffer());
                context.counters.deliveries.add(parts.messages.into());
                if output.half.outbox.len() > self.holds_up_above {
                    // It is offered what waits before it holds anybody up, and once more before it is dropped, though
                    // it is not said that the socket takes more.
                    output.half.blocked &= !options.drops(output.half.outbox.len());
                    self.send(&receiver, &mut output, context);
                }
                Self::must_send(&receiver, &mut output, context);
                let waiting = output.half.outbox.len();
                if waiting <= self.holds_up_above {
                    continue;
                }
                if options.drops(waiting) && !output.withheld {
                    output.failed = Some(CloseReason::Slow);
                    context.visits.push((Arc::clone(&receiver), Visit::Look));
                } else if let Some(read) = read.as_deref_mut()
                    && !output.half.waiters.contains(&(0, sender))
                {
                    output.half.waiters.push((0, sender));
                    context.counters.held_up.add(1);
                    read.hold_up(HeldUpBy::Receiver, 1);
                }
            }
        }
        effects.clear_messages();
        context.effects = effects;
    }

    /// After a visit: the end of the connection if it has come, its timer, and what it wants to hear of.
    fn after(
        &self,
        peer: &Arc<SharedPeer<P::Session>>,
        session: &mut Option<ReadHalf<P::Session>>,
        context: &mut WorkerContext<'_, P::Session>,
        now: Instant,
    ) {
        let Some(read) = session.as_mut() else { return };
        let ends = read
            .connection
            .ending()
            .filter(|reason| reason.is_abrupt() || read.connection.is_answered());
        let mut output = peer.output();
        if let Some(reason) = ends {
            output.half.finish = true;
            if reason.is_abrupt() || output.half.outbox.is_empty() {
                let waiters = std::mem::take(&mut output.half.waiters);
                drop(output);
                for (_, sender) in waiters {
                    context
                        .visits
                        .extend(self.get(sender).map(|sender| (sender, Visit::Release)));
                }
                self.close_session(peer, read, context);
                read.lingering = closing::linger(&read.connection, &peer.socket, context.counters, now);
                if read.lingering.is_none() {
                    return self.close(peer, session, context);
                }
                output = peer.output();
            }
        }
        output.holds = read.connection.is_held();
        output.lingers = read.lingering.is_some();
        output.wants_input = output.lingers || read.is_wanted();
        // Held for its output alone, and that was taken meanwhile by another thread that did not know.
        if output.holds
            && read.connection.is_answered()
            && output.half.outbox.len() <= self.serving.options.output_limit / 2
        {
            context.visits.push((Arc::clone(peer), Visit::Look));
        }
        let options = &self.serving.options;
        read.begin_throttle(now, options);
        read.used(options, Instant::now);
        let times = [read.timer_to_set(options), output.half.timer_to_set(options)];
        drop(output);
        let times = times.into_iter().flatten();
        context.timers.extend(times.map(|at| (at, peer.id.slot())));
        context.touched.push(Arc::clone(peer));
    }

    /// The session hears that its connection is gone, which is counted; and what it says to others is delivered.
    fn close_session(
        &self,
        peer: &SharedPeer<P::Session>,
        read: &mut ReadHalf<P::Session>,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        if let Some((reason, leftover)) = read.connection.close(&mut context.effects) {
            context.interrupted.extend(leftover.map(Interrupted::Leftover));
            closing::prepare(&peer.socket, reason, context.counters);
            context.counters.closed(reason);
            self.deliver(peer.id, None, context);
        }
    }

    /// The socket lingers no more, and is closed when nobody has it in hand.
    fn close(
        &self,
        peer: &Arc<SharedPeer<P::Session>>,
        session: &mut Option<ReadHalf<P::Session>>,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        let Some(mut read) = session.take() else { return };
        self.close_session(peer, &mut read, context);
        peer.output().is_closed = true;
        *lock(&self.entries[peer.id.slot() as usize]) = None;
        context.counters.other_calls.add(1);
        let released = self.slots.release(peer.id.slot());
        context.permit |= !released.waiting.is_empty();
        context.over |= released.was_last;
        context.touched.push(Arc::clone(peer));
    }
}

/// Does a step that may block; `None` if it panicked.
pub(crate) fn do_step(step: Job) -> Option<Vec<u8>> {
    contain(step)
}
