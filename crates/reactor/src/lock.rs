//! A lock in memory that processes share, and that outlives a holder who is killed.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use rustix::thread::futex;

use crate::counters::Counters;
use crate::shared::{Shareable, Shared};

/// Set in the word while somebody may wait.
const WAITED: u32 = 1 << 31;

/// A lock for the workers of a pool, threads or forked children. Who waits sleeps in the kernel.
#[derive(Debug)]
pub(crate) struct Lock(Shared<Word>);

/// 0 while it is free, otherwise the holder's slot and 1, perhaps with [`WAITED`].
#[derive(Debug, Default)]
struct Word(AtomicU32);

// SAFETY: an atomic, valid when zero.
#[allow(unsafe_code)]
unsafe impl Shareable for Word {}

/// The lock is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    lock: &'a Lock,
    counters: &'a Counters,
}

impl Lock {
    /// A free one.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn new() -> io::Result<Self> {
        Shared::zeroed(1).map(Self)
    }

    /// Takes it for the worker in `slot`. Blocks while another has it; a signal and [`wake_all`](Self::wake_all) have
    /// it ask whether to give up, for which it returns `None`.
    pub fn take<'a>(
        &'a self,
        slot: usize,
        counters: &'a Counters,
        give_up: impl Fn() -> bool,
    ) -> Option<Held<'a>> {
        let own = slot as u32 + 1;
        let held = Held { lock: self, counters };
        let mut waited = 0;
        loop {
            // Pairs with the swap in `Held::drop`: what the last holder did is seen.
            match self.word().compare_exchange(0, own | waited, SeqCst, SeqCst) {
                Ok(_) => return Some(held),
                Err(_) if give_up() => {
                    std::mem::forget(held);
                    if waited != 0 {
                        // This may have been the one that was woken: then another is.
                        self.wake(1, counters);
                    }
                    return None;
                }
                Err(holder) if holder & WAITED == 0 => {
                    // If it fails, the next round sees why.
                    let _ = self
                        .word()
                        .compare_exchange(holder, holder | WAITED, SeqCst, SeqCst);
                }
                Err(holder) => {
                    counters.waits.add(1);
                    // It returns at once if the word is another by now; a signal ends it too.
                    let _ = futex::wait(self.word(), futex::Flags::empty(), holder, None);
                    counters.wake_ups.add(1);
                    // Others may be waiting still, and nobody else knows it.
                    waited = WAITED;
                }
            }
        }
    }

    /// Who holds it.
    pub fn holder(&self) -> Option<usize> {
        let slot = self.word().load(SeqCst) & !WAITED;
        slot.checked_sub(1).map(|slot| slot as usize)
    }

    /// Has all who wait ask again whether to give up.
    pub fn wake_all(&self, counters: &Counters) {
        self.wake(u32::MAX >> 1, counters);
    }

    /// The worker in `slot` has died: if it held the lock, it does no more. Nobody else may act for that slot.
    pub fn release_of_dead(&self, slot: usize, counters: &Counters) {
        // Only the mark of those who wait can change meanwhile.
        let _ = self.word().try_update(SeqCst, SeqCst, |word| {
            (word & !WAITED == slot as u32 + 1).then_some(0)
        });
        // In any case: it may have died after it was woken and before it took the lock.
        self.wake(1, counters);
    }

    fn word(&self) -> &AtomicU32 {
        &self.0[0].0
    }

    fn wake(&self, most: u32, counters: &Counters) {
        counters.other_calls.add(1);
        // It can only fail for a word that is not in memory.
        let _ = futex::wake(self.word(), futex::Flags::empty(), most);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.lock.word().swap(0, SeqCst) & WAITED != 0 {
            self.lock.wake(1, self.counters);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn one_at_a_time() {
        let (lock, inside, count) = (
            Lock::new().expect("memory"),
            AtomicBool::new(false),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for slot in 0..4 {
                let (lock, inside, count) = (&lock, &inside, &count);
                scope.spawn(move || {
                    let counters = Counters::default();
                    for _ in 0..2_000 {
                        let _held = lock.take(slot, &counters, || false).expect("never gives up");
                        assert!(!inside.swap(true, SeqCst), "two are inside");
                        assert_eq!(lock.holder(), Some(slot));
                        count.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                        inside.store(false, SeqCst);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 8_000);
        assert_eq!(lock.holder(), None);
    }

    #[test]
    fn a_dead_holder_does_not_hold() {
        let (lock, counters) = (Lock::new().expect("memory"), Counters::default());
        std::mem::forget(lock.take(7, &counters, || false));
        std::thread::scope(|scope| {
            for slot in 0..3 {
                let lock = &lock;
                scope.spawn(move || {
                    let counters = Counters::default();
                    drop(lock.take(slot, &counters, || false).expect("in the end"));
                });
            }
            lock.release_of_dead(5, &counters);
            assert_eq!(lock.holder(), Some(7), "another's death changes nothing");
            lock.release_of_dead(7, &counters);
        });
        assert_eq!(lock.holder(), None);
    }

    #[test]
    fn who_gives_up_leaves() {
        let (lock, counters, leave) = (
            Lock::new().expect("memory"),
            Counters::default(),
            AtomicBool::new(false),
        );
        let held = lock.take(0, &counters, || false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let counters = Counters::default();
                lock.take(1, &counters, || leave.load(SeqCst)).is_none()
            });
            leave.store(true, SeqCst);
            let deadline = Instant::now() + Duration::from_secs(120);
            while !waits.is_finished() {
                assert!(Instant::now() < deadline, "it does not give up");
                lock.wake_all(&counters);
                std::thread::yield_now();
            }
            assert!(waits.join().expect("no panic"));
        });
        drop(held);
    }
}
