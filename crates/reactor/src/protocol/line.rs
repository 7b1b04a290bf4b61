//! Messages that are lines.

use std::io::BufRead;

/// The first line of `input` without its end, which is `\n` or `\r\n`, and its length with it. `None` while it is not
/// whole.
pub fn first_line(input: &[u8]) -> Option<(&[u8], usize)> {
    let mut rest = input;
    // Searches several bytes at a time. Reading from memory cannot fail.
    let length = rest.skip_until(b'\n').ok()?;
    let line = input[..length].strip_suffix(b"\n")?;
    Some((line.strip_suffix(b"\r").unwrap_or(line), length))
}

/// A decimal number and nothing else: no sign, no more than 20 digits.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_either_way() {
        assert_eq!(first_line(b"one\ntwo\n"), Some((&b"one"[..], 4)));
        assert_eq!(first_line(b"one\r\n"), Some((&b"one"[..], 5)));
        assert_eq!(first_line(b"\n"), Some((&b""[..], 1)));
        assert_eq!(first_line(b"a\rb\n"), Some((&b"a\rb"[..], 4)));
        assert_eq!(first_line(b"one"), None);
        assert_eq!(first_line(b""), None);
    }

    #[test]
    fn numbers_are_digits() {
        assert_eq!(number(b"0016384"), Some(16_384));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "-1", "+1", "1 ", "0x1", "18446744073709551616"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
