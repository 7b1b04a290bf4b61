//! A thread for each connection, made when it comes and ended with it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketFlags;

use crate::bell::Bell;
use crate::blocking::{Desk, Worker};
use crate::counters::{CloseReason, Counters};
use crate::design::threads::{Crew, lock};
use crate::design::{About, AtOnce, Memory};
use crate::error::Error;
use crate::halt::Phase;
use crate::id::ConnectionId;
use crate::listen::Accepted;
use crate::pool::RETRY;
use crate::protocol::Protocol;
use crate::server::Serving;
use crate::stop::{poll_once, timespec};
use crate::trace;

pub(super) const ABOUT: About = About {
    name: "thread-per-connection",
    summary: "the main thread accepts, and makes a thread for each connection",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 6",
    memory: Memory::Shared,
    at_once: AtOnce::Many,
    settings: &[],
};

/// The most desks kept for threads to come: as many as live at once under a usual load.
const KEPT_DESKS: usize = 64;

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let most = serving.options.max_connections;
    let crew = Crew::new(most, serving);
    let hall = Hall {
        serving,
        counters: serving.board.block(most),
        crew: &crew,
        handed: (0..most).map(|_| Mutex::default()).collect(),
        ended: Mutex::default(),
        bell: Bell::new().map_err(Error::io("making a descriptor to wake the main thread"))?,
    };
    serving.listener.set_nonblocking(true)?;
    thread::scope(|scope| {
        let mut threads = Threads {
            running: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            ending: Vec::new(),
            desks: Vec::new(),
            generation: 0,
        };
        let outcome = hall.accept_until_stopped(scope, &mut threads);
        serving.listener.close_for_all();
        crew.enter(Phase::Draining);
        hall.drain(&mut threads);
        crew.enter(Phase::Over);
        outcome
    })
}

/// Where the main thread and the threads of the connections meet.
struct Hall<'a, P> {
    serving: &'a Serving<P>,
    /// The main thread's.
    counters: &'a Counters,
    crew: &'a Crew,
    /// By slot: from the main thread to the new one. It stays there until that could be made.
    handed: Box<[Handed]>,
    ended: Mutex<Ended>,
    bell: Bell,
}

/// What a thread begins with.
type Handed = Mutex<Option<(OwnedFd, Box<Desk>)>>;

/// The slots whose threads are done but for their exit.
#[derive(Default)]
struct Ended {
    slots: Vec<usize>,
    /// The main thread waits for the bell.
    awaited: bool,
}

/// What the main thread knows of the others.
struct Threads<'scope> {
    running: Box<[Option<ScopedJoinHandle<'scope, Box<Desk>>>]>,
    free: Vec<usize>,
    /// Slots that are neither: their threads are about to exit.
    ending: Vec<usize>,
    /// Left by threads that ended, for the next.
    desks: Vec<Box<Desk>>,
    generation: u32,
}

/// Whether the server shall stop.
type Stopped = bool;

impl<P: Protocol> Hall<'_, P> {
    fn accept_until_stopped<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        threads: &mut Threads<'scope>,
    ) -> Result<(), Error> {
        let mut stopped = false;
        while !stopped {
            self.join_ended(threads);
            // The permit comes first: without a free slot nobody is accepted.
            let Some(&slot) = threads.free.last() else {
                stopped = self.wait_for_an_end(None)?;
                continue;
            };
            if threads.ready::<P>().is_err() {
                stopped = self.wait_for_an_end(Some(RETRY))?;
                continue;
            }
            stopped = self.wait_for_a_client()?;
            if stopped {
                break;
            }
            match self
                .serving
                .listener
                .accept(SocketFlags::empty(), self.counters)?
            {
                Accepted::Connection(socket) => {
                    let desk = threads.desks.pop().unwrap_or_default();
                    *lock(&self.handed[slot]) = Some((socket, desk));
                    threads.free.pop();
                    stopped = self.begin(scope, threads, slot)?;
                }
                Accepted::Nobody => {}
                Accepted::Exhausted => stopped = self.wait_for_an_end(Some(RETRY))?,
                Accepted::Closed => break,
            }
        }
        Ok(())
    }

    /// Makes the thread for the connection in a slot. It waits until there is room for one.
    fn begin<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        threads: &mut Threads<'scope>,
        slot: usize,
    ) -> Result<Stopped, Error> {
        let id = ConnectionId::new(0, threads.generation, slot as u32);
        threads.generation = threads.generation.wrapping_add(1);
        loop {
            self.counters.other_calls.add(1);
            match thread::Builder::new().spawn_scoped(scope, move || self.serve(id)) {
                Ok(thread) => {
                    self.counters.units_created.add(1);
                    threads.running[slot] = Some(thread);
                    return Ok(false);
                }
                Err(error) => {
                    trace::worker_not_made(error);
                    if self.wait_for_an_end(Some(RETRY))? {
                        // The client never had an answer begun: it is lost to the stop.
                        drop(lock(&self.handed[slot]).take());
                        self.counters.closed(CloseReason::Stopped);
                        return Ok(true);
                    }
                    self.join_ended(threads);
                }
            }
        }
    }

    /// The life of a connection's thread.
    fn serve(&self, id: ConnectionId) -> Box<Desk> {
        let slot = id.slot() as usize;
        let counters = self.serving.board.block(slot);
        let handed = lock(&self.handed[slot]).take();
        let (socket, desk) = handed.expect("the main thread fills the slot before it makes the thread");
        let mut worker = Worker::at(desk, self.serving, counters, self.crew.seat(slot));
        worker.serve(socket, id);
        let mut ended = lock(&self.ended);
        ended.slots.push(slot);
        if std::mem::take(&mut ended.awaited) {
            counters.other_calls.add(1);
            self.bell.ring();
        }
        worker.leave()
    }

    fn wait_for_a_client(&self) -> Result<Stopped, Error> {
        let listener = PollFd::new(&self.serving.listener, PollFlags::IN);
        self.wait(listener, None)
    }

    /// Waits until a thread is done, but not longer than `limit`.
    fn wait_for_an_end(&self, limit: Option<Duration>) -> Result<Stopped, Error> {
        {
            let mut ended = lock(&self.ended);
            if !ended.slots.is_empty() {
                return Ok(false);
            }
            self.bell.quiet();
            ended.awaited = true;
        }
        let stopped = self.wait(PollFd::new(&self.bell, PollFlags::IN), limit);
        lock(&self.ended).awaited = false;
        stopped
    }

    fn wait(&self, what: PollFd<'_>, limit: Option<Duration>) -> Result<Stopped, Error> {
        let mut fds = [what, PollFd::new(self.serving.stop(), PollFlags::IN)];
        let limit = limit.map(timespec);
        self.counters.waits.add(1);
        poll_once(&mut fds, limit.as_ref()).map_err(Error::io("waiting for a connection"))?;
        self.counters.wake_ups.add(1);
        Ok(!fds[1].revents().is_empty())
    }

    /// Joins the threads that have ended. One that is about to is waited for only if no slot is free otherwise.
    fn join_ended(&self, threads: &mut Threads<'_>) {
        threads.ending.append(&mut lock(&self.ended).slots);
        let mut i = 0;
        while i < threads.ending.len() {
            let slot = threads.ending[i];
            let ended = threads.running[slot]
                .as_ref()
                .is_none_or(|thread| thread.is_finished());
            if ended || threads.free.is_empty() {
                threads.ending.swap_remove(i);
                threads.join(slot);
            } else {
                i += 1;
            }
        }
    }

    /// Waits until every thread has ended or the drain time is over.
    fn drain(&self, threads: &mut Threads<'_>) {
        let until = Instant::now() + self.serving.options.drain;
        loop {
            {
                let mut ended = lock(&self.ended);
                threads.ending.append(&mut ended.slots);
                self.bell.quiet();
                ended.awaited = true;
            }
            while let Some(slot) = threads.ending.pop() {
                threads.join(slot);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || threads.free.len() == threads.running.len() {
                return;
            }
            self.counters.waits.add(1);
            // Should it fail, the drain time is over sooner.
            let _ = poll_once(
                &mut [PollFd::new(&self.bell, PollFlags::IN)],
                Some(&timespec(left)),
            );
            self.counters.wake_ups.add(1);
        }
    }
}

impl Threads<'_> {
    /// Makes sure of a desk for the next thread.
    fn ready<P: Protocol>(&mut self) -> io::Result<()> {
        if self.desks.is_empty() {
            self.desks.push(Box::default());
        }
        self.desks.last_mut().map_or(Ok(()), |desk| desk.ready::<P>())
    }

    fn join(&mut self, slot: usize) {
        // A thread can only have panicked by a mistake of ours, which then shows in its connection alone.
        if let Some(Ok(desk)) = self.running[slot].take().map(ScopedJoinHandle::join)
            && self.desks.len() < KEPT_DESKS
        {
            self.desks.push(desk);
        }
        self.free.push(slot);
    }
}
