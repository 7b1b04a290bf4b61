//! Whether the caller runs processors itself: a decision from the service times it sees.

use std::time::{Duration, Instant};

use crate::settings::{Mode, Settings};

/// A service time up to this is small: what waking a thread on another CPU costs.
pub(super) const SMALL_NS: u64 = 20_000;
/// By how many the short service times must outweigh the long ones (each counts [`SETBACK`]) before the caller works.
pub(super) const STREAK: u32 = 8;
/// How long the caller listens with one CPU to itself before it lets workers have that CPU as well: once all CPUs are
/// busy, a caller that is woken may have to wait a scheduler's slice (milliseconds) to see how short the work is. So it
/// does at first, and whenever it has stopped working.
const TRIAL: Duration = Duration::from_micros(200);
/// The same, once it has seen short ones.
const PROMISING_TRIAL: Duration = Duration::from_millis(1);
/// What a long one takes off the streak of short ones: waking the caller itself makes some seem long.
const SETBACK: u32 = 8;
/// So many short ones outweigh a long one: it does not stop the caller.
pub(super) const SHORT_PER_LONG: u32 = 64;
/// More short ones than this do not count: three long ones in a row are outweighed, a fourth is not. And after so many
/// the caller's streak need not be longer than at first: a longer one than this is never waited for.
const MOST_CREDIT: u32 = 3 * SHORT_PER_LONG;
/// As the only carrier: an object up to this, with what came before it, is not worth a second reading of the clock;
/// after a longer one so many objects are timed from their own start.
const BRIEF_NS: u64 = 1_000;
const TIMED: u32 = 256;

/// Whether the caller works.
pub(super) struct Policy {
    pub(super) mode: Mode,
    pub(super) working: bool,
    pub(super) streak: u32,
    needed: u32,
    /// Short ones since it last began to work, less what long ones took off while it did.
    credit: u32,
}

impl Policy {
    pub(super) fn new(settings: &Settings) -> Self {
        // A caller at work could not set the token at the deadline.
        let mode = if settings.deadline.is_some() {
            Mode::FreeCaller
        } else {
            settings.mode
        };
        Self {
            mode,
            working: mode == Mode::Throughput,
            streak: 0,
            needed: STREAK,
            credit: 0,
        }
    }

    #[inline]
    pub(super) fn observe(&mut self, service_ns: u64) {
        if self.mode != Mode::Prompt {
            return;
        }
        if service_ns <= SMALL_NS {
            self.streak = self.streak.saturating_add(1);
            self.credit = (self.credit + 1).min(MOST_CREDIT);
            self.streak = self.streak.min(self.needed);
            if self.streak == self.needed && !self.working {
                self.working = true;
                self.credit = 0;
            }
            if self.credit == MOST_CREDIT {
                self.needed = STREAK;
            }
        } else {
            self.streak = self.streak.saturating_sub(SETBACK);
            if !self.working {
                return;
            }
            if self.credit >= SHORT_PER_LONG {
                // Rare ones are the scheduler's: leaving and coming back would cost more wake-ups than it saves.
                self.credit -= SHORT_PER_LONG;
            } else {
                self.stop();
            }
        }
    }

    /// The caller stops working, as the work is long.
    fn stop(&mut self) {
        self.working = false;
        self.streak = 0;
        // Twice as much as was reached, which was below `MOST_CREDIT`.
        self.needed *= 2;
    }

    /// When the time to listen ends that began then.
    pub(super) fn trial(&self, since: Instant) -> Instant {
        since + if self.streak > 0 { PROMISING_TRIAL } else { TRIAL }
    }
}

/// Whether the start of an object is read from the clock, where the one before it ended when it starts.
pub(super) struct Starts {
    /// Of so many to come.
    timed: u32,
}

impl Starts {
    pub(super) fn new() -> Self {
        Self { timed: TIMED }
    }

    /// Where there is a deadline, each is.
    #[inline]
    pub(super) fn next_is_read(&mut self, deadline: bool) -> bool {
        let read = self.timed > 0 || deadline;
        self.timed = self.timed.saturating_sub(1);
        read
    }

    /// An object, with what came before it, took from then until then.
    #[inline]
    pub(super) fn observe(&mut self, before_ns: u64, ended_ns: u64) {
        if ended_ns - before_ns > BRIEF_NS {
            self.timed = TIMED;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::ConcurrentExecution;

    const SHORT_NS: u64 = SMALL_NS;
    const LONG_NS: u64 = SMALL_NS + 1;

    fn execution(mode: Mode) -> ConcurrentExecution {
        ConcurrentExecution::new(NonZeroUsize::MIN).mode(mode)
    }

    fn policy(mode: Mode) -> Policy {
        Policy::new(&execution(mode).settings_of_a_call())
    }

    fn see(policy: &mut Policy, times: u32, service_ns: u64) {
        (0..times).for_each(|_| policy.observe(service_ns));
    }

    /// How many short ones it takes until the caller works.
    fn short_ones(policy: &mut Policy) -> usize {
        let mut seen = 0;
        while !policy.working {
            policy.observe(SHORT_NS);
            seen += 1;
            assert!(seen < 10_000);
        }
        seen
    }

    #[test]
    fn the_caller_works_after_a_streak_which_a_long_one_sets_back() {
        assert_eq!(short_ones(&mut policy(Mode::Prompt)), 8);
        let mut set_back = policy(Mode::Prompt);
        see(&mut set_back, 7, SHORT_NS);
        see(&mut set_back, 1, LONG_NS);
        assert_eq!(short_ones(&mut set_back), 8);
        let mut longer = policy(Mode::Prompt);
        longer.stop();
        see(&mut longer, 15, SHORT_NS);
        see(&mut longer, 1, LONG_NS);
        assert_eq!(short_ones(&mut longer), 9, "a long one takes off eight");
    }

    #[test]
    fn a_long_one_stops_the_caller_unless_64_short_ones_outweigh_it() {
        for (short, outweighed) in [(0, 0), (63, 0), (64, 1), (127, 1), (128, 2), (1_000, 3)] {
            let mut policy = policy(Mode::Prompt);
            see(&mut policy, 8 + short, SHORT_NS);
            see(&mut policy, outweighed, LONG_NS);
            assert!(policy.working, "{outweighed} after {short}");
            see(&mut policy, 1, LONG_NS);
            assert!(!policy.working, "one more than {outweighed} after {short}");
        }
    }

    #[test]
    fn after_each_stop_the_streak_is_twice_as_long_until_much_was_short() {
        let mut policy = policy(Mode::Prompt);
        for streak in [8, 16, 32] {
            assert_eq!(short_ones(&mut policy), streak);
            policy.stop();
        }
        assert_eq!(short_ones(&mut policy), 64);
        see(&mut policy, 3 * 64, SHORT_NS);
        see(&mut policy, 4, LONG_NS);
        assert_eq!(short_ones(&mut policy), 16, "twice the first");
    }

    #[test]
    fn no_streak_is_longer_than_the_most_that_short_ones_count() {
        let mut policy = policy(Mode::Prompt);
        let streaks = [(); 12].map(|()| {
            let streak = short_ones(&mut policy);
            policy.stop();
            streak
        });
        assert_eq!(streaks, [8, 16, 32, 64, 128, 193, 16, 32, 64, 128, 193, 16]);
    }

    #[test]
    fn an_objects_start_is_read_after_what_was_not_brief_and_where_there_is_a_deadline() {
        let reads = |starts: &mut Starts, times: u32, deadline| {
            (0..times).filter(|_| starts.next_is_read(deadline)).count()
        };
        let mut starts = Starts::new();
        assert_eq!(reads(&mut starts, 300, false), 256, "at first");
        assert_eq!(reads(&mut starts, 300, true), 300);
        let hour_ns = 3_600_000_000_000;
        for (took_ns, timed) in [(0, 0), (1_000, 0), (1_001, 256), (hour_ns, 256)] {
            starts.observe(hour_ns, hour_ns + took_ns);
            assert_eq!(reads(&mut starts, 300, false), timed, "{took_ns} ns");
        }
    }

    #[test]
    fn other_modes_do_not_depend_on_what_is_seen() {
        for (mode, works) in [(Mode::FreeCaller, false), (Mode::Throughput, true)] {
            let mut policy = policy(mode);
            for service_ns in [LONG_NS, SHORT_NS] {
                see(&mut policy, 1_000, service_ns);
                assert_eq!((policy.working, policy.streak), (works, 0), "{mode:?}");
            }
        }
        let with_deadline = execution(Mode::Throughput).deadline(Duration::MAX);
        let policy = Policy::new(&with_deadline.settings_of_a_call());
        assert_eq!((policy.mode, policy.working), (Mode::FreeCaller, false));
    }

    #[test]
    fn the_caller_listens_longer_once_it_has_seen_a_short_one() {
        let (mut policy, begun) = (policy(Mode::Prompt), Instant::now());
        assert_eq!(policy.trial(begun), begun + Duration::from_micros(200));
        policy.observe(SHORT_NS);
        assert_eq!(policy.trial(begun), begun + Duration::from_millis(1));
    }
}
