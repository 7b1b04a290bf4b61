//! Children made beforehand, of which the one that holds a lock in shared memory accepts.

use rustix::net::SocketFlags;

use crate::counters::Counters;
use crate::design::preforked::{self, Prefork};
use crate::design::processes::Children;
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::fork::InChild;
use crate::listen::{Accepted, Listener};
use crate::lock::Lock;
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "preforked-mutex",
    summary: "children made beforehand; a mutex in shared memory decides who accepts",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 4",
    memory: Memory::Separate,
    at_once: AtOnce::Workers,
    settings: &[Setting::Workers],
    made_of: made_of::processes,
    check: any_settings,
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let design = AcceptWithMutex {
        listener: &serving.listener,
        lock: Lock::new().map_err(Error::io("making a lock in shared memory"))?,
    };
    preforked::run(serving, ABOUT.name, &design)
}

struct AcceptWithMutex<'a> {
    listener: &'a Listener,
    lock: Lock,
}

impl Prefork for AcceptWithMutex<'_> {
    fn next(&self, slot: usize, counters: &Counters) -> Result<Accepted, Error> {
        match self.lock.take(slot, counters, || InChild.shall_end()) {
            Some(_held) => self.listener.accept(SocketFlags::empty(), counters),
            None => Ok(Accepted::Nobody),
        }
    }

    fn ended(&self, slot: usize, _: &Children, counters: &Counters) {
        self.lock.release_of_dead(slot, counters);
    }

    fn close(&self) {
        self.listener.close_for_all();
    }
}
