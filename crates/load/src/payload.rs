//! What a message carries: who sends it, its number, a check of both, and bytes that differ from message to message.
//! How many there are depends on sender and number, too.
//!
//! Printable, so that a message can be read where it went wrong and can travel in protocols of lines.

use crate::sizes::Sizes;

/// Sender, number and check, and so the smallest message.
pub const LEAST_PAYLOAD_BYTES: usize = SENDER_DIGITS + NUMBER_DIGITS + CHECK_DIGITS;
/// The largest message, in bytes.
pub const MOST_PAYLOAD_BYTES: usize = 64 * 1024;

/// Six bits each.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";
const SENDER_DIGITS: usize = 4;
const NUMBER_DIGITS: usize = 7;
/// Without it a changed digit would pass for another message.
const CHECK_DIGITS: usize = 5;
/// Where a message's bytes begin in [`Filling`] depends on sender and number, by so many places.
const PLACES: usize = 251;

/// Writes and compares messages of these sizes.
#[derive(Debug)]
pub(crate) struct Payloads {
    sizes: Sizes,
    filling: Filling,
}

/// Printable bytes that differ from message to message.
#[derive(Debug)]
pub(crate) struct Filling {
    /// Longer than what a message gets of it by [`PLACES`].
    all: Vec<u8>,
}

impl Filling {
    /// At most so many for each message.
    pub(crate) fn new(most: usize) -> Self {
        let mut dice = fastrand::Rng::with_seed(1);
        let all = (0..most + PLACES).map(|_| dice.u8(b' '..=b'~')).collect();
        Self { all }
    }

    /// So many for a sender's message.
    pub(crate) fn of(&self, sender: usize, number: u64, bytes: usize) -> &[u8] {
        let place = (sender.wrapping_mul(31).wrapping_add(number as usize)) % PLACES;
        &self.all[place..place + bytes]
    }
}

/// Length and digits of a message that was written: what came is compared with them, and not read.
#[derive(Debug)]
pub(crate) struct Written {
    /// Of sender, number and check.
    digits: [u8; LEAST_PAYLOAD_BYTES],
    /// All of it.
    bytes: u32,
}

impl Written {
    /// Whether this has its length and its digits, so that the rest is to be [asked](Payloads::is_whole).
    pub(crate) fn begins(&self, payload: &[u8]) -> bool {
        payload.len() == self.bytes as usize && payload.starts_with(&self.digits)
    }
}

impl Payloads {
    /// # Panics
    ///
    /// If a size is not from [`LEAST_PAYLOAD_BYTES`] to [`MOST_PAYLOAD_BYTES`].
    pub(crate) fn of(sizes: Sizes) -> Self {
        assert!(
            sizes.least() >= LEAST_PAYLOAD_BYTES && sizes.most() <= MOST_PAYLOAD_BYTES,
            "a message has {LEAST_PAYLOAD_BYTES} to {MOST_PAYLOAD_BYTES} bytes"
        );
        Self {
            sizes,
            filling: Filling::new(sizes.most()),
        }
    }

    /// Writes it over what `into` holds.
    pub(crate) fn write(&self, sender: usize, number: u64, into: &mut Vec<u8>) -> Written {
        let mut digits = [b'0'; LEAST_PAYLOAD_BYTES];
        let (of_sender, rest) = digits.split_at_mut(SENDER_DIGITS);
        let (of_number, of_check) = rest.split_at_mut(NUMBER_DIGITS);
        write_digits(of_sender, sender as u64);
        write_digits(of_number, number);
        write_digits(of_check, check(sender as u64, number));
        let bytes = self.sizes.of(sender, number);
        into.clear();
        into.extend_from_slice(&digits);
        into.extend_from_slice(self.filling.of(sender, number, bytes - LEAST_PAYLOAD_BYTES));
        Written {
            digits,
            bytes: bytes as u32,
        }
    }

    /// Who sent this, where it begins as a message does.
    pub(crate) fn sender(payload: &[u8]) -> Option<usize> {
        read_digits(payload.get(..SENDER_DIGITS)?).map(|sender| sender as usize)
    }

    /// The sender and the number, where the check and the size are theirs.
    pub(crate) fn read(&self, payload: &[u8]) -> Option<(usize, u64)> {
        if payload.len() < LEAST_PAYLOAD_BYTES {
            return None;
        }
        let (of_sender, rest) = payload.split_at(SENDER_DIGITS);
        let (of_number, rest) = rest.split_at(NUMBER_DIGITS);
        let (sender, number) = (read_digits(of_sender)?, read_digits(of_number)?);
        let is_theirs = read_digits(&rest[..CHECK_DIGITS])? == check(sender, number)
            && payload.len() == self.sizes.of(sender as usize, number);
        is_theirs.then_some((sender as usize, number))
    }

    /// Whether all that follows the digits of a message that was [read](Self::read) is what was sent.
    pub(crate) fn is_whole(&self, payload: &[u8], sender: usize, number: u64) -> bool {
        let rest = &payload[LEAST_PAYLOAD_BYTES..];
        rest == self.filling.of(sender, number, rest.len())
    }
}

/// Thirty bits that a change of one digit changes.
fn check(sender: u64, number: u64) -> u64 {
    (number ^ sender.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 6 * CHECK_DIGITS)
}

/// By byte: what it is worth as a digit, 64 and more where it is none.
const WORTH: [u8; 256] = {
    let mut worth = [u8::MAX; 256];
    let mut digit = 0;
    while digit < DIGITS.len() {
        worth[DIGITS[digit] as usize] = digit as u8;
        digit += 1;
    }
    worth
};

fn write_digits(into: &mut [u8], mut value: u64) {
    for digit in into.iter_mut().rev() {
        *digit = DIGITS[(value & 63) as usize];
        value >>= 6;
    }
}

fn read_digits(digits: &[u8]) -> Option<u64> {
    // Whether all are digits is asked once: a loop without a way out is unrolled.
    let (mut value, mut worths) = (0, 0);
    for &digit in digits {
        let worth = WORTH[usize::from(digit)];
        worths |= worth;
        value = value << 6 | u64::from(worth & 63);
    }
    (worths < 64).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(payloads: &Payloads, sender: usize, number: u64) -> Vec<u8> {
        let mut into = b"what was there".to_vec();
        payloads.write(sender, number, &mut into);
        into
    }

    #[test]
    fn what_is_written_is_read() {
        for bytes in [16, 17, 128, 1024] {
            let payloads = Payloads::of(bytes.into());
            let payload = written(&payloads, 9_999, 123_456_789);
            assert_eq!(payload.len(), bytes);
            assert_eq!(payloads.read(&payload), Some((9_999, 123_456_789)));
            assert!(payloads.is_whole(&payload, 9_999, 123_456_789));
            assert!(payload.iter().all(|byte| (b' '..=b'~').contains(byte)));
        }
    }

    #[test]
    fn messages_of_many_sizes_are_read_and_one_that_was_cut_or_has_grown_is_not() {
        let payloads = Payloads::of("16..80".parse().unwrap());
        let mut lengths = std::collections::BTreeSet::new();
        for number in 1..500 {
            let payload = written(&payloads, 3, number);
            lengths.insert(payload.len());
            assert_eq!(payloads.read(&payload), Some((3, number)));
            assert!(payloads.is_whole(&payload, 3, number));
            assert_eq!(payloads.read(&payload[..payload.len() - 1]), None);
            assert_eq!(payloads.read(&[&payload[..], b" "].concat()), None);
        }
        assert!(
            lengths.first() == Some(&16) && lengths.last() == Some(&80),
            "{lengths:?}"
        );
    }

    #[test]
    fn every_changed_byte_shows() {
        let payloads = Payloads::of(64.into());
        let mut payload = Vec::new();
        let as_written = payloads.write(3, 7, &mut payload);
        assert!(as_written.begins(&payload) && !as_written.begins(&payload[..63]));
        for i in 0..payload.len() {
            for bit in 0..8 {
                let mut changed = payload.clone();
                changed[i] ^= 1 << bit;
                assert_eq!(as_written.begins(&changed), i >= LEAST_PAYLOAD_BYTES, "byte {i}");
                let read = payloads.read(&changed);
                assert!(read.is_none_or(|read| read == (3, 7)), "byte {i} makes another's");
                assert!(
                    read.is_none() || !payloads.is_whole(&changed, 3, 7),
                    "byte {i}, bit {bit}"
                );
            }
        }
    }

    #[test]
    fn another_size_or_no_digits_is_no_message() {
        let payloads = Payloads::of(16.into());
        let payload = written(&payloads, 1, 2);
        assert_eq!(payloads.read(&[&payload[..], b"0"].concat()), None);
        assert_eq!(payloads.read(&payload[1..]), None);
        assert_eq!(payloads.read(b"0001000000200 00"), None);
        assert_eq!(payloads.read(b""), None);
    }

    #[test]
    fn neighbours_are_filled_differently() {
        let payloads = Payloads::of(128.into());
        assert_ne!(payloads.filling.of(1, 1, 100), payloads.filling.of(1, 2, 100));
        assert_ne!(payloads.filling.of(1, 1, 100), payloads.filling.of(2, 1, 100));
    }
}
