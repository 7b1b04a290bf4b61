//! How many workers a pool has: who is idle, and when there are too few or too many.
//!
//! Workers note on a [`Scoreboard`] what they do. Whoever makes and ends them asks [`Sizing`] what to do about it. A
//! pool of a fixed size pays no more than a store for each change.

use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::options::Options;
use crate::shared::{Shareable, Shared};
use crate::wake_fd::WakeFd;

/// How many workers a pool has by default: as in Stevens' comparison.
const WORKERS: RangeInclusive<usize> = 15..=15;

/// How many workers a pool shall have: each serves one connection, so no more than connections may be served at once.
pub(crate) fn workers(options: &Options) -> RangeInclusive<usize> {
    let workers = options.workers.clone().unwrap_or(WORKERS);
    let most = options.max_connections;
    (*workers.start()).min(most)..=(*workers.end()).min(most)
}

/// How long a pool has had idle workers to spare before one of them ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// How many idle workers beside busy ones are none to spare: one for the next client, and one that would otherwise be
/// ended and made again with every other client.
const SPARE: usize = 2;

/// What a slot of a pool holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty = 0,
    Idle = 1,
    Busy = 2,
    /// Told to end when it serves nobody.
    Retiring = 3,
}

/// What each worker of a pool does. Forked children share it.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    slots: Shared<Slot>,
    /// Notified when nobody is idle any more.
    wake_fd: WakeFd,
    /// Whether the pool can grow.
    sized: bool,
}

/// Written by its worker, and by whoever makes and ends workers.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot(AtomicU32);

// SAFETY: an atomic, valid when zero.
#[allow(unsafe_code)]
unsafe impl Shareable for Slot {}

/// How many workers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub idle: usize,
    /// The others.
    pub busy: usize,
}

impl Scoreboard {
    /// All slots empty.
    ///
    /// # Errors
    ///
    /// If memory or descriptors are lacking.
    pub fn new(workers: &RangeInclusive<usize>) -> io::Result<Self> {
        Ok(Self {
            slots: Shared::zeroed(*workers.end())?,
            wake_fd: WakeFd::new()?,
            sized: workers.start() < workers.end(),
        })
    }

    /// Notified when the last idle worker has found work, if the pool can grow.
    pub fn wake_fd(&self) -> &WakeFd {
        &self.wake_fd
    }

    /// The worker has nothing to do.
    pub fn idle(&self, slot: usize) {
        // One that was told to end meanwhile, ends next: it counts as idle no more than for that moment.
        self.set(slot, State::Idle);
    }

    /// The worker has something to do.
    pub fn busy(&self, slot: usize, counters: &Counters) {
        self.set(slot, State::Busy);
        if self.sized && !(0..self.slots.len()).any(|other| self.is(other, State::Idle)) {
            counters.other_calls.add(1);
            self.wake_fd.notify();
        }
    }

    /// There is no worker.
    pub fn empty(&self, slot: usize) {
        self.set(slot, State::Empty);
    }

    /// A slot without worker.
    pub fn free(&self) -> Option<usize> {
        (0..self.slots.len()).find(|&slot| self.is(slot, State::Empty))
    }

    /// Picks an idle worker to end, but not `except`.
    pub fn retire(&self, except: Option<usize>) -> Option<usize> {
        (0..self.slots.len())
            .rev()
            .filter(|&slot| Some(slot) != except)
            .find(|&slot| self.change(slot, State::Idle, State::Retiring))
    }

    /// A worker picked to end stays.
    pub fn keep(&self, slot: usize) {
        self.change(slot, State::Retiring, State::Idle);
    }

    /// Whether this worker shall end now that it serves nobody.
    pub fn is_retiring(&self, slot: usize) -> bool {
        self.is(slot, State::Retiring)
    }

    /// The workers picked to end that are still there and not known to do anything else.
    pub fn retiring(&self) -> impl Iterator<Item = usize> {
        (0..self.slots.len()).filter(|&slot| self.is(slot, State::Retiring))
    }

    /// How many workers there are now.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for slot in 0..self.slots.len() {
            if self.is(slot, State::Idle) {
                counts.idle += 1;
            } else if !self.is(slot, State::Empty) {
                counts.busy += 1;
            }
        }
        counts
    }

    /// Unless it has changed otherwise: a worker that was idle may have found work.
    fn change(&self, slot: usize, from: State, to: State) -> bool {
        let word = &self.slots[slot].0;
        word.compare_exchange(from as u32, to as u32, SeqCst, SeqCst)
            .is_ok()
    }

    fn set(&self, slot: usize, state: State) {
        // Sequentially consistent, with the loads in `is`: of two workers that turn busy at once, the later in this
        // order sees both, and notifies.
        self.slots[slot].0.store(state as u32, SeqCst);
    }

    fn is(&self, slot: usize, state: State) -> bool {
        self.slots[slot].0.load(SeqCst) == state as u32
    }
}

/// When a pool grows and shrinks.
///
/// It grows by one whenever nobody is idle, up to the most. It shrinks by one, down to the least, whenever there have
/// been idle workers to spare for [`PATIENCE`]: more than two, or nobody busy at all. So it does not follow every
/// client, and after a burst it takes a second for each worker that it made.
#[derive(Debug)]
pub(crate) struct Sizing {
    workers: RangeInclusive<usize>,
    /// Since when there have been idle ones to spare.
    spare_since: Option<Instant>,
}

/// What to do about a pool's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing until the descriptor is notified, a worker ends or, if given, this time has passed.
    None(Option<Duration>),
    /// Make one.
    Grow,
    /// End one.
    Shrink,
}

impl Sizing {
    /// Within these bounds.
    pub fn new(workers: RangeInclusive<usize>) -> Self {
        Self {
            workers,
            spare_since: None,
        }
    }

    /// What to do now. After [`Change::Grow`] and [`Change::Shrink`], ask again.
    pub fn decide(&mut self, counts: Counts, now: Instant) -> Change {
        let all = counts.idle + counts.busy;
        if all < *self.workers.start() || (counts.idle == 0 && all < *self.workers.end()) {
            return Change::Grow;
        }
        let to_spare = counts.idle > SPARE || counts.busy == 0;
        if all > *self.workers.start() && to_spare {
            let since = *self.spare_since.get_or_insert(now);
            if now.duration_since(since) >= PATIENCE {
                self.spare_since = Some(now);
                return Change::Shrink;
            }
        } else {
            self.spare_since = None;
        }
        Change::None((all > *self.workers.start()).then_some(PATIENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool in simulated time.
    struct Simulated {
        sizing: Sizing,
        all: usize,
        now: Instant,
    }

    impl Simulated {
        fn new(workers: RangeInclusive<usize>) -> Self {
            Self {
                sizing: Sizing::new(workers),
                all: 0,
                now: Instant::now(),
            }
        }

        /// Asks until there is nothing to do, with so many busy, and says how many there are then and what it waits
        /// for.
        fn settle(&mut self, busy: usize) -> (usize, Option<Duration>) {
            loop {
                let busy = busy.min(self.all);
                let counts = Counts {
                    idle: self.all - busy,
                    busy,
                };
                match self.sizing.decide(counts, self.now) {
                    Change::Grow => self.all += 1,
                    Change::Shrink => self.all -= 1,
                    Change::None(wait) => return (self.all, wait),
                }
            }
        }
    }

    #[test]
    fn the_least_stay_however_long_they_are_idle() {
        let mut sizing = Sizing::new(2..=4);
        let (counts, start) = (Counts { idle: 2, busy: 0 }, Instant::now());
        for seconds in 0..10 {
            let change = sizing.decide(counts, start + Duration::from_secs(seconds));
            assert_eq!(change, Change::None(None), "{seconds}");
        }
    }

    #[test]
    fn it_begins_with_the_least_and_grows_while_nobody_is_idle() {
        let mut pool = Simulated::new(2..=5);
        assert_eq!(pool.settle(0), (2, None));
        assert_eq!(pool.settle(1), (2, None));
        assert_eq!(pool.settle(2).0, 3);
        assert_eq!(pool.settle(4).0, 5);
        assert_eq!(pool.settle(5).0, 5, "never more than the most");
    }

    #[test]
    fn it_shrinks_by_one_after_each_wait_and_then_waits_no_more() {
        let mut pool = Simulated::new(1..=4);
        pool.settle(4);
        assert_eq!(pool.settle(0), (4, Some(PATIENCE)));
        for left in [3, 2] {
            pool.now += PATIENCE;
            assert_eq!(pool.settle(0), (left, Some(PATIENCE)));
        }
        pool.now += PATIENCE;
        assert_eq!(pool.settle(0), (1, None), "no wake-ups at the least");
    }

    #[test]
    fn a_moment_of_load_keeps_all() {
        let mut pool = Simulated::new(1..=6);
        pool.settle(5);
        for _ in 0..10 {
            assert_eq!(pool.settle(1).0, 6);
            pool.now += PATIENCE - Duration::from_millis(1);
            assert_eq!(pool.settle(4).0, 6, "two idle ones are none to spare");
            pool.now += Duration::from_millis(1);
        }
    }

    #[test]
    fn a_fixed_pool_replaces_and_never_waits() {
        let mut pool = Simulated::new(3..=3);
        assert_eq!(pool.settle(3), (3, None));
        pool.all -= 1;
        assert_eq!(pool.settle(0), (3, None));
    }

    #[test]
    fn the_bell_rings_with_the_last_idle_one() {
        let counters = Counters::default();
        let scoreboard = Scoreboard::new(&(1..=3)).expect("memory");
        scoreboard.idle(0);
        scoreboard.idle(1);
        assert_eq!(scoreboard.free(), Some(2));
        scoreboard.busy(0, &counters);
        assert_eq!(counters.other_calls.get(), 0);
        scoreboard.busy(1, &counters);
        assert_eq!(counters.other_calls.get(), 1);
        assert_eq!(scoreboard.counts(), Counts { idle: 0, busy: 2 });
        assert_eq!(scoreboard.retire(None), None);
        scoreboard.idle(0);
        assert_eq!(scoreboard.retire(Some(0)), None);
        assert_eq!(scoreboard.retire(None), Some(0));
        assert_eq!(scoreboard.retiring().collect::<Vec<_>>(), [0]);
        assert_eq!(scoreboard.counts(), Counts { idle: 0, busy: 2 });
    }
}
