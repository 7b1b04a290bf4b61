//! Every byte comes back.

use crate::id::ConnectionId;
use crate::protocol::{Io, Protocol, Session};

/// Sends back whatever comes, until the client ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl Protocol for Echo {
    type Session = Echo;

    fn open(&self, _: ConnectionId) -> Echo {
        Echo
    }
}

impl Session for Echo {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        io.send(input);
        input.len()
    }
}
