//! What a guest and all its processes hold of the machine's memory, in the parts that `guests/c/idle.c` reads for units
//! of its own.

use std::time::Duration;
use std::{fs, thread};

/// The memory of a group of processes, and what the kernel has for all that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// The group's own pages: the anonymous part of PSS.
    pub private_kib: u64,
    /// The group's page tables.
    pub page_tables_kib: u64,
    /// The machine's kernel stacks.
    pub kernel_stacks_kib: u64,
    /// The kernel's other memory on this machine (unreclaimable slab).
    pub slab_kib: u64,
}

impl Memory {
    /// What a group holds now, once the kernel no longer frees what ended processes had. Blocks for some hundredths of
    /// a second.
    #[must_use]
    pub fn of_group(group: u32) -> Self {
        settle();
        let of_all = |file: &str, name: &str| -> u64 {
            let members = members(group);
            members
                .iter()
                .map(|pid| sum_of(&format!("/proc/{pid}/{file}"), name))
                .sum()
        };
        Self {
            private_kib: of_all("smaps_rollup", "Pss_Anon:"),
            page_tables_kib: of_all("status", "VmPTE:"),
            kernel_stacks_kib: of_machine("KernelStack:"),
            slab_kib: of_machine("SUnreclaim:"),
        }
    }
}

/// The tasks of a group, as the kernel counts them: each thread of each of its processes.
#[must_use]
pub fn tasks_of_group(group: u32) -> usize {
    let of = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    members(group).into_iter().map(of).sum()
}

/// The processes of a group.
fn members(group: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|pid: &u32| group_of(*pid) == Some(group)).collect()
}

fn group_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything: state, parent, group.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(2)?.parse().ok()
}

fn of_machine(name: &str) -> u64 {
    sum_of("/proc/meminfo", name)
}

/// The number behind `name` on the line of a file that begins with it; 0 where there is none, or no such file.
fn sum_of(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let number = |line: &str| {
        line.strip_prefix(name)?
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    };
    text.lines().filter_map(number).sum()
}

/// Waits until the kernel no longer frees what processes had that have ended, at most a second.
fn settle() {
    const LONGEST: u32 = 100;
    const STEADY: u32 = 3;
    const NOISE_KIB: u64 = 64;
    let (mut last, mut steady) = (u64::MAX, 0);
    for _ in 0..LONGEST {
        let kib = ["PageTables:", "KernelStack:", "SUnreclaim:"]
            .map(of_machine)
            .into_iter()
            .sum::<u64>();
        steady = if kib.saturating_add(NOISE_KIB) >= last {
            steady + 1
        } else {
            0
        };
        if steady >= STEADY {
            return;
        }
        last = kib;
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::runtimes::talk::Talk;

    #[test]
    fn a_group_holds_what_each_of_its_processes_does() {
        let held = |script: &str| {
            let mut command = Command::new("sh");
            command.arg("-c").arg(script);
            let mut talk = Talk::begin(&mut command, Duration::from_secs(60)).unwrap();
            let Ready { made: 2 } = talk.told("ready").unwrap() else {
                panic!("it has said 2");
            };
            let found = (members(talk.id()).len(), Memory::of_group(talk.id()));
            assert_eq!(tasks_of_group(talk.id()), found.0, "a shell has one thread");
            talk.end_input();
            found
        };
        let (one, of_one) = held("echo ready made=2; read x");
        let (three, of_three) = held("sleep 600 & sleep 600 & echo ready made=2; read x");
        assert_eq!((one, three), (1, 3));
        assert_eq!(tasks_of_group(std::process::id() + 1_000_000_000), 0);
        assert!(of_one.private_kib > 0 && of_one.kernel_stacks_kib > 0 && of_one.slab_kib > 0);
        assert!(
            of_three.private_kib > of_one.private_kib,
            "{of_one:?} {of_three:?}"
        );
        assert!(
            of_three.page_tables_kib > of_one.page_tables_kib,
            "{of_one:?} {of_three:?}"
        );
    }

    crate::guests::figures! {
        struct Ready {
            made,
        }
    }

    #[test]
    fn what_is_not_there_holds_nothing() {
        assert_eq!(sum_of("/nowhere", "x"), 0);
        assert!(members(u32::MAX).is_empty());
        assert_eq!(group_of(u32::MAX), None);
    }
}
