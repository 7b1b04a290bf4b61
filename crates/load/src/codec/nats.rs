//! Core NATS, as a client of ours speaks it.

use std::io::Write as _;

use super::{Codec, CodecError, Event, Frame, MOST_BYTES, line, number, put_number};

const NAME: &str = "NATS";

/// Core NATS: group *N* is the subject `gN`, and `echo` says whether a member hears its own messages.
#[derive(Clone, Copy, Debug)]
pub struct Nats {
    sids: Sids,
    echoes: bool,
}

/// What members call their subscription, which every delivery repeats.
#[derive(Clone, Copy, Debug)]
enum Sids {
    Alike,
    Different,
}

impl Nats {
    /// All call it `1`, as clients do that count their subscriptions and have one, or begin with the same ones.
    pub const ALIKE: Self = Self {
        sids: Sids::Alike,
        echoes: false,
    };
    /// No two members call it the same, so that a server can copy to none what it wrote for another.
    pub const DIFFERENT: Self = Self {
        sids: Sids::Different,
        echoes: false,
    };
    /// As [`ALIKE`](Self::ALIKE), and a member's own messages come back to it.
    pub const ECHOING: Self = Self {
        sids: Sids::Alike,
        echoes: true,
    };
}

impl Codec for Nats {
    fn name(&self) -> &'static str {
        NAME
    }

    fn echoes(&self) -> bool {
        self.echoes
    }

    fn greet(&self, connection: usize, group: usize, into: &mut Vec<u8>) {
        // Writing into memory cannot fail.
        let _ = write!(
            into,
            "CONNECT {{\"verbose\":false,\"pedantic\":false,\"echo\":{},\"lang\":\"rust\",\"version\":\"0\"}}\r\n",
            self.echoes
        );
        let sid = match self.sids {
            Sids::Alike => 1,
            Sids::Different => connection + 1,
        };
        let _ = write!(into, "SUB g{group} {sid}\r\nPING\r\n");
    }

    fn publish(&self, group: usize, payload: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(b"PUB g");
        put_number(group, into);
        into.push(b' ');
        put_number(payload.len(), into);
        into.extend_from_slice(b"\r\n");
        into.extend_from_slice(payload);
        into.extend_from_slice(b"\r\n");
    }

    fn next<'a>(&self, input: &'a [u8]) -> Result<Option<Frame<'a>>, CodecError> {
        let foreign = || CodecError::foreign(NAME, input);
        let Some((line, start)) = line(input).map_err(|()| foreign())? else {
            return Ok(None);
        };
        let event = match line {
            [b'M', b'S', b'G', b' ', ..] => return message(input, line, start, 0),
            [b'H', b'M', b'S', b'G', b' ', ..] => return message(input, line, start, 1),
            b"PONG" => Event::Ready,
            b"PING" => Event::Wants(b"PONG\r\n"),
            b"+OK" => Event::Noise,
            [b'I', b'N', b'F', b'O', b' ', ..] => Event::Noise,
            [b'-', b'E', b'R', b'R', ..] => return Err(CodecError::complaint(line)),
            _ => return Err(foreign()),
        };
        Ok(Some(Frame { bytes: start, event }))
    }
}

/// `MSG subject sid [reply-to] bytes`; `HMSG` has the headers' length, which is part of them, before that.
fn message<'a>(
    input: &'a [u8],
    line: &[u8],
    start: usize,
    more_lengths: usize,
) -> Result<Option<Frame<'a>>, CodecError> {
    let foreign = || CodecError::foreign(NAME, input);
    let mut words = line.rsplit(|&byte| byte == b' ');
    let bytes = words.next().and_then(number).filter(|&bytes| bytes <= MOST_BYTES);
    let bytes = bytes.ok_or_else(foreign)?;
    let headers = match more_lengths {
        0 => 0,
        _ => words
            .next()
            .and_then(number)
            .filter(|&headers| headers <= bytes)
            .ok_or_else(foreign)?,
    };
    let end = start + bytes;
    if input.len() < end + 2 {
        return Ok(None);
    }
    if &input[end..end + 2] != b"\r\n" {
        return Err(foreign());
    }
    Ok(Some(Frame {
        bytes: end + 2,
        event: Event::Delivery(&input[start + headers..end]),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{Owned, events, split_anywhere};
    use super::*;

    #[test]
    fn a_session_is_read_however_it_is_cut() {
        let session = b"INFO {\"server_id\":\"x\"}\r\nPONG\r\nMSG g1 1 5\r\nhello\r\nPING\r\n+OK\r\nMSG g1 1 reply 0\r\n\r\nHMSG g1 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n";
        split_anywhere(&Nats::ALIKE, session);
        let delivery = |payload: &[u8]| Owned::Delivery(payload.to_vec());
        assert_eq!(
            events(&Nats::ALIKE, [&session[..]]).unwrap(),
            [
                Owned::Noise,
                Owned::Ready,
                delivery(b"hello"),
                Owned::Wants(b"PONG\r\n".to_vec()),
                Owned::Noise,
                delivery(b""),
                delivery(b"hello"),
            ]
        );
    }

    #[test]
    fn who_hears_itself_says_so_in_its_greeting() {
        for (codec, echoes) in [
            (Nats::ALIKE, false),
            (Nats::DIFFERENT, false),
            (Nats::ECHOING, true),
        ] {
            let mut greeting = Vec::new();
            codec.greet(0, 1, &mut greeting);
            let says = format!("\"echo\":{echoes}");
            assert!(greeting.windows(says.len()).any(|part| part == says.as_bytes()));
            assert_eq!(codec.echoes(), echoes);
        }
    }

    #[test]
    fn a_payload_may_hold_line_ends() {
        assert_eq!(
            events(&Nats::ALIKE, [&b"MSG g 1 4\r\n\r\n\r\n\r\n"[..]]).unwrap(),
            [Owned::Delivery(b"\r\n\r\n".to_vec())]
        );
    }

    #[test]
    fn what_is_not_nats_is_refused() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"MSG g1 1 x\r\n",
            b"MSG g1 1 5\r\nhello!!",
            b"MSG g1 1 99999999999\r\n",
            b"HMSG g1 1 9 5\r\n",
        ] {
            assert!(
                matches!(Nats::ALIKE.next(bytes), Err(CodecError::Foreign { .. })),
                "{bytes:?}"
            );
        }
        assert_eq!(
            Nats::ALIKE.next(b"-ERR 'Authorization Violation'\r\n"),
            Err(CodecError::Complaint("-ERR 'Authorization Violation'".to_owned()))
        );
    }

    #[test]
    fn what_it_writes_is_nats() {
        for (nats, subscription) in [(Nats::ALIKE, "SUB g3 1\r\n"), (Nats::DIFFERENT, "SUB g3 8\r\n")] {
            let mut said = Vec::new();
            nats.greet(7, 3, &mut said);
            let said = String::from_utf8(said).unwrap();
            assert!(said.ends_with(&format!("{subscription}PING\r\n")), "{said}");
        }
        let mut said = Vec::new();
        Nats::ALIKE.publish(12, b"hello", &mut said);
        assert_eq!(said, b"PUB g12 5\r\nhello\r\n");
    }
}
