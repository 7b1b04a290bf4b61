//! The times of one loop: at most one for each token, which is of whom it concerns.
//!
//! Nothing is taken out before its time. Who sets a time again for every message (an idle time-out) leaves the one that
//! is set, looks when it goes off how much is left, and sets it anew: that costs nothing a message. The time of a
//! connection that is closed goes off for the next in its slot, which does the same: so there are never more times than
//! slots.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::interest::Token;

#[derive(Debug, Default)]
pub(crate) struct Timers {
    order: BTreeSet<(Instant, Token)>,
    by_token: BTreeMap<Token, Instant>,
}

impl Timers {
    /// Has the token go off at `at`, unless it does so before.
    pub fn set(&mut self, at: Instant, token: Token) {
        match self.by_token.entry(token) {
            Entry::Vacant(entry) => {
                entry.insert(at);
            }
            Entry::Occupied(entry) if *entry.get() <= at => return,
            Entry::Occupied(mut entry) => {
                self.order.remove(&(entry.insert(at), token));
            }
        }
        self.order.insert((at, token));
    }

    /// The next time at which something goes off.
    pub fn next(&self) -> Option<Instant> {
        self.order.first().map(|&(at, _)| at)
    }

    /// Takes one out that has gone off by `now`.
    pub fn due(&mut self, now: Instant) -> Option<Token> {
        if self.next()? > now {
            return None;
        }
        let (_, token) = self.order.pop_first()?;
        self.by_token.remove(&token);
        Some(token)
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

    #[test]
    fn a_token_has_the_earliest_of_the_times_set_for_it() {
        let (mut timers, start) = (Timers::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for seconds in [20, 30, 10, 10, 15] {
            timers.set(at(seconds), Token::new(7));
        }
        timers.set(at(25), Token::new(8));
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.due(at(60)), Some(Token::new(7)));
        assert_eq!(timers.due(at(60)), Some(Token::new(8)));
        assert_eq!((timers.due(at(60)), timers.next()), (None, None));
        timers.set(at(60), Token::new(7));
        assert_eq!(timers.next(), Some(at(60)), "it can be set again");
    }

    #[test]
    fn connections_that_come_and_go_in_one_slot_leave_one_time() {
        let (mut timers, start) = (Timers::default(), Instant::now());
        for seconds in 0..1_000 {
            timers.set(start + Duration::from_secs(3_600 + seconds), Token::new(7));
        }
        assert_eq!((timers.order.len(), timers.by_token.len()), (1, 1));
        assert_eq!(timers.next(), Some(start + Duration::from_secs(3_600)));
    }
}
