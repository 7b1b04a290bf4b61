//! A thread of clients, and where it runs.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_machine::{CpuList, pin_thread};

/// A thread of clients, which does as it is told. Dropped, they leave.
#[derive(Debug)]
pub struct Driver<Ask, Told> {
    /// Dropped, it ends the thread.
    asks: Option<Sender<Ask>>,
    /// Nothing, once it has connected.
    told: Receiver<Result<Option<Told>, CaseError>>,
    thread: Option<JoinHandle<()>>,
}

impl<Ask: Send + 'static, Told: Send + 'static> Driver<Ask, Told> {
    /// Starts it on these CPUs, where it connects. It is [connected](Self::connected) later.
    ///
    /// # Errors
    ///
    /// If there is no thread for it.
    pub fn start<Clients>(
        cpus: CpuList,
        connect: impl FnOnce() -> Result<Clients, CaseError> + Send + 'static,
        talk: impl Fn(&mut Clients, Ask) -> Result<Told, CaseError> + Send + 'static,
    ) -> Result<Self, CaseError> {
        let (asks, asked) = channel();
        let (tell, told) = channel();
        let serve = move || {
            let pinned = pin_thread(&cpus).map_err(|error| CaseError::failed("pinning clients", error));
            let mut clients = match pinned.and_then(|()| connect()) {
                Ok(clients) => clients,
                Err(error) => {
                    // Fails where nobody listens any more.
                    let _ = tell.send(Err(error));
                    return;
                }
            };
            let mut said = tell.send(Ok(None));
            while let (Ok(()), Ok(ask)) = (&said, asked.recv()) {
                said = tell.send(talk(&mut clients, ask).map(Some));
            }
        };
        let thread = thread::Builder::new()
            .name("clients".to_owned())
            .spawn(serve)
            .map_err(|error| CaseError::failed("starting a thread of clients", error))?;
        Ok(Self {
            asks: Some(asks),
            told,
            thread: Some(thread),
        })
    }

    /// Comes back when it has connected.
    ///
    /// # Errors
    ///
    /// If that failed.
    pub fn connected(&self) -> Result<(), CaseError> {
        self.next().map(|_| ())
    }

    /// Has it talk so. What it comes to is [told](Self::told).
    pub fn ask(&self, how: Ask) {
        // One that is gone says so when it is asked what it did.
        let _ = self.asks.as_ref().map(|asks| asks.send(how));
    }

    /// What it came to, once it has talked. Blocks meanwhile; it gives up by itself what does not come.
    ///
    /// # Errors
    ///
    /// What was wrong.
    pub fn told(&self) -> Result<Told, CaseError> {
        let gone = || CaseError::Failed("a thread of clients has told nothing".to_owned());
        self.next()?.ok_or_else(gone)
    }

    fn next(&self) -> Result<Option<Told>, CaseError> {
        let gone = |error| CaseError::failed("a thread of clients ended", error);
        self.told.recv().map_err(gone)?
    }
}

impl<Ask, Told> Drop for Driver<Ask, Told> {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // It has told of what was wrong.
            let _ = thread.join();
        }
    }
}

/// Where each thread of clients runs: one for each of their CPUs, or for every other one that they share with the
/// server. Never more than `most`.
#[must_use]
pub fn places(cpus: &Cpus, most: usize) -> Vec<CpuList> {
    let clients = &cpus.clients;
    if clients.iter().all(|cpu| !cpus.server.contains(cpu)) {
        let own = clients.iter().map(|cpu| CpuList::new([cpu]));
        return own.take(most.max(1)).collect();
    }
    let count = (clients.len() / 2).clamp(1, most.max(1));
    vec![clients.clone(); count]
}

/// What the `part`-th of `parts` has of `whole`: as much as the others, or one more.
#[must_use]
pub const fn share(whole: usize, part: usize, parts: usize) -> usize {
    whole / parts + (part < whole % parts) as usize
}
