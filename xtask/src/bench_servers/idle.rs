//! `idle`: what a server does with a thousand connections on which nothing happens. It must be nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::designs::{DESIGNS, named};
use super::echo_driver::exchange;
use super::figures::NOTHING;
use super::programs::Whose;
use super::rounds::Rounds;
use super::server::Server;
use super::sockets::connect;
use super::{Part, Site};

const CONNECTIONS: usize = 1000;
/// After the last message, for the server to come to rest.
const REST: Duration = Duration::from_millis(500);
const WATCHED: Duration = Duration::from_secs(2);
/// Nothing is compared here, so there is no need for more.
const MOST_ROUNDS: usize = 3;

/// What all threads of a server have done since their start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Activity {
    threads: u64,
    switches: u64,
    cpu_ns: u64,
}

impl From<Activity> for Value {
    fn from(activity: Activity) -> Self {
        json!({"threads": activity.threads, "switches": activity.switches, "cpu_ns": activity.cpu_ns})
    }
}

/// The measurement and its table.
pub fn measure(site: &mut Site) -> Result<Part> {
    let cpus = site.everywhere();
    let designs: Vec<&str> = DESIGNS
        .iter()
        .filter(|design| design.many)
        .map(|design| design.name)
        .collect();
    let groups = designs.iter().map(|&design| vec![design]).collect();
    let (rounds, programs) = (site.rounds.min(MOST_ROUNDS), &site.programs);
    let measured = Rounds::measure("idle", groups, rounds, &mut site.dice, |design| {
        let server = Server::start(programs.server(Whose::Ours, named(design), "echo"), &cpus)?;
        let streams = connect(server.port, CONNECTIONS)?;
        // An answer on each shows that each was accepted.
        exchange(&streams, CONNECTIONS as u64)?;
        sleep(REST);
        let before = Activity::of(server.pid())?;
        sleep(WATCHED);
        let meanwhile = Activity::of(server.pid())?.since(before);
        drop(streams);
        server.end()?;
        Ok(meanwhile)
    });
    let mut text = format!(
        "## `idle`: {CONNECTIONS} connections on which nothing happens

Context switches and CPU time of all of a server's threads and processes in {} s; the most of {rounds} rounds. Both must be 0.

| design | threads | context switches | CPU µs | nothing |
|---|---:|---:|---:|---|
",
        WATCHED.as_secs()
    );
    for design in designs {
        let rounds = measured.of(design).iter().flatten();
        let most = rounds.copied().reduce(Activity::most);
        let _ = match most {
            Some(most) => writeln!(
                text,
                "| {design} | {} | {} | {:.1} | {} |",
                most.threads,
                most.switches,
                most.cpu_ns as f64 / 1e3,
                if most.switches + most.cpu_ns == 0 {
                    "yes"
                } else {
                    "**no**"
                }
            ),
            None => writeln!(
                text,
                "| {design} | {NOTHING} | {NOTHING} | {NOTHING} | {NOTHING} |"
            ),
        };
    }
    Ok(Part {
        text: text + &measured.missing(),
        values: measured.json(),
    })
}

impl Activity {
    /// Of the process and all below it.
    fn of(process: i32) -> Result<Self> {
        let folder = format!("/proc/{process}/task");
        let mut sum = Self::default();
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
            let thread = entry?.path();
            sum = sum.plus(Self::of_thread(&thread)?);
            for child in read(&thread, "children")?.split_whitespace() {
                sum = sum.plus(Self::of(child.parse()?)?);
            }
        }
        Ok(sum)
    }

    fn of_thread(thread: &Path) -> Result<Self> {
        let status = read(thread, "status")?;
        let on_cpu = read(thread, "schedstat")?;
        Self::parse(&status, &on_cpu).with_context(|| format!("{} is not as it was", thread.display()))
    }

    fn parse(status: &str, schedstat: &str) -> Option<Self> {
        let count = |name: &str| -> Option<u64> {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().parse().ok()
        };
        Some(Self {
            threads: 1,
            switches: count("voluntary_ctxt_switches:")? + count("nonvoluntary_ctxt_switches:")?,
            cpu_ns: schedstat.split_whitespace().next()?.parse().ok()?,
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            threads: self.threads + other.threads,
            switches: self.switches + other.switches,
            cpu_ns: self.cpu_ns + other.cpu_ns,
        }
    }

    /// Of as many threads as there are now. One that has ended has taken its counts with it.
    fn since(self, earlier: Self) -> Self {
        Self {
            threads: self.threads,
            switches: self.switches.saturating_sub(earlier.switches),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
        }
    }

    fn most(self, other: Self) -> Self {
        Self {
            threads: self.threads.max(other.threads),
            switches: self.switches.max(other.switches),
            cpu_ns: self.cpu_ns.max(other.cpu_ns),
        }
    }
}

fn read(folder: &Path, file: &str) -> Result<String> {
    let file = folder.join(file);
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    #[test]
    fn both_kinds_of_switches_are_counted() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n";
        let activity = Activity::parse(status, "123456 789 10\n").unwrap();
        assert_eq!((activity.switches, activity.cpu_ns), (7, 123_456));
        assert_eq!(Activity::parse("Name:\tx\n", "1 2 3"), None);
    }

    #[test]
    fn children_are_counted() {
        let mut shell = Command::new("sh")
            .args(["-c", "cat | cat"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        // It is alone at first. A child that is only just there can end the reading.
        while Activity::of(shell.id().cast_signed()).map_or(0, |all| all.threads) < 3 {
            assert!(
                Instant::now() < deadline,
                "the shell's two children were not seen"
            );
            sleep(Duration::from_millis(1));
        }
        drop(shell.stdin.take());
        assert!(shell.wait().unwrap().success());
    }
}
