//! Processes as `/proc` shows them.

use std::fs;
use std::time::{Duration, Instant};

/// The children of a process, zombies included.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|id| id.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// What `/proc/PID/status` says first behind `key`, such as `VmHWM` (in KiB), `Threads` or `State`.
pub fn status(pid: u32, key: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.to_owned())
}

/// The same, where that is a number.
pub fn number(pid: u32, key: &str) -> Option<u64> {
    status(pid, key)?.parse().ok()
}

/// How many descriptors a process has.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// How many threads this process has beside the one that asks, when those that were joined are gone: a join returns a
/// moment before the kernel counts the thread no more. One that stays is waited for in vain, and counted.
pub fn threads_left() -> u64 {
    const PATIENCE: Duration = Duration::from_secs(20);
    let asked = Instant::now();
    loop {
        let left = number(std::process::id(), "Threads").expect("itself") - 1;
        if left == 0 || asked.elapsed() > PATIENCE {
            return left;
        }
        std::thread::yield_now();
    }
}
