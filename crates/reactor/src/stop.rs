//! How a server is told to stop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

/// Tells a running server to stop: to accept nobody more, to finish what it has begun, and to return. Clones are the
/// same stop; once set it stays set.
///
/// It is a pipe, so that a signal handler can set it without a thread (designs that fork refuse to run in a process
/// with several):
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let stop = threadgauge_reactor::Stop::new()?;
/// signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, stop.trigger()?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Stop(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    reader: OwnedFd,
    writer: OwnedFd,
    drain: OnceLock<Duration>,
}

impl Stop {
    /// Not set.
    ///
    /// # Errors
    ///
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let drain = OnceLock::new();
        Ok(Self(Arc::new(Ends {
            reader,
            writer,
            drain,
        })))
    }

    /// Sets it. Does not block.
    pub fn stop(&self) {
        // A full pipe is set already.
        let _ = retry_on_intr(|| rustix::io::write(&self.0.writer, b"."));
    }

    /// Sets it, where connections may go on for so long, whatever the server's [drain time](crate::Server::drain) is.
    /// Who says so first decides; once the server drains it is too late. Processes of a design that forks do not hear
    /// of it. Does not block.
    pub fn stop_within(&self, drain: Duration) {
        let _ = self.0.drain.set(measurable(drain));
        self.stop();
    }

    /// What [`stop_within`](Self::stop_within) has said.
    pub(crate) fn drain(&self) -> Option<Duration> {
        self.0.drain.get().copied()
    }

    /// Whether it is set. A system call.
    pub fn is_stopped(&self) -> bool {
        let mut fds = [PollFd::new(&self.0.reader, PollFlags::IN)];
        matches!(
            retry_on_intr(|| poll(&mut fds, Some(&Timespec::default()))),
            Ok(1)
        )
    }

    /// A descriptor of its own that sets it when a byte is written, as signal handlers do.
    ///
    /// # Errors
    ///
    /// If the process has no descriptors left.
    pub fn trigger(&self) -> io::Result<OwnedFd> {
        self.0.writer.try_clone()
    }
}

/// Readable once it is set: to wait for it beside other descriptors.
impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.reader.as_fd()
    }
}

/// A wait that a signal cut short is one that brought nothing.
pub(crate) fn poll_once(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> Result<usize, Errno> {
    match poll(fds, timeout) {
        Err(Errno::INTR) => {
            for fd in fds {
                fd.clear_revents();
            }
            Ok(0)
        }
        result => result,
    }
}

/// A time that can be added to any that a clock shows: a century is as good as for ever.
pub(crate) fn measurable(limit: Duration) -> Duration {
    limit.min(Duration::from_secs(100 * 365 * 24 * 60 * 60))
}

/// For a wait that must not end before `limit` has passed: rounded up to the millisecond in which `poll` counts.
pub(crate) fn timespec(limit: Duration) -> Timespec {
    Timespec::try_from(limit.saturating_add(Duration::from_micros(999))).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_clock_shows_is_a_century() {
        assert_eq!(measurable(Duration::MAX).as_secs(), 3_153_600_000);
        let decades = Duration::from_secs(1_000_000_000);
        assert_eq!(measurable(decades), decades);
        assert!(
            std::time::Instant::now()
                .checked_add(measurable(Duration::MAX))
                .is_some()
        );
    }

    #[test]
    fn it_stays_set_and_clones_are_the_same() {
        let stop = Stop::new().expect("a pipe");
        assert!(!stop.is_stopped());
        let same = stop.clone();
        same.stop();
        assert!(stop.is_stopped() && stop.is_stopped() && same.is_stopped());
        for _ in 0..100_000 {
            stop.stop(); // never blocks, though the pipe is full long before
        }
    }

    #[test]
    fn a_byte_to_the_trigger_sets_it() {
        let stop = Stop::new().expect("a pipe");
        rustix::io::write(stop.trigger().expect("a descriptor"), b"x").expect("written");
        assert!(stop.is_stopped());
    }
}
