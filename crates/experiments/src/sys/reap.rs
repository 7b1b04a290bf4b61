//! Waiting for one child. Safe code: `rustix` does the system call.

use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Waits until the child `pid` has ended, and removes it. Blocks.
///
/// # Errors
///
/// When `pid` is no child of this process (`ECHILD`).
pub fn reap(pid: Pid) -> io::Result<Ending> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                if let Some(code) = status.exit_status() {
                    return Ok(Ending::Code(code));
                }
                if let Some(signal) = status.terminating_signal() {
                    return Ok(Ending::Signal(signal));
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::fork;
    use crate::sys::gate::Gate;
    use rustix::process::{Signal, kill_process};

    #[test]
    fn a_killed_child_is_told_from_one_that_ended() {
        let gate = Gate::closed().unwrap();
        let pid = fork(|| {
            gate.pass();
            0
        })
        .unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(reap(pid).unwrap(), Ending::Signal(9));
    }

    #[test]
    fn a_child_is_reaped_once() {
        let pid = fork(|| 0).unwrap();
        assert_eq!(reap(pid).unwrap(), Ending::Code(0));
        assert_eq!(reap(pid).unwrap_err().raw_os_error(), Some(libc::ECHILD));
    }
}
