//! WebSocket (RFC 6455), as a client of ours speaks it.

use std::io::Write as _;

use memchr::memmem;

use super::{Codec, CodecError, Event, Frame, LONGEST_LINE_BYTES, MOST_BYTES, text};

const NAME: &str = "WebSocket";
/// The RFC's own example of a key, and what a server must answer to it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// First bytes: each begins a message that is whole.
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
/// Of the second byte, the rest of which is the length: four bytes of mask follow.
const MASKED: u8 = 0x80;

/// WebSocket: group *N* is the path `/gN`, and a message is a binary frame. The server is one that sends it to the
/// others.
///
/// The mask that a client must have is four zeroes. To the server it is one like any other; what it is there for, that
/// a page in a browser cannot choose the bytes on the wire, is no matter here, and the driver stays cheap.
///
/// Messages in several frames are refused: who has no state cannot join them. A ping is answered where it has no words
/// of its own, which the answer would have to repeat.
#[derive(Clone, Copy, Debug)]
pub struct WebSocket;

impl Codec for WebSocket {
    fn name(&self) -> &'static str {
        NAME
    }

    fn echoes(&self) -> bool {
        false
    }

    fn greet(&self, _: usize, group: usize, into: &mut Vec<u8>) {
        // Writing into memory cannot fail.
        let _ = write!(
            into,
            "GET /g{group} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
        );
    }

    fn publish(&self, _: usize, payload: &[u8], into: &mut Vec<u8>) {
        head(MASKED, payload.len(), into);
        into.extend([0; 4]);
        into.extend_from_slice(payload);
    }

    fn next<'a>(&self, input: &'a [u8]) -> Result<Option<Frame<'a>>, CodecError> {
        let foreign = || CodecError::foreign(NAME, input);
        let kind = match *input {
            [] => return Ok(None),
            // No frame begins so.
            [b'H', ..] => return upgraded(input),
            [kind @ (TEXT | BINARY | CLOSE | PING | PONG), ..] => kind,
            _ => return Err(foreign()),
        };
        // A server does not mask.
        if input.get(1).is_some_and(|second| second & MASKED != 0) {
            return Err(foreign());
        }
        let Some((bytes, start)) = length(input) else {
            return Ok(None);
        };
        let bytes = usize::try_from(bytes)
            .ok()
            .filter(|&bytes| bytes <= MOST_BYTES)
            .ok_or_else(foreign)?;
        let Some(payload) = input.get(start..start + bytes) else {
            return Ok(None);
        };
        let event = match (kind, payload) {
            (TEXT | BINARY, _) => Event::Delivery(payload),
            (PING, []) => Event::Wants(&[PONG, MASKED, 0, 0, 0, 0]),
            (CLOSE, [high, low, reason @ ..]) => {
                let code = u16::from_be_bytes([*high, *low]);
                return Err(CodecError::Complaint(format!("close {code} {}", text(reason))));
            }
            (CLOSE, _) => return Err(CodecError::Complaint("close".to_owned())),
            _ => Event::Noise,
        };
        let bytes = start + bytes;
        Ok(Some(Frame { bytes, event }))
    }
}

/// What comes before the first frame: that the server speaks WebSocket from now on.
fn upgraded(input: &[u8]) -> Result<Option<Frame<'_>>, CodecError> {
    let most = &input[..input.len().min(LONGEST_LINE_BYTES)];
    let Some(end) = memmem::find(most, b"\r\n\r\n") else {
        return match most.len() {
            LONGEST_LINE_BYTES => Err(CodecError::foreign(NAME, input)),
            _ => Ok(None),
        };
    };
    let head = &input[..end];
    if !head.starts_with(b"HTTP/1.1 101 ") || memmem::find(head, ACCEPT.as_bytes()).is_none() {
        return Err(CodecError::complaint(head));
    }
    Ok(Some(Frame {
        bytes: end + 4,
        event: Event::Ready,
    }))
}

/// What stands before a message, but for the mask.
fn head(masked: u8, bytes: usize, into: &mut Vec<u8>) {
    into.push(BINARY);
    match bytes {
        0..126 => into.push(masked | bytes as u8),
        126..=0xffff => {
            into.push(masked | 126);
            into.extend((bytes as u16).to_be_bytes());
        }
        _ => {
            into.push(masked | 127);
            into.extend((bytes as u64).to_be_bytes());
        }
    }
}

/// The length of the payload, and where it begins.
fn length(input: &[u8]) -> Option<(u64, usize)> {
    Some(match *input.get(1)? {
        126 => (u16::from_be_bytes(*input[2..].first_chunk()?).into(), 4),
        127 => (u64::from_be_bytes(*input[2..].first_chunk()?), 10),
        bytes => (bytes.into(), 2),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::conformance::{Owned, events, split_anywhere};
    use super::*;

    /// As a server of the RFC answers.
    fn answer() -> Vec<u8> {
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
        format!("{head}Sec-WebSocket-Accept: {ACCEPT}\r\n\r\n").into_bytes()
    }

    /// A message of a server.
    fn message(payload: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        head(0, payload.len(), &mut message);
        message.extend_from_slice(payload);
        message
    }

    #[test]
    fn a_session_is_read_however_it_is_cut() {
        let session = [
            &answer()[..],
            b"\x82\x05hello\x89\x00\x89\x02hi\x8a\x00\x82\x00\x81\x02ho\x82\x7f\0\0\0\0\0\0\0\x01x",
            &message(&[b'x'; 300])[..],
        ]
        .concat();
        split_anywhere(&WebSocket, &session);
        let delivery = |payload: &[u8]| Owned::Delivery(payload.to_vec());
        assert_eq!(
            events(&WebSocket, [&session[..]]).unwrap(),
            [
                Owned::Ready,
                delivery(b"hello"),
                Owned::Wants(b"\x8a\x80\0\0\0\0".to_vec()),
                Owned::Noise,
                Owned::Noise,
                delivery(b""),
                delivery(b"ho"),
                delivery(b"x"),
                delivery(&[b'x'; 300]),
            ]
        );
    }

    proptest! {
        #[test]
        fn messages_with_lengths_of_every_kind_come_whole_however_they_are_cut(
            sizes in prop::collection::vec(prop_oneof![0_usize..300, 65_530_usize..65_550], 0..5),
            cuts in prop::collection::vec(1_usize..5_000, 1..20),
        ) {
            let payloads: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, &size)| vec![i as u8; size]).collect();
            let session = payloads.iter().fold(answer(), |session, payload| [session, message(payload)].concat());
            let mut rest = &session[..];
            let pieces = cuts.iter().cycle().map_while(|&cut| {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                Some(piece).filter(|piece| !piece.is_empty())
            });
            let mut expected = vec![Owned::Ready];
            expected.extend(payloads.into_iter().map(Owned::Delivery));
            prop_assert_eq!(events(&WebSocket, pieces).unwrap(), expected);
        }
    }

    #[test]
    fn a_refusal_and_a_close_are_complaints() {
        for (bytes, words) in [
            (
                &b"HTTP/1.1 404 File Not Found\r\n\r\n"[..],
                "HTTP/1.1 404 File Not Found",
            ),
            (b"HTTP/1.1 101 Yes\r\n\r\n", "HTTP/1.1 101 Yes"),
            (b"\x88\x09\x03\xf1too big", "close 1009 too big"),
            (b"\x88\x00", "close"),
        ] {
            assert_eq!(
                WebSocket.next(bytes),
                Err(CodecError::Complaint(words.to_owned()))
            );
        }
    }

    #[test]
    fn what_is_not_websocket_is_refused() {
        let endless = b"HTTP/1.1 101 ".repeat(LONGEST_LINE_BYTES / 8);
        for bytes in [
            &b"INFO {}\r\n"[..],
            // Masked, compressed, one frame of several, an unknown kind.
            b"\x82\x85\0\0\0\0hello",
            b"\xc2\x05hello",
            b"\x02\x05hello",
            b"\x83\x00",
            b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
            &endless[..],
        ] {
            assert!(
                matches!(WebSocket.next(bytes), Err(CodecError::Foreign { .. })),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn what_it_writes_is_websocket() {
        let mut said = Vec::new();
        WebSocket.greet(7, 12, &mut said);
        assert!(said.starts_with(b"GET /g12 HTTP/1.1\r\n") && said.ends_with(b"\r\n\r\n"));
        for (bytes, head) in [
            (5, &b"\x82\x85\0\0\0\0"[..]),
            (200, b"\x82\xfe\x00\xc8\0\0\0\0"),
            (65_536, b"\x82\xff\0\0\0\0\0\x01\0\0\0\0\0\0"),
        ] {
            let payload = vec![b'x'; bytes];
            said.clear();
            WebSocket.publish(12, &payload, &mut said);
            assert_eq!(said, [head, &payload[..]].concat());
        }
    }
}
