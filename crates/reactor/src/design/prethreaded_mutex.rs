//! Threads made beforehand, of which the one that holds a lock accepts.

use rustix::net::SocketFlags;

use crate::counters::Counters;
use crate::design::prethreaded::{self, Prethread};
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::listen::{Accepted, Listener};
use crate::lock::Lock;
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "prethreaded-mutex",
    summary: "threads made beforehand; a mutex decides who accepts",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 7",
    memory: Memory::Shared,
    at_once: AtOnce::Workers,
    settings: &[Setting::Workers],
    made_of: made_of::threads,
    check: any_settings,
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let design = AcceptWithMutex {
        listener: &serving.listener,
        lock: Lock::new().map_err(Error::io("making a lock"))?,
    };
    prethreaded::run(serving, &design)
}

struct AcceptWithMutex<'a> {
    listener: &'a Listener,
    /// The kernel would wake one thread for each client without it; that it costs little is what the design shows.
    lock: Lock,
}

impl Prethread for AcceptWithMutex<'_> {
    fn next(
        &self,
        slot: usize,
        counters: &Counters,
        shall_end: &dyn Fn() -> bool,
    ) -> Result<Accepted, Error> {
        match self.lock.take(slot, counters, shall_end) {
            Some(_held) => self.listener.accept(SocketFlags::empty(), counters),
            None => Ok(Accepted::Nobody),
        }
    }

    fn wake(&self, counters: &Counters) {
        self.lock.wake_all(counters);
    }

    fn unwakable(&self) -> Option<usize> {
        self.lock.holder()
    }

    fn close(&self) {
        self.listener.close_for_all();
    }
}
