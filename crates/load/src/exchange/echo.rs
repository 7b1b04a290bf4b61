//! Every byte comes back: the client of any echo server, such as the inetd service of port 7.

use super::{Answer, Exchange, Read, Worth};
use crate::codec::CodecError;
use crate::payload::Filling;
use crate::sizes::Sizes;

/// Sends messages of these sizes, each with other bytes, and wants them back unchanged.
#[derive(Debug)]
pub struct Echo {
    sizes: Sizes,
    filling: Filling,
}

/// How much of a message has come back, and whether it was the same.
#[derive(Debug, Default)]
pub struct Back {
    bytes: usize,
    changed: bool,
}

impl Echo {
    /// Messages of so many bytes.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub fn new(sizes: impl Into<Sizes>) -> Self {
        let sizes = sizes.into();
        assert!(sizes.least() > 0, "a message has at least one byte");
        Self {
            sizes,
            filling: Filling::new(sizes.most()),
        }
    }

    /// Request `number` of a connection.
    fn message(&self, connection: usize, number: u64) -> &[u8] {
        self.filling
            .of(connection, number, self.sizes.of(connection, number))
    }
}

impl Exchange for Echo {
    type Reading = Back;

    fn name(&self) -> &'static str {
        "echo"
    }

    fn is_single(&self) -> bool {
        false
    }

    fn request(&mut self, connection: usize, number: u64, into: &mut Vec<u8>) {
        into.extend_from_slice(self.message(connection, number));
    }

    fn read(
        &mut self,
        connection: usize,
        number: u64,
        back: &mut Back,
        input: &[u8],
    ) -> Result<Read, CodecError> {
        let expected = &self.message(connection, number)[back.bytes..];
        let bytes = input.len().min(expected.len());
        back.changed |= input[..bytes] != expected[..bytes];
        back.bytes += bytes;
        let answer = (bytes == expected.len()).then(|| Answer {
            worth: match std::mem::take(back).changed {
                true => Worth::Changed,
                false => Worth::Good,
            },
            ..Answer::GOOD
        });
        Ok(Read { bytes, answer })
    }

    fn is_changed(&self, back: &Back) -> bool {
        back.changed
    }

    fn ended(&mut self, _: &mut Back) -> Option<Answer> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{answers, split_anywhere};
    use super::*;

    #[test]
    fn what_comes_back_is_read_however_it_is_cut_and_one_changed_byte_is_found() {
        let mut echo = Echo::new(5);
        let mut said = Vec::new();
        (0..3).for_each(|number| echo.request(3, number, &mut said));
        assert_eq!(said.len(), 15);
        assert_eq!(split_anywhere(&mut echo, &said), [Answer::GOOD; 3]);
        said[7] ^= 1;
        let worth: Vec<Worth> = split_anywhere(&mut echo, &said).iter().map(|a| a.worth).collect();
        assert_eq!(worth, [Worth::Good, Worth::Changed, Worth::Good]);
        assert_eq!(answers(&mut echo, [&said[..4]]).unwrap(), [], "not whole");
    }

    #[test]
    fn messages_of_several_sizes_come_back() {
        let mut echo = Echo::new("1:1,40..50:1".parse::<Sizes>().unwrap());
        let mut said = Vec::new();
        (0..9).for_each(|number| echo.request(3, number, &mut said));
        assert!(said.len() > 9 + 40 && said.len() < 9 * 40, "both occur");
        assert_eq!(split_anywhere(&mut echo, &said), [Answer::GOOD; 9]);
    }
}
