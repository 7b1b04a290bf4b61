//! A child by `fork`, without another program.
#![allow(unsafe_code)]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::Pid;

/// The exit status of a child that panicked, as Rust programs have it.
const PANICKED: u8 = 101;

/// Forks; the child runs `child` and ends with its value as exit status, without running destructors or
/// handlers that belong to the parent. Whoever calls must wait for it.
///
/// The calling process should have a single thread: in the child of a process with several, a lock that
/// another thread held stays locked for ever.
///
/// # Errors
///
/// The kernel's: `EAGAIN` when a limit on processes is reached, `ENOMEM`.
pub fn fork(child: impl FnOnce() -> u8) -> io::Result<Pid> {
    // SAFETY: the child goes on with a copy of this memory and only runs `child`, whose borrows stay valid in that
    // copy, and then `_exit`; it never returns into the caller's frames.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(PANICKED);
            // SAFETY: `_exit` ends the process at once and touches no memory of ours.
            unsafe { libc::_exit(i32::from(status)) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork gave process 0 to the parent")),
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    fn status_of(child: impl FnOnce() -> u8) -> Option<i32> {
        let pid = fork(child).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        status.exit_status()
    }

    #[test]
    fn the_childs_value_is_its_exit_status() {
        assert_eq!(status_of(|| 0), Some(0));
        assert_eq!(status_of(|| 7), Some(7));
    }

    #[test]
    fn the_child_has_a_copy_of_the_memory() {
        let mut seen = 1;
        let status = status_of(|| {
            seen += 1;
            seen
        });
        assert_eq!((status, seen), (Some(2), 1));
    }

    #[test]
    fn a_child_that_panics_does_not_come_back() {
        // Unwinds without the panic's message.
        let status = status_of(|| std::panic::resume_unwind(Box::new(())));
        assert_eq!(status, Some(i32::from(PANICKED)));
    }
}
