//! Ending everything that is left below this process.
//!
//! A process group misses children that call `setsid`, so the command becomes a child subreaper: orphans
//! come back to it, and it finds the whole tree by parent in `/proc`. Deadlines and process groups of
//! workers are the laboratory's business.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, waitid, waitpid};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::sys;

/// A process that cannot die (waiting in the kernel for a dead disk) must not hang its reaper.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes this process the parent of every orphan below it, for as long as it lives.
///
/// # Errors
///
/// The kernel's answer; Linux has known this call since 3.4.
pub fn become_subreaper() -> io::Result<()> {
    // Any process id but "none" means yes.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(io::Error::from)
}

/// Has what `command` starts end with the calling thread, whatever ends that: it is sent SIGTERM, so that it can end
/// what it has started itself. A thread that starts it must stay for as long as it is wanted.
pub fn end_with_this_thread(command: &mut Command) {
    sys::end_with_thread(command);
}

/// The process ids of everything below this process, zombies too, in no particular order.
pub fn descendants() -> Vec<i32> {
    below(own_pid(), &parents(), &HashSet::new())
}

/// Kills and reaps everything below this process but the trees under `except`, and returns how many
/// processes that were. Call [`become_subreaper`] first, or orphans escape to process 1.
///
/// Only safe when the caller has no other children that it cares for: it takes the exit status of every
/// child not in `except`, so a `Child::wait` elsewhere fails with "no such child". Repeats until a look
/// at `/proc` finds nothing, which also ends what forks while it is being killed. Blocks while there
/// is something left, at most 10 s after the last progress.
pub fn kill_descendants(except: &[i32]) -> usize {
    let me = own_pid();
    let spared: HashSet<i32> = except.iter().copied().collect();
    let mut ended = HashSet::new();
    let mut last_progress = Instant::now();
    let mut pause = Duration::from_micros(100);
    while !has_no_children() {
        let parents = parents();
        let left = below(me, &parents, &spared);
        if left.is_empty() {
            break;
        }
        let known = ended.len();
        // All signals before the first wait: what is being killed cannot fork any more.
        for &pid in &left {
            let Some(target) = Pid::from_raw(pid) else {
                continue;
            };
            if kill_process(target, Signal::KILL).is_ok() {
                ended.insert(pid);
            }
        }
        let children = left.iter().filter(|pid| parents.get(pid) == Some(&me));
        let reaped: Vec<i32> = children.copied().filter(|&pid| reap(pid)).collect();
        ended.extend(&reaped);
        if !reaped.is_empty() || ended.len() > known {
            last_progress = Instant::now();
            pause = Duration::from_micros(100);
        } else if last_progress.elapsed() > PATIENCE {
            break;
        }
        // Dying takes the kernel a moment, longer for much memory. There is no event to wait for: those
        // that are not our children yet send us nothing.
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    ended.len()
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The cheap and certain answer in the usual case, without a look at every process of the machine.
fn has_no_children() -> bool {
    let look = WaitIdOptions::EXITED
        | WaitIdOptions::NOHANG
        | WaitIdOptions::NOWAIT
        | WaitIdOptions::from_bits_retain(libc::__WALL as u32);
    matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}

/// Takes the exit status of a child, also of one made by `clone` without SIGCHLD. False if it still runs.
fn reap(pid: i32) -> bool {
    let options = WaitOptions::NOHANG | WaitOptions::from_bits_retain(libc::__WALL as u32);
    matches!(waitpid(Pid::from_raw(pid), options), Ok(Some(_)))
}

/// Every process of the machine with its parent. `/proc/…/children` would be quicker, but is documented to
/// miss children while others exit, and not every kernel has it.
pub(crate) fn parents() -> HashMap<i32, i32> {
    parents_in(Path::new("/proc"))
}

/// The same of a folder like `/proc`.
pub(crate) fn parents_in(proc: &Path) -> HashMap<i32, i32> {
    let Ok(entries) = std::fs::read_dir(proc) else {
        return HashMap::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let stat = std::fs::read(proc.join(format!("{pid}/stat"))).ok()?;
            Some((pid, parent_in_stat(&String::from_utf8_lossy(&stat))?))
        })
        .collect()
}

/// The fourth field of `/proc/…/stat`. The second is a name in parentheses that may hold any character.
fn parent_in_stat(stat: &str) -> Option<i32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

pub(crate) fn below(root: i32, parents: &HashMap<i32, i32>, spared: &HashSet<i32>) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (&pid, &parent) in parents {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut todo = vec![root];
    while let Some(parent) = todo.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            // `seen`: pids are reused while we look, and a loop must not become an endless one.
            if !spared.contains(&child) && seen.insert(child) {
                found.push(child);
                todo.push(child);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_hide_the_parent() {
        assert_eq!(parent_in_stat("7 (a) R 99 (b) c) S 42 7 7 0"), Some(42));
        assert_eq!(parent_in_stat("7 (a"), None);
        assert_eq!(parent_in_stat("7 (a) S"), None);
        assert_eq!(parent_in_stat("7 (a) S x"), None);
    }

    #[test]
    fn the_tree_is_followed_and_spared_branches_are_left_whole() {
        let parents = HashMap::from([(2, 1), (3, 2), (4, 3), (5, 2), (6, 5), (9, 1)]);
        let sorted = |root, spared: &[i32]| {
            let mut pids = below(root, &parents, &spared.iter().copied().collect());
            pids.sort_unstable();
            pids
        };
        assert_eq!(sorted(2, &[]), [3, 4, 5, 6]);
        assert_eq!(sorted(2, &[5]), [3, 4]);
        assert_eq!(sorted(9, &[]), [0; 0]);
    }

    #[test]
    fn a_loop_of_parents_ends() {
        let parents = HashMap::from([(2, 3), (3, 2)]);
        assert_eq!(below(2, &parents, &HashSet::new()), [3]);
    }
}
