//! How a loop accepts connections, and gives their halves to loops.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketFlags;

use super::interest::{Interest, Token};
use super::peer::{Link, Peer, ReadHalf, WriteHalf};
use super::serving_loop::{ACCEPT_AGAIN, Acceptors, LISTENER, Loop, ServingLoop};
use super::slots::{Permit, Released};
use super::tasks::{NewConnection, Task};
use crate::connection::{Connection, Turn};
use crate::counters::CloseReason;
use crate::error::Error;
use crate::id::ConnectionId;
use crate::listen::{Accepted, RETRY};
use crate::protocol::Protocol;

impl<P: Protocol> ServingLoop<'_, P> {
    /// Waits for connections, if this loop accepts.
    pub fn listen(&mut self, reactor: &Loop<P::Session>) {
        let Some(acceptor) = &mut self.acceptor else {
            return;
        };
        if acceptor.listening || self.stopping {
            return;
        }
        acceptor.listening = true;
        if let Err(error) = reactor.register(acceptor.listener, Interest::read(LISTENER).level()) {
            self.fail(Error::io("waiting for connections")(error));
        }
    }

    /// Goes on waiting, where a watch is reported once.
    pub fn listen_again(&mut self, reactor: &Loop<P::Session>) {
        if let Some(acceptor) = self.acceptor.as_mut().filter(|_| reactor.completes())
            && std::mem::take(&mut acceptor.listening)
        {
            self.listen(reactor);
        }
    }

    /// Does not wait for them: nobody can be accepted for now, and looking again and again would cost.
    pub fn stop_listening(&mut self, reactor: &Loop<P::Session>) {
        if let Some(acceptor) = self.acceptor.as_mut().filter(|acceptor| acceptor.listening) {
            acceptor.listening = false;
            // It was registered and is open.
            let _ = reactor.remove(acceptor.listener);
        }
    }

    /// Accepts as many connections as there were other events in this turn, at least one: a burst is taken at once,
    /// and a single connection does not cost a second call that finds nobody.
    pub fn accept(&mut self, reactor: &mut Loop<P::Session>) {
        let Some(listener) = self.acceptor.as_ref().map(|acceptor| acceptor.listener) else {
            return;
        };
        for _ in 0..self.events.max(1) {
            let Some(permit) = self.shared.slots.take(self.index) else {
                return match self.serving.options.oldest_goes() && self.shared.slots.are_out() {
                    true => self.make_room(reactor),
                    false => self.stop_listening(reactor),
                };
            };
            match listener.accept(SocketFlags::NONBLOCK, self.counters) {
                Ok(Accepted::Connection(socket)) => {
                    self.place(permit, socket, reactor);
                    continue;
                }
                Ok(Accepted::Nobody) => {}
                Ok(Accepted::Exhausted) => {
                    self.shared.slots.wait(self.index);
                    self.stop_listening(reactor);
                    let at = reactor.now() + RETRY;
                    reactor.set_timer(at, ACCEPT_AGAIN);
                }
                Ok(Accepted::Closed) => self.stop_listening(reactor),
                Err(error) => self.fail(error),
            }
            let released = self.shared.slots.put_back(permit);
            return self.after_release(released);
        }
    }

    /// Ends the connection from which nothing has come for longest, if somebody waits for its place: who is accepted in
    /// the next turn.
    fn make_room(&mut self, reactor: &mut Loop<P::Session>) {
        let Some(acceptor) = &self.acceptor else { return };
        self.counters.other_calls.add(1);
        let waited = poll(
            &mut [PollFd::new(acceptor.listener, PollFlags::IN)],
            Some(&Timespec::default()),
        );
        if waited != Ok(1) {
            return;
        }
        let heard = |slot| Some((self.peers.look_at(slot)?.read.as_ref()?.last_heard(), slot));
        if let Some((_, oldest)) = (0..self.peers.slots()).filter_map(heard).min() {
            self.end(oldest, CloseReason::MadeRoom, reactor);
        }
    }

    /// Tells those who waited for what was given back.
    pub fn after_release(&mut self, released: Released) {
        for acceptor in released.waiting {
            self.tell(acceptor, Task::Permit);
        }
        if released.was_last {
            self.tell_all(|| Task::Exit);
        }
    }

    /// Gives the halves of a new connection to their loops.
    fn place(&mut self, permit: Permit, socket: OwnedFd, reactor: &mut Loop<P::Session>) {
        let manager = &self.shared.manager;
        let (reader, writer) = match self.shared.acceptors {
            Acceptors::First => manager.place(socket.as_raw_fd()),
            Acceptors::Each => manager.place_on(self.index),
        };
        let new = NewConnection {
            id: ConnectionId::new(writer as u8, permit.generation, permit.slot),
            link: Arc::new(Link {
                socket,
                waiting: AtomicUsize::new(0),
            }),
            reader,
            writer,
        };
        // The write half before the session begins: whoever learns of the connection from it says nothing to the
        // write half that comes before this. Nobody is woken for it, since there is nothing to write yet.
        if writer == self.index {
            self.open_writer(new.clone());
        } else {
            self.shared.mailboxes[writer].post_without_wake(Task::OpenWriter(new.clone()));
        }
        if reader == self.index {
            self.open_reader(new, reactor);
        } else {
            self.tell(reader, Task::OpenReader(new));
        }
    }

    /// Has the write half of a new connection here.
    pub fn open_writer(&mut self, new: NewConnection) {
        self.peers.insert(Peer {
            id: new.id,
            link: new.link,
            reader: new.reader,
            writer: new.writer,
            read: None,
            write: Some(WriteHalf::default()),
        });
    }

    /// Has the read half of a new connection here: the session begins.
    pub fn open_reader(&mut self, new: NewConnection, reactor: &mut Loop<P::Session>) {
        let NewConnection { id, link, reader, .. } = new;
        // It may have moved before this loop heard of the connection.
        let writer = self.moves.writer_of(id);
        let slot = id.slot();
        let token = Token::new(slot);
        let waits_for_both = writer == self.index && !self.has_one_handler;
        let interest = match waits_for_both {
            true => Interest::both(token, token),
            false => Interest::read(token),
        };
        let registered = match reactor.completes() {
            // It receives once the session has begun.
            true => Ok(()),
            false => reactor.register(&link.socket, interest),
        };
        let mut greeting = Vec::new();
        let mut turn = Turn {
            output: &mut greeting,
            full_at: usize::MAX,
            effects: &mut self.effects,
            clock: reactor.clock(),
        };
        let mut connection = Connection::open_on(self.serving, id, &link.socket, &mut turn);
        if registered.is_err() {
            // No memory or no watches left: this client cannot be served.
            connection.end(CloseReason::Lost);
        }
        let mut read = Box::new(ReadHalf::new(connection, reactor.now()));
        read.readable = reactor.completes();
        let watched = waits_for_both && !reactor.completes();
        match self.peers.get(id) {
            Some(peer) => {
                peer.read = Some(read);
                if let Some(write) = &mut peer.write {
                    write.watched = watched;
                }
            }
            None => {
                self.peers.insert(Peer {
                    id,
                    link,
                    reader,
                    writer,
                    read: Some(read),
                    write: None,
                });
            }
        }
        self.call(slot, reactor, |_, turn| turn.output.extend_from_slice(&greeting));
        self.schedule(slot, reactor);
        if self.stopping {
            self.call(slot, reactor, Connection::stop);
        }
        if self.drained {
            self.end(slot, CloseReason::DrainTime, reactor);
        }
        if reactor.completes() {
            self.use_arrived(slot, reactor);
        }
    }
}
