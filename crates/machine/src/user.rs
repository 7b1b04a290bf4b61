//! Other users: one that nobody is, what a user's units are, and acting as another.
//!
//! The kernel counts threads and processes by user and does not hold the superuser to that number. A program that is to
//! meet the limit runs as a user of its own.

use std::panic::resume_unwind;
use std::process::Command;
use std::{io, thread};

use procfs::process::all_processes;
use rustix::process::{Gid, Uid, getpid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

use crate::sys;

/// Ids that systems give to nobody for long, and that a container's map of users has.
const FIRST: u32 = 60_000;
const COUNT: u32 = 5_000;

/// The threads of all processes of a user; `None` where `/proc` cannot be read. Blocks for a look at every process.
#[must_use]
pub fn tasks_of(user: u32) -> Option<u64> {
    let processes = all_processes().ok()?;
    let status = processes.filter_map(|process| process.ok()?.status().ok());
    Some(status.filter(|s| s.ruid == user).map(|s| s.threads).sum())
}

/// A user, by number, of whom no process is, so that its units can be counted alone. Two who ask at once are given
/// different ones.
#[must_use]
pub fn unused_user() -> Option<u32> {
    let first = getpid().as_raw_nonzero().get().unsigned_abs();
    let users = (0..COUNT).map(|next| FIRST + first.wrapping_add(next) % COUNT);
    users.into_iter().find(|&user| tasks_of(user) == Some(0))
}

/// Has a thread of its own become this user, and the group of the same number, and act. Comes back with what that came
/// to; all other threads stay who they are.
///
/// # Errors
///
/// If this process may not become another user, or as `act`.
///
/// # Panics
///
/// If `act` does.
pub fn as_user<T: Send>(user: u32, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let become_and_act = || {
        let group = Gid::from_raw(user);
        set_thread_res_gid(group, group, group)?;
        let user = Uid::from_raw(user);
        set_thread_res_uid(user, user, user)?;
        act()
    };
    thread::scope(|scope| {
        let acts = thread::Builder::new().spawn_scoped(scope, become_and_act)?;
        acts.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Has what `command` starts run as this user, and the group of the same number, as whom it may still read and write
/// all files: its program may lie where only the superuser reads. Starting it fails where this process may not do that.
///
/// What is to end with a thread ([`end_with_this_thread`](crate::end_with_this_thread)) is told so after this: whoever
/// becomes another user forgets it.
pub fn run_as(command: &mut Command, user: u32) {
    sys::run_as(command, user);
}

#[cfg(test)]
mod tests {
    use rustix::process::{getgid, getuid};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_of_another_user_reads_what_is_closed_to_others_and_is_counted_as_that_users() {
        let user = unused_user().unwrap();
        let folder = std::env::temp_dir().join(format!("threadgauge-user-{user}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        let file = folder.join("closed");
        std::fs::write(&file, "read").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "id -u; cat \"$0\""]).arg(&file);
        run_as(&mut command, user);
        let said = command.output();
        std::fs::remove_dir_all(&folder).unwrap();
        match said {
            Ok(said) => assert_eq!(String::from_utf8(said.stdout).unwrap(), format!("{user}\nread")),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        }
    }

    #[test]
    fn the_tasks_of_a_user_are_those_of_all_its_processes() {
        assert!(tasks_of(getuid().as_raw()).unwrap() >= 1);
        // Nobody's.
        assert_eq!(tasks_of(u32::MAX - 2), Some(0));
        let unused = unused_user().unwrap();
        assert!((FIRST..FIRST + COUNT).contains(&unused));
    }

    #[test]
    fn one_thread_acts_as_another_user_and_the_others_stay_who_they_are() {
        let before = getuid();
        let user = unused_user().unwrap();
        match as_user(user, || Ok([getuid().as_raw(), getgid().as_raw()])) {
            Ok(was) => assert_eq!(was, [user; 2]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        }
        assert_eq!(getuid(), before);
    }
}
