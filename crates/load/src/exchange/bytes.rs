//! As many bytes as asked for, after Stevens' client: a line with a number, that many bytes of the alphabet back.

use std::io::Write as _;

use super::{Answer, Exchange, Read, Worth};
use crate::codec::CodecError;
use crate::sizes::Sizes;

const NAME: &str = "bytes";
/// How a server that does not like a request begins its answer.
const REFUSED: &[u8] = b"refused";

/// Asks for answers of these sizes, and wants the alphabet over and over.
#[derive(Debug)]
pub struct Bytes {
    sizes: Sizes,
    single: bool,
    alphabet: Vec<u8>,
}

/// How much of an answer has come, and whether it was right.
#[derive(Debug, Default)]
pub struct Came {
    bytes: usize,
    changed: bool,
}

impl Bytes {
    /// The most that the server of this project gives at once.
    pub const MOST: usize = 16_384;

    /// Answers of so many bytes, one a connection.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub fn new(sizes: impl Into<Sizes>) -> Self {
        let sizes = sizes.into();
        assert!(sizes.least() > 0, "an answer has at least one byte");
        Self {
            sizes,
            single: true,
            alphabet: (b'a'..=b'z').cycle().take(sizes.most()).collect(),
        }
    }

    /// As [`new`](Self::new), and the connection stays open for the next request.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub fn kept(sizes: impl Into<Sizes>) -> Self {
        Self {
            single: false,
            ..Self::new(sizes)
        }
    }
}

impl Exchange for Bytes {
    type Reading = Came;

    fn name(&self) -> &'static str {
        NAME
    }

    fn is_single(&self) -> bool {
        self.single
    }

    fn request(&mut self, connection: usize, number: u64, into: &mut Vec<u8>) {
        let keep = if self.single { "" } else { " keep" };
        // Writing into memory cannot fail.
        let _ = writeln!(into, "{}{keep}", self.sizes.of(connection, number));
    }

    fn read(
        &mut self,
        connection: usize,
        number: u64,
        came: &mut Came,
        input: &[u8],
    ) -> Result<Read, CodecError> {
        // An answer that is none shows by its first byte; one that goes wrong later is changed.
        match input.first() {
            Some(b'a') => {}
            Some(b'r') if came.bytes == 0 => {
                let seen = input.len().min(REFUSED.len());
                return match input[..seen] == REFUSED[..seen] {
                    true if seen < REFUSED.len() => Ok(Read::default()),
                    true => Err(CodecError::complaint(input)),
                    false => Err(CodecError::foreign(NAME, input)),
                };
            }
            Some(_) if came.bytes == 0 => return Err(CodecError::foreign(NAME, input)),
            _ => {}
        }
        let expected = &self.alphabet[came.bytes..self.sizes.of(connection, number)];
        let bytes = input.len().min(expected.len());
        came.changed |= input[..bytes] != expected[..bytes];
        came.bytes += bytes;
        let answer = (bytes == expected.len()).then(|| Answer {
            worth: match std::mem::take(came).changed {
                true => Worth::Changed,
                false => Worth::Good,
            },
            last: self.single,
            ..Answer::GOOD
        });
        Ok(Read { bytes, answer })
    }

    fn is_changed(&self, came: &Came) -> bool {
        came.changed
    }

    fn ended(&mut self, _: &mut Came) -> Option<Answer> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{answers, split_anywhere};
    use super::*;

    #[test]
    fn an_answer_is_the_alphabet_however_it_is_cut() {
        let alphabet: Vec<u8> = (b'a'..=b'z').cycle().take(30).collect();
        let two = [&alphabet[..], &alphabet].concat();
        assert_eq!(split_anywhere(&mut Bytes::kept(30), &two), [Answer::GOOD; 2]);
        let [answer] = split_anywhere(&mut Bytes::new(30), &alphabet)[..] else {
            panic!("one answer");
        };
        assert!(answer.last);
        assert_eq!(
            answers(&mut Bytes::new(30), [&alphabet[..29]]).unwrap(),
            [],
            "not whole"
        );
    }

    #[test]
    fn other_bytes_are_changed_and_a_refusal_is_quoted() {
        let mut changed: Vec<u8> = (b'a'..=b'z').collect();
        changed[20] ^= 1;
        assert_eq!(
            split_anywhere(&mut Bytes::kept(26), &changed)[0].worth,
            Worth::Changed
        );
        let said = |pieces: &[&'static str]| {
            let pieces = pieces.iter().map(|piece| piece.as_bytes());
            answers(&mut Bytes::kept(26), pieces)
        };
        for pieces in [&["refused: no\n"][..], &["r", "efuse", "d"]] {
            assert!(
                matches!(said(pieces), Err(CodecError::Complaint(_))),
                "{pieces:?}"
            );
        }
        assert_eq!(said(&["refuse"]), Ok(vec![]), "what it is shows later");
        assert!(matches!(said(&["ref", "er"]), Err(CodecError::Foreign { .. })));
        let foreign = answers(&mut Bytes::kept(26), [&b"HTTP/1.1 400 Bad Request\r\n"[..]]);
        assert!(matches!(foreign.unwrap_err(), CodecError::Foreign { .. }));
    }

    #[test]
    fn an_answer_of_which_a_part_has_come_may_be_changed_already() {
        for (part, is_changed) in [(b"abc", false), (b"abd", true)] {
            let (mut bytes, mut came) = (Bytes::kept(26), Came::default());
            let read = bytes.read(0, 0, &mut came, part).unwrap();
            assert_eq!((read.bytes, read.answer), (3, None));
            assert_eq!((bytes.is_changed(&came), came.bytes), (is_changed, 3));
        }
    }

    #[test]
    fn what_it_asks_is_a_line() {
        let mut said = Vec::new();
        Bytes::new(4000).request(0, 0, &mut said);
        Bytes::kept(7).request(0, 1, &mut said);
        assert_eq!(said, b"4000\n7 keep\n");
    }

    #[test]
    fn answers_of_several_sizes_are_those_that_were_asked_for() {
        let mut bytes = Bytes::kept("5:1,20..30:1".parse::<Sizes>().unwrap());
        let mut asked = Vec::new();
        (0..9).for_each(|number| bytes.request(3, number, &mut asked));
        let asked = String::from_utf8(asked).unwrap();
        let sizes = asked.lines().map(|line| line.strip_suffix(" keep").unwrap());
        let sizes: Vec<usize> = sizes.map(|size| size.parse().unwrap()).collect();
        assert!(
            sizes.contains(&5) && sizes.iter().any(|size| (20..=30).contains(size)),
            "{sizes:?}"
        );
        let alphabet = |size: &usize| (b'a'..=b'z').cycle().take(*size).collect::<Vec<u8>>();
        let said: Vec<u8> = sizes.iter().flat_map(alphabet).collect();
        assert_eq!(split_anywhere(&mut bytes, &said), [Answer::GOOD; 9]);
    }
}
