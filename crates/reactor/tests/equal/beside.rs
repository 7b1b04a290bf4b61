//! A process beside a server that reads the server's counters, which lie in shared memory: a thread in the server's own
//! process would keep it from forking. An unsafe leaf.
#![allow(unsafe_code)]

use std::io::{Read, stdin};

use rustix::process::{Pid, WaitOptions, waitpid};

/// The process, as its parent knows it.
pub struct Beside(Pid);

impl Beside {
    /// From now on `answer` is called, in the process beside, for each byte on the standard input, until that ends.
    ///
    /// # Panics
    ///
    /// If there is no process for it.
    pub fn start(answer: impl Fn()) -> Self {
        // SAFETY: this process has one thread, so that the child finds no lock held; the child does not return.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // What is the server's ends with the server: its listening socket is not kept open here.
            // SAFETY: nothing in this process uses those descriptors any more.
            unsafe { libc::close_range(3, u32::MAX, 0) };
            while stdin().read(&mut [0]).is_ok_and(|count| count > 0) {
                answer();
            }
            // SAFETY: it ends the process without running what the parent has registered to run at its exit.
            unsafe { libc::_exit(0) }
        }
        Self(Pid::from_raw(pid).expect("a process beside the server"))
    }

    /// Waits for its end.
    pub fn end(self) {
        // It can only fail if nobody is there to wait for.
        let _ = waitpid(Some(self.0), WaitOptions::empty());
    }
}
