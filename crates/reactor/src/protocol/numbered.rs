//! Requests with numbers, whose answers may come in any order: many of them can be under way on one connection.
//!
//! A request is a line `ID MS TEXT`, its answer the line `ID TEXT`. ID is a number of the client's choice, which the
//! server only gives back; MS says how long the step that makes the answer blocks, in milliseconds up to 10,000; TEXT
//! is anything but the end of a line, and may be empty. With `0` there is no step, and the answer is made at once.
//!
//! ```text
//! client: 1 200 slow        server:
//! client: 2 0 quick         server: 2 quick
//!                           server: 1 slow      (about 200 ms later)
//! ```
//!
//! On a design that does steps on the thread that receives, the answers come in the order of the requests. What is no
//! request is refused with a line `refused: …`, which comes after the answers that were due before it, but for those
//! still in their steps.

use std::time::Duration;

use crate::catalogue::About;
use crate::id::ConnectionId;
use crate::protocol::line::{first_line, number};
use crate::protocol::{Io, Protocol, Session};

pub(crate) const ABOUT: About = About {
    name: "numbered",
    summary: "lines ID MS TEXT, answered ID TEXT after a step that blocks MS ms, in any order",
};

/// The longest step, in milliseconds.
const MOST_MS: u64 = 10_000;

/// Answers numbered requests.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    block: fn(Duration),
}

impl Numbered {
    /// With another step than sleeping so long.
    pub fn with_step(block: fn(Duration)) -> Self {
        Self { block }
    }
}

/// With steps that sleep.
impl Default for Numbered {
    fn default() -> Self {
        Self::with_step(std::thread::sleep)
    }
}

impl Protocol for Numbered {
    type Session = Numbered;
    const MAX_FRAME: usize = 16 * 1024;

    fn open(&self, _: ConnectionId) -> Numbered {
        *self
    }
}

impl Session for Numbered {
    fn received(&mut self, input: &[u8], io: &mut Io<'_>) -> usize {
        let Some((line, length)) = first_line(input) else {
            return 0;
        };
        match Request::parse(line) {
            Some(request) if request.step.is_zero() => request.answer(io.output()),
            Some(request) => {
                let (step, block) = (request.step, self.block);
                let mut answer = Vec::with_capacity(length);
                request.answer(&mut answer);
                io.offload(move || {
                    block(step);
                    answer
                });
            }
            None => {
                io.send(b"refused: a request is ID MS TEXT, with MS from 0 to 10000\n");
                io.refuse();
            }
        }
        length
    }
}

/// A request without its line's end.
struct Request<'a> {
    id: &'a [u8],
    step: Duration,
    text: &'a [u8],
}

impl<'a> Request<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = line.splitn(3, |&byte| byte == b' ');
        let (id, ms, text) = (words.next()?, words.next()?, words.next()?);
        number(id)?;
        let ms = number(ms).filter(|&ms| ms <= MOST_MS)?;
        Some(Self {
            id,
            step: Duration::from_millis(ms),
            text,
        })
    }

    fn answer(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(self.id);
        output.push(b' ');
        output.extend_from_slice(self.text);
        output.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::CloseReason;
    use crate::testing::{Rehearsal, split_anywhere};

    fn without_waiting() -> Numbered {
        Numbered::with_step(|_| ())
    }

    #[test]
    fn answers_carry_the_number_and_come_when_they_are_ready() {
        let mut server = Rehearsal::new(without_waiting());
        let client = server.connect();
        server.receive(
            client,
            b"1 50 slow one\n18446744073709551615 0 \n2 50 other\n3 0 quick\n",
        );
        assert_eq!(server.take_output(client), b"18446744073709551615 \n3 quick\n");
        server.finish_step(1);
        assert_eq!(server.take_output(client), b"2 other\n");
        server.finish_step(0);
        assert_eq!(server.take_output(client), b"1 slow one\n");
    }

    #[test]
    fn the_client_that_ends_gets_what_is_under_way() {
        let mut server = Rehearsal::new(without_waiting());
        let client = server.connect();
        server.receive(client, b"1 50 slow\n");
        server.end(client);
        assert_eq!(server.closed(client), None);
        server.finish_step(0);
        assert_eq!(server.take_output(client), b"1 slow\n");
        assert_eq!(server.closed(client), Some(CloseReason::PeerEnded));
    }

    #[test]
    fn steps_of_one_client_are_bounded_and_none_is_lost() {
        let mut server = Rehearsal::new(without_waiting());
        let client = server.connect();
        let requests: String = (0..300).map(|id| format!("{id} 1 x\n")).collect();
        server.receive(client, requests.as_bytes());
        assert!(server.steps() < 300);
        while server.steps() > 0 {
            server.finish_step(0);
        }
        let answers: String = (0..300).map(|id| format!("{id} x\n")).collect();
        assert_eq!(server.take_output(client), answers.as_bytes());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for wrong in ["", "1", "1 0", "1 10001 x", "x 0 y", "1 -1 x", " 1 0 x", "1  0 x"] {
            let mut server = Rehearsal::new(without_waiting());
            let client = server.connect();
            server.receive(client, format!("7 0 y\n{wrong}\n8 0 z\n").as_bytes());
            let output = server.take_output(client);
            assert!(
                output.starts_with(b"7 y\nrefused: ") && !output.ends_with(b"z\n"),
                "{wrong:?}"
            );
            assert_eq!(server.closed(client), Some(CloseReason::Refused), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_split_anywhere_give_the_same(
            input in "([0-9]{1,3} [0-9]{1,5} [a-z ]{0,9}\r?\n){0,5}[0-9a-z \n]{0,20}",
            cuts in prop::collection::vec(0usize..150, 0..8),
        ) {
            split_anywhere(without_waiting, b"", input.as_bytes(), &cuts);
        }
    }
}
