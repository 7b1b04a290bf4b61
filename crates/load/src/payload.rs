//! What a message carries: who sends it, its number, and bytes that differ from message to message.
//!
//! Printable, so that a message can be read where it went wrong and can travel in protocols of lines.

/// The sender's and the number's digits, and so the smallest message.
pub const LEAST_PAYLOAD_BYTES: usize = SENDER_DIGITS + NUMBER_DIGITS;
/// The largest message, in bytes.
pub const MOST_PAYLOAD_BYTES: usize = 64 * 1024;

const SENDER_DIGITS: usize = 6;
const NUMBER_DIGITS: usize = 10;
/// Where a message's bytes begin in [`Filling`] depends on sender and number, by so many places.
const PLACES: usize = 251;

/// Writes and compares messages of one size.
#[derive(Debug)]
pub(crate) struct Payloads {
    bytes: usize,
    filling: Filling,
}

/// Printable bytes that differ from message to message.
#[derive(Debug)]
pub(crate) struct Filling {
    bytes: usize,
    /// Longer than what a message gets of it by [`PLACES`].
    all: Vec<u8>,
}

impl Filling {
    /// So many for each message.
    pub(crate) fn new(bytes: usize) -> Self {
        let mut dice = fastrand::Rng::with_seed(1);
        let all = (0..bytes + PLACES).map(|_| dice.u8(b' '..=b'~')).collect();
        Self { bytes, all }
    }

    /// Those of a sender's message.
    pub(crate) fn of(&self, sender: usize, number: u64) -> &[u8] {
        let place = (sender.wrapping_mul(31).wrapping_add(number as usize)) % PLACES;
        &self.all[place..place + self.bytes]
    }
}

impl Payloads {
    /// # Panics
    ///
    /// If the size is not from [`LEAST_PAYLOAD_BYTES`] to [`MOST_PAYLOAD_BYTES`].
    pub(crate) fn of(bytes: usize) -> Self {
        assert!(
            (LEAST_PAYLOAD_BYTES..=MOST_PAYLOAD_BYTES).contains(&bytes),
            "a message has {LEAST_PAYLOAD_BYTES} to {MOST_PAYLOAD_BYTES} bytes"
        );
        Self {
            bytes,
            filling: Filling::new(bytes - LEAST_PAYLOAD_BYTES),
        }
    }

    pub(crate) fn write(&self, sender: usize, number: u64, into: &mut Vec<u8>) {
        into.clear();
        into.resize(LEAST_PAYLOAD_BYTES, b'0');
        write_hex(&mut into[..SENDER_DIGITS], sender as u64);
        write_hex(&mut into[SENDER_DIGITS..], number);
        into.extend_from_slice(self.filling.of(sender, number));
    }

    /// The sender and the number, where these are digits and the size is right.
    pub(crate) fn read(&self, payload: &[u8]) -> Option<(usize, u64)> {
        if payload.len() != self.bytes {
            return None;
        }
        let (sender, rest) = payload.split_at(SENDER_DIGITS);
        Some((
            read_hex(sender)?.try_into().ok()?,
            read_hex(&rest[..NUMBER_DIGITS])?,
        ))
    }

    /// Whether all that follows the digits is what was sent.
    pub(crate) fn is_whole(&self, payload: &[u8], sender: usize, number: u64) -> bool {
        &payload[LEAST_PAYLOAD_BYTES..] == self.filling.of(sender, number)
    }
}

fn write_hex(into: &mut [u8], mut value: u64) {
    for digit in into.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

fn read_hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
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
            let payloads = Payloads::of(bytes);
            let payload = written(&payloads, 9_999, 123_456_789);
            assert_eq!(payload.len(), bytes);
            assert_eq!(payloads.read(&payload), Some((9_999, 123_456_789)));
            assert!(payloads.is_whole(&payload, 9_999, 123_456_789));
            assert!(payload.iter().all(|byte| (b' '..=b'~').contains(byte)));
        }
    }

    #[test]
    fn every_changed_byte_shows() {
        let payloads = Payloads::of(64);
        let payload = written(&payloads, 3, 7);
        for i in 0..payload.len() {
            let mut changed = payload.clone();
            changed[i] ^= 1;
            let as_sent = payloads.read(&changed) == Some((3, 7)) && payloads.is_whole(&changed, 3, 7);
            assert!(!as_sent, "byte {i}");
        }
    }

    #[test]
    fn another_size_or_no_digits_is_no_message() {
        let payloads = Payloads::of(16);
        assert_eq!(payloads.read(b"00000100000000020"), None);
        assert_eq!(payloads.read(b"00000100000000g2"), None);
        assert_eq!(payloads.read(b""), None);
    }

    #[test]
    fn neighbours_are_filled_differently() {
        let payloads = Payloads::of(128);
        assert_ne!(payloads.filling.of(1, 1), payloads.filling.of(1, 2));
        assert_ne!(payloads.filling.of(1, 1), payloads.filling.of(2, 1));
    }
}
