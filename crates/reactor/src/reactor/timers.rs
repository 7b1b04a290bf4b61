//! The times of one loop: a heap of instants, each with the token of whom it concerns.
//!
//! Nothing is ever taken out before its time. Who sets a time again for every message (an idle time-out) keeps one
//! entry in the heap, looks when it goes off how much is left, and sets it anew: that costs nothing a message.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::Token;

#[derive(Debug, Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<(Instant, Token)>>);

impl Timers {
    pub fn set(&mut self, at: Instant, token: Token) {
        self.0.push(Reverse((at, token)));
    }

    /// The next time at which something goes off.
    pub fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one out that has gone off by `now`.
    pub fn due(&mut self, now: Instant) -> Option<Token> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, token))| token)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn they_go_off_in_the_order_of_their_times() {
        let (mut timers, start) = (Timers::default(), Instant::now());
        for millis in [30, 10, 20] {
            timers.set(start + Duration::from_millis(millis), Token::new(millis as u32));
        }
        assert_eq!(timers.due(start), None);
        let later = start + Duration::from_millis(20);
        assert_eq!(timers.due(later), Some(Token::new(10)));
        assert_eq!(timers.due(later), Some(Token::new(20)));
        assert_eq!(timers.due(later), None);
        assert_eq!(timers.next(), Some(start + Duration::from_millis(30)));
    }
}
