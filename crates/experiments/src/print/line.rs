//! The line that every unit prints, and the check of what arrived.
//!
//! Owns the form of a line (`[17]hello linux`, as in the source), which `guests/c/print.c` prints, and the check that a
//! stream consists of whole lines. Knows nothing of descriptors, units or time.

/// The source's short text. Shorter payloads are its beginning.
const SHORT_TEXT: &[u8] = b"hello linux";

/// What the source's long text has sixteen times. Longer payloads repeat it.
const LONG_TEXT: &[u8] = b"1234567890abcdef";

/// What the parent prints after all units are done, as the source's does.
pub(super) const FINAL_WORD: &[u8] = b"Okay\n";

/// The longest payload: the line then fits into [`LONGEST`] bytes, and with that into one pipe write that the
/// kernel keeps whole.
pub(super) const LONGEST_PAYLOAD_BYTES: u64 = 480;

/// Bytes for payload, brackets, the longest counter and the newline.
const LONGEST: usize = LONGEST_PAYLOAD_BYTES as usize + 2 + DIGITS + 1;

/// Digits of the largest counter.
const DIGITS: usize = 20;

/// The bytes that one unit prints: every counter from 0 to `prints` - 1.
pub(crate) fn bytes_per_unit(payload_bytes: u64, prints: u64) -> u64 {
    // A digit each, one more from 10 on, another from 100 on, …
    let powers = std::iter::successors(Some(10_u64), |power| power.checked_mul(10));
    let longer = powers.take_while(|power| *power < prints);
    prints * (payload_bytes + 4) + longer.map(|power| prints - power).sum::<u64>()
}

/// A line's text.
pub(super) fn payload(bytes: usize) -> Vec<u8> {
    let text = if bytes <= SHORT_TEXT.len() {
        SHORT_TEXT
    } else {
        LONG_TEXT
    };
    text.iter().copied().cycle().take(bytes).collect()
}

/// What a stream held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// All bytes.
    pub bytes: u64,
    /// Whole lines, without the final word.
    pub lines: u64,
    /// Torn lines: anything else that ends in a newline, and a remainder without one.
    pub torn_lines: u64,
    /// The sum of the counters of the whole lines, which shows that each was printed.
    pub counters: u64,
    /// How often the final word came.
    pub final_words: u64,
    /// CPU time of the process that read it, ns; 0 where none did.
    pub cpu_ns: u64,
    /// When that process had read all, by `CLOCK_MONOTONIC`; 0 where none did.
    pub ended_ns: u64,
}

impl Received {
    /// Everything that ended in a newline.
    pub(super) const fn newlines(self) -> u64 {
        self.lines + self.torn_lines + self.final_words
    }
}

/// Checks a stream, piece by piece.
///
/// Its time is part of the cost of reading, as a terminal looks at every character. So checking a whole line is quick:
/// one comparison of its payload, and its digits.
pub(super) struct Checker {
    /// What follows the counter, with the end of the line.
    rest_of_line: Vec<u8>,
    prints: u64,
    newline: &'static [u8],
    carried: Vec<u8>,
    received: Received,
}

impl Checker {
    /// For lines of this payload with counters below `prints`, each ended by `newline`.
    pub(super) fn new(payload_bytes: usize, prints: u64, newline: &'static [u8]) -> Self {
        Self {
            rest_of_line: [&payload(payload_bytes), newline].concat(),
            prints,
            newline,
            carried: Vec::with_capacity(2 * LONGEST),
            received: Received::default(),
        }
    }

    /// Takes the next piece.
    pub(super) fn take(&mut self, piece: &[u8]) {
        self.received.bytes += piece.len() as u64;
        let mut rest = piece;
        while !rest.is_empty() {
            if self.carried.is_empty()
                && let Some((length, counter)) = self.whole(rest)
            {
                self.count(counter);
                rest = &rest[length..];
                continue;
            }
            let end = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let (line, later) = rest.split_at(end.unwrap_or(rest.len()));
            self.carried.extend_from_slice(line);
            rest = later;
            if end.is_some() {
                let line = std::mem::take(&mut self.carried);
                self.check(&line);
                self.carried = line;
                self.carried.clear();
            }
        }
    }

    /// What has come so far.
    pub(super) const fn so_far(&self) -> Received {
        self.received
    }

    /// The stream has ended.
    pub(super) fn finish(&mut self) -> Received {
        let rest = std::mem::take(&mut self.carried);
        self.received.torn_lines += u64::from(!rest.is_empty());
        self.received
    }

    /// A line that ends in a newline.
    fn check(&mut self, line: &[u8]) {
        match self.whole(line) {
            Some((length, counter)) if length == line.len() => self.count(counter),
            _ if self.is_final_word(line) => self.received.final_words += 1,
            _ => self.received.torn_lines += 1,
        }
    }

    fn count(&mut self, counter: u64) {
        self.received.lines += 1;
        self.received.counters += counter;
    }

    /// Length and counter of the whole line that `stream` begins with.
    fn whole(&self, stream: &[u8]) -> Option<(usize, u64)> {
        let rest = stream.strip_prefix(b"[")?;
        let digits = rest.iter().take(DIGITS).take_while(|b| b.is_ascii_digit());
        let (count, counter) = digits.fold((0, 0_u64), |(count, counter), digit| {
            let counter = counter.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            (count + 1, counter)
        });
        let rest = rest[count..].strip_prefix(b"]")?;
        let rest = rest.strip_prefix(&self.rest_of_line[..])?;
        (count > 0 && counter < self.prints).then(|| (stream.len() - rest.len(), counter))
    }

    fn is_final_word(&self, line: &[u8]) -> bool {
        line.strip_suffix(self.newline) == FINAL_WORD.strip_suffix(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line as the source has it.
    fn line(payload_bytes: usize, counter: u64) -> String {
        let text = String::from_utf8(payload(payload_bytes)).unwrap();
        format!("[{counter}]{text}\n")
    }

    #[test]
    fn the_texts_are_the_sources() {
        assert_eq!(line(11, 7), "[7]hello linux\n");
        assert_eq!(line(256, 12), format!("[12]{}\n", "1234567890abcdef".repeat(16)));
        assert_eq!(line(5, 0), "[0]hello\n");
    }

    #[test]
    fn the_bytes_foretold_are_the_bytes_printed() {
        for (payload, prints) in [
            (11, 0),
            (11, 1),
            (11, 10),
            (11, 11),
            (256, 100),
            (12, 1_000),
            (11, 10_001),
        ] {
            let printed: usize = (0..prints).map(|counter| line(payload, counter).len()).sum();
            assert_eq!(
                bytes_per_unit(payload as u64, prints),
                printed as u64,
                "{payload} × {prints}"
            );
        }
    }

    fn checked(stream: &[u8], pieces: usize, newline: &'static [u8]) -> Received {
        let mut checker = Checker::new(11, 100, newline);
        stream.chunks(pieces).for_each(|piece| checker.take(piece));
        checker.finish()
    }

    #[test]
    fn whole_lines_are_counted_and_their_counters_added() {
        let seen = checked(b"[0]hello linux\n[99]hello linux\nOkay\n", 64, b"\n");
        assert_eq!(
            seen,
            Received {
                bytes: 36,
                lines: 2,
                torn_lines: 0,
                counters: 99,
                final_words: 1,
                ..Received::default()
            }
        );
    }

    #[test]
    fn a_terminal_ends_lines_with_a_return() {
        let seen = checked(b"[3]hello linux\r\nOkay\r\n", 64, b"\r\n");
        assert_eq!((seen.lines, seen.final_words, seen.torn_lines), (1, 1, 0));
        assert_eq!(checked(b"[3]hello linux\n", 64, b"\r\n").torn_lines, 1);
    }

    #[test]
    fn everything_else_is_torn() {
        for torn in [
            &b"[1]hello li\n"[..],
            b"[1hello linux\n",
            b"[]hello linux\n",
            b"[100]hello linux\n",
            b"[1]hello linux[2]\n",
            b"[1]hello li[1]hello linux\n",
            b"[1]hello linux",
            b"\n",
        ] {
            let seen = checked(torn, 64, b"\n");
            assert_eq!((seen.lines, seen.torn_lines), (0, 1), "{}", torn.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_into_pieces_changes_nothing(
            parts in proptest::collection::vec((0_u64..120, 0_usize..16), 0..40),
            pieces in 1_usize..50,
        ) {
            // Lines with a part left out here and there.
            let stream: Vec<u8> = parts
                .iter()
                .flat_map(|(counter, cut)| line(11, *counter).as_bytes()[*cut % 15..].to_vec())
                .collect();
            prop_assert_eq!(checked(&stream, pieces, b"\n"), checked(&stream, stream.len().max(1), b"\n"));
            let whole = parts.iter().filter(|(counter, cut)| *counter < 100 && cut % 15 == 0).count();
            prop_assert_eq!(checked(&stream, pieces, b"\n").lines, whole as u64);
        }
    }
}
