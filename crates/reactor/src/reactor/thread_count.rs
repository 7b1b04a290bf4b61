//! How many threads a pool has, between the least and the most: one more whenever all are busy, one less when one too
//! many waits and none was missing for a while.
//!
//! Nobody waits for a time, so an idle pool uses none.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// For so long after all were busy nobody leaves.
const SHRINK_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct ThreadCount {
    bounds: RangeInclusive<usize>,
    threads: usize,
    /// Threads that wait for something to do.
    waiting: usize,
    /// When all were busy last.
    all_busy_at: Option<Instant>,
    /// Numbers that were given back.
    free: Vec<usize>,
}

impl ThreadCount {
    /// Within the bounds for what was asked for.
    pub fn new(asked: Option<RangeInclusive<usize>>) -> Self {
        Self {
            bounds: Self::bounds(asked),
            threads: 0,
            waiting: 0,
            all_busy_at: None,
            free: Vec::new(),
        }
    }

    /// As asked for; otherwise from two to two for each CPU.
    pub fn bounds(asked: Option<RangeInclusive<usize>>) -> RangeInclusive<usize> {
        let cpus = available_parallelism().map_or(1, NonZeroUsize::get);
        asked.unwrap_or(2..=(2 * cpus).clamp(2, 100))
    }

    /// The number of a thread to be started, below the most that there may be, if there are fewer than the least.
    pub fn first(&mut self) -> Option<usize> {
        (self.threads < *self.bounds.start()).then(|| self.start())
    }

    /// A thread begins to wait. `false`: it should end instead, and give back its number.
    pub fn wait(&mut self, number: usize) -> bool {
        let calm = || self.all_busy_at.is_none_or(|at| at.elapsed() > SHRINK_AFTER);
        // The first stays: it may be the thread that called the server, and that has to wait for the others.
        let may_leave = number > 0 && self.threads > *self.bounds.start();
        if may_leave && self.waiting > 0 && calm() {
            self.leave(number);
            return false;
        }
        self.waiting += 1;
        true
    }

    /// A thread has something to do.
    pub fn work(&mut self) {
        self.waiting -= 1;
    }

    /// Whether any thread waits.
    pub fn somebody_waits(&self) -> bool {
        self.waiting > 0
    }

    /// There are `pending` things to do. The number of a thread to be started, if too few wait for them.
    pub fn more(&mut self, pending: usize) -> Option<usize> {
        if self.waiting >= pending || self.threads >= *self.bounds.end() {
            return None;
        }
        self.all_busy_at = Some(Instant::now());
        Some(self.start())
    }

    /// A thread has ended, or could not be started.
    pub fn leave(&mut self, number: usize) {
        self.threads -= 1;
        self.free.push(number);
    }

    fn start(&mut self) -> usize {
        self.threads += 1;
        self.free.pop().unwrap_or(self.threads - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_when_all_are_busy_and_shrinks_when_calm() {
        let mut count = ThreadCount::new(Some(1..=3));
        assert_eq!((count.first(), count.first()), (Some(0), None));
        assert!(count.wait(0));
        assert_eq!(count.more(1), None, "one waits");
        assert_eq!(count.more(2), Some(1), "but not two");
        count.leave(1);
        count.work();
        assert_eq!(
            (count.more(1), count.more(1), count.more(1)),
            (Some(1), Some(2), None)
        );
        assert!(count.wait(1) && count.wait(0), "one was missing just now");
        count.all_busy_at = None;
        assert!(!count.wait(2));
        assert_eq!(count.threads, 2);
        count.work();
        count.work();
        assert_eq!(count.more(1), Some(2), "its number is used again");
    }
}
