//! A thread for each connection, made when it comes and ended with it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketFlags;

use crate::blocking::{Scratch, Worker};
use crate::counters::{CloseReason, Counters};
use crate::design::threads::{Workers, lock};
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::id::ConnectionId;
use crate::listen::{Accepted, RETRY};
use crate::protocol::Protocol;
use crate::pthread::{self, Threads};
use crate::serving::Serving;
use crate::shutdown::Phase;
use crate::stop::{poll_once, timespec};
use crate::trace;
use crate::wake_fd::WakeFd;

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

/// The most scratch memories that the main thread keeps for threads to come, and that wait for it: as many as are left
/// in a moment under a usual load.
const KEPT_SPARES: usize = 32;

/// So many threads that are done have the main thread join them, though nobody connects: each keeps its stack until
/// then.
const MANY_ENDED: usize = 32;

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let most = serving.options.max_connections;
    let workers = Workers::new(most, serving);
    let shared = Shared {
        serving,
        counters: serving.counters.block(0),
        workers: &workers,
        handed: (0..most).map(|_| Mutex::default()).collect(),
        ended: Mutex::default(),
        wake_fd: WakeFd::new().map_err(Error::io("making a descriptor to wake the main thread"))?,
    };
    serving.listener.set_nonblocking(true)?;
    pthread::scope(&shared, Shared::serve, |threads| {
        let mut main = Main {
            shared: &shared,
            threads,
            free: (0..most).rev().collect(),
            ending: Vec::new(),
            spares: Vec::new(),
            generation: 0,
        };
        let outcome = main.accept_until_stopped();
        serving.listener.close_for_all();
        workers.enter(Phase::Draining);
        main.drain();
        workers.enter(Phase::Over);
        outcome
    })
}

/// What the main thread and the threads of the connections share.
struct Shared<'a, P> {
    serving: &'a Serving<P>,
    /// The main thread's.
    counters: &'a Counters,
    workers: &'a Workers,
    /// By slot: from the main thread to the new one. It stays there until that could be made.
    handed: Box<[Handed]>,
    ended: Mutex<Ended>,
    wake_fd: WakeFd,
}

/// What a thread begins with.
type Handed = Mutex<Option<(OwnedFd, ConnectionId, Box<Scratch>)>>;

/// The threads that are done but for their exit.
#[derive(Default)]
struct Ended {
    /// By slot, with what the first of them leave to the next.
    threads: Vec<(usize, Option<Box<Scratch>>)>,
    /// The main thread waits to be notified.
    awaited: bool,
}

impl<P: Protocol> Shared<'_, P> {
    /// The life of a connection's thread.
    fn serve(&self, slot: usize) {
        let counters = self.serving.counters.block(slot + 1);
        let handed = lock(&self.handed[slot]).take();
        let (socket, id, scratch) =
            handed.expect("the main thread fills the slot before it makes the thread");
        let mut worker = Worker::at(scratch, self.serving, counters, self.workers.slot(slot));
        worker.serve(socket, id);
        let scratch = worker.leave();
        let mut ended = lock(&self.ended);
        let is_kept = ended.threads.len() < KEPT_SPARES;
        ended.threads.push((slot, is_kept.then_some(scratch)));
        if std::mem::take(&mut ended.awaited) || ended.threads.len() == MANY_ENDED {
            counters.other_calls.add(1);
            self.wake_fd.notify();
        }
    }
}

/// What the main thread knows.
struct Main<'m, 't, 'a, P> {
    shared: &'m Shared<'a, P>,
    threads: &'m mut Threads<'t, Shared<'a, P>>,
    free: Vec<usize>,
    /// Slots that are neither free nor at work: their threads are about to exit.
    ending: Vec<usize>,
    /// For the next threads. In boxes, since they are handed on from slot to slot.
    #[expect(clippy::vec_box, reason = "they come and go as boxes")]
    spares: Vec<Box<Scratch>>,
    generation: u32,
}

/// Whether the server shall stop.
type Stopped = bool;

/// What the main thread waits for.
#[derive(Clone, Copy)]
enum For {
    /// A thread that is done.
    End,
    /// A client, or many threads that are done.
    ClientOrEnd,
}

impl<P: Protocol> Main<'_, '_, '_, P> {
    fn accept_until_stopped(&mut self) -> Result<(), Error> {
        let shared = self.shared;
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
            stopped = shared.wait(For::ClientOrEnd, None)?;
            if stopped {
                break;
            }
            match shared
                .serving
                .listener
                .accept(SocketFlags::empty(), shared.counters)?
            {
                Accepted::Connection(socket) => {
                    let id = ConnectionId::new(0, self.generation, slot as u32);
                    self.generation = self.generation.wrapping_add(1);
                    let scratch = self.spares.pop().unwrap_or_default();
                    *lock(&shared.handed[slot]) = Some((socket, id, scratch));
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

    /// Makes sure of scratch memory for the next thread.
    fn ready(&mut self) -> io::Result<()> {
        if self.spares.is_empty() {
            self.spares.push(Box::default());
        }
        self.spares
            .last_mut()
            .map_or(Ok(()), |scratch| scratch.ready::<P>())
    }

    /// Makes the thread for the connection handed to a slot. It waits until there is room for one.
    fn begin(&mut self, slot: usize) -> Result<Stopped, Error> {
        let counters = self.shared.counters;
        loop {
            counters.other_calls.add(1);
            let Err(error) = self.threads.make(slot) else {
                counters.units_created.add(1);
                return Ok(false);
            };
            trace::worker_not_made(error);
            if self.wait_for_an_end(Some(RETRY))? {
                // It was accepted, and nobody will serve it.
                drop(lock(&self.shared.handed[slot]).take());
                counters.closed(CloseReason::Stopped);
                return Ok(true);
            }
            self.join_ended();
        }
    }

    /// Waits until a thread is done, but not longer than `limit`.
    fn wait_for_an_end(&self, limit: Option<Duration>) -> Result<Stopped, Error> {
        let shared = self.shared;
        {
            let mut ended = lock(&shared.ended);
            if !ended.threads.is_empty() {
                return Ok(false);
            }
            ended.awaited = true;
        }
        let stopped = shared.wait(For::End, limit);
        lock(&shared.ended).awaited = false;
        stopped
    }

    /// Takes what threads have left that are done.
    fn take_ended(&mut self, ended: &mut Ended) {
        for (slot, scratch) in ended.threads.drain(..) {
            self.ending.push(slot);
            self.spares.extend(scratch);
        }
        self.spares.truncate(KEPT_SPARES);
    }

    /// Joins the threads that have ended. One that is about to is waited for only if no slot is free otherwise.
    fn join_ended(&mut self) {
        self.take_ended(&mut lock(&self.shared.ended));
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
        let shared = self.shared;
        let until = Instant::now() + shared.serving.drain();
        loop {
            {
                let mut ended = lock(&shared.ended);
                self.take_ended(&mut ended);
                shared.wake_fd.clear();
                ended.awaited = true;
            }
            while let Some(slot) = self.ending.pop() {
                self.threads.join(slot);
                self.free.push(slot);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.free.len() == shared.handed.len() {
                return;
            }
            shared.counters.waits.add(1);
            // Should it fail, the drain time is over sooner.
            let _ = poll_once(
                &mut [PollFd::new(&shared.wake_fd, PollFlags::IN)],
                Some(&timespec(left)),
            );
            shared.counters.wake_ups.add(1);
        }
    }
}

impl<P> Shared<'_, P> {
    /// In the main thread: waits, but not longer than `limit`, and for the stop. It may return for nothing.
    fn wait(&self, what: For, limit: Option<Duration>) -> Result<Stopped, Error> {
        let mut fds = [
            PollFd::new(self.serving.stop(), PollFlags::IN),
            PollFd::new(&self.wake_fd, PollFlags::IN),
            PollFd::new(&self.serving.listener, PollFlags::IN),
        ];
        let waited_for = match what {
            For::End => &mut fds[..2],
            For::ClientOrEnd => &mut fds[..],
        };
        let limit = limit.map(timespec);
        self.counters.waits.add(1);
        poll_once(waited_for, limit.as_ref()).map_err(Error::io("waiting for a connection"))?;
        self.counters.wake_ups.add(1);
        if !fds[1].revents().is_empty() {
            self.wake_fd.clear();
        }
        Ok(!fds[0].revents().is_empty())
    }
}
