//! What the prethreaded designs share: threads made beforehand that serve, and a main thread that sizes the pool. A
//! design says how a thread gets its next connection.

use std::sync::Mutex;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::back_off::BackOff;
use crate::blocking::Worker;
use crate::counters::Counters;
use crate::design::threads::{WorkerSlot, Workers, lock};
use crate::error::Error;
use crate::id::ConnectionId;
use crate::listen::{Accepted, RETRY};
use crate::pool::{self, Change, Scoreboard, Sizing};
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::shutdown::{Phase, ShutdownSignal};
use crate::stop::{poll_once, timespec};
use crate::trace;

/// How a prethreaded design differs from another.
pub(super) trait Prethread: Sync {
    /// Gets the next connection for the thread in this slot. Blocks until there is one, the listener is closed or,
    /// after [`wake`](Self::wake), the thread `shall_end`.
    fn next(&self, slot: usize, counters: &Counters, shall_end: &dyn Fn() -> bool)
    -> Result<Accepted, Error>;

    /// Threads shall end that serve nobody: has those that wait in [`next`](Self::next) look whether they are meant.
    fn wake(&self, counters: &Counters);

    /// The thread that cannot hear [`wake`](Self::wake), since it is the one that accepts.
    fn unwakable(&self) -> Option<usize> {
        None
    }

    /// Ends every wait in [`next`](Self::next), for good.
    fn close(&self);

    /// What the main thread waits for besides the stop and the pool.
    fn watched(&self) -> Option<PollFd<'_>> {
        None
    }

    /// In the main thread: what it waited for may be ready. An error ends the server.
    fn ready(&self, counters: &Counters) -> Result<(), Error> {
        let _ = counters;
        Ok(())
    }
}

/// Serves with a pool of threads until the stop.
pub(super) fn run<P: Protocol>(serving: &Serving<P>, design: &impl Prethread) -> Result<(), Error> {
    let range = pool::workers(&serving.options);
    let most = *range.end();
    let workers = Workers::new(most, serving);
    let shared = Shared {
        serving,
        design,
        workers: &workers,
        scoreboard: Scoreboard::new(&range).map_err(Error::io("making memory for the pool"))?,
        ended: Mutex::default(),
    };
    thread::scope(|scope| {
        let mut main = Main {
            shared: &shared,
            counters: serving.counters.block(most),
            sizing: Sizing::new(range),
            threads: (0..most).map(|_| None).collect(),
            back_off: BackOff::default(),
        };
        let outcome = main.look_after(scope);
        design.close();
        workers.enter(Phase::Draining);
        main.drain();
        workers.enter(Phase::Over);
        main.join_all();
        outcome
    })
}

/// What the main thread and the others share.
struct Shared<'a, P, D> {
    serving: &'a Serving<P>,
    design: &'a D,
    workers: &'a Workers,
    scoreboard: Scoreboard,
    /// Slots whose threads are done but for their exit. The scoreboard's descriptor is notified of it.
    ended: Mutex<Vec<usize>>,
}

/// What the main thread knows.
struct Main<'scope, P, D> {
    shared: &'scope Shared<'scope, P, D>,
    /// Its own.
    counters: &'scope Counters,
    sizing: Sizing,
    threads: Vec<Option<ScopedJoinHandle<'scope, Result<(), Error>>>>,
    back_off: BackOff,
}

impl<'scope, P: Protocol, D: Prethread> Main<'scope, P, D> {
    fn look_after(&mut self, scope: &'scope Scope<'scope, '_>) -> Result<(), Error> {
        let shared = self.shared;
        loop {
            self.join_ended()?;
            let limit = self.resize(scope);
            let watched = shared.design.watched();
            let mut fds = [
                PollFd::new(shared.serving.stop(), PollFlags::IN),
                PollFd::new(shared.scoreboard.wake_fd(), PollFlags::IN),
                // Without one, a descriptor that never becomes ready.
                watched
                    .clone()
                    .unwrap_or(PollFd::new(shared.scoreboard.wake_fd(), PollFlags::empty())),
            ];
            self.counters.waits.add(1);
            poll_once(&mut fds, limit.map(timespec).as_ref()).map_err(Error::io("waiting for the stop"))?;
            self.counters.wake_ups.add(1);
            if !fds[0].revents().is_empty() {
                return Ok(());
            }
            if !fds[1].revents().is_empty() {
                shared.scoreboard.wake_fd().clear();
            }
            if !fds[2].revents().is_empty() {
                shared.design.ready(self.counters)?;
            }
        }
    }

    /// Makes and ends threads until there are as many as there should be, and says how long that holds at most.
    fn resize(&mut self, scope: &'scope Scope<'scope, '_>) -> Option<Duration> {
        loop {
            let now = Instant::now();
            match self.sizing.decide(self.shared.scoreboard.counts(), now) {
                Change::Grow => match self.back_off.left(now) {
                    None => self.begin(scope, now),
                    left => return left,
                },
                Change::Shrink => self.retire(),
                Change::None(limit) => {
                    self.wake_retiring();
                    return limit;
                }
            }
        }
    }

    /// Makes a thread, or puts that off.
    fn begin(&mut self, scope: &'scope Scope<'scope, '_>, now: Instant) {
        let shared = self.shared;
        let Some(slot) = shared.scoreboard.free() else {
            return;
        };
        // Before it exists, so that one that is slow to come up does not call for others.
        shared.scoreboard.idle(slot);
        self.counters.other_calls.add(1);
        match thread::Builder::new().spawn_scoped(scope, move || shared.work(slot)) {
            Ok(thread) => {
                self.threads[slot] = Some(thread);
                self.counters.units_created.add(1);
            }
            Err(error) => {
                trace::worker_not_made(error);
                shared.scoreboard.empty(slot);
                self.back_off.failed(now);
            }
        }
    }

    /// Has an idle thread end, but not the one that could not hear of it.
    fn retire(&self) {
        self.shared.scoreboard.retire(self.shared.design.unwakable());
        self.wake_retiring();
    }

    /// Tells those that shall end and have not. One that has come to accept meanwhile stays.
    fn wake_retiring(&self) {
        let shared = self.shared;
        if shared.scoreboard.retiring().next().is_some() {
            if let Some(unwakable) = shared.design.unwakable() {
                shared.scoreboard.keep(unwakable);
            }
            shared.design.wake(self.counters);
        }
    }

    /// Joins the threads that have ended. One that has failed ends the server.
    fn join_ended(&mut self) -> Result<(), Error> {
        let ended = std::mem::take(&mut *lock(&self.shared.ended));
        let mut outcome = Ok(());
        for slot in ended {
            // A thread can only panic by a mistake of ours, which then shows in its connection alone.
            if let Some(Ok(Err(error))) = self.threads[slot].take().map(ScopedJoinHandle::join) {
                outcome = Err(error);
            }
            self.shared.scoreboard.empty(slot);
        }
        outcome
    }

    /// Joins all threads: the scope would wait until they are done, but not for their exit.
    fn join_all(&mut self) {
        for thread in self.threads.iter_mut().filter_map(Option::take) {
            // As in `join_ended`; and what failed is of no use any more.
            let _ = thread.join();
        }
    }

    /// Waits until every thread has ended or the drain time is over.
    fn drain(&mut self) {
        let until = Instant::now() + self.shared.serving.drain();
        loop {
            self.shared.scoreboard.wake_fd().clear();
            // What failed while it stopped is of no use any more.
            let _ = self.join_ended();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.threads.iter().all(Option::is_none) {
                return;
            }
            self.counters.waits.add(1);
            let mut wake_fd = [PollFd::new(self.shared.scoreboard.wake_fd(), PollFlags::IN)];
            // Should it fail, the drain time is over sooner.
            let _ = poll_once(&mut wake_fd, Some(&timespec(left)));
            self.counters.wake_ups.add(1);
        }
    }
}

impl<P: Protocol, D: Prethread> Shared<'_, P, D> {
    /// The life of a thread.
    fn work(&self, slot: usize) -> Result<(), Error> {
        let counters = self.serving.counters.block(slot);
        let outcome = self.serve(slot, counters);
        lock(&self.ended).push(slot);
        counters.other_calls.add(1);
        self.scoreboard.wake_fd().notify();
        outcome
    }

    fn serve(&self, slot: usize, counters: &Counters) -> Result<(), Error> {
        let worker_slot: WorkerSlot<'_> = self.workers.slot(slot);
        let mut worker = Worker::new(self.serving, counters, worker_slot);
        // Slots are used again: their block says how many connections they have had.
        let mut generation = counters.all_closed() as u32;
        let shall_end = || worker_slot.phase() > Phase::Serving || self.scoreboard.is_retiring(slot);
        while !shall_end() {
            let next = match worker.ready() {
                Ok(()) => self.design.next(slot, counters, &shall_end)?,
                Err(_) => Accepted::Exhausted,
            };
            match next {
                Accepted::Connection(socket) => {
                    self.scoreboard.busy(slot, counters);
                    worker.serve(socket, ConnectionId::new(0, generation, slot as u32));
                    self.scoreboard.idle(slot);
                    generation = generation.wrapping_add(1);
                }
                Accepted::Nobody => {}
                Accepted::Exhausted => {
                    counters.waits.add(1);
                    // A listener that is closed ends it early.
                    let mut listener = [PollFd::new(&self.serving.listener, PollFlags::empty())];
                    let _ = poll_once(&mut listener, Some(&timespec(RETRY)));
                    counters.wake_ups.add(1);
                }
                Accepted::Closed => break,
            }
        }
        Ok(())
    }
}
