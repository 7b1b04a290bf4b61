//! The reactor: waits for what can be read or written, for times and for tasks, and calls a handler.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

use super::completions::{Arrival, Completion, Completions};
use super::inbox::Inbox;
use super::interest::{Interest, NOBODY, Readiness, Token};
use super::timers::Timers;
use crate::clock::Clock;
use crate::counters::{CounterBlocks, Counters, Totals};
use crate::ring::Filled;

/// The most events of one turn. Many, so that under load what all of them produce is sent together.
const EVENTS: usize = 1024;

/// What a reactor calls, always on the thread that runs it. `T` is a task that other threads may post.
///
/// In one turn: the tasks that were posted before, then everything that is ready, then the times that have come, then
/// [`turn_ended`](Self::turn_ended) once. Tasks that are posted meanwhile wait for the next turn, unless the handler
/// has them done before it goes on ([`Reactor::tasks_first`]).
pub trait Handler<T> {
    /// A handle can be read.
    fn readable(&mut self, token: Token, readiness: Readiness, reactor: &mut Reactor<T>);

    /// A handle can be written, or will fail.
    fn writable(&mut self, token: Token, reactor: &mut Reactor<T>);

    /// A time has come that [`Reactor::set_timer`] set.
    fn timer(&mut self, token: Token, reactor: &mut Reactor<T>);

    /// A task was posted.
    fn task(&mut self, task: T, reactor: &mut Reactor<T>);

    /// All that was ready is handled. The place to send what has been collected.
    fn turn_ended(&mut self, reactor: &mut Reactor<T>);
}

/// What a loop waits with.
#[derive(Debug)]
enum Kernel {
    Epoll(OwnedFd),
    Ring(Box<RefCell<Completions>>),
}

/// An event loop over epoll.
///
/// ```
/// use threadgauge_reactor::reactor::{Handler, Interest, Reactor, Readiness, Token};
///
/// /// Counts what comes through a pipe, and stops at its end.
/// struct Count(std::io::PipeReader, usize);
///
/// impl Handler<()> for Count {
///     fn readable(&mut self, _: Token, _: Readiness, reactor: &mut Reactor<()>) {
///         let mut buffer = [0; 64];
///         match std::io::Read::read(&mut self.0, &mut buffer).expect("there is something") {
///             0 => reactor.stop(),
///             count => self.1 += count,
///         }
///     }
///     fn writable(&mut self, _: Token, _: &mut Reactor<()>) {}
///     fn timer(&mut self, _: Token, _: &mut Reactor<()>) {}
///     fn task(&mut self, _: (), _: &mut Reactor<()>) {}
///     fn turn_ended(&mut self, _: &mut Reactor<()>) {}
/// }
///
/// # fn main() -> std::io::Result<()> {
/// let (reader, mut writer) = std::io::pipe()?;
/// let mut reactor = Reactor::new()?;
/// reactor.register(&reader, Interest::read(Token::new(0)).level())?;
/// std::io::Write::write_all(&mut writer, b"hello")?;
/// drop(writer);
/// let mut count = Count(reader, 0);
/// reactor.run(&mut count)?;
/// assert_eq!(count.1, 5);
/// # Ok(())
/// # }
/// ```
pub struct Reactor<T> {
    kernel: Kernel,
    timers: Timers,
    mailbox: Mailbox<T>,
    /// Emptied and filled in turn.
    tasks: Vec<T>,
    /// The next turn does not wait.
    again: bool,
    /// Tasks are done before the next event.
    tasks_first: bool,
    stopped: bool,
    /// The time of this turn, once somebody has asked.
    clock: Clock,
    /// What has come for the token that is being called.
    arrival: Option<Arrival>,
    counters: Arc<CounterBlocks>,
    block: usize,
}

impl<T> Reactor<T> {
    /// A loop without handles.
    ///
    /// # Errors
    ///
    /// If the process has no descriptors or memory left.
    pub fn new() -> io::Result<Self> {
        Self::counting(Arc::new(CounterBlocks::new(1)?), 0)
    }

    /// One that counts its system calls in a block of `counters`, which is its thread's alone.
    pub(crate) fn counting(counters: Arc<CounterBlocks>, block: usize) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake_fd = wake_fd()?;
        // An edge each time it is written, so nobody needs to read it.
        epoll::add(
            &epoll,
            &wake_fd,
            epoll::EventData::new_u64(u64::from(NOBODY) << 32 | u64::from(NOBODY)),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        Ok(Self::over(Kernel::Epoll(epoll), wake_fd, counters, block))
    }

    /// One over io_uring, for the thread that first runs it: see [`completions`](super::completions).
    pub(crate) fn completing(counters: Arc<CounterBlocks>, block: usize) -> io::Result<Self> {
        let wake_fd = wake_fd()?;
        let completions = Completions::new(Arc::clone(&wake_fd))?;
        let kernel = Kernel::Ring(Box::new(RefCell::new(completions)));
        Ok(Self::over(kernel, wake_fd, counters, block))
    }

    fn over(kernel: Kernel, wake_fd: Arc<OwnedFd>, counters: Arc<CounterBlocks>, block: usize) -> Self {
        Self {
            kernel,
            timers: Timers::default(),
            mailbox: Mailbox(Arc::new(Posted {
                inbox: Inbox::new(),
                wake_fd,
            })),
            tasks: Vec::new(),
            again: false,
            tasks_first: false,
            stopped: false,
            clock: Clock::default(),
            arrival: None,
            counters,
            block,
        }
    }

    /// Where other threads post tasks.
    pub fn mailbox(&self) -> Mailbox<T> {
        self.mailbox.clone()
    }

    /// Reports events of a handle from now on. It stays so until it is [removed](Self::remove) or closed.
    ///
    /// # Errors
    ///
    /// If it is registered already, is a file, or the kernel has no memory or no watches left.
    pub fn register(&self, handle: impl AsFd, interest: Interest) -> io::Result<()> {
        match &self.kernel {
            Kernel::Epoll(epoll) => {
                self.counters().other_calls.add(1);
                Ok(epoll::add(epoll, handle, interest.data(), interest.flags)?)
            }
            Kernel::Ring(ring) => {
                let mut ring = ring.borrow_mut();
                if let Some(reader) = interest.reader {
                    ring.watch_read(&handle, reader);
                }
                if let Some(writer) = interest.writer {
                    ring.watch_write(&handle, writer);
                }
                Ok(())
            }
        }
    }

    /// Reports other events of a registered handle. What is so already is reported once more.
    ///
    /// # Errors
    ///
    /// If it is not registered.
    pub fn change(&self, handle: impl AsFd, interest: Interest) -> io::Result<()> {
        let Kernel::Epoll(epoll) = &self.kernel else {
            self.remove(&handle)?;
            return self.register(&handle, interest);
        };
        self.counters().other_calls.add(1);
        Ok(epoll::modify(epoll, handle, interest.data(), interest.flags)?)
    }

    /// Reports no more events of a handle, but for one that was ready in this turn already: who gives its token to
    /// another handle at once must bear a call without cause.
    ///
    /// # Errors
    ///
    /// If it is not registered.
    pub fn remove(&self, handle: impl AsFd) -> io::Result<()> {
        match &self.kernel {
            Kernel::Epoll(epoll) => {
                self.counters().other_calls.add(1);
                Ok(epoll::delete(epoll, handle)?)
            }
            Kernel::Ring(ring) => {
                ring.borrow_mut().forget(handle);
                Ok(())
            }
        }
    }

    // Of a loop over io_uring alone.

    /// Whether it is one: then a watch is reported once, and what is received [arrives](Self::take_arrival).
    pub(crate) fn completes(&self) -> bool {
        matches!(self.kernel, Kernel::Ring(_))
    }

    /// Hands over what comes for a connection from now on.
    pub(crate) fn receive(&self, socket: impl AsFd, token: Token, generation: u32) {
        if let Kernel::Ring(ring) = &self.kernel {
            ring.borrow_mut().receive(socket, token, generation);
        }
    }

    /// See [`Completions::stop_receiving`].
    pub(crate) fn stop_receiving(&self, token: Token, generation: u32) {
        if let Kernel::Ring(ring) = &self.kernel {
            ring.borrow_mut().stop_receiving(token, generation);
        }
    }

    /// A connection's socket is about to be closed. With epoll that needs no more.
    pub(crate) fn before_close(&self, token: Token, generation: u32, is_receiving: bool) {
        if let Kernel::Ring(ring) = &self.kernel {
            let called = ring.borrow_mut().before_close(token, generation, is_receiving);
            self.counters().other_calls.add(called.into());
        }
    }

    /// What has come for the token that [`Handler::readable`] is called with.
    pub(crate) fn take_arrival(&mut self) -> Option<Arrival> {
        self.arrival.take()
    }

    /// Its bytes, at the front of `into`: how many.
    pub(crate) fn take(&self, filled: Filled, into: &mut [u8]) -> usize {
        match &self.kernel {
            Kernel::Ring(ring) => ring.borrow_mut().take(filled, into),
            Kernel::Epoll(_) => 0,
        }
    }

    /// Calls [`Handler::timer`] with this token at `at`, at most a millisecond late if the handler is not busy; unless
    /// a time is set for the token that comes before: a token has one, the earliest. It cannot be taken back: a handler
    /// that does not want it any more ignores it, and sets the next.
    pub fn set_timer(&mut self, at: Instant, token: Token) {
        self.timers.set(at, token);
    }

    /// The time of this turn: read once.
    pub fn now(&mut self) -> Instant {
        self.clock.now()
    }

    /// The time of this turn, for somebody who may ask.
    pub(crate) fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// Has the next turn look for events without waiting: for a handler that left something undone.
    pub fn again(&mut self) {
        self.again = true;
    }

    /// Whether tasks have been posted that are not done yet. If so they are done before the handler is called with
    /// anything else: for one that has learned of something which may not come before them.
    pub fn tasks_first(&mut self) -> bool {
        self.tasks_first = self.mailbox.0.inbox.has_tasks();
        self.tasks_first
    }

    /// Has [`run`](Self::run) return at the end of this turn.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// What it has counted: its waits, wake-ups and other system calls.
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// The block of this loop.
    pub(crate) fn counters(&self) -> &Counters {
        self.counters.block(self.block)
    }

    /// Takes turns until [`stop`](Self::stop). Blocks.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait, which only a closed descriptor can bring about.
    pub fn run(&mut self, handler: &mut impl Handler<T>) -> io::Result<()> {
        // Here, since events can hold pointers and so would bind the reactor to its thread.
        let mut events = Vec::with_capacity(EVENTS);
        while !self.stopped {
            self.turn(&mut events, handler)?;
        }
        Ok(())
    }

    /// One turn.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(super) fn turn(
        &mut self,
        events: &mut Vec<epoll::Event>,
        handler: &mut impl Handler<T>,
    ) -> io::Result<()> {
        if self.wait(events)? {
            self.do_tasks(handler);
        }
        for event in events {
            self.dispatch(event, handler);
            self.do_first(handler);
        }
        while let Some(completion) = self.next_completion() {
            self.complete(completion, handler);
            self.do_first(handler);
        }
        if self.timers.next().is_some() {
            let now = self.now();
            while let Some(token) = self.timers.due(now) {
                handler.timer(token, self);
            }
        }
        handler.turn_ended(self);
        Ok(())
    }

    #[inline]
    fn do_first(&mut self, handler: &mut impl Handler<T>) {
        if std::mem::take(&mut self.tasks_first) && self.mailbox.0.inbox.after_wait() {
            self.do_tasks(handler);
        }
    }

    fn do_tasks(&mut self, handler: &mut impl Handler<T>) {
        let mut tasks = std::mem::take(&mut self.tasks);
        self.mailbox.0.inbox.take(&mut tasks);
        for task in tasks.drain(..) {
            handler.task(task, self);
        }
        self.tasks = tasks;
    }

    /// Fills `events`. Whether there are tasks.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<bool> {
        let mut timeout = self.timeout();
        let inbox = &self.mailbox.0.inbox;
        if timeout != Some(Duration::ZERO) && !inbox.before_wait() {
            timeout = Some(Duration::ZERO);
        }
        let counters = self.counters.block(self.block);
        counters.waits.add(1);
        let waited = match &mut self.kernel {
            Kernel::Epoll(epoll) => wait_for_events(epoll, events, timeout),
            Kernel::Ring(ring) => ring.get_mut().wait(timeout),
        };
        counters.wake_ups.add(1);
        self.clock = Clock::default();
        waited.map(|()| inbox.after_wait())
    }

    /// How long the next wait may be, in whole milliseconds, rounded up.
    fn timeout(&mut self) -> Option<Duration> {
        if std::mem::take(&mut self.again) {
            return Some(Duration::ZERO);
        }
        let left = self.timers.next()?.saturating_duration_since(Instant::now());
        Some(Duration::from_millis(
            left.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX),
        ))
    }

    fn next_completion(&mut self) -> Option<Completion> {
        match &mut self.kernel {
            Kernel::Epoll(_) => None,
            Kernel::Ring(ring) => ring.get_mut().next(),
        }
    }

    fn complete(&mut self, completion: Completion, handler: &mut impl Handler<T>) {
        match completion {
            Completion::Woken => {}
            Completion::Readable(reader) => handler.readable(reader, Readiness::Data, self),
            Completion::Writable(writer) => handler.writable(writer, self),
            Completion::Arrived(reader, arrival) => {
                self.arrival = Some(arrival);
                handler.readable(reader, Readiness::Data, self);
            }
        }
    }

    #[inline]
    fn dispatch(&mut self, event: &epoll::Event, handler: &mut impl Handler<T>) {
        use epoll::EventFlags;
        let (flags, data) = (event.flags, event.data.u64());
        let (reader, writer) = (data as u32, (data >> 32) as u32);
        let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if reader != NOBODY && (ended || flags.contains(EventFlags::IN)) {
            let readiness = match ended {
                true => Readiness::End,
                false => Readiness::Data,
            };
            handler.readable(Token(reader), readiness, self);
        }
        if writer != NOBODY && flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            handler.writable(Token(writer), self);
        }
    }
}

impl<T> std::fmt::Debug for Reactor<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reactor")
            .field("kernel", &self.kernel)
            .field("timers", &self.timers)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

/// Written to wake a loop.
fn wake_fd() -> io::Result<Arc<OwnedFd>> {
    let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    Ok(Arc::new(wake_fd))
}

fn wait_for_events(
    epoll: &OwnedFd,
    events: &mut Vec<epoll::Event>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    events.clear();
    match epoll::wait(epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Posts tasks to a reactor, from any thread. Clones post to the same.
#[derive(Debug)]
pub struct Mailbox<T>(Arc<Posted<T>>);

#[derive(Debug)]
struct Posted<T> {
    inbox: Inbox<T>,
    wake_fd: Arc<OwnedFd>,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Mailbox<T> {
    /// Hands over tasks. What one thread posts is handled in the order posted, and many tasks posted at once cost one
    /// wake-up at most. `true` if that was needed, a system call. Does not block, but for others who post at the
    /// same moment.
    ///
    /// Tasks for a reactor that does not run any more are dropped with it.
    pub fn post(&self, tasks: impl IntoIterator<Item = T>) -> bool {
        let must_wake = self.put(tasks);
        if must_wake {
            self.wake();
        }
        must_wake
    }

    /// Hands over tasks. `true`: whoever does so has to [`wake`](Self::wake) the loop.
    #[must_use]
    pub(crate) fn put(&self, tasks: impl IntoIterator<Item = T>) -> bool {
        self.0.inbox.post(tasks)
    }

    /// A system call.
    pub(crate) fn wake(&self) {
        // It can only fail when its count is full, and then it is readable already.
        let _ = rustix::io::write(&self.0.wake_fd, &1u64.to_ne_bytes());
    }

    /// Puts down a task that can wait until the loop is woken by another: it is handled before all that is posted
    /// after it.
    pub(crate) fn post_without_wake(&self, task: T) {
        self.0.inbox.post_without_wake(task);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Notes what it is called with, and stops after so many turns or when told.
    #[derive(Default)]
    struct Log {
        calls: Vec<String>,
        turns: usize,
    }

    impl Handler<&'static str> for Log {
        fn readable(&mut self, token: Token, readiness: Readiness, _: &mut Reactor<&'static str>) {
            self.calls.push(format!("read {} {readiness:?}", token.number()));
        }
        fn writable(&mut self, token: Token, _: &mut Reactor<&'static str>) {
            self.calls.push(format!("write {}", token.number()));
        }
        fn timer(&mut self, token: Token, _: &mut Reactor<&'static str>) {
            self.calls.push(format!("timer {}", token.number()));
        }
        fn task(&mut self, task: &'static str, reactor: &mut Reactor<&'static str>) {
            self.calls.push(task.to_owned());
            if task == "stop" {
                reactor.stop();
            }
        }
        fn turn_ended(&mut self, _: &mut Reactor<&'static str>) {
            self.turns += 1;
        }
    }

    fn turn(reactor: &mut Reactor<&'static str>, log: &mut Log) -> io::Result<()> {
        reactor.turn(&mut Vec::with_capacity(EVENTS), log)
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        (listener.accept().expect("accepts").0, client)
    }

    #[test]
    fn a_handle_has_a_reader_and_a_writer() {
        let (server, client) = pair();
        let mut reactor = Reactor::new().expect("a reactor");
        let mut log = Log::default();
        reactor
            .register(&server, Interest::both(Token::new(1), Token::new(2)))
            .expect("registered");
        turn(&mut reactor, &mut log).expect("a turn");
        assert_eq!(log.calls, ["write 2"], "an empty socket can be written");
        drop(client);
        turn(&mut reactor, &mut log).expect("a turn");
        assert_eq!(log.calls[1], "read 1 End");
        reactor
            .change(&server, Interest::read(Token::new(3)).level())
            .expect("changed");
        turn(&mut reactor, &mut log).expect("a turn");
        turn(&mut reactor, &mut log).expect("a turn");
        assert_eq!(log.calls[log.calls.len() - 2..], ["read 3 End", "read 3 End"]);
        reactor.remove(&server).expect("removed");
        assert_eq!(reactor.totals().other_calls, 3);
    }

    #[test]
    fn a_turn_has_its_order() {
        let (server, _client) = pair();
        let mut reactor = Reactor::new().expect("a reactor");
        let mut log = Log::default();
        reactor.set_timer(Instant::now(), Token::new(9));
        assert!(!reactor.mailbox().post(["first", "stop"]), "it does not sleep");
        reactor
            .register(&server, Interest::write(Token::new(2)))
            .expect("registered");
        reactor.run(&mut log).expect("run");
        assert_eq!(log.calls, ["first", "stop", "write 2", "timer 9"]);
        assert_eq!(log.turns, 1);
    }

    #[test]
    fn a_sleeping_loop_hears_of_tasks_from_another_thread() {
        let mut reactor = Reactor::new().expect("a reactor");
        let mailbox = reactor.mailbox();
        let poster = std::thread::spawn(move || {
            for _ in 0..1_000 {
                mailbox.post(["task"]);
            }
            mailbox.post(["stop"]);
        });
        let mut log = Log::default();
        reactor.run(&mut log).expect("run");
        poster.join().expect("posted");
        assert_eq!(log.calls.len(), 1_001);
    }

    /// More has come about than the kernel has room for, and it gives up what reports again and again.
    #[test]
    fn a_loop_over_io_uring_hears_of_tasks_also_after_its_queue_was_full() {
        const GIVE_UP: Duration = Duration::from_secs(60);
        let counters = Arc::new(CounterBlocks::new(1).expect("memory"));
        let mut reactor = Reactor::completing(counters, 0).expect("io_uring");
        let (mut log, mailbox) = (Log::default(), reactor.mailbox());
        mailbox.post(["once"]);
        turn(&mut reactor, &mut log).expect("a turn");
        let (server, client) = pair();
        drop(client);
        let watches = 2 * crate::ring::ANSWERS;
        for number in 0..watches {
            let interest = Interest::read(Token::new(number));
            reactor.register(&server, interest).expect("registered");
        }
        rustix::io::write(&mailbox.0.wake_fd, &1u64.to_ne_bytes()).expect("rung");
        while log.calls.len() < 1 + watches as usize {
            turn(&mut reactor, &mut log).expect("a turn");
        }
        reactor.set_timer(Instant::now() + GIVE_UP, Token::new(0));
        let poster = std::thread::spawn(move || {
            // Until it sleeps, and has to be woken.
            while !mailbox.post(["task"]) {
                std::thread::yield_now();
            }
            mailbox.post(["last"]);
        });
        while !log.calls.iter().any(|call| call == "last") {
            turn(&mut reactor, &mut log).expect("a turn");
        }
        poster.join().expect("posted");
        assert!(!log.calls.iter().any(|call| call == "timer 0"), "nobody woke it");
    }

    #[test]
    fn a_time_comes_without_events() {
        let mut reactor = Reactor::new().expect("a reactor");
        let mut log = Log::default();
        let at = Instant::now() + Duration::from_millis(3);
        reactor.set_timer(at, Token::new(5));
        while log.calls.is_empty() {
            turn(&mut reactor, &mut log).expect("a turn");
        }
        assert!(Instant::now() >= at);
        assert_eq!(
            (log.calls.as_slice(), log.turns),
            (&["timer 5".to_owned()][..], 1)
        );
    }
}
