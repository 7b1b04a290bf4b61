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
        self.anchor(Anchor { ns, ticks: before }, after);
        self.shown_ns = self.shown_ns.max(ns);
        self.shown_ns
    }

    /// `after`: what the counter showed once the clock had been read.
    fn anchor(&mut self, anchor: Anchor, after: u64) {
        self.last = anchor;
        self.reach = 0;
        if after.wrapping_sub(anchor.ticks) > CLOSE_TICKS {
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

/// The CPU's counter of time, where one is known; where it stands still every time is the clock's.
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux leaves it to programs.
    #[cfg(target_arch = "x86_64")]
    let ticks = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    let ticks = 0;
    ticks
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
    #[cfg(target_arch = "x86_64")]
    fn near_an_anchor_the_time_is_counted_from_it_and_beyond_it_is_the_clocks() {
        let begun = counter();
        assert!((0..1_000_000).any(|_| counter() != begun), "it stands still");
        let mut clock = clock();
        // Far from any time of the clock; 4,096 ticks a nanosecond; a while ago.
        clock.last = Anchor {
            ns: 1 << 50,
            ticks: counter().wrapping_sub(1 << 30),
        };
        (clock.rate, clock.reach) = (1 << 20, u64::MAX);
        let counted_ns = |last: Anchor| last.ns + (counter().wrapping_sub(last.ticks) >> 12);
        let before_ns = counted_ns(clock.last);
        let shown_ns = clock.now_ns();
        assert!((before_ns..=counted_ns(clock.last)).contains(&shown_ns));

        (clock.shown_ns, clock.reach) = (0, 1 << 29);
        let before_ns = clock.epoch.elapsed().as_nanos() as u64;
        let shown_ns = clock.now_ns();
        assert!((before_ns..=clock.epoch.elapsed().as_nanos() as u64).contains(&shown_ns));
    }

    /// A clock that was read at these times and counts, undisturbed, and then disturbed by so many ticks.
    fn read(anchors: &[(u64, u64)], disturbed: u64) -> Clock {
        let mut clock = clock();
        for &(ns, ticks) in anchors {
            clock.anchor(Anchor { ns, ticks }, ticks + disturbed);
        }
        clock
    }

    #[test]
    fn the_rate_comes_from_anchors_that_are_far_enough_apart() {
        assert_eq!(read(&[(100, 7)], 0).reach, 0);
        let clock = read(&[(100, 7), (100 + LEARN_NS, 7 + 2 * LEARN_NS)], 0);
        // Two ticks a nanosecond.
        assert_eq!((clock.rate, clock.reach), (1 << 31, 2 * REACH_NS));
    }

    #[test]
    fn a_counter_that_stands_or_jumps_or_an_anchor_that_was_disturbed_is_not_trusted() {
        let rate = |ns, ticks| read(&[(0, 0), (ns, ticks)], 0).rate;
        for (ns, ticks) in [
            (LEARN_NS - 1, LEARN_NS),
            (LEARN_NS, 0),
            (LEARN_NS, LEARN_NS / 10),
            (LEARN_NS, LEARN_NS * 100),
        ] {
            assert_eq!(rate(ns, ticks), 0, "{ns} ns, {ticks} ticks");
        }
        for (ns, ticks) in [
            (LEARN_NS, LEARN_NS / 10 + 1),
            (LEARN_NS, LEARN_NS * 100 - 1),
            ((1 << 32) - 1, 1 << 32),
        ] {
            assert_eq!(rate(ns, ticks), (ns << 32) / ticks, "{ns} ns, {ticks} ticks");
        }
        // What is known of the counter stays when it has run for longer than the sum holds.
        let long = read(&[(0, 0), (LEARN_NS, LEARN_NS), (1 << 32, 1 << 33)], 0);
        assert_eq!((long.rate, long.reach), (1 << 32, REACH_NS));

        let anchors = [(0, 0), (LEARN_NS, LEARN_NS)];
        assert_eq!(read(&anchors, CLOSE_TICKS).reach, REACH_NS);
        assert_eq!(read(&anchors, CLOSE_TICKS + 1).reach, 0);
        let mut close_once = read(&anchors, 0);
        close_once.anchor(
            Anchor {
                ns: 2 * LEARN_NS,
                ticks: 2 * LEARN_NS,
            },
            u64::MAX,
        );
        assert_eq!(close_once.reach, 0);
    }
}
