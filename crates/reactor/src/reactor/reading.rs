//! What a loop does with read halves: it receives, calls sessions, does what they ask, and ends connections.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags};

use super::interest::{Readiness, Token};
use super::moves::Held;
use super::peer::{Due, Finish, HeldUpBy, PeerEnd};
use super::serving_loop::{Interrupted, Loop, ServingLoop};
use super::tasks::{MovingReader, Task};
use crate::clock::from_now;
use crate::closing::{self, Discarded};
use crate::connection::{Connection, Turn};
use crate::contain::contain;
use crate::counters::CloseReason;
use crate::id::ConnectionId;
use crate::protocol::Protocol;
use crate::unacknowledged::unacknowledged;

impl<P: Protocol> ServingLoop<'_, P> {
    /// Something can be received, or has ended.
    pub fn readable(&mut self, slot: u32, readiness: Readiness, reactor: &mut Loop<P::Session>) {
        let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_mut()) else {
            return;
        };
        read.readable = true;
        read.end_announced |= readiness == Readiness::End;
        self.receive(slot, reactor);
    }

    /// Receives once, and on to the end if that was announced. A full buffer is left for the end of the turn, so
    /// that one client does not keep the others waiting.
    fn receive(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        if reactor.completes() {
            return self.use_arrived(slot, reactor);
        }
        loop {
            let Some(peer) = self.peers.at(slot) else { return };
            let Some(read) = &mut peer.read else { return };
            if read.lingering.is_some() {
                return self.discard(slot, reactor);
            }
            if !read.is_ready() {
                return self.look_for_loss(slot, reactor);
            }
            if !read.kept.is_empty() {
                return self.use_kept(slot, reactor);
            }
            if read.peer_end == PeerEnd::Came {
                read.peer_end = PeerEnd::Told;
                return self.call(slot, reactor, Connection::ended);
            }
            self.counters.receives.add(1);
            let received = net::recv(&peer.link.socket, &mut *self.input, RecvFlags::empty());
            // What others have said before the client said this comes first.
            let tasks_first = reactor.tasks_first();
            match received {
                Ok((0, _)) => {
                    read.readable = false;
                    if tasks_first {
                        read.peer_end = PeerEnd::Came;
                        return self.queue(slot);
                    }
                    return self.call(slot, reactor, Connection::ended);
                }
                Ok((count, _)) => {
                    self.counters.bytes_in.add(count as u64);
                    let emptied = count < self.input.len();
                    // A short read has emptied the socket: news make a new event. But the end, once announced, is
                    // not announced again.
                    let goes_on = emptied && read.end_announced;
                    read.readable = !emptied || goes_on;
                    if tasks_first {
                        read.keep(&self.input[..count], &mut self.spares);
                        return self.queue(slot);
                    }
                    if read.takes_turn() {
                        self.looked_at.push(slot);
                    }
                    if !emptied {
                        self.queue(slot);
                    }
                    let input = std::mem::take(&mut self.input);
                    self.call(slot, reactor, |connection, turn| {
                        connection.received(&input[..count], turn);
                    });
                    self.input = input;
                    if !goes_on {
                        return;
                    }
                }
                Err(Errno::AGAIN) => {
                    read.readable = false;
                    return;
                }
                Err(Errno::INTR) => {}
                Err(_) => return self.end(slot, CloseReason::Lost, reactor),
            }
        }
    }

    /// Uses what was kept, now that what comes before is done, and then receives on.
    fn use_kept(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_mut()) else {
            return;
        };
        if read.takes_turn() {
            self.looked_at.push(slot);
        }
        let kept = std::mem::take(&mut read.kept);
        self.call(slot, reactor, |connection, turn| connection.received(&kept, turn));
        self.spares.give(kept);
        self.read_on(slot);
    }

    /// Whoever is not read from is not heard of either: an end that was announced may be the loss of the client.
    fn look_for_loss(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        let Some(peer) = self.peers.at(slot) else { return };
        if !peer.read.as_ref().is_some_and(|read| read.end_announced) {
            return;
        }
        self.counters.other_calls.add(1);
        if !matches!(net::sockopt::socket_error(&peer.link.socket), Ok(Ok(()))) {
            self.end(slot, CloseReason::Lost, reactor);
        }
    }

    /// Receives once what comes to a socket that lingers.
    fn discard(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(read) = &mut peer.read else { return };
        let Some(lingering) = &mut read.lingering else {
            return;
        };
        match lingering.receive(&peer.link.socket, &mut *self.input, self.counters, reactor.now()) {
            Discarded::Some => self.queue(slot),
            Discarded::Nothing => read.readable = false,
            Discarded::Over => self.close(slot, reactor),
        }
    }

    /// Reads from it at the end of the turn, without an event.
    pub fn queue(&mut self, slot: u32) {
        if let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_mut())
            && !read.queued
        {
            read.queued = true;
            self.queued.push(slot);
        }
    }

    /// Reads from all that were queued before.
    pub fn receive_queued(&mut self, reactor: &mut Loop<P::Session>) {
        let before = self.queued.len();
        for next in 0..before {
            let slot = self.queued[next];
            if let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_mut())
                && std::mem::take(&mut read.queued)
            {
                self.receive(slot, reactor);
            }
        }
        self.queued.drain(..before);
    }

    /// Calls a connection, does the steps it offloads (on this thread: everyone else here waits), and sees whether
    /// it has ended. Where there is much to do, the rest is for a later turn.
    pub fn call(
        &mut self,
        slot: u32,
        reactor: &mut Loop<P::Session>,
        call: impl FnOnce(&mut Connection<P::Session>, &mut Turn<'_>),
    ) {
        self.enter(slot, reactor, call);
        loop {
            if !self.effects.jobs.is_empty() {
                let step = self.effects.jobs.remove(0);
                let bytes = contain(step);
                self.enter(slot, reactor, |connection, turn| {
                    connection.answered(bytes.as_deref(), turn);
                });
            } else if !self.is_interrupted(slot) {
                break;
            } else if self.slice.is_over() {
                self.queue_interrupted(slot);
                break;
            } else {
                self.enter(slot, reactor, Connection::resume);
            }
        }
        if let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_mut())
            && read.used(&self.serving.options, Instant::now)
        {
            self.schedule(slot, reactor);
        }
        self.settle(slot, reactor);
    }

    fn is_interrupted(&mut self, slot: u32) -> bool {
        let read = self.peers.at(slot).and_then(|peer| peer.read.as_ref());
        read.is_some_and(|read| read.connection.is_interrupted())
    }

    /// Goes on with it in another turn, or later in this one, if it has more to do.
    pub fn queue_interrupted(&mut self, slot: u32) {
        if let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_mut())
            && read.connection.is_interrupted()
            && !read.interrupted
        {
            read.interrupted = true;
            self.interrupted.push_back(Interrupted::Connection(slot));
        }
    }

    /// Goes on with those that had much to do, one after the other, for what is left of the turn: with one at least.
    pub fn go_on_interrupted(&mut self, reactor: &mut Loop<P::Session>) {
        while let Some(next) = self.interrupted.pop_front() {
            match next {
                Interrupted::Connection(slot) => {
                    if let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_mut())
                        && std::mem::take(&mut read.interrupted)
                    {
                        self.resume(slot, reactor);
                    }
                }
                Interrupted::Leftover(leftover) => {
                    let id = leftover.id();
                    let leftover = leftover.resume(&mut self.effects);
                    self.interrupted.extend(leftover.map(Interrupted::Leftover));
                    self.deliver(id);
                }
            }
            if self.slice.is_over() {
                break;
            }
        }
    }

    fn enter(
        &mut self,
        slot: u32,
        reactor: &mut Loop<P::Session>,
        call: impl FnOnce(&mut Connection<P::Session>, &mut Turn<'_>),
    ) {
        let limit = self.serving.options.output_limit;
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(read) = &mut peer.read else { return };
        let id = peer.id;
        let messages = read.connection.messages();
        if let Some(write) = peer.write.as_mut().filter(|_| peer.writer == self.index) {
            write.outbox.borrow(&mut self.spares);
            let full_at = write.outbox.full_at(limit);
            let mut turn = Turn {
                output: write.outbox.buffer(),
                full_at,
                effects: &mut self.effects,
                clock: reactor.clock(),
            };
            call(&mut read.connection, &mut turn);
            write.outbox.give_back(&mut self.spares);
            if !write.outbox.is_empty() && write.must_flush() {
                self.dirty.push(slot);
            }
        } else if peer.writer == self.index {
            // The write half is on its way here, or gone.
            let mut output = Vec::new();
            let mut turn = Turn {
                output: &mut output,
                full_at: limit.saturating_sub(peer.link.waiting.load(Relaxed)),
                effects: &mut self.effects,
                clock: reactor.clock(),
            };
            call(&mut read.connection, &mut turn);
            if !output.is_empty() {
                peer.link.waiting.fetch_add(output.len(), Relaxed);
                self.moves.hold(id, || Held::Own(output));
            }
        } else {
            let batch = self.outgoing[peer.writer].batch();
            let start = batch.buffer().len();
            let full_at = start.saturating_add(limit.saturating_sub(peer.link.waiting.load(Relaxed)));
            let mut turn = Turn {
                output: batch.buffer(),
                full_at,
                effects: &mut self.effects,
                clock: reactor.clock(),
            };
            call(&mut read.connection, &mut turn);
            let count = batch.buffer().len() - start;
            if count > 0 {
                self.has_said = true;
                // Relaxed: the number says nothing of other memory; see `Link::waiting`.
                peer.link.waiting.fetch_add(count, Relaxed);
                batch.own(id, start);
            }
        }
        self.counters.messages.add(read.connection.messages() - messages);
        let group = read.connection.take_group();
        if let Some(alarm) = read.connection.take_alarm() {
            read.set_alarm(alarm.and_then(from_now));
            self.schedule(slot, reactor);
        }
        if !self.effects.no_messages() {
            self.deliver(id);
        }
        if let Some(group) = group {
            self.join(slot, group);
        }
    }

    /// Sets the timer for the nearest of the times of both halves, as far as they are here.
    pub fn schedule(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        let options = &self.serving.options;
        let Some(peer) = self.peers.at(slot) else { return };
        let read = peer.read.as_mut().and_then(|read| read.timer_to_set(options));
        let write = peer.write.as_mut().and_then(|write| write.timer_to_set(options));
        for at in [read, write].into_iter().flatten() {
            reactor.set_timer(at, Token::new(slot));
        }
    }

    /// A time of this slot has come, perhaps of a connection that had it before.
    pub fn timer(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        let (now, options) = (reactor.now(), &self.serving.options);
        let Some(peer) = self.peers.at(slot) else { return };
        let (write, socket) = (peer.write.as_mut(), &peer.link.socket);
        let left = || unacknowledged(socket, self.counters);
        if write.is_some_and(|write| write.is_overdue(now, options, left)) {
            return self.fail_write_half(slot, CloseReason::WriteTimeout);
        }
        match peer.read.as_mut().and_then(|read| read.due(now, options)) {
            Some(Due::Alarm) => self.call(slot, reactor, Connection::alarm),
            Some(Due::Turn) => self.read_on(slot),
            // What has come may also be kept for this turn's end.
            Some(Due::End(_))
                if peer.read.as_ref().is_some_and(|read| !read.kept.is_empty())
                    || !closing::is_silent(&peer.link.socket, self.counters) =>
            {
                self.looked_at.push(slot);
                return;
            }
            Some(Due::End(reason)) => self.end(slot, reason, reactor),
            Some(Due::LingerOver) => return self.close(slot, reactor),
            None => {}
        }
        self.schedule(slot, reactor);
    }

    /// The half of those who wait for this client has been taken.
    pub fn taken(&mut self, id: ConnectionId, reactor: &mut Loop<P::Session>) {
        let slot = id.slot();
        let Some(read) = self.peers.get(id).and_then(|peer| peer.read.as_ref()) else {
            return self.forward(id, Task::Taken(id));
        };
        if read.connection.is_held() {
            self.resume(slot, reactor);
        }
    }

    /// Goes on with held input, and then with what is to be read.
    pub fn resume(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        self.call(slot, reactor, Connection::resume);
        self.looked_at.push(slot);
        self.read_on(slot);
    }

    /// One more holds it up.
    pub fn hold_up(&mut self, id: ConnectionId, by: HeldUpBy) {
        match self.peers.get(id).and_then(|peer| peer.read.as_mut()) {
            Some(read) => {
                read.hold_up(by, 1);
                self.looked_at.push(id.slot());
            }
            None => self.forward(id, Task::HoldUp(id, by)),
        }
    }

    /// One less holds it up.
    pub fn release(&mut self, id: ConnectionId, by: HeldUpBy) {
        match self.peers.get(id).and_then(|peer| peer.read.as_mut()) {
            Some(read) => {
                read.hold_up(by, -1);
                self.looked_at.push(id.slot());
                self.read_on(id.slot());
            }
            None => self.forward(id, Task::Release(id, by)),
        }
    }

    /// Has those who are held up go on for a turn after a while, where they are not to wait to the end; and those who
    /// are not, any more, be idle from now on.
    pub fn look_at_held(&mut self, reactor: &mut Loop<P::Session>) {
        if self.looked_at.is_empty() {
            return;
        }
        // Not the time of the turn: what the sessions took of it is none of their clients'.
        let now = Instant::now();
        while let Some(slot) = self.looked_at.pop() {
            if let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_mut()) {
                read.begin_throttle(now, &self.serving.options);
                read.looked_at(now);
                self.schedule(slot, reactor);
            }
        }
    }

    /// Reads on if something was left and is wanted now.
    pub fn read_on(&mut self, slot: u32) {
        if let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_ref())
            && read.is_ready()
        {
            self.queue(slot);
        }
    }

    /// It ends for a reason of the loop's.
    pub fn end(&mut self, slot: u32, reason: CloseReason, reactor: &mut Loop<P::Session>) {
        let Some(read) = self.peers.at(slot).and_then(|peer| peer.read.as_mut()) else {
            return;
        };
        if read.lingering.is_none() {
            read.connection.end(reason);
            self.settle(slot, reactor);
        } else if reason.is_abrupt() {
            // It had ended for a reason before.
            self.close(slot, reactor);
        }
    }

    /// Goes on with those whose end was decided while others were at work.
    pub fn settle_ended(&mut self, reactor: &mut Loop<P::Session>) {
        while let Some(slot) = self.ended.pop() {
            self.settle(slot, reactor);
        }
    }

    /// Has the write half finish, if the connection has ended and that was not asked yet: the read half goes where that
    /// one is, which can then end both.
    fn settle(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(read) = &mut peer.read else { return };
        let Some(reason) = read.connection.ending() else {
            return;
        };
        let finish = match reason.is_abrupt() {
            true => Finish::AtOnce,
            false if read.connection.is_answered() => Finish::Sent,
            false => return,
        };
        if read.finish >= Some(finish) {
            return;
        }
        read.finish = Some(finish);
        let (id, writer) = (peer.id, peer.writer);
        if writer == self.index {
            self.finish(id, finish, reactor);
            return;
        }
        let link = Arc::clone(&peer.link);
        let Some(read) = peer.read.take() else { return };
        if peer.write.is_some() {
            // On its way already to the loop where it will end.
            peer.reader = writer;
        } else {
            self.peers.remove(slot);
        }
        if read.connection.may_be_sending() {
            // It was registered and is open. Otherwise the socket is about to be closed, which says the same.
            let _ = reactor.remove(&link.socket);
        }
        self.leaving.push((MovingReader::new(id, link, read), finish));
    }

    /// The write half is gone: all is sent, or it was not to be, or it could not for the reason given.
    pub fn write_half_gone(
        &mut self,
        id: ConnectionId,
        reason: Option<CloseReason>,
        reactor: &mut Loop<P::Session>,
    ) {
        let Some(peer) = self.peers.get(id).filter(|peer| peer.read.is_some()) else {
            return self.forward(id, Task::Gone(id, reason));
        };
        let Some(read) = &mut peer.read else { return };
        if let Some(reason) = reason {
            read.connection.end(reason);
        }
        read.finish = Some(Finish::AtOnce);
        self.close_session(id.slot());
        let Some(peer) = self.peers.get(id) else { return };
        let Some(read) = &mut peer.read else { return };
        read.lingering = closing::linger(&read.connection, &peer.link.socket, self.counters, reactor.now());
        if read.lingering.is_none() {
            return self.close(id.slot(), reactor);
        }
        if read.readable {
            // Not now: a call that has ended it may still use what it has received.
            self.queue(id.slot());
        }
        self.schedule(id.slot(), reactor);
    }

    /// Closes without waiting for a client that may be sending.
    fn close_now(&mut self, slot: u32, reactor: &Loop<P::Session>) {
        let Some(peer) = self.peers.at(slot) else { return };
        closing::discard(&peer.link.socket, self.counters);
        self.close(slot, reactor);
    }

    /// The server stops.
    pub fn hear_of_stop(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        let read = self.peers.at(slot).and_then(|peer| peer.read.as_ref());
        match read.is_some_and(|read| read.lingering.is_some()) {
            true => self.close_now(slot, reactor),
            false => self.call(slot, reactor, Connection::stop),
        }
    }

    /// The session hears that its connection is gone, which is counted; and what it says to others is delivered.
    fn close_session(&mut self, slot: u32) {
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(read) = &mut peer.read else { return };
        let id = peer.id;
        let Some((reason, leftover)) = read.connection.close(&mut self.effects) else {
            return;
        };
        self.interrupted.extend(leftover.map(Interrupted::Leftover));
        self.counters.closed(reason);
        if let Some(group) = read.group.take() {
            self.shared.manager.leave(group);
        }
        closing::prepare(&peer.link.socket, reason, self.counters);
        self.deliver(id);
    }

    /// Both halves are gone, and the socket lingers no more: it is closed, and the permit goes back.
    pub fn close(&mut self, slot: u32, reactor: &Loop<P::Session>) {
        self.close_session(slot);
        let Some(mut peer) = self.peers.remove(slot) else {
            return;
        };
        let Some(read) = peer.read.take() else { return };
        let id = peer.id;
        let has_moved = read.has_moved || self.moves.knows(id);
        self.counters.other_calls.add(1);
        reactor.before_close(Token::new(slot), id.generation(), read.receiving);
        drop(peer);
        self.shared.manager.release(self.index);
        if has_moved {
            self.tell_all(|| Task::Forget(id));
        }
        let released = self.shared.slots.release(slot);
        self.after_release(released);
    }
}
