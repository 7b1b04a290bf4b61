//! How a worker that waits for its client hears that the server stops.
//!
//! A thread that blocks in `recv` cannot look at a pipe as well, and to ask `poll` before each receive would cost a
//! system call per message. So whoever stops the server shuts the worker's socket down for receiving: the call returns
//! at once, also if it had not begun. [`ShutdownSignal`] is the worker's side of that. Where connections send to each
//! other a worker waits for its `WakeFd` as well, which can say so too; there the socket stays open until the drain
//! time is over.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::closing::{Lingering, LingeringSockets};
use crate::outbox_table::OutboxTable;
use crate::stop::Stop;

/// How far the end of a server has come. It only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    /// Nobody new is accepted, and what has begun is finished.
    Draining,
    /// The drain time is over.
    Over,
}

impl Phase {
    /// The one of this number; all above the last are the last.
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Serving,
            1 => Self::Draining,
            _ => Self::Over,
        }
    }
}

/// The shutdown signal of a worker: what it has to learn of the phases.
pub(crate) trait ShutdownSignal {
    /// A client's socket while this worker serves it.
    type Socket: AsFd;

    /// Whether a call on the socket that blocks returns when the phase goes on: the socket is then shut down, for
    /// receiving in [`Phase::Draining`] and altogether in [`Phase::Over`]. With [`outboxes`](Self::outboxes) a `WakeFd`
    /// wakes instead, and only [`Phase::Over`] shuts down. If not, [`watch`](Self::watch) says what to wait for beside
    /// the client.
    const WAKES: bool;

    /// From now on this worker serves this client.
    fn begin(&self, socket: OwnedFd) -> Self::Socket;

    /// It serves it no more: closes the socket.
    fn end(&self, socket: Self::Socket);

    /// The socket of a connection that has ended [lingers](crate::closing). If it comes back, the worker waits for it,
    /// and a call on it returns when the phase goes on; if not, it is looked after.
    fn lingers(&self, socket: Self::Socket, lingering: Lingering) -> Option<Self::Socket>;

    /// The phase now. No system call.
    fn phase(&self) -> Phase;

    /// What to wait for beside the client, and until when, if blocked calls are not woken.
    fn watch(&self) -> (Option<BorrowedFd<'_>>, Option<Instant>) {
        (None, None)
    }

    /// Through which the connections of this server send to each other, and the client's socket for it; `None` where
    /// they are in separate address spaces or come one after the other.
    fn outboxes<'a>(&'a self, socket: &Self::Socket) -> Option<(&'a OutboxTable, Arc<OwnedFd>)> {
        let _ = socket;
        None
    }

    /// What [`watch`](Self::watch) gave to wait for is readable.
    fn noticed(&self) {}
}

/// A worker that is the whole server: it watches the stop itself, and the time after it. Sockets that linger keep it
/// from nobody: it looks after them between two clients.
#[derive(Debug)]
pub(crate) struct SingleWorker<'a> {
    stop: &'a Stop,
    drain: Duration,
    /// The end of the drain time, once the stop was seen.
    until: Cell<Option<Instant>>,
    /// Sockets that linger.
    pub lingering: RefCell<LingeringSockets>,
}

impl<'a> SingleWorker<'a> {
    /// It has `drain` after the stop.
    pub fn new(stop: &'a Stop, drain: Duration) -> Self {
        Self {
            stop,
            drain,
            until: Cell::new(None),
            lingering: RefCell::default(),
        }
    }
}

impl ShutdownSignal for &SingleWorker<'_> {
    type Socket = OwnedFd;
    const WAKES: bool = false;

    fn begin(&self, socket: OwnedFd) -> OwnedFd {
        socket
    }

    fn end(&self, socket: OwnedFd) {
        drop(socket);
    }

    fn lingers(&self, socket: OwnedFd, lingering: Lingering) -> Option<OwnedFd> {
        self.lingering.borrow_mut().push(socket, lingering);
        None
    }

    fn phase(&self) -> Phase {
        match self.until.get() {
            None => Phase::Serving,
            Some(until) if Instant::now() < until => Phase::Draining,
            Some(_) => Phase::Over,
        }
    }

    fn watch(&self) -> (Option<BorrowedFd<'_>>, Option<Instant>) {
        match self.until.get() {
            None => (Some(self.stop.as_fd()), None),
            until => (None, until),
        }
    }

    fn noticed(&self) {
        let drain = self.stop.drain().unwrap_or(self.drain);
        self.until.set(Some(Instant::now() + drain));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_alone_drains_for_its_time_after_it_has_seen_the_stop() {
        const AGES: Duration = Duration::from_secs(3_600);
        for (drain, phase) in [(Duration::ZERO, Phase::Over), (AGES, Phase::Draining)] {
            let stop = Stop::new().unwrap();
            let worker = SingleWorker::new(&stop, drain);
            let worker = &worker;
            assert_eq!(worker.phase(), Phase::Serving);
            assert!(matches!(worker.watch(), (Some(_), None)));
            stop.stop();
            worker.noticed();
            assert_eq!(worker.phase(), phase);
            assert!(matches!(worker.watch(), (None, Some(_))));
        }
    }
}
