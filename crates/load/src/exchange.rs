//! Requests and answers of one connection, by protocol: one file each, no client library.
//!
//! An exchange knows no socket and no clock. What is known of an answer that is not whole yet is its
//! [`Reading`](Exchange::Reading), one a connection, so that an answer of any length is read piece by piece and kept
//! nowhere.

mod bytes;
mod echo;
mod http;
mod numbered;

pub use bytes::Bytes;
pub use echo::Echo;
pub use http::{Http, HttpRequest};
pub use numbered::Numbered;

use crate::codec::CodecError;

/// The client's side of a protocol in which each request has one answer: in order, or with the request's number.
pub trait Exchange: std::fmt::Debug {
    /// What is known of an answer that is not whole yet.
    type Reading: Default + std::fmt::Debug;

    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// Whether the server ends a connection after one answer.
    fn is_single(&self) -> bool;

    /// Appends request `number` of a connection, counted from 0 in each; one that was made anew counts on.
    fn request(&mut self, connection: usize, number: u64, into: &mut Vec<u8>);

    /// Reads on in the answer to request `number`, of which earlier calls used all before `input`.
    ///
    /// # Errors
    ///
    /// If these bytes are not of the protocol.
    fn read(
        &mut self,
        connection: usize,
        number: u64,
        reading: &mut Self::Reading,
        input: &[u8],
    ) -> Result<Read, CodecError>;

    /// Whether other bytes have come than asked for, although the answer is not whole: it will not be a good one.
    fn is_changed(&self, _: &Self::Reading) -> bool {
        false
    }

    /// The server has ended the connection: the answer that this makes whole, if it does.
    fn ended(&mut self, reading: &mut Self::Reading) -> Option<Answer>;
}

/// What came of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// How many bytes from the front were used. 0 without an answer: it needs more than there is.
    pub bytes: usize,
    /// The answer, where it is whole with these.
    pub answer: Option<Answer>,
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it is worth.
    pub worth: Worth,
    /// Whether the server ends the connection after it.
    pub last: bool,
    /// Which request it answers, where answers come in any order; `None`: the oldest that has none.
    pub number: Option<u64>,
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// It is what was asked for.
    Good,
    /// An answer of the protocol that says no, by its number, e.g. 404 of HTTP.
    Refusal(u16),
    /// Other bytes than asked for.
    Changed,
}

impl Answer {
    /// What was asked for, and the connection goes on.
    pub const GOOD: Self = Self {
        worth: Worth::Good,
        last: false,
        number: None,
    };
}

/// What every exchange is held to.
#[cfg(test)]
pub(crate) mod conformance {
    use super::*;

    /// The answers to requests 0, 1, … of connection 3, whose bytes come in these pieces; then the server ends it.
    pub(crate) fn answers<'a, E: Exchange>(
        exchange: &mut E,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<Answer>, CodecError> {
        let (mut held, mut answers, mut reading) = (Vec::new(), Vec::new(), E::Reading::default());
        for piece in pieces {
            held.extend_from_slice(piece);
            let mut used = 0;
            while used < held.len() {
                let read = exchange.read(3, answers.len() as u64, &mut reading, &held[used..])?;
                assert!(used + read.bytes <= held.len());
                used += read.bytes;
                match read.answer {
                    Some(answer) => answers.push(answer),
                    None if read.bytes == 0 => break,
                    None => {}
                }
            }
            held.drain(..used);
        }
        answers.extend(exchange.ended(&mut reading));
        Ok(answers)
    }

    /// Cut at every place, and byte by byte, the bytes say the same as whole.
    pub(crate) fn split_anywhere<E: Exchange>(exchange: &mut E, bytes: &[u8]) -> Vec<Answer> {
        let whole = answers(exchange, [bytes]).unwrap();
        for cut in 0..=bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(answers(exchange, [a, b]).unwrap(), whole, "cut at {cut}");
        }
        assert_eq!(answers(exchange, bytes.chunks(1)).unwrap(), whole);
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_name_and_says_whether_a_connection_has_one_request_alone() {
        fn told(exchange: &impl Exchange) -> (&'static str, bool) {
            (exchange.name(), exchange.is_single())
        }
        let get = HttpRequest::get("here", "/");
        let close = HttpRequest {
            close: true,
            ..get.clone()
        };
        assert_eq!(told(&Http::new(&get)), ("http", false));
        assert_eq!(told(&Http::new(&close)), ("http", true));
        assert_eq!(told(&Echo::new(1)), ("echo", false));
        assert_eq!(told(&Bytes::new(1)), ("bytes", true));
        assert_eq!(told(&Bytes::kept(1)), ("bytes", false));
        assert_eq!(told(&Numbered::new(10, 1, 1)), ("numbered", false));
    }
}
