//! Whether somebody stopped this process or a child while it waited for that: by a signal, with their control group
//! (`docker pause`), or with the whole virtual machine.
//!
//! Such time is neither load nor steal, and no counter shows it. What shows it: a wait that took longer than asked for
//! although a CPU was free, the signal to go on, and what the kernel tells a parent of its child. So whoever waits does
//! it in steps. What begins and ends within one of them, without a signal, goes unseen.
//!
//! A machine that slept is told by [`Reading::suspended_ns`](crate::Reading::suspended_ns): waits leave that out.

use crate::usage::run_delay;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A wait that ends so much later than asked for was stopped, if that was not for want of a CPU.
const OVERSLEPT: Duration = Duration::from_millis(100);
/// The same where the kernel does not say how long this process wanted a CPU.
const OVERSLEPT_UNSURE: Duration = Duration::from_secs(1);

/// Tells of waits for a child whether somebody was stopped in them.
#[derive(Debug)]
pub struct Stops {
    continued: UnixStream,
}

impl Stops {
    /// How long to wait at a time: waking up five times a second costs some microseconds, and shorter waits nothing.
    pub const STEP: Duration = Duration::from_millis(200);

    /// Listens for the signal to go on (SIGCONT) from here on, with a handler.
    ///
    /// # Errors
    ///
    /// When the kernel refuses a pair of sockets or the handler.
    pub fn new() -> std::io::Result<Self> {
        let (continued, write) = UnixStream::pair()?;
        continued.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCONT, write)?;
        Ok(Self { continued })
    }

    /// The watch on a child that was just started. What was stopped before is no part of it.
    pub fn watch(&mut self) -> StopWatch<'_> {
        self.was_continued();
        StopWatch {
            stops: self,
            child_is_stopped: false,
            stopped: Duration::ZERO,
        }
    }

    /// Whether this process was told to go on since this was last asked.
    fn was_continued(&mut self) -> bool {
        let mut bytes = [0; 16];
        let mut was = false;
        while let Ok(1..) = self.continued.read(&mut bytes) {
            was = true;
        }
        was
    }
}

/// The waits for one child.
#[derive(Debug)]
pub struct StopWatch<'a> {
    stops: &'a mut Stops,
    child_is_stopped: bool,
    stopped: Duration,
}

impl StopWatch<'_> {
    /// Waits once, by `wait`, which returns after `at_most` unless it is stopped, for this child. Returns what
    /// that returns, and how much of the time counts: none where somebody was stopped.
    pub fn step<R>(&mut self, child: Pid, at_most: Duration, wait: impl FnOnce() -> R) -> (R, Duration) {
        let (delay, begun) = (run_delay(), Instant::now());
        let came = wait();
        let took = begun.elapsed();
        let delay = run_delay().zip(delay);
        let delay = delay.map(|(after, before)| after.saturating_sub(before));
        // All are asked, so that none is asked about this step later.
        let signs = [
            self.stops.was_continued(),
            self.child_was_stopped(child),
            overslept(took, at_most, delay),
        ];
        if signs.contains(&true) {
            self.stopped += took;
            return (came, Duration::ZERO);
        }
        (came, took)
    }

    /// For how long, at most, somebody was stopped in these waits.
    #[must_use]
    pub const fn stopped(&self) -> Duration {
        self.stopped
    }

    /// Whether the child was stopped at some moment since this was last asked. The kernel tells each news once, and the
    /// latest alone.
    fn child_was_stopped(&mut self, child: Pid) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        // It may have ended, which whoever waits for its end is told.
        let news = waitid(WaitId::Pid(child), options).ok().flatten();
        let was_stopped = self.child_is_stopped;
        if let Some(news) = &news {
            self.child_is_stopped = news.stopped();
        }
        was_stopped || news.is_some()
    }
}

/// Whether a wait took so much longer than asked for that its process was stopped: `delay` of it was for want of a CPU.
fn overslept(took: Duration, asked: Duration, delay: Option<Duration>) -> bool {
    let late = took.saturating_sub(asked);
    match delay {
        Some(delay) => late.saturating_sub(delay) > OVERSLEPT,
        None => late > OVERSLEPT_UNSURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, kill_process};
    use signal_hook::{consts::SIGCONT, low_level::raise};
    use std::process::Command;

    #[test]
    fn a_wait_that_takes_too_long_was_stopped_unless_a_cpu_was_lacking() {
        let ms = Duration::from_millis;
        assert!(overslept(ms(4_200), Stops::STEP, Some(ms(10))));
        assert!(
            !overslept(ms(4_200), Stops::STEP, Some(ms(3_950))),
            "others had the CPU"
        );
        assert!(!overslept(ms(300), Stops::STEP, Some(ms(0))));
        assert!(overslept(ms(310), Stops::STEP, Some(ms(0))));
        assert!(!overslept(ms(1_200), Stops::STEP, None));
        assert!(overslept(ms(1_300), Stops::STEP, None));
        assert!(!overslept(ms(3), Stops::STEP, Some(ms(0))), "it ended early");
    }

    #[test]
    fn who_was_told_to_go_on_or_whose_child_was_stopped_was_stopped() {
        let mut sleeps = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&sleeps);
        let mut stops = Stops::new().unwrap();
        assert!(!stops.was_continued());
        raise(SIGCONT).unwrap();
        assert!(stops.was_continued() && !stops.was_continued());

        let mut watch = stops.watch();
        let (came, counts) = watch.step(pid, Stops::STEP, || raise(SIGCONT).is_ok());
        assert!(came && counts.is_zero() && !watch.stopped().is_zero());
        assert!(!watch.child_was_stopped(pid));
        // The kernel tells of it when the child has come to stand.
        let mut until_it_was_stopped = |signal| {
            kill_process(pid, signal).unwrap();
            let deadline = Instant::now() + Duration::from_secs(60);
            while !watch.child_was_stopped(pid) {
                assert!(Instant::now() < deadline, "nothing was told of {signal:?}");
            }
            watch.child_was_stopped(pid)
        };
        assert!(until_it_was_stopped(Signal::STOP), "it still is");
        until_it_was_stopped(Signal::CONT);
        let deadline = Instant::now() + Duration::from_secs(60);
        while watch.child_was_stopped(pid) {
            assert!(Instant::now() < deadline, "it goes on");
        }
        sleeps.kill().unwrap();
        sleeps.wait().unwrap();
    }
}
