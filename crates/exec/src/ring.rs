//! A bounded one-to-one ring: one producer, one consumer, no lock.
//!
//! `tail` is written by the producer alone, `head` by the consumer alone; each keeps its last look at the other's
//! index, so that the line travels between CPUs only when the ring seems full or empty. Indices grow without end and
//! wrap at the word; a slot is `index & mask`.
//!
//! What must never exist: two threads in `push`, or two in `drain`. The type cannot say so (both take `&self`, as both
//! ends live in one shared `WorkerSlot`), so both are `unsafe` and the owner of the slot vouches.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use crate::sync::{AtomicUsize, Ordering, UnsafeCell, publish};

/// Keeps what one side writes off the line that the other side reads.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct CachePadded<T>(pub(crate) T);

/// Results of long processors that may wait for the finisher, for each worker.
pub(crate) const FEW_RESULTS: usize = 4;
/// The same for short ones, if they are small.
const MOST_RESULTS: usize = 1024;

/// A ring of 64 KiB, as far as that is between 4 and 1,024 items.
pub(crate) const fn ring_capacity<T>() -> usize {
    let bytes = if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
    let fit = (64 << 10) / bytes;
    if fit <= FEW_RESULTS {
        FEW_RESULTS
    } else if fit >= MOST_RESULTS {
        MOST_RESULTS
    } else {
        1 << fit.ilog2()
    }
}

pub(crate) struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Next index to write. Published by the producer, read by the consumer.
    tail: CachePadded<AtomicUsize>,
    /// The producer's last look at `head`.
    seen_head: CachePadded<UnsafeCell<usize>>,
    /// Next index to read. Published by the consumer, read by the producer.
    head: CachePadded<AtomicUsize>,
}

// SAFETY: the ring hands each `T` from one thread to another, never a reference to one, so `T: Send` is enough. The
// cells are reached by the one producer (free slots, `seen_head`) and the one consumer (full slots) only, as `push`
// and `drain` demand; who owns a slot is decided by the acquire/release pairs on `tail` and `head`.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// A ring for `capacity` items, a power of two.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two());
        Self {
            slots: (0..capacity)
                .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
                .collect(),
            tail: CachePadded(AtomicUsize::new(0)),
            seen_head: CachePadded(UnsafeCell::new(0)),
            head: CachePadded(AtomicUsize::new(0)),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// How many items lie in the ring, for either side: exact about its own end, a moment old about the other's.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // SeqCst: the second look of a sleeper (`Notify::wait`) must come after its flag. Acquire, as part of it,
        // pairs with the other side's `publish`.
        let head = self.head.0.load(Ordering::SeqCst);
        self.tail.0.load(Ordering::SeqCst).wrapping_sub(head)
    }

    /// Adds an item unless `limit` items lie there (at most the capacity): then it comes back.
    ///
    /// # Safety
    ///
    /// Only one thread at a time pushes.
    #[inline]
    pub(crate) unsafe fn push(&self, item: T, limit: usize) -> Result<(), T> {
        // SAFETY: as the caller vouches.
        unsafe { self.put(item, limit, publish) }
    }

    /// As [`push`](Self::push) up to the capacity, for an item that nobody sleeps for: without the exchange that a
    /// sleeper needs.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline]
    pub(crate) unsafe fn push_unawaited(&self, item: T) -> Result<(), T> {
        // Release: pairs with the load of `tail` in `drain`.
        let publish_tail = |tail: &AtomicUsize, value| tail.store(value, Ordering::Release);
        // SAFETY: as the caller vouches.
        unsafe { self.put(item, self.capacity(), publish_tail) }
    }

    /// # Safety
    ///
    /// As [`push`](Self::push); `publish_tail` publishes the index at least with `Release`.
    #[inline]
    unsafe fn put(
        &self,
        item: T,
        limit: usize,
        publish_tail: impl FnOnce(&AtomicUsize, usize),
    ) -> Result<(), T> {
        debug_assert!(limit <= self.capacity());
        // Relaxed: only this thread writes `tail`.
        let tail = self.tail.0.load(Ordering::Relaxed);
        let seen = self.seen_head.0.with(|p| {
            // SAFETY: `seen_head` belongs to the producer, and the caller is the only one.
            unsafe { *p }
        });
        if tail.wrapping_sub(seen) >= limit {
            // Acquire: pairs with the consumer's `publish` of `head`; its read of the slot is over.
            let head = self.head.0.load(Ordering::Acquire);
            self.seen_head.0.with_mut(|p| {
                // SAFETY: as above.
                unsafe { *p = head }
            });
            if tail.wrapping_sub(head) >= limit {
                return Err(item);
            }
        }
        self.slots[tail & (self.slots.len() - 1)].with_mut(|slot| {
            // SAFETY: fewer than `capacity` items lie in the ring, so this slot is free: the consumer left it
            // (acquired above or at an earlier look) and will not come back before `tail` is published.
            unsafe { (*slot).write(item) };
        });
        publish_tail(&self.tail.0, tail.wrapping_add(1));
        Ok(())
    }

    /// Takes every item that lay there at the start, but no more than `most`, oldest first, and gives the room back in
    /// two halves. Returns how many. If `each` unwinds, the items not yet passed to it stay.
    ///
    /// # Safety
    ///
    /// Only one thread at a time drains, and `each` does not drain this ring.
    #[inline]
    pub(crate) unsafe fn drain(&self, most: usize, mut each: impl FnMut(T)) -> usize {
        // Relaxed: only this thread writes `head`. Acquire: pairs with the producer's `publish` of `tail`.
        let start = self.head.0.load(Ordering::Relaxed);
        let end = self.tail.0.load(Ordering::Acquire);
        if start == end || most == 0 {
            return 0;
        }
        let end = start.wrapping_add(end.wrapping_sub(start).min(most));
        /// Gives the room back, also when `each` unwinds.
        struct Room<'r> {
            head: &'r AtomicUsize,
            at: usize,
        }
        impl Drop for Room<'_> {
            fn drop(&mut self) {
                publish(self.head, self.at);
            }
        }
        let half = (self.slots.len() / 2).max(1);
        let mut room = Room {
            head: &self.head.0,
            at: start,
        };
        while room.at != end {
            let item = self.slots[room.at & (self.slots.len() - 1)].with(|slot| {
                // SAFETY: `head <= at < tail`, so the slot was written before `tail` was published (acquired above)
                // and nobody reads it but us; `at` moves on, so it is read once.
                unsafe { (*slot).assume_init_read() }
            });
            room.at = room.at.wrapping_add(1);
            if room.at & (half - 1) == 0 {
                // Release: the reads above are over before the producer writes there again.
                self.head.0.store(room.at, Ordering::Release);
            }
            each(item);
        }
        end.wrapping_sub(start)
    }
}

impl<T> Ring<T> {
    /// As [`drain`](Self::drain), to the end of `into` and all in one.
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn drain_into(&self, most: usize, into: &mut Vec<T>) {
        // Relaxed: only this thread writes `head`. Acquire: pairs with the producer's `publish` of `tail`.
        let start = self.head.0.load(Ordering::Relaxed);
        let end = self.tail.0.load(Ordering::Acquire);
        let count = end.wrapping_sub(start).min(most);
        let first = start & (self.slots.len() - 1);
        let to_the_edge = count.min(self.slots.len() - first);
        let (later, sooner) = (
            &self.slots[..count - to_the_edge],
            &self.slots[first..][..to_the_edge],
        );
        // From here on nothing unwinds: there is room.
        into.reserve(count);
        into.extend(sooner.iter().chain(later).map(|slot| {
            slot.with(|slot| {
                // SAFETY: these slots lie from `head` on and before `tail`, so they were written before `tail` was
                // published (acquired above) and nobody reads them but us; each once, as `head` moves on below.
                unsafe { (*slot).assume_init_read() }
            })
        }));
        publish(&self.head.0, start.wrapping_add(count));
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: nobody else drains.
        unsafe { self.drain(usize::MAX, drop) };
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_ring_has_64_kib_between_4_and_1_024_items() {
        assert_eq!(ring_capacity::<()>(), 1024);
        assert_eq!(ring_capacity::<[u8; 63]>(), 1024);
        // 655 would fit; a ring holds a power of two.
        assert_eq!(ring_capacity::<[u8; 100]>(), 512);
        assert_eq!(ring_capacity::<[u8; 8 << 10]>(), 8);
        assert_eq!(ring_capacity::<[u8; 12 << 10]>(), 4);
        assert_eq!(ring_capacity::<[u8; 1 << 20]>(), 4);
    }

    #[test]
    fn a_full_ring_gives_the_item_back() {
        let ring = Ring::new(4);
        for i in 0..3 {
            // SAFETY: one thread.
            assert_eq!(unsafe { ring.push(i, 3) }, Ok(()));
        }
        // SAFETY: one thread.
        assert_eq!(unsafe { ring.push(9, 3) }, Err(9));
        let mut seen = Vec::new();
        // SAFETY: one thread.
        assert_eq!(unsafe { ring.drain(usize::MAX, |i| seen.push(i)) }, 3);
        assert_eq!(seen, [0, 1, 2]);
        assert_eq!(ring.len(), 0);
    }

    #[test]
    fn what_is_drained_at_once_goes_round_the_edge_and_not_beyond_the_most() {
        let ring = Ring::new(4);
        let mut seen = Vec::new();
        for first in (0..30).step_by(3) {
            for item in first..first + 3 {
                // SAFETY: one thread.
                assert_eq!(unsafe { ring.push_unawaited(item) }, Ok(()));
            }
            // SAFETY: one thread.
            unsafe { ring.drain_into(2, &mut seen) };
            assert_eq!((seen.len(), ring.len()), (first + 2, 1));
            // SAFETY: one thread.
            unsafe { ring.drain_into(usize::MAX, &mut seen) };
        }
        assert!(seen.into_iter().eq(0..30));
    }

    #[test]
    fn what_is_left_is_dropped_once() {
        let item = Arc::new(());
        let ring = Ring::new(8);
        for _ in 0..5 {
            // SAFETY: one thread.
            assert!(unsafe { ring.push(Arc::clone(&item), 8) }.is_ok());
        }
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // SAFETY: one thread.
            unsafe { ring.drain(usize::MAX, |_| std::panic::resume_unwind(Box::new(()))) }
        }));
        assert!(unwound.is_err());
        assert_eq!((ring.len(), Arc::strong_count(&item)), (4, 5));
        drop(ring);
        assert_eq!(Arc::strong_count(&item), 1);
    }

    #[test]
    fn items_cross_threads_in_order() {
        let ring = Ring::new(8);
        std::thread::scope(|s| {
            s.spawn(|| {
                for i in 0..5_000_u32 {
                    let mut item = Box::new(i);
                    // SAFETY: this thread alone pushes.
                    while let Err(back) = unsafe { ring.push(item, 8) } {
                        item = back;
                        std::thread::yield_now();
                    }
                }
            });
            let mut next = 0;
            while next < 5_000 {
                // SAFETY: this thread alone drains.
                let n = unsafe {
                    ring.drain(usize::MAX, |i| {
                        assert_eq!(*i, next);
                        next += 1;
                    })
                };
                if n == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::notify::Notify;
    use loom::sync::Arc;

    #[test]
    fn loom_items_cross_once_and_in_order_and_a_sleeper_is_woken() {
        loom::model(|| {
            let shared = Arc::new((Ring::new(2), Notify::new()));
            let theirs = Arc::clone(&shared);
            shared.1.attach();
            let producer = loom::thread::spawn(move || {
                for i in 0..2 {
                    // SAFETY: this thread alone pushes; never more than the capacity in all.
                    assert!(unsafe { theirs.0.push(i, 2) }.is_ok());
                    theirs.1.notify();
                }
            });
            let mut next = 0;
            while next < 2 {
                shared.1.wait(|| shared.0.len() > 0, None);
                // SAFETY: this thread alone drains.
                unsafe {
                    shared.0.drain(usize::MAX, |i| {
                        assert_eq!(i, next);
                        next += 1;
                    })
                };
            }
            producer.join().unwrap();
        });
    }

    /// What a puller has pulled: it pushes, and others take some of it, one at a time.
    #[test]
    fn loom_who_takes_under_a_lock_takes_each_item_once() {
        use loom::sync::Mutex;
        let mut bounded = loom::model::Builder::new();
        bounded.preemption_bound = Some(3);
        bounded.check(|| {
            let shared = Arc::new((Ring::new(2), Mutex::new(Vec::new())));
            let take = |shared: &(Ring<u32>, Mutex<Vec<u32>>), most| {
                let mut taken = shared.1.lock().unwrap();
                // SAFETY: under the lock.
                unsafe { shared.0.drain_into(most, &mut taken) };
            };
            let takers = [0, 1].map(|_| {
                let theirs = Arc::clone(&shared);
                loom::thread::spawn(move || take(&theirs, 1))
            });
            for item in 0..2 {
                // SAFETY: this thread alone pushes.
                assert!(unsafe { shared.0.push_unawaited(item) }.is_ok());
            }
            take(&shared, 1);
            for taker in takers {
                taker.join().unwrap();
            }
            take(&shared, usize::MAX);
            assert_eq!(*shared.1.lock().unwrap(), [0, 1]);
        });
    }

    #[test]
    fn loom_a_full_producer_sleeps_until_there_is_room() {
        // At most three preemptions a run: without a bound it had not ended after two minutes.
        let mut bounded = loom::model::Builder::new();
        bounded.preemption_bound = Some(3);
        bounded.check(|| {
            let shared = Arc::new((Ring::new(1), Notify::new(), Notify::new()));
            let theirs = Arc::clone(&shared);
            shared.1.attach();
            let producer = loom::thread::spawn(move || {
                theirs.2.attach();
                for i in 0..2 {
                    let mut item = i;
                    // SAFETY: this thread alone pushes.
                    while let Err(back) = unsafe { theirs.0.push(item, 1) } {
                        item = back;
                        theirs.2.wait(|| theirs.0.len() == 0, None);
                    }
                    theirs.1.notify();
                }
            });
            let mut next = 0;
            while next < 2 {
                shared.1.wait(|| shared.0.len() > 0, None);
                // SAFETY: this thread alone drains.
                unsafe {
                    shared.0.drain(usize::MAX, |i| {
                        assert_eq!(i, next);
                        next += 1;
                    })
                };
                shared.2.notify();
            }
            producer.join().unwrap();
        });
    }
}
