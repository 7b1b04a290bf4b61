//! `fork`: a child that is a copy of this process.
//!
//! Owns the two ways a fork in Rust goes wrong: a child that unwinds or returns into its parent's code,
//! and a child that allocates while another thread held the lock.
#![allow(unsafe_code)]

use std::io;

use rustix::process::Pid;

/// Forks; the child runs `child` and ends with the code it returns, without running any destructor or
/// exit handler of the parent.
///
/// Of a process with several threads only the calling one lives on in the child: there, `child` must
/// neither allocate nor take a lock. Workers fork while they are single-threaded.
///
/// # Errors
///
/// The kernel's refusal (`EAGAIN`: a limit on processes; `ENOMEM`: no memory for page tables).
pub fn fork(child: impl FnOnce() -> u8) -> io::Result<Pid> {
    // SAFETY: the child does nothing but `child`, whose conduct with several threads is the caller's
    // documented duty, and never returns from here: it ends in `end`, by value or by `EndOnUnwind`.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _guard = EndOnUnwind;
            end(child())
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork returned no process id")),
    }
}

/// A panic in the child must not unwind into the parent's frames, which the child has a copy of.
struct EndOnUnwind;

impl Drop for EndOnUnwind {
    fn drop(&mut self) {
        end(101)
    }
}

fn end(code: u8) -> ! {
    // SAFETY: `_exit` ends the process at once and touches nothing of ours.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::gate::Gate;
    use crate::sys::reap::{Ending, reap};

    #[test]
    fn a_child_ends_with_the_code_it_returns() {
        let pid = fork(|| 7).unwrap();
        assert_eq!(reap(pid).unwrap(), Ending::Code(7));
    }

    #[test]
    fn a_child_that_panics_does_not_come_back() {
        let pid = fork(|| std::panic::resume_unwind(Box::new(()))).unwrap();
        assert_eq!(reap(pid).unwrap(), Ending::Code(101));
    }

    #[test]
    fn children_wait_at_their_parents_gate() {
        let gate = Gate::closed().unwrap();
        let pass = || {
            gate.pass();
            0
        };
        let children: Vec<_> = (0..5).map(|_| fork(pass).unwrap()).collect();
        gate.open();
        for child in children {
            assert_eq!(reap(child).unwrap(), Ending::Code(0));
        }
    }
}
