//! What a loop over io_uring does with read halves: bytes come by themselves, and are used at once where they are
//! wanted. Where they are not, they are kept, and no more are received until they are.

use rustix::io::Errno;

use super::completions::Arrival;
use super::interest::Token;
use super::peer::{PeerEnd, ReadHalf};
use super::serving_loop::{Loop, ServingLoop};
use crate::connection::{Connection, RECEIVE_BYTES};
use crate::counters::CloseReason;
use crate::protocol::{Protocol, Session};

impl<P: Protocol> ServingLoop<'_, P> {
    /// Something has come.
    pub fn arrived(&mut self, slot: u32, arrival: Arrival, reactor: &mut Loop<P::Session>) {
        let mut input = std::mem::take(&mut self.input);
        let (count, failure) = match arrival.result {
            Ok(Some(filled)) => (reactor.take(filled, &mut input), None),
            Ok(None) => (0, None),
            Err(errno) => (0, Some(errno)),
        };
        // What others have said before the client said this comes first.
        let tasks_first = reactor.tasks_first();
        let peer = self.peers.at(slot);
        let peer = peer.filter(|peer| peer.id.generation() == arrival.generation);
        if let Some(read) = peer.and_then(|peer| peer.read.as_mut()) {
            read.receiving = arrival.goes_on;
            match failure {
                None if count > 0 => self.came(slot, &input[..count], tasks_first, reactor),
                None => read.peer_end = PeerEnd::Came,
                // No buffer was left, or it was to stop.
                Some(Errno::NOBUFS | Errno::CANCELED | Errno::AGAIN | Errno::INTR) => {}
                Some(_) => self.end(slot, CloseReason::Lost, reactor),
            }
            match tasks_first {
                true => self.queue(slot),
                false => self.use_arrived(slot, reactor),
            }
        }
        self.input = input;
    }

    fn came(&mut self, slot: u32, bytes: &[u8], tasks_first: bool, reactor: &mut Loop<P::Session>) {
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(read) = &mut peer.read else { return };
        self.counters.bytes_in.add(bytes.len() as u64);
        if let Some(lingering) = &mut read.lingering {
            if !lingering.came(bytes.len(), reactor.now()) {
                self.close(slot, reactor);
            }
            return;
        }
        let is_wanted = read.is_wanted();
        if is_wanted && read.kept.is_empty() && !tasks_first {
            if read.takes_turn() {
                self.looked_at.push(slot);
            }
            return self.call(slot, reactor, |connection, turn| connection.received(bytes, turn));
        }
        if !is_wanted && read.kept.is_empty() && read.receiving {
            reactor.stop_receiving(Token::new(slot), peer.id.generation());
        }
        read.keep(bytes, &mut self.spares);
    }

    /// Uses what was kept, if it is wanted now, and then the end; else receives on.
    pub fn use_arrived(&mut self, slot: u32, reactor: &mut Loop<P::Session>) {
        loop {
            let Some(peer) = self.peers.at(slot) else { return };
            let Some(read) = &mut peer.read else { return };
            if read.lingering.is_some() {
                read.kept = Vec::new();
                if read.peer_end != PeerEnd::Open {
                    return self.close(slot, reactor);
                }
            } else if !read.is_wanted() {
                break read.note_kept();
            } else if !read.kept.is_empty() {
                let mut kept = std::mem::take(&mut read.kept);
                if read.takes_turn() {
                    read.kept = kept.split_off(RECEIVE_BYTES.min(kept.len()));
                    self.looked_at.push(slot);
                }
                self.call(slot, reactor, |connection, turn| connection.received(&kept, turn));
                self.spares.give(kept);
                continue;
            } else if read.peer_end == PeerEnd::Came {
                read.peer_end = PeerEnd::Told;
                read.note_kept();
                return self.call(slot, reactor, Connection::ended);
            }
            if !read.receiving && read.peer_end == PeerEnd::Open {
                read.receiving = true;
                reactor.receive(&peer.link.socket, Token::new(slot), peer.id.generation());
            }
            break read.note_kept();
        }
    }
}

impl<S: Session> ReadHalf<S> {
    /// Notes whether there is something to go on with once it is wanted.
    fn note_kept(&mut self) {
        self.readable = match self.peer_end {
            PeerEnd::Open => !self.receiving || !self.kept.is_empty(),
            PeerEnd::Came => true,
            PeerEnd::Told => false,
        };
    }
}
