//! How far a call is, told on the caller's thread while it runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How far a call is. See [`ConcurrentExecution::on_progress`](crate::ConcurrentExecution::on_progress).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Objects that are processed and finished, failed ones included.
    pub finished: usize,
    /// Objects that carriers have taken; those that are not finished are at work, about to be, or wait for the
    /// finisher.
    pub started: usize,
    /// How many objects there are, if the iterator knew it at the start.
    pub total: Option<usize>,
    /// Since the start of the call.
    pub elapsed: Duration,
}

impl Progress {
    /// How long the rest will take if it goes on as it went so far. `None` while that cannot be known.
    ///
    /// ```
    /// # use std::num::NonZeroUsize;
    /// # use threadgauge_exec::ConcurrentExecution;
    /// ConcurrentExecution::new(NonZeroUsize::MIN)
    ///     .on_progress(std::time::Duration::ZERO, |progress| {
    ///         if progress.finished == 3 {
    ///             assert!(progress.remaining().unwrap().is_zero());
    ///         }
    ///     })
    ///     .for_each([1, 2, 3], |n| *n, |_| ());
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let left = self.total?.saturating_sub(self.finished);
        (self.finished > 0).then(|| self.elapsed.mul_f64(left as f64 / self.finished as f64))
    }
}

/// Whom to tell, and how often.
#[derive(Clone)]
pub(crate) struct Listener {
    every: Duration,
    tell: Arc<dyn Fn(Progress) + Send + Sync>,
    /// Objects taken, as told by those who give them out. A call has its own.
    pub(crate) started: Arc<AtomicUsize>,
}

impl Listener {
    pub(crate) fn new(every: Duration, tell: Arc<dyn Fn(Progress) + Send + Sync>) -> Self {
        Self {
            every,
            tell,
            started: Arc::default(),
        }
    }

    /// The same listener for another call.
    pub(crate) fn for_a_call(&self) -> Self {
        Self::new(self.every, Arc::clone(&self.tell))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

/// Tells the listener of one call.
pub(crate) struct Reporter {
    listener: Listener,
    total: Option<usize>,
    epoch: Instant,
    /// When the object ended that was told of last.
    told_ns: Option<u64>,
}

impl Reporter {
    pub(crate) fn new(listener: &Listener, size_hint: (usize, Option<usize>), epoch: Instant) -> Self {
        let (low, high) = size_hint;
        Self {
            listener: listener.clone(),
            total: high.filter(|high| *high == low),
            epoch,
            told_ns: None,
        }
    }

    /// An object was finished that had ended at this time: tells it if it is time to.
    pub(crate) fn finished(&mut self, finished: usize, ended_ns: u64) {
        let since = |told_ns| Duration::from_nanos(ended_ns.saturating_sub(told_ns));
        if self
            .told_ns
            .is_none_or(|told_ns| since(told_ns) >= self.listener.every)
        {
            self.told_ns = Some(ended_ns);
            self.tell(finished);
        }
    }

    /// Tells it now.
    pub(crate) fn tell(&self, finished: usize) {
        (self.listener.tell)(Progress {
            finished,
            // Relaxed: a figure to look at.
            started: self.listener.started.load(Ordering::Relaxed),
            total: self.total,
            elapsed: self.epoch.elapsed(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_it_took_so_far_by_the_objects() {
        let seconds = Duration::from_secs;
        for (finished, total, remaining) in [
            (0, Some(6), None),
            (2, None, None),
            (1, Some(6), Some(seconds(40))),
            (2, Some(6), Some(seconds(16))),
            (6, Some(6), Some(seconds(0))),
            // The iterator had more than it said.
            (8, Some(6), Some(seconds(0))),
        ] {
            let progress = Progress {
                finished,
                started: 6,
                total,
                elapsed: seconds(8),
            };
            assert_eq!(progress.remaining(), remaining, "{finished} of {total:?}");
        }
    }
}
