//! What others wrote, made fit to be shown.
//!
//! A folder of results is something that people send each other, and what a run stores may be what a program under test
//! printed. No word of it may steer what shows it: a terminal by escape sequences, a reader by turning the direction of
//! a line, a build server by a line that it takes for a command.

use std::borrow::Cow;

/// Whether a character does something in place of being shown.
#[must_use]
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Words of others for a line of ours: all that is white becomes a space, and what steers is left out.
///
/// ```
/// assert_eq!(threadgauge_results::outside::clean("\u{1b}[2Jgone\r\nnext\u{7}"), "[2Jgone  next");
/// ```
#[must_use]
pub fn clean(text: &str) -> String {
    let kept = text.chars().map(|c| {
        if c.is_whitespace() && c != '\u{202f}' {
            ' '
        } else {
            c
        }
    });
    kept.filter(|c| !steers(*c)).collect()
}

/// Lines that are printed, whatever is in them: what steers is left out but the line ends and our own colours, and
/// what a build server would take for a command has its first signs encoded as that server encodes them.
///
/// ```
/// use threadgauge_results::outside::harmless;
/// assert_eq!(harmless("a \u{1b}[1mcase\u{1b}[0m\n  |---|\n"), "a \u{1b}[1mcase\u{1b}[0m\n  |---|\n");
/// assert_eq!(harmless("\u{1b}]0;title\u{7}x\n::error::y"), "]0;titlex\n%3A%3Aerror::y");
/// ```
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let line = shown(line);
        // Where a command begins: GitHub's at the first sign of a line, its older ones and others' anywhere.
        let white = line.len() - line.trim_start().len();
        let (before, line) = line.split_at(white);
        out.push_str(before);
        let line = match line.strip_prefix("::") {
            Some(rest) => Cow::Owned(format!("%3A%3A{rest}")),
            None => Cow::Borrowed(line),
        };
        out.push_str(&without_commands(line, "%5B"));
    }
    out
}

/// With this in the place of the bracket that begins a command.
fn without_commands<'t>(text: Cow<'t, str>, bracket: &str) -> Cow<'t, str> {
    ["##", "##vso", "##teamcity"].iter().fold(text, |text, begin| {
        let command = format!("{begin}[");
        if text.contains(&command) {
            Cow::Owned(text.replace(&command, &format!("{begin}{bracket}")))
        } else {
            text
        }
    })
}

/// A line without what steers, but with our own colours and its end.
fn shown(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let colour = if c == '\u{1b}' { colour(rest) } else { None };
        match colour {
            Some(colour) => {
                out.push_str(colour);
                rest = &rest[colour.len()..];
            }
            None => {
                if !steers(c) || c == '\n' || c == '\t' {
                    out.push(c);
                }
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

/// The colour that begins there: one or two digits, as we write it.
fn colour(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("\u{1b}[")?.split_once('m')?.0;
    let is_one = matches!(digits.len(), 1 | 2) && digits.bytes().all(|b| b.is_ascii_digit());
    is_one.then(|| &text[..digits.len() + 3])
}

/// JSON that is printed: in it the same signs are encoded, so that its meaning stays.
#[must_use]
pub fn harmless_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Outside of strings JSON has no such sign but white.
        if steers(c) && !matches!(c, '\n' | '\t' | '\r') {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    without_commands(Cow::Owned(out), "\\u005b").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_build_server_would_obey_is_encoded() {
        for (line, shown) in [
            ("::error file=a::b", "%3A%3Aerror file=a::b"),
            (" \t::warning::b", " \t%3A%3Awarning::b"),
            ("a::b", "a::b"),
            ("\u{1b}::error::", "%3A%3Aerror::"),
            ("\u{202e}::error::", "%3A%3Aerror::"),
            (
                "x ##[error]y ##vso[task] ##teamcity[z",
                "x ##%5Berror]y ##vso%5Btask] ##teamcity%5Bz",
            ),
            ("## a head", "## a head"),
        ] {
            assert_eq!(harmless(line), shown);
            assert_eq!(harmless(&format!("one\n{line}\n")), format!("one\n{shown}\n"));
        }
    }

    #[test]
    fn colours_of_ours_stay_and_no_other_sequence() {
        let ours = "\u{1b}[31mbad\u{1b}[0m";
        assert_eq!(harmless(ours), ours);
        // What follows one is no part of it.
        assert_eq!(harmless("\u{1b}[31m\u{7}bad\u{1b}[0m\u{7}"), ours);
        for theirs in [
            "\u{1b}[2J",
            "\u{1b}[1;31m",
            "\u{1b}[?25l",
            "\u{1b}[m",
            "\u{9b}31m",
            "\u{1b}]8;;x\u{7}",
        ] {
            assert!(
                !harmless(theirs).contains(['\u{1b}', '\u{9b}', '\u{7}']),
                "{theirs:?}"
            );
        }
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"a": "\u{7f}\u{9b}31m\u{202e}x\n##[error]", "b": [1, "é"]});
        let text = harmless_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.contains(|c: char| steers(c) && c != '\n'), "{text:?}");
        assert!(!text.contains("##["), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    proptest! {
        #[test]
        fn whatever_others_write_steers_nothing(text in any::<String>()) {
            let one = clean(&text);
            prop_assert!(!one.contains(steers), "{one:?}");
            let lines = harmless(&text);
            // A colour, which steers nothing, may be made of what was left out.
            let plain = lines.replace('\u{1b}', "");
            prop_assert!(!plain.contains(|c| steers(c) && c != '\n' && c != '\t'), "{lines:?}");
            prop_assert!(lines.lines().all(|line| !line.trim_start().starts_with("::")), "{lines:?}");
        }
    }
}
