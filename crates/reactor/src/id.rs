//! The name of a connection, by which another connection can send to it.

use std::fmt;

/// A connection of one server: never used again while the server runs, but for a wrap after 16 million connections
/// on one slot.
///
/// A protocol passes it on and compares it; what is inside concerns designs alone: the loop at which the connection
/// began (its *home*), its slot there, and how often that slot was used before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

const SLOT_BITS: u32 = 32;
const GENERATION_BITS: u32 = 24;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

impl ConnectionId {
    /// The id of the connection in `slot` of the loop `home`, the `generation`-th there (its low 24 bits count).
    pub(crate) fn new(home: u8, generation: u32, slot: u32) -> Self {
        let generation = u64::from(generation & GENERATION_MASK);
        Self(u64::from(home) << (SLOT_BITS + GENERATION_BITS) | generation << SLOT_BITS | u64::from(slot))
    }

    /// The loop at which it began.
    pub(crate) fn home(self) -> u8 {
        (self.0 >> (SLOT_BITS + GENERATION_BITS)) as u8
    }

    /// How often its slot was used before, modulo 2²⁴.
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> SLOT_BITS) as u32 & GENERATION_MASK
    }

    /// Its slot at home.
    pub(crate) fn slot(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.home(), self.slot(), self.generation())
    }
}

/// As `home.slot.generation`.
impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_come_back() {
        let id = ConnectionId::new(200, GENERATION_MASK, u32::MAX - 1);
        assert_eq!(
            (id.home(), id.generation(), id.slot()),
            (200, GENERATION_MASK, u32::MAX - 1)
        );
        assert_eq!(
            ConnectionId::new(1, GENERATION_MASK + 3, 7),
            ConnectionId::new(1, 2, 7)
        );
    }
}
