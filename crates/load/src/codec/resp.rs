//! Redis, as a client of ours speaks it.

use std::io::Write as _;

use super::{Codec, CodecError, Event, Frame, MOST_BYTES, line, number};

const NAME: &str = "RESP3";
/// Values in one message; the answer to `HELLO` has about twenty.
const MOST_VALUES: usize = 1024;

/// Redis: group *N* is the channel `gN`.
///
/// RESP3, since in RESP2 a connection that subscribes may not publish. Redis has no way not to echo: who publishes
/// receives its own message, and beside it the count of those who did.
#[derive(Clone, Copy, Debug)]
pub struct Resp;

impl Codec for Resp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn echoes(&self) -> bool {
        true
    }

    fn greet(&self, _: usize, group: usize, into: &mut Vec<u8>) {
        let group = format!("g{group}");
        command(&[b"HELLO", b"3"], into);
        command(&[b"SUBSCRIBE", group.as_bytes()], into);
    }

    fn publish(&self, group: usize, payload: &[u8], into: &mut Vec<u8>) {
        let digits = group.checked_ilog10().unwrap_or(0) as usize + 1;
        // Writing into memory cannot fail.
        let _ = write!(
            into,
            "*3\r\n$7\r\nPUBLISH\r\n${}\r\ng{group}\r\n${}\r\n",
            digits + 1,
            payload.len()
        );
        into.extend_from_slice(payload);
        into.extend_from_slice(b"\r\n");
    }

    fn next<'a>(&self, input: &'a [u8]) -> Result<Option<Frame<'a>>, CodecError> {
        let Some((first, _)) = value(input)? else {
            return Ok(None);
        };
        let parts = match first {
            Value::Parts(parts) => parts,
            Value::Error(line) => return Err(CodecError::complaint(line)),
            Value::Bulk(_) | Value::Simple(_) | Value::Other => 0,
        };
        // The kind of a push stands first, its payload last.
        let (mut kind, mut last) = (&input[..0], &input[..0]);
        let (mut at, mut missing, mut values) = (0, 1, 0);
        while missing > 0 {
            let Some((value, bytes)) = value(&input[at..])? else {
                return Ok(None);
            };
            at += bytes;
            values += 1;
            missing -= 1;
            match value {
                Value::Parts(parts) => missing += parts,
                Value::Bulk(text) | Value::Simple(text) if values == 2 => kind = text,
                Value::Bulk(text) => last = text,
                Value::Simple(_) | Value::Error(_) | Value::Other => {}
            }
            if values + missing > MOST_VALUES {
                return Err(CodecError::foreign(NAME, input));
            }
        }
        let push = input[0] == b'>' && parts == 3;
        let event = match kind {
            b"message" if push => Event::Delivery(last),
            b"subscribe" if push => Event::Ready,
            _ => Event::Noise,
        };
        Ok(Some(Frame { bytes: at, event }))
    }
}

fn command(words: &[&[u8]], into: &mut Vec<u8>) {
    let _ = write!(into, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(into, "${}\r\n", word.len());
        into.extend_from_slice(word);
        into.extend_from_slice(b"\r\n");
    }
}

/// One value, or the head of one that has parts.
enum Value<'a> {
    /// So many values follow.
    Parts(usize),
    /// Text whose length stands before it, as a payload is.
    Bulk(&'a [u8]),
    /// Text that its line end ends.
    Simple(&'a [u8]),
    Error(&'a [u8]),
    /// Numbers, nulls and the like.
    Other,
}

/// The first value, and how many bytes it takes (of one with parts: its head).
fn value(input: &[u8]) -> Result<Option<(Value<'_>, usize)>, CodecError> {
    let foreign = || CodecError::foreign(NAME, input);
    let Some((line, start)) = line(input).map_err(|()| foreign())? else {
        return Ok(None);
    };
    let (&kind, rest) = line.split_first().ok_or_else(foreign)?;
    let whole = |value| Ok(Some((value, start)));
    match kind {
        b'+' => whole(Value::Simple(rest)),
        b'-' => whole(Value::Error(rest)),
        b':' | b'_' | b',' | b'#' | b'(' => whole(Value::Other),
        b'$' | b'*' if rest == b"-1" => whole(Value::Other),
        b'$' | b'=' | b'!' => {
            let bytes = number(rest)
                .filter(|&bytes| bytes <= MOST_BYTES)
                .ok_or_else(foreign)?;
            let end = start + bytes;
            if input.len() < end + 2 {
                return Ok(None);
            }
            if &input[end..end + 2] != b"\r\n" {
                return Err(foreign());
            }
            let text = &input[start..end];
            let value = if kind == b'!' {
                Value::Error(text)
            } else {
                Value::Bulk(text)
            };
            Ok(Some((value, end + 2)))
        }
        b'*' | b'>' | b'~' | b'%' | b'|' => {
            let parts = number(rest)
                .filter(|&parts| parts <= MOST_VALUES)
                .ok_or_else(foreign)?;
            // A map has a key and a value for each.
            whole(Value::Parts(if matches!(kind, b'%' | b'|') {
                2 * parts
            } else {
                parts
            }))
        }
        _ => Err(foreign()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{Owned, events, split_anywhere};
    use super::*;

    #[test]
    fn a_session_is_read_however_it_is_cut() {
        let session = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nmodules\r\n*0\r\n>3\r\n$9\r\nsubscribe\r\n$2\r\ng1\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$2\r\ng1\r\n$5\r\nhello\r\n:10\r\n";
        split_anywhere(&Resp, session);
        assert_eq!(
            events(&Resp, [&session[..]]).unwrap(),
            [
                Owned::Noise,
                Owned::Ready,
                Owned::Delivery(b"hello".to_vec()),
                Owned::Noise
            ]
        );
    }

    #[test]
    fn only_a_push_of_three_is_a_message() {
        for head in ["*3", ">4", "*4"] {
            let fourth = if head.ends_with('4') { "$1\r\nx\r\n" } else { "" };
            let value = format!("{head}\r\n$7\r\nmessage\r\n$2\r\ng1\r\n$5\r\nhello\r\n{fourth}");
            assert_eq!(
                events(&Resp, [value.as_bytes()]).unwrap(),
                [Owned::Noise],
                "{value:?}"
            );
        }
    }

    #[test]
    fn what_is_null_is_no_text() {
        for null in ["$-1\r\n", "*-1\r\n", "_\r\n", "*2\r\n$-1\r\n$1\r\nx\r\n"] {
            assert_eq!(
                events(&Resp, [null.as_bytes()]).unwrap(),
                [Owned::Noise],
                "{null:?}"
            );
        }
    }

    #[test]
    fn a_complaint_is_an_error() {
        assert_eq!(
            Resp.next(b"-NOAUTH Authentication required.\r\n"),
            Err(CodecError::Complaint(
                "NOAUTH Authentication required.".to_owned()
            ))
        );
    }

    #[test]
    fn what_is_not_resp_or_too_deep_is_refused() {
        for bytes in [
            &b"INFO {}\r\n"[..],
            b"$5\r\nhelloxx",
            b"$x\r\n",
            b"*99999999\r\n",
            b"\r\n",
        ] {
            assert!(
                matches!(Resp.next(bytes), Err(CodecError::Foreign { .. })),
                "{bytes:?}"
            );
        }
        assert!(Resp.next("*1000\r\n".repeat(1000).as_bytes()).is_err());
        let many = |values: usize| format!("*{values}\r\n{}", "_\r\n".repeat(values));
        assert!(matches!(Resp.next(many(MOST_VALUES - 1).as_bytes()), Ok(Some(_))));
        assert!(
            Resp.next(many(MOST_VALUES).as_bytes()).is_err(),
            "it is a value, too"
        );
    }

    #[test]
    fn what_it_writes_is_resp() {
        let mut said = Vec::new();
        Resp.publish(12, b"hello", &mut said);
        assert_eq!(said, b"*3\r\n$7\r\nPUBLISH\r\n$3\r\ng12\r\n$5\r\nhello\r\n");
        said.clear();
        Resp.greet(0, 0, &mut said);
        assert_eq!(
            said,
            b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*2\r\n$9\r\nSUBSCRIBE\r\n$2\r\ng0\r\n"
        );
    }
}
