//! What the designs that serve with threads share: how each thread hears of the stop and of the others.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{Shutdown, shutdown};

use crate::halt::{Halt, Phase};
use crate::mail::Mail;
use crate::protocol::Protocol;
use crate::server::Serving;

/// The seats of all threads that serve, and how far the server's end has come.
#[derive(Debug)]
pub(super) struct Crew {
    phase: AtomicU8,
    seats: Box<[Mutex<Option<Arc<OwnedFd>>>]>,
    /// If their sessions send to each other.
    mail: Option<Arc<Mail>>,
}

/// The place of one thread at a time: there the client's socket lies while it is served, for the stop to shut down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat<'a> {
    crew: &'a Crew,
    slot: usize,
}

impl Crew {
    /// So many seats.
    pub fn new<P: Protocol>(seats: usize, serving: &Serving<P>) -> Self {
        let mail = P::SHARED.then(|| Arc::new(Mail::new(seats, &serving.options)));
        if let Some(mail) = mail.clone() {
            serving.waiting.by(move || mail.all_waiting());
        }
        Self {
            phase: AtomicU8::new(Phase::Serving as u8),
            seats: (0..seats).map(|_| Mutex::default()).collect(),
            mail,
        }
    }

    /// The seat of a slot.
    pub fn seat(&self, slot: usize) -> Seat<'_> {
        Seat { crew: self, slot }
    }

    /// Goes on to a later phase, and wakes every thread that its client keeps blocked.
    pub fn enter(&self, phase: Phase) {
        // Before the seats are looked at. Pairs with the load in `Seat::phase`, which comes after the seat was taken:
        // either the thread sees the phase, or its socket is seen here.
        self.phase.store(phase as u8, SeqCst);
        match phase {
            Phase::Serving => return,
            // Those who have mail are woken by their bells, and read on until their sessions end.
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
        for seat in &self.seats {
            if let Some(socket) = &*lock(seat) {
                // It can only fail if the client is gone, and then nothing blocks.
                let _ = shutdown(socket, how);
            }
        }
    }
}

impl Halt for Seat<'_> {
    type Socket = Arc<OwnedFd>;
    const WAKES: bool = true;

    fn begin(&self, socket: OwnedFd) -> Arc<OwnedFd> {
        let socket = Arc::new(socket);
        *lock(&self.crew.seats[self.slot]) = Some(Arc::clone(&socket));
        socket
    }

    fn end(&self, socket: Arc<OwnedFd>) {
        *lock(&self.crew.seats[self.slot]) = None;
        drop(socket);
    }

    fn mail(&self, socket: &Arc<OwnedFd>) -> Option<(&Mail, Arc<OwnedFd>)> {
        Some((self.crew.mail.as_deref()?, Arc::clone(socket)))
    }

    fn phase(&self) -> Phase {
        Phase::from_number(self.crew.phase.load(SeqCst))
    }
}

/// A lock that is never held while something could panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
