//! One event loop accepts and receives for all and never waits for a session; a pool of threads runs the sessions on
//! what has come, sends their answers, and may block.
//!
//! Between them is a queue: of chunks that were received, one at a time for each connection, and of offloaded steps.
//! Back to the loop goes only what it waits for: a connection of which it holds back input is marked
//! [`ASKED`], and whoever makes an end of what held it back tells the loop. So the usual message wakes a worker and
//! nobody else. What a session sends to others is sent by the loop, once a turn.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SocketFlags};

use crate::connection::{Leftover, RECEIVE_BYTES};
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::id::ConnectionId;
use crate::listen::{Accepted, RETRY};
use crate::outbox::Spares;
use crate::protocol::{Job, Protocol};
use crate::reactor::join_handles::JoinHandles;
use crate::reactor::peer_table::{Interrupted, Output, PeerTable, SharedPeer, Visit, WorkerContext, do_step};
use crate::reactor::slots::Permit;
use crate::reactor::thread_count::ThreadCount;
use crate::reactor::{Handler, Interest, Mailbox, Reactor, Readiness, Token};
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "half-sync-half-async",
    summary: "one thread receives for all connections, a pool of threads runs their sessions and blocking steps",
    source: "Schmidt and Cranor, Half-Sync/Half-Async, 1995",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[Setting::Workers],
    made_of: |options| Some(format!("a loop and {}", made_of::some(options, "worker"))),
    check: any_settings,
};

// The marks of a connection: see [`Output::marks`](crate::reactor::peer_table::Output).
/// The loop has more to receive, and waits to be told that it may.
const ASKED: u32 = 1;

const LISTENER: Token = Token::new(u32::MAX - 1);
const STOP: Token = Token::new(u32::MAX - 2);
const DRAIN_OVER: Token = Token::new(u32::MAX - 3);
const ACCEPT_AGAIN: Token = Token::new(u32::MAX - 4);

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    // Block 0 is the loop's, and each worker has one of those after it.
    let mut reactor =
        Reactor::counting(serving.counters.clone(), 0).map_err(Error::io("making the event loop"))?;
    serving.listener.set_nonblocking(true)?;
    reactor
        .register(serving.stop(), Interest::read(STOP).level())
        .map_err(Error::io("waiting for the stop"))?;
    let table = PeerTable::new(serving);
    let pool = Pool {
        serving,
        table: &table,
        loop_: reactor.mailbox(),
        queue: Mutex::new(Queue {
            work: VecDeque::new(),
            thread_count: ThreadCount::new(serving.options.workers.clone()),
            spares: Spares::default(),
            closed: false,
        }),
        arrived: Condvar::new(),
    };
    thread::scope(|scope| {
        let handles = JoinHandles::new();
        while let Some(number) = { pool.queue().thread_count.first() } {
            match pool.start(number, scope, &handles) {
                // Without any, nobody would do the work.
                Err(error) if number == 0 => return Err(Error::io("starting a thread")(error)),
                // They are fewer, and the next try is when all are busy.
                Err(_) => break,
                Ok(()) => {}
            }
        }
        let mut async_half = AsyncHalf {
            serving,
            pool: &pool,
            scope,
            handles: handles.clone(),
            context: WorkerContext::new(serving.counters.block(0), 0),
            slots: Vec::new(),
            input: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            spares: Spares::default(),
            queued: Vec::new(),
            listening: false,
            stopping: false,
            drained: false,
            failure: None,
        };
        async_half.listen(&reactor);
        let result = reactor
            .run(&mut async_half)
            .map_err(Error::io("waiting for events"));
        pool.close();
        handles.join_all();
        match async_half.failure {
            Some(error) => Err(error),
            None => result,
        }
    })
}

/// What the pool is given to do.
enum Work<S> {
    /// This was received.
    Bytes(Arc<SharedPeer<S>>, Vec<u8>),
    Step(Arc<SharedPeer<S>>, Job),
    Visit(Arc<SharedPeer<S>>, Visit<'static>),
    /// A session whose connection is gone has more to do.
    Leftover(Leftover<S>),
}

impl<S> From<Interrupted<S>> for Work<S> {
    fn from(interrupted: Interrupted<S>) -> Self {
        match interrupted {
            Interrupted::Peer(peer) => Self::Visit(peer, Visit::Resume),
            Interrupted::Leftover(leftover) => Self::Leftover(leftover),
        }
    }
}

/// What the loop is told.
enum Task<S> {
    /// Something of another connection's session was put into its outbox.
    Send(Arc<SharedPeer<S>>),
    /// What the loop asked for: it may receive.
    Receive(ConnectionId),
    SetTimer(Instant, u32),
    Permit,
    Over,
}

/// The synchronous half, and the queue before it.
struct Pool<'a, P: Protocol> {
    serving: &'a Serving<P>,
    table: &'a PeerTable<'a, P>,
    loop_: Mailbox<Task<P::Session>>,
    queue: Mutex<Queue<P::Session>>,
    arrived: Condvar,
}

struct Queue<S> {
    work: VecDeque<Work<S>>,
    thread_count: ThreadCount,
    /// Used chunks.
    spares: Spares,
    closed: bool,
}

impl<P: Protocol> Pool<'_, P> {
    fn queue(&self) -> MutexGuard<'_, Queue<P::Session>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start<'scope>(
        &'scope self,
        number: usize,
        scope: &'scope Scope<'scope, '_>,
        handles: &JoinHandles<'scope>,
    ) -> io::Result<()> {
        let own = handles.clone();
        let thread = thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn_scoped(scope, move || self.serve(number, scope, &own))
            .inspect_err(|_| self.queue().thread_count.leave(number))?;
        handles.add(number, thread);
        Ok(())
    }

    fn push<'scope>(
        &'scope self,
        work: Work<P::Session>,
        scope: &'scope Scope<'scope, '_>,
        handles: &JoinHandles<'scope>,
    ) {
        let (more, somebody_waits) = {
            let mut queue = self.queue();
            queue.work.push_back(work);
            let pending = queue.work.len();
            (
                queue.thread_count.more(pending),
                queue.thread_count.somebody_waits(),
            )
        };
        let started = more.is_some_and(|number| self.start(number, scope, handles).is_ok());
        if !started && somebody_waits {
            self.arrived.notify_one();
        }
    }

    /// Has all threads end.
    fn close(&self) {
        self.queue().closed = true;
        self.arrived.notify_all();
    }

    /// The next thing to do, and what is left of the last one. `None`: this thread shall end.
    fn next(&self, number: usize, used: Option<Vec<u8>>) -> Option<Work<P::Session>> {
        let mut queue = self.queue();
        if let Some(chunk) = used {
            queue.spares.give(chunk);
        }
        loop {
            if let Some(work) = queue.work.pop_front() {
                return Some(work);
            }
            if queue.closed || !queue.thread_count.wait(number) {
                return None;
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.thread_count.work();
        }
    }

    /// One worker's life.
    fn serve<'scope>(
        &'scope self,
        number: usize,
        scope: &'scope Scope<'scope, '_>,
        handles: &JoinHandles<'scope>,
    ) {
        let counters = self.serving.counters.block(number + 1);
        counters.units_created.add(1);
        let mut context = WorkerContext::new(counters, 0);
        let mut tasks = Vec::new();
        let mut used = None;
        while let Some(work) = self.next(number, used.take()) {
            let now = Instant::now();
            context.slice.renew();
            let peer = match work {
                Work::Bytes(peer, mut chunk) => {
                    self.table
                        .visit(&peer, Visit::Received(&chunk), now, &mut context);
                    peer.output().is_busy = false;
                    chunk.clear();
                    used = Some(chunk);
                    Some(peer)
                }
                Work::Step(peer, step) => {
                    let bytes = do_step(step);
                    let answer = Visit::Answered(bytes.as_deref());
                    self.table.visit(&peer, answer, Instant::now(), &mut context);
                    Some(peer)
                }
                Work::Visit(peer, visit) => {
                    self.table.visit(&peer, visit, now, &mut context);
                    Some(peer)
                }
                Work::Leftover(leftover) => {
                    self.table.resume_leftover(leftover, &mut context);
                    None
                }
            };
            self.send(peer.as_ref(), now, &mut context, &mut tasks);
            // Behind all that others have to do now.
            for interrupted in context.interrupted.drain(..) {
                self.push(interrupted.into(), scope, handles);
            }
            for (peer, step) in context.steps.drain(..) {
                self.push(Work::Step(peer, step), scope, handles);
            }
            // Now, or the client's socket would stay open until somebody else has something to do.
            drop(peer);
            for peer in context.touched.drain(..) {
                tasks.extend(may_receive(&mut peer.output()).then_some(Task::Receive(peer.id)));
            }
            tasks.extend(
                context
                    .timers
                    .drain(..)
                    .map(|(at, slot)| Task::SetTimer(at, slot)),
            );
            tasks.extend(std::mem::take(&mut context.permit).then_some(Task::Permit));
            tasks.extend(std::mem::take(&mut context.over).then_some(Task::Over));
            if !tasks.is_empty() && self.loop_.post(tasks.drain(..)) {
                counters.other_calls.add(1);
            }
        }
    }

    /// Sends what the worker's own client is to get, leaves what is for others to the loop, and pays the visits that
    /// this leads to.
    fn send(
        &self,
        own: Option<&Arc<SharedPeer<P::Session>>>,
        now: Instant,
        context: &mut WorkerContext<'_, P::Session>,
        tasks: &mut Vec<Task<P::Session>>,
    ) {
        loop {
            let is_own = |peer: &Arc<_>| own.is_some_and(|own| Arc::ptr_eq(peer, own));
            let others = context.dirty.extract_if(.., |peer| !is_own(peer));
            tasks.extend(others.map(Task::Send));
            self.table.flush(context);
            let Some((peer, visit)) = context.visits.pop() else {
                return;
            };
            self.table.visit(&peer, visit, now, context);
        }
    }
}

/// Whether the loop has asked for input of a connection that can be received now. It is told so once.
fn may_receive(output: &mut Output) -> bool {
    let may = output.marks == ASKED && !output.is_busy && output.wants_input && !output.is_closed;
    if may {
        output.marks = 0;
    }
    may
}

/// The asynchronous half: the loop's handler.
struct AsyncHalf<'s, 'e, 'a, P: Protocol> {
    serving: &'a Serving<P>,
    pool: &'s Pool<'a, P>,
    scope: &'s Scope<'s, 'e>,
    handles: JoinHandles<'s>,
    context: WorkerContext<'a, P::Session>,
    slots: Vec<SlotState>,
    input: Box<[u8]>,
    /// Used chunks.
    spares: Spares,
    /// Slots to read from without an event.
    queued: Vec<u32>,
    listening: bool,
    stopping: bool,
    drained: bool,
    failure: Option<Error>,
}

/// What the loop knows of the connection in a slot.
#[derive(Clone, Copy, Default)]
struct SlotState {
    /// There may be something to receive.
    readable: bool,
    /// The end was announced: receiving goes on until it is seen.
    end_announced: bool,
    /// The end was announced, and if nothing is received somebody has to see whether the client is lost.
    may_be_lost: bool,
    /// The end was received, which the pool may not have come to yet: nothing follows it but the client's loss.
    ended: bool,
}

impl SlotState {
    /// The kernel says that there is something.
    fn hear(&mut self, readiness: Readiness) {
        let is_end = readiness == Readiness::End;
        self.readable = true;
        self.end_announced |= is_end;
        self.may_be_lost |= is_end;
    }
}

type Loop<P> = Reactor<Task<<P as Protocol>::Session>>;

impl<P: Protocol> AsyncHalf<'_, '_, '_, P> {
    fn push(&mut self, work: Work<P::Session>) {
        self.pool.push(work, self.scope, &self.handles);
    }

    fn listen(&mut self, reactor: &Loop<P>) {
        if self.listening || self.stopping {
            return;
        }
        self.listening = true;
        if let Err(error) = reactor.register(&self.serving.listener, Interest::read(LISTENER).level()) {
            self.failure
                .get_or_insert(Error::io("waiting for connections")(error));
        }
    }

    fn stop_listening(&mut self, reactor: &Loop<P>) {
        if std::mem::take(&mut self.listening) {
            // It was registered and is open.
            let _ = reactor.remove(&self.serving.listener);
        }
    }

    fn accept(&mut self, reactor: &mut Loop<P>) {
        let slots = &self.pool.table.slots;
        let Some(permit) = slots.take(0) else {
            return self.stop_listening(reactor);
        };
        let accepted = self
            .serving
            .listener
            .accept(SocketFlags::NONBLOCK, self.context.counters);
        if let Ok(Accepted::Connection(socket)) = accepted {
            return self.open(permit, socket, reactor);
        }
        if slots.put_back(permit).was_last {
            reactor.stop();
        }
        match accepted {
            Ok(Accepted::Exhausted) => {
                slots.wait(0);
                self.stop_listening(reactor);
                let at = reactor.now() + RETRY;
                reactor.set_timer(at, ACCEPT_AGAIN);
            }
            Ok(Accepted::Closed) => self.stop_listening(reactor),
            Ok(_) => {}
            Err(error) => {
                self.failure.get_or_insert(error);
                reactor.stop();
            }
        }
    }

    /// A connection begins here, since that is no work, and its events are reported.
    fn open(&mut self, permit: Permit, socket: OwnedFd, reactor: &mut Loop<P>) {
        let peer = self
            .pool
            .table
            .open(permit, socket, reactor.now(), &mut self.context);
        let slot = peer.id.slot();
        if self.slots.len() <= slot as usize {
            self.slots.resize(slot as usize + 1, SlotState::default());
        }
        self.slots[slot as usize] = SlotState::default();
        let token = Token::new(slot);
        if peer.output().is_closed {
            return;
        }
        if reactor
            .register(&peer.socket, Interest::both(token, token))
            .is_err()
        {
            // No memory or no watches left: this client cannot be served.
            self.push(Work::Visit(Arc::clone(&peer), Visit::Lost));
        }
        if self.stopping {
            self.push(Work::Visit(Arc::clone(&peer), Visit::Stop));
        }
        if self.drained {
            self.push(Work::Visit(peer, Visit::DrainOver));
        }
    }

    /// Receives one chunk, if the connection wants it and has none in the pool.
    fn receive(&mut self, slot: u32) {
        let Some(state) = self.slots.get_mut(slot as usize).filter(|state| state.readable) else {
            return;
        };
        let Some(peer) = self.pool.table.at(slot) else {
            return;
        };
        if state.ended {
            // The kernel announces an end twice: that the connection has another state, and that it can be read.
            if std::mem::take(&mut state.may_be_lost) && self.is_lost(&peer) {
                self.push(Work::Visit(peer, Visit::Lost));
            }
            return;
        }
        let lingers = {
            let mut output = peer.output();
            if output.is_busy || !output.wants_input {
                output.marks |= ASKED;
                let look = !output.is_busy && std::mem::take(&mut state.may_be_lost);
                drop(output);
                if look {
                    self.push(Work::Visit(peer, Visit::Readable(true)));
                }
                return;
            }
            output.marks = 0;
            output.is_busy = true;
            output.lingers
        };
        let counters = self.context.counters;
        counters.receives.add(1);
        let visit = match net::recv(&peer.socket, &mut *self.input, RecvFlags::empty()) {
            Ok((0, _)) => {
                state.ended = true;
                Visit::Ended
            }
            Ok((count, _)) => {
                counters.bytes_in.add(count as u64);
                state.readable = state.end_announced || count == self.input.len();
                if lingers {
                    peer.output().is_busy = false;
                    self.queued.extend(state.readable.then_some(slot));
                    let came = Visit::Received(&self.input[..count]);
                    return self
                        .pool
                        .table
                        .visit(&peer, came, Instant::now(), &mut self.context);
                }
                if state.readable {
                    peer.output().marks |= ASKED;
                }
                let chunk = self.chunk(count);
                return self.push(Work::Bytes(peer, chunk));
            }
            Err(Errno::AGAIN) => {
                state.readable = false;
                peer.output().is_busy = false;
                return;
            }
            Err(Errno::INTR) => {
                peer.output().is_busy = false;
                return self.queued.push(slot);
            }
            Err(_) => Visit::Lost,
        };
        state.readable = false;
        peer.output().is_busy = false;
        match lingers {
            // No work for the pool.
            true => self
                .pool
                .table
                .visit(&peer, visit, Instant::now(), &mut self.context),
            false => self.push(Work::Visit(peer, visit)),
        }
    }

    /// Whether the socket has failed.
    fn is_lost(&self, peer: &SharedPeer<P::Session>) -> bool {
        self.context.counters.other_calls.add(1);
        !matches!(net::sockopt::socket_error(&peer.socket), Ok(Ok(())))
    }

    /// What was received, for the pool.
    fn chunk(&mut self, count: usize) -> Vec<u8> {
        if self.spares.is_empty() {
            std::mem::swap(&mut self.spares, &mut self.pool.queue().spares);
        }
        let mut chunk = self.spares.take();
        chunk.extend_from_slice(&self.input[..count]);
        chunk
    }

    fn visit_all(&mut self, visit: impl Fn() -> Visit<'static>) {
        for slot in 0..self.slots.len() as u32 {
            if let Some(peer) = self.pool.table.at(slot) {
                self.push(Work::Visit(peer, visit()));
            }
        }
    }
}

impl<P: Protocol> Handler<Task<P::Session>> for AsyncHalf<'_, '_, '_, P> {
    fn readable(&mut self, token: Token, readiness: Readiness, reactor: &mut Loop<P>) {
        match token {
            LISTENER => self.accept(reactor),
            STOP => {
                // It was registered and is open.
                let _ = reactor.remove(self.serving.stop());
                self.stopping = true;
                self.stop_listening(reactor);
                self.serving.listener.close_for_all();
                let at = reactor.now() + self.serving.drain();
                reactor.set_timer(at, DRAIN_OVER);
                if self.pool.table.slots.stop() {
                    reactor.stop();
                }
                self.visit_all(|| Visit::Stop);
            }
            slot => {
                if let Some(state) = self.slots.get_mut(slot.number() as usize) {
                    state.hear(readiness);
                    self.receive(slot.number());
                }
            }
        }
    }

    fn writable(&mut self, token: Token, _: &mut Loop<P>) {
        if let Some(peer) = self.pool.table.at(token.number()) {
            self.pool.table.writable(&peer, &mut self.context);
        }
    }

    fn timer(&mut self, token: Token, reactor: &mut Loop<P>) {
        match token {
            DRAIN_OVER => {
                self.drained = true;
                self.visit_all(|| Visit::DrainOver);
            }
            ACCEPT_AGAIN => self.listen(reactor),
            slot => {
                if let Some(peer) = self.pool.table.at(slot.number()) {
                    self.push(Work::Visit(peer, Visit::Timer));
                }
            }
        }
    }

    fn task(&mut self, task: Task<P::Session>, reactor: &mut Loop<P>) {
        match task {
            Task::Send(peer) => self.context.dirty.push(peer),
            Task::Receive(id) => self.receive(id.slot()),
            Task::SetTimer(at, slot) => reactor.set_timer(at, Token::new(slot)),
            Task::Permit => self.listen(reactor),
            Task::Over => reactor.stop(),
        }
    }

    fn turn_ended(&mut self, reactor: &mut Loop<P>) {
        let before = self.queued.len();
        for next in 0..before {
            self.receive(self.queued[next]);
        }
        self.queued.drain(..before);
        self.pool.table.flush(&mut self.context);
        // Blocked sockets are reported when they are not any more.
        for peer in self.context.touched.drain(..) {
            if may_receive(&mut peer.output()) {
                self.queued.push(peer.id.slot());
            }
        }
        for (peer, visit) in std::mem::take(&mut self.context.visits) {
            self.push(Work::Visit(peer, visit));
        }
        for (peer, step) in std::mem::take(&mut self.context.steps) {
            self.push(Work::Step(peer, step));
        }
        for interrupted in std::mem::take(&mut self.context.interrupted) {
            self.push(interrupted.into());
        }
        self.context.slice.renew();
        for (at, slot) in self.context.timers.drain(..) {
            reactor.set_timer(at, Token::new(slot));
        }
        if std::mem::take(&mut self.context.permit) {
            self.listen(reactor);
        }
        if std::mem::take(&mut self.context.over) {
            reactor.stop();
        }
        if !self.queued.is_empty() {
            reactor.again();
        }
        if self.failure.is_some() {
            reactor.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_told_once_that_it_may_receive_what_it_asked_for() {
        for (marks, is_busy, wants_input, is_closed, may) in [
            (ASKED, false, true, false, true),
            (0, false, true, false, false),
            (0, true, true, false, false),
            (ASKED, true, true, false, false),
            (ASKED, false, false, false, false),
            (ASKED, false, true, true, false),
            (ASKED, false, false, true, false),
        ] {
            let mut output = Output::default();
            (output.marks, output.is_busy) = (marks, is_busy);
            (output.wants_input, output.is_closed) = (wants_input, is_closed);
            let case = format!("{output:?}");
            assert_eq!(may_receive(&mut output), may, "{case}");
            assert_eq!(output.marks, if may { 0 } else { marks }, "{case}");
            assert!(!may_receive(&mut output), "{case}: twice");
        }
    }

    #[test]
    fn an_end_that_was_announced_stays_announced() {
        let mut state = SlotState::default();
        for (readiness, is_end) in [
            (Readiness::Data, false),
            (Readiness::End, true),
            (Readiness::Data, true),
            (Readiness::End, true),
        ] {
            state.hear(readiness);
            assert_eq!(
                (state.readable, state.end_announced, state.may_be_lost),
                (true, is_end, is_end)
            );
        }
    }
}
