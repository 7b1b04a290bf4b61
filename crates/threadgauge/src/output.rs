//! How a command talks: results to standard output, all else to standard error, and how it ends.
//!
//! All of it goes through here, so that nothing that others wrote (a folder's name, a case of a store, what a server
//! answered) steers the terminal, or the build server that reads along.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;
use threadgauge_report::{Style, fitted};
use threadgauge_results::outside::{clean, harmless, harmless_json};
use threadgauge_results::published::cited;

/// How a command that did what it was asked for ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Exit code 0.
    Done,
    /// A check the user asked for failed: exit code 1.
    CheckFailed,
    /// This signal has ended it early; what it did until then is kept: exit code 128 and the signal's number.
    Interrupted(u8),
}

/// What every command returns; an error is exit code 2, with the reason.
pub type Done = anyhow::Result<Verdict>;

/// Writes results.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_as_it_is(&harmless(text))
}

/// Writes results as JSON.
pub fn print_json(results: &impl Serialize) -> anyhow::Result<()> {
    print_json_text(&serde_json::to_string_pretty(results)?)
}

/// Writes results that are JSON.
pub fn print_json_text(json: &str) -> anyhow::Result<()> {
    print_as_it_is(&harmless_json(json))
}

/// Writes what is all our own. Whoever read it and has had enough (`| head`) is no failure of ours.
pub fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(anyhow::anyhow!("standard output cannot be written: {e}")),
    }
}

/// Writes words for a person, with sources by their names: on a terminal fitted to its width, into a pipe as they are.
pub fn print_words(text: &str) -> anyhow::Result<()> {
    let text = cited(text);
    if io::stdout().is_terminal() {
        print(&fitted(&text, width()))
    } else {
        print(&text)
    }
}

/// What all that is said begins with, where this run is a side of two that share standard error.
static SIDE: OnceLock<String> = OnceLock::new();

/// Makes this run a side of two: all that it says from now on begins with that.
pub fn be_side(name: &str) {
    // A run is one side for all its life.
    let _ = SIDE.set(format!("{name}: "));
}

/// Says something to the person; nobody listening is no failure.
pub fn say(text: &str) {
    let side = SIDE.get().map_or("", String::as_str);
    let text = harmless(&format!("{side}{text}"));
    let lines = match io::stderr().is_terminal() {
        true => fitted(&text, room()),
        false => text + "\n",
    };
    // At once, since another process may write there, too.
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// `text` in one line of at most so many columns, cut between two words, or between two values of a case.
pub fn in_a_line(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    // With the sign that follows, so that a word that just fits stays.
    let begin: String = text.chars().take(width).collect();
    let end = begin.rfind([' ', ',']).unwrap_or(0);
    format!("{}…", &begin[..end])
}

/// The columns of standard error.
pub fn room() -> usize {
    columns(io::stderr())
}

/// A path in a line.
pub fn shown(path: &Path) -> String {
    clean(&path.display().to_string())
}

/// Says what was wrong, with its causes.
pub fn complain(error: &anyhow::Error) {
    say(&format!("threadgauge: {}", in_one_line(error)));
}

/// The error and its causes, but for those that it names itself.
pub fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line += ": ";
            line += &cause;
        }
    }
    // Some cite a file in lines of their own, with an end to each.
    line.truncate(line.trim_end().len());
    line
}

/// How wide and colourful standard output is.
pub fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    Style {
        width: if terminal { width() } else { 100 },
        colour: terminal && may_colour(),
    }
}

/// Whether a terminal may get colours: `NO_COLOR` forbids it, and a dumb one has none.
pub fn may_colour() -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !forbidden && !is_dumb()
}

/// Whether standard error can show a line that changes: where two runs share it, it cannot.
pub fn may_draw() -> bool {
    io::stderr().is_terminal() && !is_dumb() && SIDE.get().is_none()
}

/// Whether the terminal knows no sequences at all, as one inside an editor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

fn width() -> usize {
    columns(io::stdout())
}

fn columns(of: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(of);
    size.ok()
        .map(|s| usize::from(s.ws_col))
        .filter(|&w| w > 0)
        .unwrap_or(80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_ends_between_two_words() {
        let says = "about 9 s left · create · unit=thread,method=pthread";
        assert_eq!(in_a_line(says, 52), says);
        assert_eq!(in_a_line(says, 51), "about 9 s left · create · unit=thread…");
        assert_eq!(in_a_line(says, 24), "about 9 s left · create…");
        assert_eq!(in_a_line(says, 20), "about 9 s left ·…");
    }

    #[test]
    fn a_cause_is_said_once() {
        let cause = || io::Error::other("no room");
        let error = anyhow::Error::new(cause()).context("cannot write");
        assert_eq!(in_one_line(&error), "cannot write: no room");
        let error = anyhow::Error::new(cause()).context("writing: no room");
        assert_eq!(in_one_line(&error), "writing: no room");
        let error = anyhow::Error::new(io::Error::other("at line 2\n")).context("no settings");
        assert_eq!(in_one_line(&error), "no settings: at line 2");
    }
}
