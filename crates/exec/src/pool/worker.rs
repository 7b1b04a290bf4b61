//! A worker's side of a call: it claims objects, runs them, and hands each result over in the ring of its slot. Its
//! states are named in the head of [`pool`](super).

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use super::batch::{Batch, Stretch};
use super::policy::{SHORT_PER_LONG, SMALL_NS};
use crate::discard::discard;
use crate::flag::Flag;
use crate::notify::Notify;
use crate::ring::{FEW_RESULTS, Ring};
use crate::settings::Mode;
use crate::shared::{Claim, Claimed, HaltReason, Shared, Who};
use crate::work::{Raw, Work};

/// A worker whose ring is full of short results looks this often before it sleeps: under the cost of a wake-up.
const SPINS: u32 = 200;
/// In place of an object's index: the worker runs none.
pub(super) const NO_OBJECT: usize = usize::MAX;

/// What a worker and the caller share.
pub(super) struct WorkerSlot<O, R> {
    /// Worker to caller.
    pub(super) ring: Ring<Raw<O, R>>,
    /// Where the worker sleeps, full or parked.
    pub(super) worker: Notify,
    pub(super) recalled: Flag,
    /// The index of the object at work, for the warning at a deadline.
    pub(super) current: AtomicUsize,
}

pub(super) type SharedSlot<O, R> = Arc<WorkerSlot<O, R>>;

/// How many results may wait in a ring with room for so many, when the longest of a batch took so long.
fn most_waiting(longest_ns: u64, capacity: usize) -> usize {
    if longest_ns > SMALL_NS {
        FEW_RESULTS
    } else {
        capacity
    }
}

/// How often a worker looks at a ring that is full with so many results before it sleeps.
fn spins(limit: usize) -> u32 {
    if limit > FEW_RESULTS { SPINS } else { 0 }
}

/// Whether a worker's long ones are more than the scheduler's doing: how many short ones after a long one are missing
/// until that is forgotten.
struct Suspicion(u32);

impl Suspicion {
    /// After a batch of so many. Whether its longest is the second long one in short time.
    fn confirmed(&mut self, longest_ns: u64, count: u32) -> bool {
        if longest_ns <= SMALL_NS {
            self.0 = self.0.saturating_sub(count);
            return false;
        }
        mem::replace(&mut self.0, SHORT_PER_LONG) > 0
    }
}

/// What the caller and all workers share.
pub(super) struct Pool<'c, I: Iterator, W: Work<I::Item>> {
    pub(super) shared: Shared<'c, I, W>,
    pub(super) mode: Mode,
    pub(super) slots: Mutex<Vec<SharedSlot<I::Item, W::Output>>>,
    /// The caller works and workers are parked for it.
    pub(super) narrowed: AtomicBool,
    /// The caller is gone: results have nowhere to go.
    pub(super) abandoned: Flag,
}

impl<I, W> Pool<'_, I, W>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
{
    /// The life of a worker.
    pub(super) fn worker(&self, number: usize, slot: &WorkerSlot<I::Item, W::Output>) {
        slot.worker.attach();
        let shared = &self.shared;
        let mut held = false;
        let mut batch = Batch::new(self.mode, W::WAITING);
        let mut suspicion = Suspicion(0);
        let mut claimed = Claimed::default();
        let mut clock = shared.clock();
        let mut meter = shared.cpu.meter();
        loop {
            let who = Who::Worker(number);
            match shared.claim(who, &mut held, batch.want, &mut claimed, |next| self.wake(next)) {
                Claim::Got => {}
                Claim::Wait | Claim::Busy => {
                    shared.wake_caller();
                    slot.worker
                        .wait(|| slot.recalled.take() || self.abandoned.is_up(), None);
                    continue;
                }
                Claim::Over => {
                    shared.wake_caller();
                    return;
                }
            }
            let mut stretch = Stretch::begun(clock.now_ns());
            let count = claimed.objects.len() as u32;
            let mut left = claimed.objects.drain(..);
            while let Some((index, mut object)) = left.next() {
                self.set_current(slot, index);
                let started_ns = stretch.at_ns;
                if shared.must_stop(started_ns) {
                    slot.current.store(NO_OBJECT, Ordering::Relaxed);
                    shared.give_back(std::iter::once((index, object)).chain(left.by_ref()), started_ns);
                    break;
                }
                let output = catch_unwind(AssertUnwindSafe(|| shared.work.run(&mut object)));
                slot.current.store(NO_OBJECT, Ordering::Relaxed);
                let ended_ns = clock.now_ns();
                meter.tick(ended_ns);
                stretch.goes_to(ended_ns);
                match output {
                    Ok(result) => {
                        if shared.work.halts(&result) {
                            shared.halt(HaltReason::Failed);
                        }
                        let raw = Raw {
                            index,
                            started_ns,
                            ended_ns,
                            object,
                            result,
                        };
                        self.hand_over(slot, most_waiting(stretch.longest_ns, slot.ring.capacity()), raw);
                    }
                    Err(panic) => {
                        shared.panicked(panic);
                        discard(object);
                    }
                }
            }
            drop(left);
            batch.adapt(stretch.longest_ns, stretch.took_ns());
            // Relaxed: a hint; the truth is under the lock.
            if suspicion.confirmed(stretch.longest_ns, count) && self.narrowed.load(Ordering::Relaxed) {
                self.widen();
            }
        }
    }

    /// Says which object a worker is about to start. It looks whether it must stop only after that, and the caller
    /// looks who is at work only after it has stopped them: so at a deadline, whoever starts is named.
    #[inline]
    pub(super) fn set_current(&self, slot: &WorkerSlot<I::Item, W::Output>, index: usize) {
        slot.current.store(index, Ordering::Relaxed);
        if self.shared.deadline().is_some() {
            // SeqCst: pairs with the fence in `Caller::sleep`.
            fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn hand_over(
        &self,
        slot: &WorkerSlot<I::Item, W::Output>,
        limit: usize,
        mut result: Raw<I::Item, W::Output>,
    ) {
        let mut spins = 0..spins(limit);
        // SAFETY: a slot belongs to one worker, which runs this.
        #[allow(unsafe_code)]
        while let Err(back) = unsafe { slot.ring.push(result, limit) } {
            result = back;
            if self.abandoned.is_up() {
                return discard(result);
            }
            if spins.next().is_some() {
                std::hint::spin_loop();
                continue;
            }
            let room = || slot.ring.len() <= limit / 2 || self.abandoned.is_up();
            slot.worker.wait(room, None);
        }
        self.shared.caller.notify();
    }

    /// Lets every worker claim again.
    pub(super) fn widen(&self) {
        self.narrowed.store(false, Ordering::Relaxed);
        self.shared.source().allowed = usize::MAX;
        self.recall();
    }

    /// Recalls whoever waits for objects; who still has nothing to claim waits on.
    pub(super) fn recall(&self) {
        let everybody = self.shared.source().everybody();
        self.wake_all(everybody);
    }

    /// Another degree from now on. What runs beyond it ends in peace.
    pub(super) fn set_degree(&self, degree: usize) {
        let recalled = {
            let mut source = self.shared.source();
            let more = degree.saturating_sub(source.degree);
            source.degree = degree;
            // While workers are parked for the caller's sake any of them may have to stay there.
            let some = if source.allowed == usize::MAX {
                more
            } else {
                usize::MAX
            };
            let left = source.parked.len().saturating_sub(some);
            source.parked.split_off(left)
        };
        self.wake_all(recalled);
    }

    pub(super) fn wake_all(&self, waiting: Vec<usize>) {
        waiting.into_iter().for_each(|number| self.wake(number));
    }

    pub(super) fn wake(&self, number: usize) {
        let slot = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(&slots[number])
        };
        slot.recalled.raise();
        slot.worker.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::pool::Leaving;
    use crate::pool::tests::{Call, TestPool};
    use crate::shared::tests::until;

    #[test]
    fn few_long_results_wait_and_the_worker_sleeps_at_once() {
        for (longest_ns, limit, times) in [(0, 64, 200), (20_000, 64, 200), (20_001, 4, 0)] {
            assert_eq!(most_waiting(longest_ns, 64), limit);
            assert_eq!(spins(limit), times);
        }
        assert_eq!(spins(5), 200);
    }

    #[test]
    fn a_second_long_one_confirms_the_suspicion_unless_64_short_ones_lie_between() {
        let mut suspicion = Suspicion(0);
        for (longest_ns, count, confirmed) in [
            (20_000, 1, false),
            (20_001, 1, false),
            (20_001, 1, true),
            (20_000, 60, false),
            (0, 3, false),
            (20_001, 1, true),
            (0, 60, false),
            (0, 4, false),
            (20_001, 100, false),
            (20_001, 1, true),
        ] {
            assert_eq!(
                suspicion.confirmed(longest_ns, count),
                confirmed,
                "{count} up to {longest_ns} ns"
            );
        }
    }

    /// The side of the first worker, on a thread of its own; it ends at the latest when the test does.
    fn beside(
        pool: &TestPool<'_>,
        worker: impl FnOnce() + Send,
        test: impl FnOnce(&WorkerSlot<usize, ()>, &dyn Fn()),
    ) {
        let slot = Arc::clone(&pool.slots.lock().unwrap()[0]);
        thread::scope(|threads| {
            let leaving = Leaving(pool);
            let worker = threads.spawn(worker);
            test(&slot, &|| {
                until(|| slot.worker.is_asleep() || worker.is_finished());
            });
            drop(leaving);
        });
    }

    fn raw(index: usize) -> Raw<usize, ()> {
        Raw {
            index,
            started_ns: 0,
            ended_ns: 1,
            object: index,
            result: (),
        }
    }

    #[test]
    fn a_worker_with_a_full_ring_sleeps_until_half_of_it_is_free() {
        Call::of(3, Mode::Prompt).in_pool(|_, pool| {
            let slot = Arc::clone(&pool.slots.lock().unwrap()[0]);
            let hand_over = || {
                slot.worker.attach();
                (0..9).for_each(|index| pool.hand_over(&slot, 8, raw(index)));
            };
            beside(pool, hand_over, |slot, rests| {
                rests();
                for left in [8, 7, 6, 5] {
                    assert_eq!(slot.ring.len(), left);
                    // SAFETY: only the test drains.
                    #[allow(unsafe_code)]
                    unsafe {
                        slot.ring.drain(1, drop)
                    };
                    slot.worker.notify();
                    rests();
                }
                assert_eq!(slot.ring.len(), 5, "four, and the one that had no room");
            });
        });
    }

    #[test]
    fn a_parked_worker_goes_on_when_it_is_recalled() {
        Call::of(3, Mode::Prompt).in_pool(|_, pool| {
            let slot = Arc::clone(&pool.slots.lock().unwrap()[0]);
            pool.shared.source().allowed = 0;
            beside(
                pool,
                || pool.worker(0, &slot),
                |slot, rests| {
                    rests();
                    assert_eq!(slot.ring.len(), 0);
                    pool.shared.source().allowed = 1;
                    pool.recall();
                    rests();
                    assert!(slot.ring.len() > 0);
                },
            );
        });
    }

    #[test]
    fn a_worker_that_sees_long_ones_recalls_those_that_stand_down_for_the_caller() {
        for (narrowed, allowed) in [(true, usize::MAX), (false, 77)] {
            Call::of(3, Mode::Prompt)
                .taking_a_millisecond()
                .in_pool(|_, pool| {
                    let slot = Arc::clone(&pool.slots.lock().unwrap()[0]);
                    pool.shared.source().allowed = 77;
                    pool.narrowed.store(narrowed, Ordering::Relaxed);
                    beside(
                        pool,
                        || pool.worker(0, &slot),
                        |slot, rests| {
                            rests();
                            assert_eq!(slot.ring.len(), FEW_RESULTS);
                            assert_eq!(pool.shared.source().allowed, allowed);
                            assert!(!pool.narrowed.load(Ordering::Relaxed));
                        },
                    );
                });
        }
    }
}
