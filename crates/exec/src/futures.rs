//! Futures as what processors are: at most *k* of them at once, finished by whoever polls the call.
//!
//! Knows no runtime. Each of the *k* slots has a waker of its own, which puts the slot's number into a queue and wakes
//! the call's task; a turn polls each future in the queue once, so that none is passed over for another that always has
//! something to do, and after some turns the call gives way to the other tasks of its thread. A slot, its waker and
//! its memory serve object after object.

use std::borrow::BorrowMut;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use crate::adaptive::Governor;
use crate::execution::ConcurrentExecution;
use crate::large;
use crate::outcome::{Done, Report, Tried, Verdict, Warning};
use crate::report::{Ran, report};
use crate::result_sink::ResultSink;
use crate::settings::Settings;
use crate::shared::{Claim, Claimed, HaltReason, Shared, Who};
use crate::spawned::{self, Task};
use crate::trying::Sorter;
use crate::work::Raw;

/// After so many turns in one poll the call gives way.
const TURNS: usize = 32;

/// What a future of a slot ends with.
pub(crate) struct Processed<O, R> {
    pub(crate) object: O,
    pub(crate) result: R,
    pub(crate) ended: Instant,
}

/// # With futures
///
/// With the feature `async`. At most *k* futures are alive at once; they need no runtime, or any. The
/// [contract](#the-contract) holds, with these differences:
///
/// - The **caller** is the task that awaits the call. The finisher runs on it, and so do futures that are not spawned.
/// - **Cancelling** is dropping the call: its end is announced, its futures are dropped, and spawned ones are dropped
///   as soon as their runtime polls them again.
/// - Nothing here has a clock. At the **deadline** nothing more starts, but its announcement and warnings wait until
///   the call is polled; the same goes for a **token** that somebody else sets.
/// - After a **panic** in the finisher, running futures are not waited for but dropped.
/// - The carrier and the mode mean nothing.
impl ConcurrentExecution {
    /// As [`for_each`](Self::for_each), with an asynchronous processor. Its futures are polled by the caller's task,
    /// need no `Send`, and may borrow from the caller and from their object.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use threadgauge_exec::ConcurrentExecution;
    ///
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut future = std::pin::pin!(future);
    /// #     let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop { if let std::task::Poll::Ready(out) = future.as_mut().poll(&mut cx) { return out } }
    /// # }
    /// # async fn call_the_service(n: &mut u32) -> usize { n.to_string().len() }
    /// # block_on(async {
    /// let ten = NonZeroUsize::new(10).unwrap();
    /// let mut letters = 0; // a task may use its own state
    /// ConcurrentExecution::new(ten)
    ///     .for_each_async(1..=1_000, async |n| call_the_service(n).await, |done| letters += done.result)
    ///     .await;
    /// assert_eq!(letters, 2_893);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Goes on with a panic of the processor, the finisher or the iterator, when polled.
    pub async fn for_each_async<I, R, P, F, V>(
        &self,
        objects: I,
        processor: P,
        mut finisher: F,
    ) -> Report<I::IntoIter, R, V::Break>
    where
        I: IntoIterator,
        P: AsyncFn(&mut I::Item) -> R,
        F: FnMut(Done<I::Item, R>) -> V,
        V: Verdict,
    {
        self.polled_here(
            objects.into_iter(),
            processor,
            |_| false,
            |done| finisher(done).flow(),
        )
        .await
    }

    /// As [`for_each_async`](Self::for_each_async), with a processor that may fail, and as
    /// [`try_for_each`](Self::try_for_each) otherwise.
    ///
    /// # Panics
    ///
    /// As [`for_each_async`](Self::for_each_async).
    pub async fn try_for_each_async<I, T, E, P, F, V>(
        &self,
        objects: I,
        processor: P,
        finisher: F,
    ) -> Tried<I::IntoIter, T, E, V::Break>
    where
        I: IntoIterator,
        P: AsyncFn(&mut I::Item) -> Result<T, E>,
        F: FnMut(Done<I::Item, T>) -> V,
        V: Verdict,
    {
        let on_error = self.when_failing();
        let mut sorter = Sorter::new(finisher);
        let report = self
            .polled_here(
                objects.into_iter(),
                processor,
                |output| on_error.halts(output),
                |done| sorter.finish(done),
            )
            .await;
        sorter.tried(report)
    }

    /// As [`for_each_async`](Self::for_each_async), with futures that `spawn` hands to a runtime, which may run them on
    /// any thread. So they borrow nothing; each gives its object back beside its result.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use threadgauge_exec::ConcurrentExecution;
    ///
    /// # let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    /// # runtime.block_on(async {
    /// let ten = NonZeroUsize::new(10).unwrap();
    /// let mut sum = 0;
    /// ConcurrentExecution::new(ten)
    ///     .for_each_spawned(
    ///         |task| drop(tokio::spawn(task)),
    ///         1..=100,
    ///         |n| async move { (n, n * n) },
    ///         |done| sum += done.result,
    ///     )
    ///     .await;
    /// assert_eq!(sum, 338_350);
    /// # });
    /// ```
    ///
    /// What borrows cannot be spawned:
    ///
    /// ```compile_fail
    /// # use std::num::NonZeroUsize;
    /// # use threadgauge_exec::ConcurrentExecution;
    /// # async fn call(spawn: impl FnMut(threadgauge_exec::Task)) {
    /// let offset = 3;
    /// let add = |n: i32| async { let sum = n + offset; (n, sum) };
    /// ConcurrentExecution::new(NonZeroUsize::MIN).for_each_spawned(spawn, 1..=100, add, |_| ()).await;
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// As [`for_each_async`](Self::for_each_async); and if the runtime drops a task that has not ended.
    pub async fn for_each_spawned<I, R, S, P, N, F, V>(
        &self,
        spawn: S,
        objects: I,
        processor: P,
        mut finisher: F,
    ) -> Report<I::IntoIter, R, V::Break>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        R: Send + 'static,
        S: FnMut(Task),
        P: FnMut(I::Item) -> N,
        N: Future<Output = (I::Item, R)> + Send + 'static,
        F: FnMut(Done<I::Item, R>) -> V,
        V: Verdict,
    {
        self.spawned(
            spawn,
            objects.into_iter(),
            processor,
            |_| false,
            |done| finisher(done).flow(),
        )
        .await
    }

    /// As [`for_each_spawned`](Self::for_each_spawned), with a processor that may fail, and as
    /// [`try_for_each`](Self::try_for_each) otherwise.
    ///
    /// # Panics
    ///
    /// As [`for_each_spawned`](Self::for_each_spawned).
    pub async fn try_for_each_spawned<I, T, E, S, P, N, F, V>(
        &self,
        spawn: S,
        objects: I,
        processor: P,
        finisher: F,
    ) -> Tried<I::IntoIter, T, E, V::Break>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
        S: FnMut(Task),
        P: FnMut(I::Item) -> N,
        N: Future<Output = (I::Item, Result<T, E>)> + Send + 'static,
        F: FnMut(Done<I::Item, T>) -> V,
        V: Verdict,
    {
        let on_error = self.when_failing();
        let mut sorter = Sorter::new(finisher);
        let report = self
            .spawned(
                spawn,
                objects.into_iter(),
                processor,
                |output| on_error.halts(output),
                |done| sorter.finish(done),
            )
            .await;
        sorter.tried(report)
    }

    async fn polled_here<I, R, P, F, B>(
        &self,
        objects: I,
        processor: P,
        halts: impl Fn(&R) -> bool,
        mut finisher: F,
    ) -> Report<I, R, B>
    where
        I: Iterator,
        P: AsyncFn(&mut I::Item) -> R,
        F: FnMut(Done<I::Item, R>) -> ControlFlow<B>,
    {
        let processor = &processor;
        if const { large::is_large::<I::Item, R>() } {
            let start = |object| process(processor, object, Box::new);
            let finisher = |done| large::finish(&mut finisher, done);
            let objects = large::Boxing(objects);
            large::report(
                self.futures(objects, start, |output| halts(output), finisher)
                    .await,
            )
        } else {
            let start = |object| process(processor, object, |result| result);
            self.futures(objects, start, halts, finisher).await
        }
    }

    async fn spawned<I, R, S, P, N, F, B>(
        &self,
        mut spawn: S,
        objects: I,
        mut processor: P,
        halts: impl Fn(&R) -> bool,
        mut finisher: F,
    ) -> Report<I, R, B>
    where
        I: Iterator,
        I::Item: Send + 'static,
        R: Send + 'static,
        S: FnMut(Task),
        P: FnMut(I::Item) -> N,
        N: Future<Output = (I::Item, R)> + Send + 'static,
        F: FnMut(Done<I::Item, R>) -> ControlFlow<B>,
    {
        if const { large::is_large::<I::Item, R>() } {
            let start = |object: Box<I::Item>| {
                // It may hold the object itself.
                let work = Box::pin(processor(*object));
                process_spawned(&mut spawn, async {
                    let (object, result) = work.await;
                    (Box::new(object), Box::new(result))
                })
            };
            let finisher = |done| large::finish(&mut finisher, done);
            let objects = large::Boxing(objects);
            large::report(
                self.futures(objects, start, |output| halts(output), finisher)
                    .await,
            )
        } else {
            let start = |object| process_spawned(&mut spawn, processor(object));
            self.futures(objects, start, halts, finisher).await
        }
    }

    async fn futures<I, R, N, F, B>(
        &self,
        objects: I,
        start: impl FnMut(I::Item) -> N,
        halts: impl Fn(&R) -> bool,
        finisher: F,
    ) -> Report<I, R, B>
    where
        I: Iterator,
        N: Future<Output = Processed<I::Item, R>>,
        F: FnMut(Done<I::Item, R>) -> ControlFlow<B>,
    {
        let settings = self.settings_of_a_call();
        let epoch = Instant::now();
        let reporter = settings.reporter(objects.size_hint(), epoch);
        let shared = Shared::new(objects, &(), &settings, epoch);
        let governor = Governor::new(settings.degree, false);
        shared.source().degree = governor.degree();
        let mut sink = ResultSink::new(finisher, epoch, settings.look_ahead.is_some(), reporter);
        let mut driver = Driver {
            governor,
            settings: &settings,
            shared: &shared,
            sink: &mut sink,
            start,
            halts,
            slots: Vec::new(),
            free: Vec::new(),
            woken: Arc::default(),
            claimed: Claimed::default(),
            warned: false,
            over: false,
        };
        poll_fn(|cx| driver.poll(cx)).await;
        drop(driver);
        sink.flush();
        report(Ran::of(shared, None), sink, epoch)
    }
}

/// The object may lie in a box, and `keep` says where the result is to lie.
async fn process<O, H, R, K>(
    processor: &impl AsyncFn(&mut O) -> R,
    mut object: H,
    keep: impl FnOnce(R) -> K,
) -> Processed<H, K>
where
    H: BorrowMut<O>,
{
    let result = keep(processor(object.borrow_mut()).await);
    Processed {
        object,
        result,
        ended: Instant::now(),
    }
}

/// Hands the work on an object to a runtime; what stays ends with it.
fn process_spawned<O, R, N>(spawn: &mut impl FnMut(Task), work: N) -> spawned::Awaiting<Processed<O, R>>
where
    O: Send + 'static,
    R: Send + 'static,
    N: Future<Output = (O, R)> + Send + 'static,
{
    spawned::start(spawn, async {
        let (object, result) = work.await;
        Processed {
            object,
            result,
            ended: Instant::now(),
        }
    })
}

/// The slots whose futures want to be polled, and whom to tell.
#[derive(Default)]
struct Woken {
    state: Mutex<WokenState>,
}

#[derive(Default)]
struct WokenState {
    queue: VecDeque<usize>,
    /// The call's task, if it sleeps.
    task: Option<Waker>,
}

impl Woken {
    fn state(&self) -> MutexGuard<'_, WokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the call's task woken by the next that comes; `false` if one is there.
    fn wake_when_any(&self, task: &Waker) -> bool {
        // A waker is foreign code: it is made and dropped without the lock.
        let mut task = Some(task.clone());
        let mut state = self.state();
        if !state.queue.is_empty() {
            return false;
        }
        std::mem::swap(&mut state.task, &mut task);
        drop(state);
        true
    }
}

/// The waker of a slot.
struct SlotWaker {
    number: usize,
    /// It is in the queue.
    queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // AcqRel: pairs with the exchange before a poll, which sees what was written before this wake-up.
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut state = self.woken.state();
            state.queue.push_back(self.number);
            // Once is enough.
            state.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

struct Slot<N> {
    /// Its memory stays; only what lies in it changes.
    future: Pin<Box<Option<N>>>,
    wakes: Arc<SlotWaker>,
    waker: Waker,
    index: usize,
    started_ns: u64,
}

/// Drives the futures of a call: claims objects, polls what is woken, finishes what is ready.
struct Driver<'c, 'd, I: Iterator, R, F, B, N, S, H> {
    governor: Governor,
    settings: &'c Settings,
    shared: &'c Shared<'c, I, ()>,
    sink: &'d mut ResultSink<I::Item, R, F, B>,
    start: S,
    halts: H,
    slots: Vec<Slot<N>>,
    /// Slots without a future.
    free: Vec<usize>,
    woken: Arc<Woken>,
    claimed: Claimed<I::Item>,
    warned: bool,
    over: bool,
}

/// A call that is dropped, or whose finisher panics, says so by its token.
impl<I: Iterator, R, F, B, N, S, H> Drop for Driver<'_, '_, I, R, F, B, N, S, H> {
    fn drop(&mut self) {
        if !self.over {
            self.shared.halt(HaltReason::Stopped);
        }
    }
}

impl<I, R, F, B, N, S, H> Driver<'_, '_, I, R, F, B, N, S, H>
where
    I: Iterator,
    N: Future<Output = Processed<I::Item, R>>,
    F: FnMut(Done<I::Item, R>) -> ControlFlow<B>,
    S: FnMut(I::Item) -> N,
    H: Fn(&R) -> bool,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // While it looks itself, nobody needs to tell it.
        let task = self.woken.state().task.take();
        drop(task);
        for _ in 0..TURNS {
            self.look_at_the_clock();
            let claim = self.fill();
            if claim == Claim::Over && self.free.len() == self.slots.len() {
                self.over = true;
                return Poll::Ready(());
            }
            if !self.turn() && self.woken.wake_when_any(cx.waker()) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Starts as many as may be at work.
    fn fill(&mut self) -> Claim {
        loop {
            if self.free.is_empty() && self.slots.len() >= self.governor.degree() {
                return Claim::Wait;
            }
            let claim = self
                .shared
                .claim(Who::Caller, &mut false, 1, &mut self.claimed, |_| ());
            let (Claim::Got, Some((index, object))) = (claim, self.claimed.objects.pop()) else {
                return claim;
            };
            let started_ns = self.shared.now_ns();
            match catch_unwind(AssertUnwindSafe(|| (self.start)(object))) {
                Ok(future) => self.occupy(index, started_ns, future),
                Err(panic) => {
                    self.shared.source().running -= 1;
                    self.shared.panicked(panic);
                }
            }
        }
    }

    fn occupy(&mut self, index: usize, started_ns: u64, future: N) {
        let number = self.free.pop().unwrap_or_else(|| {
            let wakes = Arc::new(SlotWaker {
                number: self.slots.len(),
                queued: AtomicBool::new(false),
                woken: Arc::clone(&self.woken),
            });
            self.slots.push(Slot {
                future: Box::pin(None),
                waker: Waker::from(Arc::clone(&wakes)),
                wakes,
                index,
                started_ns,
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[number];
        slot.future.set(Some(future));
        (slot.index, slot.started_ns) = (index, started_ns);
        slot.waker.wake_by_ref();
    }

    /// Polls each future in the queue once; `false` if there was none.
    fn turn(&mut self) -> bool {
        let queue = std::mem::take(&mut self.woken.state().queue);
        let any = !queue.is_empty();
        for number in queue {
            let slot = &mut self.slots[number];
            // AcqRel: pairs with `wake_by_ref`; a wake-up from here on puts it into the queue again.
            slot.wakes.queued.swap(false, Ordering::AcqRel);
            // A wake-up for an object that was done already.
            let Some(future) = slot.future.as_mut().as_pin_mut() else {
                continue;
            };
            let mut cx = Context::from_waker(&slot.waker);
            let polled = catch_unwind(AssertUnwindSafe(|| future.poll(&mut cx)));
            let output = match polled {
                Ok(Poll::Pending) => continue,
                Ok(Poll::Ready(output)) => Ok(output),
                Err(panic) => Err(panic),
            };
            slot.future.set(None);
            let (index, started_ns) = (slot.index, slot.started_ns);
            self.free.push(number);
            self.shared.source().running -= 1;
            match output {
                Ok(processed) => self.finish(index, started_ns, processed),
                Err(panic) => self.shared.panicked(panic),
            }
        }
        any
    }

    fn finish(&mut self, index: usize, started_ns: u64, processed: Processed<I::Item, R>) {
        let Processed {
            object,
            result,
            ended,
        } = processed;
        if (self.halts)(&result) {
            self.shared.halt(HaltReason::Failed);
        }
        let ended_ns = ended.saturating_duration_since(self.shared.epoch).as_nanos() as u64;
        let ended_ns = ended_ns.max(started_ns);
        self.governor.observe(started_ns, ended_ns, &self.shared.cpu);
        self.shared.source().degree = self.governor.degree();
        self.sink.deliver(Raw {
            index,
            started_ns,
            ended_ns,
            object,
            result,
        });
        if self.sink.broken.is_some() {
            self.shared.halt(HaltReason::Broken);
        }
        if let (true, Some(look_ahead)) = (self.sink.in_order(), self.settings.look_ahead) {
            self.shared.source().horizon = self.sink.next.saturating_add(look_ahead.get());
        }
    }

    /// Once after the deadline: the token is set, and who still runs is named.
    fn look_at_the_clock(&mut self) {
        let passed = |deadline| Instant::now() >= deadline;
        if self.warned || !self.shared.deadline().is_some_and(passed) {
            return;
        }
        self.warned = true;
        self.shared.halt(HaltReason::Deadline);
        for slot in &self.slots {
            if slot.future.is_some() {
                self.settings.warn(Warning::Overrun { index: slot.index });
            }
        }
    }
}
