//! Reaping in a `SIGCHLD` handler, as source 003 did it, with a loop that is right.
//!
//! The source's loop kept the result of a comparison where it wanted the process id, and its program
//! could end before every child was reaped. Here the handler asks until nobody is left to reap, and
//! [`Reaper::wait_until`] sleeps until enough were. The handler takes *every* child of the process, so a
//! process that uses it has no other way of waiting meanwhile.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static REAPED: AtomicU64 = AtomicU64::new(0);
static UNSUCCESSFUL: AtomicU64 = AtomicU64::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// The handler's tenure: from installation until dropped. There is one at a time.
#[derive(Debug)]
pub struct Reaper {
    before: libc::sigaction,
}

extern "C" fn on_child(_signal: libc::c_int) {
    // SAFETY: the address of this thread's errno, which the interrupted code must find unchanged.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: it points to an int that lives as long as the thread.
    let kept = unsafe { errno.read() };
    loop {
        let mut status = 0;
        // SAFETY: `status` can be written; `waitpid` may be called in a signal handler.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid <= 0 {
            break;
        }
        if status != 0 {
            UNSUCCESSFUL.fetch_add(1, Ordering::Relaxed);
        }
        REAPED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: as above.
    unsafe { errno.write(kept) };
}

impl Reaper {
    /// Installs the handler and counts from 0.
    ///
    /// # Errors
    ///
    /// When there is one already, or the kernel refuses.
    pub fn install() -> io::Result<Self> {
        if INSTALLED.swap(true, Ordering::SeqCst) {
            return Err(io::Error::other(
                "children are already being reaped by a signal handler",
            ));
        }
        REAPED.store(0, Ordering::Relaxed);
        UNSUCCESSFUL.store(0, Ordering::Relaxed);
        // SAFETY: all fields of `sigaction` are integers, pointers or sets for which zero is valid.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = on_child as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
        let mut before = MaybeUninit::uninit();
        // SAFETY: both structures are of the right type, and `on_child` calls only what a handler may.
        if unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, before.as_mut_ptr()) } != 0 {
            INSTALLED.store(false, Ordering::SeqCst);
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            // SAFETY: a call that succeeded has written the former action.
            before: unsafe { before.assume_init() },
        })
    }

    /// How many children were reaped so far.
    pub fn reaped(&self) -> u64 {
        REAPED.load(Ordering::Relaxed)
    }

    /// How many of them ended with a code other than 0, or by a signal.
    pub fn unsuccessful(&self) -> u64 {
        UNSUCCESSFUL.load(Ordering::Relaxed)
    }

    /// Sleeps until `count` children were reaped. Blocks for ever if there are fewer.
    pub fn wait_until(&self, count: u64) {
        let mut child = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets can be written; `child` is initialised by `sigemptyset` before it is used, and
        // `before` by `pthread_sigmask`, none of which can fail with these arguments. The signal is blocked
        // while the count is looked at, so none can come between the look and the sleep; `sigsuspend`
        // lets it in.
        unsafe {
            libc::sigemptyset(child.as_mut_ptr());
            libc::sigaddset(child.as_mut_ptr(), libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, child.as_ptr(), before.as_mut_ptr());
            let mut open: libc::sigset_t = before.assume_init();
            libc::sigdelset(&raw mut open, libc::SIGCHLD);
            while self.reaped() < count {
                libc::sigsuspend(&raw const open);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // SAFETY: `before` is the action that `sigaction` gave us.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const self.before, null_mut()) };
        INSTALLED.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::fork;
    use crate::sys::reap::{Ending, reap};

    /// In a process of its own, since the handler would take the children of other tests.
    fn in_a_child(check: impl FnOnce() -> bool) {
        let pid = fork(|| if check() { 0 } else { 1 }).unwrap();
        assert_eq!(reap(pid).unwrap(), Ending::Code(0));
    }

    #[test]
    fn every_child_is_reaped_and_counted() {
        in_a_child(|| {
            let reaper = Reaper::install().unwrap();
            for _ in 0..60 {
                fork(|| 0).unwrap();
            }
            reaper.wait_until(60);
            reaper.reaped() == 60 && reaper.unsuccessful() == 0
        });
    }

    #[test]
    fn a_child_that_failed_is_told() {
        in_a_child(|| {
            let reaper = Reaper::install().unwrap();
            fork(|| 0).unwrap();
            fork(|| 3).unwrap();
            reaper.wait_until(2);
            reaper.unsuccessful() == 1
        });
    }

    #[test]
    fn there_is_one_at_a_time_and_afterwards_children_are_waited_for_again() {
        in_a_child(|| {
            let first = Reaper::install().unwrap();
            let second = Reaper::install();
            drop(first);
            let pid = fork(|| 4).unwrap();
            second.is_err() && reap(pid).unwrap() == Ending::Code(4)
        });
    }
}
