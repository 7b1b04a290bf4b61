//! Every byte comes back.

use crate::catalogue::About;
use crate::id::ConnectionId;
use crate::protocol::{Io, Protocol, Session};

pub(crate) const ABOUT: About = About {
    name: "echo",
    summary: "every byte comes back",
};

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::testing::split_anywhere;

    use super::*;

    proptest! {
        #[test]
        fn bytes_split_anywhere_give_the_same(
            input in prop::collection::vec(any::<u8>(), 0..200),
            cuts in prop::collection::vec(0usize..200, 0..8),
        ) {
            split_anywhere(|| Echo, b"", &input, &cuts);
        }
    }
}
