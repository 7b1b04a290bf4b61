//! What the preforked designs share: children made beforehand that each accept and serve, and a parent that replaces
//! those that die and sizes the pool. A design says how a child gets its next connection.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::blocking::Worker;
use crate::counters::{CloseReason, Counters};
use crate::design::processes::{Family, News};
use crate::error::Error;
use crate::fork::{InChild, Order};
use crate::id::ConnectionId;
use crate::listen::Accepted;
use crate::pool::{Change, Scoreboard, Sizing};
use crate::protocol::Protocol;
use crate::server::Serving;
use crate::stop::{poll_once, timespec};

/// How many workers there are by default: as in Stevens' comparison.
pub(super) const WORKERS: RangeInclusive<usize> = 15..=15;

/// How long a worker waits before it tries again to accept, when descriptors or memory were lacking.
const RETRY: Duration = Duration::from_millis(50);

/// What is watched beside the children.
const STOP: usize = 0;
const BELL: usize = 1;

/// How a preforked design differs from another.
pub(super) trait Prefork {
    /// In a child: gets the next connection. Blocks until there is one, a signal comes or the listener is closed.
    fn next(&self, slot: usize, counters: &Counters) -> Result<Accepted, Error>;

    /// In the parent: a child has ended, perhaps in the middle of [`next`](Self::next).
    fn ended(&self, slot: usize) {
        let _ = slot;
    }

    /// In the parent: wakes every child that waits in [`next`](Self::next), for good.
    fn close(&self);
}

/// Serves with a pool of children until the stop.
pub(super) fn run<P: Protocol>(
    serving: &Serving<P>,
    name: &'static str,
    design: &impl Prefork,
) -> Result<(), Error> {
    let workers = serving.options.workers.clone().unwrap_or(WORKERS);
    let mut family = Family::new(name, *workers.end())?;
    let board = Scoreboard::new(&workers).map_err(Error::io("making memory shared with children"))?;
    family.watch(serving.stop(), STOP)?;
    family.watch(board.bell(), BELL)?;
    let mut parent = Parent {
        serving,
        design,
        counters: serving.board.block(*workers.end()),
        family,
        board,
        lost: vec![0; *workers.end()],
        back_off: BackOff::default(),
    };
    let outcome = parent.look_after(Sizing::new(workers));
    design.close();
    let drained = parent.drain();
    outcome.and(drained)
}

/// What the parent knows.
struct Parent<'a, P, D> {
    serving: &'a Serving<P>,
    design: &'a D,
    /// Its own.
    counters: &'a Counters,
    family: Family,
    board: Scoreboard,
    /// By slot, how many connections its children took with them when they died.
    lost: Vec<u64>,
    back_off: BackOff,
}

impl<P: Protocol, D: Prefork> Parent<'_, P, D> {
    fn look_after(&mut self, mut sizing: Sizing) -> Result<(), Error> {
        let mut news = Vec::new();
        loop {
            let now = Instant::now();
            let limit = match sizing.decide(self.board.counts(), now) {
                Change::Grow => match self.back_off.left(now) {
                    None => {
                        self.begin(now);
                        continue;
                    }
                    left => left,
                },
                Change::Shrink => {
                    self.retire();
                    continue;
                }
                Change::None(limit) => limit,
            };
            self.counters.waits.add(1);
            self.family.wait(limit, &mut news)?;
            self.counters.wake_ups.add(1);
            for news in &news {
                match *news {
                    News::Ended(slot) => self.reap(slot),
                    News::Ready(STOP) => return Ok(()),
                    News::Ready(_) => self.board.bell().quiet(),
                }
            }
        }
    }

    /// Makes a child, or puts that off.
    fn begin(&mut self, now: Instant) {
        let Some(slot) = self.board.free() else {
            return;
        };
        // Before it exists, so that a child which is slow to come up does not call for others.
        self.board.idle(slot);
        let (serving, design, board) = (self.serving, self.design, &self.board);
        self.counters.other_calls.add(3);
        match self
            .family
            .fork(slot, &mut None, |_| work(serving, design, board, slot))
        {
            Ok(()) => self.counters.units_created.add(1),
            Err(_) => {
                self.board.empty(slot);
                self.back_off.failed(now);
            }
        }
    }

    /// Tells an idle child to end, and again those that have not: a signal that comes just before a child blocks is
    /// seen only when it wakes.
    fn retire(&mut self) {
        self.board.retire();
        for slot in self.board.retiring() {
            self.counters.other_calls.add(1);
            self.family.tell(slot, Order::Retire);
        }
    }

    fn reap(&mut self, slot: usize) {
        let ended = self.family.reap(slot);
        self.counters.other_calls.add(2);
        if ended.is_some_and(|ended| !ended.is_well()) {
            self.back_off.failed(Instant::now());
        }
        self.ended(slot, CloseReason::Lost);
    }

    fn ended(&mut self, slot: usize, reason: CloseReason) {
        self.design.ended(slot);
        self.board.empty(slot);
        let block = self.serving.board.block(slot);
        let lost = block.accepted.get().saturating_sub(block.all_closed());
        for _ in self.lost[slot]..lost {
            self.counters.closed(reason);
        }
        self.lost[slot] = lost;
    }

    fn drain(&mut self) -> Result<(), Error> {
        let mut ended = Vec::new();
        let drained = self
            .family
            .drain(self.serving.options.drain, |slot| ended.push(slot));
        for slot in ended {
            self.ended(slot, CloseReason::DrainTime);
        }
        drained
    }
}

/// The life of a child.
fn work<P: Protocol>(
    serving: &Serving<P>,
    design: &impl Prefork,
    board: &Scoreboard,
    slot: usize,
) -> Result<(), Error> {
    let counters = serving.board.block(slot);
    let mut worker = Worker::new(serving, counters, InChild);
    while !InChild.shall_end() {
        let generation = counters.accepted.get() as u32;
        match design.next(slot, counters)? {
            Accepted::Connection(socket) => {
                board.busy(slot, counters);
                worker.serve(socket, ConnectionId::new(0, generation, slot as u32));
                board.idle(slot);
            }
            Accepted::Nobody => {}
            Accepted::Exhausted => {
                counters.waits.add(1);
                let listener = PollFd::new(&serving.listener, PollFlags::empty());
                // Should it fail, this was the pause.
                let _ = poll_once(&mut [listener], Some(&timespec(RETRY)));
                counters.wake_ups.add(1);
            }
            Accepted::Closed => break,
        }
    }
    Ok(())
}

/// Holds the parent back when children die or cannot be made: the longer, the more did so in a row.
#[derive(Debug, Default)]
struct BackOff {
    failures: u32,
    until: Option<Instant>,
}

impl BackOff {
    /// After the first failure there is no wait; then 10 ms, doubled up to 5 s.
    fn failed(&mut self, now: Instant) {
        const MOST: Duration = Duration::from_secs(5);
        // Who fails again long after the last time does so for the first time.
        if self.until.is_some_and(|until| now > until + MOST) {
            self.failures = 0;
        }
        let wait = match self.failures {
            0 => Duration::ZERO,
            failures => MOST.min(Duration::from_millis(10) * 2u32.pow((failures - 1).min(9))),
        };
        self.failures += 1;
        self.until = Some(now + wait);
    }

    /// How long it is until the next may be made.
    fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_held_back_longer_and_longer() {
        let (mut back_off, mut now) = (BackOff::default(), Instant::now());
        assert_eq!(back_off.left(now), None);
        back_off.failed(now);
        assert_eq!(back_off.left(now), None, "the first is replaced at once");
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            back_off.failed(now);
            let left = back_off.left(now).expect("a wait");
            assert!(left >= last && left <= Duration::from_secs(5));
            now += left;
            assert_eq!(back_off.left(now), None, "it ends");
            last = left;
        }
        assert_eq!(last, Duration::from_secs(5));
        now += Duration::from_secs(60);
        back_off.failed(now);
        assert_eq!(back_off.left(now), None, "long ago is forgotten");
    }
}
