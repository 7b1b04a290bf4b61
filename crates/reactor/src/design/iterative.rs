//! One process, one thread, one connection after the other: the baseline of Stevens' table.

use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketFlags;

use crate::blocking::Worker;
use crate::design::{About, AtOnce, Memory, any_settings, made_of};
use crate::error::Error;
use crate::id::ConnectionId;
use crate::listen::{Accepted, RETRY};
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::shutdown::SingleWorker;
use crate::stop::{poll_once, timespec};

pub(super) const ABOUT: About = About {
    name: "iterative",
    summary: "one thread serves one connection after the other",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 0",
    memory: Memory::Shared,
    at_once: AtOnce::One,
    settings: &[],
    made_of: made_of::no_choice,
    check: any_settings,
};

/// After how many connections it looks for the stop, if clients never let it wait.
const LOOK_EVERY: u32 = 16;

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let counters = serving.counters.block(0);
    serving.listener.set_nonblocking(true)?;
    let shutdown = SingleWorker::new(serving.stop(), serving.options.drain);
    let mut worker = Worker::new(serving, counters, shutdown);
    let mut next = ConnectionId::new(0, 0, 0);
    let mut look = true;
    loop {
        if look {
            let mut fds = [
                PollFd::new(&serving.listener, PollFlags::IN),
                PollFd::new(serving.stop(), PollFlags::IN),
            ];
            counters.waits.add(1);
            poll_once(&mut fds, None).map_err(Error::io("waiting for a connection"))?;
            counters.wake_ups.add(1);
            if !fds[1].revents().is_empty() {
                return Ok(());
            }
        }
        match serving.listener.accept(SocketFlags::empty(), counters)? {
            Accepted::Connection(connection) => {
                worker.serve(connection, next);
                next = ConnectionId::new(0, next.generation().wrapping_add(1), 0);
                // The next one may be there already.
                look = next.generation().is_multiple_of(LOOK_EVERY);
            }
            Accepted::Nobody => look = true,
            Accepted::Exhausted => {
                // The client that waits keeps the listener ready: so not for that, but for a while.
                counters.waits.add(1);
                let mut stop = [PollFd::new(serving.stop(), PollFlags::IN)];
                let _ = poll_once(&mut stop, Some(&timespec(RETRY)));
                counters.wake_ups.add(1);
                look = true;
            }
            Accepted::Closed => return Ok(()),
        }
    }
}
