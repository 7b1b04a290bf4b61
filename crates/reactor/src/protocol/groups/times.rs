//! When what happened to a client, for others to see.
//!
//! What a client does is noted with the time of the turn. What is delivered to it is not, since a delivery is counted
//! already and should cost no more: whoever looks sees that there are more than at the last look.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Written by the client's session, read by anybody. The numbers say nothing of other memory, so all their accesses are
/// relaxed.
#[derive(Debug, Default)]
pub(super) struct Times {
    opened: OnceLock<Instant>,
    /// When it last did something, in nanoseconds since it was opened.
    acted_ns: AtomicU64,
    /// How long it took to answer, in nanoseconds; zero while that is not known.
    round_trip_ns: AtomicU64,
    delivered: Mutex<Delivered>,
}

/// What came of the last look.
#[derive(Debug, Default)]
struct Delivered {
    messages: u64,
    /// When it was first seen that there are so many.
    seen: Option<Instant>,
}

impl Times {
    /// It is there from now on.
    pub fn open(&self, now: Instant) {
        let _ = self.opened.set(now);
    }

    /// It does something.
    pub fn act(&self, now: Instant) {
        self.acted_ns.store(nanoseconds(now - self.opened(now)), Relaxed);
    }

    /// It has taken so long to answer.
    pub fn measured(&self, round_trip: Duration) {
        self.round_trip_ns.store(nanoseconds(round_trip).max(1), Relaxed);
    }

    /// It has answered what it was told when it was opened.
    pub fn measured_since_opened(&self, now: Instant) {
        self.measured(now - self.opened(now));
    }

    /// So many messages were delivered to it until now.
    pub fn notice(&self, messages: u64, now: Instant) {
        let mut delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        if delivered.messages != messages {
            *delivered = Delivered {
                messages,
                seen: Some(now),
            };
        }
    }

    /// When it came; now, if it is about to.
    pub fn opened(&self, now: Instant) -> Instant {
        self.opened.get().copied().unwrap_or(now)
    }

    /// When it last did something, or something was seen to have been delivered to it.
    pub fn active(&self, now: Instant) -> Instant {
        let acted = self.opened(now) + Duration::from_nanos(self.acted_ns.load(Relaxed));
        let delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        delivered.seen.map_or(acted, |seen| seen.max(acted))
    }

    /// How long it took to answer, if it ever did.
    pub fn round_trip(&self) -> Option<Duration> {
        let round_trip = self.round_trip_ns.load(Relaxed);
        (round_trip > 0).then_some(Duration::from_nanos(round_trip))
    }
}

/// 584 years fit.
fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}
