//! What the designs that serve with threads share: how each thread hears of the stop and of the others.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{Shutdown, shutdown};

use crate::outbox_table::OutboxTable;
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::shutdown::{Phase, ShutdownSignal};

/// A slot for each thread that serves, and how far the server's end has come.
#[derive(Debug)]
pub(super) struct Workers {
    phase: AtomicU8,
    slots: Box<[Mutex<Option<Arc<OwnedFd>>>]>,
    /// If their sessions send to each other.
    outboxes: Option<Arc<OutboxTable>>,
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
            Phase::Draining if self.outboxes.is_some() => {}
            Phase::Draining => self.shut_down(Shutdown::Read),
            Phase::Over => self.shut_down(Shutdown::Both),
        }
        if let Some(outboxes) = &self.outboxes {
            outboxes.wake_all();
        }
    }

    /// Every client's socket, so that calls on it return.
    fn shut_down(&self, how: Shutdown) {
        for slot in &self.slots {
            if let Some(socket) = &*lock(slot) {
                // It can only fail if the client is gone, and then nothing blocks.
                let _ = shutdown(socket, how);
            }
        }
    }
}

impl ShutdownSignal for WorkerSlot<'_> {
    type Socket = Arc<OwnedFd>;
    const WAKES: bool = true;

    fn begin(&self, socket: OwnedFd) -> Arc<OwnedFd> {
        let socket = Arc::new(socket);
        *lock(&self.workers.slots[self.number]) = Some(Arc::clone(&socket));
        socket
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
