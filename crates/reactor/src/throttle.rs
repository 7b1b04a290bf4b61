//! How long a sender is held up at a time by receivers that will be dropped if they go on taking nothing.
//!
//! A receiver with too much waiting ([`Options::holds_up_above`](crate::options::Options::holds_up_above)) holds up
//! those who send to it: nothing is read from them until it has taken half of its limit, or is gone. With
//! [`Overflow::Wait`] that is all. With [`Overflow::Drop`] nobody shall be stopped by one who takes nothing: so a
//! sender is held up for [`LONGEST`] at most; then it has a turn, which is what one receive brings, and is held up
//! again if anybody still takes too little.
//!
//! The time is the sender's, whoever holds it up: several receivers that are stuck cost it no more than one. While one
//! is, a sender gets 64 KiB in ten milliseconds from its client, until what is left of the receiver's limit is used up
//! and it is dropped: with 64 MiB, of which a quarter is left, that takes a fast sender 2.6 s.
//!
//! [`Overflow::Wait`]: crate::Overflow::Wait
//! [`Overflow::Drop`]: crate::Overflow::Drop

use std::time::{Duration, Instant};

/// So long that a receiver that takes a few megabytes a second is not dropped at all, and so short that who sends in
/// conversation does not notice. The NATS server lets a client be held up as long for each time that it reads from it.
pub(crate) const LONGEST: Duration = Duration::from_millis(10);

/// Back-pressure on a sender, limited in time: how far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Throttle {
    /// No time was set: it has to wait as long as it is held up.
    #[default]
    Endless,
    /// It has to wait until then.
    Until(Instant),
    /// It has a turn.
    Over,
}

impl Throttle {
    /// Sets its time, unless that was done.
    pub fn begin(&mut self, now: Instant) {
        if *self == Self::Endless {
            *self = Self::Until(now + LONGEST);
        }
    }

    /// When it will be over.
    pub fn until(self) -> Option<Instant> {
        match self {
            Self::Until(at) => Some(at),
            Self::Endless | Self::Over => None,
        }
    }

    /// Whether it is over just now.
    pub fn ends(&mut self, now: Instant) -> bool {
        let ends = self.until().is_some_and(|at| at <= now);
        if ends {
            *self = Self::Over;
        }
        ends
    }

    /// It has had its turn, or is not held up any more.
    pub fn clear(&mut self) {
        *self = Self::Endless;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_comes_once_in_the_longest_time() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        assert!(!throttle.ends(start), "nobody has begun");
        let until = start + LONGEST;
        throttle.begin(start);
        assert_eq!(throttle.until(), Some(until));
        throttle.begin(start + LONGEST / 2);
        assert_eq!(throttle.until(), Some(until), "it goes on");
        assert!(!throttle.ends(until - Duration::from_nanos(1)));
        assert!(throttle.ends(until));
        throttle.begin(until);
        assert_eq!(throttle, Throttle::Over, "it has a turn");
        throttle.clear();
        throttle.begin(until);
        assert_eq!(throttle.until(), Some(until + LONGEST));
    }
}
