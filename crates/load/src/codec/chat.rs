//! `chat`, as a client of ours speaks it.

use std::io::Write as _;

use super::{Codec, CodecError, Event, Frame, line};

const NAME: &str = "chat";
/// Begins the answer to a greeting, and no message: those begin with hexadecimal digits.
const JOINED: &[u8] = b"joined ";

/// `chat`, the protocol of lines that `threadgauge serve` has: group *N* is the room `N`, and a message is a line.
///
/// So a message must have no line end. What the [`DeliveryChecker`](crate::DeliveryChecker) writes is printable.
#[derive(Clone, Copy, Debug)]
pub struct Chat;

impl Codec for Chat {
    fn name(&self) -> &'static str {
        NAME
    }

    fn echoes(&self) -> bool {
        false
    }

    fn greet(&self, _: usize, group: usize, into: &mut Vec<u8>) {
        // Writing into memory cannot fail.
        let _ = writeln!(into, "join {group}");
    }

    fn publish(&self, _: usize, payload: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(payload);
        into.push(b'\n');
    }

    fn next<'a>(&self, input: &'a [u8]) -> Result<Option<Frame<'a>>, CodecError> {
        let Some((line, bytes)) = line(input).map_err(|()| CodecError::foreign(NAME, input))? else {
            return Ok(None);
        };
        let event = match line.starts_with(JOINED) {
            true => Event::Ready,
            false => Event::Delivery(line),
        };
        Ok(Some(Frame { bytes, event }))
    }

    /// The end of the line says it.
    fn heads_say_lengths(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{Owned, events, split_anywhere};
    use super::*;

    #[test]
    fn a_session_is_read_however_it_is_cut() {
        let session = b"joined 7\n000001 hello\n\n";
        split_anywhere(&Chat, session);
        assert_eq!(
            events(&Chat, [&session[..]]).unwrap(),
            [
                Owned::Ready,
                Owned::Delivery(b"000001 hello".to_vec()),
                Owned::Delivery(Vec::new())
            ]
        );
    }

    #[test]
    fn what_it_writes_is_chat() {
        let mut said = Vec::new();
        Chat.greet(3, 12, &mut said);
        Chat.publish(12, b"hello", &mut said);
        assert_eq!(said, b"join 12\nhello\n");
    }
}
