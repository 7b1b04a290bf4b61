//! What the designs that serve with threads share: how each thread hears of the stop and of the others.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{Shutdown, shutdown};

use crate::halt::{Halt, Phase};
use crate::mail::Mail;
use crate::protocol::Protocol;
use crate::server::Serving;

/// A slot for each thread that serves, and how far the server's end has come.
#[derive(Debug)]
pub(super) struct Workers {
    phase: AtomicU8,
    slots: Box<[Mutex<Option<Arc<OwnedFd>>>]>,
    /// If their sessions send to each other.
    mail: Option<Arc<Mail>>,
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
        let mail = P::SHARED.then(|| Arc::new(Mail::new(slots, &serving.options)));
        if let Some(mail) = mail.clone() {
            serving.waiting.by(move || mail.all_waiting());
        }
        Self {
            phase: AtomicU8::new(Phase::Serving as u8),
            slots: (0..slots).map(|_| Mutex::default()).collect(),
            mail,
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
            // Those who have mail are woken by their descriptors, and read on until their sessions end.
            Phase::Draining if self.mail.is_some() => {}
            Phase::Draining => self.shut_down(Shutdown::Read),
            Phase::Over => self.shut_down(Shutdown::Both),
        }
        if let Some(mail) = &self.mail {
            mail.wake_all();
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

impl Halt for WorkerSlot<'_> {
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

    fn mail(&self, socket: &Arc<OwnedFd>) -> Option<(&Mail, Arc<OwnedFd>)> {
        Some((self.workers.mail.as_deref()?, Arc::clone(socket)))
    }

    fn phase(&self) -> Phase {
        Phase::from_number(self.workers.phase.load(SeqCst))
    }
}

/// A lock that is never held while something could panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
