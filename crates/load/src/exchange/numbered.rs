//! Numbered requests, whose answers may come in any order: `threadgauge serve numbered`.

use std::io::Write as _;

use super::{Answer, Exchange, Read, Worth};
use crate::codec::CodecError;
use crate::payload::Filling;

const NAME: &str = "numbered";
/// How a server that does not like a request begins its answer.
const REFUSED: &[u8] = b"refused";
/// Longer lines are not of the protocol.
const MOST_LINE_BYTES: usize = 16 * 1024;

/// Asks with lines `NUMBER MS TEXT`, and wants `NUMBER TEXT` back: after a step that blocks for so many milliseconds,
/// in one request of several.
#[derive(Debug)]
pub struct Numbered {
    step_ms: u64,
    every: u64,
    text_bytes: usize,
    filling: Filling,
}

impl Numbered {
    /// Requests with so many bytes of text, of which the first of each `every` blocks for `step_ms`, and the others not
    /// at all.
    ///
    /// # Panics
    ///
    /// If `every` is 0.
    pub fn new(text_bytes: usize, step_ms: u64, every: u64) -> Self {
        assert!(every > 0, "every request blocks, or one of several");
        Self {
            step_ms,
            every,
            text_bytes,
            filling: Filling::new(text_bytes),
        }
    }
}

impl Exchange for Numbered {
    type Reading = ();

    fn name(&self) -> &'static str {
        NAME
    }

    fn is_single(&self) -> bool {
        false
    }

    fn request(&mut self, connection: usize, number: u64, into: &mut Vec<u8>) {
        let step_ms = match number.is_multiple_of(self.every) {
            true => self.step_ms,
            false => 0,
        };
        // Writing into memory cannot fail.
        let _ = write!(into, "{number} {step_ms} ");
        into.extend_from_slice(self.filling.of(connection, number, self.text_bytes));
        into.push(b'\n');
    }

    fn read(&mut self, connection: usize, _: u64, _: &mut (), input: &[u8]) -> Result<Read, CodecError> {
        let Some(end) = memchr::memchr(b'\n', input) else {
            return match input.len() > MOST_LINE_BYTES {
                true => Err(CodecError::foreign(NAME, input)),
                false => Ok(Read::default()),
            };
        };
        let line = &input[..end];
        if line.starts_with(REFUSED) {
            return Err(CodecError::complaint(line));
        }
        let space = memchr::memchr(b' ', line).unwrap_or(line.len());
        let digits = std::str::from_utf8(&line[..space]).ok();
        let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
        let Some(number) = number else {
            return Err(CodecError::foreign(NAME, input));
        };
        let is_same = line.get(space + 1..) == Some(self.filling.of(connection, number, self.text_bytes));
        let answer = Answer {
            worth: if is_same { Worth::Good } else { Worth::Changed },
            number: Some(number),
            ..Answer::GOOD
        };
        Ok(Read {
            bytes: end + 1,
            answer: Some(answer),
        })
    }

    fn ended(&mut self, (): &mut ()) -> Option<Answer> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{answers, split_anywhere};
    use super::*;

    /// What a server that does its steps at once says to connection 3.
    fn answered(numbers: &[u64], numbered: &mut Numbered) -> Vec<u8> {
        let mut said = Vec::new();
        for &number in numbers {
            let mut request = Vec::new();
            numbered.request(3, number, &mut request);
            let text = String::from_utf8(request).unwrap();
            let (number, rest) = text.split_once(' ').unwrap();
            let (_, text) = rest.split_once(' ').unwrap();
            said.extend_from_slice(format!("{number} {text}").as_bytes());
        }
        said
    }

    #[test]
    fn answers_are_read_in_any_order_and_however_they_are_cut() {
        let mut numbered = Numbered::new(20, 1, 8);
        let mut said = answered(&[2, 0, 1], &mut numbered);
        let read = split_anywhere(&mut numbered, &said);
        let good = |number| Answer {
            number: Some(number),
            ..Answer::GOOD
        };
        assert_eq!(read, [2, 0, 1].map(good));
        said[10] ^= 1;
        assert_eq!(split_anywhere(&mut numbered, &said)[0].worth, Worth::Changed);
    }

    #[test]
    fn one_request_of_several_blocks() {
        let mut numbered = Numbered::new(0, 5, 3);
        let mut said = Vec::new();
        (0..5).for_each(|number| numbered.request(0, number, &mut said));
        assert_eq!(said, b"0 5 \n1 0 \n2 0 \n3 5 \n4 0 \n");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let mut numbered = Numbered::new(4, 1, 1);
        let mut error = |said: &[u8]| answers(&mut numbered, [said]).unwrap_err();
        assert!(matches!(error(b"refused: no\n"), CodecError::Complaint(_)));
        assert!(matches!(error(b"HTTP/1.1 400\r\n"), CodecError::Foreign { .. }));
        assert!(matches!(
            error(&[b'1'; MOST_LINE_BYTES + 1]),
            CodecError::Foreign { .. }
        ));
    }
}
