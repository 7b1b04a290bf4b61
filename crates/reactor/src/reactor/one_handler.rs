//! Where a handle has one handler: a connection waits to be read or to be written, never both.
//!
//! A loop usually waits for both at once and sends what there is at the end of a turn. Here a write is an operation of
//! its own, as a read is: what is to go to a client takes the place of its read, the loop waits until the socket can be
//! written, sends, and waits for the next to read only when nothing waits for the client any more.

use super::interest::{Interest, Token};
use super::serving_loop::{Loop, ServingLoop};
use crate::counters::CloseReason;
use crate::protocol::Protocol;

impl<P: Protocol> ServingLoop<'_, P> {
    /// Whether what waits for this client waits for its place before it is sent.
    pub fn waits_for_its_place(&mut self, slot: u32) -> bool {
        let write = self.peers.at(slot).and_then(|peer| peer.write.as_mut());
        let Some(write) = write.filter(|write| self.has_one_handler && !write.watched) else {
            return false;
        };
        // As if the socket had taken no more: it is reported when it does.
        write.blocked = !write.outbox.is_empty();
        write.blocked
    }

    /// The write takes the place of the read if something waits for the client, and otherwise gives it back.
    pub fn choose_operation(&mut self, slot: u32, reactor: &Loop<P::Session>) {
        let Some(peer) = self.peers.at(slot) else { return };
        let Some(write) = &mut peer.write else { return };
        let writes = !write.outbox.is_empty();
        if write.watched == writes {
            return;
        }
        write.watched = writes;
        if let Some(read) = &mut peer.read {
            read.is_replaced = writes;
        }
        let token = Token::new(slot);
        let operation = match writes {
            true => Interest::write(token),
            false => Interest::read(token),
        };
        if reactor.change(&peer.link.socket, operation).is_err() {
            return self.fail_write_half(slot, CloseReason::Lost);
        }
        if !writes {
            self.looked_at.push(slot);
            self.read_on(slot);
        }
    }
}
