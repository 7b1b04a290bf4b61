//! A worker's side of a call: it claims objects, runs them, and hands each result over in the ring of its slot. Its
//! states are named in the head of [`pool`](super).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use super::batch::Batch;
use super::policy::{SHORT_PER_LONG, SMALL_NS};
use crate::discard::discard;
use crate::flag::Flag;
use crate::notify::Notify;
use crate::ring::{FEW_RESULTS, Ring};
use crate::settings::Mode;
use crate::shared::{Claim, Claimed, HaltReason, Shared, Who};
use crate::work::{Raw, Work};

/// A worker whose ring is full looks this often before it sleeps: under the cost of a wake-up.
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
        // Whether a long one is the second in short time; one alone is taken for the scheduler's doing.
        let mut suspicion = 0_u32;
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
            let begun_ns = clock.now_ns();
            let mut started_ns = begun_ns;
            let mut longest_ns = 0;
            let count = claimed.objects.len() as u32;
            let mut left = claimed.objects.drain(..);
            while let Some((index, mut object)) = left.next() {
                self.set_current(slot, index);
                if shared.must_stop(started_ns) {
                    slot.current.store(NO_OBJECT, Ordering::Relaxed);
                    shared.give_back(std::iter::once((index, object)).chain(left.by_ref()), started_ns);
                    break;
                }
                let output = catch_unwind(AssertUnwindSafe(|| shared.work.run(&mut object)));
                slot.current.store(NO_OBJECT, Ordering::Relaxed);
                let ended_ns = clock.now_ns();
                meter.tick(ended_ns);
                longest_ns = longest_ns.max(ended_ns - started_ns);
                match output {
                    Ok(result) => {
                        if shared.work.halts(&result) {
                            shared.halt(HaltReason::Failed);
                        }
                        let limit = if longest_ns > SMALL_NS {
                            FEW_RESULTS
                        } else {
                            usize::MAX
                        };
                        self.hand_over(
                            slot,
                            limit,
                            Raw {
                                index,
                                started_ns,
                                ended_ns,
                                object,
                                result,
                            },
                        );
                    }
                    Err(panic) => {
                        shared.panicked(panic);
                        discard(object);
                    }
                }
                started_ns = ended_ns;
            }
            drop(left);
            batch.adapt(longest_ns, started_ns - begun_ns);
            if longest_ns <= SMALL_NS {
                suspicion = suspicion.saturating_sub(count);
                continue;
            }
            // Relaxed: a hint; the truth is under the lock.
            if suspicion > 0 && self.narrowed.load(Ordering::Relaxed) {
                self.widen();
            }
            suspicion = SHORT_PER_LONG;
        }
    }

    /// Says which object a worker is about to start. It looks whether it must stop only after that, and the caller
    /// looks who is at work only after it has stopped them: so at a deadline, whoever starts is named.
    #[inline]
    fn set_current(&self, slot: &WorkerSlot<I::Item, W::Output>, index: usize) {
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
        result: Raw<I::Item, W::Output>,
    ) {
        let limit = limit.min(slot.ring.capacity());
        let mut result = result;
        let mut spins = 0;
        // SAFETY: a slot belongs to one worker, which runs this.
        #[allow(unsafe_code)]
        while let Err(back) = unsafe { slot.ring.push(result, limit) } {
            result = back;
            if self.abandoned.is_up() {
                return discard(result);
            }
            if spins < SPINS && limit > FEW_RESULTS {
                spins += 1;
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

    fn wake_all(&self, waiting: Vec<usize>) {
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
