//! How a command talks: results to standard output, all else to standard error, and how it ends.

use std::io::{self, IsTerminal, Write};

use threadgauge_report::Style;

/// How a command that did what it was asked for ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Exit code 0.
    Done,
    /// A check the user asked for failed: exit code 1.
    CheckFailed,
}

/// Why a command could not do it.
#[derive(Debug)]
pub enum Failure {
    /// Whoever read our output has had enough (`| head`): no failure of ours.
    ReaderLeft,
    /// Exit code 2, with the reason.
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// What every command returns.
pub type Done = Result<Verdict, Failure>;

/// Writes results.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(Failure::ReaderLeft),
        Err(e) => Err(Failure::Other(anyhow::anyhow!(
            "standard output cannot be written: {e}"
        ))),
    }
}

/// Says something to the person; nobody listening is no failure.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Says what was wrong, with its causes.
pub fn complain(error: &anyhow::Error) {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    say(&format!("threadgauge: {}", causes.join(": ")));
}

/// How wide and colourful standard output is.
pub fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    Style {
        width: if terminal { width() } else { 100 },
        colour: terminal && !no_colour,
    }
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.ok()
        .map(|s| usize::from(s.ws_col))
        .filter(|&w| w > 0)
        .unwrap_or(80)
}
