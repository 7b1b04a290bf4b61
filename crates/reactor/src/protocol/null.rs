//! Nothing: what accepting and closing alone cost.

use crate::catalogue::About;
use crate::id::ConnectionId;
use crate::protocol::{Io, Protocol, Session};

pub(crate) const ABOUT: About = About {
    name: "null",
    summary: "accepts and closes",
};

/// Closes each connection as soon as it is there. Nothing is received: a client that has sent something sees a reset
/// rather than an end, since the kernel answers unread bytes so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Protocol for Null {
    type Session = Null;

    fn open(&self, _: ConnectionId) -> Null {
        Null
    }
}

impl Session for Null {
    fn opened(&mut self, io: &mut Io<'_>) {
        io.close();
    }

    /// Never called: no more input is used once it is closed.
    fn received(&mut self, input: &[u8], _: &mut Io<'_>) -> usize {
        input.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CloseReason;
    use crate::testing::Rehearsal;

    #[test]
    fn a_connection_is_closed_at_once_and_nothing_is_sent() {
        let mut server = Rehearsal::new(Null);
        let client = server.connect();
        server.receive(client, b"hello\n");
        assert_eq!(server.closed(client), Some(CloseReason::Finished));
        assert_eq!(server.take_output(client), b"");
    }
}
