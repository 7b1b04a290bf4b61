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
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::net::{self, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicI32;
    use std::thread;
    use std::time::Instant;

    use rustix::io::Errno;
    use rustix::net::{RecvFlags, recv};
    use rustix::thread::gettid;

    use super::*;
    use crate::blocking::Worker;
    use crate::counters::Counters;
    use crate::id::ConnectionId;
    use crate::protocol::chat::Chat;
    use crate::protocol::echo::Echo;
    use crate::protocol::{Io, Session};
    use crate::wake_fd::WakeFd;
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

    /// The connection in this slot.
    fn id(slot: u32) -> ConnectionId {
        ConnectionId::new(0, 0, slot)
    }

    const HEARS: u32 = 0;
    const SAYS: u32 = 1;

    /// What it hears is passed on to another, and confirmed. It says on which thread.
    #[derive(Clone, Debug, Default)]
    struct Confirms(Arc<AtomicI32>);

    impl Protocol for Confirms {
        type Session = Self;
        const SHARED: bool = true;

        fn open(&self, _: ConnectionId) -> Self {
            self.clone()
        }
    }

    impl Session for Confirms {
        fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
            io.send_to(id(HEARS), b"message");
            io.send(b"confirmed");
            self.0.store(gettid().as_raw_nonzero().get(), SeqCst);
            input.len()
        }
    }

    fn sleeps(thread: i32) -> bool {
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("it is alive");
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with('S'))
    }

    /// ADR 0011: what may be sent by anybody else is there when all of the rest is delivered.
    #[test]
    fn what_is_said_is_with_others_before_anybody_could_send_that_it_was_heard() {
        let protocol = Confirms::default();
        let thread = Arc::clone(&protocol.0);
        let bound = Server::new(protocol).bind("127.0.0.1:0").expect("a port");
        let run = bound.run_by(&Stop::new().expect("a pipe"), |serving| {
            let workers = Workers::new(2, serving);
            let table = workers.outboxes.as_deref().expect("they send to each other");
            let (socket, mut hears) = UnixStream::pair().expect("a pair");
            let wake_fd = Arc::new(WakeFd::new().expect("a descriptor"));
            table.open(id(HEARS), Arc::new(socket.into()), wake_fd);
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let mut says = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
            let (socket, _) = listener.accept().expect("a client");
            let confirmed = thread::scope(|scope| {
                let held = table.hold(id(HEARS));
                scope.spawn(|| {
                    let counters = Counters::default();
                    let mut worker = Worker::new(serving, &counters, workers.slot(1));
                    worker.ready().expect("a descriptor");
                    worker.serve(socket.into(), id(SAYS));
                });
                says.write_all(b"x").expect("sent");
                // Until it waits for the one who hears.
                while thread.load(SeqCst) == 0 || !sleeps(thread.load(SeqCst)) {
                    thread::yield_now();
                }
                let confirmed = table.waiting(id(SAYS)).bytes;
                drop(held);
                let (mut heard, mut told) = ([0; 7], [0; 9]);
                hears.read_exact(&mut heard).expect("delivered");
                says.read_exact(&mut told).expect("confirmed");
                assert_eq!((&heard, &told), (b"message", b"confirmed"));
                says.shutdown(net::Shutdown::Write).expect("connected");
                confirmed
            });
            assert_eq!(confirmed, 0, "bytes that anybody could have sent");
            Ok(())
        });
        run.expect("served");
    }
}
