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
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            } else {
                self.bytes.clear();
            }
        } else if self.sent >= self.bytes.len() / 2 {
            // At least half is behind us: each byte is moved at most once on average.
            self.bytes.drain(..self.sent);
            self.sent = 0;
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
        assert!(outbox.buffer().capacity() <= KEPT_BYTES);
    }
}
