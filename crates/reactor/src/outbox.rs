//! What waits to be sent to one client.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::memory;

/// An emptied outbox with more room than this gives its memory back, so that an idle connection holds little.
const KEPT_BYTES: usize = 4 * 1024;

/// The bytes for one client in the order sent. Grows as it must: who fills it asks [`Outbox::len`] first and holds to
/// the server's limit.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// How many of `bytes`, from the front, are with the client.
    sent: usize,
    /// What others wait for too, between the bytes; none mostly.
    shared: Option<Box<Shared>>,
    /// Set while the socket takes nothing more of what waits, once that was noted.
    stuck: Option<Stuck>,
}

/// How long a client has taken nothing. The socket taking more would show that it does, but that comes late: a kernel
/// lets a third of what it may hold become free first, megabytes perhaps, and one who reads slowly needs minutes for
/// that. So it is looked how much the client's kernel has acknowledged.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    /// Since when it has taken nothing, as far as was seen.
    since: Instant,
    /// When that was looked at last, and how much was not acknowledged.
    looked: Option<(Instant, usize)>,
}

/// How often it is looked in the time that a client may take nothing. At the first look nothing is known of before:
/// what the kernels exchange when the socket has just become full is no reading.
const LOOKS: u32 = 8;

/// Pieces that were not copied, in order. None is empty.
#[derive(Debug, Default)]
struct Shared {
    pieces: VecDeque<Piece>,
    /// How many bytes of all of them still wait.
    waiting: usize,
}

#[derive(Debug)]
struct Piece {
    bytes: Arc<[u8]>,
    /// How many of its bytes are with the client.
    sent: usize,
    /// How many bytes of the outbox's own come before it.
    at: usize,
}

/// The most slices of one [`gather`](Outbox::gather).
pub(crate) const MOST_SLICES: usize = 64;

impl Outbox {
    /// To append to. What is there must stay.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Puts these bytes behind what is there and takes them from `bytes`; without a copy where nothing is there.
    pub fn take_in(&mut self, bytes: &mut Vec<u8>) {
        match self.bytes.is_empty() {
            true => std::mem::swap(&mut self.bytes, bytes),
            false => self.bytes.append(bytes),
        }
    }

    /// The index in [`buffer`](Self::buffer) at which `limit` bytes wait.
    pub fn full_at(&self, limit: usize) -> usize {
        self.sent
            .saturating_add(limit)
            .saturating_sub(self.shared_waiting())
    }

    /// Puts bytes that others are sent too behind what is there, without a copy.
    pub fn share(&mut self, bytes: Arc<[u8]>) {
        if bytes.is_empty() {
            return;
        }
        let shared = self.shared.get_or_insert_default();
        shared.waiting += bytes.len();
        shared.pieces.push_back(Piece {
            bytes,
            sent: 0,
            at: self.bytes.len(),
        });
    }

    /// Whether it lies in several pieces: then [`gather`](Self::gather) has all of it, and [`waiting`](Self::waiting)
    /// has not.
    pub fn is_scattered(&self) -> bool {
        self.shared.is_some()
    }

    /// What is still to be sent, where nothing was [shared](Self::share).
    pub fn waiting(&self) -> &[u8] {
        debug_assert!(!self.is_scattered(), "all of it lies here");
        &self.bytes[self.sent..]
    }

    /// What is still to be sent, as far as the slices go: how many are used, and how many bytes they have.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; MOST_SLICES]) -> (usize, usize) {
        let (mut used, mut bytes, mut sent) = (0, 0, self.sent);
        let pieces = self.shared.iter().flat_map(|shared| &shared.pieces);
        let places = pieces.map(|piece| (piece.at, &piece.bytes[piece.sent..]));
        for (at, piece) in places.chain([(self.bytes.len(), &[][..])]) {
            for slice in [&self.bytes[sent..at], piece] {
                if !slice.is_empty() && used < MOST_SLICES {
                    slices[used] = IoSlice::new(slice);
                    used += 1;
                    bytes += slice.len();
                }
            }
            sent = at;
        }
        (used, bytes)
    }

    /// How much is still to be sent, in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.shared_waiting()
    }

    fn shared_waiting(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.waiting)
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

    /// The first `count` bytes of what waits are with the client.
    ///
    /// # Panics
    ///
    /// If fewer are waiting.
    pub fn sent(&mut self, count: usize) {
        assert!(count <= self.len(), "sent {count} of {} bytes", self.len());
        self.stuck = None;
        self.sent += match &mut self.shared {
            None => count,
            Some(shared) => shared.sent(count, self.sent),
        };
        self.shared.take_if(|shared| shared.waiting == 0);
        if self.is_empty() {
            self.sent = 0;
            self.bytes.clear();
        } else if self.sent >= self.bytes.len() / 2 {
            // At least half is behind us: each byte is moved at most once on average.
            self.bytes.drain(..self.sent);
            for piece in self.shared.iter_mut().flat_map(|shared| &mut shared.pieces) {
                piece.at -= self.sent;
            }
            self.sent = 0;
        }
    }

    /// Notes when the client was offered what waits, and has not taken all of it: `now` is asked for if it took
    /// anything since this was called last.
    pub fn offered(&mut self, now: impl FnOnce() -> Instant) {
        if self.stuck.is_none() && !self.is_empty() {
            self.stuck = Some(Stuck {
                since: now(),
                looked: None,
            });
        }
    }

    /// When to ask whether the client [is overdue](Self::is_overdue), where it may take nothing for `limit`; never if
    /// it takes what waits.
    pub fn look_at(&self, limit: Duration) -> Option<Instant> {
        let Stuck { since, looked } = self.stuck?;
        let looked = looked.map_or(since, |(looked, _)| looked);
        Some((looked + limit / LOOKS).min(since + limit))
    }

    /// Whether the client has taken nothing for `limit`. If it is time to look, `unacknowledged` says how many bytes of
    /// those that its socket took are not with it.
    pub fn is_overdue(
        &mut self,
        now: Instant,
        limit: Duration,
        unacknowledged: impl FnOnce() -> Option<usize>,
    ) -> bool {
        if self.look_at(limit).is_none_or(|at| now < at) {
            return false;
        }
        let Some(stuck) = &mut self.stuck else {
            return false;
        };
        let left = unacknowledged().unwrap_or(usize::MAX);
        if stuck.looked.is_some_and(|(_, before)| left < before) {
            stuck.since = now;
        }
        stuck.looked = Some((now, left));
        now >= stuck.since + limit
    }

    /// Gives memory back if it has much of it and nothing waits: for those without spares.
    pub fn shrink(&mut self) {
        if self.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        if !self.is_empty() {
            memory::left_unread(self.bytes.capacity());
        }
    }
}

impl Shared {
    /// So many bytes more are with the client, of the outbox's own from `own_sent` on and of the pieces between them:
    /// how many of the own.
    fn sent(&mut self, mut count: usize, own_sent: usize) -> usize {
        let mut own = 0;
        while let Some(piece) = self.pieces.front_mut() {
            let before = count.min(piece.at - own_sent - own);
            own += before;
            count -= before;
            let taken = count.min(piece.bytes.len() - piece.sent);
            count -= taken;
            piece.sent += taken;
            self.waiting -= taken;
            if piece.sent < piece.bytes.len() {
                return own;
            }
            self.pieces.pop_front();
        }
        own + count
    }
}

/// Memory of one loop for what waits a moment: an idle connection holds none, and a busy one gets what was in use a
/// moment ago, large enough and still in the cache.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    buffers: Vec<Vec<u8>>,
    /// Of all of them together.
    bytes: usize,
}

/// The most memory that is kept: 4 KiB for each of a thousand clients who are sent something at once.
const SPARE_BYTES: usize = 4 * 1024 * 1024;
/// A buffer with more than this is not kept. Much more than a message of the largest usual size: what goes back to the
/// allocator goes back to the kernel, and each of its pages costs a fault when it is used again.
const LARGEST_SPARE: usize = 256 * 1024;

impl Spares {
    /// The one given last; a new one if there is none.
    pub fn take(&mut self) -> Vec<u8> {
        let Some(buffer) = self.buffers.pop() else {
            return Vec::with_capacity(KEPT_BYTES);
        };
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Keeps a buffer to be used again, if there is room for it.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
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
        fn what_goes_in_comes_out_in_order(
            steps in prop::collection::vec((0usize..500, any::<bool>(), 0usize..300, 0usize..900), 1..200),
        ) {
            let (mut outbox, mut filled, mut taken) = (Outbox::default(), 0u32, 0u32);
            for (fill, is_shared, more, take) in steps {
                let mut next = |count| -> Vec<u8> {
                    filled += count as u32;
                    (filled - count as u32..filled).map(|number| number as u8).collect()
                };
                match is_shared {
                    true => outbox.share(next(fill).into()),
                    false => outbox.buffer().extend(next(fill)),
                }
                outbox.buffer().extend(next(more));
                let mut slices = [IoSlice::new(&[]); MOST_SLICES];
                let (used, bytes) = outbox.gather(&mut slices);
                let slices: Vec<u8> = slices[..used].iter().flat_map(|slice| slice.to_vec()).collect();
                prop_assert_eq!(slices.len(), bytes);
                prop_assert!(bytes == outbox.len() || used == MOST_SLICES);
                let take = take.min(bytes);
                for &byte in &slices[..take] {
                    prop_assert_eq!(byte, taken as u8);
                    taken += 1;
                }
                outbox.sent(take);
                prop_assert_eq!(outbox.len(), (filled - taken) as usize);
                prop_assert_eq!(outbox.full_at(1_000_000) + outbox.len(), 1_000_000 + outbox.buffer().len());
                if !outbox.is_scattered() {
                    prop_assert_eq!(outbox.waiting().len(), outbox.len());
                }
            }
        }
    }

    #[test]
    fn what_was_sent_is_kept_until_it_is_half() {
        let mut outbox = Outbox::default();
        outbox.buffer().extend_from_slice(b"0123456789");
        // After so many at a time: how many bytes are kept, and how many of them are with the client.
        for (sent, kept) in [(4, (10, 4)), (1, (5, 0)), (1, (5, 1)), (1, (3, 0)), (3, (0, 0))] {
            outbox.sent(sent);
            assert_eq!((outbox.bytes.len(), outbox.sent), kept);
        }
    }

    const LIMIT: Duration = Duration::from_secs(80);

    #[test]
    fn the_client_is_stuck_since_its_socket_took_something_last() {
        let (mut outbox, start) = (Outbox::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        outbox.offered(|| at(0));
        assert_eq!(outbox.look_at(LIMIT), None, "nothing waits");
        outbox.buffer().extend_from_slice(b"hello");
        outbox.offered(|| at(1));
        outbox.offered(|| at(2));
        assert_eq!(outbox.look_at(LIMIT), Some(at(11)));
        outbox.sent(3);
        assert_eq!(outbox.look_at(LIMIT), None);
        outbox.offered(|| at(3));
        outbox.buffer().extend_from_slice(b"more");
        outbox.offered(|| at(4));
        assert_eq!(outbox.look_at(LIMIT), Some(at(13)));
        outbox.sent(6);
        assert_eq!(outbox.look_at(LIMIT), None);
    }

    /// When a client is found to be overdue whose kernel has not acknowledged so much at each look.
    fn overdue_after(mut left: impl FnMut(Duration) -> Option<usize>) -> Duration {
        let (mut outbox, start) = (Outbox::default(), Instant::now());
        outbox.buffer().extend_from_slice(b"hello");
        outbox.offered(|| start);
        while let Some(now) = outbox.look_at(LIMIT) {
            let early = outbox.is_overdue(now - Duration::from_nanos(1), LIMIT, || {
                unreachable!("it is early")
            });
            let passed = now - start;
            if early || outbox.is_overdue(now, LIMIT, || left(passed)) || passed > 100 * LIMIT {
                return passed;
            }
        }
        unreachable!("it takes nothing")
    }

    #[test]
    fn who_reads_nothing_is_overdue_at_the_stated_time() {
        assert_eq!(overdue_after(|_| Some(1_000_000)), LIMIT);
        assert_eq!(overdue_after(|_| None), LIMIT, "nobody says how much");
        // What the kernels exchange at the beginning.
        assert_eq!(
            overdue_after(|passed| Some(if passed < LIMIT / LOOKS { 2 } else { 1 })),
            LIMIT
        );
    }

    #[test]
    fn who_reads_slowly_is_overdue_once_it_stops() {
        // A step in three quarters of the time.
        let step = LIMIT * 3 / 4;
        let steps = |passed: Duration| passed.as_secs() / step.as_secs();
        assert!(overdue_after(|passed| Some(1_000 - steps(passed) as usize)) > 100 * LIMIT);
        let stopped = overdue_after(|passed| Some(1_000 - steps(passed).min(20) as usize));
        assert!(
            (20 * step + LIMIT..=20 * step + LIMIT + LIMIT / LOOKS).contains(&stopped),
            "{stopped:?}"
        );
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
