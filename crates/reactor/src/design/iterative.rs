//! One process, one thread, one connection after the other: the baseline of Stevens' table.

use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketFlags;

use crate::blocking::Worker;
use crate::design::{About, AtOnce, Memory};
use crate::error::Error;
use crate::halt::Alone;
use crate::id::ConnectionId;
use crate::listen::Accepted;
use crate::protocol::Protocol;
use crate::server::Serving;
use crate::stop::poll_once;

pub(super) const ABOUT: About = About {
    name: "iterative",
    summary: "one thread serves one connection after the other",
    source: "Stevens, Unix Network Programming 1, chapter 30: design 0",
    memory: Memory::Shared,
    at_once: AtOnce::One,
    settings: &[],
};

pub(super) fn run<P: Protocol>(serving: &Serving<P>) -> Result<(), Error> {
    let counters = serving.board.block(0);
    serving.listener.set_nonblocking(true)?;
    let halt = Alone::new(serving.stop(), serving.options.drain);
    let mut worker = Worker::new(serving, counters, halt);
    for generation in 0.. {
        let connection = loop {
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
            match serving.listener.accept(SocketFlags::empty(), counters)? {
                Accepted::Connection(connection) => break connection,
                Accepted::Nobody | Accepted::Exhausted => {}
                Accepted::Closed => return Ok(()),
            }
        };
        worker.serve(connection, ConnectionId::new(0, generation, 0));
    }
    Ok(())
}
