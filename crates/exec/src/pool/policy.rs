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
const LONGEST_STREAK: u32 = 1 << 12;
/// What a long one takes off the streak of short ones: waking the caller itself makes some seem long.
const SETBACK: u32 = 8;
/// So many short ones outweigh a long one: it does not stop the caller.
pub(super) const SHORT_PER_LONG: u32 = 64;
/// More short ones than this do not count: three long ones in a row are outweighed, a fourth is not. And after so many
/// the caller's streak need not be longer than at first.
const MOST_CREDIT: u32 = 3 * SHORT_PER_LONG;

/// Whether the caller works.
pub(super) struct Policy {
    pub(super) mode: Mode,
    pub(super) working: bool,
    pub(super) streak: u32,
    needed: u32,
    /// Short ones since it works, less what long ones took off.
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

    /// The caller stops working, as the work is long or there is none for it.
    pub(super) fn stop(&mut self) {
        self.working = false;
        self.streak = 0;
        self.needed = (self.needed * 2).min(LONGEST_STREAK);
    }

    /// When the time to listen ends that began then.
    pub(super) fn trial(&self, since: Instant) -> Instant {
        since + if self.streak > 0 { PROMISING_TRIAL } else { TRIAL }
    }
}
