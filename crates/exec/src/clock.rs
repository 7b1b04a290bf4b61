//! The call's time for one thread: at a third of the price of the system's clock while little time passes.
//!
//! Reading the system's clock takes 27 ns, as much as all else that an empty processor costs. The CPU's counter takes
//! 10. So a `Clock` reads the system's now and then (an *anchor*) and the counter in between, at the rate that it saw
//! between its anchors. It trusts the counter for [`REACH_NS`] and no longer: whatever the counter does on an odd
//! machine (other rates, other CPUs, none at all), a time is wrong by no more than that, and a processor that takes
//! longer is timed by the system's clock. Time never goes back on one `Clock`.
#![allow(unsafe_code)]

use std::time::Instant;

/// How far from an anchor the counter is trusted.
const REACH_NS: u64 = 10_000;
/// How long a thread has to be watched before its counter's rate is known well enough: to a hundredth.
const LEARN_NS: u64 = 20_000;
/// An anchor is two counts with the clock between them. Further apart than this, something came between.
const CLOSE_TICKS: u64 = 1_000;

/// What the counter showed when the clock was read.
#[derive(Clone, Copy, Default)]
struct Anchor {
    ns: u64,
    ticks: u64,
}

pub(crate) struct Clock {
    epoch: Instant,
    first: Option<Anchor>,
    last: Anchor,
    /// Nanoseconds in 2³² ticks; how many ticks from `last` it holds. Both zero as long as nothing is known.
    rate: u64,
    reach: u64,
    shown_ns: u64,
}

impl Clock {
    /// Shows nanoseconds since `epoch`.
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            first: None,
            last: Anchor::default(),
            rate: 0,
            reach: 0,
            shown_ns: 0,
        }
    }

    /// The time, right to [`REACH_NS`] and mostly to some nanoseconds.
    #[inline]
    pub(crate) fn now_ns(&mut self) -> u64 {
        let ticks = counter().wrapping_sub(self.last.ticks);
        if ticks < self.reach {
            // Below 2³² ticks from the anchor, and a rate below 2³², as `anchor` saw to.
            self.shown_ns = self.shown_ns.max(self.last.ns + ((ticks * self.rate) >> 32));
            return self.shown_ns;
        }
        self.clock_ns()
    }

    /// The time by the clock.
    #[cold]
    #[inline(never)]
    pub(crate) fn clock_ns(&mut self) -> u64 {
        let before = counter();
        let ns = self.epoch.elapsed().as_nanos() as u64;
        let after = counter();
        self.anchor(
            Anchor { ns, ticks: before },
            after.wrapping_sub(before) <= CLOSE_TICKS,
        );
        self.shown_ns = self.shown_ns.max(ns);
        self.shown_ns
    }

    fn anchor(&mut self, anchor: Anchor, close: bool) {
        self.last = anchor;
        self.reach = 0;
        if !close {
            return;
        }
        let first = *self.first.get_or_insert(anchor);
        let (ns, ticks) = (anchor.ns - first.ns, anchor.ticks.wrapping_sub(first.ticks));
        // From a tenth of a GHz to 100 of them; a counter that stands still or jumps is left alone.
        if ns >= LEARN_NS && ticks > ns / 10 && ticks / 100 < ns && ns < 1 << 32 {
            self.rate = (ns << 32) / ticks;
        }
        self.reach = (REACH_NS << 32).checked_div(self.rate).unwrap_or(0);
    }
}

/// The CPU's counter of time.
#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux leaves it to programs.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// None here: every time is the clock's.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        Clock::new(Instant::now())
    }

    #[test]
    fn it_shows_the_clock_and_never_goes_back() {
        let mut clock = clock();
        let mut last_ns = 0;
        for _ in 0..100_000 {
            let before_ns = clock.epoch.elapsed().as_nanos() as u64;
            let shown_ns = clock.now_ns();
            let after_ns = clock.epoch.elapsed().as_nanos() as u64;
            assert!(shown_ns >= last_ns);
            assert!(
                shown_ns + REACH_NS >= before_ns && shown_ns <= after_ns + REACH_NS,
                "{before_ns} {shown_ns} {after_ns}"
            );
            last_ns = shown_ns;
        }
    }

    #[test]
    fn the_rate_comes_from_anchors_that_are_far_enough_apart() {
        let mut clock = clock();
        clock.anchor(Anchor { ns: 100, ticks: 0 }, true);
        assert_eq!(clock.reach, 0);
        clock.anchor(
            Anchor {
                ns: 100 + LEARN_NS,
                ticks: 2 * LEARN_NS,
            },
            true,
        );
        // Two ticks a nanosecond.
        assert_eq!((clock.rate, clock.reach), (1 << 31, 2 * REACH_NS));
    }

    #[test]
    fn a_counter_that_stands_or_an_anchor_that_was_disturbed_is_not_trusted() {
        let mut clock = clock();
        clock.anchor(Anchor { ns: 0, ticks: 5 }, true);
        clock.anchor(
            Anchor {
                ns: 1 << 20,
                ticks: 5,
            },
            true,
        );
        assert_eq!(clock.reach, 0);
        clock.anchor(
            Anchor {
                ns: 2 << 20,
                ticks: 5 + (2 << 20),
            },
            true,
        );
        assert!(clock.reach > 0);
        clock.anchor(
            Anchor {
                ns: 3 << 20,
                ticks: 5 + (3 << 20),
            },
            false,
        );
        assert_eq!(clock.reach, 0);
    }
}
