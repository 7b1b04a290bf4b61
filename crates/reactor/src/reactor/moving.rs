//! How connections move from loop to loop while they are served, with nothing lost and nothing turned around.
//!
//! Everything rests on one fact: what one loop says to another arrives in the order said.
//!
//! **A read half** moves from A to B. A stops watching the socket, posts all that its sessions have said so far, and
//! then the half itself. B watches the socket: what has come meanwhile is reported at once. Whatever the session says
//! at B is said after B has the half, so after all that it said at A has arrived. B tells the write half; what that
//! one still sends to A for the session, A sends on to B.
//!
//! **A write half** moves from A to B:
//!
//! 1. A tells every loop, itself too: *this connection's write half will be at B*. None acts on it before all have it,
//!    so that a session that moves meanwhile does not come from a loop that knows to one that does not.
//! 2. Each loop, A too, sends to B from then on, and tells A so, after everything that it has sent to A before. B keeps
//!    what arrives for the half.
//! 3. When all have told A, nothing more can come there. A posts the half to B.
//! 4. B puts what it has kept behind what is in the outbox, and goes on as if it had always been here.
//!
//! What a sender said before step 2 is in the outbox, and what it said after is behind it. A connection that ends
//! meanwhile takes its half along; all loops are told to forget it.
//!
//! **What is moved keeps what it was told, and nothing else.** That something can be read, or was announced, or is
//! waited for by others, goes along. That it is in a list of the loop, or that a timer is set there, does not: it is
//! in none at B, and a mark that says so would keep it out of B's. Both halves forget that where they are taken out
//! (`leave`), whatever for. B puts a half into its own lists as if all that it was told had just been said.

use std::io;
use std::os::fd::AsFd;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use super::balance::Migration;
use super::event_loop::Reactor;
use super::interest::{Interest, Token};
use super::moves::Held;
use super::peer::{Finish, Peer};
use super::serving_loop::{Loop, ServingLoop};
use super::tasks::{MovingReader, MovingWriter, Task};
use crate::connection::Connection;
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::multicast::Parts;
use crate::protocol::Protocol;

/// Watches a socket that this loop may be watching already: for its other half, or for a read half that went from here
/// when it ended.
pub(super) fn watch_socket<T>(
    reactor: &Reactor<T>,
    socket: impl AsFd + Copy,
    interest: Interest,
) -> io::Result<()> {
    match reactor.register(socket, interest) {
        Err(known) if known.kind() == io::ErrorKind::AlreadyExists => reactor.change(socket, interest),
        registered => registered,
    }
}

impl<P: Protocol> ServingLoop<'_, P> {
    /// Something for a read half that is not here: it is sent on if the half was here.
    pub fn forward(&mut self, id: ConnectionId, task: Task<P::Session>) {
        if let Some(&reader) = self.moves.readers.get(&id) {
            self.tell(reader, task);
        }
    }

    // Read halves.

    /// Moves a read half from here to another loop, unless it is about to end.
    fn move_reader(&mut self, id: ConnectionId, to: usize, reactor: &Loop<P::Session>) {
        if to == self.index || self.stopping {
            return;
        }
        let Some(peer) = self.peers.get(id) else { return };
        let Some(mut read) = peer.read.take_if(|read| read.connection.ending().is_none()) else {
            return;
        };
        let link = peer.link.clone();
        // It was registered and is open.
        let _ = reactor.remove(&link.socket);
        if let Some(write) = &mut peer.write {
            peer.reader = to;
            if peer.writer == self.index {
                link.waiting.store(write.outbox.len(), Relaxed);
            }
            write.watched = write.blocked;
            if write.blocked
                && reactor
                    .register(&link.socket, Interest::write(Token::new(id.slot())))
                    .is_err()
            {
                self.fail_write_half(id.slot(), CloseReason::Lost);
            }
        } else {
            self.peers.remove(id.slot());
        }
        read.has_moved = true;
        self.moves.readers.insert(id, to);
        self.shared.manager.moved(self.index, to);
        self.post_all();
        self.tell(to, Task::ReaderMoved(Box::new(MovingReader::new(id, link, read))));
    }

    /// A read half has come.
    pub fn reader_moved(&mut self, moving: MovingReader<P::Session>, reactor: &mut Loop<P::Session>) {
        let id = moving.id;
        let slot = id.slot();
        let writer = self.moves.writer_of(id);
        let watched = self.take_in(moving, true, reactor);
        if writer != self.index {
            self.tell(writer, Task::ReaderIs(id, self.index));
        } else {
            self.reader_is(id, self.index);
        }
        if watched.is_err() {
            self.end(slot, CloseReason::Lost, reactor);
        }
        self.schedule(slot, reactor);
        if self.stopping {
            self.call(slot, reactor, Connection::stop);
        }
        if self.drained {
            self.end(slot, CloseReason::DrainTime, reactor);
        }
        // Its outbox may have been emptied while it was on its way.
        self.taken(id, reactor);
        self.queue_interrupted(slot);
        self.read_on(slot);
    }

    /// The read half of a connection that ends has come, to end with its write half.
    pub fn reader_ended(
        &mut self,
        moving: MovingReader<P::Session>,
        finish: Finish,
        reactor: &mut Loop<P::Session>,
    ) {
        let id = moving.id;
        let has_writer =
            self.moves.expects(id) || self.peers.get(id).is_some_and(|peer| peer.write.is_some());
        let watch = moving.read.connection.may_be_sending() || self.moves.expects(id);
        let watched = self.take_in(moving, watch, reactor);
        if !has_writer {
            // It had failed before it could hear of the end.
            return self.write_half_gone(id, Some(CloseReason::Lost), reactor);
        }
        let finish = match watched {
            Ok(()) => finish,
            // No memory or no watches left: nobody would hear of the client.
            Err(_) => Finish::AtOnce,
        };
        self.finish(id, finish, reactor);
        if self.stopping {
            self.hear_of_stop(id.slot(), reactor);
        }
        if self.drained {
            self.end(id.slot(), CloseReason::DrainTime, reactor);
        }
        self.schedule(id.slot(), reactor);
    }

    /// Has a read half here that was on another loop; with `watch` its socket is watched.
    fn take_in(
        &mut self,
        moving: MovingReader<P::Session>,
        watch: bool,
        reactor: &Loop<P::Session>,
    ) -> io::Result<()> {
        let MovingReader { id, link, read } = moving;
        let token = Token::new(id.slot());
        self.moves.readers.remove(&id);
        self.looked_at.push(id.slot());
        let watched = match self.peers.get(id).and_then(|peer| peer.write.as_mut()) {
            _ if !watch => Ok(()),
            Some(write) => {
                write.watched = true;
                watch_socket(reactor, &link.socket, Interest::both(token, token))
            }
            None => watch_socket(reactor, &link.socket, Interest::read(token)),
        };
        match self.peers.get(id) {
            Some(peer) => {
                peer.reader = self.index;
                peer.read = Some(read);
            }
            None => {
                let writer = self.moves.writer_of(id);
                self.peers.insert(Peer {
                    id,
                    link,
                    reader: self.index,
                    writer,
                    read: Some(read),
                    write: None,
                });
            }
        }
        watched
    }

    /// A connection that has moved is gone, at least its write half: its read half may wait for that here.
    pub fn forget(&mut self, id: ConnectionId, reactor: &mut Loop<P::Session>) {
        if self.moves.forget(id) && self.peers.get(id).is_some() {
            self.write_half_gone(id, Some(CloseReason::Lost), reactor);
        }
    }

    /// The read half of a write half is on another loop now.
    pub fn reader_is(&mut self, id: ConnectionId, reader: usize) {
        match self.peers.get(id).filter(|peer| peer.write.is_some()) {
            Some(peer) => peer.reader = reader,
            None => {
                self.moves.hold(id, || Held::ReaderIs(reader));
            }
        }
    }

    // Write halves.

    /// Begins to move a write half from here to another loop.
    pub fn move_writer(&mut self, id: ConnectionId, to: usize) {
        let is_here = self
            .peers
            .get(id)
            .is_some_and(|peer| peer.write.as_ref().is_some_and(|write| !write.finish));
        if to == self.index || self.stopping || !is_here || self.moves.leaving.contains_key(&id) {
            return;
        }
        self.moves.leaving.insert(id, (to, self.outgoing.len()));
        let from = self.index;
        self.post_all();
        // Nobody acts on it before all have it: see `writer_will_move`.
        let all_have_it = self
            .shared
            .announcing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for mailbox in &self.shared.mailboxes {
            if mailbox.post([Task::WriterWillMove { id, from, to }]) {
                self.counters.other_calls.add(1);
            }
        }
        drop(all_have_it);
    }

    /// A write half is about to move: what is said to it goes to the new loop from now on.
    pub fn writer_will_move(&mut self, id: ConnectionId, from: usize, to: usize) {
        // Until all have it. A session that has sent to the new loop and then moves finds every loop knowing where.
        drop(
            self.shared
                .announcing
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        self.moves.writers.insert(id, to);
        if let Some(peer) = self.peers.get(id) {
            if let Some(write) = peer.write.as_ref().filter(|_| !peer.is_split()) {
                peer.link.waiting.store(write.outbox.len(), Relaxed);
            }
            peer.writer = to;
        }
        if self.index == to {
            self.moves.coming.insert(id, Vec::new());
        }
        self.tell(from, Task::WriterDetached(id));
    }

    /// One of the loops sends nothing more to a write half here. After the last it leaves.
    pub fn writer_detached(&mut self, id: ConnectionId, reactor: &mut Loop<P::Session>) {
        let Some((to, others)) = self.moves.leaving.get_mut(&id) else {
            return;
        };
        *others -= 1;
        if *others > 0 {
            return;
        }
        let to = *to;
        self.moves.leaving.remove(&id);
        let Some((peer, write)) = self
            .peers
            .get(id)
            .and_then(|peer| peer.write.take().map(|write| (peer, write)))
        else {
            // It ended meanwhile, perhaps before some of the loops heard that it would move.
            return self.tell_all(|| Task::Forget(id));
        };
        let (link, reader) = (peer.link.clone(), peer.reader);
        if peer.read.is_some() {
            if write.watched {
                // It was registered and is open.
                let _ = reactor.change(&link.socket, Interest::read(Token::new(id.slot())));
            }
        } else {
            if write.watched {
                // As above.
                let _ = reactor.remove(&link.socket);
            }
            self.peers.remove(id.slot());
        }
        self.shared.manager.moved(self.index, to);
        self.tell(
            to,
            Task::WriterMoved(Box::new(MovingWriter::new(id, link, reader, write))),
        );
    }

    /// A write half has come: what was kept for it goes behind what it has.
    pub fn writer_moved(&mut self, moving: MovingWriter, reactor: &mut Loop<P::Session>) {
        let MovingWriter {
            id,
            link,
            reader,
            mut write,
        } = moving;
        let slot = id.slot();
        let token = Token::new(slot);
        if !write.outbox.is_empty() && write.must_flush() {
            self.dirty.push(slot);
        }
        // What it sent before it left may have made possible what nobody has seen to.
        self.sent_early.push(slot);
        let mut watched = Ok(());
        match self.peers.get(id) {
            Some(peer) => {
                peer.writer = self.index;
                write.watched = true;
                watched = reactor.change(&link.socket, Interest::both(token, token));
                peer.write = Some(write);
            }
            None => {
                self.peers.insert(Peer {
                    id,
                    link,
                    reader,
                    writer: self.index,
                    read: None,
                    write: Some(write),
                });
            }
        }
        for held in self.moves.coming.remove(&id).into_iter().flatten() {
            match held {
                Held::Own(bytes) => self.put_own(id, &bytes),
                Held::Message(from, sender, messages, bytes) => {
                    let parts = Parts::whole(messages, &bytes);
                    let is_put = self.put(from, sender, id, &parts, None);
                    self.count(is_put.into(), &parts);
                }
                Held::Finish(finish) => self.finish(id, finish, reactor),
                Held::ReaderIs(reader) => self.reader_is(id, reader),
            }
        }
        if watched.is_err() {
            self.fail_write_half(slot, CloseReason::Lost);
        }
        self.taken(id, reactor);
    }

    // Who moves.

    /// Notes that a session has joined a group: it may move at the end of the turn.
    pub fn join(&mut self, slot: u32, group: u64) {
        if !self.shared.manager.has_groups() {
            return;
        }
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(read) = &mut peer.read else { return };
        if let Some(left) = read.group.replace(group) {
            self.shared.manager.leave(left);
        }
        self.shared.manager.join(group, (peer.reader, peer.writer));
        self.moves.joined.push(peer.id);
    }

    /// Moves those who joined a group to where it is.
    pub fn move_to_groups(&mut self, reactor: &Loop<P::Session>) {
        if self.moves.joined.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.moves.joined) {
            let Some(peer) = self.peers.get(id) else { continue };
            let Some(group) = peer.read.as_ref().and_then(|read| read.group) else {
                continue;
            };
            let current = peer.writer;
            let Some((reader, writer)) = self.shared.manager.group(group) else {
                continue;
            };
            if current == self.index {
                self.move_writer(id, writer);
            } else if current != writer {
                self.tell(current, Task::MoveWriter(id, writer));
            }
            self.move_reader(id, reader, reactor);
        }
    }

    /// Moves some halves away.
    pub fn migrate(&mut self, migration: Migration, reactor: &Loop<P::Session>) {
        let mut left = migration.count;
        for slot in 0..self.peers.slots() {
            if left == 0 {
                return;
            }
            let Some(peer) = self.peers.at(slot) else { continue };
            let (id, reads, writes) = (peer.id, peer.read.is_some(), peer.write.is_some());
            if migration.writes && writes {
                self.move_writer(id, migration.to);
            }
            if migration.reads && reads {
                self.move_reader(id, migration.to, reactor);
            }
            left -= usize::from((migration.writes && writes) || (migration.reads && reads));
        }
    }

    /// Looks at the loops' use of the CPU now and then, and tells them to move connections.
    pub fn watch(&mut self, reactor: &mut Loop<P::Session>) {
        let Some(watch) = &self.shared.watch else { return };
        if self.stopping {
            return;
        }
        for (from, migration) in watch.look(reactor.now(), &self.shared.manager) {
            self.tell(from, Task::Migrate(migration));
        }
    }
}
