//! The user's wish to stop, and waiting for something else without missing it.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The user's wish to stop, as it arrives: each byte on the stream is one Ctrl-C.
#[derive(Debug)]
pub struct Interrupts {
    stream: UnixStream,
    count: u32,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// What was waited for is there.
    Ready,
    /// It did not come in time.
    Late,
    /// The user has asked to stop.
    Interrupted,
}

impl Interrupts {
    /// Listens on `stream`. A signal handler writes one byte per interrupt to its other end.
    ///
    /// # Errors
    ///
    /// When the stream cannot be made non-blocking.
    pub fn new(stream: UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, count: 0 })
    }

    /// How often the user has asked to stop.
    pub fn count(&mut self) -> u32 {
        let mut bytes = [0; 16];
        while let Ok(n @ 1..) = self.stream.read(&mut bytes) {
            self.count += u32::try_from(n).unwrap_or(u32::MAX);
        }
        self.count
    }

    /// Blocks until `other` can be read or the user has asked to stop, and for the time given at most.
    pub fn wait_for(&mut self, other: impl AsFd, at_most: Duration) -> Waited {
        let begun = Instant::now();
        while self.count() == 0 {
            let left = at_most.saturating_sub(begun.elapsed());
            let mut fds = [
                PollFd::new(&other, PollFlags::IN),
                PollFd::new(&self.stream, PollFlags::IN),
            ];
            // None where it is longer than the kernel counts.
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(_) if !fds[0].revents().is_empty() => return Waited::Ready,
                // Looked at once more, since this process may have been stopped meanwhile.
                Ok(0) if left.is_zero() => return Waited::Late,
                // A signal handler of ours may have run: look at the count again.
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // What cannot be polled is read, and the read's error says what is wrong.
                Err(_) => return Waited::Ready,
            }
        }
        Waited::Interrupted
    }
}

/// Can be read when the user asks.
impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_wait_ends_when_there_is_something_in_time_or_when_the_user_asks() {
        const LONG: Duration = Duration::from_secs(600);
        let ((mut user, asked), (mut peer, other)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let mut interrupts = Interrupts::new(asked).unwrap();
        assert_eq!(
            interrupts.wait_for(&other, Duration::from_millis(5)),
            Waited::Late
        );
        peer.write_all(b"x").unwrap();
        assert_eq!(interrupts.wait_for(&other, LONG), Waited::Ready);
        // However late one looks, as after a stop.
        assert_eq!(interrupts.wait_for(&other, Duration::ZERO), Waited::Ready);
        user.write_all(b"!!").unwrap();
        assert_eq!(interrupts.wait_for(&other, LONG), Waited::Interrupted);
        assert_eq!(interrupts.count(), 2);
    }
}
