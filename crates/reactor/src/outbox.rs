//! What waits to be sent to one client.

/// An emptied outbox with more room than this gives its memory back, so that an idle connection holds little.
const KEPT_BYTES: usize = 4 * 1024;

/// The bytes for one client in the order sent. Grows as it must: who fills it asks [`Outbox::len`] first and holds to
/// the server's limit.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// How many of `bytes`, from the front, are with the client.
    sent: usize,
}

impl Outbox {
    /// To append to. What is there must stay.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The index in [`buffer`](Self::buffer) at which `limit` bytes wait.
    pub fn full_at(&self, limit: usize) -> usize {
        self.sent.saturating_add(limit)
    }

    /// What is still to be sent.
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// How much that is, in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether all is sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has memory of a spare from now on, if it has none: before something is put into it.
    pub fn borrow(&mut self, spares: &mut Spares) {
        if self.bytes.capacity() == 0 {
            self.bytes = spares.take();
        }
    }

    /// Gives its memory to the spares if nothing waits.
    pub fn give_back(&mut self, spares: &mut Spares) {
        if self.is_empty() {
            self.sent = 0;
            spares.give(std::mem::take(&mut self.bytes));
        }
    }

    /// The first `count` bytes of [`waiting`](Self::waiting) are with the client.
    ///
    /// # Panics
    ///
    /// If fewer are waiting.
    pub fn sent(&mut self, count: usize) {
        assert!(count <= self.len(), "sent {count} of {} bytes", self.len());
        self.sent += count;
        if self.is_empty() {
            self.sent = 0;
            self.bytes.clear();
        } else if self.sent >= self.bytes.len() / 2 {
            // At least half is behind us: each byte is moved at most once on average.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Gives memory back if it has much of it and nothing waits: for those without spares.
    pub fn shrink(&mut self) {
        if self.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
    }
}

/// Memory for the outboxes of one loop: an idle connection holds none, and a busy one gets what was in use a moment ago,
/// large enough and still in the cache.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    buffers: Vec<Vec<u8>>,
    /// Of all of them together.
    bytes: usize,
}

/// The most memory that one loop keeps.
const SPARE_BYTES: usize = 16 * 1024 * 1024;
/// A buffer with more than this is not kept. Much more than a message of the largest usual size: what goes back to the
/// allocator goes back to the kernel, and each of its pages costs a fault when it is used again.
const LARGEST_SPARE: usize = 256 * 1024;

impl Spares {
    /// The one given last; a new one if there is none.
    fn take(&mut self) -> Vec<u8> {
        let Some(buffer) = self.buffers.pop() else {
            return Vec::with_capacity(KEPT_BYTES);
        };
        self.bytes -= buffer.capacity();
        buffer
    }

    fn give(&mut self, mut buffer: Vec<u8>) {
        let size = buffer.capacity();
        if (1..=LARGEST_SPARE).contains(&size) && self.bytes + size <= SPARE_BYTES {
            buffer.clear();
            self.bytes += size;
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out_in_order(steps in prop::collection::vec((0usize..5_000, 0usize..6_000), 1..40)) {
            let (mut outbox, mut filled, mut taken) = (Outbox::default(), 0u32, 0u32);
            for (fill, take) in steps {
                for _ in 0..fill {
                    outbox.buffer().push(filled as u8);
                    filled += 1;
                }
                let take = take.min(outbox.len());
                for &byte in &outbox.waiting()[..take] {
                    prop_assert_eq!(byte, taken as u8);
                    taken += 1;
                }
                outbox.sent(take);
                prop_assert_eq!(outbox.len(), (filled - taken) as usize);
            }
        }
    }

    #[test]
    fn an_emptied_one_holds_little() {
        let mut outbox = Outbox::default();
        outbox.buffer().resize(100_000, 0);
        outbox.sent(100_000);
        outbox.shrink();
        assert!(outbox.buffer().capacity() <= KEPT_BYTES);
    }

    #[test]
    fn memory_goes_round() {
        let (mut spares, mut outbox) = (Spares::default(), Outbox::default());
        outbox.borrow(&mut spares);
        outbox.buffer().extend_from_slice(b"hello");
        outbox.give_back(&mut spares);
        assert_eq!(outbox.waiting(), b"hello", "something waits");
        outbox.sent(5);
        outbox.give_back(&mut spares);
        assert_eq!(outbox.buffer().capacity(), 0);
        let mut other = Outbox::default();
        other.borrow(&mut spares);
        assert!(other.is_empty() && other.buffer().capacity() >= 5);
        assert_eq!((spares.buffers.len(), spares.bytes), (0, 0));
    }

    #[test]
    fn spares_are_bounded() {
        let mut spares = Spares::default();
        spares.give(Vec::new());
        spares.give(vec![0; LARGEST_SPARE + 1]);
        assert_eq!(spares.buffers.len(), 0);
        for _ in 0..1_000 {
            spares.give(vec![0; LARGEST_SPARE]);
        }
        assert_eq!(spares.bytes, SPARE_BYTES);
        assert_eq!(spares.buffers.len() * LARGEST_SPARE, SPARE_BYTES);
    }
}
