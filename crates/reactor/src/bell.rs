//! A descriptor that one waits for and others ring, also from other processes that inherited it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
#[cfg(test)]
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{read, retry_on_intr, write};

/// Readable from a ring until it is quieted.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    /// A quiet one.
    ///
    /// # Errors
    ///
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Rings it. Does not block. What was written before is seen by who waited for it.
    pub fn ring(&self) {
        // It can only fail if it was rung 2⁶⁴ times and rings already.
        let _ = retry_on_intr(|| write(&self.0, &1u64.to_ne_bytes()));
    }

    /// Waits until it is rung.
    #[cfg(test)]
    pub fn wait(&self) {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        retry_on_intr(|| poll(&mut fds, None)).expect("it can be waited for");
    }

    /// Quiets it. Does not block.
    pub fn quiet(&self) {
        // It fails if it does not ring.
        let _ = retry_on_intr(|| read(&self.0, &mut [0; 8]));
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
