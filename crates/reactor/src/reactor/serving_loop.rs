//! The handler that serves connections on one loop: the engine of the event-driven designs.
//!
//! A connection has a read half (the session and what it has not used) and a write half (the outbox). A loop has both
//! halves of a connection, one, or neither. Where it has both, sessions write straight into the outbox and nothing
//! is said to anybody. Where it has the read half alone, what the session sends is collected, with all else for the
//! loop of the write half, and posted once at the end of the turn.
//!
//! A turn: first comes what other loops have posted; then everything that is ready is received and used; then come
//! times; then what is for other loops is posted, and each outbox that has got something is sent once. A session with
//! much to do has a few milliseconds of a turn, together with all others like it, and goes on in the next.
//!
//! What has been posted to a loop is ahead of what a client says later: a loop posts before it sends anything, and does
//! what was posted before it uses what it has received. So what a publisher was confirmed is with those who hear it
//! before they are answered anything that they say because of it (docs/adr/0011-confirmed.md has why).
//!
//! How a connection ends, always in this order: the read half decides (the session closed, the client ended, a time
//! passed, the write half reported a failure) and asks the write half to finish, for which it goes to that one's loop;
//! that one sends what is left, unless the end is abrupt, and is gone; then the read half tells the session, counts the
//! reason, lingers if the client [may be sending](crate::closing), and gives the permit back. So each end is seen by
//! both halves, and counted once.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::balance::Watch;
use super::event_loop::{Handler, Mailbox, Reactor};
use super::interest::{Interest, Readiness, Token};
use super::manager::ReactorManager;
use super::moves::Moves;
use super::peer::{Finish, Peers};
use super::slots::Slots;
use super::tasks::{Batch, MovingReader, Outgoing, Task};
use crate::connection::{Leftover, RECEIVE_BYTES};
use crate::counters::{CloseReason, Counters};
use crate::error::Error;
use crate::id::ConnectionId;
use crate::listen::Listener;
use crate::outbox::Spares;
use crate::protocol::{Effects, Protocol};
use crate::ring::JointSends;
use crate::serving::Serving;
use crate::slice::Slice;

// Tokens of what is not a connection.
pub(super) const LISTENER: Token = Token::new(u32::MAX - 1);
const STOP: Token = Token::new(u32::MAX - 2);
const DRAIN_OVER: Token = Token::new(u32::MAX - 3);
pub(super) const ACCEPT_AGAIN: Token = Token::new(u32::MAX - 4);

/// The most emptied batches that are kept.
const SPARE_BATCHES: usize = 64;

/// The reactor under a serving loop.
pub(super) type Loop<S> = Reactor<Task<S>>;

/// Who accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptors {
    /// The first loop.
    First,
    /// Every loop, with a listening socket of its own, and it keeps what it accepts.
    Each,
}

/// What the loops of a server share.
pub(crate) struct LoopsShared<S> {
    pub slots: Slots,
    pub manager: ReactorManager,
    pub acceptors: Acceptors,
    /// One for each loop.
    pub mailboxes: Vec<Mailbox<Task<S>>>,
    /// Held while all are told that a write half moves.
    pub announcing: Mutex<()>,
    /// One for each loop, which holds it while it posts what its sessions have said.
    posting: Vec<Mutex<()>>,
    /// Emptied batches, so that a turn costs no allocation.
    pub spares: Mutex<Vec<Batch>>,
    /// Watches the loops, where connections move by their use of the CPU.
    pub watch: Option<Watch>,
}

impl<S> LoopsShared<S> {
    /// For the loops that `reactors` are to run.
    pub fn new<'r>(
        most_connections: usize,
        manager: ReactorManager,
        acceptors: Acceptors,
        watch: Option<Watch>,
        reactors: impl Iterator<Item = &'r Loop<S>>,
    ) -> Self
    where
        S: 'r,
    {
        Self {
            slots: Slots::new(most_connections),
            acceptors,
            mailboxes: reactors.map(Reactor::mailbox).collect(),
            announcing: Mutex::default(),
            posting: (0..manager.reactors()).map(|_| Mutex::default()).collect(),
            manager,
            spares: Mutex::default(),
            watch,
        }
    }

    /// While it is held, a loop posts what its sessions have said.
    pub fn posting(&self, from: usize) -> MutexGuard<'_, ()> {
        self.posting[from].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty batch.
    pub fn spare_batch(&self) -> Batch {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        spares.pop().unwrap_or_default()
    }

    /// A batch that was read.
    pub fn give_back(&self, mut batch: Batch) {
        batch.clear();
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < SPARE_BATCHES {
            spares.push(batch);
        }
    }
}

/// A listening socket, and whether it is waited for.
#[derive(Debug)]
pub(super) struct Acceptor<'a> {
    pub listener: &'a Listener,
    pub listening: bool,
}

impl<'a> Acceptor<'a> {
    /// Not waited for yet.
    pub fn new(listener: &'a Listener) -> Self {
        Self {
            listener,
            listening: false,
        }
    }

    /// Who comes from now on is refused, and can go elsewhere at once: not waited for any more, the socket would keep
    /// them in its backlog.
    pub fn close(&self) {
        self.listener.close_for_all();
    }
}

/// A session that has more to do.
#[derive(Debug)]
pub(super) enum Interrupted<S> {
    /// Of the connection in this slot, if it is here still.
    Connection(u32),
    /// Of one that is gone.
    Leftover(Leftover<S>),
}

/// One loop's part in serving.
pub(super) struct ServingLoop<'a, P: Protocol> {
    pub index: usize,
    pub serving: &'a Serving<P>,
    pub shared: &'a LoopsShared<P::Session>,
    pub counters: &'a Counters,
    /// Who has more bytes waiting holds up those who send to it.
    pub holds_up_above: usize,
    /// A write takes the place of a read: see [`one_handler`](super::one_handler).
    pub has_one_handler: bool,
    pub peers: Peers<P::Session>,
    pub effects: Effects,
    /// Where receives put their bytes.
    pub input: Box<[u8]>,
    /// Memory for outboxes.
    pub spares: Spares,
    /// Bytes put into outboxes of others since they were sent last.
    pub unsent: usize,
    /// Write halves that have something new to send.
    pub dirty: Vec<u32>,
    /// Write halves that were sent something before the turn's end, here or on the loop that they come from.
    pub sent_early: Vec<u32>,
    /// Sends all outboxes of a turn at once, where that was asked for.
    pub joint_sends: Option<JointSends>,
    /// Read halves that left something unread.
    pub queued: Vec<u32>,
    /// Sessions that have more to do, in the order in which they go on.
    pub interrupted: VecDeque<Interrupted<P::Session>>,
    /// What they have of this turn.
    pub slice: Slice,
    /// Read halves whose end was decided while others were at work.
    pub ended: Vec<u32>,
    /// Read halves that are held up since this turn, or again, or not any more.
    pub looked_at: Vec<u32>,
    /// For each loop.
    pub outgoing: Vec<Outgoing<P::Session>>,
    /// There are bytes of sessions among it.
    pub has_said: bool,
    /// Loops to be woken: empty, but while something is posted.
    to_wake: Vec<usize>,
    /// Read halves that have ended, on their way to their write halves: posted after all that anybody here has said.
    pub leaving: Vec<(MovingReader<P::Session>, Finish)>,
    /// How many different messages this loop has delivered.
    pub delivered: u64,
    /// Where connections are that have moved.
    pub moves: Moves,
    pub acceptor: Option<Acceptor<'a>>,
    /// Events since the last turn's end.
    pub events: usize,
    pub stopping: bool,
    /// The time for connections to end by themselves is over.
    pub drained: bool,
    pub failure: Option<Error>,
}

impl<'a, P: Protocol> ServingLoop<'a, P> {
    /// The loop `index` of a server; with a listening socket it accepts, and without `joint_sends` it sends by calls.
    pub fn new(
        index: usize,
        serving: &'a Serving<P>,
        shared: &'a LoopsShared<P::Session>,
        listener: Option<&'a Listener>,
        joint_sends: Option<JointSends>,
    ) -> Self {
        Self {
            index,
            serving,
            shared,
            counters: serving.counters.block(index),
            holds_up_above: serving.options.holds_up_above(),
            has_one_handler: shared.manager.has_one_handler(),
            peers: Peers::default(),
            effects: Effects::default(),
            input: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            spares: Spares::default(),
            unsent: 0,
            dirty: Vec::new(),
            sent_early: Vec::new(),
            joint_sends,
            queued: Vec::new(),
            interrupted: VecDeque::new(),
            slice: Slice::default(),
            ended: Vec::new(),
            looked_at: Vec::new(),
            outgoing: shared.mailboxes.iter().map(|_| Outgoing::new(index)).collect(),
            has_said: false,
            to_wake: Vec::new(),
            leaving: Vec::new(),
            delivered: 0,
            moves: Moves::default(),
            acceptor: listener.map(Acceptor::new),
            events: 0,
            stopping: false,
            drained: false,
            failure: None,
        }
    }

    /// Serves until the server's last connection is gone after the stop. Blocks.
    ///
    /// # Errors
    ///
    /// If the kernel refuses what the loop cannot do without; all other loops end too.
    pub fn run(mut self, mut reactor: Loop<P::Session>) -> Result<(), Error> {
        if self.index == 0
            && let Err(error) = reactor.register(self.serving.stop(), Interest::read(STOP).level())
        {
            self.fail(Error::io("waiting for the stop")(error));
        }
        if let Some(watch) = &self.shared.watch {
            watch.is_loop(self.index);
        }
        self.listen(&reactor);
        self.post_all();
        let result = reactor.run(&mut self).map_err(Error::io("waiting for events"));
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => result,
        }
    }

    /// What the loop cannot do without has failed: everyone ends.
    pub fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
        self.tell_all(|| Task::Exit);
    }

    /// The server is told to stop: this loop heard it first.
    fn stop_all(&mut self, reactor: &Loop<P::Session>) {
        // It was registered and is open.
        let _ = reactor.remove(self.serving.stop());
        let nobody_is_left = self.shared.slots.stop();
        self.tell_all(|| Task::Stop);
        if nobody_is_left {
            self.tell_all(|| Task::Exit);
        }
    }

    /// Nobody is accepted any more, and each connection is told.
    fn stop(&mut self, reactor: &mut Loop<P::Session>) {
        self.stopping = true;
        self.stop_listening(reactor);
        if let Some(acceptor) = &self.acceptor {
            acceptor.close();
        }
        let at = reactor.now() + self.serving.drain();
        reactor.set_timer(at, DRAIN_OVER);
        for slot in 0..self.peers.slots() {
            self.hear_of_stop(slot, reactor);
        }
    }

    /// Ends what has not ended by itself.
    fn end_drain(&mut self, reactor: &mut Loop<P::Session>) {
        self.drained = true;
        for slot in 0..self.peers.slots() {
            self.end(slot, CloseReason::DrainTime, reactor);
        }
    }

    /// Says how much waits here.
    fn query_pending(&self, answer: &Sender<Vec<(ConnectionId, usize)>>) {
        let peers = (0..self.peers.slots()).filter_map(|slot| self.peers.look_at(slot));
        let waiting = peers.filter_map(|peer| Some((peer.id, peer.write.as_ref()?.outbox.len())));
        // Who has asked may have given up.
        let _ = answer.send(waiting.filter(|&(_, bytes)| bytes > 0).collect());
    }

    // To other loops.

    /// After all that was said to it before.
    pub fn tell(&mut self, index: usize, task: Task<P::Session>) {
        self.outgoing[index].push(task, || self.shared.spare_batch());
    }

    /// Every loop, this one too.
    pub fn tell_all(&mut self, mut task: impl FnMut() -> Task<P::Session>) {
        for index in 0..self.outgoing.len() {
            self.tell(index, task());
        }
    }

    /// Posts what was collected, and ended read halves at last: at the loop that it comes to, the session may say
    /// more, which must not arrive before what it has said here.
    fn post_with_ended(&mut self) {
        if P::SHARED && !self.leaving.is_empty() {
            self.post_all();
        }
        for (moving, finish) in std::mem::take(&mut self.leaving) {
            // Now, since the write half may have moved since the end was decided.
            let writer = self.moves.writer_of(moving.id);
            self.shared.manager.moved(self.index, writer);
            self.tell(writer, Task::Finish(Box::new(moving), finish));
        }
        self.post_all();
    }

    /// Posts what sessions have said, before a client is sent something.
    #[inline]
    pub fn post_said(&mut self) {
        if self.has_said {
            self.post_all();
        }
    }

    /// Posts what was collected.
    pub fn post_all(&mut self) {
        self.has_said = false;
        let mut all_have_it = None;
        for (index, (outgoing, mailbox)) in self.outgoing.iter_mut().zip(&self.shared.mailboxes).enumerate() {
            let tasks = outgoing.sealed(|| self.shared.spare_batch());
            if tasks.is_empty() {
                continue;
            }
            all_have_it.get_or_insert_with(|| self.shared.posting(self.index));
            if mailbox.put(tasks.drain(..)) {
                self.to_wake.push(index);
            }
        }
        drop(all_have_it);
        for index in self.to_wake.drain(..) {
            self.counters.other_calls.add(1);
            self.shared.mailboxes[index].wake();
        }
    }
}

impl<P: Protocol> Handler<Task<P::Session>> for ServingLoop<'_, P> {
    fn readable(&mut self, token: Token, readiness: Readiness, reactor: &mut Loop<P::Session>) {
        self.events += 1;
        match token {
            LISTENER => {
                self.accept(reactor);
                self.listen_again(reactor);
            }
            STOP => self.stop_all(reactor),
            connection => match reactor.take_arrival() {
                None => self.readable(connection.number(), readiness, reactor),
                Some(arrival) => self.arrived(connection.number(), arrival, reactor),
            },
        }
    }

    fn writable(&mut self, token: Token, reactor: &mut Loop<P::Session>) {
        self.writable(token.number(), reactor);
    }

    fn timer(&mut self, token: Token, reactor: &mut Loop<P::Session>) {
        match token {
            DRAIN_OVER => self.end_drain(reactor),
            ACCEPT_AGAIN => self.listen(reactor),
            connection => self.timer(connection.number(), reactor),
        }
    }

    fn task(&mut self, task: Task<P::Session>, reactor: &mut Loop<P::Session>) {
        match task {
            Task::OpenWriter(new) => self.open_writer(new),
            Task::OpenReader(new) => self.open_reader(new, reactor),
            Task::Output(from, batch) => self.put_batch(from, batch),
            Task::Finish(moving, finish) => self.reader_ended(*moving, finish, reactor),
            Task::Gone(id, reason) => self.write_half_gone(id, reason, reactor),
            Task::Taken(id) => self.taken(id, reactor),
            Task::HoldUp(id, by) => self.hold_up(id, by),
            Task::Release(id, by) => self.release(id, by),
            Task::ReaderMoved(moving) => self.reader_moved(*moving, reactor),
            Task::ReaderIs(id, reader) => self.reader_is(id, reader),
            Task::MoveWriter(id, to) => self.move_writer(id, to),
            Task::WriterWillMove { id, from, to } => self.writer_will_move(id, from, to),
            Task::WriterDetached(id) => self.writer_detached(id, reactor),
            Task::WriterMoved(moving) => self.writer_moved(*moving, reactor),
            Task::Forget(id) => self.forget(id, reactor),
            Task::Migrate(migration) => self.migrate(migration, reactor),
            Task::RequestAck(from) => self.tell(from, Task::Ack(self.index)),
            Task::Ack(writer) => self.acknowledged(writer),
            Task::QueryPending(answer) => self.query_pending(&answer),
            Task::Permit => self.listen(reactor),
            Task::Stop => self.stop(reactor),
            Task::Exit => reactor.stop(),
        }
    }

    fn turn_ended(&mut self, reactor: &mut Loop<P::Session>) {
        self.events = 0;
        self.receive_queued(reactor);
        self.go_on_interrupted(reactor);
        // Sending can end connections and resume sessions, which makes more to send.
        while !(self.dirty.is_empty() && self.sent_early.is_empty() && self.ended.is_empty()) {
            self.flush_dirty(reactor);
            self.settle_ended(reactor);
        }
        self.move_to_groups(reactor);
        if self.shared.watch.is_some() {
            self.watch(reactor);
        }
        if !(self.queued.is_empty() && self.interrupted.is_empty()) {
            reactor.again();
        }
        self.slice.renew();
        self.look_at_held(reactor);
        self.post_with_ended();
    }
}
