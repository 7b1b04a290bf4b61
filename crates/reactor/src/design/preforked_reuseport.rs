//! Children made beforehand, each with a listening socket of its own on the same port; the kernel spreads clients over
//! the sockets by their addresses.
//!
//! A client waits for the child of its socket, also while others are idle. A socket outlives a child that dies, with
//! the clients that wait there; but one cannot be closed without resetting them, so the pool has a fixed size.

use rustix::net::SocketFlags;

use crate::counters::Counters;
use crate::design::preforked::{self, Prefork};
use crate::design::{About, AtOnce, Memory, made_of};
use crate::error::Error;
use crate::listen::{Accepted, Listener};
use crate::options::Options;
use crate::pool;
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "preforked-reuseport",
    summary: "children made beforehand, each with a listening socket of its own",
    source: "Linux 3.9, socket(7): SO_REUSEPORT",
    memory: Memory::Separate,
    at_once: AtOnce::Workers,
    settings: &[Setting::Workers],
    made_of: made_of::processes,
    check,
};

/// Whether it can serve with these.
fn check(options: &Options) -> Result<(), Error> {
    options.one_number_of_workers(
        "with a listening socket each, give one number: a socket cannot go without resetting who waits there",
    )
}

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let workers = pool::workers(&serving.options);
    let siblings = (1..*workers.end())
        .map(|_| serving.listener.sibling())
        .collect::<Result<_, _>>()?;
    let design = AcceptFromOwn {
        first: &serving.listener,
        siblings,
    };
    preforked::run(serving, ABOUT.name, &design)
}

struct AcceptFromOwn<'a> {
    /// That of the first slot.
    first: &'a Listener,
    /// Those of the others.
    siblings: Vec<Listener>,
}

impl AcceptFromOwn<'_> {
    fn listeners(&self) -> impl Iterator<Item = &Listener> {
        std::iter::once(self.first).chain(&self.siblings)
    }

    fn own(&self, slot: usize) -> &Listener {
        match slot {
            0 => self.first,
            _ => &self.siblings[slot - 1],
        }
    }
}

impl Prefork for AcceptFromOwn<'_> {
    fn next(&self, slot: usize, counters: &Counters) -> Result<Accepted, Error> {
        self.own(slot).accept(SocketFlags::empty(), counters)
    }

    fn inherit(&self, slot: usize) {
        for (other, listener) in self.listeners().enumerate() {
            if other != slot {
                listener.close_for_good();
            }
        }
    }

    fn close(&self) {
        self.listeners().for_each(Listener::close_for_all);
    }
}
