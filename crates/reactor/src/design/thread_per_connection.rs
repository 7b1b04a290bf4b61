//! A thread for each connection, made when it comes and ended with it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketFlags;

use crate::bell::Bell;
use crate::blocking::{Desk, Worker};
use crate::counters::{CloseReason, Counters};
use crate::design::threads::{Crew, lock};
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::halt::Phase;
use crate::id::ConnectionId;
use crate::listen::{Accepted, RETRY};
use crate::protocol::Protocol;
use crate::pthread::{self, Threads};
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
    made_of: made_of::no_choice,
    check: any_settings,
};

/// The most desks kept for threads to come: as many as live at once under a usual load.
const KEPT_DESKS: usize = 64;

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let most = serving.options.max_connections;
    let crew = Crew::new(most, serving);
    let hall = Hall {
        serving,
        counters: serving.board.block(0),
        crew: &crew,
        handed: (0..most).map(|_| Mutex::default()).collect(),
        ended: Mutex::default(),
        bell: Bell::new().map_err(Error::io("making a descriptor to wake the main thread"))?,
    };
    serving.listener.set_nonblocking(true)?;
    pthread::scope(&hall, Hall::serve, |threads| {
        let mut main = Main {
            hall: &hall,
            threads,
            free: (0..most).rev().collect(),
            ending: Vec::new(),
            desks: Vec::new(),
            generation: 0,
        };
        let outcome = main.accept_until_stopped();
        serving.listener.close_for_all();
        crew.enter(Phase::Draining);
        main.drain();
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
type Handed = Mutex<Option<(OwnedFd, ConnectionId, Box<Desk>)>>;

/// The threads that are done but for their exit.
#[derive(Default)]
struct Ended {
    /// By slot, with what they leave to the next.
    threads: Vec<(usize, Box<Desk>)>,
    /// The main thread waits for the bell.
    awaited: bool,
}

impl<P: Protocol> Hall<'_, P> {
    /// The life of a connection's thread.
    fn serve(&self, slot: usize) {
        let counters = self.serving.board.block(slot + 1);
        let handed = lock(&self.handed[slot]).take();
        let (socket, id, desk) = handed.expect("the main thread fills the slot before it makes the thread");
        let mut worker = Worker::at(desk, self.serving, counters, self.crew.seat(slot));
        worker.serve(socket, id);
        let mut ended = lock(&self.ended);
        ended.threads.push((slot, worker.leave()));
        if std::mem::take(&mut ended.awaited) {
            counters.other_calls.add(1);
            self.bell.ring();
        }
    }
}

/// What the main thread knows.
struct Main<'m, 't, 'a, P> {
    hall: &'m Hall<'a, P>,
    threads: &'m mut Threads<'t, Hall<'a, P>>,
    free: Vec<usize>,
    /// Slots that are neither free nor at work: their threads are about to exit.
    ending: Vec<usize>,
    /// For the next threads. In boxes, since they are handed on from slot to slot.
    #[expect(clippy::vec_box, reason = "they come and go as boxes")]
    desks: Vec<Box<Desk>>,
    generation: u32,
}

/// Whether the server shall stop.
type Stopped = bool;

impl<P: Protocol> Main<'_, '_, '_, P> {
    fn accept_until_stopped(&mut self) -> Result<(), Error> {
        let hall = self.hall;
        let mut stopped = false;
        while !stopped {
            self.join_ended();
            // The permit comes first: without a free slot nobody is accepted.
            let Some(&slot) = self.free.last() else {
                stopped = self.wait_for_an_end(None)?;
                continue;
            };
            if self.ready().is_err() {
                stopped = self.wait_for_an_end(Some(RETRY))?;
                continue;
            }
            stopped = hall.wait(PollFd::new(&hall.serving.listener, PollFlags::IN), None)?;
            if stopped {
                break;
            }
            match hall
                .serving
                .listener
                .accept(SocketFlags::empty(), hall.counters)?
            {
                Accepted::Connection(socket) => {
                    let id = ConnectionId::new(0, self.generation, slot as u32);
                    self.generation = self.generation.wrapping_add(1);
                    let desk = self.desks.pop().unwrap_or_default();
                    *lock(&hall.handed[slot]) = Some((socket, id, desk));
                    self.free.pop();
                    stopped = self.begin(slot)?;
                }
                Accepted::Nobody => {}
                Accepted::Exhausted => stopped = self.wait_for_an_end(Some(RETRY))?,
                Accepted::Closed => break,
            }
        }
        Ok(())
    }

    /// Makes sure of a desk for the next thread.
    fn ready(&mut self) -> io::Result<()> {
        if self.desks.is_empty() {
            self.desks.push(Box::default());
        }
        self.desks.last_mut().map_or(Ok(()), |desk| desk.ready::<P>())
    }

    /// Makes the thread for the connection handed to a slot. It waits until there is room for one.
    fn begin(&mut self, slot: usize) -> Result<Stopped, Error> {
        let counters = self.hall.counters;
        loop {
            counters.other_calls.add(1);
            let Err(error) = self.threads.make(slot) else {
                counters.units_created.add(1);
                return Ok(false);
            };
            trace::worker_not_made(error);
            if self.wait_for_an_end(Some(RETRY))? {
                // It was accepted, and nobody will serve it.
                drop(lock(&self.hall.handed[slot]).take());
                counters.closed(CloseReason::Stopped);
                return Ok(true);
            }
            self.join_ended();
        }
    }

    /// Waits until a thread is done, but not longer than `limit`.
    fn wait_for_an_end(&self, limit: Option<Duration>) -> Result<Stopped, Error> {
        let hall = self.hall;
        {
            let mut ended = lock(&hall.ended);
            if !ended.threads.is_empty() {
                return Ok(false);
            }
            hall.bell.quiet();
            ended.awaited = true;
        }
        let stopped = hall.wait(PollFd::new(&hall.bell, PollFlags::IN), limit);
        lock(&hall.ended).awaited = false;
        stopped
    }

    /// Takes what threads have left that are done.
    fn take_ended(&mut self, ended: &mut Ended) {
        for (slot, desk) in ended.threads.drain(..) {
            self.ending.push(slot);
            if self.desks.len() < KEPT_DESKS {
                self.desks.push(desk);
            }
        }
    }

    /// Joins the threads that have ended. One that is about to is waited for only if no slot is free otherwise.
    fn join_ended(&mut self) {
        self.take_ended(&mut lock(&self.hall.ended));
        let mut i = 0;
        while i < self.ending.len() {
            let slot = self.ending[i];
            if self.free.is_empty() {
                self.threads.join(slot);
            }
            if self.threads.join_if_ended(slot) {
                self.ending.swap_remove(i);
                self.free.push(slot);
            } else {
                i += 1;
            }
        }
    }

    /// Waits until every thread has ended or the drain time is over.
    fn drain(&mut self) {
        let hall = self.hall;
        let until = Instant::now() + hall.serving.drain();
        loop {
            {
                let mut ended = lock(&hall.ended);
                self.take_ended(&mut ended);
                hall.bell.quiet();
                ended.awaited = true;
            }
            while let Some(slot) = self.ending.pop() {
                self.threads.join(slot);
                self.free.push(slot);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.free.len() == hall.handed.len() {
                return;
            }
            hall.counters.waits.add(1);
            // Should it fail, the drain time is over sooner.
            let _ = poll_once(
                &mut [PollFd::new(&hall.bell, PollFlags::IN)],
                Some(&timespec(left)),
            );
            hall.counters.wake_ups.add(1);
        }
    }
}

impl<P> Hall<'_, P> {
    /// In the main thread: waits for something, but not longer than `limit`, and for the stop.
    fn wait(&self, what: PollFd<'_>, limit: Option<Duration>) -> Result<Stopped, Error> {
        let mut fds = [what, PollFd::new(self.serving.stop(), PollFlags::IN)];
        let limit = limit.map(timespec);
        self.counters.waits.add(1);
        poll_once(&mut fds, limit.as_ref()).map_err(Error::io("waiting for a connection"))?;
        self.counters.wake_ups.add(1);
        Ok(!fds[1].revents().is_empty())
    }
}
