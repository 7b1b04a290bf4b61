//! Threads made beforehand; the main thread accepts, and hands each connection over to one that is idle.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketFlags;

use crate::counters::Counters;
use crate::design::prethreaded::{self, Prethread};
use crate::design::threads::lock;
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::listen::{Accepted, Listener, RETRY};
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::setting::Setting;
use crate::stop::{poll_once, timespec};
use crate::wake_fd::WakeFd;

pub(super) const ABOUT: About = About {
    name: "prethreaded-acceptor",
    summary: "threads made beforehand; the main thread accepts and hands over to an idle one",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 8",
    memory: Memory::Shared,
    at_once: AtOnce::Workers,
    settings: &[Setting::Workers],
    made_of: made_of::threads,
    check: any_settings,
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    serving.listener.set_nonblocking(true)?;
    let design = HandOver {
        listener: &serving.listener,
        counter: Mutex::default(),
        filled: Condvar::new(),
        wake_fd: WakeFd::new().map_err(Error::io("making a descriptor to wake the main thread"))?,
    };
    prethreaded::run(serving, &design)
}

struct HandOver<'a> {
    listener: &'a Listener,
    counter: Mutex<Counter>,
    /// A connection lies there, or whoever waits shall look whether to end.
    filled: Condvar,
    /// Notified when somebody is idle again and the main thread waits for that.
    wake_fd: WakeFd,
}

/// Over which connections are handed.
#[derive(Default)]
struct Counter {
    sockets: VecDeque<OwnedFd>,
    /// How many threads wait.
    idle: usize,
    /// The main thread waits until one does.
    awaited: bool,
    /// The descriptor was notified.
    rung: bool,
    closed: bool,
}

impl Counter {
    /// Whether somebody waits for a connection that does not lie there yet.
    fn has_room(&self) -> bool {
        self.idle > self.sockets.len()
    }
}

impl Prethread for HandOver<'_> {
    fn next(&self, _: usize, counters: &Counters, shall_end: &dyn Fn() -> bool) -> Result<Accepted, Error> {
        let mut counter = lock(&self.counter);
        counter.idle += 1;
        if std::mem::take(&mut counter.awaited) {
            counter.rung = true;
            counters.other_calls.add(1);
            self.wake_fd.notify();
        }
        let next = loop {
            if let Some(socket) = counter.sockets.pop_front() {
                break Accepted::Connection(socket);
            }
            if counter.closed {
                break Accepted::Closed;
            }
            if shall_end() {
                break Accepted::Nobody;
            }
            counters.waits.add(1);
            counter = self.filled.wait(counter).unwrap_or_else(PoisonError::into_inner);
            counters.wake_ups.add(1);
        };
        counter.idle -= 1;
        Ok(next)
    }

    fn wake(&self, counters: &Counters) {
        // With the lock, so that nobody is between looking and waiting.
        let _counter = lock(&self.counter);
        counters.other_calls.add(1);
        self.filled.notify_all();
    }

    fn close(&self) {
        self.listener.close_for_all();
        lock(&self.counter).closed = true;
        self.filled.notify_all();
    }

    /// The permit comes first: without an idle thread nobody is accepted.
    fn watched(&self) -> Option<PollFd<'_>> {
        let mut counter = lock(&self.counter);
        Some(match counter.has_room() {
            true => PollFd::new(self.listener, PollFlags::IN),
            false => {
                counter.awaited = true;
                PollFd::new(&self.wake_fd, PollFlags::IN)
            }
        })
    }

    fn ready(&self, counters: &Counters) -> Result<(), Error> {
        {
            let mut counter = lock(&self.counter);
            counter.awaited = false;
            if std::mem::take(&mut counter.rung) {
                counters.other_calls.add(1);
                self.wake_fd.clear();
            }
            if !counter.has_room() {
                return Ok(());
            }
        }
        match self.listener.accept(SocketFlags::empty(), counters)? {
            Accepted::Connection(socket) => {
                lock(&self.counter).sockets.push_back(socket);
                counters.other_calls.add(1);
                self.filled.notify_one();
            }
            Accepted::Nobody | Accepted::Closed => {}
            Accepted::Exhausted => {
                counters.waits.add(1);
                // A signal ends it early.
                let _ = poll_once(&mut [], Some(&timespec(RETRY)));
                counters.wake_ups.add(1);
            }
        }
        Ok(())
    }
}
