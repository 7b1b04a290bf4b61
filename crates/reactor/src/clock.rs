//! What time it is, for sessions: read when one asks, and not again before its turn is over.

use std::time::{Duration, Instant, SystemTime};

/// That time from now, unless no clock goes so far.
pub(crate) fn from_now(after: Duration) -> Option<Instant> {
    Instant::now().checked_add(after)
}

/// The time of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    now: Option<Instant>,
    day: Option<SystemTime>,
}

impl Clock {
    /// One that need not be read: it is now.
    pub fn at(now: Instant) -> Self {
        Self {
            now: Some(now),
            day: None,
        }
    }

    /// The same, at this time of day.
    pub fn of_day(self, day: SystemTime) -> Self {
        Self {
            day: Some(day),
            ..self
        }
    }

    /// The time.
    pub fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(Instant::now)
    }

    /// The time of day.
    pub fn time_of_day(&mut self) -> SystemTime {
        *self.day.get_or_insert_with(SystemTime::now)
    }
}
