//! A process for each connection, forked when it comes and ended with it.

use std::os::fd::OwnedFd;

use rustix::net::SocketFlags;

use crate::blocking::Worker;
use crate::counters::{CloseReason, Counters};
use crate::design::processes::{Children, News};
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::fork::InChild;
use crate::id::ConnectionId;
use crate::listen::{Accepted, RETRY};
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::trace;

pub(super) const ABOUT: About = About {
    name: "process-per-connection",
    summary: "the parent accepts, and forks a child for each connection",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 1",
    memory: Memory::Separate,
    at_once: AtOnce::Many,
    settings: &[],
    made_of: made_of::no_choice,
    check: any_settings,
};

/// What is watched beside the children.
const STOP: usize = 0;
const LISTENER: usize = 1;

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let children = Children::new(ABOUT.name)?;
    children.watch(serving.stop(), STOP)?;
    serving.listener.set_nonblocking(true)?;
    let mut parent = Parent {
        serving,
        counters: serving.counters.block(0),
        worker: Worker::new(serving, child_counters(serving, 0), InChild),
        children,
        free: Vec::new(),
        closed: Vec::new(),
        generation: 0,
    };
    let outcome = parent.accept_until_stopped();
    serving.listener.close_for_all();
    let drained = parent.drain();
    outcome.and(drained)
}

/// The block of the children in a slot, behind the parent's.
fn child_counters<P>(serving: &Serving<P>, slot: usize) -> &Counters {
    serving.counters.block(slot + 1)
}

/// What the parent knows.
struct Parent<'a, P> {
    serving: &'a Serving<P>,
    /// Its own.
    counters: &'a Counters,
    /// For the next child, which finds its buffers made.
    worker: Worker<'a, P, InChild>,
    children: Children,
    /// Slots that were used and are not now. New ones are begun only when there is none: the less the parent has
    /// written, the less there is to copy when it forks.
    free: Vec<usize>,
    /// By slot begun, how many connections its children have counted as closed.
    closed: Vec<u64>,
    generation: u32,
}

impl<P: Protocol> Parent<'_, P> {
    fn accept_until_stopped(&mut self) -> Result<(), Error> {
        let mut news = Vec::new();
        let mut listening = false;
        // Accepted, and waiting for a child that could not be forked.
        let mut waiting = None;
        // Something was lacking: wait a little before trying again.
        let mut pause = None;
        loop {
            // The permit comes first: without a free slot nobody is accepted.
            let listen = waiting.is_none() && pause.is_none() && self.has_room();
            if listen != listening {
                self.counters.other_calls.add(1);
                match listen {
                    true => self.children.watch(&self.serving.listener, LISTENER)?,
                    false => self.children.unwatch(&self.serving.listener),
                }
                listening = listen;
            }
            self.counters.waits.add(1);
            self.children.wait(pause.take(), &mut news)?;
            self.counters.wake_ups.add(1);
            for news in &news {
                match *news {
                    News::Ended(slot) => self.reap(slot, CloseReason::Lost),
                    News::Ready(STOP) => {
                        if waiting.is_some() {
                            self.counters.closed(CloseReason::Stopped);
                        }
                        return Ok(());
                    }
                    News::Ready(_) => match self
                        .serving
                        .listener
                        .accept(SocketFlags::empty(), self.counters)?
                    {
                        Accepted::Connection(socket) => waiting = Some(socket),
                        Accepted::Nobody => {}
                        Accepted::Exhausted => pause = Some(RETRY),
                        Accepted::Closed => return Ok(()),
                    },
                }
            }
            if waiting.is_some() && !self.begin(&mut waiting) {
                pause = Some(RETRY);
            }
        }
    }

    fn has_room(&self) -> bool {
        !self.free.is_empty() || self.closed.len() < self.serving.options.max_connections
    }

    /// Forks the child for a connection; whether that could be done.
    fn begin(&mut self, socket: &mut Option<OwnedFd>) -> bool {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.closed.push(0);
            self.closed.len() - 1
        });
        let id = ConnectionId::new(0, self.generation, slot as u32);
        let (serving, worker) = (self.serving, &mut self.worker);
        self.counters.other_calls.add(4); // fork, close, and two to watch the child
        let forked = self.children.fork(slot, socket, |socket| {
            serving.listener.close_for_good();
            worker.count_in(child_counters(serving, slot));
            if let Some(socket) = socket {
                worker.serve(socket, id);
            }
            Ok(())
        });
        match forked {
            Ok(()) => {
                self.generation = self.generation.wrapping_add(1);
                self.counters.units_created.add(1);
            }
            Err(error) => {
                trace::worker_not_made(error);
                self.free.push(slot);
            }
        }
        if forked.is_err() && socket.is_none() {
            // It had to be closed before the child turned out to be one that cannot be looked after.
            self.counters.closed(CloseReason::Lost);
        }
        forked.is_ok() || socket.is_none()
    }

    /// A child has ended. If it did not count its connection, that ended with it, for `reason`.
    fn reap(&mut self, slot: usize, reason: CloseReason) {
        if let Some(ended) = self.children.reap(slot).filter(|ended| !ended.is_well()) {
            trace::worker_lost(slot, ended);
            self.counters.units_lost.add(1);
        }
        self.counters.other_calls.add(2);
        self.ended(slot, reason);
    }

    fn ended(&mut self, slot: usize, reason: CloseReason) {
        let closed = child_counters(self.serving, slot).all_closed();
        if closed == self.closed[slot] {
            self.counters.closed(reason);
        }
        self.closed[slot] = closed;
        self.free.push(slot);
    }

    fn drain(&mut self) -> Result<(), Error> {
        let mut ended = Vec::new();
        let drained = self.children.drain(self.serving.drain(), |slot| ended.push(slot));
        for slot in ended {
            self.ended(slot, CloseReason::DrainTime);
        }
        drained
    }
}
