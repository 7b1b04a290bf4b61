//! How long a thread goes on with sessions that have much to do while others wait for it.

use std::time::{Duration, Instant};

/// So long that what it does is sent in few calls, and so short that nobody notices who waits.
const LONGEST: Duration = Duration::from_millis(5);

/// A turn's time for what is much: sessions that were [interrupted](crate::connection::Connection::is_interrupted).
/// Time and not an amount, since nobody can say beforehand what an amount takes; it is looked at seldom, after some
/// thousand deliveries.
#[derive(Debug, Default)]
pub(crate) struct Slice(Option<Instant>);

impl Slice {
    /// A new turn begins.
    pub fn renew(&mut self) {
        self.0 = None;
    }

    /// Whether it is used up: the others come first. It begins when this is asked first.
    pub fn is_over(&mut self) -> bool {
        let now = Instant::now();
        now >= *self.0.get_or_insert(now + LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_after_a_while_and_then_begins_anew() {
        let mut slice = Slice::default();
        while !slice.is_over() {
            std::thread::yield_now();
        }
        assert!(slice.is_over());
        slice.renew();
        assert!(!slice.is_over());
    }
}
