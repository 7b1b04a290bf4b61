//! An eventfd: a descriptor that one waits for and others notify, also from other processes that inherited it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
#[cfg(test)]
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{read, retry_on_intr, write};

/// Readable from a notification until it is cleared.
#[derive(Debug)]
pub(crate) struct WakeFd(OwnedFd);

impl WakeFd {
    /// One that is not notified.
    ///
    /// # Errors
    ///
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable. Does not block. What was written before is seen by who waited for it.
    pub fn notify(&self) {
        // It can only fail if it was notified 2⁶⁴ times and is readable already.
        let _ = retry_on_intr(|| write(&self.0, &1u64.to_ne_bytes()));
    }

    /// Waits until it is notified.
    #[cfg(test)]
    pub fn wait(&self) {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        retry_on_intr(|| poll(&mut fds, None)).expect("it can be waited for");
    }

    /// Takes all notifications back. Does not block.
    pub fn clear(&self) {
        // It fails if there were none.
        let _ = retry_on_intr(|| read(&self.0, &mut [0; 8]));
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
