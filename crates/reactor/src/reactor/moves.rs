//! What one loop knows of connections that have moved or are moving: where their halves are, and what has come for one
//! that is on its way. How they move, `moving` says.

use std::collections::HashMap;

use super::peer::Finish;
use crate::id::ConnectionId;

/// What one loop knows of connections that have moved or are moving. Empty where none do.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Where write halves are that are not at home.
    pub writers: HashMap<ConnectionId, usize>,
    /// Where read halves went that were here.
    pub readers: HashMap<ConnectionId, usize>,
    /// Write halves that leave this loop: where to, and how many loops may still send to them here.
    pub leaving: HashMap<ConnectionId, (usize, usize)>,
    /// What has come for write halves that are on their way here.
    pub coming: HashMap<ConnectionId, Vec<Held>>,
    /// Connections here whose session has joined a group.
    pub joined: Vec<ConnectionId>,
}

/// Something for a write half that is on its way.
#[derive(Debug)]
pub(super) enum Held {
    /// Its own session's output.
    Own(Vec<u8>),
    /// Messages: the loop they came from, whose they are, and how many.
    Message(usize, ConnectionId, u32, Vec<u8>),
    Finish(Finish),
    ReaderIs(usize),
}

impl Moves {
    /// The loop to which everything for this connection's client goes.
    #[inline]
    pub fn writer_of(&self, id: ConnectionId) -> usize {
        let home = usize::from(id.home());
        match self.writers.is_empty() {
            true => home,
            false => self.writers.get(&id).copied().unwrap_or(home),
        }
    }

    /// Keeps something for a write half that is on its way here. `false`: none such is.
    pub fn hold(&mut self, id: ConnectionId, held: impl FnOnce() -> Held) -> bool {
        let coming = self.coming.get_mut(&id);
        coming.map(|kept| kept.push(held())).is_some()
    }

    /// Whether its write half is on its way here.
    pub fn expects(&self, id: ConnectionId) -> bool {
        self.coming.contains_key(&id)
    }

    /// Whether its write half has moved.
    pub fn knows(&self, id: ConnectionId) -> bool {
        self.writers.contains_key(&id)
    }

    /// The connection is gone. Whether its write half was on its way here.
    pub fn forget(&mut self, id: ConnectionId) -> bool {
        self.writers.remove(&id);
        self.readers.remove(&id);
        self.coming.remove(&id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_not_moved_is_at_home_and_who_comes_is_waited_for() {
        let mut moves = Moves::default();
        let [moved, other] = [5, 6].map(|slot| ConnectionId::new(2, 0, slot));
        assert_eq!((moves.writer_of(moved), moves.knows(moved)), (2, false));
        moves.writers.insert(moved, 1);
        assert_eq!((moves.writer_of(moved), moves.knows(moved)), (1, true));
        assert_eq!((moves.writer_of(other), moves.knows(other)), (2, false));
        let kept = || Held::Own(b"for it".to_vec());
        assert!(!moves.hold(moved, kept) && !moves.expects(moved));
        moves.coming.insert(moved, Vec::new());
        assert!(moves.hold(moved, kept) && moves.expects(moved) && !moves.hold(other, kept));
        assert_eq!(moves.coming[&moved].len(), 1);
    }
}
