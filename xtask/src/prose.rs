//! `cargo xtask prose`: is a line of prose too long to read, and is what is counted [said as one says it](counted)?
//!
//! Prose is a comment that has its lines to itself, in Rust, C and C++, and Markdown outside code. Rows of a table
//! cannot be broken, and the files in `runs` are written by programs: neither counts.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::{counted, shell};

/// What a line may have, in characters.
const MOST_CHARACTERS: usize = 120;
/// Where programs write the Markdown.
const WRITTEN_BY_PROGRAMS: &str = "runs/";

/// Fails naming every line that is too long, and what [`counted`] finds.
///
/// # Errors
///
/// If there is one, or a file cannot be read.
pub fn check() -> Result<()> {
    let files = shell::output(shell::command("git").args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut faults = Vec::new();
    for path in files
        .lines()
        .filter(|path| !path.starts_with(WRITTEN_BY_PROGRAMS))
    {
        if let Some(language) = Language::of(path) {
            let text = fs::read_to_string(path).with_context(|| path.to_owned())?;
            faults.extend(language.too_long(&text).map(|line| format!("{path}:{line}")));
        }
    }
    if !faults.is_empty() {
        bail!(
            "a line of prose has at most {MOST_CHARACTERS} characters; break these:\n  {}",
            faults.join("\n  ")
        );
    }
    eprintln!("no line of prose has more than {MOST_CHARACTERS} characters");
    counted::check()
}

/// What decides which lines are prose.
#[derive(Clone, Copy)]
enum Language {
    Markdown,
    /// Rust, C or C++.
    Code,
}

impl Language {
    fn of(path: &str) -> Option<Self> {
        match path.rsplit_once('.')?.1 {
            "md" => Some(Self::Markdown),
            "rs" | "c" | "h" | "cpp" => Some(Self::Code),
            _ => None,
        }
    }

    /// The numbers of the lines of prose that are too long.
    fn too_long(self, text: &str) -> impl Iterator<Item = usize> {
        let mut is_inside = false;
        text.lines().zip(1..).filter_map(move |(line, number)| {
            let words = match self {
                Self::Markdown => markdown(line, &mut is_inside),
                Self::Code => comment(line, &mut is_inside),
            };
            let is_prose = words.is_some_and(|words| !words.trim_start().starts_with('|'));
            (is_prose && line.chars().count() > MOST_CHARACTERS).then_some(number)
        })
    }
}

/// The line, unless it is code: between fences.
fn markdown<'a>(line: &'a str, is_in_code: &mut bool) -> Option<&'a str> {
    let is_fence = line.trim_start().starts_with("```");
    *is_in_code ^= is_fence;
    (!is_fence && !*is_in_code).then_some(line)
}

/// What follows the sign of a comment, where the line begins with one or lies within one.
fn comment<'a>(line: &'a str, is_in_block: &mut bool) -> Option<&'a str> {
    let line = line.trim_start();
    if *is_in_block || line.starts_with("/*") {
        *is_in_block = !line.contains("*/");
        return Some(line);
    }
    line.starts_with("//")
        .then(|| line.trim_start_matches(['/', '!']))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the long lines of a text in which `long` stands for a long word.
    fn too_long(path: &str, text: &str) -> Vec<usize> {
        let text = text.replace("long", &"o".repeat(MOST_CHARACTERS + 1));
        Language::of(path).unwrap().too_long(&text).collect()
    }

    #[test]
    fn a_comment_of_more_than_120_characters_is_too_long() {
        // Two bytes each.
        let of = |characters: usize| format!("// {}", "ä".repeat(characters - 3));
        assert!(too_long("a.rs", &of(120)).is_empty());
        assert_eq!(too_long("a.rs", &of(121)), [1]);
        for (text, expected) in [
            ("// long\n// short\n    /// long\n//! long\n", vec![1, 3, 4]),
            ("/* short\n * long\n   long */\nlong();\n", vec![2, 3]),
            ("/* long */\nlong();\n", vec![1]),
            ("long();\nlet a = \"long\";\n", vec![]),
            ("/// | long | a row |\n", vec![]),
        ] {
            for path in ["a.rs", "b/a.c", "a.h", "a.cpp"] {
                assert_eq!(too_long(path, text), expected, "{path}: {text:?}");
            }
        }
    }

    #[test]
    fn so_is_markdown_outside_code_and_tables() {
        let text = "short\nlong\n```sh\nlong\n```\n- long\n| long |\n  ```text\nlong\n  ```\n# long\n";
        assert_eq!(too_long("a.md", text), [2, 6, 11]);
    }

    #[test]
    fn nothing_else_is_prose() {
        for path in ["a.svg", "Cargo.lock", "docs/rs", "LICENCE"] {
            assert!(Language::of(path).is_none(), "{path}");
        }
    }
}
