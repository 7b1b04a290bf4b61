//! How much waits for each client, for whoever asks while the server runs.
//!
//! What waits is known where it is sent from: on a loop, or behind a lock. Nobody keeps a second account of it, which
//! each message would have to pay for; a design says how it can be asked, and is asked when somebody wants to know.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::id::ConnectionId;

/// Tells how much waits for the clients of a server. Clones tell the same.
#[derive(Clone, Default)]
pub struct Waiting(Arc<Mutex<Option<Ask>>>);

type Ask = Arc<dyn Fn() -> Vec<(ConnectionId, usize)> + Send + Sync>;

impl Waiting {
    /// How many bytes wait to be sent to each client for which any do, in no order; of what the kernel has taken
    /// nothing is known. Nobody before the server runs and after.
    ///
    /// Blocks until every loop has taken its turn, but not longer than a second: a loop that takes longer is left out.
    pub fn bytes(&self) -> Vec<(ConnectionId, usize)> {
        let ask = self.lock().clone();
        ask.map_or_else(Vec::new, |ask| ask())
    }

    /// From now on it is asked like this.
    pub(crate) fn by(&self, ask: impl Fn() -> Vec<(ConnectionId, usize)> + Send + Sync + 'static) {
        *self.lock() = Some(Arc::new(ask));
    }

    /// There is nobody to ask any more.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Ask>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_while_there_is_somebody_to_ask() {
        let waiting = Waiting::default();
        assert_eq!(waiting.bytes(), []);
        let asked = waiting.clone();
        waiting.by(|| vec![(ConnectionId::new(0, 1, 7), 30)]);
        assert_eq!(asked.bytes(), [(ConnectionId::new(0, 1, 7), 30)]);
        waiting.forget();
        assert_eq!(asked.bytes(), []);
    }
}
