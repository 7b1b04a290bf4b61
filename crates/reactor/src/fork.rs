//! Child processes that serve, and how they hear from their parent. An unsafe leaf.
//!
//! A child is told with signals: `SIGTERM`, finish what you serve and end; `SIGUSR2`, give up what you serve and end;
//! `SIGUSR1`, end when you serve nobody. It hears of them in [`InChild`]. What a terminal sends to all (`SIGINT`,
//! `SIGHUP`) it ignores: its parent decides. If the parent dies, the kernel kills it.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, waitid,
};

use crate::closing::Lingering;
use crate::shutdown::{Phase, ShutdownSignal};

/// How far this child's end has come: written by the handler, and read by the code that it interrupts.
static PHASE: AtomicU8 = AtomicU8::new(0);
/// This child shall end when it serves nobody: as above.
static RETIRED: AtomicBool = AtomicBool::new(false);
/// The client's socket while it is served, or −1: written by the code, and read by the handler that interrupts it.
static SOCKET: AtomicI32 = AtomicI32::new(-1);

/// What a parent can tell its child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// End when you serve nobody.
    Retire,
    /// Finish what you serve, and end.
    Drain,
    /// Give up what you serve, and end.
    GiveUp,
    /// End: not to be heard by the child.
    Die,
}

/// A child process. Whoever has it must [`wait`](Self::wait) for it, or a dead process is left.
#[derive(Debug)]
pub(crate) struct Child(OwnedFd);

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody knows: this process leaves its dead children to the kernel.
    Unknown,
}

impl Ended {
    /// Whether it ended as it should.
    pub fn is_well(self) -> bool {
        matches!(self, Self::Code(0) | Self::Unknown)
    }
}

/// How long a thread that was joined may still be counted by the kernel: it is told that the memory is free before it
/// goes.
const JOINED: Duration = Duration::from_millis(100);

/// How many threads this process has, when those that were just joined are gone. Blocks for a tenth of a second where
/// there are others.
///
/// # Errors
///
/// If /proc cannot be read.
pub(crate) fn threads_that_stay() -> io::Result<usize> {
    let until = Instant::now() + JOINED;
    loop {
        let threads = std::fs::read_dir("/proc/self/task")?.count();
        if threads == 1 || Instant::now() >= until {
            return Ok(threads);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether this kernel can watch its children: Linux 5.3 and later can.
///
/// # Errors
///
/// Why it cannot, or that no descriptor is left.
pub(crate) fn can_watch() -> io::Result<()> {
    pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(())
}

/// Makes a child that calls `child` and exits with the code that it returns. After the fork, and only in the parent,
/// `parent` is called before anything else.
///
/// The process must have one thread alone: another could hold a lock, of the allocator for example, which would then
/// be held for ever in the child.
///
/// # Errors
///
/// If the kernel has no process, memory or descriptor for it; then there is no child.
pub(crate) fn fork(child: impl FnOnce() -> i32, parent: impl FnOnce()) -> Result<Child, Errno> {
    let own = getpid();
    // No signal may come to the child before it has handlers of its own.
    let before = block_signals();
    // SAFETY: with one thread, the child's memory is whole, and all of it may be used there. What the parent keeps is
    // copied, descriptors included, as with any fork; the child never returns from here.
    match unsafe { libc::fork() } {
        0 => {
            let code = catch_unwind(AssertUnwindSafe(|| {
                become_child(own, &before);
                child()
            }));
            // SAFETY: it ends the process without running what the parent has registered to run at its exit.
            unsafe { libc::_exit(code.unwrap_or(101)) }
        }
        -1 => {
            let error = Errno::from_io_error(&io::Error::last_os_error());
            restore_signals(&before);
            Err(error.unwrap_or(Errno::AGAIN))
        }
        pid => {
            restore_signals(&before);
            parent();
            let pid = Pid::from_raw(pid).ok_or(Errno::CHILD)?;
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(descriptor) => Ok(Child(descriptor)),
                Err(error) => {
                    // It is ours and not waited for, so the id is still its own.
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
                    Err(error)
                }
            }
        }
    }
}

/// Closes, in a child, a descriptor that it inherited and will never use.
pub(crate) fn close_for_good(descriptor: BorrowedFd<'_>) {
    // SAFETY: whoever owns it does so in the parent. Here its owner is a copy that is neither used again nor dropped:
    // a child leaves without returning from `fork`.
    unsafe { libc::close(descriptor.as_raw_fd()) };
}

impl Child {
    /// Tells it something. It may have ended already.
    pub fn tell(&self, order: Order) {
        let signal = match order {
            Order::Retire => Signal::USR1,
            Order::Drain => Signal::TERM,
            Order::GiveUp => Signal::USR2,
            Order::Die => Signal::KILL,
        };
        // It can only fail if the child has ended.
        let _ = pidfd_send_signal(&self.0, signal);
    }

    /// Waits until it has ended, and removes what is left of it.
    pub fn wait(self) -> Ended {
        loop {
            match waitid(WaitId::PidFd(self.0.as_fd()), WaitIdOptions::EXITED) {
                Ok(Some(status)) => {
                    return match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => Ended::Code(code),
                        (None, Some(signal)) => Ended::Signal(signal),
                        (None, None) => Ended::Unknown,
                    };
                }
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return Ended::Unknown,
            }
        }
    }
}

/// Readable when it has ended.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How a forked child hears from its parent, and shuts down the socket that keeps it blocked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InChild;

impl InChild {
    /// Whether it shall end now that it serves nobody.
    pub fn shall_end(self) -> bool {
        RETIRED.load(SeqCst) || self.phase() > Phase::Serving
    }
}

impl ShutdownSignal for InChild {
    type Socket = OwnedFd;
    const WAKES: bool = true;

    fn begin(&self, socket: OwnedFd) -> OwnedFd {
        SOCKET.store(socket.as_raw_fd(), SeqCst);
        socket
    }

    fn end(&self, socket: OwnedFd) {
        SOCKET.store(-1, SeqCst);
        drop(socket);
    }

    fn lingers(&self, socket: OwnedFd, _: Lingering) -> Option<OwnedFd> {
        Some(socket)
    }

    fn phase(&self) -> Phase {
        Phase::from_number(PHASE.load(SeqCst))
    }
}

/// The first that a child does: to be its own.
fn become_child(parent: Pid, before: &libc::sigset_t) {
    // It can only fail for a signal that does not exist.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Some(parent) {
        // The parent had died before the kernel knew what to do then.
        // SAFETY: it ends the process.
        unsafe { libc::_exit(0) };
    }
    PHASE.store(0, SeqCst);
    RETIRED.store(false, SeqCst);
    SOCKET.store(-1, SeqCst);
    let handler: extern "C" fn(libc::c_int) = heard;
    for (signal, action) in [
        (libc::SIGTERM, handler as libc::sighandler_t),
        (libc::SIGUSR1, handler as libc::sighandler_t),
        (libc::SIGUSR2, handler as libc::sighandler_t),
        (libc::SIGINT, libc::SIG_IGN),
        (libc::SIGHUP, libc::SIG_IGN),
    ] {
        // SAFETY: all zero is a valid `sigaction`: no flags (so that blocked calls are interrupted), an empty mask.
        // The handler does nothing but what signal-safety(7) allows.
        unsafe {
            let mut with: libc::sigaction = MaybeUninit::zeroed().assume_init();
            with.sa_sigaction = action;
            libc::sigaction(signal, &raw const with, null_mut());
        }
    }
    let mut mask = *before;
    for signal in [libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: `mask` is an initialised set.
        unsafe { libc::sigdelset(&raw mut mask, signal) };
    }
    restore_signals(&mask);
}

/// The handler in a child.
extern "C" fn heard(signal: libc::c_int) {
    let (phase, how) = match signal {
        libc::SIGTERM => (Phase::Draining, libc::SHUT_RD),
        libc::SIGUSR2 => (Phase::Over, libc::SHUT_RDWR),
        _ => return RETIRED.store(true, SeqCst),
    };
    PHASE.fetch_max(phase as u8, SeqCst);
    let socket = SOCKET.load(SeqCst);
    if socket >= 0 {
        // SAFETY: errno is this thread's; `shutdown` may be called in a handler; the descriptor is open as long as
        // it stands in `SOCKET`, for the code that closes it takes it out first.
        unsafe {
            let errno = libc::__errno_location();
            let kept = *errno;
            libc::shutdown(socket, how);
            *errno = kept;
        }
    }
}

fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both are written before they are read; the call cannot fail with these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: `mask` is an initialised set; the call cannot fail with these arguments.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, null_mut()) };
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    // This process is nobody's child of a server: what is static is the test's own.
    #[test]
    fn what_a_child_hears_ends_also_a_call_that_has_not_begun() {
        let (socket, _client) = UnixStream::pair().expect("a pair");
        let shutdown = &InChild;
        let socket = UnixStream::from(shutdown.begin(socket.into()));
        heard(libc::SIGUSR1);
        assert!(RETIRED.swap(false, SeqCst));
        assert_eq!(shutdown.phase(), Phase::Serving);
        heard(libc::SIGTERM);
        assert_eq!(shutdown.phase(), Phase::Draining);
        assert_eq!((&socket).read(&mut [0]).expect("the end"), 0);
        (&socket).write_all(b"bye").expect("that is allowed still");
        heard(libc::SIGUSR2);
        heard(libc::SIGTERM);
        assert_eq!(shutdown.phase(), Phase::Over, "it only goes forward");
        let refused = (&socket).write(b"x").expect_err("that is over");
        assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
        shutdown.end(socket.into());
        PHASE.store(0, SeqCst);
    }
}
