//! Children made beforehand, of which the one that holds a lock on a file accepts.

use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, MemfdFlags, fcntl_lock, memfd_create};
use rustix::io::Errno;
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
    name: "preforked-file-lock",
    summary: "children made beforehand; a lock on a file decides who accepts",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 3",
    memory: Memory::Separate,
    at_once: AtOnce::Workers,
    settings: &[Setting::Workers],
    made_of: made_of::processes,
    check: any_settings,
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    // A file without a name: there is none to choose, and none is left.
    let file = memfd_create("threadgauge-accept", MemfdFlags::CLOEXEC)
        .map_err(Error::io("making a file to lock"))?;
    let design = AcceptWithFileLock {
        listener: &serving.listener,
        file,
    };
    preforked::run(serving, ABOUT.name, &design)
}

/// A POSIX record lock belongs to a process, also on a descriptor that several inherited, and ends with it.
struct AcceptWithFileLock<'a> {
    listener: &'a Listener,
    file: OwnedFd,
}

impl Prefork for AcceptWithFileLock<'_> {
    fn next(&self, _: usize, counters: &Counters) -> Result<Accepted, Error> {
        counters.waits.add(1);
        let locked = fcntl_lock(&self.file, FlockOperation::LockExclusive);
        counters.wake_ups.add(1);
        match locked {
            Ok(()) => {}
            Err(Errno::INTR) => return Ok(Accepted::Nobody),
            Err(error) => return Err(Error::io("locking a file")(error)),
        }
        let accepted = self.listener.accept(SocketFlags::empty(), counters);
        counters.other_calls.add(1);
        fcntl_lock(&self.file, FlockOperation::Unlock).map_err(Error::io("unlocking a file"))?;
        accepted
    }

    fn close(&self) {
        self.listener.close_for_all();
    }
}
