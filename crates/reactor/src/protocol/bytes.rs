//! As many bytes as asked for: the server of Stevens' comparison of designs.
//!
//! A request is a line with a number from 1 to 16,384; the answer is that many bytes, and the connection is closed. A
//! line `NUMBER keep` leaves it open for the next request. Anything else is refused with a line that says why.

use crate::catalogue::About;
use crate::id::ConnectionId;
use crate::protocol::line::{first_line, number};
use crate::protocol::{Io, Protocol, Session};

pub(crate) const ABOUT: About = About {
    name: "bytes",
    summary: "a line with a number up to 16,384: that many bytes back, then close (NUMBER keep: stay open)",
};

/// The most bytes of one answer.
pub const MOST_BYTES: usize = 16_384;

/// What answers are the beginning of: the alphabet, over and over.
static ANSWER: [u8; MOST_BYTES] = {
    let mut bytes = [0; MOST_BYTES];
    let mut i = 0;
    while i < MOST_BYTES {
        bytes[i] = b'a' + (i % 26) as u8;
        i += 1;
    }
    bytes
};

/// Answers a number with so many bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes;

impl Protocol for Bytes {
    type Session = Bytes;
    const MAX_FRAME: usize = 64;

    fn open(&self, _: ConnectionId) -> Bytes {
        Bytes
    }
}

impl Session for Bytes {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        let Some((line, length)) = first_line(input) else {
            return 0;
        };
        match request(line) {
            Some((answer, keep)) => {
                io.send(answer);
                if !keep {
                    io.close();
                }
            }
            None => {
                io.send(b"refused: a request is NUMBER or NUMBER keep, with a number from 1 to 16384\n");
                io.refuse();
            }
        }
        length
    }
}

/// The answer, and whether the connection stays open.
fn request(line: &[u8]) -> Option<(&'static [u8], bool)> {
    let (digits, keep) = match line.strip_suffix(b" keep") {
        Some(digits) => (digits, true),
        None => (line, false),
    };
    Some((answer(number(digits)?)?, keep))
}

/// So many bytes, if so many are given.
pub(crate) fn answer(count: u64) -> Option<&'static [u8]> {
    let count = usize::try_from(count).ok().filter(|&count| count > 0)?;
    ANSWER.get(..count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::CloseReason;
    use crate::testing::{Rehearsal, split_anywhere};

    fn answer(input: &[u8]) -> (Vec<u8>, Option<CloseReason>) {
        let mut server = Rehearsal::new(Bytes);
        let client = server.connect();
        server.receive(client, input);
        (server.take_output(client), server.closed(client))
    }

    #[test]
    fn a_number_is_answered_with_so_many_bytes_and_the_end() {
        for count in [1, 26, 4_000, MOST_BYTES] {
            let (output, closed) = answer(format!("{count}\n").as_bytes());
            assert_eq!(output, ANSWER[..count]);
            assert_eq!(closed, Some(CloseReason::Finished));
        }
        assert_eq!(answer(b"3\r\nnot used\n").0, b"abc");
    }

    #[test]
    fn keep_leaves_it_open() {
        assert_eq!(answer(b"3 keep\n2 keep\n"), (b"abcab".to_vec(), None));
        assert_eq!(
            answer(b"3 keep\n1\n2\n"),
            (b"abca".to_vec(), Some(CloseReason::Finished))
        );
    }

    #[test]
    fn other_lines_are_refused_with_a_message() {
        for wrong in [
            "0",
            "16385",
            "-1",
            "",
            "x",
            "4 kept",
            "4  keep",
            " keep",
            "99999999999999999999999",
        ] {
            let (output, closed) = answer(format!("{wrong}\n").as_bytes());
            assert!(output.starts_with(b"refused: "), "{wrong:?}");
            assert_eq!(closed, Some(CloseReason::Refused), "{wrong:?}");
        }
        assert_eq!(answer(&[b'1'; 65]).1, Some(CloseReason::TooLong));
    }

    proptest! {
        #[test]
        fn bytes_split_anywhere_give_the_same(
            input in "([0-9]{1,6}( keep)?\r?\n){0,4}[0-9 kep\n]{0,80}",
            cuts in prop::collection::vec(0usize..100, 0..8),
        ) {
            split_anywhere(|| Bytes, b"", input.as_bytes(), &cuts);
        }
    }
}
