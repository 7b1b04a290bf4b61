//! One process, one thread, one connection after the other: the baseline of Stevens' table. Sockets of connections that
//! have ended keep nobody waiting: it looks after those that linger between two clients.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketFlags;

use crate::blocking::Worker;
use crate::connection::RECEIVE_BYTES;
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
/// From so many sockets that linger it receives after each connection: more than begin to linger with one.
const LOOKED_AFTER: usize = 2;

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let counters = serving.counters.block(0);
    serving.listener.set_nonblocking(true)?;
    let single = SingleWorker::new(serving.stop(), serving.options.drain);
    let mut worker = Worker::new(serving, counters, &single);
    let mut next = ConnectionId::new(0, 0, 0);
    let mut room = vec![0; RECEIVE_BYTES];
    let mut look = true;
    loop {
        let many_linger = single.lingering.borrow().are_many();
        look |= many_linger;
        if look && wait(serving, &single, !many_linger, None)? {
            single.lingering.borrow_mut().close(counters);
            return Ok(());
        }
        let looked_after = if look { usize::MAX } else { LOOKED_AFTER };
        let now = Instant::now();
        single
            .lingering
            .borrow_mut()
            .receive(looked_after, &mut room, counters, now);
        if many_linger {
            continue;
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
                // The client that waits keeps the listener ready: so not for that, but for a while. The stop is seen
                // when it looks.
                wait(serving, &single, false, Some(RETRY))?;
                look = true;
            }
            Accepted::Closed => return Ok(()),
        }
    }
}

/// Waits for the next client if it `listens`, for those whose sockets linger and for the stop, but not longer than
/// `limit`. Whether the server shall stop.
fn wait<P>(
    serving: &Serving<P>,
    single: &SingleWorker<'_>,
    listens: bool,
    limit: Option<Duration>,
) -> Result<bool, Error> {
    let counters = serving.counters.block(0);
    let lingering = single.lingering.borrow();
    let mut client = PollFlags::empty();
    client.set(PollFlags::IN, listens);
    let own = [
        PollFd::new(serving.stop(), PollFlags::IN),
        PollFd::new(&serving.listener, client),
    ];
    let mut fds: Vec<_> = own.into_iter().chain(lingering.polled()).collect();
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    let limit = lingering.until().map(left).into_iter().chain(limit).min();
    counters.waits.add(1);
    poll_once(&mut fds, limit.map(timespec).as_ref()).map_err(Error::io("waiting for a connection"))?;
    counters.wake_ups.add(1);
    Ok(!fds[0].revents().is_empty())
}
