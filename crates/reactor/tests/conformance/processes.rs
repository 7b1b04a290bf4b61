//! Families of processes: what they have, and their end.

use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::common::proc::{children, descriptors, number};

/// A process and all below it.
pub fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        all.extend(children(pid));
        next += 1;
    }
    all
}

/// Whether a process has a descriptor of this socket.
pub fn has_socket(pid: u32, inode: u32) -> bool {
    let name = format!("socket:[{inode}]");
    fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|descriptors| {
        descriptors
            .flatten()
            .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
            .any(|target| target.as_os_str() == name.as_str())
    })
}

/// What a family of processes looks like, for a message.
pub fn seen(pid: u32) -> String {
    let member = |pid: &u32| {
        let state = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        format!(
            "{pid}: {} threads, {} descriptors, waits in {state}",
            number(*pid, "Threads").unwrap_or(0),
            descriptors(*pid)
        )
    };
    family(pid).iter().map(member).collect::<Vec<_>>().join("; ")
}

/// # Panics
///
/// If this process has children.
pub fn no_children() {
    let left: Vec<String> = children(std::process::id()).into_iter().map(seen).collect();
    assert!(left.is_empty(), "processes were left behind: {left:?}");
}

/// Ends every child of this process, so that the next case starts without.
pub fn end_children() {
    let pid = std::process::id();
    while let Some(&child) = children(pid).first() {
        let child = i32::try_from(child).ok().and_then(Pid::from_raw);
        let child = child.expect("a process id");
        // One that has ended since cannot be killed, and is waited for all the same.
        let _ = kill_process(child, Signal::KILL);
        let _ = waitpid(Some(child), WaitOptions::empty());
    }
}
