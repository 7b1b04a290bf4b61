//! The pool for one call: who runs where, when to wake, and whether the caller works too.
//!
//! A **worker** claims objects, runs them and puts each result into the ring of its **slot**; the caller empties
//! the rings. Waking a sleeper on another CPU costs 20 µs where handing over an item costs 10 ns, so everything here
//! is about not waking. A worker is in one of these states:
//!
//! - *running*: it holds a permit, taken together with its objects;
//! - *full*: its ring has no room; it sleeps until the caller has made some (so a finisher that blocks is
//!   back-pressure, not memory);
//! - *parked*: there is nothing for it to claim now: its number is not `allowed`, all permits are out, or the
//!   objects are too far ahead of the finisher. It sleeps until it is recalled.
//!
//! The caller is *idle* (asleep until it is notified), *finishing*, *listening* (idle, with workers on all CPUs but
//! one, to see how short the work is), or *working*: it holds one of the *k* permits and runs processors itself
//! between two looks at the rings. Working saves the wake-up for each result, but while the caller runs a processor,
//! results of others wait. So it works only after a streak of service times that are small against a wake-up
//! ([`SMALL_NS`]) and stops at a long one, unless enough short ones ([`SHORT_PER_LONG`]) outweigh it; each time that it had to
//! stop it asks for a longer streak. While it works in the default mode there are as many workers beside it as leave it
//! a CPU, the rest is parked: more could only take CPUs from those. A worker that sees long service times recalls the
//! others by itself.
//!
//! A worker whose turn it is at the iterator may be held up there. The caller is not: while it works beside others it
//! takes what they have pulled, and it asks the iterator itself only where nobody else is at work, one object after the
//! other, each finished before the next is asked for; or as one of the carriers of the throughput mode. So it works
//! alone until its first worker has come, for a while where the workers bring it nothing, and where objects are so
//! brief that sharing them costs as much as they take. A worker held up with objects in the buffer that nobody runs is
//! relieved after [`STALL`]: another gets its permit, one more thread if there is none.
//!
//! Batches: a claim costs a lock, so short objects are claimed together, as many as make up 4 µs
//! (50 µs in the throughput mode); the count doubles only while every object is short and falls to one at the
//! first that is not. Results leave one by one.

mod batch;
mod caller;
mod policy;

use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::adaptive::Governor;
use crate::discard::discard;
use crate::execution::{Mode, Settings};
use crate::flag::Flag;
use crate::notify::Notify;
use crate::outcome::Done;
use crate::result_sink::ResultSink;
use crate::ring::Ring;
use crate::scoped;
use crate::shared::{Claim, Claimed, FEW_RESULTS, Halt, Raw, Shared, Source, Who, Work};
use crate::thread_pool::ThreadPool;
use batch::Batch;
use caller::Caller;
use policy::SHORT_PER_LONG;

/// A service time up to this is small: what waking a thread on another CPU costs.
const SMALL_NS: u64 = 20_000;
/// A worker whose ring is full looks this often before it sleeps: under the cost of a wake-up.
const SPINS: u32 = 200;
/// How often the caller looks after a worker that pulls several objects, at first and at last; held up over two looks,
/// it is relieved.
const STALL: Duration = Duration::from_millis(10);
const LONGEST_STALL: Duration = Duration::from_millis(100);
const NO_OBJECT: usize = usize::MAX;

/// What a worker and the caller share.
struct WorkerSlot<O, R> {
    /// Worker to caller.
    ring: Ring<Raw<O, R>>,
    /// Where the worker sleeps, full or parked.
    worker: Notify,
    recalled: Flag,
    /// The index of the object at work, for the warning at a deadline.
    current: AtomicUsize,
}

type SharedSlot<O, R> = Arc<WorkerSlot<O, R>>;

struct Pool<'c, I: Iterator, W: Work<I::Item>> {
    shared: Shared<'c, I, W>,
    mode: Mode,
    slots: Mutex<Vec<SharedSlot<I::Item, W::Output>>>,
    /// The caller works and workers are parked for it.
    narrowed: AtomicBool,
    /// The caller is gone: results have nowhere to go.
    abandoned: Flag,
}

pub(crate) struct Ran<I: Iterator> {
    pub(crate) source: Source<I>,
    pub(crate) iterator: I,
    pub(crate) thread_shortage: Option<io::Error>,
}

impl<I: Iterator> Ran<I> {
    /// When all carriers are gone.
    pub(crate) fn of<W>(shared: Shared<'_, I, W>, thread_shortage: Option<io::Error>) -> Self {
        let (source, iterator) = shared.into_parts();
        Self {
            source,
            iterator,
            thread_shortage,
        }
    }
}

/// Runs a call, on threads made for it or on those of a pool.
pub(crate) fn run<I, W, F, B>(
    shared: Shared<'_, I, W>,
    settings: &Settings,
    threads: Option<&ThreadPool>,
    sink: &mut ResultSink<I::Item, W::Output, F, B>,
) -> Ran<I>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
    F: FnMut(Done<I::Item, W::Output>) -> ControlFlow<B>,
{
    let governor = Governor::new(settings.degree, true);
    shared.source().degree = governor.degree();
    let pool = Pool {
        shared,
        mode: settings.mode,
        slots: Mutex::new(Vec::new()),
        narrowed: AtomicBool::new(false),
        abandoned: Flag::default(),
    };
    let thread_shortage = match threads {
        None => std::thread::scope(|scope| {
            let _leaving = Leaving(&pool);
            Caller::new(&pool, settings, governor, sink).drive(scope)
        }),
        Some(threads) => scoped::scope(threads, |scope| {
            let _leaving = Leaving(&pool);
            Caller::new(&pool, settings, governor, sink).drive(scope)
        }),
    };
    Ran::of(pool.shared, thread_shortage)
}

/// However the caller leaves, no worker stays behind, asleep.
struct Leaving<'p, 'c, I: Iterator, W: Work<I::Item>>(&'p Pool<'c, I, W>);

impl<I: Iterator, W: Work<I::Item>> Drop for Leaving<'_, '_, I, W> {
    fn drop(&mut self) {
        let pool = self.0;
        if std::thread::panicking() {
            pool.shared.halt(Halt::Panicked);
        }
        pool.abandoned.raise();
        for slot in pool.slots.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            slot.worker.notify();
        }
    }
}

impl<I, W> Pool<'_, I, W>
where
    I: Iterator + Send,
    I::Item: Send,
    W: Work<I::Item>,
{
    fn worker(&self, number: usize, slot: &WorkerSlot<I::Item, W::Output>) {
        slot.worker.attach();
        let shared = &self.shared;
        let mut held = false;
        let mut batch = Batch::new::<Raw<I::Item, W::Output>>(self.mode);
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
                            shared.halt(Halt::Failed);
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
    fn widen(&self) {
        self.narrowed.store(false, Ordering::Relaxed);
        self.shared.source().allowed = usize::MAX;
        self.recall();
    }

    /// Recalls whoever waits for objects; who still has nothing to claim waits on.
    fn recall(&self) {
        let everybody = self.shared.source().everybody();
        self.wake_all(everybody);
    }

    /// Another degree from now on. What runs beyond it ends in peace.
    fn set_degree(&self, degree: usize) {
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

    fn wake(&self, number: usize) {
        let slot = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(&slots[number])
        };
        slot.recalled.raise();
        slot.worker.notify();
    }
}
