//! The system calls that a server makes for each connection, message or delivery: the profile that explains a figure.
//!
//! Counted by `strace -c -f` in a run that is not timed, since being traced changes what it costs. A server's start is in
//! the count, so the run must be long beside it. Few turns of a loop do the same work in fewer calls, and tracing slows the
//! server against its clients: of calls that a turn makes once, there are fewer here than in a timed run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::figures::NOTHING;
use super::rounds::Cell;
use super::server::{Cpus, Server};
use crate::shell::{self, progress};
use crate::spread::figure;

/// After its server's end, for strace to write what it counted.
const PATIENCE: Duration = Duration::from_secs(20);
/// Below this many calls a unit of work, a call has no word.
const RARE: f64 = 0.02;
const TOTAL: &str = "total";

/// What the servers called that were traced.
#[derive(Debug)]
pub struct Profile<C> {
    calls: BTreeMap<C, Calls>,
    /// Of each that could not be traced, why.
    failures: Vec<String>,
}

impl<C: Cell> Profile<C> {
    /// Traces each of these once.
    pub fn measure(runs: impl IntoIterator<Item = C>, mut count: impl FnMut(C) -> Result<Calls>) -> Self {
        let mut profile = Self {
            calls: BTreeMap::new(),
            failures: Vec::new(),
        };
        for run in runs {
            progress(&format!("system calls: {run}"));
            match count(run) {
                Ok(calls) => {
                    profile.calls.insert(run, calls);
                }
                Err(error) => profile.failures.push(format!("- {error:#}: {run}\n")),
            }
        }
        progress("");
        profile
    }

    /// Of one that was traced.
    pub fn show(&self, run: C) -> String {
        self.calls
            .get(&run)
            .map_or_else(|| NOTHING.to_owned(), Calls::show)
    }

    /// A paragraph on what could not be traced, with the reasons; empty where all was.
    pub fn missing(&self) -> String {
        match self.failures.is_empty() {
            true => String::new(),
            false => format!("\nNot traced:\n\n{}", self.failures.concat()),
        }
    }
}

/// Calls for a unit of work, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls(BTreeMap<String, f64>);

impl Calls {
    /// Starts the server under strace, lets `drive` do `work` units of work with the one that listens on its port, and
    /// ends it.
    ///
    /// # Errors
    ///
    /// Where there is no strace, or any of this fails.
    pub fn count(
        server: &Command,
        cpus: &Cpus,
        work: u64,
        drive: impl FnOnce(u16) -> Result<()>,
    ) -> Result<Self> {
        let strace = shell::find("strace").context("strace is not installed")?;
        let folder = tempfile::tempdir()?;
        let counted = folder.path().join("calls");
        let mut traced = shell::command_at(&strace);
        // -D: the server is our child and strace is not, so that SIGTERM reaches the right one.
        traced.args(["-D", "-f", "-c", "-o"]).arg(&counted);
        traced.arg("--").arg(server.get_program()).args(server.get_args());
        let server = Server::start(traced, cpus)?;
        drive(server.port)?;
        server.end()?;
        Self::parse(&wait_for(&counted)?, work)
    }

    fn parse(table: &str, work: u64) -> Result<Self> {
        let mut calls = BTreeMap::new();
        for line in table.lines() {
            // % time, seconds, µs a call, calls, errors if there are any, name
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [share, _, _, count, .., name] = fields[..]
                && share.parse::<f64>().is_ok()
            {
                let count: u64 = count
                    .parse()
                    .with_context(|| format!("strace printed {line:?}"))?;
                calls.insert(name.to_owned(), count as f64 / work as f64);
            }
        }
        ensure!(calls.remove(TOTAL).is_some(), "strace printed {table:?}");
        Ok(Self(calls))
    }

    /// All of them together.
    pub fn total(&self) -> f64 {
        self.0.values().sum()
    }

    /// The total, then those that matter, most first.
    pub fn show(&self) -> String {
        let mut named: Vec<_> = self.0.iter().filter(|(_, calls)| **calls >= RARE).collect();
        named.sort_by(|a, b| b.1.total_cmp(a.1));
        let mut text = format!("**{}**:", figure(self.total()));
        for (name, calls) in named {
            let _ = write!(text, " {name} {},", figure(*calls));
        }
        text.pop();
        text
    }
}

/// The whole of the file: strace ends after the server does, and sends no event.
fn wait_for(counted: &Path) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let text = fs::read_to_string(counted).unwrap_or_default();
        if text.trim_end().ends_with(TOTAL) {
            return Ok(text);
        }
        sleep(Duration::from_millis(1));
    }
    bail!("strace wrote nothing within {PATIENCE:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           6       100         7 recvfrom
 39.00    0.000390           1       390           sendto
  1.00    0.000010          10         1           execve
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           2       491         7 total
";

    #[test]
    fn calls_are_counted_for_each_unit_of_work() {
        let calls = Calls::parse(TABLE, 100).unwrap();
        assert!((calls.total() - 4.91).abs() < 1e-9);
        assert_eq!(calls.show(), "**4.91**: sendto 3.90, recvfrom 1.00");
    }

    #[test]
    fn half_a_table_is_refused() {
        assert!(Calls::parse(&TABLE[..200], 100).is_err());
    }
}
