//! What the designs that serve with threads share: how each thread hears of the stop and of the others.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{Shutdown, shutdown};

use crate::closing::Lingering;
use crate::outbox_table::OutboxTable;
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::shutdown::{Phase, ShutdownSignal};

/// A slot for each thread that serves, and how far the server's end has come.
#[derive(Debug)]
pub(super) struct Workers {
    phase: AtomicU8,
    slots: Box<[Mutex<Option<Served>>]>,
    /// If their sessions send to each other.
    outboxes: Option<Arc<OutboxTable>>,
}

/// A client's socket while a thread has to do with it.
#[derive(Debug)]
struct Served {
    socket: Arc<OwnedFd>,
    /// Its connection has ended.
    lingers: bool,
}

/// The slot of one thread at a time: there the client's socket lies while it is served, for the stop to shut down.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerSlot<'a> {
    workers: &'a Workers,
    number: usize,
}

impl Workers {
    /// So many slots.
    pub fn new<P: Protocol>(slots: usize, serving: &Serving<P>) -> Self {
        let outboxes = P::SHARED.then(|| Arc::new(OutboxTable::new(slots, &serving.options)));
        if let Some(outboxes) = outboxes.clone() {
            serving.waiting.by(move || outboxes.all_waiting());
        }
        Self {
            phase: AtomicU8::new(Phase::Serving as u8),
            slots: (0..slots).map(|_| Mutex::default()).collect(),
            outboxes,
        }
    }

    /// The slot of a number.
    pub fn slot(&self, number: usize) -> WorkerSlot<'_> {
        WorkerSlot {
            workers: self,
            number,
        }
    }

    /// Goes on to a later phase, and wakes every thread that its client keeps blocked.
    pub fn enter(&self, phase: Phase) {
        // Before the slots are looked at. Pairs with the load in `WorkerSlot::phase`, which comes after the slot was
        // taken: either the thread sees the phase, or its socket is seen here.
        self.phase.store(phase as u8, SeqCst);
        match phase {
            Phase::Serving => return,
            // Those whose outboxes are shared are woken by their descriptors, and read on until their sessions end.
            Phase::Draining if self.outboxes.is_some() => {
                self.shut_down(Shutdown::Read, |served| served.lingers);
            }
            Phase::Draining => self.shut_down(Shutdown::Read, |_| true),
            Phase::Over => self.shut_down(Shutdown::Both, |_| true),
        }
        if let Some(outboxes) = &self.outboxes {
            outboxes.wake_all();
        }
    }

    /// The sockets of these clients, so that calls on them return.
    fn shut_down(&self, how: Shutdown, whose: impl Fn(&Served) -> bool) {
        for slot in &self.slots {
            if let Some(served) = lock(slot).as_ref().filter(|served| whose(served)) {
                // It can only fail if the client is gone, and then nothing blocks.
                let _ = shutdown(&served.socket, how);
            }
        }
    }
}

impl ShutdownSignal for WorkerSlot<'_> {
    type Socket = Arc<OwnedFd>;
    const WAKES: bool = true;

    fn begin(&self, socket: OwnedFd) -> Arc<OwnedFd> {
        let socket = Arc::new(socket);
        *lock(&self.workers.slots[self.number]) = Some(Served {
            socket: Arc::clone(&socket),
            lingers: false,
        });
        socket
    }

    fn lingers(&self, socket: Arc<OwnedFd>, _: Lingering) -> Option<Arc<OwnedFd>> {
        // Before the phase is looked at: see `Workers::enter`.
        if let Some(served) = &mut *lock(&self.workers.slots[self.number]) {
            served.lingers = true;
        }
        Some(socket)
    }

    fn end(&self, socket: Arc<OwnedFd>) {
        *lock(&self.workers.slots[self.number]) = None;
        drop(socket);
    }

    fn outboxes(&self, socket: &Arc<OwnedFd>) -> Option<(&OutboxTable, Arc<OwnedFd>)> {
        Some((self.workers.outboxes.as_deref()?, Arc::clone(socket)))
    }

    fn phase(&self) -> Phase {
        Phase::from_number(self.workers.phase.load(SeqCst))
    }
}

/// A lock that is never held while something could panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use rustix::io::Errno;
    use rustix::net::{RecvFlags, recv};

    use super::*;
    use crate::protocol::chat::Chat;
    use crate::protocol::echo::Echo;
    use crate::{Server, Stop};

    /// What a thread that receives from its client hears of the stop.
    fn received_at_the_stop<P: Protocol>(protocol: P, lingers: bool) -> Result<usize, Errno> {
        let bound = Server::new(protocol).bind("127.0.0.1:0").expect("a port");
        let mut received = Err(Errno::INTR);
        let run = bound.run_by(&Stop::new().expect("a pipe"), |serving| {
            let workers = Workers::new(1, serving);
            let (socket, _client) = UnixStream::pair().expect("a pair");
            let socket = workers.slot(0).begin(socket.into());
            if lingers {
                let lingering = Lingering::new(Instant::now());
                let back = workers.slot(0).lingers(Arc::clone(&socket), lingering);
                assert!(back.is_some(), "the thread waits for it");
            }
            workers.enter(Phase::Draining);
            received = recv(&socket, &mut [0; 1], RecvFlags::DONTWAIT).map(|(_, count)| count);
            Ok(())
        });
        run.expect("served");
        received
    }

    #[test]
    fn a_thread_is_woken_at_the_stop_unless_it_serves_one_who_hears_others() {
        assert_eq!(received_at_the_stop(Echo, false), Ok(0));
        assert_eq!(received_at_the_stop(Chat::default(), false), Err(Errno::AGAIN));
        assert_eq!(received_at_the_stop(Chat::default(), true), Ok(0));
    }
}
