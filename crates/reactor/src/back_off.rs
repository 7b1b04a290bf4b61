//! Not to make workers as fast as they die.

use std::time::{Duration, Instant};

/// Holds back whoever makes workers when they die or cannot be made: the longer, the more did so in a row.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    failures: u32,
    until: Option<Instant>,
}

impl BackOff {
    /// After the first failure there is no wait; then 10 ms, doubled up to 5 s.
    pub fn failed(&mut self, now: Instant) {
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
    pub fn left(&self, now: Instant) -> Option<Duration> {
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
