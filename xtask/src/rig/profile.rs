//! The system calls that a server makes for each connection, message or delivery: the profile that explains a figure.
//!
//! Counted by `strace -c -f` in runs that are not timed, since being traced changes what it costs: one with little work
//! and one with more, so that what a server's start, connections and end take falls out of the difference. Tracing
//! slows the server down against its clients, and a turn of its loop finds more to do: of calls that a turn makes once,
//! there are fewer here than in a timed run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::figures::NOTHING;
use super::figures::number;
use super::rounds::Cell;
use crate::shell::{self, progress};
use threadgauge_lab::server::{Cpus, Server};

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

/// What one run did.
#[derive(Debug)]
struct Trace {
    /// Units of it.
    work: u64,
    /// By name.
    calls: BTreeMap<String, u64>,
}

impl Calls {
    /// Runs the server under strace twice, and lets `drive` do these amounts of work with the one that listens on its
    /// port: `drive` answers how much it did.
    ///
    /// # Errors
    ///
    /// Where there is no strace, or any of this fails.
    pub fn count(
        server: &Command,
        cpus: &Cpus,
        [little, much]: [u64; 2],
        drive: impl Fn(u16, u64) -> Result<u64>,
    ) -> Result<Self> {
        let little = Trace::of(server, cpus, |port| drive(port, little))?;
        let much = Trace::of(server, cpus, |port| drive(port, much))?;
        Self::between(&little, &much)
    }

    fn between(little: &Trace, much: &Trace) -> Result<Self> {
        ensure!(much.work > little.work, "the two traced runs did the same");
        let more_work = (much.work - little.work) as f64;
        let more = |(name, &calls): (&String, &u64)| {
            let calls = calls as f64 - little.calls.get(name).copied().unwrap_or(0) as f64;
            (name.clone(), calls / more_work)
        };
        Ok(Self(much.calls.iter().map(more).collect()))
    }

    /// All of them together.
    pub fn total(&self) -> f64 {
        self.0.values().sum()
    }

    /// The total, then those that matter, most first.
    pub fn show(&self) -> String {
        let mut named: Vec<_> = self.0.iter().filter(|(_, calls)| **calls >= RARE).collect();
        named.sort_by(|a, b| b.1.total_cmp(a.1));
        let mut text = format!("**{}**:", number(self.total()));
        for (name, calls) in named {
            let _ = write!(text, " {name} {},", number(*calls));
        }
        text.pop();
        text
    }
}

impl Trace {
    fn of(server: &Command, cpus: &Cpus, drive: impl FnOnce(u16) -> Result<u64>) -> Result<Self> {
        let strace = shell::find("strace").context("strace is not installed")?;
        let folder = tempfile::tempdir()?;
        let counted = folder.path().join("calls");
        let mut traced = shell::command_at(&strace);
        // -D: the server is our child and strace is not, so that SIGTERM reaches the right one.
        traced.args(["-D", "-f", "-c", "-o"]).arg(&counted);
        traced.arg("--").arg(server.get_program()).args(server.get_args());
        let server = Server::start(traced, cpus)?;
        let work = drive(server.port())?;
        server.end()?;
        let calls = parse(&wait_for(&counted)?)?;
        Ok(Self { work, calls })
    }
}

/// Calls by name, from what strace printed.
fn parse(table: &str) -> Result<BTreeMap<String, u64>> {
    let mut calls = BTreeMap::new();
    for line in table.lines() {
        // % time, seconds, µs a call, calls, errors if there are any, name
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [share, _, _, count, .., name] = fields[..]
            && share.parse::<f64>().is_ok()
        {
            let count = count
                .parse()
                .with_context(|| format!("strace printed {line:?}"))?;
            calls.insert(name.to_owned(), count);
        }
    }
    ensure!(calls.remove(TOTAL).is_some(), "strace printed {table:?}");
    Ok(calls)
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
    fn what_both_runs_have_falls_out() {
        let trace = |work, calls: [u64; 2]| Trace {
            work,
            calls: [("recvfrom", calls[0]), ("mmap", calls[1])]
                .map(|(name, calls)| (name.to_owned(), calls))
                .into(),
        };
        let calls = Calls::between(&trace(100, [110, 30]), &trace(500, [910, 30])).unwrap();
        assert!((calls.total() - 2.0).abs() < 1e-9);
        assert_eq!(calls.show(), "**2.00**: recvfrom 2.00");
        assert!(Calls::between(&trace(1, [1, 1]), &trace(1, [1, 1])).is_err());
    }

    #[test]
    fn a_table_is_read_with_and_without_errors() {
        let calls = parse(TABLE).unwrap();
        assert_eq!(
            (calls.len(), calls["recvfrom"], calls["sendto"], calls["execve"]),
            (3, 100, 390, 1)
        );
    }

    #[test]
    fn half_a_table_is_refused() {
        assert!(parse(&TABLE[..200]).is_err());
    }
}
