//! One event loop accepts and receives for all and never waits for a session; a pool of threads runs the sessions on
//! what has come, sends their answers, and may block.
//!
//! Between them is a queue: of chunks that were received, one at a time for each connection, and of offloaded steps.
//! Back to the loop goes only what it waits for: a connection of which it holds back input is marked
//! [`ASKED`], and whoever makes an end of what held it back tells the loop. So the usual message wakes a worker and
//! nobody else. What a session sends to others is sent by the loop, once a turn.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SocketFlags};

use crate::connection::RECEIVE_BYTES;
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::id::ConnectionId;
use crate::listen::{Accepted, RETRY};
use crate::options::Setting;
use crate::protocol::{Job, Protocol};
use crate::reactor::hall::{Guest, Hall, Hands, Visit, do_step};
use crate::reactor::headcount::Headcount;
use crate::reactor::joins::Joins;
use crate::reactor::slots::Permit;
use crate::reactor::{Handler, Interest, Mailbox, Reactor, Readiness, Token};
use crate::server::Serving;

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

/// The most chunks that are kept for reuse.
const SPARE_CHUNKS: usize = 256;

// The marks of a connection: see [`Output::marks`](crate::reactor::hall::Output).
/// A chunk is in the pool.
const BUSY: u32 = 1;
/// The loop has more to receive, and waits to be told that it may.
const ASKED: u32 = 2;

const LISTENER: Token = Token::new(u32::MAX - 1);
const STOP: Token = Token::new(u32::MAX - 2);
const DRAIN_OVER: Token = Token::new(u32::MAX - 3);
const ACCEPT_AGAIN: Token = Token::new(u32::MAX - 4);

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    // Block 0 is the loop's, and each worker has one of those after it.
    let mut reactor =
        Reactor::counting(serving.board.clone(), 0).map_err(Error::io("making the event loop"))?;
    serving.listener.set_nonblocking(true)?;
    reactor
        .register(serving.stop(), Interest::read(STOP).level())
        .map_err(Error::io("waiting for the stop"))?;
    let hall = Hall::new(serving);
    let pool = Pool {
        serving,
        hall: &hall,
        loop_: reactor.mailbox(),
        queue: Mutex::new(Queue {
            work: VecDeque::new(),
            headcount: Headcount::new(serving.options.workers.clone()),
            spare: Vec::new(),
            closed: false,
        }),
        arrived: Condvar::new(),
    };
    thread::scope(|scope| {
        let joins = Joins::new();
        while let Some(number) = { pool.queue().headcount.first() } {
            pool.start(number, scope, &joins);
        }
        let mut async_half = AsyncHalf {
            serving,
            pool: &pool,
            scope,
            joins: joins.clone(),
            hands: Hands::new(serving.board.block(0), 0),
            seats: Vec::new(),
            input: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            spare: Vec::new(),
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
        joins.join_all();
        match async_half.failure {
            Some(error) => Err(error),
            None => result,
        }
    })
}

/// What the pool is given to do.
enum Work<S> {
    /// This was received.
    Bytes(Arc<Guest<S>>, Vec<u8>),
    Step(Arc<Guest<S>>, Job),
    Visit(Arc<Guest<S>>, Visit<'static>),
}

/// What the loop is told.
enum Task<S> {
    /// Something of another connection's session was put into its outbox.
    Send(Arc<Guest<S>>),
    /// What the loop asked for: it may receive.
    Receive(ConnectionId),
    SetTimer(Instant, u32),
    Permit,
    Over,
}

/// The synchronous half, and the queue before it.
struct Pool<'a, P: Protocol> {
    serving: &'a Serving<P>,
    hall: &'a Hall<'a, P>,
    loop_: Mailbox<Task<P::Session>>,
    queue: Mutex<Queue<P::Session>>,
    arrived: Condvar,
}

struct Queue<S> {
    work: VecDeque<Work<S>>,
    headcount: Headcount,
    /// Used chunks.
    spare: Vec<Vec<u8>>,
    closed: bool,
}

impl<P: Protocol> Pool<'_, P> {
    fn queue(&self) -> MutexGuard<'_, Queue<P::Session>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start<'scope>(&'scope self, number: usize, scope: &'scope Scope<'scope, '_>, joins: &Joins<'scope>) {
        let own = joins.clone();
        let thread = thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn_scoped(scope, move || self.serve(number, scope, &own));
        match thread {
            Ok(thread) => joins.add(number, thread),
            // The others do without it.
            Err(_) => self.queue().headcount.leave(number),
        }
    }

    fn push<'scope>(
        &'scope self,
        work: Work<P::Session>,
        scope: &'scope Scope<'scope, '_>,
        joins: &Joins<'scope>,
    ) {
        let (more, somebody_waits) = {
            let mut queue = self.queue();
            queue.work.push_back(work);
            let pending = queue.work.len();
            (queue.headcount.more(pending), queue.headcount.somebody_waits())
        };
        if let Some(number) = more {
            self.start(number, scope, joins);
        } else if somebody_waits {
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
        if let Some(chunk) = used.filter(|_| queue.spare.len() < SPARE_CHUNKS) {
            queue.spare.push(chunk);
        }
        loop {
            if let Some(work) = queue.work.pop_front() {
                return Some(work);
            }
            if queue.closed || !queue.headcount.wait(number) {
                return None;
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.headcount.work();
        }
    }

    /// One worker's life.
    fn serve<'scope>(&'scope self, number: usize, scope: &'scope Scope<'scope, '_>, joins: &Joins<'scope>) {
        let counters = self.serving.board.block(number + 1);
        counters.units_created.add(1);
        let mut hands = Hands::new(counters, 0);
        let mut tasks = Vec::new();
        let mut used = None;
        while let Some(work) = self.next(number, used.take()) {
            let now = Instant::now();
            let guest = match work {
                Work::Bytes(guest, mut chunk) => {
                    self.hall.visit(&guest, Visit::Received(&chunk), now, &mut hands);
                    guest.output().marks &= !BUSY;
                    chunk.clear();
                    used = Some(chunk);
                    guest
                }
                Work::Step(guest, step) => {
                    let bytes = do_step(step);
                    let answer = Visit::Answered(bytes.as_deref());
                    self.hall.visit(&guest, answer, Instant::now(), &mut hands);
                    guest
                }
                Work::Visit(guest, visit) => {
                    self.hall.visit(&guest, visit, now, &mut hands);
                    guest
                }
            };
            self.send(&guest, now, &mut hands, &mut tasks);
            for (guest, step) in hands.steps.drain(..) {
                self.push(Work::Step(guest, step), scope, joins);
            }
            // Now, or the client's socket would stay open until somebody else has something to do.
            drop(guest);
            for guest in hands.touched.drain(..) {
                tasks.extend(may_receive(&guest).then_some(Task::Receive(guest.id)));
            }
            tasks.extend(hands.timers.drain(..).map(|(at, slot)| Task::SetTimer(at, slot)));
            tasks.extend(std::mem::take(&mut hands.permit).then_some(Task::Permit));
            tasks.extend(std::mem::take(&mut hands.over).then_some(Task::Over));
            if !tasks.is_empty() && self.loop_.post(tasks.drain(..)) {
                counters.other_calls.add(1);
            }
        }
    }

    /// Sends what the worker's own client is to get, leaves what is for others to the loop, and pays the visits that
    /// this leads to.
    fn send(
        &self,
        own: &Arc<Guest<P::Session>>,
        now: Instant,
        hands: &mut Hands<'_, P::Session>,
        tasks: &mut Vec<Task<P::Session>>,
    ) {
        loop {
            let others = hands.dirty.extract_if(.., |guest| !Arc::ptr_eq(guest, own));
            tasks.extend(others.map(Task::Send));
            self.hall.flush(hands);
            let Some((guest, visit)) = hands.visits.pop() else {
                return;
            };
            self.hall.visit(&guest, visit, now, hands);
        }
    }
}

/// Whether the loop has asked for input of a connection that can be received now. It is told so once.
fn may_receive<S>(guest: &Guest<S>) -> bool {
    let mut output = guest.output();
    let may = output.marks == ASKED && output.wants_input && !output.is_closed;
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
    joins: Joins<'s>,
    hands: Hands<'a, P::Session>,
    seats: Vec<Seat>,
    input: Box<[u8]>,
    /// Used chunks.
    spare: Vec<Vec<u8>>,
    /// Seats to read from without an event.
    queued: Vec<u32>,
    listening: bool,
    stopping: bool,
    drained: bool,
    failure: Option<Error>,
}

/// What the loop knows of the connection in a slot.
#[derive(Clone, Copy, Default)]
struct Seat {
    /// There may be something to receive.
    readable: bool,
    /// The end was announced: receiving goes on until it is seen.
    end_announced: bool,
    /// The end was announced, and if nothing is received somebody has to see whether the client is lost.
    may_be_lost: bool,
    /// The end was received, which the pool may not have come to yet: nothing follows it but the client's loss.
    ended: bool,
}

type Loop<P> = Reactor<Task<<P as Protocol>::Session>>;

impl<P: Protocol> AsyncHalf<'_, '_, '_, P> {
    fn push(&mut self, work: Work<P::Session>) {
        self.pool.push(work, self.scope, &self.joins);
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
        let slots = &self.pool.hall.slots;
        let Some(permit) = slots.take(0) else {
            return self.stop_listening(reactor);
        };
        let accepted = self
            .serving
            .listener
            .accept(SocketFlags::NONBLOCK, self.hands.counters);
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
        let guest = self
            .pool
            .hall
            .open(permit, socket, reactor.now(), &mut self.hands);
        let slot = guest.id.slot();
        if self.seats.len() <= slot as usize {
            self.seats.resize(slot as usize + 1, Seat::default());
        }
        self.seats[slot as usize] = Seat::default();
        let token = Token::new(slot);
        if guest.output().is_closed {
            return;
        }
        if reactor
            .register(&guest.socket, Interest::both(token, token))
            .is_err()
        {
            // No memory or no watches left: this client cannot be served.
            self.push(Work::Visit(Arc::clone(&guest), Visit::Lost));
        }
        if self.stopping {
            self.push(Work::Visit(Arc::clone(&guest), Visit::Stop));
        }
        if self.drained {
            self.push(Work::Visit(guest, Visit::DrainOver));
        }
    }

    /// Receives one chunk, if the connection wants it and has none in the pool.
    fn receive(&mut self, slot: u32) {
        let Some(seat) = self.seats.get_mut(slot as usize).filter(|seat| seat.readable) else {
            return;
        };
        let Some(guest) = self.pool.hall.at(slot) else {
            return;
        };
        if seat.ended {
            // The kernel announces an end twice: that the connection has another state, and that it can be read.
            if std::mem::take(&mut seat.may_be_lost) && self.is_lost(&guest) {
                self.push(Work::Visit(guest, Visit::Lost));
            }
            return;
        }
        {
            let mut output = guest.output();
            if output.marks & BUSY != 0 || !output.wants_input {
                output.marks |= ASKED;
                let look = output.marks & BUSY == 0 && std::mem::take(&mut seat.may_be_lost);
                drop(output);
                if look {
                    self.push(Work::Visit(guest, Visit::Readable(true)));
                }
                return;
            }
            output.marks = BUSY;
        }
        let counters = self.hands.counters;
        counters.receives.add(1);
        let work = match net::recv(&guest.socket, &mut *self.input, RecvFlags::empty()) {
            Ok((0, _)) => {
                seat.ended = true;
                Work::Visit(Arc::clone(&guest), Visit::Ended)
            }
            Ok((count, _)) => {
                counters.bytes_in.add(count as u64);
                seat.readable = seat.end_announced || count == self.input.len();
                if seat.readable {
                    guest.output().marks |= ASKED;
                }
                let chunk = self.chunk(count);
                return self.push(Work::Bytes(guest, chunk));
            }
            Err(Errno::AGAIN) => {
                seat.readable = false;
                guest.output().marks = 0;
                return;
            }
            Err(Errno::INTR) => {
                guest.output().marks = 0;
                return self.queued.push(slot);
            }
            Err(_) => Work::Visit(Arc::clone(&guest), Visit::Lost),
        };
        seat.readable = false;
        guest.output().marks = 0;
        self.push(work);
    }

    /// Whether the socket has failed.
    fn is_lost(&self, guest: &Guest<P::Session>) -> bool {
        self.hands.counters.other_calls.add(1);
        !matches!(net::sockopt::socket_error(&guest.socket), Ok(Ok(())))
    }

    /// What was received, for the pool.
    fn chunk(&mut self, count: usize) -> Vec<u8> {
        if self.spare.is_empty() {
            std::mem::swap(&mut self.spare, &mut self.pool.queue().spare);
        }
        let mut chunk = self.spare.pop().unwrap_or_default();
        chunk.extend_from_slice(&self.input[..count]);
        chunk
    }

    fn visit_all(&mut self, visit: impl Fn() -> Visit<'static>) {
        for slot in 0..self.seats.len() as u32 {
            if let Some(guest) = self.pool.hall.at(slot) {
                self.push(Work::Visit(guest, visit()));
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
                if self.pool.hall.slots.stop() {
                    reactor.stop();
                }
                self.visit_all(|| Visit::Stop);
            }
            slot => {
                if let Some(seat) = self.seats.get_mut(slot.number() as usize) {
                    seat.readable = true;
                    seat.end_announced |= readiness == Readiness::End;
                    seat.may_be_lost |= readiness == Readiness::End;
                    self.receive(slot.number());
                }
            }
        }
    }

    fn writable(&mut self, token: Token, _: &mut Loop<P>) {
        if let Some(guest) = self.pool.hall.at(token.number()) {
            self.pool.hall.writable(&guest, &mut self.hands);
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
                if let Some(guest) = self.pool.hall.at(slot.number()) {
                    self.push(Work::Visit(guest, Visit::Timer));
                }
            }
        }
    }

    fn task(&mut self, task: Task<P::Session>, reactor: &mut Loop<P>) {
        match task {
            Task::Send(guest) => self.hands.dirty.push(guest),
            Task::Receive(id) => self.receive(id.slot()),
            Task::SetTimer(at, slot) => reactor.set_timer(at, Token::new(slot)),
            Task::Permit => self.listen(reactor),
            Task::Over => reactor.stop(),
        }
    }

    fn turn_ended(&mut self, reactor: &mut Loop<P>) {
        for slot in std::mem::take(&mut self.queued) {
            self.receive(slot);
        }
        self.pool.hall.flush(&mut self.hands);
        // Blocked sockets are reported when they are not any more.
        for guest in std::mem::take(&mut self.hands.touched) {
            if may_receive(&guest) {
                self.queued.push(guest.id.slot());
            }
        }
        for (guest, visit) in std::mem::take(&mut self.hands.visits) {
            self.push(Work::Visit(guest, visit));
        }
        for (guest, step) in std::mem::take(&mut self.hands.steps) {
            self.push(Work::Step(guest, step));
        }
        for (at, slot) in self.hands.timers.drain(..) {
            reactor.set_timer(at, Token::new(slot));
        }
        if std::mem::take(&mut self.hands.permit) {
            self.listen(reactor);
        }
        if std::mem::take(&mut self.hands.over) {
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
