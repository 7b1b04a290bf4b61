//! What all threads and processes of a server have done: read from `/proc` while it lives.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// What all threads of a server have done since their start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// How many there are.
    pub threads: u64,
    /// Context switches of both kinds.
    pub switches: u64,
    /// Time on a CPU; of a thread that runs, until the last tick.
    pub cpu_ns: u64,
}

impl From<Activity> for Value {
    fn from(activity: Activity) -> Self {
        json!({"threads": activity.threads, "switches": activity.switches, "cpu_ns": activity.cpu_ns})
    }
}

impl Activity {
    /// Of the process and all below it.
    pub fn of(process: i32) -> Result<Self> {
        let mut sum = Self::default();
        for process in tree(process)? {
            for thread in threads(process)? {
                sum = sum.plus(Self::of_thread(&thread)?);
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
    pub fn since(self, earlier: Self) -> Self {
        Self {
            threads: self.threads,
            switches: self.switches.saturating_sub(earlier.switches),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
        }
    }

    /// The larger of each.
    pub fn most(self, other: Self) -> Self {
        Self {
            threads: self.threads.max(other.threads),
            switches: self.switches.max(other.switches),
            cpu_ns: self.cpu_ns.max(other.cpu_ns),
        }
    }
}

/// The process and all below it.
///
/// # Errors
///
/// If one has ended meanwhile, or may not be looked at.
pub fn tree(process: i32) -> Result<Vec<i32>> {
    let mut all = vec![process];
    let mut looked_at = 0;
    while let Some(&process) = all.get(looked_at) {
        looked_at += 1;
        for thread in threads(process)? {
            for child in read(&thread, "children")?.split_whitespace() {
                all.push(child.parse()?);
            }
        }
    }
    Ok(all)
}

/// Their folders.
fn threads(process: i32) -> Result<Vec<PathBuf>> {
    let folder = format!("/proc/{process}/task");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn read(folder: &Path, file: &str) -> Result<String> {
    let file = folder.join(file);
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

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
        let deadline = Instant::now() + Duration::from_secs(120);
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
