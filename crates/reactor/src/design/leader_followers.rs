//! Threads take turns: the leader waits for one event, makes a follower the leader, and handles the event itself.
//!
//! All share one epoll set. A handle is reported once and then not again before it is handled (`EPOLLONESHOT`), so
//! that nobody else gets it meanwhile. Leading is holding a lock: giving it up wakes one follower. The leader accepts
//! without giving it up: a new connection is no work, and would only wake one more.
//!
//! Where connections send to each other, a thread that finds the next event ready, and nobody leading, leads and
//! handles it before it sends: what several messages have for one client is one send.
//!
//! An offloaded step is done by the thread that handled the event, holding nothing: the others go on, with this
//! client too.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::connection::RECEIVE_BYTES;
use crate::counters::Counters;
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::listen::{Accepted, RETRY};
use crate::protocol::Protocol;
use crate::reactor::Token;
use crate::reactor::join_handles::JoinHandles;
use crate::reactor::peer_table::{Interrupted, PeerTable, SharedPeer, Visit, WorkerContext, do_step};
use crate::reactor::slots::Permit;
use crate::reactor::thread_count::ThreadCount;
use crate::reactor::timers::Timers;
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "leader-followers",
    summary: "threads take turns: one waits for an event, lets the next one wait, and handles it",
    source: "Schmidt, O'Ryan and others, Leader/Followers, 2000",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[Setting::Workers],
    made_of: |options| Some(made_of::some(options, "thread")),
    check: any_settings,
};

/// In the upper half of an event's data: the lower half is not a slot but one of what follows.
const NOT_A_CONNECTION: u64 = (u32::MAX as u64) << 32;
const LISTENER: u64 = NOT_A_CONNECTION | 1;
const STOP: u64 = NOT_A_CONNECTION | 2;
const TIMER: u64 = NOT_A_CONNECTION | 3;
const OVER: u64 = NOT_A_CONNECTION | 4;

/// Timers of what is not a connection.
const DRAIN_OVER: Token = Token::new(u32::MAX - 1);
const ACCEPT_AGAIN: Token = Token::new(u32::MAX - 2);

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let shared = Shared::new(serving).map_err(Error::io("making what the threads share"))?;
    serving.listener.set_nonblocking(true)?;
    shared.listen(true, serving.counters.block(0));
    shared
        .report(serving.stop(), STOP, epoll::EventFlags::IN | ONCE, false)
        .map_err(Error::io("waiting for the stop"))?;
    thread::scope(|scope| {
        let handles = JoinHandles::new();
        let first = shared.thread_count().first();
        // Where no thread can be made they are fewer, and the next try is when all are busy.
        while let Some(number) = { shared.thread_count().first() } {
            if shared.start(number, scope, &handles).is_err() {
                break;
            }
        }
        // This thread is one of them. Should it leave, it waits here for the others.
        if let Some(number) = first {
            shared.serve(number, scope, &handles);
        }
        handles.join_all();
    });
    match lock(&shared.failure).take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The most events that a thread handles before it sends what they have produced.
const MOST_EVENTS: usize = 64;
const ONCE: epoll::EventFlags = epoll::EventFlags::ONESHOT;

/// What the threads share.
struct Shared<'a, P: Protocol> {
    serving: &'a Serving<P>,
    table: PeerTable<'a, P>,
    epoll: OwnedFd,
    /// Whoever holds it is the leader.
    leading: Mutex<()>,
    thread_count: Mutex<ThreadCount>,
    timers: Mutex<Timers>,
    /// Goes off at the first of `timers`.
    alarm: OwnedFd,
    /// Readable once `over` is set, to wake the leader.
    wake_fd: OwnedFd,
    /// Set once, before `wake_fd` becomes readable, by the thread that closed the last connection (or failed); read by
    /// leaders. All its accesses are sequentially consistent for simplicity: one a turn.
    over: AtomicBool,
    /// Nobody is accepted any more.
    stopping: AtomicBool,
    drained: AtomicBool,
    failure: Mutex<Option<Error>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, P: Protocol> Shared<'a, P> {
    fn new(serving: &'a Serving<P>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Self {
            serving,
            table: PeerTable::new(serving),
            epoll,
            leading: Mutex::new(()),
            thread_count: Mutex::new(ThreadCount::new(serving.options.workers.clone())),
            timers: Mutex::default(),
            alarm,
            wake_fd,
            over: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            failure: Mutex::default(),
        };
        // An edge each time it goes off, so nobody needs to read it.
        shared.report(
            &shared.alarm,
            TIMER,
            epoll::EventFlags::IN | epoll::EventFlags::ET,
            false,
        )?;
        shared.report(&shared.wake_fd, OVER, epoll::EventFlags::IN, false)?;
        shared.report(&serving.listener, LISTENER, epoll::EventFlags::empty(), false)?;
        Ok(shared)
    }

    fn thread_count(&self) -> MutexGuard<'_, ThreadCount> {
        lock(&self.thread_count)
    }

    /// Has the kernel report `handle`, which it knows already or not.
    fn report(
        &self,
        handle: impl AsFd,
        data: u64,
        flags: epoll::EventFlags,
        known: bool,
    ) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(data);
        match known {
            true => epoll::modify(&self.epoll, handle, data, flags),
            false => epoll::add(&self.epoll, handle, data, flags),
        }
    }

    /// Reports connections, or (`false`) none.
    fn listen(&self, listens: bool, counters: &Counters) {
        let flags = match listens {
            true => epoll::EventFlags::IN,
            false => epoll::EventFlags::empty(),
        };
        counters.other_calls.add(1);
        // It is known and open.
        let _ = self.report(&self.serving.listener, LISTENER, flags, true);
    }

    fn start<'scope>(
        &'scope self,
        number: usize,
        scope: &'scope Scope<'scope, '_>,
        handles: &JoinHandles<'scope>,
    ) -> io::Result<()> {
        let own = handles.clone();
        let thread = thread::Builder::new()
            .name(format!("follower-{number}"))
            .spawn_scoped(scope, move || self.serve(number, scope, &own))
            .inspect_err(|_| self.thread_count().leave(number))?;
        handles.add(number, thread);
        Ok(())
    }

    /// The block of a thread.
    fn counters(&self, number: usize) -> &'a Counters {
        self.serving.counters.block(number)
    }

    /// One thread's life.
    fn serve<'scope>(
        &'scope self,
        number: usize,
        scope: &'scope Scope<'scope, '_>,
        handles: &JoinHandles<'scope>,
    ) {
        let counters = self.counters(number);
        counters.units_created.add(u64::from(number > 0));
        let mut context = WorkerContext::new(counters, RECEIVE_BYTES);
        let mut events = Vec::with_capacity(1);
        while self.thread_count().wait(number) {
            let leading = lock(&self.leading);
            if self.over.load(Ordering::SeqCst) {
                // Its number stays taken, so that nobody is started any more in its place.
                return;
            }
            let waited = self.lead(&mut events, &mut context);
            // The leader counts among those who wait until it has something to do.
            let more = {
                let mut thread_count = self.thread_count();
                thread_count.work();
                thread_count.more(1)
            };
            drop(leading);
            if !matches!(waited, Ok(_) | Err(Errno::INTR)) {
                self.fail(Error::io("waiting for events")(Errno::IO));
            }
            if let Some(number) = more {
                // Else those that are there do it.
                let _ = self.start(number, scope, handles);
            }
            context.slice.renew();
            if let Some(event) = events.first() {
                self.handle(event, &mut context);
            }
            let mut handled = 1;
            while handled < MOST_EVENTS && self.handle_ready(&mut events, &mut context) {
                handled += 1;
            }
            self.finish(&mut context);
            self.go_on_interrupted(&mut events, &mut context);
        }
    }

    /// Handles one event more, if it is there already and nobody leads; but sends first if a step is to be done, which
    /// may block. Whether there was one.
    fn handle_ready(
        &self,
        events: &mut Vec<epoll::Event>,
        context: &mut WorkerContext<'_, P::Session>,
    ) -> bool {
        if !P::SHARED || context.dirty.is_empty() || !context.steps.is_empty() {
            return false;
        }
        self.look(events, context);
        // Nobody is accepted here: that is reported again.
        let event = events.first().filter(|event| event.data.u64() != LISTENER);
        event.inspect(|event| self.handle(event, context)).is_some()
    }

    /// Goes on with those that had much to do, one after the other, and in between handles all that is ready where
    /// nobody else does.
    fn go_on_interrupted(&self, events: &mut Vec<epoll::Event>, context: &mut WorkerContext<'_, P::Session>) {
        while !context.interrupted.is_empty() {
            context.slice.renew();
            for _ in 0..MOST_EVENTS {
                self.look(events, context);
                match events.first() {
                    None => break,
                    Some(event) if event.data.u64() == LISTENER => self.accept(Instant::now(), context),
                    Some(event) => self.handle(event, context),
                }
            }
            match context.interrupted.remove(0) {
                Interrupted::Peer(peer) => self.table.visit(&peer, Visit::Resume, Instant::now(), context),
                Interrupted::Leftover(leftover) => self.table.resume_leftover(leftover, context),
            }
            self.finish(context);
        }
    }

    /// Looks for an event that is there already, if nobody leads.
    fn look(&self, events: &mut Vec<epoll::Event>, context: &WorkerContext<'_, P::Session>) {
        events.clear();
        let Ok(_leading) = self.leading.try_lock() else {
            return;
        };
        context.counters.waits.add(1);
        let at_once = Some(&Timespec::default());
        // Should it fail, so does the next leader's.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), at_once);
        context.counters.wake_ups.add(1);
    }

    /// Waits for an event that is work, and accepts meanwhile. Without one, what was accepted has made work.
    fn lead(
        &self,
        events: &mut Vec<epoll::Event>,
        context: &mut WorkerContext<'_, P::Session>,
    ) -> Result<(), Errno> {
        loop {
            events.clear();
            context.counters.waits.add(1);
            let waited = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), None);
            context.counters.wake_ups.add(1);
            if events.first().is_none_or(|event| event.data.u64() != LISTENER) {
                return waited.map(|_| ());
            }
            events.clear();
            self.accept(Instant::now(), context);
            if !context.steps.is_empty() {
                return Ok(());
            }
            self.finish(context);
            if self.over.load(Ordering::SeqCst) || !context.interrupted.is_empty() {
                return Ok(());
            }
        }
    }

    fn handle(&self, event: &epoll::Event, context: &mut WorkerContext<'_, P::Session>) {
        use epoll::EventFlags;
        let now = Instant::now();
        match event.data.u64() {
            STOP => self.stop(now, context),
            TIMER => self.times(now, context),
            OVER => {}
            data => {
                let slot = data as u32;
                let known = |peer: &Arc<SharedPeer<P::Session>>| peer.id.generation() == (data >> 32) as u32;
                let Some(peer) = self.table.at(slot).filter(known) else {
                    return;
                };
                peer.output().marks = ONCE.bits();
                let flags = event.flags;
                let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
                if flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
                    self.table.writable(&peer, context);
                }
                if ended || flags.contains(EventFlags::IN) {
                    self.table.visit(&peer, Visit::Readable(ended), now, context);
                } else {
                    context.touched.push(peer);
                }
            }
        }
    }

    /// Does all that visits have left to be done.
    fn finish(&self, context: &mut WorkerContext<'_, P::Session>) {
        loop {
            self.table.flush(context);
            if let Some((peer, visit)) = context.visits.pop() {
                self.table.visit(&peer, visit, Instant::now(), context);
                continue;
            }
            // Before a step that may block: others can go on with all that was touched.
            while let Some(peer) = context.touched.pop() {
                self.arm(&peer, context);
            }
            self.set_timers(context);
            if std::mem::take(&mut context.permit) && !self.stopping.load(Ordering::SeqCst) {
                self.listen(true, context.counters);
            }
            if std::mem::take(&mut context.over) {
                self.end();
            }
            if context.steps.is_empty() {
                // Whom the kernel did not take.
                if !context.visits.is_empty() {
                    continue;
                }
                return;
            }
            let (peer, step) = context.steps.remove(0);
            let bytes = do_step(step);
            let answer = Visit::Answered(bytes.as_deref());
            self.table.visit(&peer, answer, Instant::now(), context);
        }
    }

    /// Has the kernel report what the connection waits for.
    fn arm(&self, peer: &SharedPeer<P::Session>, context: &mut WorkerContext<'_, P::Session>) {
        use epoll::EventFlags;
        let mut output = peer.output();
        if output.is_closed {
            return;
        }
        let mut flags = ONCE;
        flags.set(EventFlags::IN | EventFlags::RDHUP, output.wants_input);
        flags.set(EventFlags::OUT, output.is_blocked());
        if output.marks == flags.bits() && flags != ONCE {
            return;
        }
        let known = output.marks != 0;
        output.marks = flags.bits();
        context.counters.other_calls.add(1);
        let data = u64::from(peer.id.generation()) << 32 | u64::from(peer.id.slot());
        if self.report(&peer.socket, data, flags, known).is_err() {
            // No memory or no watches left: this client cannot be served.
            drop(output);
            if let Some(peer) = self.table.at(peer.id.slot()) {
                context.visits.push((peer, Visit::Lost));
            }
        }
    }

    /// A permit to accept. Without one nothing is reported of the listening socket until one comes back: in this order,
    /// so that whoever gives one back and hears that it is waited for comes after.
    fn permit(&self, counters: &Counters) -> Option<Permit> {
        let slots = &self.table.slots;
        slots.take(0).or_else(|| {
            self.listen(false, counters);
            let permit = slots.take(0)?;
            self.listen(true, counters);
            Some(permit)
        })
    }

    /// Accepts one connection.
    fn accept(&self, now: Instant, context: &mut WorkerContext<'_, P::Session>) {
        let Some(permit) = self.permit(context.counters) else {
            return;
        };
        let accepted = self
            .serving
            .listener
            .accept(SocketFlags::NONBLOCK, context.counters);
        self.accepted(permit, accepted, now, context);
    }

    fn accepted(
        &self,
        permit: Permit,
        accepted: Result<Accepted, Error>,
        now: Instant,
        context: &mut WorkerContext<'_, P::Session>,
    ) {
        if let Ok(Accepted::Connection(socket)) = accepted {
            let peer = self.table.open(permit, socket, now, context);
            if self.stopping.load(Ordering::SeqCst) {
                context.visits.push((Arc::clone(&peer), Visit::Stop));
            }
            if self.drained.load(Ordering::SeqCst) {
                context.visits.push((peer, Visit::DrainOver));
            }
            return;
        }
        let released = self.table.slots.put_back(permit);
        context.over |= released.was_last;
        // Another thread was refused this one, and hears of no other.
        context.permit |= !released.waiting.is_empty();
        match accepted {
            Ok(Accepted::Exhausted) => {
                self.listen(false, context.counters);
                self.table.slots.wait(0);
                self.set_timer(now + RETRY, ACCEPT_AGAIN, context.counters);
            }
            Ok(Accepted::Closed) => self.listen(false, context.counters),
            Ok(_) => {}
            Err(error) => self.fail(error),
        }
    }

    /// Tells every connection.
    fn stop(&self, now: Instant, context: &mut WorkerContext<'_, P::Session>) {
        self.stopping.store(true, Ordering::SeqCst);
        context.counters.other_calls.add(1);
        // Out of sight before it is closed: the kernel reports a closed socket whatever is asked of it.
        let _ = epoll::delete(&self.epoll, &self.serving.listener);
        self.serving.listener.close_for_all();
        context.over |= self.table.slots.stop();
        self.set_timer(now + self.serving.drain(), DRAIN_OVER, context.counters);
        self.visit_all(|| Visit::Stop, context);
    }

    fn visit_all(&self, visit: impl Fn() -> Visit<'static>, context: &mut WorkerContext<'_, P::Session>) {
        for slot in 0..self.serving.options.max_connections {
            context
                .visits
                .extend(self.table.at(slot as u32).map(|peer| (peer, visit())));
        }
    }

    /// Handles the times that have come.
    fn times(&self, now: Instant, context: &mut WorkerContext<'_, P::Session>) {
        let mut due = Vec::new();
        {
            let mut timers = lock(&self.timers);
            due.extend(std::iter::from_fn(|| timers.due(now)));
            self.set_alarm(&timers, context.counters);
        }
        for token in due {
            match token {
                DRAIN_OVER => {
                    self.drained.store(true, Ordering::SeqCst);
                    self.visit_all(|| Visit::DrainOver, context);
                }
                ACCEPT_AGAIN => context.permit = true,
                slot => context
                    .visits
                    .extend(self.table.at(slot.number()).map(|peer| (peer, Visit::Timer))),
            }
        }
    }

    fn set_timers(&self, context: &mut WorkerContext<'_, P::Session>) {
        while let Some((at, slot)) = context.timers.pop() {
            self.set_timer(at, Token::new(slot), context.counters);
        }
    }

    fn set_timer(&self, at: Instant, token: Token, counters: &Counters) {
        let mut timers = lock(&self.timers);
        let is_first = timers.next().is_none_or(|first| at < first);
        timers.set(at, token);
        if is_first {
            self.set_alarm(&timers, counters);
        }
    }

    /// For the first of the times.
    fn set_alarm(&self, timers: &Timers, counters: &Counters) {
        let Some(first) = timers.next() else { return };
        // Zero would switch it off.
        let left = first
            .saturating_duration_since(Instant::now())
            .max(Duration::from_nanos(1));
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: i64::MAX,
                tv_nsec: 0,
            }),
        };
        counters.other_calls.add(1);
        // The descriptor is a timer and the time is in range.
        let _ = timerfd_settime(&self.alarm, TimerfdTimerFlags::empty(), &once);
    }

    fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.end();
    }

    /// Every thread ends: the leader now, each follower as it becomes the leader.
    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        // It can only fail when its count is full, and then it is readable already.
        let _ = rustix::io::write(&self.wake_fd, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::num::NonZeroUsize;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::protocol::echo::Echo;
    use crate::{ConnectionId, Design, Io, Server, Session, Stop};

    const SPEAKERS: usize = 60;

    /// `h` hears what all others say, `b` only after its thread was held up.
    struct Held {
        hearer: Arc<Mutex<Option<ConnectionId>>>,
        /// To say that the thread is held up, and until the other is closed.
        gate: Arc<(Sender<()>, Mutex<Receiver<()>>)>,
    }

    impl Protocol for Held {
        type Session = Self;
        const SHARED: bool = true;

        fn open(&self, _: ConnectionId) -> Self {
            Self {
                hearer: Arc::clone(&self.hearer),
                gate: Arc::clone(&self.gate),
            }
        }
    }

    impl Session for Held {
        fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
            if input[0] == b'h' {
                *lock(&self.hearer) = Some(io.id());
                io.send(b"h");
                return 1;
            }
            if input[0] == b'b' {
                self.gate.0.send(()).expect("the test hears it");
                let _ = lock(&self.gate.1).recv();
            }
            io.send_to(lock(&self.hearer).expect("came before"), &input[..1]);
            1
        }
    }

    /// What the threads of a server share that no thread serves.
    fn shared(
        most: usize,
        test: impl FnOnce(&Shared<'_, Echo>, &mut WorkerContext<'_, <Echo as Protocol>::Session>),
    ) {
        let most = NonZeroUsize::new(most).expect("not zero");
        let stop = Stop::new().expect("a pipe");
        let bound = Server::new(Echo).max_connections(most).bind("127.0.0.1:0");
        let run = bound.expect("a port").run_by(&stop, |serving| {
            let shared = Shared::new(serving).expect("descriptors");
            test(
                &shared,
                &mut WorkerContext::new(serving.counters.block(0), RECEIVE_BYTES),
            );
            Ok(())
        });
        run.expect("served");
    }

    #[test]
    fn whom_the_kernel_does_not_watch_is_closed_at_once() {
        shared(1, |shared, context| {
            let file = std::fs::File::open("/proc/self/exe").expect("a file, which nobody can wait for");
            let permit = shared.table.slots.take(0).expect("free");
            let peer = shared.table.open(permit, file.into(), Instant::now(), context);
            shared.finish(context);
            assert!(peer.output().is_closed && shared.table.at(permit.slot).is_none());
        });
    }

    #[test]
    fn a_permit_that_comes_back_unused_goes_to_who_was_refused_it() {
        shared(1, |shared, context| {
            let permit = shared.permit(context.counters).expect("free");
            assert!(shared.permit(context.counters).is_none());
            shared.accepted(permit, Ok(Accepted::Nobody), Instant::now(), context);
            assert!(context.permit, "somebody has to listen again");
        });
    }

    #[test]
    fn what_is_ready_is_handled_before_it_is_sent() {
        let stop = Stop::new().expect("a pipe");
        let (blocks, blocked) = channel();
        let (open, gate) = channel();
        let protocol = Held {
            hearer: Arc::default(),
            gate: Arc::new((blocks, Mutex::new(gate))),
        };
        let server = Server::new(protocol)
            .design(Design::LeaderFollowers)
            .workers(1..=1)
            .bind("127.0.0.1:0")
            .expect("a port");
        let (address, meter) = (server.local_addr(), server.meter());
        thread::scope(|scope| {
            let running = scope.spawn(|| server.run(&stop));
            // Ended with the closure, also when it fails: the server would be waited for, for ever.
            let talk = || {
                let client = |first: u8| {
                    let mut client = TcpStream::connect(address).expect("connects");
                    client.write_all(&[first]).expect("sent");
                    client
                };
                let (open, mut hearer) = (open, client(b'h'));
                hearer.read_exact(&mut [0]).expect("an answer");
                let speakers: Vec<_> = (0..SPEAKERS).map(|_| client(b'1')).collect();
                hearer.read_exact(&mut [0; SPEAKERS]).expect("all are there");
                let _blocker = client(b'b');
                blocked.recv().expect("the thread is held up");
                let before = meter.totals().sends;
                for mut speaker in &speakers {
                    speaker.write_all(b"2").expect("sent");
                }
                drop(open);
                let mut heard = [0; SPEAKERS + 1];
                hearer.read_exact(&mut heard).expect("all of it");
                assert_eq!(heard.iter().filter(|&&byte| byte == b'2').count(), SPEAKERS);
                meter.totals().sends - before
            };
            let sends = std::panic::catch_unwind(std::panic::AssertUnwindSafe(talk));
            stop.stop();
            running.join().expect("no panic").expect("served");
            let sends = sends.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            assert!(sends < SPEAKERS as u64, "{sends} sends");
        });
    }
}
