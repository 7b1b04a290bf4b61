//! What a loop does with write halves: it fills outboxes, sends each once a turn, and holds back who fills too fast.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use rustix::net::{self, SendAncillaryBuffer, SendFlags};

use super::interest::{Interest, Token};
use super::moves::Held;
use super::moving::watch_socket;
use super::peer::{Finish, HeldUpBy, WriteHalf};
use super::serving_loop::{Loop, ServingLoop};
use super::tasks::{Batch, Task};
use crate::closing;
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::multicast::Parts;
use crate::outbox::{MOST_SLICES, Outbox};
use crate::protocol::Protocol;
use crate::ring::JointSends;

/// When so many bytes wait in outboxes, they are sent before the turn ends, even if each is little: a small message to
/// many is much.
const MOST_UNSENT: usize = 8 * 1024 * 1024;
/// The same if they are this much for each receiver: to wait for more would hardly save calls,
const MUCH_FOR_ONE: usize = 16 * 1024;
/// and so many do not stay in the cache until they are sent.
const MUCH_FOR_ALL: usize = 256 * 1024;
/// So many bytes for several receivers are kept once for all of them. With fewer, counting who has them and gathering
/// them costs more than copies do.
const MUCH_TO_COPY: usize = 8 * 1024;

impl<P: Protocol> ServingLoop<'_, P> {
    /// Brings what sessions have sent to others where it belongs.
    pub fn deliver(&mut self, sender: ConnectionId) {
        if self.effects.no_messages() {
            return;
        }
        let mut effects = std::mem::take(&mut self.effects);
        self.delivered += 1;
        for (receivers, composed, parts) in effects.messages.iter() {
            let mut here = 0;
            let shared = shared_tail(receivers.len(), &parts);
            for &to in receivers {
                let writer = self.moves.writer_of(to);
                if writer == self.index {
                    here += u64::from(self.put(self.index, sender, to, &parts, shared.as_ref()));
                } else {
                    self.has_said = true;
                    let outgoing = &mut self.outgoing[writer];
                    outgoing
                        .batch()
                        .message((self.delivered, composed), to, sender, &parts);
                    if outgoing.is_much() {
                        self.hold_up_for(writer, sender);
                    }
                }
            }
            self.count(here, &parts);
        }
        effects.clear_messages();
        self.effects = effects;
        let much = (self.dirty.len() * MUCH_FOR_ONE).clamp(MUCH_FOR_ALL, MOST_UNSENT);
        // Where a handle has one handler, each waits for its place.
        if self.unsent >= much && !self.has_one_handler {
            self.send_early();
        }
    }

    /// Much is under way to another loop, which may be slow: before it has acknowledged, `sender` says no more.
    #[cold]
    fn hold_up_for(&mut self, writer: usize, sender: ConnectionId) {
        let shared = self.shared;
        if self.outgoing[writer].hold_up(sender, || shared.spare_batch()) {
            self.hold_up(sender, HeldUpBy::Loop);
        }
    }

    /// Another loop has acknowledged: those who were held up go on.
    pub fn acknowledged(&mut self, writer: usize) {
        for sender in self.outgoing[writer].acknowledged() {
            self.release(sender, HeldUpBy::Loop);
        }
    }

    /// Sends what is in half of the outboxes before the turn ends: those that got something first, since what is said
    /// in groups comes group by group, and the last may get more at once. What that makes possible is seen at the
    /// turn's end.
    #[cold]
    fn send_early(&mut self) {
        let mut dirty = self.take_dirty();
        let rest = dirty.split_off(dirty.len().div_ceil(2));
        self.unsent = 0;
        for &slot in &rest {
            if let Some(write) = self.peers.at(slot).and_then(|peer| peer.write.as_mut()) {
                write.dirty = true;
                self.unsent += write.outbox.len();
            }
        }
        self.dirty = rest;
        if let Some(mut sends) = self.joint_sends.take() {
            self.send_together(&dirty, &mut sends);
            self.joint_sends = Some(sends);
        } else {
            for &slot in &dirty {
                self.send(slot);
            }
        }
        self.sent_early.extend(dirty);
    }

    /// Bytes from another loop.
    pub fn put_batch(&mut self, from: usize, batch: Batch) {
        // Until that one has posted all that belongs together.
        drop(self.shared.posting(from));
        for (receivers, parts) in batch.entries() {
            let shared = shared_tail(receivers.len(), &parts);
            for &(to, sender) in receivers {
                match sender {
                    None => self.put_own(to, parts.own),
                    Some(sender) => {
                        let is_put = self.put(from, sender, to, &parts, shared.as_ref());
                        self.count(is_put.into(), &parts);
                    }
                }
            }
        }
        self.shared.give_back(batch);
    }

    /// A session's output for its own client.
    pub fn put_own(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(write) = self.peers.get(id).and_then(|peer| peer.write.as_mut()) else {
            self.moves.hold(id, || Held::Own(bytes.to_vec()));
            return;
        };
        write.outbox.borrow(&mut self.spares);
        write.outbox.buffer().extend_from_slice(bytes);
        if write.must_flush() {
            self.dirty.push(id.slot());
        }
    }

    /// Messages of a session on loop `from`, whose tail may be kept for all who get them. Whether they are in the
    /// outbox now: then they are [counted](Self::count).
    #[inline]
    pub fn put(
        &mut self,
        from: usize,
        sender: ConnectionId,
        to: ConnectionId,
        parts: &Parts<'_>,
        shared: Option<&Arc<[u8]>>,
    ) -> bool {
        let Some(peer) = self.peers.get(to) else {
            return self.put_aside(from, sender, to, parts);
        };
        let is_split = peer.is_split();
        let Some(write) = peer.write.as_mut().filter(|write| !write.finish) else {
            return self.put_aside(from, sender, to, parts);
        };
        if is_split {
            peer.link.waiting.fetch_add(parts.len(), Relaxed);
        }
        write.outbox.borrow(&mut self.spares);
        match shared {
            None => parts.append_to(write.outbox.buffer()),
            Some(tail) => {
                parts.append_before_tail(write.outbox.buffer());
                write.outbox.share(Arc::clone(tail));
            }
        }
        if write.must_flush() {
            self.dirty.push(to.slot());
        }
        if write.outbox.len() > self.holds_up_above {
            self.overflow(from, sender, to.slot());
        }
        true
    }

    /// Messages for a write half that is on its way here, or gone.
    #[cold]
    fn put_aside(&mut self, from: usize, sender: ConnectionId, to: ConnectionId, parts: &Parts<'_>) -> bool {
        let is_here = self.peers.get(to).is_some_and(|peer| peer.write.is_some());
        let held = || Held::Message(from, sender, parts.messages, parts.to_vec());
        if is_here || !self.moves.hold(to, held) {
            self.counters.undeliverable.add(parts.messages.into());
        }
        false
    }

    /// As many receivers have got this put into their outboxes.
    pub fn count(&mut self, receivers: u64, parts: &Parts<'_>) {
        self.unsent += receivers as usize * parts.len();
        self.counters
            .deliveries
            .add(receivers * u64::from(parts.messages));
    }

    /// Much waits: unless the client takes it now, its senders are held up, or it is dropped.
    #[cold]
    fn overflow(&mut self, from: usize, sender: ConnectionId, slot: u32) {
        let options = &self.serving.options;
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(write) = &mut peer.write else { return };
        // Who is to be dropped is offered it once more, though it is not said that the socket takes more.
        write.blocked &= !options.drops(write.outbox.len());
        self.send(slot);
        if self.has_one_handler {
            // If it has taken all, its read has its place again.
            self.sent_early.push(slot);
        }
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(write) = &mut peer.write else { return };
        let waiting = write.outbox.len();
        if waiting <= self.holds_up_above {
            return;
        }
        if options.drops(waiting) {
            return self.fail_write_half(slot, CloseReason::Slow);
        }
        if write.waiters.contains(&(from, sender)) {
            return;
        }
        write.waiters.push((from, sender));
        self.counters.held_up.add(1);
        if from == self.index {
            self.hold_up(sender, HeldUpBy::Receiver);
        } else {
            self.tell(from, Task::HoldUp(sender, HeldUpBy::Receiver));
        }
    }

    /// The socket takes more again.
    pub fn writable(&mut self, slot: u32, reactor: &Loop<P::Session>) {
        let Some(write) = self.peers.at(slot).and_then(|peer| peer.write.as_mut()) else {
            return;
        };
        write.watched &= !reactor.completes();
        if std::mem::take(&mut write.blocked) && !write.outbox.is_empty() && write.must_flush() {
            self.dirty.push(slot);
        }
    }

    /// Sends each outbox that has got something.
    pub fn flush_dirty(&mut self, reactor: &mut Loop<P::Session>) {
        self.unsent = 0;
        let mut next = 0;
        while let Some(&slot) = self.sent_early.get(next) {
            next += 1;
            self.after_send(slot, reactor);
        }
        self.sent_early.clear();
        if let Some(sends) = self.joint_sends.take() {
            self.joint_sends = Some(self.flush_together(sends, reactor));
            return;
        }
        let mut next = 0;
        while let Some(&slot) = self.dirty.get(next) {
            next += 1;
            if let Some(write) = self.peers.at(slot).and_then(|peer| peer.write.as_mut())
                && std::mem::take(&mut write.dirty)
            {
                if !self.waits_for_its_place(slot) {
                    self.send(slot);
                }
                self.after_send(slot, reactor);
            }
        }
        self.dirty.clear();
    }

    /// The same, by one submission for all.
    fn flush_together(&mut self, mut sends: JointSends, reactor: &mut Loop<P::Session>) -> JointSends {
        let mut dirty = self.take_dirty();
        // All of them first: what having sent makes possible can send again.
        self.send_together(&dirty, &mut sends);
        for &slot in &dirty {
            self.after_send(slot, reactor);
        }
        // Its memory is used again.
        dirty.clear();
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        sends
    }

    /// Who has got something, not marked any more.
    fn take_dirty(&mut self) -> Vec<u32> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|&slot| {
            let write = self.peers.at(slot).and_then(|peer| peer.write.as_mut());
            write.is_some_and(|write| std::mem::take(&mut write.dirty))
        });
        dirty
    }

    /// Sends what the sockets take.
    fn send_together(&mut self, slots: &[u32], sends: &mut JointSends) {
        self.post_said();
        // A call costs less than a submission of one.
        if let [slot] = *slots {
            return self.send(slot);
        }
        let sent = sends.send(
            slots.iter().filter_map(|&slot| {
                let peer = self.peers.look_at(slot)?;
                let write = peer.write.as_ref().filter(|write| write.can_send())?;
                if !goes_together(write) {
                    return None;
                }
                Some((slot, peer.link.socket.as_fd(), write.outbox.waiting()))
            }),
            self.counters,
        );
        for &(slot, sent) in sent {
            self.sent(slot, sent);
        }
        for &slot in slots {
            let write = self.peers.look_at(slot).and_then(|peer| peer.write.as_ref());
            // A call for each, which is little beside what it sends.
            if write.is_some_and(|write| !goes_together(write)) {
                self.send(slot);
            }
        }
    }

    /// Sends what the socket takes.
    fn send(&mut self, slot: u32) {
        self.post_said();
        while let Some(peer) = self.peers.look_at(slot)
            && let Some(write) = peer.write.as_ref().filter(|write| write.can_send())
        {
            let flags = closing::send_flags(write.finish);
            let (offered, sent) = loop {
                self.counters.sends.add(1);
                match send_once(&peer.link.socket, &write.outbox, flags) {
                    (_, Err(Errno::INTR)) => {}
                    sent => break sent,
                }
            };
            self.sent(slot, sent);
            if sent != Ok(offered) {
                break;
            }
            // The socket has taken all that it was offered, and may take more.
            if let Some(write) = self.peers.at(slot).and_then(|peer| peer.write.as_mut()) {
                write.blocked = false;
            }
        }
    }

    /// Notes what came of sending.
    fn sent(&mut self, slot: u32, sent: Result<usize, Errno>) {
        let limit = self.serving.options.output_limit;
        let Some(peer) = self.peers.at(slot) else { return };
        let is_split = peer.is_split();
        let Some(write) = &mut peer.write else { return };
        match sent {
            Ok(count) => {
                self.counters.bytes_out.add(count as u64);
                write.outbox.sent(count);
                write.outbox.give_back(&mut self.spares);
                // The kernel took a part: it is full, and makes an event when it is not.
                write.blocked = !write.outbox.is_empty();
                if is_split {
                    // Relaxed: see `Link::waiting`.
                    let before = peer.link.waiting.fetch_sub(count, Relaxed);
                    if before > limit / 2 && before - count <= limit / 2 {
                        let (id, reader) = (peer.id, peer.reader);
                        self.tell(reader, Task::Taken(id));
                    }
                }
            }
            Err(Errno::AGAIN) => write.blocked = true,
            Err(Errno::INTR) => {
                if write.must_flush() {
                    self.dirty.push(slot);
                }
            }
            Err(_) => self.fail_write_half(slot, CloseReason::Lost),
        }
    }

    /// Sees what having sent makes possible.
    fn after_send(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        let limit = self.serving.options.output_limit;
        if self.has_one_handler {
            self.choose_operation(slot, reactor);
        }
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(write) = &mut peer.write else { return };
        if write.blocked {
            write.outbox.offered(|| reactor.now());
            if !write.watched {
                write.watched = true;
                let watched = watch_socket(reactor, &peer.link.socket, Interest::write(Token::new(slot)));
                if watched.is_err() {
                    return self.fail_write_half(slot, CloseReason::Lost);
                }
            }
            if let Some(at) = write.timer_to_set(&self.serving.options) {
                reactor.set_timer(at, Token::new(slot));
            }
        }
        if write.outbox.is_empty() && write.finish {
            let id = peer.id;
            return self.finish(id, Finish::AtOnce, reactor);
        }
        if write.outbox.len() > limit / 2 {
            return;
        }
        let waiters = std::mem::take(&mut write.waiters);
        let is_held = peer.read.as_ref().is_some_and(|read| read.connection.is_held());
        self.release_all(waiters);
        if is_held {
            self.resume(slot, reactor);
        }
    }

    /// Lets senders go on.
    fn release_all(&mut self, waiters: Vec<(usize, ConnectionId)>) {
        for (from, sender) in waiters {
            if from == self.index {
                self.release(sender, HeldUpBy::Receiver);
            } else {
                self.tell(from, Task::Release(sender, HeldUpBy::Receiver));
            }
        }
    }

    /// Has a write half end.
    pub fn finish(&mut self, id: ConnectionId, finish: Finish, reactor: &mut Loop<P::Session>) {
        let Some(peer) = self.peers.get(id).filter(|peer| peer.write.is_some()) else {
            self.moves.hold(id, || Held::Finish(finish));
            return;
        };
        let Some(write) = &mut peer.write else { return };
        if finish == Finish::Sent && !write.outbox.is_empty() {
            write.finish = true;
            return;
        }
        let is_joined = peer.read.is_some();
        self.drop_write_half(id.slot(), None);
        if is_joined {
            self.write_half_gone(id, None, reactor);
        }
    }

    /// Takes a write half out, lets its waiters go on, and tells the read half if that is on another loop.
    fn drop_write_half(&mut self, slot: u32, reason: Option<CloseReason>) {
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(write) = peer.write.take() else { return };
        self.shared.manager.release(self.index);
        self.release_all(write.waiters);
        let Some(peer) = self.peers.at(slot).filter(|peer| peer.read.is_none()) else {
            return;
        };
        let (id, reader) = (peer.id, peer.reader);
        // The read half closes the socket, so it must not be held here when that hears.
        self.peers.remove(slot);
        self.tell(reader, Task::Gone(id, reason));
    }

    /// It cannot go on: both halves end.
    pub fn fail_write_half(&mut self, slot: u32, reason: CloseReason) {
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(write) = &mut peer.write else { return };
        if let Some(read) = &mut peer.read {
            read.connection.end(reason);
            // Nothing more is put or sent until the end of the turn.
            (write.finish, write.blocked) = (true, true);
            self.ended.push(slot);
        } else {
            self.drop_write_half(slot, Some(reason));
        }
    }
}

/// The tail of messages, to be kept once for their receivers if it is much.
fn shared_tail(receivers: usize, parts: &Parts<'_>) -> Option<Arc<[u8]>> {
    (receivers > 1 && parts.tail.len() >= MUCH_TO_COPY).then(|| parts.tail.into())
}

/// Whether what waits is one piece, and more may be sent behind it.
fn goes_together(write: &WriteHalf) -> bool {
    !(write.outbox.is_scattered() || write.finish)
}

/// Offers a socket what waits, or as much of it as one call can: how much that was, and how much it took.
fn send_once(socket: &OwnedFd, outbox: &Outbox, flags: SendFlags) -> (usize, Result<usize, Errno>) {
    if !outbox.is_scattered() {
        let waiting = outbox.waiting();
        return (waiting.len(), net::send(socket, waiting, flags));
    }
    let mut slices = [IoSlice::new(&[]); MOST_SLICES];
    let (used, offered) = outbox.gather(&mut slices);
    let mut nothing = SendAncillaryBuffer::default();
    (
        offered,
        net::sendmsg(socket, &slices[..used], &mut nothing, flags),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multicast::Multicast;

    #[test]
    fn what_ends_is_sent_alone() {
        let mut write = WriteHalf::default();
        write.outbox.buffer().extend_from_slice(b"one piece");
        assert!(goes_together(&write));
        write.finish = true;
        assert!(!goes_together(&write));
    }

    #[test]
    fn what_is_much_for_several_is_kept_once() {
        for (receivers, bytes, is_shared) in [
            (2, MUCH_TO_COPY, true),
            (2, MUCH_TO_COPY - 1, false),
            (1, MUCH_TO_COPY, false),
        ] {
            let mut multicast = Multicast::default();
            let all = multicast.compose(&[], &[&vec![b'x'; bytes]]);
            multicast.send_to_all(all, 0..receivers);
            let (to, _, parts) = multicast.iter().next().expect("one message");
            let shared = shared_tail(to.len(), &parts);
            let expected = is_shared.then_some(parts.tail);
            assert_eq!(shared.as_deref(), expected, "{bytes} bytes to {receivers}");
        }
    }
}
