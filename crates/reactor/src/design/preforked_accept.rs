//! Children made beforehand, all of which block in accept on the same socket; the kernel wakes one for each client.

use rustix::net::SocketFlags;

use crate::counters::Counters;
use crate::design::preforked::{self, Prefork};
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::listen::{Accepted, Listener};
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::setting::Setting;

pub(super) const ABOUT: About = About {
    name: "preforked-accept",
    summary: "children made beforehand all block in accept",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 2",
    memory: Memory::Separate,
    at_once: AtOnce::Workers,
    settings: &[Setting::Workers],
    made_of: made_of::processes,
    check: any_settings,
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    preforked::run(serving, ABOUT.name, &PlainAccept(&serving.listener))
}

struct PlainAccept<'a>(&'a Listener);

impl Prefork for PlainAccept<'_> {
    fn next(&self, _: usize, counters: &Counters) -> Result<Accepted, Error> {
        self.0.accept(SocketFlags::empty(), counters)
    }

    fn close(&self) {
        self.0.close_for_all();
    }
}
