//! Lines for a terminal: wrapping, colour, and nothing that could steer it.
//!
//! Texts of a run can hold what a program under test printed: they are [cleaned](clean).

use threadgauge_results::outside;
use threadgauge_results::published::cited;

/// Words of a run for a reader: nothing that steers the terminal, and sources by their names.
pub(crate) fn clean(text: &str) -> String {
    cited(&outside::clean(text)).into_owned()
}

/// How wide the terminal is and whether it shows colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns; meant for 40 and more.
    pub width: usize,
    /// Whether to write ANSI sequences.
    pub colour: bool,
}

impl Default for Style {
    /// 80 columns without colour: what a pipe gets.
    fn default() -> Self {
        Self {
            width: 80,
            colour: false,
        }
    }
}

/// A colour, used beside a word or sign, never in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Bold,
    Faint,
    Good,
    Bad,
    Doubt,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Doubt => "33",
        }
    }
}

/// `text` in a colour, where there is any.
pub(crate) fn paint(style: &Style, ink: Ink, text: &str) -> String {
    if style.colour && !text.is_empty() {
        format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code())
    } else {
        text.to_owned()
    }
}

/// A paragraph with these codes.
pub(crate) fn painted(style: &Style, ink: Ink, text: &str, first: &str) -> String {
    let text = paragraph(text, style.width, first);
    format!("{}\n", paint(style, ink, text.trim_end()))
}

/// `text` in lines of at most `width`, the first after `first`, the others after as many spaces.
/// Words longer than a line are broken.
pub(crate) fn wrap(text: &str, width: usize, first: &str) -> Vec<String> {
    let indent = first.chars().count();
    let room = width.saturating_sub(indent).max(10);
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for word in clean(text).split(' ').filter(|w| !w.is_empty()) {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        while word.len() > room {
            // Ids break where their parts join.
            let joint = word[..room]
                .iter()
                .rposition(|c| ",/-_".contains(*c))
                .filter(|at| *at > room / 2);
            let rest = word.split_off(joint.map_or(room, |at| at + 1));
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        used += word.len();
        line.extend(word);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    let starts = std::iter::once(first.to_owned()).chain(std::iter::repeat(" ".repeat(indent)));
    starts
        .zip(lines)
        .map(|(start, line)| format!("{start}{line}").trim_end().to_owned())
        .collect()
}

/// The same, as one text with line ends.
pub(crate) fn paragraph(text: &str, width: usize, first: &str) -> String {
    let mut out = wrap(text, width, first).join("\n");
    out.push('\n');
    out
}

/// `text` with every line that is wider than `width` in several, each as far in as it began, or as the last column of a
/// table's row.
#[must_use]
pub fn fitted(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.chars().count() <= width {
            out.push_str(line);
            out.push('\n');
        } else {
            let begin = line.len() - line.trim_start_matches(' ').len();
            let gap = line[begin..].find("  ").map(|gap| begin + gap);
            let column = gap.map(|gap| line.len() - line[gap..].trim_start_matches(' ').len());
            let first = &line[..column.filter(|column| *column <= width / 2).unwrap_or(begin)];
            out.push_str(&paragraph(&line[first.len()..], width, first));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wide_lines_are_fitted_and_others_stay() {
        let text = "head:  a table\n\n    far in and long enough to be too wide\n";
        assert_eq!(
            fitted(text, 24),
            "head:  a table\n\n    far in and long\n    enough to be too\n    wide\n"
        );
        assert_eq!(
            fitted("row   in a column of its own\n", 24),
            "row   in a column of its\n      own\n"
        );
        assert_eq!(
            fitted("a row of this table   too long\n", 24),
            "a row of this table too\nlong\n"
        );
    }

    #[test]
    fn a_long_word_breaks_where_its_parts_join_in_its_second_half() {
        assert_eq!(wrap("abcde-ghijklmn", 10, ""), ["abcde-ghij", "klmn"]);
        assert_eq!(wrap("abcdef-hijklmn", 10, ""), ["abcdef-", "hijklmn"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(text in "[a-zé ]{0,200}", width in 14usize..120) {
            for line in wrap(&text, width, "  * ") {
                prop_assert!(line.chars().count() <= width, "{line:?}");
            }
        }

        #[test]
        fn wrapping_keeps_every_character(text in "[a-z ]{0,200}", width in 14usize..60) {
            let kept: String = wrap(&text, width, "").concat().replace(' ', "");
            prop_assert_eq!(kept, text.replace(' ', ""));
        }
    }
}
